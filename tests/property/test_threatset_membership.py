"""Membership, boxes and finite sets against rationals (EVIDENCE.md section 3)."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction as F
from math import isqrt

import numpy as np
import pytest
import threat_reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st

from tmlang.backends.interval import at_most, greatest_within, least_beyond
from tmlang.backends.threatset import ThreatSet
from tmlang.diagnostics.stop import Stop

randoms = st.integers(0, 2**48).map(random.Random)


def build(space, threat, x0):
    try:
        return ThreatSet.build(space, threat, x0[None], ids=["a"])
    except Stop as e:
        if e.diagnostics[0].code != "TM821":
            raise
        return None


def near(rng, space, x0):
    """An input on, just inside or just outside the edge of something: the domain, the radius, a level."""
    x = x0.copy()
    for j in range(space.size):
        choice = rng.random()
        cell = space.cell(j)
        if choice < 0.35:
            x[j] = ref.some_value(rng, cell, space.dtype)
        elif choice < 0.6:
            x[j] = ref.nearest(
                ref.number(cell, x0[j], space.dtype) + rng.choice((-1, 1)) * ref.some_radius(rng), space.dtype
            )
        elif choice < 0.7:
            x[j] = rng.choice((cell.low, cell.high))
        if rng.random() < 0.2:
            x[j] = np.nextafter(x[j], np.array(rng.choice((-99, 99)), space.dtype))
    return x


@given(randoms)
@settings(max_examples=250, deadline=None)
def test_membership_is_that_of_rationals(rng):
    space = ref.some_space(rng)
    threat = ref.some_threat(rng, space)
    x0 = ref.some_input(rng, space)
    sets = build(space, threat, x0)
    if sets is None:
        return
    rows = np.array([near(rng, space, x0) for _ in range(12)], space.dtype)
    many = sets.rows([0] * len(rows))
    answers = many.member(rows)
    for x, answer in zip(rows, answers, strict=True):
        assert answer.inside == ref.is_member(space, threat, x, x0), (space, threat.allow, x0, x, answer)
        assert (answer.rule is None) == answer.inside
    assert [a.inside for a in answers] == many.inside(rows).tolist()


@given(randoms)
@settings(max_examples=200, deadline=None)
def test_relations_are_those_of_rationals(rng):
    space = ref.some_space(rng)
    space = replace(space, relations=ref.some_relations(rng, space), originals="exempt")
    threat = replace(ref.some_threat(rng, space), allow=ref.Ball("linf", "s", F(50)))
    x0 = ref.some_input(rng, space)
    sets = build(space, threat, x0)
    if sets is None:
        return
    rows = np.array([near(rng, space, x0) for _ in range(8)], space.dtype)
    expected = [ref.is_member(space, threat, x, x0) for x in rows]
    assert sets.rows([0] * len(rows)).inside(rows).tolist() == expected


@given(randoms)
@settings(max_examples=200, deadline=None)
def test_the_box_is_the_tightest(rng):
    """The ends are admissible in their coordinate alone, the next value beyond them is not, and linf membership is the
    box."""
    space = ref.some_space(rng, dtype=rng.choice(("float32", "float64", "float16")), kinds="rrli")
    threat = replace(ref.some_threat(rng, space), allow=ref.some_ball(rng, space, "if"))
    x0 = ref.some_input(rng, space)
    sets = build(space, threat, x0)
    if sets is None:
        return
    outer_low, outer_high = sets.outward_box()
    for end, outer, away in ((sets.lower[0], outer_low[0], -np.inf), (sets.upper[0], outer_high[0], np.inf)):
        assert ref.is_member(space, threat, end, x0)
        assert ((outer <= end) if away < 0 else (outer >= end)).all()
        for j in range(space.size):
            beyond = end.copy()
            if space.cell(j).kind == "real":
                beyond[j] = np.nextafter(end[j], np.array(away, space.dtype))
            else:
                beyond[j] = ref.nearest(
                    ref.number(space.cell(j), end[j], space.dtype) + (1 if away > 0 else -1) * space.cell(j).step,
                    space.dtype,
                )
            assert not ref.is_member(space, threat, beyond, x0)


@given(randoms)
@settings(max_examples=150, deadline=None)
def test_a_finite_set_is_listed_completely(rng):
    space = ref.some_space(rng, kinds="lic", most=3)
    if rng.random() < 0.5:
        space = replace(space, relations=ref.some_relations(rng, space), originals="exempt")
    threat = ref.some_threat(rng, space)
    x0 = ref.some_input(rng, space)
    sets = build(space, threat, x0)
    if sets is None:
        return
    levels = [
        [ref.nearest(c.low + k * c.step, space.dtype) for k in range(int((c.high - c.low) // c.step) + 1)]
        for c in (space.cell(j) for j in range(space.size))
    ]
    expected = {x for x in itertools.product(*levels) if ref.is_member(space, threat, np.array(x), x0)}
    listed = sets.enumerate(0, 10_000)
    assert listed is not None
    assert len(listed) == len(expected)
    assert {tuple(x) for x in listed} == expected
    assert sets.count(10_000) == [len(expected)]
    if len(expected) > 1:
        assert sets.count(len(expected) - 1) == [None]
        assert sets.enumerate(0, len(expected) - 1) is None


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.fractions(min_value=-4, max_value=4, max_denominator=300),
)
@settings(max_examples=200, deadline=None)
def test_differences_compare_like_rationals(a, b, bound):
    for bound_ in (bound, F(a) - F(b), F(float(F(a) - F(b)))):
        said = at_most(np.array([a], np.float32), np.array([b], np.float32), bound_)
        assert said[0] == (F(a) - F(b) <= bound_)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=200, deadline=None)
def test_float64_differences_compare_like_rationals(a, b):
    exact = F(a) - F(b)
    if abs(exact) > F(2) ** 1000:
        return
    for bound in (exact, exact + F(1, 2**1100), exact - F(1, 2**1100), F(float(exact))):
        assert at_most(np.array([a]), np.array([b]), bound)[0] == (exact <= bound)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(rng=randoms)
@settings(max_examples=100, deadline=None)
def test_neighbours_of_a_sum(dtype, rng):
    x = np.array([rng.uniform(-2, 2) * 10.0 ** rng.randint(-5, 2)], dtype)
    bound = ref.some_radius(rng)
    exact = F(float(x[0])) + bound
    below, above = greatest_within(x, bound, dtype)[0], least_beyond(x, bound, dtype)[0]
    assert F(float(below)) <= exact <= F(float(above))
    assert below == above or np.nextafter(below, np.array(np.inf, dtype)) == above


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_never_a_member(poison):
    rng = random.Random(1)
    space = ref.some_space(rng, kinds="r", most=4)
    threat = replace(ref.some_threat(rng, space), allow=ref.Ball("l2", "s", F(100)), mutable=ref.Mutable("all"))
    x0 = ref.some_input(rng, space)
    sets = ThreatSet.build(space, threat, x0[None], ids=["a"])
    x = x0.copy()
    x[0] = poison
    (answer,) = sets.member(x[None])
    assert (answer.inside, answer.rule) == (False, "finite")
    projection = sets.project(x[None])
    assert not projection.inside[0]
    assert np.array_equal(projection.x[0], x0)


@given(randoms)
@settings(max_examples=60, deadline=None)
def test_a_radius_that_floating_point_cannot_tell_apart_is_still_decided(rng):
    """The radius is the distance itself, or less or more by 2**-90: float64 sums say nothing here."""
    size = rng.randint(2, 40)
    space = ref.Space("s", (size,), (ref.Cell("real", F(-2), F(2)),))
    x0, x = (np.array([rng.uniform(-1, 1) for _ in range(size)], np.float32) for _ in "ab")
    d = [abs(F(float(a)) - F(float(b))) for a, b in zip(x, x0, strict=True)]
    hair = F(1, 2**90)
    for norm, length in (("l1", sum(d)), ("l2", None), ("l2_rms", None)):
        square = sum(v * v for v in d) / (size if norm == "l2_rms" else 1)
        below = length if length is not None else F(isqrt(int(square * 4**100)), 2**100)
        exact_above = below if length is not None else below + F(1, 2**100)
        for radius, expected in ((below - hair, False), (exact_above, True), (exact_above + hair, True)):
            threat = replace(
                ref.some_threat(rng, ref.some_space(rng)), allow=ref.Ball(norm, "s", radius), mutable=ref.Mutable("all")
            )
            sets = ThreatSet.build(space, threat, x0[None], ids=["a"])
            assert sets.member(x[None])[0].inside is expected, (norm, radius)
