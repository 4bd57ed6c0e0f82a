"""``success: single draw judged on N fresh draws``: shares worked out by hand, and what an audit says of lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from audit_roads import both_roads
from audit_support import Rows, attack, evaluation, threat
from execute_support import MODEL, THREAT, F, Runs, data, moved, plan, stage
from scipy.stats import beta, norm

from tmlang.audit.bundle import Bundle
from tmlang.audit.trials import seed_of, trial_faults
from tmlang.audit.verify import audit
from tmlang.meaning.models import Randomness, Step
from tmlang.meaning.threats import Goal, Success
from tmlang.meaning.values import Symbol

SINGLE = Success("single_draw", draws=4)


def judged(rows: Rows, unit: str, outcomes: str, label: str = "a", **more: Any) -> Rows:
    """A candidate inside the set whose draws gave ``outcomes``."""
    told = {"draws": len(outcomes), "errors": outcomes.count("1"), "outcomes": outcomes, "observed_failure": None}
    return rows.attack(unit, label, "valid", **told, **more)


def share(columns: Any, name: str) -> tuple[int, int, Any, Any]:
    column = columns.get(name) or dict(columns.attacks)[name]
    return column.numerator, column.denominator, column.low, column.high


def test_a_share_of_draws_is_counted_and_bounded_as_scipy_does() -> None:
    """Of 3 right units 1 of 4, 0 of 4 (nothing offered) and 3 of 4 draws fail; a wrong one fails in all of its four."""
    rows = Rows().clean("u1").clean("u2").clean("u3").clean("w", "cw")
    judged(judged(rows, "u1", "0100"), "u3", "1101").attack("u2")
    found = both_roads(evaluation(attack(), attribution="full"), threat(success=SINGLE), rows.all)
    assert share(found, "survival") == (8, 16, F(1, 2), F(1, 2))
    assert share(found, "a") == (4, 12, F(1, 3), F(1, 3))
    low, high = beta.ppf(0.025, 4, 9), beta.ppf(0.975, 5, 8)
    assert dict(found.attacks)["a"].interval.ends == pytest.approx((low, high), abs=1e-9)
    assert found.get("survival").interval.ends == pytest.approx(((1 - high) * 12 / 16, (1 - low) * 12 / 16), abs=1e-9)
    assert found.counts.broken == 0
    assert found.get("upper") is None
    assert found.get("robust_rate") is None


def test_draws_of_several_attacks_are_joined_one_by_one() -> None:
    """0100 or 0011 fails in three of four; each alone in one and in two."""
    rows = judged(judged(Rows().clean("u1"), "u1", "0100", "a"), "u1", "0011", "b")
    e = evaluation(attack("a"), attack("b"), attribution="full")
    found = both_roads(e, threat(success=SINGLE), rows.all)
    assert share(found, "survival")[2:] == (F(1, 4), F(1, 4))
    assert [share(found, label)[0] for label in "ab"] == [1, 2]


@pytest.mark.parametrize(("each", "failing"), [("any", 3), ("all", 1)])
def test_pairs_of_one_example_fail_draw_by_draw_in_any_or_in_all(each: Any, failing: int) -> None:
    rows = Rows().clean("u->1", target=1).clean("u->2", target=2)
    judged(judged(rows, "u->1", "0110"), "u->2", "0011")
    found = both_roads(evaluation(attack()), threat(success=SINGLE, goal=Goal("each", each=each)), rows.all)
    assert share(found, "survival")[:2] == (4 - failing, 4)


def test_what_did_not_finish_is_open_in_the_draws_that_do_not_fail_yet() -> None:
    rows = judged(Rows().clean("u1").clean("u2").clean("u3", "cu"), "u1", "1100").attack("u1", "b", "timeout")
    rows.attack("u2", "a", "error").attack("u2", "b")
    found = both_roads(evaluation(attack("a"), attack("b")), threat(success=SINGLE), rows.all)
    assert share(found, "survival") == (0, 12, F(0), F(10, 12))
    assert [g.units for g in found.get("survival").gaps] == [6, 4]
    assert found.counts.unfinished == 2
    assert found.get("survival").interval is None


def test_a_candidate_beyond_the_declared_access_fails_nobody() -> None:
    rows = judged(Rows().clean("u1"), "u1", "1111", within_access=False)
    assert share(both_roads(evaluation(attack()), threat(success=SINGLE), rows.all), "survival")[2] == 1


LIES = [
    ({"errors": 2}, "1 of the draws failed, and 2 are told"),
    ({"outcomes": "01000"}, "5 draws are told as 4"),
    ({"outcomes": "0x00"}, "are 0 or 1"),
    ({"draw_seed": None}, "have a seed"),
    ({"outcomes": None}, "not which of them failed"),
    ({"observed_failure": True}, "told as a failure"),
    ({"counted_failure": False}, "told as a failure"),
]


@pytest.mark.parametrize(("lie", "said"), LIES)
def test_a_row_that_contradicts_its_draws_is_told(lie: dict[str, Any], said: str) -> None:
    row = judged(Rows().clean("u1"), "u1", "0100", draw_seed=7).all[-1]
    subject = {"success": {"kind": "single_draw", "draws": 4}}
    assert list(trial_faults(subject, row, clean=False)) == []
    assert any(said in fault for fault in trial_faults(subject, replace(row, **lie), clean=False))


@pytest.mark.parametrize(
    ("errors", "clean", "right"), [(1, "cc", True), (2, "cc", False), (2, "cw", True), (1, "cr", False)]
)
def test_half_of_the_draws_decide_what_is_right_before(errors: int, clean: str, right: bool) -> None:
    told = {"draws": 4, "errors": errors, "outcomes": "1" * errors + "0" * (4 - errors), "draw_seed": 1}
    row = Rows().clean("u", clean, **told).all[0]
    faults = list(trial_faults({"success": {"kind": "single_draw", "draws": 4}}, row, clean=True))
    assert (faults == []) is right


# --- a run --------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def noisy() -> Any:
    step = Step("noise", (("kind", Symbol("gaussian")), ("sigma", F(1, 10))), random=True, differentiable=True)
    return replace(MODEL, steps=(step,), random=Randomness("per_request"))


def test_the_interval_of_a_run_holds_the_probability_that_theory_gives(runs: Runs) -> None:
    """The sum has noise of deviation 0.1 sqrt(2) and fails from 1 on: 1.2, 1.0 and 0.75 do with Phi(1.414), 1/2 and
    Phi(-1.768)."""
    rows = data(runs.folder, [[0.5, 0.45], [0.375, 0.375], [0.25, 0.25]], [0, 0, 0])
    success = replace(THREAT, success=Success("single_draw", draws=100))
    made = plan(runs.folder, rows, [stage("up")], model=noisy(), threat=success, attribution="full")
    result = runs(made, up=moved((0.125, 0.125)))
    sums = [0.5 + 0.45 + 0.25, 1.0, 0.75]
    mean = float(np.mean([norm.cdf((s - 1) / (0.1 * 2**0.5)) for s in sums]))
    found = dict(result.columns["e"].attacks)["up"]
    assert found.denominator == 300
    assert found.interval.low < mean < found.interval.high
    told = [runs.row(u, "up") for u in "012"]
    assert sum(r.errors or 0 for r in told) == found.numerator
    assert all(r.outcomes is not None and r.outcomes.count("1") == r.errors for r in told)
    assert {r.observed_failure for r in told} == {None}
    assert result.columns["e"].get("draws_failing_before") is not None
    assert audit(runs.folder / "out").faults == []


def test_draws_come_from_the_hash_of_the_candidate(runs: Runs) -> None:
    rows = data(runs.folder, [[0.375, 0.375]], [0])
    made = plan(runs.folder, rows, [stage("up")], model=noisy(), threat=replace(THREAT, success=SINGLE), seed=3)
    runs(made, up=moved((0.125, 0.125)))
    row = runs.row("0", "up")
    assert row.candidate is not None
    x, _, _ = Bundle.open(runs.folder / "out").candidate(row.candidate)
    assert row.draw_seed == seed_of(3, np.array([0.5, 0.5], np.float32).tobytes())
    assert x.tolist() == [0.5, 0.5]


def test_draws_do_not_depend_on_batches_or_on_what_ran_before(runs: Runs) -> None:
    rows = data(runs.folder, [[0.5, 0.45], [0.375, 0.375]], [0, 0])
    made = plan(runs.folder, rows, [stage("up")], model=noisy(), threat=replace(THREAT, success=SINGLE))
    told = []
    for out, batch in (("a", 1), ("b", 9)):
        torch.manual_seed(batch)
        runs(made, out=out, batch=batch, up=moved((0.125, 0.125)))
        told.append([(r.unit, r.stage, r.outcomes, r.draw_seed) for r in runs.rows(out)])
    assert told[0] == told[1]
