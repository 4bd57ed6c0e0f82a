"""Features that equations couple: what gives way when one of them moves, by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from backend_support import threat, unit_box
from native_support import linear, run

from tmlang.backends.native.coupled import broken, mended
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.spaces import Cell, Num, Op, Ref, Relation
from tmlang.meaning.threats import Mutable

REAL = Cell("real", F(0), F(1))
A, B, C = map(Ref, "abc")
SHARES = Relation(Op("+", A, B), "==", Num(F(1)), F(1, 1000), text="a + b == 1")
RATIO = Relation(Op("/", A, B), "==", Num(F(1, 2)), F(1, 1000), text="a / b == 1/2")


def space_of(*relations, cell=REAL, size=3):
    return unit_box(size, cells=(cell,) * size, layout="each", features=tuple("abc"[:size]), relations=relations)


def sets_of(space, x, **changes):
    x = np.array([x], np.float32)
    return ThreatSet.build(space, replace(threat(radius=F(1, 2)), **changes), x, ids=["u"])


def moved(sets, to, *touched, first="abc"):
    """``to`` after the others have given way, those named ``first`` before the rest."""
    x = np.array([to])
    names = sets.space.features
    priority = np.array([[-float(first.index(name)) for name in names]])
    return mended(sets, x, np.array([[name in touched for name in names]]), priority)[0]


def test_the_other_share_gives_way():
    sets = sets_of(space_of(SHARES), [0.5, 0.5, 0.5])
    assert broken(sets, np.array([[0.75, 0.5, 0.1]])).tolist() == [True]
    found = moved(sets, [0.75, 0.5, 0.1], "a")
    assert found[0] == 0.75
    assert found[2] == 0.1
    assert abs(found[1] - 0.25) <= 0.001


def test_whoever_is_named_first_gives_way():
    both = Relation(Op("+", Op("+", A, B), C), "==", Num(F(1)), F(1, 1000), text="a + b + c == 1")
    sets = sets_of(space_of(both), [0.5, 0.25, 0.25])
    assert moved(sets, [0.6, 0.25, 0.25], "a", first="bca") == pytest.approx([0.6, 0.15, 0.25], abs=0.0011)
    assert moved(sets, [0.6, 0.25, 0.25], "a", first="cba") == pytest.approx([0.6, 0.25, 0.15], abs=0.0011)


def test_a_ratio_holds_and_nothing_is_divided_by_zero():
    sets = sets_of(space_of(RATIO), [0.25, 0.5, 0.5])
    assert moved(sets, [0.25, 0.8, 0.5], "b")[0] == pytest.approx(0.4, abs=0.0009)
    assert moved(sets, [0.3, 0.5, 0.5], "a")[1] == pytest.approx(0.6, abs=0.0025)
    assert broken(sets, np.array([[0.0, 0.0, 0.0]])).tolist() == [False]  # not above 0: the exact test decides
    assert not sets.inside(np.zeros((1, 3), np.float32)).any()


def test_one_equation_after_the_other():
    chain = Relation(Op("-", B, C), "==", Num(F(0)), F(1, 1000), text="b - c == 0")
    sets = sets_of(space_of(SHARES, chain), [0.5, 0.5, 0.5])
    found = moved(sets, [0.7, 0.5, 0.5], "a")
    assert found == pytest.approx([0.7, 0.3, 0.3], abs=0.0021)


def test_levels_are_solved_for_exactly():
    """a + b == 1 in eighths has one answer; of several the nearest is taken: |a + b - 1| <= 1/8 from b = 3/8."""
    levels = Cell("lattice", F(0), F(1), F(1, 8))
    exact = Relation(Op("+", A, B), "==", Num(F(1)), text="a + b == 1")
    assert moved(sets_of(space_of(exact, cell=levels), [0.5, 0.5, 0.0]), [0.875, 0.5, 0.0], "a").tolist()[1] == 0.125
    wide = replace(exact, tolerance=F(1, 8))
    assert moved(sets_of(space_of(wide, cell=levels), [0.5, 0.5, 0.0]), [0.875, 0.375, 0.0], "a").tolist()[1] == 0.25


def test_what_is_frozen_or_touched_stays():
    sets = sets_of(space_of(SHARES), [0.5, 0.5, 0.5], mutable=Mutable("features", (("a", "any"), ("c", "any"))))
    assert moved(sets, [0.75, 0.5, 0.1], "a").tolist() == [0.75, 0.5, 0.1]


@pytest.mark.parametrize("name", ["coordinates", "random"])
def test_a_failure_that_takes_both_shares_is_found(name):
    """a - b reaches 0.4 with both, and 0.001 with one alone; the classes part at 0.35."""
    space = space_of(SHARES, size=2)
    case = linear([[-1, 1], [1, -1]], [0.35, -0.35], space, [[0.5, 0.5]])
    job = case.job(threat(radius=F(1, 5)))
    found = run(name, case, job)
    assert bool(found.offered[0])
    a, b = (F(float(v)) for v in found.x[0])
    assert abs(a + b - 1) <= F(1, 1000)
    assert max(abs(a - F(1, 2)), abs(b - F(1, 2))) <= F(1, 5)
    assert a - b > F(34, 100)
