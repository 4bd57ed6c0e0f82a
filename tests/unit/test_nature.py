"""What nature draws and makes: against the auditor's own reading in rationals, by hand, and by counting."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
import torch
from audit_support import threat

from tmlang.audit.renature import drawn, makes
from tmlang.backends.domain import Domain
from tmlang.backends.nature import Scene
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Nature, Patch

REAL = Space("px", (1, 6, 7), (Cell("real", F(0), F(1)),), channel_axis=0)
BYTES = Space("px", (5, 6, 3), (Cell("integer", F(0), F(255), F(1)),), channel_axis=2)
TURNS = (("rotate", F(-40), F(40), "deg"), ("scale", F(1, 2), F(3, 2), None), ("shear", F(-20), F(20), "deg"))
SHIFTS = (("translate", F(-3, 2), F(2), "px"),)
LIGHT = (("brightness", F(-1, 8), F(1, 8), None), ("contrast", F(3, 4), F(5, 4), None))
PLACE = (("place", F(0), F(3), "px"),)


def picture(space: Space, seed: int) -> np.ndarray:
    lattice = space.cells[0].kind == "integer"
    random = np.random.default_rng(seed)
    x = random.integers(0, 256, space.shape) if lattice else random.random(space.shape)
    return x.astype(np.float32).reshape(-1)


def exact(x: np.ndarray) -> list[F]:
    return [F(float(v)) for v in x]


CASES = [
    (REAL, None, TURNS, "bilinear"),
    (REAL, None, SHIFTS + TURNS + LIGHT, "bicubic"),
    (REAL, None, TURNS[:1], "nearest"),
    (BYTES, None, SHIFTS + LIGHT, "bilinear"),
    (REAL, Patch("rectangle", 3, 2), PLACE, None),
    (REAL, Patch("rectangle", 2, 3), PLACE + TURNS, "bilinear"),
    (REAL, Patch("rectangle", 3, 3, (2, 1)), TURNS + SHIFTS, "bicubic"),
    (REAL, Patch("disc", 3, 3), PLACE + TURNS[:1] + LIGHT, "nearest"),
    (BYTES, Patch("disc", 2, 2), PLACE[:1] + TURNS + LIGHT, "bilinear"),
]


@pytest.mark.parametrize(("space", "patch", "parts", "interpolate"), CASES)
def test_every_picture_is_the_one_that_the_auditor_makes(
    space: Space, patch: Any, parts: Any, interpolate: Any
) -> None:
    fill = None if patch or interpolate is None else F(1, 4)
    nature = Nature(parts, 4, interpolate, fill)
    scene = Scene(nature, Domain(space), patch)
    original, other = picture(space, 1), picture(space, 2)
    x = np.where(scene.stamp, other, original) if patch else other
    theta = scene.draw(11, 0, 4)
    assert theta.tolist() == drawn(nature, 11)
    made = scene.made(np.stack([x] * 4), np.stack([original] * 4), theta)
    asked = threat(allow=patch or threat().allow, nature=nature)
    for k in range(4):
        assert makes(space, asked, exact(original), exact(x), theta[k].tolist(), exact(made[k]))
        lie = made[k].copy()
        lie[k] = np.nextafter(lie[k], np.float32(0.5)) if space is REAL else (lie[k] + 1) % 256
        assert not makes(space, asked, exact(original), exact(x), theta[k].tolist(), exact(lie))
    assert len(np.unique(made, axis=0)) > 1


def test_a_patch_lies_where_it_is_placed_and_nowhere_else() -> None:
    """Rows and columns 0 to 3 of a 3 by 2 patch: pasted pixel for pixel, the rest untouched."""
    scene = Scene(Nature(PLACE, 1), Domain(REAL), Patch("rectangle", 3, 2))
    original, content = np.zeros((6, 7), np.float32), np.arange(1, 7, dtype=np.float32).reshape(3, 2) / 8
    x = original.copy()
    x[:3, :2] = content
    for row, column in [(0, 0), (3, 3), (1, 2)]:
        theta = np.array([[float(row), float(column)]])
        made = scene.made(x.reshape(1, -1), original.reshape(1, -1), theta).reshape(6, 7)
        expected = original.copy()
        expected[row : row + 3, column : column + 2] = content
        assert np.array_equal(made, expected)


def test_a_quarter_turn_of_a_patch_is_that_of_numpy() -> None:
    scene = Scene(
        Nature((("rotate", F(90), F(90), "deg"),), 1, "nearest"), Domain(REAL), Patch("rectangle", 3, 3, (2, 3))
    )
    original, content = np.zeros((6, 7), np.float32), np.arange(1, 10, dtype=np.float32).reshape(3, 3) / 16
    x = original.copy()
    x[2:5, 3:6] = content
    made = scene.made(x.reshape(1, -1), original.reshape(1, -1), scene.draw(0, 0, 1)).reshape(6, 7)
    assert np.array_equal(made[2:5, 3:6], np.rot90(content))
    made[2:5, 3:6] = 0
    assert not made.any()


def test_places_are_drawn_uniformly_and_from_the_seed_alone() -> None:
    """16 cells, 4,000 draws: each has 250 in the mean, with a deviation of 15.3."""
    scene = Scene(Nature(PLACE, 4000), Domain(REAL), Patch("rectangle", 2, 2))
    theta = scene.draw(5, 0, 4000)
    counts = np.histogram2d(theta[:, 0], theta[:, 1], bins=(np.arange(5) - 0.5,) * 2)[0]
    assert counts.sum() == 4000
    assert np.abs(counts - 250).max() < 6 * 15.3
    assert np.array_equal(theta[100:103], scene.draw(5, 100, 3))
    assert not np.array_equal(theta, scene.draw(6, 0, 4000))


def test_a_scale_is_a_factor_and_is_kept_as_what_it_exceeds_one_by() -> None:
    nature = Nature((("scale", F(3, 2), F(3, 2), None), ("contrast", F(1, 2), F(1, 2), None)), 2, "bilinear", F(0))
    assert Scene(nature, Domain(REAL)).draw(3, 0, 2).tolist() == [[0.5, -0.5]] * 2


@pytest.mark.parametrize(("patch", "parts"), [(None, TURNS + LIGHT), (Patch("rectangle", 3, 3), PLACE + TURNS + LIGHT)])
def test_what_a_search_is_shown_is_near_the_picture_and_has_its_slope(patch: Any, parts: Any) -> None:
    nature = Nature(parts, 3, "bilinear", None if patch else F(0))
    space = replace(REAL, dtype="float64")
    scene = Scene(nature, Domain(space), patch)
    original, other = (picture(space, s).astype(np.float64) / 2 + 0.25 for s in (1, 2))
    x = np.where(scene.stamp, other, original) if patch else other
    theta = scene.draw(7, 0, 3)
    rows, originals = (torch.from_numpy(np.stack([a] * 3)) for a in (x, original))
    shown = scene.shown(rows, originals, theta)
    assert np.allclose(shown.numpy(), scene.made(rows.numpy(), originals.numpy(), theta), atol=1e-9)
    assert torch.autograd.gradcheck(
        lambda leaf: scene.shown(leaf, originals[:1], theta[:1]), rows[:1].clone().requires_grad_(True), atol=1e-4
    )
