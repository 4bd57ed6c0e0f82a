"""The allowed set S of every example, decided once and exactly (EVIDENCE.md section 3).

``S_i = ball ∩ domain ∩ mask ∩ lattice ∩ relations ∩ delivery`` around original ``x_i``. Arrays at this door are
*values* in the space's dtype, also for lattices (``value = float(low + k * step)``); indices stay inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tmlang.audit.record import BRANCHES
from tmlang.backends.allowed import Branch, branches
from tmlang.backends.distances import distances
from tmlang.backends.domain import Domain, Flags, Indices, Values
from tmlang.backends.finite import count, listed
from tmlang.backends.interval import box
from tmlang.backends.inward import project_inward
from tmlang.backends.masks import freedom
from tmlang.backends.membership import Change, Floats
from tmlang.backends.relations import holds
from tmlang.backends.transforms import TransformSet
from tmlang.diagnostics.stop import stop
from tmlang.meaning.spaces import Relation, Space
from tmlang.meaning.threats import Allowed, Threat, without_pictures

_PART = 256


@dataclass(frozen=True, slots=True)
class Membership:
    """Whether one input lies in its set. ``rule`` names the first rule it breaks (``None`` inside): ``shape``,
    ``dtype``, ``finite``, ``domain``, ``lattice``, ``mask``, ``one_hot``, ``relation <text>``, or the ball (``linf``,
    ``l2``, …; under a union one per branch). ``branch`` names every branch that holds it, joined by ``BRANCHES``
    (``None`` without a union)."""

    inside: bool
    rule: str | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """``x`` (N, *shape): members of the sets near what was given. ``inside`` (N,) is ``False`` where none was found
    (``x`` was not finite, or the original is exempt); ``x`` is then the original."""

    x: Values
    inside: Flags


class ThreatSet:
    """The allowed sets of N examples, row-aligned.

    Attributes: ``space``, ``threat``, ``domain``, ``ids`` (N,), ``originals`` (N, *shape) in the space's dtype,
    ``broken`` (N,): per original the rule of its own set that it breaks under ``originals exempt``, else ``None`` (one
    that is not finite, or off a lattice, has no distances: its set is empty, rule ``original``); ``branches``: the
    alternatives of the allowed set (one, unless it is a union).
    """

    def __init__(
        self,
        domain: Domain,
        threat: Threat,
        ids: tuple[str, ...],
        originals: Values,
        free: tuple[Flags, Flags],
        alternatives: tuple[Branch, ...],
        broken: tuple[str | None, ...],
    ) -> None:
        self.domain, self.space, self.threat = domain, domain.space, threat
        self.ids, self.originals, self.broken = ids, originals, broken
        self.branches = alternatives
        self._flat = originals.reshape(len(ids), domain.size)
        self._empty: Flags = np.zeros(len(ids), np.bool_)
        self._free = free
        self._boxes: dict[int, tuple[Values, Values]] = {}
        self._outward: tuple[Values, Values] | None = None

    @classmethod
    def build(
        cls, space: Space, threat: Threat, originals: Values, *, ids: Sequence[str], mask: Values | None = None
    ) -> ThreatSet:
        """The sets around ``originals`` (N, *shape). ``mask`` is the boolean array of a ``mask("file")`` clause, of
        shape ``shape`` or (N, *shape).

        Raises :class:`Stop`: TM820 when an original is outside its own set (naming its id and the rule), TM821 when no
        example can move at all, and the code of the clause that does not fit the space.
        """
        domain = Domain(space)
        if originals.shape != (len(ids), *space.shape):
            raise stop("TM727", f"originals of shape {originals.shape} for {len(ids)} inputs of shape {space.shape}")
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(originals, dtype=domain.dtype)
        free = freedom(space, threat.mutable, len(ids), mask)
        sets = cls(domain, threat, tuple(ids), values, free, branches(space, threat.allow), (None,) * len(ids))
        # An original lies in every ball around itself, so only the common rules are asked.
        sets.broken = tuple(rule for part in sets._parts() for rule in part._common(part.originals)[1])
        sets._empty = ~(_all(domain.indices(sets._flat)[1]) & _all(np.isfinite(sets._flat)))
        outside = [(i, rule) for i, rule in zip(ids, sets.broken, strict=True) if rule is not None]
        if outside and space.originals == "comply":
            raise _outside(sets, outside)
        if len(ids) and not sets._anything_moves():
            raise _nothing_moves(sets)
        return sets

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, indices: Sequence[int] | NDArray[np.int64]) -> ThreatSet:
        """The sets of some examples, in that order, repeats allowed."""
        at = np.asarray(indices, dtype=np.int64)
        free = tuple(f if len(f) == 1 else f[at] for f in self._free)
        ids, broken = tuple(self.ids[i] for i in at), tuple(self.broken[i] for i in at)
        part = ThreatSet(self.domain, self.threat, ids, self.originals[at], (free[0], free[1]), self.branches, broken)
        part._empty = self._empty[at]
        part._boxes = {b: (lower[at], upper[at]) for b, (lower, upper) in self._boxes.items()}
        part._outward = self._outward and (self._outward[0][at], self._outward[1][at])
        return part

    def allowing(self, allow: Allowed) -> ThreatSet:
        """The sets of the same examples with another ``allow:``, everything else kept."""
        threat = replace(self.threat, allow=allow, minimize=None)
        other = ThreatSet(
            self.domain, threat, self.ids, self.originals, self._free, branches(self.space, allow), self.broken
        )
        other._empty = self._empty
        return other

    # --- per coordinate -------------------------------------------------------------------------------------------

    @property
    def mask(self) -> Flags:
        """(N, *shape): where the attacker may move."""
        free = self._free[0] | self._free[1]
        return np.broadcast_to(free, self._flat.shape).reshape(self.originals.shape)

    @cached_property
    def _indices(self) -> Indices:
        return self.domain.indices(self._flat)[0]

    def branch_box(self, branch: int) -> tuple[Values, Values]:
        """``(lower, upper)`` (N, size) of one branch: the least and greatest admissible values of each coordinate."""
        if branch not in self._boxes:
            limits = self.branches[branch].hull
            parts = list(self._parts()) if len(self) > _PART else [self]
            ends = [box(p.domain, p._flat, p._indices, limits, p._free) for p in parts]
            lower, upper = (np.concatenate(side) for side in zip(*ends, strict=True))
            self._boxes[branch] = lower, upper
        return self._boxes[branch]

    @cached_property
    def lower(self) -> Values:
        """(N, *shape): the least admissible value of each coordinate, over all branches; itself a value of the set's
        grid (rounded inward)."""
        return self._hull(0, np.minimum)

    @cached_property
    def upper(self) -> Values:
        """(N, *shape): the greatest admissible value of each coordinate."""
        return self._hull(1, np.maximum)

    def _hull(self, end: int, widest: np.ufunc) -> Values:
        values = self.branch_box(0)[end]
        for b in range(1, len(self.branches)):
            values = widest(values, self.branch_box(b)[end])
        return values.reshape(self.originals.shape)

    def outward_box(self) -> tuple[Values, Values]:
        """A box per example (N, *shape) that contains S and every real point of the ball: rounded down and up."""
        if self._outward is None:
            free, shape = self._free, self.originals.shape
            ends = [box(self.domain, self._flat, self._indices, b.hull, free, outward=True) for b in self.branches]
            lower = np.minimum.reduce([e[0] for e in ends])
            upper = np.maximum.reduce([e[1] for e in ends])
            self._outward = lower.reshape(shape), upper.reshape(shape)
        return self._outward

    def _anything_moves(self) -> bool:
        return any((part.lower < part.upper).any() for part in self._parts())

    def _parts(self) -> Iterator[ThreatSet]:
        """The sets in order, a few at a time, so that what is worked out about them stays small."""
        for start in range(0, len(self), _PART):
            yield self.rows(np.arange(start, min(start + _PART, len(self))))

    # --- membership -----------------------------------------------------------------------------------------------

    def member(self, x: Values, theta: Floats | None = None) -> list[Membership]:
        """Exact membership of row ``x[i]`` in set ``i``; NaN and infinities are never inside. ``theta`` (N, p): the
        parameters that are said to have made it, without which nothing lies in a set of transforms."""
        if x.shape != self.originals.shape:
            return [Membership(False, "shape")] * len(self)
        good, rules = self._common(x)
        held = self._held(x, good, theta)
        union = bool(self.branches[0].name)
        result = []
        for i in range(len(self)):
            names = dict.fromkeys(b.name for b, (ok, _) in zip(self.branches, held, strict=True) if ok[i])
            if names and good[i]:
                result.append(Membership(True, None, BRANCHES.join(names) if union else None))
            else:
                result.append(Membership(False, rules[i] or self._broken_balls(held, i)))
        return result

    def inside(self, x: Values, theta: Floats | None = None) -> Flags:
        """Like :meth:`member`, without the reasons: (N,) bool."""
        if x.shape != self.originals.shape:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self.inside_branches(x, theta).any(axis=0))

    def inside_branches(self, x: Values, theta: Floats | None = None) -> Flags:
        """Membership of ``x`` (N, *shape) in every branch: (branches, N) bool."""
        return np.stack([inside for inside, _ in self._held(x, self._common(x)[0], theta)])

    def _common(self, x: Values) -> tuple[Flags, list[str | None]]:
        """Who obeys the rules that all branches share, and the first rule that the others break."""
        good = np.ones(len(self), np.bool_)
        rules: list[str | None] = [None] * len(self)
        for rule, holds_here in self._common_rules(x, good):
            for i in np.flatnonzero(good & ~holds_here):
                rules[i] = rule
            good &= holds_here
        return good, rules

    def _common_rules(self, x: Values, good: Flags) -> Iterator[tuple[str, Flags]]:
        """The rules that all branches share, in order. ``good`` holds what was found so far (updated by the caller):
        later rules look at nothing else."""
        flat = x.reshape(self._flat.shape)
        yield "original", ~self._empty
        yield "finite", _all(np.isfinite(flat))
        with np.errstate(over="ignore", invalid="ignore"):
            yield "dtype", _all(flat.astype(self.domain.dtype) == flat)
        yield "domain", _all((flat >= self.domain.low) & (flat <= self.domain.high))
        k, on_grid = self.domain.indices(flat)
        yield "lattice", _all(on_grid)
        up, down = self._free
        yield "mask", _all(((flat <= self._flat) | up) & ((flat >= self._flat) | down))
        for group in self.space.one_hot:
            chosen = flat[:, [self.space.features.index(name) for name in group]]
            yield "one_hot", _all((chosen == 0) | (chosen == 1)) & (chosen.sum(axis=1) == 1)
        for relation in self.space.relations:
            yield f"relation {relation.text}".rstrip(), self.obeys(relation, flat, k, good)

    def obeys(self, relation: Relation, flat: Values, k: Indices, where: Flags) -> Flags:
        """Whether each input (n, size) with indices ``k`` obeys a relation; ``False`` outside ``where``."""
        domain, at = self.domain, np.flatnonzero(where)
        features = {name: j for j, name in enumerate(self.space.features)}
        columns = {name: domain.numbers(flat, k, j)[at] for name, j in features.items()}

        def exact(i: int) -> dict[str, Fraction]:
            return {name: domain.exact(flat[at[i]], k[at[i]], j) for name, j in features.items()}

        result = np.zeros(len(flat), np.bool_)
        result[at] = holds(relation, columns, exact, len(at))
        return result

    def _held(self, x: Values, good: Flags, theta: Floats | None) -> list[tuple[Flags, Flags]]:
        """Per branch: who lies in it, and who lies within its limits. Inputs that are not ``good`` lie in none."""
        at = np.flatnonzero(good)
        if not len(at):
            return [(good, good) for _ in self.branches]
        part = self if len(at) == len(self) else self.rows(at)
        flat = x.reshape(self._flat.shape)[at].astype(self.domain.dtype)
        said = None if theta is None else theta[at]
        change = Change(self.domain, flat, part._flat, *self.domain.indices(flat), part._indices, said)
        held = []
        for b, branch in enumerate(self.branches):
            inside, near = np.zeros((2, len(self)), np.bool_)
            within = part._within_limits(b, flat)
            near[at] = within
            inside[at] = np.logical_and.reduce([within, *(s.holds(change) for s in branch.sets)])
            held.append((inside, near))
        return held

    def _within_limits(self, b: int, flat: Values) -> Flags:
        branch = self.branches[b]
        if branch.limits.unlimited:
            return np.ones(len(self), np.bool_)
        if branch.sets:
            lower, upper = box(self.domain, self._flat, self._indices, branch.limits, self._free)
        else:
            lower, upper = self.branch_box(b)
        return _all((flat >= lower) & (flat <= upper))

    def _broken_balls(self, held: list[tuple[Flags, Flags]], row: int) -> str:
        parts = []
        for branch, (_, near) in zip(self.branches, held, strict=True):
            rule = " and ".join([s.name for s in branch.sets] if near[row] else branch.rules)
            parts.append(f"{branch.name}: {rule}" if branch.name else rule)
        return "; ".join(dict.fromkeys(parts))

    # --- further views, each in its own module --------------------------------------------------------------------

    def change(self, x: Values) -> Change:
        """The change from the originals to finite ``x`` (N, *shape)."""
        flat = x.reshape(self._flat.shape).astype(self.domain.dtype)
        return Change(self.domain, flat, self._flat, *self.domain.indices(flat), self._indices)

    def distances(self, x: Values) -> Mapping[str, Values]:
        """``linf``, ``l2``, ``l1`` (float64, NaN where the mutable units differ), ``l0`` (int64) and ``own``: in the
        threat's own ball norm, metric or minimized norm (NaN under a union). NaN rows have NaN distances."""
        return distances(self, x)

    def project(self, x: Values) -> Projection:
        """Members near ``x`` (N, *shape), rounded inward, each verified by :meth:`inside`; a member stays as it is.
        Nothing is projected onto the pictures of a transform."""
        if self.without_pictures is None:
            return Projection(self.originals.copy(), np.zeros(len(self), np.bool_))
        return Projection(*project_inward(self.without_pictures, x))

    @property
    def transforms(self) -> tuple[TransformSet, ...]:
        """The transforms whose pictures are in these sets, each once, in the order written."""
        return tuple(dict.fromkeys(b.transform for b in self.branches if b.transform is not None))

    @property
    def parameters(self) -> int:
        """How many parameters of transforms a candidate keeps."""
        return max((transform.kept for transform in self.transforms), default=0)

    @property
    def without_pictures(self) -> ThreatSet | None:
        """The sets without the pictures of a transform; ``None`` where these are all that is in them."""
        if not self.transforms:
            return self
        allow = without_pictures(self.threat.allow)
        return None if allow is None else self.allowing(allow)

    def beside(self, branch: int, x: Values) -> Flags:
        """Which of ``x`` (N, *shape) the limits and balls of a branch hold, whatever else they break: (N,) bool."""
        change = self.change(x)
        balls = (ball.holds(change) for ball in self.branches[branch].balls)
        held: Flags = np.logical_and.reduce([self._within_limits(branch, change.x), *balls])
        return held

    def count(self, limit: int) -> list[int | None]:
        """|S| per example, exact; ``None`` where it exceeds ``limit`` (real coordinates that move always do)."""
        return [count(self, row, limit) for row in range(len(self))]

    def enumerate(self, row: int, limit: int) -> Values | None:
        """All members of set ``row``, each once: (|S|, *shape), or ``None`` beyond ``limit``."""
        found = listed(self, row, limit)
        return None if found is None else found[0]


