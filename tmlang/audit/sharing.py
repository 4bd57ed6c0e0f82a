"""Whether saved inputs are made of one universal perturbation, measured anew in rationals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from tmlang.meaning.spaces import Space

Point = Sequence[Fraction]
Pair = tuple[Point, Point]
"""An original and what was made of it."""
Extent = tuple[Fraction | float, Fraction | float]


def is_one_perturbation(space: Space, pairs: Sequence[Pair]) -> bool:
    """Whether one change, or one pasted content, makes the second of every pair of its first.

    A value at an end of its range may have been cut off there; any other is a sum that was rounded once, so its change
    is known to two units in the last place.
    """
    return _meet(space, pairs, pasted=False) or _meet(space, pairs, pasted=True)


def _meet(space: Space, pairs: Sequence[Pair], *, pasted: bool) -> bool:
    for i in range(space.size):
        column = [(start[i], point[i]) for start, point in pairs]
        if pasted and all(start == point for start, point in column):
            continue
        extents = list(_extents(space, i, column, pasted))
        if max(low for low, _ in extents) > min(high for _, high in extents):
            return False
    return True


def _extents(space: Space, i: int, column: Sequence[tuple[Fraction, Fraction]], pasted: bool) -> Iterator[Extent]:
    """Between which ends each pair leaves the content, or the change, of one coordinate."""
    cell, grid = space.cell(i), np.dtype(space.dtype).type
    for start, point in column:
        slack = Fraction(0) if pasted else 2 * Fraction(float(np.spacing(grid(float(max(abs(start), abs(point)))))))
        value = point if pasted else point - start
        yield (
            float("-inf") if point == cell.low else value - slack,
            float("inf") if point == cell.high else value + slack,
        )
