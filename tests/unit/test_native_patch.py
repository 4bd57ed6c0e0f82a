"""Patches where the answer is a sum: linear models, every placement tried by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from backend_support import threat, unit_box
from native_support import linear, run

from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball, Both, Mutable, Patch
from tmlang.meaning.values import Distance


def best_gain(slope, x, height, width, free, places, reach=1.0):
    """The most that a linear margin (rows, columns) rises: every free pixel of the best placement at its better end."""
    room = np.where(slope > 0, np.minimum(1 - x, reach), -np.minimum(x, reach)) * slope * free
    return max(room[r : r + height, c : c + width].sum() for r, c in places)


@pytest.mark.parametrize("kind", ["any", "at", "masked", "faint", "levels"])
def test_exactly_the_breakable_are_broken(kind):
    rng = np.random.default_rng(3)
    cell = Cell("lattice", F(0), F(1), F(1, 16)) if kind == "levels" else Cell("real", F(0), F(1))
    space = unit_box(5, 6, cells=(cell,))
    x = rng.integers(0, 17, (40, 5, 6)) / 16
    slope = rng.normal(size=(5, 6))
    places = [(1, 2)] if kind == "at" else [(r, c) for r in range(4) for c in range(4)]
    patch = Patch("rectangle", 2, 3, (1, 2) if kind == "at" else None)
    spec, free, reach = replace(threat(), allow=patch), np.ones((5, 6)), 1.0
    if kind == "masked":
        spec, free = replace(spec, mutable=Mutable("rows", ranges=((1, 2),))), np.zeros((5, 6))
        free[1:3] = 1
    if kind == "faint":
        spec, reach = replace(spec, allow=Both((patch, Ball("linf", "px", F(1, 4))))), 0.25
    # Class 1 must gain what a patch on half of the pictures gains, so about half of them can be broken.
    gap = np.median([best_gain(slope, row, 2, 3, free, places, reach) for row in x])
    bias = (x.mean(axis=0) * slope).sum() + gap
    case = linear([[0] * 30, slope.reshape(-1)], [float(bias), 0], space, x)
    sign = np.where(case.y.numpy() == 0, 1.0, -1.0)
    margin = sign * (bias - (x * slope).sum(axis=(1, 2)))
    worst = margin - [best_gain(s * slope, row, 2, 3, free, places, reach) for s, row in zip(sign, x, strict=True)]
    job = case.job(spec)
    found = run("patch_pgd", case, job, steps=F(40), step_size=Distance(F(1, 10), "px"), places=F(2))
    clear = np.abs(worst) > 5e-3
    assert 5 < (worst < 0)[clear].sum() < clear.sum() - 2
    assert np.array_equal(found.offered.numpy()[clear], (worst < 0)[clear])
    assert job.sets.inside(found.x.numpy()).all()
    assert (case.decisions(found.x) != case.y)[found.offered].all()


def test_a_patch_at_one_place_costs_one_ascent():
    case = linear([[0] * 16, [0.1] * 16], [9, 0], unit_box(4, 4), np.full((3, 4, 4), 0.5))
    for place, passes in (((0, 0), 10), (None, 4 * 10 + 1)):
        job = case.job(replace(threat(), allow=Patch("rectangle", 2, 2, place)))
        run("patch_pgd", case, job, steps=F(10), places=F(4))
        assert job.oracle.gradients.tolist() == [passes] * 3
