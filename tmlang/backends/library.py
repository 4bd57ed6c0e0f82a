"""What every library attack needs: the library's coordinates, a door to the model in them, and an exact way back.

Attack libraries assume inputs in [0, 1], one radius, and no frozen coordinates. A :class:`Frame` maps their cube onto
the space so that what they search is the threat's own set: ``x = clamp(low + span * z, lower, upper)``. With one
``span`` for all coordinates the map is an isometry up to scale, and the clamp, which moves points of a ball around
``x0`` into a box that holds ``x0``, never leads out of the ball and reaches all of ball and box. A linf ball whose
radii or domain differ between coordinates is taken as the box that it is: ``low, span = lower, upper - lower`` and
radius 1.
"""

from __future__ import annotations

import math
import random
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from tmlang.audit.record import REJECTED
from tmlang.backends.contract import BackendRefusal, Candidates, Job, Received
from tmlang.backends.decision import NO_DECISION
from tmlang.backends.failure import Failure
from tmlang.backends.oracle import QueryLimit
from tmlang.backends.progress import Progress
from tmlang.backends.steps import value_of
from tmlang.base.exact import round_down
from tmlang.meaning.threats import Allowed, Anything, Ball, Both, Either, Threat
from tmlang.meaning.values import Quantity, Symbol
from tmlang.plan.capability import RECEIVED

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet
    from tmlang.plan.capability import Method

Tensor = torch.Tensor


class Expired(Exception):
    """The deadline passed inside a library."""


def in_time(deadline: float | None) -> None:
    """Raises :class:`Expired` behind the deadline (of ``time.monotonic()``)."""
    if deadline is not None and time.monotonic() > deadline:
        raise Expired


