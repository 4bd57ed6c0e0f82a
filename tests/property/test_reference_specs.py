"""Whole specs on finite sets against brute force: 300 here, 20,000 by ``python tests/campaign reference``.

``reference.judge`` says what is compared; the other side lists every input in whole numbers and shares no code with
``tmlang``. The tests below hold that side to answers by hand.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
import torch
from reference import judge, truth
from reference.world import Ball, Cell, Join, Net, Patch, Rule, Space, Threat, Transform, World

PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_whole_specs_against_the_list_of_all_inputs(part):
    torch.set_num_threads(1)
    total: Counter[str] = Counter()
    for seed in range(part, 300, PARTS):
        wrong, counts = judge.check(seed)
        assert not wrong, f"seed {seed}: {wrong[:5]}"
        total += counts
    print(dict(total))
    # The generator asks something: units of both kinds, inputs by the hundred, claims, kept candidates.
    assert total["specs"] == 300 // PARTS
    assert 0.1 * total["verdicts"] < total["certified"] < 0.9 * total["verdicts"]
    assert min(total["candidates"], total["claims"], total["units"]) > 40
    assert total["audited_whole"] > 0


# --- the other side, by hand ------------------------------------------------------------------------------------------

FREE = np.ones((1, 2), bool)
PLAIN = Threat("t", Ball("linf", F(1)), "all", FREE, FREE, None, "untargeted", "fail")
NET = Net("linear", ((np.array([[1.0, 1.0]]), np.array([0.0])),))


def small(allow, x=(1, 1), count=4, shape=(2,), rule=Rule(">=", value=F(3)), **changes) -> tuple[World, Threat]:  # noqa: B008
    space = Space(shape, (Cell(F(0), F(1), count, whole=True),), **changes)
    free = np.ones((1, space.size), bool)
    threat = replace(PLAIN, allow=allow, up=free, down=free)
    return World(0, space, NET, rule, ("yes", "no"), 1, np.array([x]), (1,), (threat,), ()), threat


@pytest.mark.parametrize(
    ("allow", "size"),
    [
        (Ball("linf", F(1)), 9),
        (Ball("l1", F(1)), 5),
        (Ball("l2", F(3, 2)), 9),  # the corners lie at the root of 2
        (Ball("l2", F(7, 5)), 5),
        (Ball("l2_rms", F(1)), 9),
        (Ball("l0", F(1)), 7),
        (Ball("anything"), 16),
        (Join((Ball("linf", F(1)), Ball("l0", F(1)))), 5),
        (Join((Ball("linf", F(1)), Ball("l0", F(1))), ("a", "b")), 11),
    ],
)
def test_sets_around_one_one_of_four_by_four(allow, size):
    assert len(truth.members(*small(allow), 0)) == size


def test_a_patch_and_a_quarter_turn():
    world, threat = small(Patch(1, 2), (0, 1, 1, 0), 2, (1, 2, 2))
    assert len(truth.members(world, threat, 0)) == 7  # either row anew, the original once
    turn = Transform((("rotate", F(90), F(90)),), "nearest", F(0))
    world, threat = small(turn, (0, 1, 2, 3), 4, (1, 2, 2))
    made = {tuple(row.tolist()) for row in truth.members(world, threat, 0).values()}
    assert made == {(0, 1, 2, 3), (1, 3, 0, 2), (2, 0, 3, 1)}  # as read, to the left, to the right


def test_half_a_pixel_to_the_right_between_four_levels():
    half = Transform((("translate", F(1, 2), F(1, 2)),), "bilinear", F(0))
    world, threat = small(half, (2, 0), 5, (1, 1, 2))
    made = {tuple(row.tolist()) for row in truth.members(world, threat, 0).values()}
    # right: the means of 0 and 2, 2 and 0; left: of 2 and 0, 0 and 0; up and down the halves, 1/2 going to the even 0
    assert made == {(2, 0), (1, 1), (1, 0), (0, 0)}


def test_verdicts_and_columns_of_three_inputs_that_fail():
    """a + b reaches 3 at (1, 2), (2, 1) and (2, 2) of the nine inputs around (1, 1)."""
    world, threat = small(Ball("linf", F(1)))
    (unit,) = truth.Truth(world, threat).units
    assert (unit.clean, len(unit.fails), unit.size) == ("cc", 3, 9)
    certified, open_ = truth.Shown("cc", certified=True), truth.Shown("cc", open=True)
    shown = [truth.Shown("cc", broken=True), certified, truth.Shown("cw"), open_]
    found = truth.columns(threat, [unit] * 4, shown, proofs=True)
    assert found["survival"] == (1, 2, 4)
    assert found["robust_accuracy"] == (1, 2, 4)
    assert found["certified"] == (1, 1, 4)
    assert found["attack_coverage"] == (3, 3, 4)
