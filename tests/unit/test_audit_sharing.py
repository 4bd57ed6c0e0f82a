"""Inputs that are told to come of one perturbation, read by the auditor: three coordinates of [0, 1], by hand."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from backend_support import unit_box

from tmlang.audit.sharing import is_one_perturbation
from tmlang.meaning.spaces import Cell

HALF, TOP = (F(1, 2), F(1, 2), F(1, 2)), (F(1, 4), F(7, 8), F(1, 2))
ULP = F(1, 2**24)


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        # +1/8, +1/4, 0 for both: 7/8 + 1/4 is cut off at 1.
        ((F(5, 8), F(3, 4), F(1, 2)), (F(3, 8), F(1), F(1, 2)), True),
        # The first coordinate of the second goes up by 1/16 only.
        ((F(5, 8), F(3, 4), F(1, 2)), (F(5, 16), F(1), F(1, 2)), False),
        # 1 is not an end that +1/4 could have been cut off at: 7/8 + 1/16 < 1.
        ((F(5, 8), F(9, 16), F(1, 2)), (F(3, 8), F(1), F(1, 2)), False),
        # A rounding of float32 apart, and a hundred of them.
        ((F(5, 8), F(1, 2), F(1, 2)), (F(3, 8) + ULP, F(7, 8), F(1, 2)), True),
        ((F(5, 8), F(1, 2), F(1, 2)), (F(3, 8) + 100 * ULP, F(7, 8), F(1, 2)), False),
        # 3/4 and 1/8 pasted into the last two; then into one of the two at another place.
        ((F(1, 2), F(3, 4), F(1, 8)), (F(1, 4), F(3, 4), F(1, 8)), True),
        ((F(1, 2), F(3, 4), F(1, 8)), (F(3, 4), F(3, 4), F(1, 2)), False),
    ],
)
def test_one_perturbation_is_told_from_several(first, second, one):
    assert is_one_perturbation(unit_box(3), [(HALF, first), (TOP, second)]) is one


def test_levels_move_by_the_same_number_of_steps():
    space = unit_box(3, cells=(Cell("lattice", F(0), F(1), F(1, 8)),))
    assert is_one_perturbation(space, [(HALF, (F(5, 8), *HALF[1:])), (TOP, (F(3, 8), *TOP[1:]))])
    assert not is_one_perturbation(space, [(HALF, (F(5, 8), *HALF[1:])), (TOP, (F(1, 2), *TOP[1:]))])
