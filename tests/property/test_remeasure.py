"""The auditor's membership in plain rationals against the arrays that a run decides by, at and around every edge."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from audit_support import threat
from hypothesis import given, settings
from hypothesis import strategies as st

from tmlang.audit.remeasure import broken_rules, distance, exact_values, squared
from tmlang.backends.threatset import ThreatSet
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.spaces import Cell, Delivery, Metric, Ref, Relation, Space
from tmlang.meaning.threats import Anything, Ball, Both, Either, Mutable, Patch, Property

UNIT = Cell("real", Fraction(0), Fraction(1))
BYTES = Cell("integer", Fraction(0), Fraction(255), Fraction(1))
STEPS = Cell("lattice", Fraction(0), Fraction(1), Fraction(1, 255))


def image(cell, **changes):
    return Space("px", (3, 4, 5), (cell,), **changes)


KIND = Cell("category", Fraction(0), Fraction(2), Fraction(1), categories=("a", "b", "c"))
WEIGHTS = (("p", Fraction(1)), ("temp", Fraction(1, 50)), ("count", Fraction(1, 255)), ("kind", Fraction(1, 2)))
TABLE = Space(
    "px",
    (4,),
    (UNIT, Cell("real", Fraction(-40), Fraction(85), unit="degC"), BYTES, KIND),
    "each",
    features=("p", "temp", "count", "kind"),
    relations=(Relation(Ref("p"), "<=", Ref("count"), text="p <= count"),),
    metrics=(Metric("m", WEIGHTS),),
)
IMAGES = [
    image(UNIT),
    image(STEPS),
    image(BYTES),
    image(UNIT, dtype="float64"),
    image(UNIT, delivery=Delivery("png")),
    image(UNIT, delivery=Delivery("rounded", Fraction(1, 16))),
    image(UNIT, delivery=Delivery("float16")),
    replace(image(UNIT), layout="channel", channel_axis=0, cells=(UNIT, Cell("real", Fraction(-1), Fraction(1)), UNIT)),
]
RADII = st.sampled_from([Fraction(1, 255), Fraction(2, 255), Fraction(1, 16), Fraction(1, 4), Fraction(1), Fraction(3)])
BALLS = st.builds(
    Ball, st.sampled_from(["linf", "l2", "l2_rms", "l1", "l0", "pixels_changed"]), st.just("px"), RADII
) | st.builds(lambda r, q: Ball("linf", "px", radii=(("0", r), ("1", q), ("2", r)), per="channel"), RADII, RADII)
PATCHES = st.builds(Patch, st.just("rectangle"), st.just(2), st.just(1), st.sampled_from([None, (0, 1)])) | st.just(
    Patch("disc", 3, 3, None)
)
ALLOWED = st.one_of(
    BALLS,
    PATCHES,
    st.just(Anything()),
    st.builds(lambda a, b: Both((a, b)), BALLS, BALLS),
    st.builds(lambda a, b: Either((a, b), ("a", "b")), BALLS, BALLS | PATCHES),
)
MUTABLE = st.sampled_from(
    [
        *[Mutable("all")] * 6,
        Mutable("rows", ranges=((0, 1),)),
        Mutable("columns", ranges=((1, 1),), except_=True),
        Mutable("channels", ranges=((1, 1),)),
    ]
)


def points(draw, space, count):
    """Values of the space: originals and candidates, many of them a few steps apart."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low = np.array([float(space.cell(i).low) for i in range(space.size)])
    high = np.array([float(space.cell(i).high) for i in range(space.size)])
    grid = [space.cell(i).step for i in range(space.size)]
    steps = np.array([1 / 255 if s is None else float(s) for s in grid])
    levels = np.floor((high - low) / steps + 0.5)
    k = np.floor(rng.random((count, space.size)) * (levels + 1)).clip(0, levels)
    moves = rng.random(k.shape) < draw(st.sampled_from([0.05, 0.3, 1]))
    outside = draw(st.sampled_from([0, 0, 0, 1]))
    near = (k + rng.integers(-2, 3, k.shape) * moves).clip(-outside, levels + outside)
    x, y = (low + steps * k), (low + steps * near)
    if draw(st.integers(0, 3)) == 0:
        y = y + (rng.random(y.shape) - 0.5) * 1e-3 * np.array([s is None for s in grid])
    shape = (count, *space.shape)
    return x.astype(space.dtype).reshape(shape), y.astype(space.dtype).reshape(shape)


def same(space, t, x, y):
    try:
        sets = ThreatSet.build(space, t, x, ids=[str(i) for i in range(len(x))])
    except Stop:
        return
    for i, found in enumerate(sets.member(y)):
        try:
            inside = not broken_rules(
                space, t, exact_values(space, x[i], indices=False), exact_values(space, y[i], indices=False)
            )
        except ValueError:
            inside = False
        assert inside == found.inside, (found, x[i], y[i])


@given(st.data(), st.sampled_from(IMAGES), ALLOWED, MUTABLE)
@settings(max_examples=200, deadline=None)
def test_images(data, space, allow, mutable):
    same(space, threat(allow=allow, mutable=mutable), *points(data.draw, space, 4))


@given(
    st.data(),
    st.sampled_from(
        [
            Ball("metric", "px", Fraction(1, 2), metric="m"),
            Ball("linf", "px", per="feature", radii=(("temp", Fraction(2)), ("count", Fraction(1)))),
            Anything(),
        ]
    ),
    st.sampled_from(
        [
            Mutable("all"),
            Mutable("features", names=(("temp", "up"), ("p", "any"))),
            Mutable("features", names=(("kind", "any"),), except_=True),
        ]
    ),
)
@settings(max_examples=150, deadline=None)
def test_tables(data, allow, mutable):
    same(TABLE, threat(allow=allow, mutable=mutable), *points(data.draw, TABLE, 4))


def test_distances_by_hand():
    space = image(UNIT)
    a = [Fraction(0)] * 60
    b = [Fraction(1, 2), Fraction(0), Fraction(1, 4)] + [Fraction(0)] * 17 + [Fraction(1)] + [Fraction(0)] * 39
    assert distance(space, "linf", a, b) == 1
    assert distance(space, "l1", a, b) == Fraction(7, 4)
    assert squared(a, b) == Fraction(1, 4) + Fraction(1, 16) + 1
    assert distance(space, "l0", a, b) == 3
    assert distance(space, "pixels_changed", a, b) == 2


def test_a_value_off_its_lattice_is_no_value():
    with pytest.raises(ValueError, match="step"):
        exact_values(image(STEPS), np.full((3, 4, 5), 0.5, np.float32), indices=False)
    with pytest.raises(ValueError, match="finite"):
        exact_values(image(UNIT), np.full((3, 4, 5), np.nan, np.float32), indices=False)
    assert exact_values(image(STEPS), np.full((3, 4, 5), 51), indices=True)[0] == Fraction(1, 5)


def test_the_box_of_a_property():
    phi = Property("phi", "net", (("temp", "<=", Fraction(3)), ("p", ">=", Fraction(1, 2))), ())
    inside = [Fraction(1, 2), Fraction(3), Fraction(1), Fraction(0)]
    assert broken_rules(TABLE, phi, inside, inside) == []
    outside = [Fraction(1, 4), Fraction(4), Fraction(1), Fraction(0)]
    assert broken_rules(TABLE, phi, inside, outside) == ["limit of temp", "limit of p"]
    assert broken_rules(TABLE, phi, inside, [Fraction(1, 2), Fraction(3), Fraction(0), Fraction(0)]) == [
        "relation p <= count"
    ]
