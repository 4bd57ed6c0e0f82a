"""What a backend offers is decided again, whatever it says (EVIDENCE.md sections 1 and 2)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
import torch

from tmlang.audit.record import REJECTED
from tmlang.backends.contract import Candidates
from tmlang.backends.failure import Failure
from tmlang.backends.recheck import recheck
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Ball, Goal, Mutable, Rejected, Threat, Transform
from tmlang.meaning.values import Quantity

SPACE = Space("s", (2,), (Cell("real", F(0), F(1)),))
THREAT = Threat(
    "t", "m", "d", Ball("linf", "s", F(1, 8)), None, Mutable("all"), Goal("untargeted"), Access("white_box"), "fail"
)


class Sum:
    """E: class 1 iff the numbers add up to more than 1; counts what it is asked, and may change its mind."""

    replays = 3

    def __init__(self, moods=()):
        self.asked, self.moods = 0, list(moods)

    def decide(self, x):
        self.asked += len(x)
        flip = self.moods.pop(0) if self.moods else 0
        return (x.sum(1) > 1).long() ^ flip


def sets(x, threat=THREAT):
    return ThreatSet.build(SPACE, threat, np.array(x, np.float32), ids=[str(i) for i in range(len(x))])


def check(x0, x, y, evaluator=None, offered=None, errors=None, threat=THREAT):
    allowed = sets(x0, threat)
    x = torch.as_tensor(x)
    n = len(x0)
    candidates = Candidates(
        x, torch.tensor(offered if offered is not None else [True] * n), tuple(errors or (None,) * n)
    )
    failure = Failure.of(allowed, torch.tensor(y), None)
    return recheck(candidates, allowed, evaluator or Sum(), failure)


def test_a_member_that_fails_is_a_witness_after_three_replays():
    evaluator = Sum()
    ((row,),) = check([[0.5, 0.5]], [[0.5, 0.625]], [0], evaluator)
    assert row.is_witness
    assert (row.status, row.decision, row.fails, row.rejected) == ("valid", 1, True, False)
    assert (row.linf, row.l2, row.l1, row.l0, row.distance) == (0.125, 0.125, 0.125, 1, 0.125)
    assert evaluator.asked == 3


def test_what_does_not_fail_is_asked_once():
    evaluator = Sum()
    ((row,),) = check([[0.5, 0.5]], [[0.5, 0.375]], [0], evaluator)
    assert (row.status, row.decision, row.fails) == ("valid", 0, False)
    assert evaluator.asked == 1


def test_a_failing_input_outside_gets_its_projection_as_a_second_row():
    """0.75 is out of reach of 0.5; its projection 0.625 still fails for the first and no more for the second."""
    first, second = check([[0.5, 0.5], [0.25, 0.5]], [[0.5, 0.75], [0.25, 0.8125]], [0, 0])
    assert [(r.status, r.rule, r.fails, r.projected) for r in first] == [
        ("invalid", "linf", True, False), ("valid", None, True, True),
    ]  # fmt: skip
    assert first[1].x.tolist() == [0.5, 0.625]
    assert [(r.status, r.fails, r.projected) for r in second] == [("invalid", True, False), ("valid", False, True)]
    assert not first[0].is_witness


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_what_is_not_finite_is_never_evaluated(poison):
    evaluator = Sum()
    ((row,),) = check([[0.5, 0.5]], [[0.5, poison]], [0], evaluator)
    assert (row.status, row.rule, row.decision, row.fails, row.x is not None) == (
        "invalid",
        "finite",
        None,
        None,
        False,
    )
    assert evaluator.asked == 0


def test_another_shape_is_an_error_for_everyone():
    rows = check([[0.5, 0.5], [0.1, 0.1]], [[0.5, 0.625]], [0, 0], offered=[True, True])
    assert [r.status for (r,) in rows] == ["error", "error"]
    assert "(1, 2)" in rows[0][0].message


def test_a_value_of_another_type_is_rounded_into_the_set_first():
    ((raw, projected),) = check([[0.5, 0.5]], torch.tensor([[0.5, 0.6]], dtype=torch.float64), [0])
    assert (raw.status, raw.rule) == ("invalid", "dtype")
    assert projected.status == "valid"
    assert projected.x.dtype == np.float32
    assert float(projected.x[1]) <= 0.6


def test_the_original_is_no_candidate():
    """Also where it fails already: a clean error is not an attack's success."""
    evaluator = Sum()
    rows = check([[0.75, 0.75], [0.1, 0.1]], [[0.75, 0.75], [0.1, 0.1]], [0, 0], evaluator)
    assert [r.status for (r,) in rows] == ["none", "none"]
    assert evaluator.asked == 0