@contextmanager
def isolated(seeds: Sequence[int]) -> Iterator[int]:
    """The global random states of torch, numpy and ``random``, seeded from ``seeds`` inside and restored behind.
    Warnings of the library are swallowed: what it could not do shows in the rows.

    Yields the 32-bit seed, for libraries that want to be told. It depends on all units of the batch, so a method
    that draws is ``batch_dependent`` in its manifest.
    """
    seed = int(np.random.SeedSequence(list(seeds)).generate_state(1)[0])
    saved = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` walks the stack for devices that are not there
        np.random.seed(seed)
        random.seed(seed)
        with warnings.catch_warnings(record=True):
            yield seed
    finally:
        torch.set_rng_state(saved[0])
        np.random.set_state(saved[1])
        random.setstate(saved[2])


def searched_ball(threat: Threat, norms: Sequence[str]) -> Ball | Anything | None:
    """The ball that a library with these ``norms`` searches: of several the first that it knows, ``None`` for a threat
    that minimizes. Raises :class:`BackendRefusal` when there is none."""
    if threat.allow is None:
        return None
    for part in _leaves(threat.allow):
        if isinstance(part, Ball) and part.norm in norms:
            return part
        if isinstance(part, Anything) and "anything" in norms:
            return part
    raise BackendRefusal(f"`allow:` of {threat.name} has no ball in {', '.join(norms)}")


def _leaves(allowed: Allowed) -> Iterator[Allowed]:
    if isinstance(allowed, (Both, Either)):
        for part in allowed.parts:
            yield from _leaves(part)
    else:
        yield allowed


@dataclass(frozen=True)
class Frame:
    """``x = clamp(low + span * z, lower, upper)`` for ``z`` in the unit cube; all broadcast to (n, *shape).

    ``moving``: where ``lower < upper``; elsewhere the gradient is cut. ``radius``: of the ball, in ``z`` (``None``
    when the threat minimizes). ``norm``: of the ball, in the manifest's word. ``unit``: the length in the space that is
    1 in ``z``, which step sizes are divided by; ``lengths``: a radius (``"radii"``) and the widest range (``"widths"``)
    in the space, for step sizes that are shares of them.
    """

    low: Tensor
    span: Tensor
    lower: Tensor
    upper: Tensor
    moving: Tensor
    radius: float | None
    norm: str
    unit: float
    lengths: Mapping[str | None, float]

    def values(self, z: Tensor) -> Tensor:
        """From the library's coordinates to values that the model may be shown."""
        x = z.detach() if self._same else self.low + self.span * z.detach()
        held = torch.clamp(x, self.lower, self.upper)
        if not (torch.is_grad_enabled() and z.requires_grad):
            return held
        return value_of(z if self._slope is None else z * self._slope, held)

    @cached_property
    def _same(self) -> bool:
        """Whether the library's coordinates are the values."""
        return not self.low.any() and bool((self.span == 1).all())

    @cached_property
    def _slope(self) -> Tensor | None:
        """dx/dz, zero where nothing may move; ``None`` where it is one."""
        if self._same and bool(self.moving.all()):
            return None
        return torch.where(self.moving, self.span, torch.zeros((), dtype=self.span.dtype))

    def rows(self, index: Tensor) -> Frame:
        """The frame of some examples."""

        def of(side: Tensor) -> Tensor:
            return side[index] if side.dim() and len(side) > 1 else side

        low, span, lower, upper = of(self.low), of(self.span), of(self.lower), of(self.upper)
        return replace(self, low=low, span=span, lower=lower, upper=upper, moving=of(self.moving))

    def inverse(self, x: Tensor) -> Tensor:
        """From values to the library's coordinates, within the unit cube."""
        span = torch.where(self.span > 0, self.span, torch.ones_like(self.span))
        return ((x - self.low) / span).clamp(0, 1)


def frame(sets: ThreatSet, ball: Ball | Anything | None, *, per_example: bool, minimal: bool = False) -> Frame:
    """The frame for ``sets``. Without ``per_example`` only the domain is held, so rows may come in any order.

    ``minimal``: the search comes from far away, so coordinates that may move at all move over the whole domain."""
    low, high = _domain(sets)
    lower, upper = torch.from_numpy(sets.lower), torch.from_numpy(sets.upper)
    if minimal:
        x = torch.from_numpy(sets.originals)
        lower, upper = torch.where(lower < x, low, x), torch.where(upper > x, high, x)
    widest = float((high - low).max())
    length = float(_radius(ball)) if isinstance(ball, Ball) else widest
    lengths: dict[str | None, float] = {None: 1.0, "radii": length, "widths": widest}
    if as_box(sets, ball):
        unit = 2 * length if isinstance(ball, Ball) else widest
        return Frame(lower, upper - lower, lower, upper, lower < upper, 1.0, "linf", unit, lengths)
    if not per_example:
        lower, upper = low, high
    radius, norm = _reach(sets, ball, widest)
    if isinstance(ball, Ball) and ball.norm == "l2_rms":
        lengths["radii"] *= math.sqrt(sets.space.size)
    span = torch.tensor(widest, dtype=low.dtype)
    return Frame(low, span, lower, upper, lower < upper, radius, norm, widest, lengths)


def _domain(sets: ThreatSet) -> tuple[Tensor, Tensor]:
    """The box of the space, (1, *shape) each."""
    shape = (1, *sets.space.shape)
    return torch.from_numpy(sets.domain.low.reshape(shape)), torch.from_numpy(sets.domain.high.reshape(shape))


def _reach(sets: ThreatSet, ball: Ball | Anything | None, widest: float) -> tuple[float | None, str]:
    """The radius in units of ``widest``, rounded inward, and the norm of the ball (``l2_rms <= r`` is
    ``l2 <= r sqrt(d)``); a count has no unit."""
    if ball is None:
        assert sets.threat.minimize is not None
        return None, sets.threat.minimize[0]
    if isinstance(ball, Anything):
        return 1.0, "linf"
    if ball.norm == "l2_rms":
        return math.nextafter(float(_radius(ball)) * math.sqrt(sets.space.size) / widest, 0.0), "l2"
    if ball.norm in ("l0", "pixels_changed"):
        return float(math.floor(_radius(ball))), ball.norm
    return round_down(_radius(ball) / Fraction(widest), "float64"), ball.norm


def _radius(ball: Ball) -> Fraction:
    """The radius, of a ball with several the greatest."""
    radius = ball.radius if ball.radius is not None else max(r for _, r in ball.radii)
    return radius + ball.tolerance


def as_box(sets: ThreatSet, ball: Ball | Anything | None) -> bool:
    """Whether the set is searched as the box of its coordinates' own bounds: a linf ball without one common radius
    or one common width."""
    if not (isinstance(ball, Anything) or (isinstance(ball, Ball) and ball.norm == "linf")):
        return False
    low, high = _domain(sets)
    return (isinstance(ball, Ball) and bool(ball.radii)) or len(torch.unique(high - low)) > 1


class Best:
    """The nearest failing input (l2) that the model was shown, per unit: what is left when a search is cut off."""

    def __init__(self, x: Tensor) -> None:
        self.origin, self.x = x, x.clone()
        self.distance = torch.full((len(x),), math.inf, dtype=torch.float64)

    def see(self, x: Tensor, fails: Tensor, units: Tensor) -> None:
        """Rows ``x`` of ``units`` (each unit once), and which of them fail."""
        distance = (x - self.origin[units]).flatten(1).norm(dim=1).double()
        better = fails & (distance < self.distance[units])
        self.x[units[better]], self.distance[units[better]] = x[better], distance[better]


class Door(nn.Module):
    """The model in a library's coordinates: (m, *view) in the unit cube to (m, K).

    With ``decisions`` the outputs are one-hot of the decision; a rejection and no decision at all have columns of their
    own, ``K`` and ``K + 1``. ``units``: to whom the rows of a whole batch belong. ``climbs``: the library raises a loss
    by its gradients, so that its passes tell of its progress. Raises :class:`Expired` behind the deadline.
    """

    def __init__(self, job: Job, held: Frame, *, decisions: bool, climbs: bool = False) -> None:
        super().__init__()
        self.oracle, self.frame, self.decisions, self.deadline = job.oracle, held, decisions, job.deadline
        self.shape = job.x.shape[1:]
        self.labels = job.y if job.target is None else job.target
        self.targeted = job.target is not None
        self.failure = Failure.of(job.sets, job.y, job.target)
        self.units = torch.arange(len(job.x))
        cut_off = job.oracle.limit is not None or job.deadline is not None
        self.best = Best(job.x) if cut_off else None
        self.progress = Progress(job.y, job.target) if climbs else None
        # Libraries ask the first parameter for the device.
        self.anchor = nn.Parameter(torch.zeros(0), requires_grad=False)
        self.eval()

    def forward(self, z: Tensor) -> Tensor:
        in_time(self.deadline)
        x = self.frame.values(z.reshape(-1, *self.shape))
        whole = len(x) == len(self.units)
        # Every unit once needs no list of units to be counted.
        outputs = self._ask(x, self.units if whole and len(self.units) < self.oracle.units else None)
        if self.progress is not None and outputs.requires_grad:
            self.progress.see(outputs, self.units if whole else None)
        if self.best is not None and whole:
            self.best.see(x.detach(), self._fails(x.detach(), outputs.detach()), self.units)
        return outputs

    def only(self, units: Tensor) -> None:
        """From here on whole batches are of these units."""
        self.units, self.frame, self.failure = units, self.frame.rows(units), self.failure.rows(units)

    def _ask(self, x: Tensor, units: Tensor | None) -> Tensor:
        if not self.decisions:
            return self.oracle.logits(x, units)
        decided = self.oracle.decisions(x, units)
        columns = torch.where(decided < 0, self.oracle.classes - 1 - decided.clamp(min=NO_DECISION), decided)
        return torch.nn.functional.one_hot(columns, self.oracle.classes + 2).to(x.dtype)

    def fails(self, z: Tensor, outputs: Tensor) -> Tensor:
        """(n,) bool: whether the outputs of a whole batch at ``z`` are failures, as far as this door shows them."""
        return self._fails(self.frame.values(z.detach().reshape(-1, *self.shape)), outputs)

    def _fails(self, x: Tensor, outputs: Tensor) -> Tensor:
        column = outputs.argmax(dim=1)
        classes, unfit = self.oracle.classes, self.oracle.unfit
        decided = torch.where(column < classes, column, torch.where(column == classes, REJECTED, unfit))
        # Of scores that are no numbers the greatest is none.
        decided = torch.where(outputs.amax(dim=1).isfinite(), decided, unfit)
        return self.failure(decided, x)


@dataclass(frozen=True)
class Search:
    """One call of a library: ``z`` (n, *view) originals in its coordinates, ``labels`` (n,) true or target classes,
    ``arguments`` as plain Python values, ``seed`` for libraries that take one, ``received`` as in the job."""

    door: Door
    frame: Frame
    z: Tensor
    labels: Tensor
    arguments: dict[str, Any]
    seed: int
    received: Mapping[str, Received]

    def likeliest_wrong(self) -> Tensor:
        """(n,): the class with the greatest score behind the label, for attacks that need a target."""
        with torch.no_grad():
            scores: Tensor = self.door(self.z)
        return scores.scatter(1, self.labels[:, None], -torch.inf).argmax(dim=1)

    def handed(self, argument: str) -> tuple[Tensor, Tensor]:
        """(n, *view): what an earlier stage found, in the library's coordinates, and (n,) bool for whom it did."""
        z, there = self.z.clone(), torch.zeros(len(self.z), dtype=torch.bool)
        given = self.received.get(argument)
        if given is not None and given.unit is not None and len(given.x):
            z[given.unit] = self.frame.rows(given.unit).inverse(given.x).reshape(-1, *z.shape[1:])
            there[given.unit] = True
        return z, there


class LibraryAttack(ABC):
    """An attack of a library, described by its manifest row. Candidates are projected inward before they leave.
    ``apart``: its units are searched one by one, whatever they have in common."""

    apart = False

    def __init__(self, row: Method) -> None:
        self.row = row

    @abstractmethod
    def run(self, search: Search) -> Tensor:
        """Call the library: (n, *view) in its coordinates, whatever it found, the original where nothing."""

    def search(self, job: Job) -> Candidates:
        if job.target is not None and "targeted" not in self.row.goals:
            raise BackendRefusal(f"{self.row.path} has no targeted form")
        ball = searched_ball(job.threat, self.row.norms)
        if job.threat.minimize is not None and job.threat.minimize[0] not in self.row.minimizes:
            raise BackendRefusal(f"{self.row.path} does not minimize {job.threat.minimize[0]}")
        # A rule that differs between examples needs rows in order; so does a query limit that must be exact.
        differs = job.threat.mutable.kind != "all" or as_box(job.sets, ball)
        whole = self.row.rows == "whole"
        if not self.apart and job.oracle.limit is None and (whole or not differs):
            return self._batch(job, frame(job.sets, ball, per_example=whole, minimal=self.row.minimal))
        return _joined([self._unit(job, ball, i) for i in range(len(job.x))])

    def _unit(self, job: Job, ball: Ball | Anything | None, i: int) -> Candidates:
        one = replace(
            job,
            oracle=job.oracle.unit(i),
            sets=job.sets.rows([i]),
            x=job.x[i : i + 1],
            y=job.y[i : i + 1],
            target=None if job.target is None else job.target[i : i + 1],
            seeds=job.seeds[i : i + 1],
            received={name: given.only(i) for name, given in job.received.items()},
        )
        return self._batch(one, frame(one.sets, ball, per_example=True, minimal=self.row.minimal))

    def _batch(self, job: Job, held: Frame) -> Candidates:
        climbs = self.row.access == "white_box" and not self.row.minimal
        door = Door(job, held, decisions=self.row.access == "decisions", climbs=climbs)
        view = _view(tuple(job.x.shape[1:]))
        kinds = {name: self.row.arguments[name].type for name in job.arguments}
        arguments = {n: plain(v, kinds[n], held) for n, v in job.arguments.items() if kinds[n] not in RECEIVED}
        z = held.inverse(job.x).reshape(len(job.x), *view)
        with isolated(job.seeds) as seed, torch.enable_grad():
            try:
                found = self.run(Search(door, held, z, door.labels, arguments, seed, job.received)).detach()
            except (QueryLimit, Expired) as cut:
                left = job.x if door.best is None else door.best.x
                return _offer(door, job, left, missing="timeout" if isinstance(cut, Expired) else None)
            except (RuntimeError, ValueError, AssertionError, IndexError, ZeroDivisionError) as failure:
                return _nothing(job, f"{self.row.symbol} failed: {type(failure).__name__}: {failure}")
        if found.shape != z.shape:
            return _nothing(job, f"{self.row.symbol} returned shape {tuple(found.shape)} for {tuple(z.shape)}")
        return _offer(door, job, held.values(found.reshape(job.x.shape).to(job.x.dtype)))


def plain(value: Any, kind: str, held: Frame) -> Any:
    """An argument as Python code would write it; a distance in the library's coordinates."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Symbol):
        return value.name
    if kind == "distance":
        share = value.unit if isinstance(value, Quantity) and value.unit in held.lengths else None
        return float(value.value) * held.lengths[share] / held.unit
    number = value.value if isinstance(value, Quantity) else value
    return int(number) if kind == "int" else float(number)


def _view(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Libraries know pictures (c, h, w): features become a picture of one row."""
    if len(shape) > 3:
        raise BackendRefusal(f"attack libraries take inputs of up to three axes, not {len(shape)}")
    return (1,) * (3 - len(shape)) + shape


def _offer(door: Door, job: Job, x: Tensor, *, missing: str | None = None) -> Candidates:
    """``x`` projected inward; a row that is not finite is an error, one that equals its original is no offer.

    ``missing``: the error of a row without an offer (its search was cut off)."""
    finite = torch.isfinite(x).flatten(1).all(dim=1)
    safe = torch.where(finite.reshape(-1, *[1] * (x.dim() - 1)), x, job.x)
    projected = job.sets.project(safe.numpy())
    candidates = torch.from_numpy(np.ascontiguousarray(projected.x))
    moved = (candidates != job.x).flatten(1).any(dim=1)
    offered = moved & finite & torch.from_numpy(projected.inside)
    errors = [None if ok else "the library returned a value that is not finite" for ok in finite.tolist()]
    errors = [missing if e is None and missing and not o else e for e, o in zip(errors, offered.tolist(), strict=True)]
    found = torch.where(offered.reshape(-1, *[1] * (x.dim() - 1)), candidates, job.x)
    return Candidates(found, offered, tuple(errors), door.progress.told() if door.progress else None)


def _nothing(job: Job, message: str) -> Candidates:
    return Candidates(job.x.clone(), torch.zeros(len(job.x), dtype=torch.bool), (message,) * len(job.x))


def _joined(parts: Sequence[Candidates]) -> Candidates:
    told = [p.progressed for p in parts if p.progressed is not None]
    return Candidates(
        torch.cat([p.x for p in parts]),
        torch.cat([p.offered for p in parts]),
        tuple(e for p in parts for e in p.errors),
        torch.cat(told) if len(told) == len(parts) else None,
    )