def _all(flags: Flags) -> Flags:
    every: Flags = np.all(flags, axis=1)
    return every


def _outside(sets: ThreatSet, outside: list[tuple[str, str]]) -> Exception:
    shown = [f"{i}: {rule}" for i, rule in outside[:10]]
    more = [f"and {len(outside) - 10} more"] if len(outside) > 10 else []
    first, rule = outside[0]
    count = f"{len(outside)} of {len(sets)} originals are" if len(outside) > 1 else f"original `{first}` is"
    return stop(
        "TM820", f"{count} outside the allowed set: rule `{rule}`", sets.threat.origin, notes=(*shown, *more),
        help="mend the data or the space, or write `originals exempt` in the space to list and count them",
    )  # fmt: skip


def _nothing_moves(sets: ThreatSet) -> Exception:
    steps = sorted({lattice.step for _, lattice, _ in sets.domain.groups if lattice is not None})
    levels = f"the inputs move in steps of {', '.join(map(str, steps))}: " if steps else ""
    return stop(
        "TM821", "the allowed set holds nothing but the original, for every example", sets.threat.origin,
        notes=(f"{levels}no mutable coordinate has a second value within the radius",),
        help="write the radius in whole levels (8 'levels'), or a mutable part that can move",
    )  # fmt: skip