def test_another_units_candidate_is_outside():
    """A batch that was mixed up: every unit gets the input of its neighbour."""
    rows = check([[0.25, 0.5], [0.5, 0.25]], [[0.5, 0.375], [0.25, 0.625]], [0, 0])
    assert [r[0].status for r in rows] == ["invalid", "invalid"]


def test_replays_that_disagree_are_unstable():
    ((row,),) = check([[0.5, 0.5]], [[0.5, 0.625]], [0], Sum(moods=[0, 0, 1]))
    assert (row.status, row.fails, row.is_witness) == ("unstable", False, False)


def test_an_evaluator_that_repeats_itself_is_asked_once():
    evaluator = Sum()
    evaluator.replays = 1
    check([[0.5, 0.5]], [[0.5, 0.625]], [0], evaluator)
    assert evaluator.asked == 1


def test_errors_and_silence_are_kept_apart():
    rows = check(
        [[0.5, 0.5]] * 3, [[0.5, 0.625]] * 3, [0] * 3, offered=[True, False, True], errors=["it broke", None, None]
    )
    assert [(r.status, r.message) for (r,) in rows] == [("error", "it broke"), ("none", None), ("valid", None)]


def test_no_decision_on_an_allowed_input_is_an_error():
    class Silent(Sum):
        def decide(self, x):
            return torch.full((len(x),), -2)

    ((row,),) = check([[0.5, 0.5]], [[0.5, 0.625]], [0], Silent())
    assert (row.status, row.decision, row.fails) == ("error", None, False)


# --- the failure predicate ----------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(None, [False, True, True, False]), ("fail", [False, True, True, False]), ("safe", [False, True, False, False]),
     ("denied", [False, True, False, False])],
)  # fmt: skip
def test_what_a_rejection_counts_as(kind, expected):
    decisions = torch.tensor([3, 4, REJECTED, -2])
    f = Failure(torch.tensor([3] * 4), rejected=Rejected(kind) if kind else None)
    assert f(decisions, torch.zeros(4, 2)).tolist() == expected


def test_a_targeted_failure_is_the_target_and_nothing_else():
    f = Failure(torch.tensor([0] * 4), torch.tensor([2] * 4))
    assert f(torch.tensor([2, 1, 0, REJECTED]), torch.zeros(4, 2)).tolist() == [True, False, False, False]


def test_a_rejection_fails_near_the_original_and_is_safe_beyond():
    threat = replace(THREAT, rejected=Rejected("fail_within", Ball("linf", "s", F(1, 16))))
    f = Failure.of(sets([[0.5, 0.5]] * 3, threat), torch.tensor([0, 0, 0]), None)
    x = torch.tensor([[0.5, 0.5625], [0.5, 0.625], [0.5, 0.625]])
    assert f(torch.tensor([REJECTED, REJECTED, 1]), x).tolist() == [True, False, True]
    only_original = replace(threat, rejected=Rejected("fail_within", Ball("linf", "s", F(0))))
    f = Failure.of(sets([[0.5, 0.5]], only_original), torch.tensor([0]), None)
    assert f(torch.tensor([REJECTED]), torch.tensor([[0.5, 0.5]])).tolist() == [True]


def test_a_picture_counts_with_the_parameters_that_make_it_and_no_others():
    """A dot in the middle, moved a pixel down: with that shift it is inside, with another, without any, or with a
    shift beyond the bound it is not, and nothing is projected."""
    space = Space("s", (1, 3, 3), (Cell("real", F(0), F(1)),), channel_axis=0)
    allow = Transform((("translate", Quantity(F(1), "px")),), "bilinear", F(0))
    x0 = np.zeros((1, 1, 3, 3), np.float32)
    x0[0, 0, 1, 1] = 1
    allowed = ThreatSet.build(space, replace(THREAT, allow=allow), x0, ids=["a"])
    moved = torch.zeros(1, 1, 3, 3)
    moved[0, 0, 2, 1] = 1

    class Middle:
        replays = 1

        def decide(self, x):
            return (x[:, 0, 1, 1] < 0.5).long()

    def judged(theta, x=moved):
        offered = torch.ones(1, dtype=torch.bool)
        theta = None if theta is None else torch.tensor([theta], dtype=torch.float64)
        candidates = Candidates(x, offered, (None,), theta=theta)
        return recheck(candidates, allowed, Middle(), Failure.of(allowed, torch.tensor([0]), None))

    ((row,),) = judged([1.0, 0.0])
    assert row.is_witness
    assert row.theta.tolist() == [1.0, 0.0]
    for theta in ([0.0, 1.0], None, [1.0], [float("nan"), 0.0]):
        ((row,),) = judged(theta)
        assert (row.status, row.rule, row.is_witness) == ("invalid", "transform", False)
    gone = torch.zeros(1, 1, 3, 3)  # moved by two pixels, which is beyond
    ((row,),) = judged([2.0, 0.0], gone)
    assert (row.status, row.rule, row.fails) == ("invalid", "transform", True)
