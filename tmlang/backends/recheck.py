"""What a backend offered, decided again: is it in the set, and what does the reference evaluator say of it?

No success flag, distance or label of a library gets past this module (EVIDENCE.md sections 1 and 2). Every unit gets
one row, or two when what was offered lies outside its set: the second is its inward projection, evaluated afresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.audit.record import REJECTED, Status
from tmlang.backends.contract import Candidates
from tmlang.backends.decision import NON_FINITE_FAILS, why
from tmlang.backends.threatset import Membership, ThreatSet
from tmlang.backends.undecided import Undecided

Tensor = torch.Tensor
Values = NDArray[Any]


class Evaluator(Protocol):
    """E. ``replays``: how often a failing input must give the same decision (1 where E is bitwise repeatable)."""

    @property
    def replays(self) -> int: ...

    def decide(self, x: Tensor) -> Tensor:
        """Decisions (n,) int64 of inputs (n, *shape), one at a time: a class, ``REJECTED``, or a code of ``WHY``."""
        ...


@runtime_checkable
class PerUnit(Evaluator, Protocol):
    """An E that judges an input as one of its unit: of some of the units, in that order."""

    def rows(self, at: Tensor) -> Evaluator: ...


class Predicate(Protocol):
    """F for the units of a batch: a :class:`~tmlang.backends.failure.Failure`, or one that tests fresh draws."""

    def __call__(self, decisions: Tensor, x: Tensor) -> Tensor: ...

    def rows(self, at: Tensor) -> Predicate: ...


@dataclass(frozen=True)
class Facts:
    """One row. ``x`` (*shape) is the candidate in the space's dtype, ``None`` where there is none to keep; ``theta``
    (p,) the parameters that make it, under a transform.

    ``decision`` is ``None`` without one (nothing offered, not evaluated, non-finite output). ``fails``: F holds under
    E, replayed; it says nothing about membership, which is ``status`` (``valid`` or ``invalid`` with ``rule``).
    """

    status: Status
    message: str | None = None
    x: Values | None = None
    rule: str | None = None
    branch: str | None = None
    decision: int | None = None
    rejected: bool | None = None
    fails: bool | None = None
    linf: float | None = None
    l2: float | None = None
    l1: float | None = None
    l0: int | None = None
    distance: float | None = None
    projected: bool = False
    theta: Values | None = None

    @property
    def is_witness(self) -> bool:
        """A member that fails."""
        return self.status == "valid" and self.fails is True


def recheck(
    candidates: Candidates, sets: ThreatSet, evaluator: Evaluator, failure: Predicate
) -> tuple[tuple[Facts, ...], ...]:
    """One or two rows per unit, in order; one under a universal perturbation, which a projection would change.

    ``error``: the search failed on the unit, or gave an array of another shape, or the object gives no decision on a
    valid input. ``none``: nothing offered; the original itself is no candidate. ``unstable``: replays disagree.
    """
    shape = tuple(candidates.x.shape)
    if shape != sets.originals.shape or len(candidates.offered) != len(sets) or len(candidates.errors) != len(sets):
        said = f"the backend returned an array of shape {shape}, and {sets.originals.shape} was asked"
        return tuple((Facts("error", said),) for _ in range(len(sets)))
    x = candidates.x.detach().cpu().numpy()
    theta = _parameters(candidates)
    rows: list[list[Facts]] = [[Facts("error", e) if e is not None else Facts("none")] for e in candidates.errors]
    flat = x.reshape(len(sets), -1)
    moved = (flat != sets.originals.reshape(flat.shape)).any(axis=1)
    failed = np.array([e is not None for e in candidates.errors], np.bool_)
    offered = np.flatnonzero(candidates.offered.cpu().numpy() & moved & ~failed)
    parameters = None if theta is None else theta[offered]
    found = _rows(x[offered], sets.rows(offered), evaluator, failure, offered, theta=parameters)
    for i, facts in zip(offered, found, strict=True):
        rows[i] = [facts]
    outside = np.array([i for i in offered if rows[i][0].status == "invalid"], np.int64)
    if len(outside) and sets.threat.perturbation != "universal":
        projection = sets.rows(outside).project(x[outside])
        kept = outside[projection.inside]
        again = _rows(projection.x[projection.inside], sets.rows(kept), evaluator, failure, kept, projected=True)
        for i, facts in zip(kept, again, strict=True):
            rows[i].append(facts)
    return tuple(tuple(unit) for unit in rows)


def with_undecided(
    found: Sequence[tuple[Facts, ...]],
    undecided: Undecided | None,
    sets: ThreatSet,
    evaluator: Evaluator,
    failure: Predicate,
) -> tuple[tuple[Facts, ...], ...]:
    """``found`` of every unit, and of those without a witness what the search was shown and had no decision on, judged
    likewise: the one place that hands it in, whatever the search is. It takes the place of "nothing offered"; where E
    decides it after all it says nothing."""
    if undecided is None:
        return tuple(found)
    candidates = undecided.candidates(torch.tensor([not any(map(_settles, facts)) for facts in found]))
    if candidates is None:
        return tuple(found)
    counted = sets.threat.rejected is not None and sets.threat.rejected.kind != "safe"
    joined = []
    for facts, more in zip(found, recheck(candidates, sets, evaluator, failure), strict=True):
        told = tuple(filter(_settles, more))
        told = told or tuple(f for f in more if counted and f.status == "valid" and f.rejected)
        joined.append(facts if not told else told if facts[0].status == "none" else (*facts, *told))
    return tuple(joined)


def _settles(facts: Facts) -> bool:
    """A witness, or an allowed input that is known to have no decision."""
    return facts.is_witness or (facts.status == "error" and facts.x is not None)


def _parameters(candidates: Candidates) -> NDArray[np.float64] | None:
    """(N, p); without as many rows as there are candidates there are none."""
    if candidates.theta is None or candidates.theta.ndim != 2 or len(candidates.theta) != len(candidates.x):
        return None
    return candidates.theta.detach().to(torch.float64).cpu().numpy()


def _rows(
    x: Values,
    sets: ThreatSet,
    evaluator: Evaluator,
    failure: Predicate,
    units: NDArray[np.int64],
    *,
    theta: NDArray[np.float64] | None = None,
    projected: bool = False,
) -> list[Facts]:
    """Rows of ``x`` (n, *shape), which belong to ``units`` of the failure predicate."""
    if not len(units):
        return []
    membership = sets.member(x, theta)
    finite = np.isfinite(x.reshape(len(sets), -1)).all(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        values = x.astype(sets.domain.dtype)
    at = np.flatnonzero(finite)
    of = torch.from_numpy(units[at])
    own = evaluator.rows(of) if isinstance(evaluator, PerUnit) else evaluator
    decisions, fails, stable = _decide(torch.from_numpy(values[at]), own, failure.rows(of))
    found = dict(zip(at.tolist(), zip(decisions.tolist(), fails.tolist(), stable.tolist(), strict=True), strict=True))
    distances = sets.distances(values)
    facts = [
        _facts(m, values[i], found.get(i), {name: float(d[i]) for name, d in distances.items()}, projected)
        for i, m in enumerate(membership)
    ]
    if theta is None:
        return facts
    return [f if np.isnan(theta[i]).all() else replace(f, theta=theta[i]) for i, f in enumerate(facts)]


def _decide(x: Tensor, evaluator: Evaluator, failure: Predicate) -> tuple[Tensor, Tensor, Tensor]:
    """Decisions, F, and whether the replays of what fails (or rejects) agree. The rest is decided once."""
    decisions = evaluator.decide(x)
    fails = failure(decisions, x)
    stable = torch.ones(len(x), dtype=torch.bool)
    counted = torch.nonzero(fails | (decisions == REJECTED)).flatten()
    for _ in range(evaluator.replays - 1):
        stable[counted] &= evaluator.decide(x[counted]) == decisions[counted]
    return decisions, fails, stable


def _facts(
    membership: Membership,
    x: Values,
    found: tuple[int, bool, bool] | None,
    distances: dict[str, float],
    projected: bool,
) -> Facts:
    lengths: dict[str, Any] = {
        name: None if isnan(distances[name]) else distances[name] for name in ("linf", "l2", "l1")
    }
    lengths |= {"l0": int(distances["l0"]), "distance": None if isnan(distances["own"]) else distances["own"]}
    if found is None:
        return Facts("invalid", rule=membership.rule, projected=projected)
    decision, fails, stable = found
    status: Status = "valid" if membership.inside else "invalid"
    message = None
    if membership.inside and not stable:
        status, message = "unstable", "the replays of this input disagree"
    elif decision < REJECTED and membership.inside:
        message = why(decision)
        status = "valid" if decision == NON_FINITE_FAILS else "error"
    return Facts(
        status=status,
        message=message,
        x=x,
        rule=membership.rule,
        branch=membership.branch,
        decision=decision if decision >= REJECTED else None,
        rejected=decision == REJECTED,
        fails=fails and stable,
        projected=projected,
        **lengths,
    )
