"""Decisions: ties, thresholds at the exact number, votes counted by hand, rejections, outputs that are not numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from backend_support import model, unit_box
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tmlang.audit.record import REJECTED
from tmlang.backends.decision import NON_FINITE, NON_FINITE_FAILS, TIED, Decision, compare, exact_edge
from tmlang.backends.deployed import Deployed
from tmlang.meaning.models import Decide, Network, RejectWhen

F = Fraction
inf, nan = float("inf"), float("nan")


def decided(rows: list[list[float]], rule: Decide, **changes: Any) -> list[int]:
    spec = model(changes.pop("classes", len(rows[0])), decide=rule, **changes)
    return Decision(spec)(torch.tensor(rows)).tolist()


@pytest.mark.parametrize(("ties", "expected"), [("lowest", 1), ("reject", -1), ("error", TIED), ("3", 3)])
def test_ties_are_part_of_the_contract(ties: str, expected: int) -> None:
    assert decided([[0, 5, 5, 1], [0, 1, 2, 3]], Decide("argmax", ties)) == [expected, 3]


def least(negated: list[list[float]], rule: Any) -> list[int]:
    """What ``argmin`` decides of the negated scores."""
    spec = model(3, decide=Decide("argmin", "lowest", non_finite=rule))
    return Decision(spec)(Deployed(spec, unit_box(3), nn.Flatten(), lambda _: b"")(-torch.tensor(negated))).tolist()


UNFIT: dict[str, int] = {"error": NON_FINITE, "fail": NON_FINITE_FAILS, "reject": REJECTED}


@pytest.mark.parametrize("rule", UNFIT)
def test_scores_that_decide_nothing_are_what_the_rule_says(rule: Any) -> None:
    """NaN anywhere, plus infinity, and no finite greatest; a class that is masked out is decided like any other."""
    rows = [[nan, 1.0, 0.0], [1.0, nan, 0.0], [inf, 1.0, 0.0], [-inf, -inf, -inf], [nan, -inf, 1.0]]
    unfit = [UNFIT[rule]] * len(rows)
    assert decided(rows, Decide("argmax", "lowest", non_finite=rule)) == unfit
    assert least(rows, rule) == unfit
    legal = [[1.0, -inf, 0.0], [-inf, 0.0, 2.0], [-3.0, -inf, -inf]]
    assert decided(legal, Decide("argmax", "lowest", non_finite=rule)) == [0, 2, 0]
    assert least(legal, rule) == [0, 2, 0]
    draws = torch.tensor([[row] for row in (rows[0], legal[0], legal[0])])
    for how in ("majority", "mean"):
        spec = model(3, decide=Decide(how, "lowest", draws=3, non_finite=rule))
        assert Decision(spec)(draws).item() == UNFIT[rule]
        assert Decision(spec)(draws[1:].repeat(2, 1, 1)[:3]).item() == 0


def test_a_threshold_has_one_score_and_no_mask() -> None:
    spec = model(2, decide=Decide("threshold", op=">=", value=F(1, 2), positive="1", negative="0"))
    made = Deployed(spec, unit_box(1), nn.Flatten(), lambda _: b"")
    raw = torch.tensor([[0.0], [1.0], [nan], [inf], [-inf]])
    assert Decision(spec)(made(raw)).tolist() == [0, 1, *[NON_FINITE] * 3]


def test_a_head_that_a_rejection_reads_is_a_number() -> None:
    """An infinite distance is a distance; NaN is none. A head that nothing reads may be anything."""
    network = Network("torch", outputs=(("logits", 2), ("distance", 1), ("other", 1)))
    when = (RejectWhen("distance", ">", F(1)),)
    rows = [[2.0, 1.0, nan, 0.0], [2.0, 1.0, inf, 0.0], [2.0, 1.0, -inf, nan], [2.0, 1.0, 0.0, nan]]
    kept = {"classes": 2, "network": network, "reject": when}
    assert decided(rows, Decide("argmax", "lowest"), **kept) == [NON_FINITE, -1, 0, 0]


@given(st.floats(-10, 10, width=32), st.fractions(-5, 5, max_denominator=1000))
def test_comparisons_are_exact(x: float, q: Fraction) -> None:
    values = torch.tensor([x], dtype=torch.float32)
    exact = F(values.item())
    outcomes = {">=": exact >= q, ">": exact > q, "<=": exact <= q, "<": exact < q, "==": exact == q}
    for op, expected in outcomes.items():
        assert compare(values, op, q).item() is expected


@given(st.fractions(-5, 5, max_denominator=1000), st.sampled_from(["<", "<=", ">", ">="]), st.integers(-2, 2))
def test_a_threshold_decides_by_the_raw_score_up_to_the_last_float(q: Fraction, op: str, steps: int) -> None:
    """The lifted score goes through a subtraction; the decision must be as if the score itself had been compared."""
    score = torch.tensor(exact_edge(q, torch.float32, up=True))
    for _ in range(abs(steps)):
        score = torch.nextafter(score, torch.tensor(inf if steps > 0 else -inf))
    holds = {
        "<": F(score.item()) < q,
        "<=": F(score.item()) <= q,
        ">": F(score.item()) > q,
        ">=": F(score.item()) >= q,
    }[op]
    for positive, negative in (("1", "0"), ("0", "1")):
        spec = model(2, decide=Decide("threshold", op=op, value=q, positive=positive, negative=negative))  # type: ignore[arg-type]
        made = Deployed(spec, unit_box(1), nn.Flatten(), lambda _: b"")
        assert Decision(spec)(made(score.reshape(1, 1))).item() == int(positive if holds else negative)


def test_majority_counts_votes_and_agreement_exactly() -> None:
    spec = model(
        3,
        decide=Decide("majority", "reject", draws=10),
        reject=(RejectWhen("agreement", "<", F(8, 10)),),
    )
    decision = Decision(spec)
    assert decision.draws == 10

    def votes(*classes: int) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.tensor(classes), 3).float()[:, None, :]

    assert decision(votes(*[0] * 8, 1, 2)).item() == 0  # 8 of 10 is not below 8/10
    assert decision(votes(*[0] * 7, 1, 1, 2)).item() == -1
    assert decision(votes(*[0] * 5, *[1] * 5)).item() == -1
    unbroken = Decision(model(3, decide=Decide("majority", "2", draws=4)))
    assert unbroken(votes(0, 0, 1, 1)).item() == 2
    broken = votes(0, 0, 0, 1)
    broken[3] = nan
    assert Decision(model(3, decide=Decide("majority", "lowest", draws=4)))(broken).item() == NON_FINITE


def test_a_tied_draw_votes_for_nobody() -> None:
    tied = torch.tensor([[[1.0, 1.0]], [[0.0, 1.0]], [[0.0, 1.0]]])
    assert Decision(model(2, decide=Decide("majority", "reject", draws=3)))(tied).item() == 1


def test_mean_of_draws() -> None:
    draws = torch.tensor([[[3.0, 0.0]], [[0.0, 2.0]], [[0.0, 2.0]]])
    assert Decision(model(2, decide=Decide("mean", "lowest", draws=3)))(draws).item() == 1


def test_max_softmax_below_one_half() -> None:
    rows = [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0, 0.1]]
    when = (RejectWhen("max_softmax", "<", F(1, 2)),)
    assert decided(rows[:2], Decide("argmax", "lowest"), reject=when) == [0, 0]
    assert decided(rows[2:], Decide("argmax", "lowest"), reject=when) == [-1]
    spec = model(2, reject=(RejectWhen("max_softmax", "<", F(6, 10)),))
    assert Decision(spec, probabilities=True)(torch.tensor([[0.55, 0.45], [0.65, 0.35]])).tolist() == [-1, 0]


def test_a_distance_head_rejects_and_is_no_class() -> None:
    network = Network("torch", outputs=(("logits", 2), ("distance", 1)))
    when = (RejectWhen("distance", ">", F("0.0029")),)
    rows = [[2.0, 1.0, 0.0], [2.0, 1.0, 0.01], [2.0, 1.0, 100.0]]
    assert decided(rows, Decide("argmax", "lowest"), classes=2, network=network, reject=when) == [0, -1, -1]


def test_a_class_that_means_reject() -> None:
    when = (RejectWhen("class", "==", F(2)),)
    assert decided([[0, 1, 5], [0, 6, 5]], Decide("argmax", "lowest"), classes=2, reject=when) == [-1, 1]
