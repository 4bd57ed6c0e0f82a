"""Enumeration is the answer, or says why it is none."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction as F

import torch
from backend_support import Case, threat, unit_box
from native_support import linear, run
from torch import nn

from tmlang.meaning.spaces import Cell


def lattice_case():
    cell = Cell("lattice", F(0), F(1), F(1, 8))
    return linear([[0, 0], [1, 1]], [1.0, 0.0], unit_box(2, cells=(cell,)), [[0.25, 0.25], [0.5, 0.5], [0.625, 0.25]])


def test_enumeration_is_the_answer():
    """Class 1 iff a + b > 1 (ties go to 0): around (1/4, 1/4) 1/8 a side reaches 3/4; around (5/8, 1/4) 9/8."""
    case = lattice_case()
    verdicts = run("enumerate", case, case.job(threat("linf", F(1, 8))), at_most=F(9))
    assert verdicts.verdict == ("certified", "broken", "broken")
    assert verdicts.sizes == (9, 9, 9)
    assert verdicts.candidates.offered.tolist() == [False, True, True]
    assert (verdicts.candidates.x[1:].sum(dim=1) > 1).all()
    assert (verdicts.gap, verdicts.gap_kind) == (0.0, "proved")


def test_a_larger_set_stays_unknown():
    case = lattice_case()
    verdicts = run("enumerate", case, case.job(threat("linf", F(1, 8))), at_most=F(8))
    assert verdicts.verdict == ("unknown",) * 3
    assert "more than 8" in verdicts.messages[0]
    real = linear([[0, 0], [1, 1]], [1.0, 0.0], unit_box(2), [[0.25, 0.25]])
    assert run("enumerate", real, real.job(threat("linf", F(1, 8)))).verdict == ("unknown",)


def test_an_input_without_a_decision_leaves_the_unit_open():
    class Hole(nn.Module):
        def forward(self, x):
            z = torch.stack([1 - x.sum(1), x.sum(1) - 1], 1)
            return torch.where((x == 0.375).all(1, keepdim=True), torch.nan, z)

    case = lattice_case()
    holed = Case(Hole(), case.space, case.spec, case.x, case.y.tolist())
    verdicts = run("enumerate", holed, holed.job(threat("linf", F(1, 8))))
    assert verdicts.verdict[0] == "error"
    assert verdicts.verdict[1:] == ("broken", "broken")


def test_a_deadline_before_the_end_is_a_timeout():
    case = lattice_case()
    job = replace(case.job(threat("linf", F(1, 8))), deadline=time.monotonic() - 1)
    assert run("enumerate", case, job).verdict == ("timeout",) * 3
