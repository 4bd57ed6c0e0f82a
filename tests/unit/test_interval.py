"""Limits and intervals of coordinates: meets by hand, ends by trying the neighbours in rationals."""

from __future__ import annotations

import itertools
import random
import warnings
from fractions import Fraction as F

import numpy as np
import pytest

from tmlang.backends.domain import Domain
from tmlang.backends.interval import Limits, at_most, box, greatest_within, least_beyond
from tmlang.meaning.spaces import Cell, Delivery, Space

FEATURES = tuple("pqrs")


def at(limits):
    return [limits.radii[k] for k in limits.of]


def test_limits_meet_coordinate_by_coordinate():
    one = Limits(np.array([0, 0, 1, 1, 2]), (F(1), F(2), None))
    other = Limits(np.array([0, 1, 0, 1, 0]), (None, F(3, 2)))
    met = one.meet(other)
    assert at(met) == [F(1), F(1), F(2), F(3, 2), None]
    assert at(one.meet(Limits.uniform(5, None))) == at(Limits.uniform(5, None).meet(one)) == [1, 1, 2, 2, None]
    assert at(Limits.uniform(3, None).meet(Limits.uniform(3, F(1)))) == [1, 1, 1]
    assert met.of.shape == (5,)


def test_limits_without_any_are_unlimited():
    assert Limits.uniform(3, None).unlimited
    assert not Limits.uniform(3, F(0)).unlimited
    assert not Limits(np.array([0, 1]), (None, F(1))).unlimited
    uniform = Limits.uniform(3, F(1, 3))
    assert (uniform.of.tolist(), uniform.radii) == ([0, 0, 0], (F(1, 3),))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_differences_are_compared_exactly(dtype):
    """Bounds that are the difference itself, a hair beside it, its float, and that float's neighbours."""
    rng = random.Random(dtype)
    top = float(np.finfo(dtype).max) / 4
    for _ in range(400):
        scale = 10.0 ** rng.randint(-6, 3)
        a, b = (np.array(rng.uniform(-1, 1) * scale * rng.choice((1, 1e-3, 1e3)), dtype) for _ in "ab")
        if rng.random() < 0.1:
            a = np.array(top, dtype)
        if not np.isfinite([a, b]).all():
            continue
        exact = F(float(a)) - F(float(b))
        near = float(exact)
        bounds = [exact, exact + F(1, 2**1100), exact - F(1, 2**1100), F(near)]
        bounds += [F(float(np.nextafter(near, s * np.inf))) for s in (-1, 1)]
        for bound in bounds:
            assert at_most(a[None], b[None], bound)[0] == (exact <= bound)


def test_a_bound_beyond_every_float_holds_whatever_is_within_it():
    a, b = np.array([1e308, -1e308, 3.0]), np.array([0.0, 0.0, 1.0])
    assert at_most(a, b, F(10) ** 400).tolist() == [True] * 3
    assert at_most(a, b, -(F(10) ** 400)).tolist() == [False] * 3
    top = np.finfo("float64").max
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bound, holds in ((2 * F(top), True), (2 * F(top) - 1, False), (F(top), False)):
            assert at_most(np.array([top]), np.array([-top]), bound).tolist() == [holds]
            assert at_most(np.array([-top]), np.array([top]), -bound).tolist() == [bound <= 2 * F(top)]


