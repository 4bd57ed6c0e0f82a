"""Relations at their very edge: running error bounds that hold and are not wasteful, and ties decided in rationals."""

from __future__ import annotations

import random
import warnings
from fractions import Fraction as F

import numpy as np
import pytest

from tmlang.backends.relations import _combine, _value, decided, evaluate, features_of, holds
from tmlang.meaning.spaces import Num, Op, Ref, Relation

U = F(1, 2**53)
EXACT = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b}


def bounded(op, a, b):
    """(value, bound) of one operation on two floats that are off by up to ``U`` relatively."""
    columns = {"a": np.array([a]), "b": np.array([b])}
    value, bound = _value(Op(op, Ref("a"), Ref("b")), columns)
    return F(float(value[0])), F(float(bound[0]))


def off(op, a, b):
    """How far the value is from the exact one, at worst, when both floats are off by as much as they may be."""
    value, _ = bounded(op, a, b)
    ends = [EXACT[op](F(a) * (1 + s * U), F(b) * (1 + t * U)) for s in (-1, 1) for t in (-1, 1)]
    return max(abs(value - e) for e in ends)


CLOSE = [
    ("+", 1.0, 2.0**-53), ("+", 1.0, 1 + 2.0**-52), ("-", 1.0, -(2.0**-53)), ("-", 1.0, -1 - 2.0**-52),
    ("*", 1 + 2.0**-30, 1 + 2.0**-23), ("*", -1 - 2.0**-30, 1 + 2.0**-23), ("/", 1.0, 1 - 2.0**-53),
    ("/", 1.0, -1 + 2.0**-53),
]  # fmt: skip


@pytest.mark.parametrize(("op", "a", "b"), CLOSE)
def test_the_bound_is_reached_where_every_rounding_goes_the_worst_way(op, a, b):
    _, bound = bounded(op, a, b)
    assert F(8, 10) * bound <= off(op, a, b) <= bound


@pytest.mark.parametrize("op", "+-*/")
def test_the_bound_holds_for_numbers_of_every_size(op):
    rng = random.Random(op)
    for _ in range(3000):
        a, b = (rng.choice((-1, 1)) * rng.uniform(1, 2) * 2.0 ** rng.randint(-60, 60) for _ in "ab")
        if rng.random() < 0.3:
            b = a * (1 + rng.randint(-3, 3) * 2.0**-52)
        value, bound = bounded(op, a, b)
        assert off(op, a, b) <= bound
        assert bound <= 4 * U * (abs(value) + (abs(F(a)) + abs(F(b)) if op in "+-" else 0))


@pytest.mark.parametrize(("op", "a", "b"), [("*", 2.0**-540, 2.0**-540), ("/", 2.0**-540, 2.0**540)])
def test_what_is_lost_below_the_least_float_is_in_the_bound(op, a, b):
    value, bound = bounded(op, a, b)
    assert value == 0
    assert 0 < off(op, a, b) <= bound


def test_a_number_below_the_least_float_is_in_its_bound():
    for number in (F(1, 3 * 2**1074), F(5, 2**1076), F(1, 3 * 2**1060)):
        value, bound = _value(Num(number), {})
        assert abs(F(value) - number) <= F(bound)


def test_a_divisor_that_may_be_zero_bounds_nothing():
    with np.errstate(all="ignore"):
        for b, db in ((1e-20, 2e-20), (-1e-20, 2e-20), (0.0, 0.0), (1e-20, 1e-20)):
            _, bound = _combine("/", (np.array([1.0]), np.array([0.0])), (np.array([b]), np.array([db])))
            assert bound[0] == np.inf
        _, bound = _combine("/", (np.array([1.0]), np.array([0.0])), (np.array([3e-20]), np.array([1e-20])))
    assert np.isfinite(bound[0])


def test_errors_of_both_sides_carry_through():
    """Bounds by hand: |da| + |db|; |a| db + |b| da + da db; (da + |q| db) / (|b| - db)."""
    a, b = (np.array([3.0]), np.array([0.5])), (np.array([-4.0]), np.array([0.25]))
    for op, expected in (("+", 0.75), ("-", 0.75), ("*", 0.75 + 2 + 0.125), ("/", (0.5 + 0.75 * 0.25) / 3.75)):
        assert _combine(op, a, b)[1][0] == pytest.approx(expected, rel=1e-13)


