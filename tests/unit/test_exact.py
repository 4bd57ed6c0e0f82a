"""Directed rounding against numpy's own floats: the result is a value of the type, and its neighbour is too far."""

from __future__ import annotations

from fractions import Fraction as F
from math import copysign, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmlang.base.exact import FORMATS, round_down, round_nearest, round_up

TYPES = ("float16", "float32", "float64")
LEAST = {name: F(float(np.finfo(name).smallest_subnormal)) for name in TYPES}
MOST = {name: F(float(np.finfo(name).max)) for name in TYPES}


def numbers(dtype):
    """Rationals of every size that the type has, and a little around its least and greatest."""
    scaled = st.builds(lambda m, e: m * F(2) ** e, st.fractions(-2, 2, max_denominator=10**6), st.integers(-1080, 1023))
    floats = st.floats(allow_nan=False, allow_infinity=False).map(F)
    small = st.integers(-40, 40).map(lambda k: k * LEAST[dtype] / 4)
    great = st.builds(lambda k, s: s * (MOST[dtype] + F(k, 7)), st.integers(-9, 9), st.sampled_from((-1, 1)))
    return st.one_of(scaled, floats, small, great)


def after(value, dtype):
    """The next value of the type above ``value``, ``inf`` above the greatest."""
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.array(value, dtype), np.array(inf, dtype)))


@pytest.mark.parametrize("dtype", TYPES)
@given(data=st.data())
def test_rounding_goes_to_the_neighbour_on_its_side(dtype, data):
    q = data.draw(numbers(dtype))
    down, up = round_down(q, dtype), round_up(q, dtype)
    if down == -inf:
        assert q < -MOST[dtype]
    else:
        assert float(np.array(down, dtype)) == down
        assert F(down) <= q
        assert after(down, dtype) == inf or F(after(down, dtype)) > q
    assert up == -round_down(-q, dtype)
    assert up == inf or F(up) >= q


@pytest.mark.parametrize("dtype", TYPES)
@given(data=st.data())
def test_the_nearest_value_is_the_one_that_numpy_rounds_to(dtype, data):
    """For doubles: numpy's cast rounds to nearest, ties to even (IEEE 754). Halfway cases are drawn on purpose."""
    with np.errstate(over="ignore"):
        value = np.array(data.draw(st.floats(allow_nan=False, allow_infinity=False, width=64)), dtype)
    low = F(float(np.clip(value, np.finfo(dtype).min, np.finfo(dtype).max)))
    high = min(F(min(after(float(low), dtype), float(MOST[dtype]))), MOST[dtype])
    for q, expected in ((low, {low}), ((3 * low + high) / 4, {low}), ((low + 3 * high) / 4, {high})):
        assert F(round_nearest(q, dtype)) in expected
    even = min((low, high), key=lambda v: int(np.array(float(v), dtype).view(f"u{np.dtype(dtype).itemsize}")) & 1)
    assert F(round_nearest((low + high) / 2, dtype)) == even


@pytest.mark.parametrize("dtype", TYPES)
def test_beyond_the_greatest_value(dtype):
    top, beyond = MOST[dtype], MOST[dtype] * F(3, 2)
    assert [F(f(top, dtype)) for f in (round_down, round_up, round_nearest)] == [top] * 3
    assert [F(f(-top, dtype)) for f in (round_down, round_up, round_nearest)] == [-top] * 3
    assert (F(round_down(beyond, dtype)), round_up(beyond, dtype), F(round_nearest(beyond, dtype))) == (top, inf, top)
    assert (round_down(-beyond, dtype), F(round_up(-beyond, dtype)), F(round_nearest(-beyond, dtype))) == (
        -inf,
        -top,
        -top,
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_around_zero(dtype):
    hair = LEAST[dtype] / 3
    assert (round_down(hair, dtype), F(round_up(hair, dtype))) == (0, LEAST[dtype])
    assert (F(round_down(-hair, dtype)), round_up(-hair, dtype)) == (-LEAST[dtype], 0)
    assert [copysign(1, round_up(q, dtype)) for q in (F(0), -hair)] == [1, 1]


def test_the_formats_are_numpys():
    for name in TYPES:
        info, own = np.finfo(name), FORMATS[name]
        assert (own.precision, own.greatest) == (info.nmant + 1, float(info.max))
        assert 2.0**own.least_exponent == float(info.smallest_subnormal)
