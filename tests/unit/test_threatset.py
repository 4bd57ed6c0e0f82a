"""Allowed sets by hand: published radii, masks, codecs, patches, refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from tmlang.backends.threatset import Membership, ThreatSet
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.spaces import Cell, Delivery, Num, Op, Ref, Relation, Space
from tmlang.meaning.threats import Access, Anything, Ball, Both, Either, Goal, Mutable, Patch, Threat
from tmlang.meaning.values import Artifact

PIXELS = Space("px", (3, 4, 5), (Cell("real", F(0), F(1)),), channel_axis=0)
BYTES = Space("img", (4, 5, 3), (Cell("integer", F(0), F(255), F(1)),), channel_axis=2)


def threat(allow, mutable=None, **changes):
    plain = Threat(
        "t", "m", "d", allow, None, mutable or Mutable("all"), Goal("untargeted"), Access("white_box"), "fail"
    )
    return replace(plain, **changes)


def linf(radius, space="px", **changes):
    return Ball("linf", space, F(radius), **changes)


def sets_of(space, allow, x0, mutable=None, mask=None):
    x0 = np.asarray(x0, space.dtype)
    return ThreatSet.build(space, threat(allow, mutable), x0, ids=[f"u{i}" for i in range(len(x0))], mask=mask)


def code_of(*args, **kwargs):
    with pytest.raises(Stop) as e:
        sets_of(*args, **kwargs)
    return e.value.diagnostics[0]


# --- radii and boxes -------------------------------------------------------------------------------------


def test_eight_of_255_from_a_black_pixel():
    """8/255 lies between two floats of which 0.03137255 (bits 0x3d008081) is above and its predecessor below."""
    sets = sets_of(PIXELS, linf(F(8, 255)), np.zeros((1, 3, 4, 5)))
    nearest = np.float32(8 / 255)
    assert F(float(nearest)) > F(8, 255)
    assert (sets.upper == np.nextafter(nearest, np.float32(0))).all()
    assert (sets.lower == 0).all()
    low, high = sets.outward_box()
    assert (high == nearest).all()
    assert (low == 0).all()


def test_the_sensor_has_257_inputs():
    """[0.375, 0.5] on steps of 1/1024, the first within 0.125 = 128 steps, the second frozen."""
    cell = Cell("lattice", F(0), F(1), F(1, 1024))
    space = Space("reading", (2,), (cell, cell), "each", features=("first", "second"))
    sets = sets_of(space, linf(F(1, 8)), [[0.375, 0.5], [0.0, 1.0]], Mutable("features", (("first", "any"),)))
    assert sets.count(1000) == [257, 129]
    assert sets.count(256) == [None, 129]
    listed = sets.enumerate(0, 1000)
    assert sorted(listed[:, 0]) == [k / 1024 for k in range(256, 513)]
    assert (listed[:, 1] == 0.5).all()
    assert sets.rows([0]).member(np.array([[0.5, 0.5]], np.float32)) == [Membership(True)]
    assert sets.rows([0]).member(np.array([[0.5, 0.25]], np.float32))[0].rule == "mask"
    assert sets.rows([0]).member(np.array([[0.5 + 1 / 1024, 0.5]], np.float32))[0].rule == "linf"
    assert sets.rows([0]).member(np.array([[0.4, 0.5]], np.float32))[0].rule == "lattice"


def test_levels_count_exactly():
    x0 = np.full((1, 4, 5, 3), 250)
    sets = sets_of(BYTES, linf(8, "img"), x0)
    assert (sets.lower == 242).all()
    assert (sets.upper == 255).all()
    assert sets.count(14**60) == [14**60]


def test_one_radius_per_channel():
    ball = Ball("linf", "px", None, (("0", F(1, 4)), ("1", F(1, 8)), ("2", F(0))), "channel")
    sets = sets_of(PIXELS, ball, np.full((1, 3, 4, 5), 0.5))
    assert [float(v) for v in sets.upper[0, :, 0, 0]] == [0.75, 0.625, 0.5]
    outside = np.full((1, 3, 4, 5), 0.5, np.float32)
    outside[0, 1, 2, 3] = 0.75
    assert sets.member(outside)[0].rule == "linf per channel"


def test_one_radius_per_feature_freezes_the_unnamed():
    cells = (Cell("real", F(-40), F(85), unit="degC"), Cell("real", F(0), F(2), unit="kN"))
    space = Space("s", (2,), cells, "each", features=("temp", "load"))
    sets = sets_of(space, Ball("linf", "s", None, (("temp", F(2)),), "feature", tolerance=F(1, 2)), [[84.0, 1.0]])
    assert sets.lower.tolist() == [[81.5, 1.0]]
    assert sets.upper.tolist() == [[85.0, 1.0]]


def test_a_domain_per_channel():
    cells = tuple(Cell("real", F(0), F(k)) for k in (1, 2, 4))
    space = Space("px", (3, 2, 2), cells, "channel", channel_axis=0)
    sets = sets_of(space, Anything(), np.ones((1, 3, 2, 2)))
    assert sets.upper[0, :, 1, 1].tolist() == [1, 2, 4]


def test_a_tolerance_is_part_of_the_set():
    x = np.full((1, 3, 4, 5), 0.30005, np.float32)
    zero = np.zeros((1, 3, 4, 5))
    assert not sets_of(PIXELS, linf("0.3"), zero).inside(x)[0]
    assert sets_of(PIXELS, linf("0.3", tolerance=F(1, 10000)), zero).inside(x)[0]


def test_the_domain_is_that_of_the_written_numbers():
    """float32(0.1) is greater than 1/10."""
    space = Space("s", (1,), (Cell("real", F(0), F(1, 10)),))
    found = code_of(space, linf(1, "s"), [[0.1]])
    assert found.code == "TM820"
    assert "`u0`" in found.message
    assert "`domain`" in found.message


# --- unions and intersections ----------------------------------------------------------------------------


def test_a_union_names_every_branch_that_holds():
    allow = Either((linf(F(1, 8)), Ball("l2", "px", F(1, 2)), Ball("l1", "px", F(1, 4))), ("flat", "", "spiky"))
    sets = sets_of(PIXELS, allow, np.full((4, 3, 4, 5), 0.5))
    x = np.full((4, 3, 4, 5), 0.5, np.float32)
    x[0] = 0.625
    x[1, 0, 0, 0] = 0.25
    x[2, 0, 0, 0] = 0.125
    x[3] = 0.75
    assert [(m.inside, m.branch) for m in sets.member(x)] == [
        (True, "flat"), (True, "2 spiky"), (True, "2"), (False, None),
    ]  # fmt: skip
    assert sets.member(x)[3].rule == "flat: linf; 2: l2; spiky: l1"
    assert (sets.upper == 1).all()


def test_an_intersection_is_both():
    allow = Both((linf(F(1, 4)), Ball("l0", "px", F(2))))
    sets = sets_of(PIXELS, allow, np.full((3, 3, 4, 5), 0.5))
    x = np.full((3, 3, 4, 5), 0.5, np.float32)
    x[0, 0, 0, :2] = 0.75
    x[1, 0, 0, :3] = 0.75
    x[2, 0, 0, 0] = 0.875
    assert [m.rule for m in sets.member(x)] == [None, "l0", "linf"]


# --- masks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutable", "free"),
    [
        (Mutable("all"), 60),
        (Mutable("rows", ranges=((0, 1),)), 2 * 5 * 3),
        (Mutable("rows", ranges=((0, 1),), except_=True), 2 * 5 * 3),
        (Mutable("rows", ranges=((0, 2),), except_=True), 1 * 5 * 3),
        (Mutable("columns", ranges=((0, 0), (4, 4))), 4 * 2 * 3),
        (Mutable("channels", ranges=((1, 1),)), 20),
    ],
)
@pytest.mark.parametrize("space", [PIXELS, BYTES])
def test_parts_of_a_picture(space, mutable, free):
    sets = sets_of(space, linf(F(1, 2) if space is PIXELS else 9, space.name), np.zeros((2, *space.shape)), mutable)
    assert sets.mask.shape == (2, *space.shape)
    assert int(sets.mask[0].sum()) == free
    assert np.array_equal(sets.lower != sets.upper, sets.mask)


def test_rows_of_a_picture_with_channels_last():
    sets = sets_of(BYTES, linf(1, "img"), np.zeros((1, 4, 5, 3)), Mutable("rows", ranges=((3, 3),)))
    assert sets.mask[0, 3].all()
    assert not sets.mask[0, :3].any()


def test_one_way_features():
    cell = Cell("real", F(0), F(10))
    space = Space("s", (3,), (cell, cell, cell), "each", features=("a", "b", "c"))
    mutable = Mutable("features", (("a", "up"), ("b", "down")))
    sets = sets_of(space, linf(2, "s"), [[5, 5, 5]], mutable)
    assert sets.lower.tolist() == [[5, 3, 5]]
    assert sets.upper.tolist() == [[7, 5, 5]]
    assert sets.member(np.array([[4, 5, 5]], np.float32))[0].rule == "mask"
    everything_else = sets_of(space, linf(2, "s"), [[5, 5, 5]], replace(mutable, except_=True))
    assert everything_else.mask.tolist() == [[False, False, True]]


def test_a_mask_from_a_file_for_each_example():
    mask = np.zeros((2, 3, 4, 5), np.uint8)
    mask[0, 0, 0, 0] = 1
    mutable = Mutable("mask", file=Artifact("m.npy"), per_example=True)
    sets = sets_of(PIXELS, linf(F(1, 2)), np.zeros((2, 3, 4, 5)), mutable, mask)
    assert sets.mask.sum() == 1
    assert sets.rows([1, 0, 0]).mask.sum(axis=(1, 2, 3)).tolist() == [0, 1, 1]
    assert code_of(PIXELS, linf(F(1, 2)), np.zeros((2, 3, 4, 5)), mutable, mask[:1]).code == "TM727"
    assert code_of(PIXELS, linf(F(1, 2)), np.zeros((2, 3, 4, 5)), mutable, mask * 7).code == "TM712"


def test_parts_that_are_not_there():
    assert code_of(PIXELS, linf(1), np.zeros((1, 3, 4, 5)), Mutable("rows", ranges=((2, 4),))).code == "TM409"


# --- codecs ----------------------------------------------------------------------------------------------


def test_png_leaves_256_levels():
    space = replace(PIXELS, delivery=Delivery("png"))
    sets = sets_of(space, linf(F(8, 255)), np.full((1, 3, 4, 5), np.float32(16 / 255)))
    assert (sets.lower == np.float32(8 / 255)).all()
    assert (sets.upper == np.float32(24 / 255)).all()
    assert sets.member(np.full((1, 3, 4, 5), 0.07, np.float32))[0].rule == "lattice"


def test_rounding_leaves_multiples_of_its_step():
    space = Space("s", (2,), (Cell("real", F(1, 10), F(1)),), delivery=Delivery("rounded", F(1, 4)))
    sets = sets_of(space, Anything(), [[0.5, 0.75]])
    assert sorted(set(sets.enumerate(0, 100)[:, 0].tolist())) == [0.25, 0.5, 0.75, 1.0]


def test_half_precision_leaves_its_own_values():
    space = Space("s", (1,), (Cell("real", F(0), F(1)),), delivery=Delivery("float16"))
    sets = sets_of(space, linf(F(1, 10), "s"), [[0.5]])
    assert sets.upper[0, 0] == np.nextafter(np.float16(0.6), np.float16(0)) or F(float(np.float16(0.6))) <= F(6, 10)
    assert np.float16(sets.upper[0, 0]) == sets.upper[0, 0]
    assert sets.member(np.array([[0.55]], np.float32))[0].rule == "lattice"
    assert sets.inside(np.array([[np.float16(0.55)]], np.float32))[0]


def test_an_original_that_the_codec_moves():
    space = replace(PIXELS, delivery=Delivery("png"))
    assert code_of(space, linf(F(8, 255)), np.full((1, 3, 4, 5), 0.07)).code == "TM820"


def test_a_codec_that_cannot_carry_the_lattice():
    cell = Cell("lattice", F(0), F(1), F(1, 10))
    assert code_of(Space("s", (1,), (cell,), delivery=Delivery("png")), Anything(), [[0.0]]).code == "TM210"
    wide = Cell("integer", F(0), F(5000), F(1))
    assert code_of(Space("s", (1,), (wide,), delivery=Delivery("float16")), Anything(), [[0.0]]).code == "TM210"


# --- patches, counts, groups -----------------------------------------------------------------------------


def test_a_patch_holds_anything_in_one_rectangle():
    sets = sets_of(PIXELS, Patch("rectangle", 2, 2), np.full((3, 3, 4, 5), 0.5))
    x = np.full((3, 3, 4, 5), 0.5, np.float32)
    x[0, :, 2:, 3:] = 0
    x[1, 0, 0, 0], x[1, 2, 1, 1] = 1, 1
    x[2, 0, 0, 0], x[2, 0, 0, 2] = 1, 1
    assert [m.rule for m in sets.member(x)] == [None, None, "patch"]


def test_a_disc_holds_the_pixels_whose_centres_it_holds():
    """Corner centres lie at sqrt 2 < 3/2, so all nine pixels; with diameter 4 at sqrt 4.5 > 2, so not the corners."""
    from tmlang.backends.membership import disc

    assert disc(3).all()
    assert disc(4).astype(int).tolist() == [[0, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0]]


def test_a_patch_at_one_place():
    space = Space("s", (5, 5), (Cell("integer", F(0), F(3), F(1)),))
    sets = sets_of(space, Patch("disc", 4, 4, (1, 1)), np.ones((1, 5, 5)))
    moves = (sets.lower != sets.upper)[0]
    assert moves.sum() == 12
    assert not moves[1, 1]
    assert sets.count(4**12) == [4**12]
    x = np.ones((1, 5, 5), np.float32)
    x[0, 1, 2] = 3
    assert sets.inside(x)[0]
    x[0, 1, 1] = 3
    assert sets.member(x)[0].rule == "patch"


def test_pixels_are_not_elements():
    sets = sets_of(PIXELS, Ball("pixels_changed", "px", F(2)), np.full((2, 3, 4, 5), 0.5))
    x = np.full((2, 3, 4, 5), 0.5, np.float32)
    x[0, :, 0, :2] = 1
    x[1, 0, 0, :3] = 1
    assert [m.rule for m in sets.member(x)] == [None, "pixels_changed"]


def test_one_hot_groups():
    cell = Cell("integer", F(0), F(1), F(1))
    space = Space("s", (3,), (cell, cell, cell), "each", features=("a", "b", "c"), one_hot=(("a", "b", "c"),))
    sets = sets_of(space, Anything(), [[1, 0, 0]])
    assert sorted(map(tuple, sets.enumerate(0, 10).tolist())) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert sets.member(np.array([[1, 1, 0]], np.float32))[0].rule == "one_hot"
    assert sets.project(np.array([[0.4, 0.1, 0.9]])).x.tolist() == [[0, 0, 1]]


# --- originals -------------------------------------------------------------------------------------------


def test_originals_that_break_a_relation_stop_or_are_listed():
    cell = Cell("integer", F(0), F(9), F(1))
    ratio = Relation(Op("/", Ref("a"), Ref("b")), "<=", Num(F(2)), text="a / b <= 2")
    space = Space("s", (2,), (cell, cell), "each", features=("a", "b"), relations=(ratio,))
    originals = [[2, 1], [3, 1], [3, 0]]
    found = code_of(space, linf(1, "s"), originals)
    assert found.code == "TM820"
    assert found.message.startswith("2 of 3 originals")
    assert found.notes == ("u1: relation a / b <= 2", "u2: relation a / b <= 2")
    sets = sets_of(replace(space, originals="exempt"), linf(1, "s"), originals)
    assert sets.broken == (None, "relation a / b <= 2", "relation a / b <= 2")
    assert sets.inside(np.array([[1, 1], [2, 1], [3, 0]], np.float32)).tolist() == [True, True, False]


def test_an_original_off_the_lattice_has_an_empty_set():
    space = replace(BYTES, originals="exempt")
    x0 = np.zeros((2, 4, 5, 3))
    x0[0, 0, 0, 0] = 0.5
    sets = sets_of(space, linf(3, "img"), x0)
    assert [m.rule for m in sets.member(np.zeros((2, 4, 5, 3), np.float32))] == ["original", None]
    assert sets.project(np.ones((2, 4, 5, 3))).inside.tolist() == [False, True]


def test_nothing_moves():
    found = code_of(BYTES, linf(F(8, 255), "img"), np.zeros((1, 4, 5, 3)))
    assert found.code == "TM821"
    assert "steps of 1" in found.notes[0]


def test_levels_that_the_type_cannot_tell_apart():
    space = Space("s", (1,), (Cell("integer", F(0), F(10**8), F(1)),))
    assert code_of(space, Anything(), [[0]]).code == "TM215"
    assert sets_of(replace(space, dtype="float64"), linf(2, "s"), [[10**8 - 1]]).count(9) == [4]


def test_double_precision_values_are_none_of_a_single_precision_space():
    sets = sets_of(PIXELS, linf(F(1, 2)), np.zeros((1, 3, 4, 5)))
    assert sets.member(np.full((1, 3, 4, 5), 0.1))[0].rule == "dtype"
    assert sets.inside(np.full((1, 3, 4, 5), 0.25))[0]
    assert sets.member(np.zeros((1, 3, 5, 4)))[0].rule == "shape"


# --- distances -------------------------------------------------------------------------------------------


def test_distances_by_hand():
    sets = sets_of(PIXELS, Ball("l2_rms", "px", F(1)), np.full((2, 3, 4, 5), 0.5))
    x = np.full((2, 3, 4, 5), 0.5, np.float32)
    x[0, 0, 0, :2] = (0.875, 0.0)
    d = sets.distances(x)
    assert (d["linf"][0], d["l2"][0], d["l1"][0], d["l0"][0]) == (0.5, 0.625, 0.875, 2)
    assert d["own"][0] == pytest.approx(0.625 / 60**0.5, rel=1e-15)
    assert [d[k][1] for k in ("linf", "l2", "l1", "l0", "own")] == [0] * 5


def test_unlike_units_have_no_common_length():
    cells = (Cell("real", F(0), F(9), unit="degC"), Cell("real", F(0), F(9), unit="kN"))
    space = Space("s", (2,), cells, "each", features=("a", "b"))
    x = np.array([[2, 1]], np.float32)
    both = sets_of(space, Ball("l0", "s", F(2)), [[1, 1]]).distances(x)
    assert np.isnan(both["l2"][0])
    assert both["l0"][0] == 1
    one = sets_of(space, linf(3, "s"), [[1, 1]], Mutable("features", (("a", "any"),))).distances(x)
    assert one["l2"][0] == one["own"][0] == 1
