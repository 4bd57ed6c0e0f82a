"""How far certificates are believed, and which word stands beside a number for it (EVIDENCE.md section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from tmlang.audit.record import Record

Believed = Literal["proved", "stated", "any"]


@dataclass(frozen=True, slots=True)
class Level:
    """Which certificates count. ``gap``: those whose gap to the evaluator's arithmetic is ``proved``, those that
    ``stated`` one (proved or assumed), or ``any``, those of real arithmetic too. ``trusting``: the word of solvers that
    hand out no proof as well."""

    gap: Believed
    trusting: bool

    def counts(self, row: Record, *, trusted: bool) -> bool:
        """Whether a certificate counts; ``trusted``: such a solver gave it."""
        if trusted and not self.trusting:
            return False
        if self.gap == "any":
            return True
        return states_a_gap(row) and (self.gap == "stated" or row.gap_kind == "proved")

    @property
    def widest(self) -> Level:
        """With the word of trusted solvers, where this is what a table shows."""
        return TRUSTING if self == SHOWN else self


def states_a_gap(row: Record) -> bool:
    """Whether a certificate speaks of the evaluator's arithmetic, and not of real numbers alone."""
    return row.gap is not None and row.gap_kind != "none"


_GAPS: tuple[Believed, ...] = ("proved", "stated", "any")
LEVELS = tuple(Level(gap, trusting) for gap, trusting in product(_GAPS, (False, True)))
"""Of two, the one that believes more certifies whatever the other does."""
SHOWN = Level("any", False)
"""What `certified` counts: every certificate but those of trusted solvers."""
TRUSTING = Level("any", True)
"""What `certified_trusting` counts."""
SURE = Level("proved", False)
"""What rests on no assumption."""
GRANTED = Level("stated", True)
"""What follows once every assumption is granted."""
JUDGED = (SURE, GRANTED, TRUSTING)
"""A claim is supported, or refuted, only where it is at all of these."""


def arithmetic_words(*, real: bool, assumed: int, of: int) -> tuple[str, ...]:
    """In which arithmetic ``of`` certificates hold, where that has to be said; ``assumed`` rest on an assumed gap."""
    words = ["real arithmetic"] if real else []
    if assumed:
        words.append("assumed" if assumed == of else f"{assumed} of {of} assumed")
    return tuple(words)


def trust_words(solvers: Sequence[str]) -> str:
    """``trusting marabou 2.0.0``; nothing where nobody is trusted."""
    named = list(dict.fromkeys(solvers))
    return f"trusting {' and '.join(named)}" if named else ""


_WEAKER = (SURE, Level("stated", False), Level("proved", True), GRANTED, SHOWN, TRUSTING)
"""From what rests on nothing to what says nothing of the object."""


def verdict_words(held: frozenset[Level], solvers: Sequence[str]) -> str:
    """What a proof rests on that holds at the levels ``held``: the least that has to be granted, nothing where nothing
    has."""
    least = next(level for level in _WEAKER if level in held)
    words = {"proved": "", "stated": "assumed", "any": "real arithmetic"}[least.gap]
    return "; ".join(filter(None, (trust_words(solvers) if least.trusting else "", words)))
