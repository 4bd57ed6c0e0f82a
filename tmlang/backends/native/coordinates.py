"""Greedy search over one feature at a time: for categories, counts and unlike units under relations.

Where no change of one feature is better, one goes back to the original (or to an end of its range) together with the
change of another: at the edge of a ball nothing can be gained without giving something up. Every proposal is tested for
exact membership before the model is asked, so relations, one-hot groups and a metric hold throughout; only scores are
needed.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.contract import Candidates, Job
from tmlang.backends.inward import rounded
from tmlang.backends.native.arguments import whole
from tmlang.backends.native.coupled import broken, mended
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.native.losses import Loss, aims, loss_of
from tmlang.backends.threatset import ThreatSet

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor
Values = NDArray[Any]

_SHARES = (1.0, 0.5, 0.25, 1 / 16, 1 / 64)
"""How far a proposal goes to the end of its coordinate's range."""
_DRAWS = 3
"""Proposals at a uniform place of the range."""
_COORDINATES = 48
"""Coordinates that are tried in one round; of more a random choice."""
_WAYS = 3
"""Ways to bring a proposal that breaks a relation back into it."""
_EXCHANGES = 6
"""Coordinates that give way, one at a time, where no change of one alone is better."""


class Coordinates:
    """``native.coordinates``: from the original, then from ``restarts - 1`` random members, take the best change of one
    feature, or of two where no one is better, until nothing is or ``rounds`` are over."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        hunt = Hunt(job)
        for restart, aim in product(range(whole(job.arguments["restarts"])), aims(job, loss_of(job, "margin"))):
            units = hunt.open()
            if len(units):
                _climb(hunt, units, restart, whole(job.arguments["rounds"]), aim)
        return hunt.result()


def _climb(hunt: Hunt, units: Tensor, restart: int, rounds: int, aim: Loss) -> None:
    job = hunt.job
    draws = [np.random.default_rng((job.seeds[u], restart)) for u in units.tolist()]
    x = job.sets.rows(units.numpy()).originals.reshape(len(units), -1)
    if restart:
        x = _random_members(job.sets.rows(units.numpy()), draws)
    best = torch.full((len(units),), -torch.inf, dtype=job.x.dtype)
    proposals, owners = x, np.arange(len(units))
    stuck = np.zeros(len(units), np.bool_)
    for _ in range(rounds):
        best, x, improved = _ask(hunt, aim, units, proposals, owners, x, best)
        kept = np.flatnonzero((hunt.going(units) & (improved | ~torch.from_numpy(stuck))).numpy())
        if not len(kept):
            return
        stuck = ~improved.numpy()[kept]
        units, x, best, draws = units[kept], x[kept], best[kept], [draws[i] for i in kept]
        proposals, owners = _proposals(job.sets.rows(units.numpy()), x, draws, stuck)


def _ask(
    hunt: Hunt, aim: Loss, units: Tensor, proposals: Values, owners: NDArray[np.intp], x: Values, best: Tensor
) -> tuple[Tensor, Values, Tensor]:
    """Loss and input of the best proposal of every unit, and where it is better than what was there."""
    job = hunt.job
    left = job.oracle.remaining()
    if left is not None:
        place = np.arange(len(owners)) - np.searchsorted(owners, owners)
        fits = place < (left[units] // job.oracle.rows).numpy()[owners]
        proposals, owners = proposals[fits], owners[fits]
    if not len(owners):
        return best, x, torch.zeros(len(units), dtype=torch.bool)
    rows = units[owners]
    shown = torch.from_numpy(proposals).to(job.x.dtype).reshape(-1, *job.x.shape[1:])
    with torch.no_grad():
        seen, _ = hunt.look(shown, rows)
    value = aim(seen, job.y[rows], None if job.target is None else job.target[rows]).to(best.dtype)
    top = torch.full_like(best, -torch.inf).scatter_reduce(0, torch.from_numpy(owners), value, "amax")
    improved = top > best
    x = x.copy()
    for row in np.flatnonzero((value == top[owners]).numpy())[::-1]:
        if improved[owners[row]]:
            x[owners[row]] = proposals[row]
    return torch.where(improved, top, best), x, improved


def _proposals(
    sets: ThreatSet, x: Values, draws: list[np.random.Generator], stuck: NDArray[np.bool_]
) -> tuple[Values, NDArray[np.intp]]:
    """Members that differ from ``x`` (n, size) in one coordinate, or in two where it is ``stuck``, and whose they are
    (ascending)."""
    start = sets.originals.reshape(x.shape)
    lower, upper = (end.reshape(x.shape).astype(np.float64) for end in (sets.lower, sets.upper))
    found, owners = [np.empty((0, x.shape[1]))], [np.empty(0, np.intp)]
    for i, source in enumerate(draws):
        moving = np.flatnonzero(lower[i] < upper[i])
        bases = x[i : i + 1].astype(np.float64)
        if stuck[i]:
            bases = _giving_way(sets, bases[0], (start[i], lower[i], upper[i]), moving, source)
        for base in bases:
            tried = _changed_once(sets, base, lower[i], upper[i], moving, source)
            found.append(tried)
            owners.append(np.full(len(tried), i))
    of = np.concatenate(owners)
    values = rounded(sets, np.concatenate(found), start[of].astype(np.float64))
    if sets.space.relations:
        values, of = _with_others(sets, x, values, of, draws)
    keep = sets.rows(of).inside(values.reshape(-1, *sets.space.shape)) & (values != x[of]).any(axis=1)
    return values[keep], of[keep]


def _with_others(
    sets: ThreatSet, x: Values, values: Values, of: NDArray[np.intp], draws: list[np.random.Generator]
) -> tuple[Values, NDArray[np.intp]]:
    """``values`` (n, size) and whose they are; in place of those that break a relation others that have more features
    moved, a few ways each."""
    wrong = broken(sets, values)
    rows = np.repeat(np.flatnonzero(wrong), _WAYS)
    order = np.array([source.permutation(x.shape[1]) for source in draws]).reshape(len(draws), -1)
    priority = (order[of[rows]] + np.tile(np.arange(_WAYS), int(wrong.sum()))[:, None]) % x.shape[1]
    near = sets.rows(of[rows])
    moved = mended(near, values[rows], values[rows] != x[of[rows]], priority.astype(np.float64))
    moved = rounded(sets, moved, near.originals.reshape(moved.shape).astype(np.float64))
    values, of = np.concatenate([values[~wrong], moved]), np.concatenate([of[~wrong], of[rows]])
    ascending = np.argsort(of, kind="stable")
    return values[ascending], of[ascending]


def _giving_way(
    sets: ThreatSet, own: Values, ends: tuple[Values, ...], moving: NDArray[np.intp], source: np.random.Generator
) -> Values:
    """``own`` (size,) with one coordinate at its original (where it is not there), else at a random end."""
    given = source.permutation(moving)[:_EXCHANGES]
    start, lower, upper = ends
    other = np.where(source.random(len(given)) < 0.5, lower[given], upper[given])
    bases = np.repeat(own[None], len(given), axis=0)
    bases[np.arange(len(given)), given] = np.where(own[given] != start[given], start[given], other)
    return one_of_each(sets, bases, given)


def _changed_once(
    sets: ThreatSet, own: Values, low: Values, high: Values, moving: NDArray[np.intp], source: np.random.Generator
) -> Values:
    """``own`` (size,) with one coordinate elsewhere in its range (n, size), not rounded yet."""
    if len(moving) > _COORDINATES:
        moving = source.choice(moving, _COORDINATES, replace=False)
    ways = [own[moving] + s * (end[moving] - own[moving]) for end in (low, high) for s in _SHARES]
    ways += [low[moving] + u * (high[moving] - low[moving]) for u in source.random((_DRAWS, len(moving)))]
    changed = np.tile(moving, len(ways))
    tried = np.repeat(own[None], len(changed), axis=0)
    tried[np.arange(len(tried)), changed] = np.concatenate(ways)
    return one_of_each(sets, tried, changed)


def one_of_each(sets: ThreatSet, tried: Values, changed: NDArray[np.intp]) -> Values:
    """In a one-hot group the feature that changes becomes the one that is chosen."""
    for group in sets.space.one_hot:
        at = np.array([sets.space.features.index(name) for name in group])
        rows = np.flatnonzero(np.isin(changed, at))
        tried[np.ix_(rows, at)] = 0
        tried[rows, changed[rows]] = 1
    return tried


def _random_members(sets: ThreatSet, draws: list[np.random.Generator]) -> Values:
    """The projections of uniform points of the boxes."""
    lower, upper = sets.lower.astype(np.float64), sets.upper.astype(np.float64)
    share = np.stack([source.random(sets.space.shape) for source in draws])
    return sets.project(lower + share * (upper - lower)).x.reshape(len(sets), -1)
