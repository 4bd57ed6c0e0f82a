"""Every search on a network that answers NaN everywhere but at the originals: nothing survives that.

What must come out follows from the rule alone. The one answer off the originals is NaN, so an allowed input that is no
original has no decision (``error``), fails (``fail``), or is rejected, which fails too under ``rejected: fail``
(``reject``). A search that was shown one, or offers one, hands it in; "nothing offered" would be survival.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
import torch
from backend_support import Case, certify, method, model, threat, unit_box
from conformance_support import CASES, RADII, first, home, rows, watched
from torch import nn

from tmlang.audit.record import REJECTED, UNDECIDED
from tmlang.backends import recheck
from tmlang.backends.decision import Decision
from tmlang.backends.failure import Failure
from tmlang.backends.recheck import Facts
from tmlang.backends.undecided import Undecided
from tmlang.execute.evaluator import Evaluator
from tmlang.meaning.models import Decide
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Rejected

Rule = Literal["fail", "reject", "error"]
RULES: tuple[Rule, ...] = ("fail", "reject", "error")
ATTACKS = [m.path for m in rows("attack")]
UNITS = 2
EIGHTHS = Cell("lattice", Fraction(0), Fraction(1), Fraction(1, 8))


def cases() -> list[Any]:
    """Every search under ``error``, ours under each rule; libraries share one door, so of theirs the other rules are
    asked of every eighth, and of all in the nightly command."""
    found = []
    for k, path in enumerate(ATTACKS):
        for rule in RULES:
            often = path.startswith("native.") or ((rule == "error" or k % 8 == 0) and path not in LONG)
            found.append(pytest.param(path, rule, marks=() if often else (pytest.mark.nightly,)))
    return found


LONG = {"torchattacks.AutoAttack", "torchattacks.EADL1", "torchattacks.EADEN", "torchattacks.SPSA"}


class Nowhere(nn.Module):
    """A linear network, and NaN (or another number) in every score off ``originals`` (N, *shape)."""

    def __init__(self, originals: torch.Tensor, classes: int, number: float) -> None:
        super().__init__()
        self.number, self.originals = number, originals.flatten(1)
        self.linear = nn.Linear(self.originals.shape[1], classes)
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            self.linear.weight.copy_(torch.randn(self.linear.weight.shape, generator=generator))
            self.linear.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        known = (flat[:, None] == self.originals[None]).all(dim=2).any(dim=1)
        return torch.where(known[:, None], self.linear(flat), self.number * self.linear(flat).sum(1, keepdim=True) ** 0)


def case_of(like: Case, rule: Rule, number: float = torch.nan) -> Case:
    """The first inputs of another case, and one more, off the originals, for what takes a pool of inputs."""
    x = like.x[: UNITS + 1]
    spec = replace(model(5), decide=Decide("argmax", "lowest", non_finite=rule))
    case = Case(Nowhere(torch.from_numpy(x[:UNITS]), 5, number), like.space, spec, x, [0] * len(x))
    case.y = case.decisions(torch.from_numpy(x)).clamp(min=0)
    return case


def judged(path: str, rule: Rule, number: float = torch.nan) -> list[tuple[Facts, ...]]:
    """What a run makes of a search under ``rule``: its candidates, and what the door to the object was shown."""
    case = case_of(CASES[home(path)](), rule, number)
    asked = threat(first(path), RADII[home(path)][first(path)])
    if rule == "reject":
        asked = replace(asked, rejected=Rejected("fail"))
    made = case.job

    def remembering(*args: Any, **changes: Any) -> Any:
        job = made(*args, **changes)
        job.oracle.undecided = Undecided(job.sets)
        return job

    case.job = remembering  # type: ignore[method-assign]
    found = watched(path, case, asked, units=UNITS)
    job, evaluator = found.job, Evaluator(case.deployed, Decision(case.spec))
    failure = Failure.of(job.sets, job.y, job.target)
    first_look = recheck.recheck(found.candidates, job.sets, evaluator, failure)
    return list(recheck.with_undecided(first_look, job.oracle.undecided, job.sets, evaluator, failure))


@pytest.mark.parametrize(("path", "rule"), cases())
def test_no_search_survives_an_object_that_answers_nothing(path: str, rule: Rule) -> None:
    aimed = "untargeted" not in method(path).goals
    for facts in judged(path, rule):
        inside = [f for f in facts if f.x is not None and f.status in ("valid", "error")]
        if rule == "error":
            assert any(f.status == "error" for f in facts)
            assert all(f.message == UNDECIDED["non_finite"] for f in inside)
        elif aimed:  # nothing is the target
            assert not any(f.is_witness for f in facts)
        else:
            assert any(f.is_witness for f in facts)
            assert {f.decision for f in inside} == {REJECTED if rule == "reject" else None}


PROOFS = [m.path for role in ("certify", "decide_exactly", "enumerate") for m in rows(role) if m.objects == ("fixed",)]


@pytest.mark.parametrize("path", PROOFS)
def test_no_proof_covers_an_object_that_answers_nothing(path: str) -> None:
    """Two numbers on a grid of eighths; of nine inputs one has a decision. A prover may refuse such a network."""
    like = Case(nn.Identity(), unit_box(2, cells=(EIGHTHS,)), model(5), np.full((3, 2), 0.5, np.float32), [0] * 3)
    case = case_of(like, "error")
    norm = next(n for n in ("linf", "l2", "l1") if n in method(path).norms)
    job = case.job(threat(norm, Fraction(1, 8)), rows=slice(UNITS))
    try:
        told = certify(path, case, job)
    except Exception:
        assert not path.startswith("native.")  # a run records it as an error
        return
    assert "certified" not in told.verdict
    if path == "native.enumerate":
        assert told.verdict == ("error",) * UNITS
        assert told.candidates is not None
        assert told.candidates.offered.all()


def test_the_suite_has_rows() -> None:
    assert {"native.enumerate", "auto_lirpa.crown", "auto_lirpa.enumerate", "marabou.query"} <= set(PROOFS)
    assert {path.partition(".")[0] for path in ATTACKS} >= {"native", "torchattacks", "foolbox", "art", "adv_lib"}
