"""A bound that nearly cancels an original: the end must be found from a start that is right in its own size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tmlang.backends.interval import greatest_within


@pytest.mark.timeout(20)
@pytest.mark.parametrize("grid", ["float64", "float32", "float16"])
@pytest.mark.parametrize("bound", [Fraction(1, 255), Fraction(1, 10), Fraction(1, 4), Fraction(1, 3)])
def test_the_greatest_value_within_a_bound_that_cancels(grid, bound):
    originals = np.array([-float(bound), -0.1, 0.5, 0.0], dtype=grid)
    for x, c in zip(originals, greatest_within(originals, bound, grid), strict=True):
        above = np.nextafter(c, np.array(np.inf, grid), dtype=grid)
        assert Fraction(float(c)) - Fraction(float(x)) <= bound < Fraction(float(above)) - Fraction(float(x))
