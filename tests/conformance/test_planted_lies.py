"""Adapters that lie: every lie is flagged in the records, and none is counted.

Three units are clean, correct and beyond reach: their scores a + b are 1/2, 5/8 and 3/2, a change of 1/8 per number
moves a score by 1/4 at most, and the classes part at 1. A fourth is wrong already. So no attack may break anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from execute_support import F, Runs, data, offer, plan, stage, verdicts

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.diagnostics.stop import Stop

X = [[0.25, 0.25], [0.25, 0.375], [0.75, 0.75], [0.25, 0.25]]
Y = [0, 0, 1, 1]


@dataclass(frozen=True)
class Lie:
    """What an adapter returns, and what the first row of every unit must then say."""

    act: Callable[[Job], Any]
    status: str
    words: str = ""


def away(job: Job, by: float) -> torch.Tensor:
    """Every number moved towards the other class."""
    sign = torch.where(job.y == 0, 1.0, -1.0)[:, None]
    return job.x + sign * by


def claimed(x: torch.Tensor, offered: list[bool]) -> Candidates:
    return Candidates(x, torch.tensor(offered), (None,) * len(offered))


def drifted(job: Job) -> Candidates:
    """Steps of 1/16, each within the ball around the one before, never looking back at the original."""
    x = job.x
    for _ in range(8):
        x = x + torch.where(job.y == 0, 1.0, -1.0)[:, None] / 16
    return offer(x)


def shared(job: Job) -> Candidates:
    """One allowed input of the first unit, handed out for all of them."""
    return offer(away(job, 0.125)[:1].repeat(len(job.x), 1))


def not_finite(value: float) -> Callable[[Job], Candidates]:
    def act(job: Job) -> Candidates:
        x = away(job, 0.125)
        x[:, 0] = value
        return offer(x)

    return act


def rounding(job: Job) -> Candidates:
    """An ulp beyond the radius: too little for most comparisons with a tolerance."""
    x = away(job, 0.125)
    return offer(torch.nextafter(x, away(job, 1.0)))


LIES = {
    "infeasible: far outside the ball": Lie(lambda job: offer(away(job, 0.6).clamp(0, 1)), "invalid", "linf"),
    "infeasible: outside the domain": Lie(lambda job: offer(away(job, 2.0)), "invalid", "domain"),
    "infeasible: an ulp outside": Lie(rounding, "invalid", "linf"),
    "drifted: distances from the last iterate": Lie(drifted, "invalid", "linf"),
    "double-normalized": Lie(lambda job: offer((away(job, 0.125) - 0.5) / 0.25), "invalid"),
    "wrong label: its own idea of the class": Lie(lambda job: offer(away(job, 0.125)), "valid"),
    "clean error as success: the original": Lie(lambda job: offer(job.x.clone()), "none"),
    "NaN": Lie(not_finite(float("nan")), "invalid", "finite"),
    "infinite": Lie(not_finite(float("inf")), "invalid", "finite"),
    "wrong shape: rows": Lie(lambda job: offer(away(job, 0.125)[:2]), "error", "shape"),
    "wrong shape: columns": Lie(lambda job: offer(torch.cat([job.x, job.x], dim=1)), "error", "shape"),
    "wrong shape: no answer for some": Lie(lambda job: claimed(away(job, 0.125), [True]), "error"),
    "wrong type": Lie(lambda job: offer(away(job, 0.125).double() + 1e-9), "invalid", "dtype"),
    "an exception": Lie(lambda job: offer(job.x / (1 // 0)), "error", "ZeroDivisionError"),
    "a refusal": Lie(lambda _: (_ for _ in ()).throw(BackendRefusal("cannot")), "error", "cannot"),
    "nothing at all": Lie(lambda _: None, "error", "returned a NoneType"),
    "a number": Lie(lambda _: 0.97, "error", "returned a float"),
    "a verdict": Lie(verdicts("broken"), "error", "returned a Verdicts"),
}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def counted(result: Any) -> tuple[Any, Any, Any]:
    columns = result.columns["e"]
    return columns.get("survival").high, columns.get("upper").high, columns.get("clean_accuracy").low


@pytest.mark.parametrize("name", list(LIES))
def test_a_lie_is_flagged_and_not_counted(runs: Runs, name: str) -> None:
    lie = LIES[name]
    result = runs(plan(runs.folder, data(runs.folder, X, Y), [stage("liar")]), liar=lie.act)
    assert counted(result) == (F(3, 4), F(3, 4), F(3, 4))
    rows = [r for r in runs.rows() if r.stage == "liar"]
    assert {r.unit for r in rows} == {"0", "1", "2"}
    assert not any(r.counted_failure or r.observed_failure for r in rows)
    for unit in "012":
        first = next(r for r in rows if r.unit == unit)
        assert first.status == lie.status
        assert lie.words in f"{first.rule} {first.message}"


def test_a_failing_duplicate_counts_for_its_owner_alone(runs: Runs) -> None:
    """One allowed failing input of the first unit is handed out for all; the others are twice as far away."""
    x = [[0.4375, 0.4375], [0.0625, 0.0625], [0.125, 0.25]]
    made = plan(runs.folder, data(runs.folder, x, [0, 0, 0]), [stage("liar")])
    result = runs(made, liar=shared)
    assert counted(result) == (F(2, 3), F(2, 3), F(1))
    rows = [r for r in runs.rows() if r.stage == "liar"]
    assert [(r.unit, r.status, r.projected, r.observed_failure) for r in rows] == [
        ("0", "valid", False, True),
        ("1", "invalid", False, None),
        ("1", "valid", True, False),
        ("2", "invalid", False, None),
        ("2", "valid", True, False),
    ]


def test_a_success_that_is_not_offered_is_no_success(runs: Runs) -> None:
    x = [[0.4375, 0.4375]]
    made = plan(runs.folder, data(runs.folder, x, [0]), [stage("liar")])
    result = runs(made, liar=lambda job: claimed(away(job, 0.125), [False]))
    assert counted(result) == (F(1), F(1), F(1))


def test_a_silent_failure_lowers_the_coverage(runs: Runs) -> None:
    """An adapter that errs on every unit shows no survival: the range of the column is wide open."""
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("liar")])
    result = runs(made, liar=LIES["wrong shape: rows"].act)
    columns = result.columns["e"]
    assert (columns.get("survival").low, columns.get("coverage").low) == (F(0), F(1, 4))
    assert result.exit_code == 5


def meddle(what: str) -> Callable[[Job], Candidates]:
    """An honest answer from an adapter that leaves something changed."""

    def act(job: Job) -> Candidates:
        network, _ = job.oracle.opened()
        if what == "weights":
            with torch.no_grad():
                next(iter(network.state_dict().values())).add_(1)
        elif what == "mode":
            network.train()
        else:
            torch.manual_seed(0)
            np.random.seed(0)
            random.seed(0)
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
        return offer(away(job, 0.125))

    return act


@pytest.mark.parametrize("what", ["weights", "mode"])
def test_a_changed_model_stops_the_run(runs: Runs, what: str) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("liar")])
    with pytest.raises(Stop) as stopped:
        runs(made, liar=meddle(what))
    assert [d.code for d in stopped.value.diagnostics] == ["TM822"]


def test_global_states_are_put_back(runs: Runs) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    result = runs(plan(runs.folder, data(runs.folder, X, Y), [stage("liar")]), liar=meddle("states"))
    assert counted(result) == (F(3, 4), F(3, 4), F(3, 4))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()


def test_a_false_certificate_is_void_and_ends_the_run_badly(runs: Runs) -> None:
    """0.4375 + 0.4375 + 0.25 > 1: the unit can be broken, whatever is certified."""
    x = [[0.4375, 0.4375], [0.0625, 0.0625]]
    stages = [stage("honest"), stage("liar", "certify")]
    made = plan(runs.folder, data(runs.folder, x, [0, 0]), stages, attribution="full")
    result = runs(made, honest=lambda job: offer(away(job, 0.125)), liar=verdicts("certified"))
    assert result.exit_code == 5
    assert "TM823" in {d.code for d in result.diagnostics}
    certified = result.columns["e"].get("certified")
    assert (certified.numerator, certified.low) == (0, 0)


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan")])
def test_a_certificate_without_a_margin_above_its_gap_is_none(runs: Runs, margin: float) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("liar", "certify")])
    result = runs(made, liar=verdicts("certified", margin=margin))
    assert result.columns["e"].get("certified").low == 0


def test_a_counterexample_that_is_none_breaks_nothing(runs: Runs) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("liar", "certify")])
    result = runs(made, liar=verdicts("broken", candidates=lambda job: offer(away(job, 0.6).clamp(0, 1))))
    assert result.columns["e"].get("upper").high == F(3, 4)
    assert {r.verdict for r in runs.rows() if r.stage == "liar"} == {"unknown"}
