"""Bounds of a property's outputs against its verdict and the decisions on its inputs: interval logic on `always`.

The auditor's own reading of the plan as plain JSON. An output that lies in an interval makes a comparison possibly
true, possibly false, or both; nothing is assumed of how outputs hang together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tmlang.audit.outputs import OutputBounds
from tmlang.audit.record import Record

Json = Mapping[str, Any]
HOLDS, VIOLATED = 0, 1


def verdict_faults(subject: Json, classes: Sequence[str], row: Record, bounds: OutputBounds) -> Iterator[str]:
    """A proof that the property holds, beside inputs that were seen to violate it or bounds that exclude it."""
    if row.verdict != "certified":
        return
    if not _possible(subject, classes, bounds, 0.0)[HOLDS]:
        yield "it is proved to hold, and the bounds of its outputs exclude that"
    relations = subject["always"]
    if len(relations) != 1 or not isinstance(relations[0][2], str):
        return
    # Each end was taken by some input, and a single comparison with a number speaks of each input alone.
    name, op, number = relations[0]
    k, edge = classes.index(name), Fraction(number)
    slack = 1e-9 * (1 + abs(float(edge)))
    too_far = {
        "<=": bounds.greatest[k] > float(edge) + slack,
        ">=": bounds.least[k] < float(edge) - slack,
        "==": max(bounds.greatest[k] - float(edge), float(edge) - bounds.least[k]) > slack,
    }
    if too_far[op if op == "==" else f"{op[0]}="]:
        ends = f"{bounds.least[k]:.6g} to {bounds.greatest[k]:.6g}"
        yield f"it is proved to hold, and inputs give {name} from {ends}"


def excluded(subject: Json, classes: Sequence[str], bounds: OutputBounds, gap: float, decision: int) -> bool:
    """Whether no input can be decided so (0 holds, 1 violated) in arithmetic that differs by the gap."""
    return not _possible(subject, classes, bounds, gap)[decision]


def _possible(subject: Json, classes: Sequence[str], bounds: OutputBounds, gap: float) -> tuple[bool, bool]:
    """Whether an input may satisfy the property, and whether one may violate it."""
    slack = gap + 1e-9 * (1 + np.maximum(np.abs(bounds.lower), np.abs(bounds.upper)))
    low, high = bounds.lower - slack, bounds.upper + slack
    each = [_alternative(classes.index(name), op, value, classes, low, high) for name, op, value in subject["always"]]
    return any(holds for holds, _ in each), all(fails for _, fails in each)


def _alternative(
    c: int, op: str, value: Any, classes: Sequence[str], low: np.ndarray, high: np.ndarray
) -> tuple[bool, bool]:
    """(may hold, may fail)."""
    if op.startswith("is_"):
        others = [j for j in range(len(classes)) if j != c]
        least = op.endswith("_min")
        # That it is the least (greatest), or shares that place.
        holds = all(low[c] <= high[j] if least else high[c] >= low[j] for j in others)
        fails = any(high[c] > low[j] if least else low[c] < high[j] for j in others)
        return (fails, holds) if "_not_" in op else (holds, fails)
    if isinstance(value, str):
        below = above = float(Fraction(value))
    else:
        other = classes.index(value["name"])
        below, above = low[other], high[other]
    if op == "==":
        return bool(low[c] <= above and high[c] >= below), bool(low[c] < above or high[c] > below)
    if op in (">=", ">"):
        return bool(high[c] >= below), bool(low[c] <= above)
    return bool(low[c] <= above), bool(high[c] >= below)
