"""The balls of membership at their very edge: sums by hand, error bounds from their definition, patches by drawing."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmlang.backends.membership import CountBall, PatchBall, PowerBall, _edges, disc
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Anything, Goal, Mutable, Threat

MIXED = Space(
    "s",
    (4,),
    (
        Cell("real", F(0), F(1)),
        Cell("lattice", F(0), F(1), F(1, 10)),
        Cell("category", F(0), F(3), F(1), categories=tuple("abcd")),
        Cell("real", F(0), F(1)),
    ),
    "each",
    features=tuple("pqrs"),
)
WEIGHTS = {0: F(1, 3), 1: F(2, 7), 2: F(5)}
HAIR = F(1, 2**90)


def change(space, x0, x):
    """The exact change from ``x0`` to every row of ``x``."""
    threat = Threat("t", "m", "d", Anything(), None, Mutable("all"), Goal("untargeted"), Access("white_box"), "fail")
    x0, x = np.asarray([x0], space.dtype), np.asarray(x, space.dtype)
    return ThreatSet.build(space, threat, x0, ids=["a"]).rows([0] * len(x)).change(x)


def moved():
    """A quarter down, four tenths up, two categories on; the last coordinate has no weight."""
    return change(MIXED, [0.5, 0.3, 0.0, 0.5], [[0.25, 0.7, 2.0, 1.0], [0.5, 0.3, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("power", "length"),
    [(1, F(1, 3) * F(1, 4) + F(2, 7) * F(4, 10) + 5), (2, F(1, 3) * F(1, 16) + F(2, 7) * F(16, 100) + 5)],
)
def test_a_weighted_sum_is_that_of_the_changes_and_a_category_adds_its_weight(power, length):
    ball = PowerBall("m", power, length, WEIGHTS)
    assert [ball.exact_sum(moved(), i) for i in (0, 1)] == [length, 0]
    assert ball.summand(moved()).sum(axis=1).tolist() == pytest.approx([float(length), 0], rel=1e-15)
    assert ball.holds(moved()).tolist() == [True, True]
    assert PowerBall("m", power, length - HAIR, WEIGHTS).holds(moved()).tolist() == [False, True]
    assert PowerBall("m", power, length + HAIR, WEIGHTS).holds(moved()).tolist() == [True, True]


@pytest.mark.parametrize(
    ("power", "length"), [(1, F(1, 4) + F(4, 10) + 2 + F(1, 2)), (2, F(1, 16) + F(4, 25) + 4 + F(1, 4))]
)
def test_without_weights_a_category_moves_by_its_steps(power, length):
    ball = PowerBall("l", power, length)
    assert ball.exact_sum(moved(), 0) == length
    assert ball.summand(moved())[0].sum() == pytest.approx(float(length), rel=1e-15)
    assert ball.holds(moved()).tolist() == [True, True]
    assert PowerBall("l", power, length - HAIR).holds(moved()).tolist() == [False, True]


def test_a_sum_beyond_every_float_is_outside_and_warns_of_nothing():
    space = Space("s", (2,), (Cell("real", F(-(10**300)), F(10**300)),), dtype="float64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = change(space, [0, 0], [[1e300, 1e300], [1e-300, 0]])
        assert PowerBall("l2", 2, F(10**300)).holds(far).tolist() == [False, True]


@given(st.integers(1, 10**12), st.fractions(F(1, 2**1060), 10**6), st.booleans())
def test_between_the_edges_lies_what_rounding_leaves_open(size, bound, tiny):
    """gamma_n = n u / (1 - n u) with n = size + 6 roundings (Higham 2002, section 3.1), and 2**-1074 lost a term."""
    bound = bound / 10**6 * F(1, 2**1040) if tiny else bound
    n = size + 6
    gamma = n * F(1, 2**53) / (1 - n * F(1, 2**53))
    lost = n * F(1, 2**1074)
    below, above = _edges(bound, size)
    assert F(below) * (1 + 2 * gamma) + lost <= bound < F(np.nextafter(below, np.inf)) * (1 + 2 * gamma) + lost
    assert F(np.nextafter(above, -np.inf)) * (1 - 2 * gamma) - lost < bound <= F(above) * (1 - 2 * gamma) - lost


# Patches and counts, against every placement drawn by hand ------------------------------------------------------------

LAYOUTS = [((3, 4), (0, 1, None)), ((3, 4, 2), (0, 1, 2)), ((2, 3, 4), (1, 2, 0)), ((3, 2, 4), (0, 2, 1))]


def placed(stamp, shape, axes):
    """Every coordinate set that a placement of the stamp covers."""
    rows, columns, channels = axes
    for r in range(shape[rows] - len(stamp) + 1):
        for c in range(shape[columns] - len(stamp[0]) + 1):
            covered = np.zeros(shape, bool)
            for at in itertools.product(*map(range, shape)):
                i, j = at[rows] - r, at[columns] - c
                covered[at] = 0 <= i < len(stamp) and 0 <= j < len(stamp[0]) and bool(stamp[i][j])
            assert channels is None or covered.any(axis=channels).sum() == np.sum(stamp)
            yield (r, c), covered


STAMPS = [np.ones((1, 1), bool), np.ones((2, 3), bool), np.ones((3, 1), bool), np.array([[1, 0], [1, 1]], bool)]
STAMPS += [np.array([[1, 1], [1, 0]], bool), np.array([[1, 1], [0, 1], [0, 1]], bool)]


@pytest.mark.parametrize(("shape", "axes"), LAYOUTS)
@pytest.mark.parametrize("stamp", STAMPS)
def test_a_patch_holds_what_some_placement_covers(shape, axes, stamp):
    ball = PatchBall("patch", stamp, shape, axes)
    places = list(placed(stamp.tolist(), shape, axes))
    assert all((ball.region(place) == covered).all() for place, covered in places)
    space = Space("px", shape, (Cell("integer", F(0), F(1), F(1)),))
    draw = np.random.default_rng(len(shape))
    rows = [covered & (draw.random(shape) < share) for _, covered in places for share in (0.3, 0.8, 1)]
    rows += [draw.random(shape) < share for share in (0.05, 0.1, 0.2) for _ in range(20)]
    pairs = itertools.combinations(range(int(np.prod(shape))), 2)
    rows += [np.isin(np.arange(np.prod(shape)), pair).reshape(shape) for pair in pairs]
    x = np.array(rows)
    expected = [any(not (row & ~covered).any() for _, covered in places) for row in x]
    assert ball.holds(change(space, np.zeros(shape), x.reshape(len(x), *shape))).tolist() == expected
    assert any(expected)
    assert not all(expected)


@pytest.mark.parametrize(("shape", "axis"), [((3, 4), None), ((3, 4, 2), 2), ((2, 3, 4), 0), ((3, 2, 4), 1)])
def test_a_count_is_of_elements_or_of_pixels(shape, axis):
    space = Space("px", shape, (Cell("integer", F(0), F(1), F(1)),))
    x = np.random.default_rng(0).random((60, *shape)) < 0.2
    ball = CountBall("count", 3, shape, axis)
    pixels = [{tuple(v for k, v in enumerate(at) if k != axis) for at in np.argwhere(row).tolist()} for row in x]
    moved = change(space, np.zeros(shape), x)
    assert ball.count(moved).tolist() == [len(p) for p in pixels]
    assert ball.holds(moved).tolist() == [len(p) <= 3 for p in pixels]
    assert {2, 3, 4} <= {len(p) for p in pixels}


@pytest.mark.parametrize("diameter", range(1, 9))
def test_a_disc_is_symmetric_and_holds_the_centres_within_half_its_diameter(diameter):
    inside = disc(diameter)
    assert inside.shape == (diameter, diameter)
    for i, j in itertools.product(range(diameter), repeat=2):
        dx, dy = F(2 * i + 1, 2) - F(diameter, 2), F(2 * j + 1, 2) - F(diameter, 2)
        assert inside[i, j] == (dx * dx + dy * dy <= F(diameter * diameter, 4))
