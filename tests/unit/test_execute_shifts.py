"""Shifts through the runner: who is changed, from which seed, and what is counted; and that no attack is told of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execute_support import MODEL, SPACE, THREAT, Runs, data, moved, plan, stage

from tmlang.audit.consistency import row_faults
from tmlang.audit.tally import tally, tally_plan
from tmlang.audit.verify import audit
from tmlang.backends.contract import BackendRefusal
from tmlang.backends.loading import load
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.models import Randomness, Step, Take
from tmlang.meaning.threats import Shift
from tmlang.meaning.values import Call, Symbol
from tmlang.plan.ir import EvaluationPlan, Plan, Stage
from tmlang.plan.text import plan_json

F = Fraction
SHIFT = Shift("drift", "sum", "rows", (Call(("toy", "drift")),), "wilson", F(95, 100))
APPLY = replace(stage("drift", "corrupt"), id="s/apply", label="apply", evidence="estimate", access="nothing")
# score = a + b, "hi" (class 1) from 1 on. Clean decisions: hi, hi (wrong), lo, lo.
ROWS = ([0.75, 0.5], [0.75, 0.75], [0.25, 0.25], [0.125, 0.25])
LABELS = (1, 0, 0, 0)
Change = Callable[[np.ndarray, int], np.ndarray]


class Drift:
    """A corruption that does what a test wants and keeps the seeds that it was given."""

    def __init__(self, act: Change) -> None:
        self.act = act
        self.seeds: list[int] = []

    def change(self, x: np.ndarray, _: Any, __: Mapping[str, Any], seed: int) -> np.ndarray:
        self.seeds.append(seed)
        return self.act(x, seed)


def shifted(folder: Path, labels: Sequence[int] = LABELS, **changes: Any) -> Plan:
    """The plan of one shift over the rows above; ``attacks``: a threat on the same examples beside it."""
    attacks: Sequence[Stage] = changes.pop("attacks", ())
    model, space = changes.pop("model", MODEL), changes.pop("space", SPACE)
    rows = replace(data(folder, ROWS[: len(labels)], labels), takes=(Take("first", count=len(labels)),))
    base = plan(folder, rows, attacks, model=model, space=space, claims=())
    evaluation = EvaluationPlan("s", "drift", (APPLY,), 11, **changes)
    both = (*base.evaluations, evaluation) if attacks else (evaluation,)
    claim = Claim("c", Measured("corrupted_accuracy", "s"), ">=", F(1, 2))
    return replace(base, subjects=(THREAT, SHIFT), evaluations=both, claims=(claim,))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def less(x: np.ndarray, _: int) -> np.ndarray:
    """A quarter less of the first number."""
    return np.array([max(0, x[0] - 0.25), x[1]], np.float32)


def numbers(runs: Runs, act: Change, **changes: Any) -> dict[str, Any]:
    runs.toys["drift"] = Drift(act)  # type: ignore[assignment]
    columns = runs(shifted(runs.folder, **changes), batch=changes.pop("batch", None)).columns["s"]
    return {c.name: (c.low, c.high) for c in columns.columns}


def test_a_published_set_is_taken_as_it_is(runs: Runs) -> None:
    """The data are the changed inputs: three of four are decided right, clean and corrupted alike."""
    runs.toys["drift"] = load("native", "as_published")  # type: ignore[assignment]
    columns = {c.name: (c.low, c.high) for c in runs(shifted(runs.folder)).columns["s"].columns}
    assert columns["corrupted_accuracy"] == columns["clean_accuracy"] == (F(3, 4), F(3, 4))
    assert columns["coverage"] == (1, 1)


def test_every_example_is_changed_and_counted(runs: Runs) -> None:
    """After the change the scores are 1, 5/4, 1/4 and 1/4: hi, hi, lo, lo against hi, lo, lo, lo: 3 of 4."""
    found = numbers(runs, less)
    assert found["clean_accuracy"] == (F(3, 4), F(3, 4))
    assert found["corrupted_accuracy"] == (F(3, 4), F(3, 4))
    assert found["coverage"] == (1, 1)
    rows = [r for r in runs.rows() if r.stage == "apply"]
    assert [(r.unit, r.clean, r.decision) for r in rows] == [
        ("0", "cc", 1), ("1", "cw", 1), ("2", "cc", 0), ("3", "cc", 0),
    ]  # fmt: skip
    assert audit(runs.folder / "out").faults == []


def seed_by_hand(unit: str, repeat: int) -> int:
    """docs/bundle.md: the first 8 bytes of a SHA-256, halved."""
    text = f"int:11\x1fstr:{unit}\x1fstr:toy.drift\x1fint:{repeat}"
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") // 2


def test_a_seed_comes_from_the_example_and_not_from_its_place(runs: Runs) -> None:
    seen = []
    for out, batch in (("one", 1), ("three", 3), ("all", None)):
        runs.toys["drift"] = drift = Drift(less)  # type: ignore[assignment]
        runs(shifted(runs.folder, repeats=2), out=out, batch=batch)
        rows = [r for r in runs.rows(out) if r.stage == "apply"]
        assert [r.seed for r in rows] == drift.seeds
        seen.append({(r.unit, r.repeat): r.seed for r in rows})
    assert seen[0] == seen[1] == seen[2]
    assert seen[0] == {(str(u), repeat): seed_by_hand(str(u), repeat) for u in range(4) for repeat in range(2)}


def test_what_gives_no_answer_is_open_and_names_its_reason(runs: Runs) -> None:
    """The first crashes, the second leaves the space, the third is refused; the fourth is right: 1 to 4 of 4."""

    def act(x: np.ndarray, _: int) -> np.ndarray:
        if x[0] == 0.75 and x[1] == 0.5:
            raise ZeroDivisionError("no light")
        if x[0] == 0.75:
            return x + np.float32(1)
        if x[0] == 0.25:
            raise BackendRefusal("too dark")
        return x

    found = numbers(runs, act)
    assert found["corrupted_accuracy"] == (F(1, 4), 1)
    assert found["coverage"] == (F(1, 4), F(1, 4))
    told = [(runs.row(u, "apply").status, runs.row(u, "apply").message, runs.row(u, "apply").rule) for u in "012"]
    assert told == [
        ("error", "toy.drift failed: ZeroDivisionError: no light", None),
        ("invalid", None, "domain"),
        ("error", "too dark", None),
    ]
    assert audit(runs.folder / "out").faults == []


def test_an_input_of_another_shape_is_no_answer(runs: Runs) -> None:
    assert numbers(runs, lambda x, _: x[:1], labels=(1,))["coverage"] == (0, 0)
    assert "shape (1,) of (2,)" in (runs.row("0", "apply").message or "")


def test_the_time_limit_leaves_the_rest_open(runs: Runs) -> None:
    assert numbers(runs, less, stop_after=F(1, 10**9))["coverage"] == (0, 0)
    assert {r.status for r in runs.rows() if r.stage == "apply"} == {"timeout"}


def test_a_random_object_answers_one_request_of_its_own_seed(runs: Runs) -> None:
    """Noise of +-2 drowns the score: some answers change, and all of them repeat."""
    noise = Step("noise", (("kind", Symbol("uniform")), ("sigma", F(2))), differentiable=True)
    model = replace(MODEL, steps=(noise,), random=Randomness("per_request"))
    answers = []
    for out, batch in (("a", 1), ("b", None)):
        runs.toys["drift"] = Drift(less)  # type: ignore[assignment]
        runs(shifted(runs.folder, model=model, repeats=8), out=out, batch=batch)
        rows = [r for r in runs.rows(out) if r.stage == "apply"]
        assert {r.status for r in rows} == {"valid"}
        answers.append([(r.unit, r.repeat, r.decision) for r in sorted(rows, key=lambda r: (r.unit, r.repeat))])
    assert answers[0] == answers[1]
    assert {d for u, _, d in answers[0] if u == "0"} == {0, 1}


def test_shifts_and_attacks_are_never_mixed(runs: Runs) -> None:
    """An attack that breaks the first example beside a shift that is wrong on another: each keeps to its columns."""
    runs.toys["drift"] = Drift(less)  # type: ignore[assignment]
    made = shifted(runs.folder, attacks=(stage("down"),))
    columns = runs(made, down=moved([-0.125, -0.125])).columns
    rows = runs.rows()
    adversarial = {c.name for c in columns["e"].columns} - {"clean_accuracy", "clean_answered", "coverage"}
    assert adversarial >= {"survival", "upper", "robust_accuracy", "attack_coverage"}
    assert not adversarial & {c.name for c in columns["s"].columns}
    assert "corrupted_accuracy" not in {c.name for c in columns["e"].columns}
    # No row of one moves a number of the other, whatever the rows say.
    for name in ("e", "s"):
        alone = [r for r in rows if r.evaluation == name]
        assert tally_plan(made, alone)[name] == columns[name]
    wild = [replace(r, observed_failure=True, within_access=True, verdict="certified") for r in rows]
    evaluation = made.evaluations[1]
    assert tally(evaluation, SHIFT, wild).columns == columns["s"].columns
    for row in (r for r in rows if r.evaluation == "s"):
        failure = {k: v for k, v in asdict(row).items() if k in ("observed_failure", "verdict", "within_access")}
        assert set(failure.values()) == {None}
        assert not row.counted_failure
    assert audit(runs.folder / "out").faults == []


@pytest.mark.parametrize("made", [lambda *_: None, lambda x, _: x.astype(object), lambda x, _: x.tolist()])
def test_what_is_no_array_of_numbers_is_laid_at_the_methods_door(runs: Runs, made: Any) -> None:
    assert numbers(runs, made, labels=(1,))["coverage"] == (0, 0)
    assert runs.row("0", "apply").message == "toy.drift made no array of numbers"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"observed_failure": True}, "its row tells observed_failure"),
        ({"counted_failure": True}, "its row tells counted_failure"),
        ({"seed": 4}, "drawn from the seed 4"),
        ({"within_scope": False}, "status valid with within_scope False"),
        ({"decision": None}, "an answer without a decision"),
    ],
)
def test_the_auditor_sees_a_row_that_is_not_what_it_must_be(runs: Runs, change: dict[str, Any], said: str) -> None:
    from tmlang.base import canonical

    runs.toys["drift"] = Drift(less)  # type: ignore[assignment]
    made = shifted(runs.folder)
    runs(made)
    raw = canonical.loads(plan_json(made))
    rows = runs.rows()
    assert list(row_faults(raw, rows)) == []
    at = next(i for i, r in enumerate(rows) if r.stage == "apply")
    faults = list(row_faults(raw, [*rows[:at], replace(rows[at], **change), *rows[at + 1 :]]))
    assert any(said in f for f in faults), faults
    shutil.rmtree(runs.folder / "out")
