"""What the matcher finds is reported beside the checker's errors, wherever these do not touch the evaluation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import BASE, spec

from tmlang.cli.front import read_spec

RESTATED = "evaluate more of linf8 {\n  attack:  pgd = torchattacks.PGD(steps: 40, eps: 8/255)\n  seed:    0\n}\n"
THREAT = (
    "threat {name} on {model} over test {{\n  allow:         linf <= {radius} in px\n  mutable:       all\n"
    "  goal:          untargeted\n  access:        white_box\n  clean_errors:  fail\n}}\n"
)
MODEL = (
    "model other: px -> classes(10) {\n  step:     scale(1/255)\n"
    '  network:  torch("n.py:n", weights: "n.safetensors")\n  decide:   argmax ties lowest\n  random:   never\n}\n'
)


def codes(snippet: str) -> list[str]:
    return [d.code for d in read_spec("spec.tm", {}, spec(snippet)).diagnostics]


def test_the_budget_restated_is_told_alone() -> None:
    assert codes(RESTATED) == ["TM505"]


@pytest.mark.parametrize(
    ("elsewhere", "code"),
    [
        ('claim "no": robust_accuracy(more) >= 20 %\n', "TM601"),
        (THREAT.format(name="wide", model="victim", radius="8"), "TM201"),
        (MODEL, "TM305"),
        ("let half = 1 / 0\n", "TM220"),
        ("evaluate empty of linf8 { seed: 0 }\n", "TM618"),
    ],
)
def test_beside_an_error_elsewhere(elsewhere: str, code: str) -> None:
    assert sorted(codes(RESTATED + elsewhere)) == sorted(["TM505", code])


@pytest.mark.parametrize(
    ("touching", "code"),
    [
        (THREAT.format(name="linf8", model="victim", radius="8"), "TM201"),
        (THREAT.format(name="linf8", model="other", radius="8/255") + MODEL, "TM305"),
    ],
)
def test_not_where_its_threat_or_model_is_in_doubt(touching: str, code: str) -> None:
    assert codes(RESTATED + touching) == [code]


def test_no_plan_comes_of_a_spec_with_errors() -> None:
    front = read_spec("spec.tm", {}, spec("let half = 1 / 0\n"))
    assert (front.program, front.plan) == (None, None)
    assert read_spec("spec.tm", {}, BASE).plan is not None