@pytest.mark.parametrize("grid", ["float16", "float32", "float64"])
def test_ends_stop_at_the_types_own(grid):
    top = np.finfo(grid).max
    x = np.array([top, -top, 0, 1], grid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert greatest_within(x, F(10) ** 400, grid).tolist() == [top] * 4
        assert greatest_within(x[:1], F(int(top)), grid).tolist() == [top]
    for bound in (F(0), F(1, 3), F(int(top)) / 2, F(int(top))):
        for start, c in zip(x, greatest_within(x, bound, grid), strict=True):
            assert F(float(c)) - F(float(start)) <= bound
            with np.errstate(over="ignore"):
                after = np.nextafter(c, np.array(np.inf, grid))
            assert after == np.inf or F(float(after)) - F(float(start)) > bound
        least = least_beyond(x[1:], bound, grid)
        for start, c in zip(x[1:], least, strict=True):
            assert c == np.inf or F(float(c)) - F(float(start)) >= bound
            before = np.nextafter(c, np.array(-np.inf, grid))
            assert before == -np.inf or F(float(before)) - F(float(start)) < bound


CELLS = (
    Cell("real", F(0), F(1, 3)),
    Cell("lattice", F(0), F(1), F(1, 10)),
    Cell("integer", F(-3), F(9), F(1)),
    Cell("real", F(-1, 10), F(1, 10)),
)


def ends(cell, x, radius, up, down, outward):
    """The admissible interval of one coordinate, by trying floats or levels around its exact ends."""
    low, high = cell.low, cell.high
    if cell.kind != "real":
        levels = [low + k * cell.step for k in range(int((high - low) / cell.step) + 1)]
        own = min(levels, key=lambda v: abs(v - F(float(x))))
        inside = [v for v in levels if radius is None or abs(v - own) <= radius]
        rounded = [np.float32(float(v)) for v in (inside[0], inside[-1])]
        if outward:
            rounded = [
                np.nextafter(r, np.float32(s * np.inf)) if (F(float(r)) - v) * s < 0 else r
                for r, v, s in zip(rounded, (inside[0], inside[-1]), (-1, 1), strict=True)
            ]
        return (rounded[0] if down else x, rounded[1] if up else x)
    if radius is not None:
        low, high = max(low, F(float(x)) - radius), min(high, F(float(x)) + radius)
    found = []
    for end, inward in ((low, 1), (high, -1)):
        v = np.float32(float(end))
        step = inward if not outward else -inward
        around = [np.nextafter(v, np.float32(s * np.inf)) for s in (-1, 1)] + [v]
        fits = [w for w in around if (F(float(w)) - end) * step >= 0]
        found.append(min(fits, key=lambda w: abs(F(float(w)) - end)))
    return (found[0] if down else x, found[1] if up else x)


@pytest.mark.parametrize("outward", [False, True])
def test_a_box_has_the_ends_of_every_coordinate(outward):
    space = Space("s", (4,), CELLS, "each", features=FEATURES)
    domain = Domain(space)
    rng = random.Random(7)
    radii = (F(1, 8), None, F(2), F(3, 10))
    for of in itertools.product(range(4), repeat=4):
        if rng.random() < 0.8:
            continue
        start = (rng.uniform(0, 1 / 3), rng.randint(0, 10) / 10, rng.randint(-3, 9), rng.uniform(-0.1, 0.1))
        x = np.array([start], np.float32)
        k, on = domain.indices(x)
        assert on.all()
        up, down = (np.array([[rng.random() < 0.8 for _ in range(4)]]) for _ in "ud")
        lower, upper = box(domain, x, k, Limits(np.array(of), radii), (up, down), outward=outward)
        for j in range(4):
            expected = ends(CELLS[j], x[0, j], radii[of[j]], up[0, j], down[0, j], outward)
            assert (lower[0, j], upper[0, j]) == expected, (j, x[0, j], radii[of[j]])


def test_an_outward_box_has_the_ends_of_the_space_and_not_of_its_delivery():
    space = Space("s", (1,), (Cell("real", F(0), F(1, 3)),), delivery=Delivery("float16"))
    domain, x, free = Domain(space), np.zeros((1, 1), np.float32), np.ones((1, 1), bool)
    k, _ = domain.indices(x)
    ends_ = [box(domain, x, k, Limits.uniform(1, None), (free, free), outward=o)[1][0, 0] for o in (False, True)]
    assert F(float(ends_[0])) == max(F(k, 2**12) for k in range(2**12) if F(k, 2**12) <= F(1, 3))
    assert F(1, 3) <= F(float(ends_[1])) < F(1, 3) + F(1, 2**24)
