"""Sets of transformed pictures: what T makes, by hand, by scipy and by the auditor; which parameters are allowed."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from scipy.ndimage import affine_transform

from tmlang.audit.remeasure import exact_values
from tmlang.audit.retransform import made_by
from tmlang.backends.threatset import ThreatSet
from tmlang.base.angles import cos_sin, tan
from tmlang.meaning.spaces import Cell, Delivery, Space
from tmlang.meaning.threats import Access, Goal, Mutable, Threat, Transform
from tmlang.meaning.values import Quantity

REAL = Cell("real", F(0), F(1))
BYTES = Cell("integer", F(0), F(255), F(1))
LEVELS = Cell("lattice", F(0), F(1), F(1, 255))


def space_of(shape=(1, 3, 3), cell=REAL, **changes):
    return Space("px", shape, (cell,), channel_axis=0, **changes)


def threat(parts, interpolate="bilinear", fill=F(0), steps=()):
    named = tuple((name, Quantity(F(most), None)) for name, most in parts)
    allow = Transform(named, interpolate, F(fill), steps)
    return Threat("t", "m", "d", allow, None, Mutable("all"), Goal("untargeted"), Access("white_box"), "fail")


def sets_of(x, *args, space=None, **kwargs):
    x = np.asarray(x)
    space = space or space_of(x.shape[1:])
    return ThreatSet.build(space, threat(*args, **kwargs), x.astype(space.dtype), ids=list(map(str, range(len(x)))))


def made(sets, theta):
    theta = np.atleast_2d(np.asarray(theta, np.float64))
    flat = sets.originals.reshape(len(sets), -1)
    return sets.transforms[0].made(flat, theta).reshape(sets.originals.shape)


PICTURE = np.array([[[[0.0, 0.25, 0.5], [0.75, 1.0, 0.125], [0.375, 0.625, 0.875]]]])


# --- by hand --------------------------------------------------------------------------------------------------------


def test_half_a_pixel_down_and_a_quarter_to_the_right():
    """Pixel (r, c) is taken from (r - 1/2, c - 1/4): weights 1/2 and 1/2 down, 1/4 and 3/4 across; beyond it is 1."""
    sets = sets_of(PICTURE, [("translate", 1)], fill=1)
    p = np.pad(PICTURE[0, 0], 1, constant_values=1.0)
    expected = [
        [
            (p[r, c] * 0.25 + p[r, c + 1] * 0.75) / 2 + (p[r + 1, c] * 0.25 + p[r + 1, c + 1] * 0.75) / 2
            for c in range(3)
        ]
        for r in range(3)
    ]
    assert made(sets, [0.5, 0.25])[0, 0].tolist() == expected


def test_a_quarter_turn_is_counterclockwise_and_exact():
    sets = sets_of(PICTURE, [("rotate", 180)])
    assert (made(sets, [90.0]) == np.rot90(PICTURE, 1, axes=(2, 3))).all()
    assert (made(sets, [-180.0]) == np.rot90(PICTURE, 2, axes=(2, 3))).all()


def test_the_order_is_that_of_the_spec():
    """Turned left and then down a pixel, or down a pixel and then turned left: the latter goes to the right."""
    turned = np.rot90(PICTURE[0, 0])
    down = made(sets_of(PICTURE, [("rotate", 90), ("translate", 1)]), [90.0, 1.0, 0.0])[0, 0]
    assert (down == np.vstack([np.zeros((1, 3)), turned[:2]])).all()
    right = made(sets_of(PICTURE, [("translate", 1), ("rotate", 90)]), [1.0, 0.0, 90.0])[0, 0]
    assert (right == np.hstack([np.zeros((3, 1)), turned[:, :2]])).all()


def test_grown_and_leaning():
    """Grown by 3/2, the corner (-1, -1) comes from (-2/3, -2/3): two thirds of the first row and column, a third of the
    middle ones. Leaning by 45 degrees, the last row moves a pixel to the right."""
    grown = made(sets_of(PICTURE, [("scale", F(1, 2))]), [0.5])[0, 0]
    assert grown[0, 0] == pytest.approx(4 / 9 * 0.0 + 2 / 9 * (0.25 + 0.75) + 1 / 9 * 1.0)
    lean = made(sets_of(PICTURE, [("shear", 60)]), [45.0])[0, 0]
    assert lean.tolist() == [[0.25, 0.5, 0.0], [0.75, 1.0, 0.125], [0.0, 0.375, 0.625]]


def test_values_change_behind_the_picture_and_are_clipped_once():
    """Shifted with fill 0, then (v - 1/2) * 3/2 + 1/2 + 1/4: the paper that came in is changed as well."""
    parts = [("translate", 1), ("contrast", F(1, 2)), ("brightness", F(1, 4))]
    out = made(sets_of(PICTURE, parts), [1.0, 0.0, 0.5, 0.25])[0, 0]
    assert out[0].tolist() == [0.0, 0.0, 0.0]  # -1/4 + 1/4
    assert out[1].tolist() == [0.0, 0.375, 0.75]
    assert out[2].tolist() == [1.0, 1.0, 0.1875]


def test_half_a_level_goes_to_the_even_one():
    x = np.array([[[[0.0, 1.0, 4.0, 5.0]]]])
    sets = sets_of(x, [("translate", 1)], space=space_of((1, 1, 4), BYTES))
    assert made(sets, [0.0, 0.5])[0, 0, 0].tolist() == [0.0, 0.0, 2.0, 4.0]  # of 0, 1/2, 5/2, 9/2


def test_the_nearest_pixel_of_a_half_is_the_later_one():
    sets = sets_of(PICTURE, [("translate", 1)], "nearest")
    assert made(sets, [0.0, 0.5])[0, 0].tolist() == PICTURE[0, 0].tolist()  # c - 1/2 + 1/2
    assert made(sets, [0.0, -0.5])[0, 0, 0].tolist() == [0.25, 0.5, 0.0]


def test_published_cosines():
    assert cos_sin(F(60))[0] == F(1, 2)
    assert cos_sin(F(-270)) == (F(0), F(1))
    assert tan(F(45)) == 1
    # 0.017452406437283512819418978516316192472253027207139...
    assert float(cos_sin(F(1))[1]) == 0.01745240643728351
    # A degree is 0.01745329251994329576923690768488612713...; so small an angle is its sine.
    assert float(cos_sin(F(2.0**-200))[1]) == 2.0**-200 * 0.017453292519943295


# --- by others ------------------------------------------------------------------------------------------------------


def forward(parts, theta):
    """The map of pixels in homogeneous coordinates about the centre (row, column, 1)."""
    total, left = np.eye(3), list(theta)
    for name, _ in parts:
        t = left.pop(0)
        cos, sin, tan_t = (f(np.deg2rad(t)) for f in (np.cos, np.sin, np.tan))
        step = {
            "rotate": [[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]],
            "translate": [[1, 0, t], [0, 1, left[0] if left else 0], [0, 0, 1]],
            "scale": [[1 + t, 0, 0], [0, 1 + t, 0], [0, 0, 1]],
            "shear": [[1, 0, 0], [tan_t, 1, 0], [0, 0, 1]],
        }[name]
        left = left[1:] if name == "translate" else left
        total = np.array(step) @ total
    return total


@pytest.mark.parametrize("interpolate", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    "parts",
    [
        [("rotate", 30)],
        [("rotate", 180), ("translate", 3)],
        [("translate", 2), ("scale", F(1, 2)), ("shear", 40), ("rotate", 20)],
    ],
)
def test_scipy_makes_the_same_pictures(parts, interpolate):
    rng = np.random.default_rng(3)
    x = rng.random((12, 2, 7, 10)).astype(np.float32)
    sets = sets_of(x, parts, interpolate, F(1, 4))
    theta = rng.uniform(-1, 1, (12, len(sets.transforms[0].most))) * sets.transforms[0].most
    out = made(sets, theta)
    centre = np.array([[1, 0, -3], [0, 1, -4.5], [0, 0, 1]])
    for i in range(12):
        back = np.linalg.inv(np.linalg.inv(centre) @ forward(parts, theta[i]) @ centre)
        order = {"nearest": 0, "bilinear": 1}[interpolate]
        for channel in range(2):
            own = affine_transform(
                x[i, channel].astype(float), back[:2, :2], back[:2, 2], order=order, mode="grid-constant", cval=0.25
            )
            np.testing.assert_allclose(out[i, channel], own, rtol=0, atol=2e-7)


@pytest.mark.parametrize("interpolate", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize(
    "space",
    [
        space_of((2, 4, 5)),
        space_of((1, 4, 5), dtype="float64"),
        space_of((1, 4, 5), BYTES),
        space_of((1, 5, 4), LEVELS),
        space_of((1, 4, 5), delivery=Delivery("float16")),
    ],
    ids=["real", "double", "bytes", "levels", "half"],
)
@pytest.mark.parametrize("coarse", [False, True], ids=["anywhere", "halves"])
def test_the_auditor_makes_the_same_bits(space, interpolate, coarse):
    """At halves and quarter turns values lie between two floats or levels exactly, and edges between two pixels."""
    rng = np.random.default_rng(5)
    parts = [("rotate", 180), ("translate", 2), ("scale", F(1, 2)), ("contrast", F(1, 2)), ("brightness", F(1, 4))]
    cell = space.cells[0]
    x = rng.random((4, *space.shape)).astype(np.float16)
    if cell.step:
        x = (rng.integers(0, 256, x.shape) * float(cell.step)).astype(space.dtype)
    sets = sets_of(x, parts, interpolate, F(1, 3), space=space)
    theta = rng.uniform(-1, 1, (4, 6)) * sets.transforms[0].most
    if coarse:
        theta = np.rint(theta * [1 / 45, 2, 2, 0, 4, 8]) / [1 / 45, 2, 2, 1, 4, 8]
    out = made(sets, theta)
    assert sets.inside(out, theta).all()
    allow = sets.threat.allow
    for i in range(4):
        start, point = (exact_values(space, a[i], indices=False) for a in (sets.originals, out))
        assert made_by(space, allow, start, point, theta[i].tolist())
        j = int(rng.integers(len(point)))
        other = list(point)
        one = cell.step or F(float(np.spacing(np.dtype(sets.domain.grid).type(float(point[j])))))
        other[j] += one if point[j] < sets.transforms[0].how.middle[j] else -one
        assert not made_by(space, allow, start, other, theta[i].tolist())


# --- membership -----------------------------------------------------------------------------------------------------


def test_a_picture_alone_and_one_bit_and_other_parameters_are_outside():
    sets = sets_of(PICTURE, [("rotate", 30)])
    theta = np.array([[17.25]])
    out = made(sets, theta)
    assert sets.member(out, theta)[0].inside
    assert sets.member(out)[0].rule == "transform"
    assert not sets.inside(out, np.array([[17.2501]])).any()
    assert not sets.inside(out, np.array([[17.25, 0.0]])).any()
    for i in range(9):
        other = out.copy()
        other.flat[i] = np.nextafter(other.flat[i], np.float32(0.5))
        assert not sets.inside(other, theta).any()


@pytest.mark.parametrize(
    ("theta", "inside"),
    [(30.0, True), (-30.0, True), (float(np.nextafter(30.0, 31)), False), (np.nan, False), (np.inf, False)],
)
def test_the_box_is_closed_and_exact(theta, inside):
    sets = sets_of(PICTURE, [("rotate", 30)])
    assert sets.transforms[0].allows(np.array([[theta]])).tolist() == [inside]


def test_a_bound_between_two_floats_is_rounded_down():
    transform = sets_of(PICTURE, [("translate", F(1, 10))]).transforms[0]
    assert F(0.1) > F(1, 10)
    assert transform.most[0] == np.nextafter(0.1, 0)
    assert not transform.allows(np.array([[0.1, 0.0]])).any()


def test_a_grid_holds_the_nearest_float_of_each_multiple():
    """Thirds up to 1: seven values, 1/3 as the nearest float64; two parameters of a shift: 49 points."""
    sets = sets_of(PICTURE, [("translate", 1)], steps=(F(1, 3),))
    assert sets.transforms[0].allows(np.array([[1 / 3, 1.0], [0.0, -2 / 3]])).all()
    assert not sets.transforms[0].allows(np.array([[0.3333, 0.0], [0.0, 4 / 3]])).any()
    assert len(sets.transforms[0].points(49)) == 49
    assert sets.transforms[0].points(48) is None
    assert (sets.transforms[0].points(49)[0] == 0).all()
    assert (sets.transforms[0].nearest(np.array([[0.4, -9.0]])) == [[1 / 3, -1.0]]).all()


def test_a_finite_set_is_listed_each_picture_once():
    """Whole pixels up to 1 of a picture with a single dot in the middle: nine pictures; of a blank one a single one."""
    x = np.zeros((2, 1, 3, 3))
    x[0, 0, 1, 1] = 1
    sets = sets_of(x, [("translate", 1)], steps=(F(1),))
    assert sets.count(100) == [9, 1]
    assert sets.count(8) == [None, None]
    listed = sets.enumerate(0, 100)
    assert sorted(int(p.argmax()) for p in listed.reshape(9, 9)) == list(range(9))
    assert (listed.sum(axis=(1, 2, 3)) == 1).all()
    endless = sets_of(x, [("translate", 1)])
    assert endless.count(100) == [None, None]


def test_nothing_is_projected():
    sets = sets_of(PICTURE, [("rotate", 30)])
    found = sets.project(np.ones_like(sets.originals))
    assert not found.inside.any()
    assert (found.x == sets.originals).all()
