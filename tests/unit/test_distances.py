"""The distances of records against sums of rationals, for every norm that a threat may speak of."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from math import isnan

import numpy as np
import pytest

from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.spaces import Cell, Metric, Space
from tmlang.meaning.threats import Access, Anything, Ball, Both, Either, Goal, Mutable, Patch, Threat

FEATURES = tuple("pqrs")
REALS = Space("s", (4,), (Cell("real", F(0), F(8)),) * 4, "each", features=FEATURES)
MIXED = replace(
    REALS,
    cells=(
        Cell("real", F(0), F(8)),
        Cell("lattice", F(0), F(8), F(1, 10)),
        Cell("category", F(0), F(3), F(1), categories=tuple("abcd")),
        Cell("real", F(0), F(8)),
    ),
    metrics=(Metric("cost", (("p", F(3)), ("q", F(1, 2)), ("r", F(7)))),),
)
PICTURE = Space("s", (2, 2, 3), (Cell("real", F(0), F(8)),), channel_axis=0)


def sets(space, allow, originals, mutable=None, **changes):
    threat = Threat(
        "t", "m", "d", allow, None, mutable or Mutable("all"), Goal("untargeted"), Access("white_box"), "fail"
    )
    x0 = np.asarray(originals, space.dtype)
    return ThreatSet.build(space, replace(threat, **changes), x0, ids=[f"u{i}" for i in range(len(x0))])


def test_every_length_is_that_of_rationals():
    rng = np.random.default_rng(1)
    x0, x = (rng.uniform(0, 8, (20, 4)).astype(np.float32) for _ in "ab")
    x[3] = x0[3]
    d = sets(REALS, Anything(), x0).distances(x)
    for i in range(20):
        moves = [abs(F(float(a)) - F(float(b))) for a, b in zip(x[i], x0[i], strict=True)]
        assert d["linf"][i] == max(moves)
        assert d["l1"][i] == pytest.approx(float(sum(moves)), rel=2**-51)
        assert d["l2"][i] == pytest.approx(float(sum(m * m for m in moves)) ** 0.5, rel=2**-51)
        assert d["l0"][i] == sum(m != 0 for m in moves)
    assert d["l0"].dtype.kind == "i"


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        (Ball("linf", "s", F(9)), 2),
        (Ball("l2", "s", F(9)), 5**0.5),
        (Ball("l1", "s", F(9)), 3),
        (Ball("l0", "s", F(2)), 2),
        (Ball("l2_rms", "s", F(9)), (5 / 4) ** 0.5),
        (Ball("linf", "s", None, (("p", F(9)), ("q", F(9))), "feature"), 2),
        (Anything(), None),
        (Both((Ball("linf", "s", F(9)), Ball("l1", "s", F(9)))), None),
        (Either((Ball("linf", "s", F(9)), Ball("l1", "s", F(9)))), None),
    ],
)
def test_a_threat_has_a_distance_of_its_own_where_it_speaks_of_one(allow, expected):
    x0, x = [[1, 1, 1, 1]], np.array([[3, 2, 1, 1]], np.float32)
    own = sets(REALS, allow, x0).distances(x)["own"]
    assert own.dtype == np.float64
    assert isnan(own[0]) if expected is None else own[0] == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(("norm", "expected"), [("linf", 2), ("l2", 5**0.5), ("l1", 3), ("l2_rms", (5 / 4) ** 0.5)])
def test_what_is_minimized_is_the_distance(norm, expected):
    found = sets(REALS, None, [[1, 1, 1, 1]], minimize=(norm, "s"))
    assert found.distances(np.array([[3, 2, 1, 1]], np.float32))["own"][0] == pytest.approx(expected, rel=1e-15)


def test_pixels_are_counted_where_pixels_are_allowed():
    x0 = np.ones((2, 2, 2, 3))
    x = x0.copy()
    x[0, :, 0, 0], x[0, 0, 1, 2] = 3, 2
    pixels = sets(PICTURE, Ball("pixels_changed", "s", F(4)), x0).distances(x)
    assert (pixels["own"].tolist(), pixels["l0"].tolist()) == ([2, 0], [3, 0])
    assert sets(PICTURE, Ball("l0", "s", F(4)), x0).distances(x)["own"].tolist() == [3, 0]
    assert np.isnan(sets(PICTURE, Patch("rectangle", 1, 1), x0).distances(x)["own"]).all()


def test_a_metric_weighs_the_changes_and_a_category_costs_its_weight():
    found = sets(MIXED, Ball("metric", "s", F(99), metric="cost"), [[1, 0.5, 3, 1], [1, 0.5, 3, 1]])
    x = np.array([[3, 0.9, 0, 8], [1, 0.5, 3, 8]], np.float32)
    d = found.distances(x)
    assert d["own"] == pytest.approx([2 * 3 + 0.4 / 2 + 7, 0], rel=1e-15)
    assert d["l0"].tolist() == [4, 1]


def test_lengths_are_of_what_may_move_and_of_one_unit_without_categories():
    metres, seconds = (Cell("real", F(0), F(8), unit=u) for u in ("m", "s"))
    letter = Cell("category", F(0), F(3), F(1), categories=tuple("abcd"))
    x0, x = [[1, 1, 1, 1]], np.array([[2, 1, 1, 1]], np.float32)

    def lengths(cells, free):
        mutable = Mutable("features", tuple((n, "any") for n in free)) if free != "pqrs" else None
        d = sets(replace(REALS, cells=cells), Ball("linf", "s", F(5)), x0, mutable).distances(x)
        return [d[n][0] for n in ("linf", "l2", "l1")]

    assert lengths((metres, metres, seconds, letter), "pq") == [1, 1, 1]
    assert lengths((metres,) * 4, "pqrs") == [1, 1, 1]
    assert np.isnan(lengths((metres, metres, seconds, metres), "pqr")).all()
    assert np.isnan(lengths((metres, metres, metres, letter), "ps")).all()


def test_a_category_or_another_unit_among_what_some_example_may_move_leaves_no_length():
    plain, letter = Cell("real", F(0), F(8)), Cell("category", F(0), F(3), F(1), categories=tuple("abcd"))
    x0, x = np.ones((2, 4)), np.array([[2, 1, 1, 1], [1, 1, 1, 2]], np.float32)
    masks = np.array([[True, False, False, False], [False, False, False, True]])
    for last, known in ((plain, True), (letter, False), (replace(plain, unit="m"), False)):
        space = replace(REALS, cells=(plain, plain, plain, last))
        threat = Threat(
            "t", "m", "d", Ball("l0", "s", F(4)), None, Mutable("mask", per_example=True), Goal("untargeted"),
            Access("white_box"), "fail",
        )  # fmt: skip
        found = ThreatSet.build(space, threat, x0.astype(np.float32), ids=["a", "b"], mask=masks).distances(x)
        assert np.isnan(found["l1"]).tolist() == [not known] * 2


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_distance(poison):
    x = np.array([[1, 1, poison, 1], [2, 1, 1, 1], [1, 1, 1, 1]], np.float32)
    d = sets(REALS, Ball("l1", "s", F(9)), np.ones((3, 4))).distances(x)
    assert all(isnan(d[n][0]) for n in ("linf", "l2", "l1", "own"))
    assert d["l0"].tolist() == [0, 1, 0]
    assert d["own"].tolist()[1:] == [1, 0]