def some_expression(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return Ref(rng.choice("ab")) if rng.random() < 0.7 else Num(F(rng.randint(-9, 9), rng.randint(1, 9)))
    return Op(rng.choice("+-*/"), some_expression(rng, depth - 1), some_expression(rng, depth - 1))


def by_hand(e, row):
    if isinstance(e, Num):
        return e.value
    return row[e.feature] if isinstance(e, Ref) else EXACT[e.op](by_hand(e.left, row), by_hand(e.right, row))


@pytest.mark.parametrize("op", ["<=", "<", ">=", ">", "=="])
def test_ties_and_hairs_beside_them_are_decided(op):
    """Both sides differ by the tolerance exactly, by 2**-90 more or less, or by much."""
    rng = random.Random(op)
    met = set()
    for _ in range(250):
        row = {n: F(rng.randint(-30, 30), rng.randint(1, 30)) for n in "ab"}
        left, right = some_expression(rng, 2), some_expression(rng, 2)
        try:
            difference = by_hand(left, row) - by_hand(right, row)
        except ZeroDivisionError:
            met.add("zero")
            relation = Relation(left, op, right, F(5))
            assert not ask(relation, [row])[0]
            continue
        hair = rng.choice((F(0), F(1, 2**90), -F(1, 2**90), F(1), -F(1)))
        signed = {"<": 1, ">": -1, "=": 1 if difference >= 0 else -1}[op[0]]
        tolerance = signed * difference + hair
        if tolerance < 0:
            tolerance, hair = F(0), -signed * difference
        expected = hair >= 0 if "=" in op else hair > 0
        assert ask(Relation(left, op, right, tolerance), [row])[0] == expected, (left, right, row, hair)
        met.add(hair if abs(hair) < 1 else "far")
    assert {"zero", F(0), F(1, 2**90), -F(1, 2**90), "far"} <= met


def ask(relation, rows):
    columns = {n: np.array([float(r[n]) for r in rows]) for n in "ab"}
    return holds(relation, columns, lambda i: rows[i], len(rows)).tolist()


def test_every_row_is_decided_by_its_own_numbers():
    rows = [{"a": F(i, 3), "b": F(1)} for i in range(7)]
    asked = []

    def exact(i):
        asked.append(i)
        return rows[i]

    columns = {n: np.array([float(r[n]) for r in rows]) for n in "ab"}
    assert holds(Relation(Ref("a"), "<=", Ref("b")), columns, exact, 7).tolist() == [True] * 4 + [False] * 3
    assert asked == [3]
    assert holds(Relation(Num(F(1)), "<", Num(F(2))), columns, exact, 7).tolist() == [True] * 7
    assert asked == [3]


def test_what_has_no_number_satisfies_nothing_and_warns_of_nothing():
    rows = [{"a": F(1), "b": F(0)}, {"a": F(0), "b": F(0)}, {"a": F(1), "b": F(2)}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ask(Relation(Op("/", Ref("a"), Ref("b")), "<=", Num(F(9))), rows) == [False, False, True]
        assert ask(Relation(Op("*", Num(F(10) ** 300), Num(F(10) ** 300)), ">", Ref("a")), rows) == [True] * 3


def test_numbers_are_exact_and_division_by_zero_is_told():
    row = {"a": F(1, 3), "b": F(2)}
    assert evaluate(Op("-", Op("*", Ref("a"), Num(F(6))), Op("/", Ref("b"), Op("+", Ref("a"), Num(F(1))))), row) == F(
        1, 2
    )
    with pytest.raises(ZeroDivisionError):
        evaluate(Op("/", Ref("a"), Num(F(0))), row)


def test_only_what_is_known_is_decided():
    both = Relation(Ref("a"), "<=", Op("*", Ref("b"), Num(F(2))))
    one = Relation(Num(F(0)), "<", Ref("a"))
    none = Relation(Num(F(0)), "<", Num(F(1)))
    assert features_of(Op("+", Ref("a"), Op("-", Ref("b"), Num(F(1))))) == {"a", "b"}
    assert decided((both, one, none), frozenset("a")) == (one, none)
    assert decided((both, one, none), frozenset("abc")) == (both, one, none)
    assert decided((both, one, none), frozenset()) == (none,)
