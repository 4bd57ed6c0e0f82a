"""The allowed set S of every example, decided once and exactly (EVIDENCE.md section 3).

``S_i = ball ∩ domain ∩ mask ∩ lattice ∩ relations ∩ delivery`` around original ``x_i``. Arrays at this door are
*values* in the space's dtype, also for lattices (``value = float(low + k * step)``); indices stay inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Threat

Values = NDArray[Any]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Membership:
    """Whether one input lies in its set. ``rule`` names the first rule it breaks (``None`` inside): ``shape``,
    ``dtype``, ``finite``, ``domain``, ``lattice``, ``mask``, ``one_hot``, ``relation: <text>``, or the ball
    (``linf``, ``l2``, …, per branch under a union). ``branch`` names the first branch that holds it."""

    inside: bool
    rule: str | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """``x`` (N, *shape): members of the sets near what was given. ``inside`` (N,) is ``False`` where none was found
    (only for an exempt original); ``x`` is then the original."""

    x: Values
    inside: Flags


class SetError(Exception):
    """The set cannot be built: an original outside its own set, nothing to move, a clause that fits no coordinate.

    ``rule`` is the broken rule, ``ids`` the examples it concerns, ``help`` what to write instead.
    """

    def __init__(self, message: str, *, rule: str, ids: Sequence[str] = (), help: str = "") -> None:
        super().__init__(message)
        self.rule, self.ids, self.help = rule, tuple(ids), help


class ThreatSet:
    """The allowed sets of N examples, row-aligned.

    Attributes: ``space``, ``threat``, ``ids`` (N,), ``originals`` (N, *shape) in the space's dtype, ``mask``
    (N, *shape) ``True`` where the attacker may move, ``exempt`` (N,) originals outside their set under
    ``originals exempt``, ``lower``/``upper`` (N, *shape): the least and greatest admissible value per coordinate
    (the tightest box around S, members' own floats; over the hull of the branches of a union).
    """

    space: Space
    threat: Threat
    ids: tuple[str, ...]
    originals: Values
    exempt: Flags
    mask: Flags
    lower: Values
    upper: Values

    @classmethod
    def build(
        cls, space: Space, threat: Threat, originals: Values, *, ids: Sequence[str], mask: Values | None = None
    ) -> ThreatSet:
        """The sets around ``originals`` (N, *shape). ``mask`` is the boolean array of a ``mask("file")`` clause, of
        shape ``shape`` or (N, *shape).

        Raises :class:`SetError` when an original is outside its set (naming its id and the rule), when no example can
        move at all, or when the clauses do not fit the space.
        """
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, indices: Sequence[int] | NDArray[np.int64]) -> ThreatSet:
        """The sets of some examples, in that order, repeats allowed."""
        raise NotImplementedError

    def member(self, x: Values) -> list[Membership]:
        """Exact membership of row ``x[i]`` in set ``i``; NaN and infinities are never inside."""
        raise NotImplementedError

    def inside(self, x: Values) -> Flags:
        """Like :meth:`member`, without the reasons: (N,) bool."""
        raise NotImplementedError

    def project(self, x: Values) -> Projection:
        """Members near ``x`` (N, *shape), rounded inward, each verified by :meth:`inside`."""
        raise NotImplementedError

    def outward_box(self) -> tuple[Values, Values]:
        """A box per example that contains S and every real point of the ball: rounded down and up to the dtype."""
        raise NotImplementedError

    def distances(self, x: Values) -> Mapping[str, Values]:
        """``linf``, ``l2``, ``l1`` (float64 of the exact value, NaN where the mutable units differ) and ``l0`` (int)."""
        raise NotImplementedError

    def count(self, limit: int) -> list[int | None]:
        """|S| per example, exact; ``None`` where it exceeds ``limit`` (real coordinates that move always do)."""
        raise NotImplementedError

    def enumerate(self, row: int, limit: int) -> Values:
        """All members of set ``row``: (|S|, *shape), each once. Raises :class:`SetError` beyond ``limit``."""
        raise NotImplementedError
