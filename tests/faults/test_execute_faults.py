"""What a run does when something goes wrong: nothing false is recorded, nothing done is lost, and it says so."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from execute_support import THREAT, THREE, F, Runs, Toy, data, moved, offer, plan, stage, verdicts
from safetensors.torch import save_file
from torch import nn

from tmlang.audit.record import Record
from tmlang.backends.contract import BackendMissing, BackendRefusal, Candidates, Job
from tmlang.diagnostics.stop import Stop
from tmlang.execute import runner
from tmlang.execute.guard import guarded, state_hash
from tmlang.execute.runner import INTERRUPTED, RunOptions
from tmlang.meaning.models import Network
from tmlang.meaning.values import Artifact

X = [[0.25, 0.25], [0.5, 0.45], [0.5, 0.55], [0.25, 0.25], [0.1, 0.1]]
Y = [0, 0, 1, 0, 0]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def code(stopped: pytest.ExceptionInfo[Stop]) -> str:
    return stopped.value.diagnostics[0].code


def comparable(rows: list[Record]) -> list[Record]:
    """Rows without measured times and places."""
    return [replace(r, seconds=0.0, candidate=(r.candidate is not None and "kept") or None) for r in rows]


# --- adapters -----------------------------------------------------------------------------------------------------


def test_an_exception_costs_the_units_that_raise_it_alone(runs: Runs) -> None:
    def fails(job: Job) -> Candidates:
        if bool(((job.x == X[2][1]) | (job.x == X[4][1])).any()):
            raise ZeroDivisionError("no step left")
        return offer(job.x)

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("bad"), stage("up")])
    result = runs(made, batch=5, bad=fails, up=moved((0.125, 0.125)))
    assert [len(job.x) for job in runs.toys["bad"].jobs] == [5, 2, 3, 1, 2, 1, 1]
    assert [r.status for r in runs.rows() if r.stage == "bad"] == ["none", "none", "error", "none", "error"]
    assert "ZeroDivisionError: no step left" in (runs.row("2", "bad").message or "")
    columns = result.columns["e"]
    # 2 and 4 failed and are not broken otherwise, 1 is broken by `up`; 0 and 3 are finished.
    assert columns.get("survival").low == F(2, 5)  # type: ignore[union-attr]
    assert columns.get("survival").high == F(4, 5)  # type: ignore[union-attr]
    (said,) = [d for d in result.diagnostics if d.code == "TM825"]
    assert "2 of 5" in said.message
    assert result.exit_code == 5


def test_what_no_call_can_carry_is_asked_once(runs: Runs) -> None:
    def refuse(_: Job) -> Candidates:
        raise BackendRefusal("no such norm")

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("bad")])
    result = runs(made, bad=refuse)
    assert len(runs.toys["bad"].jobs) == 1
    assert {(r.status, r.message) for r in runs.rows() if r.stage == "bad"} == {("error", "no such norm")}
    assert result.columns["e"].get("coverage").high == 0  # type: ignore[union-attr]


def test_missing_memory_halves_the_batches(runs: Runs) -> None:
    def hungry(job: Job) -> Candidates:
        if len(job.x) > 2:
            raise MemoryError
        return offer(job.x)

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("bad")])
    result = runs(made, bad=hungry)
    assert [len(job.x) for job in runs.toys["bad"].jobs] == [5, 2, 3, 1, 2]
    assert {r.status for r in runs.rows() if r.stage == "bad"} == {"none"}
    assert result.exit_code == 0


def test_a_prover_that_crashes_is_an_error_and_no_unknown(runs: Runs) -> None:
    def refuse(_: Job) -> Any:
        raise BackendRefusal("no such layer")

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up"), stage("proof", "certify")])
    result = runs(made, up=moved((0.0, 0.0)), proof=refuse)
    assert {r.verdict for r in runs.rows() if r.stage == "proof"} == {"error"}
    assert result.columns["e"].get("certified").high == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "x",
    [torch.zeros(1, 2), torch.zeros(5, 3), torch.full((5, 2), float("nan")), torch.full((5, 2), float("inf"))],
)
def test_arrays_that_are_no_candidates(runs: Runs, x: torch.Tensor) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("odd")])
    result = runs(made, odd=lambda _: offer(x))
    assert {r.status for r in runs.rows() if r.stage == "odd"} <= {"error", "invalid"}
    assert result.columns["e"].get("survival").low == 0  # type: ignore[union-attr]
    assert result.columns["e"].get("upper").high == 1  # type: ignore[union-attr]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.drop(self.linear(x)))  # type: ignore[no-any-return]


FACTORY = (
    "import sys; sys.path.insert(0, {tests!r})\nfrom test_execute_faults import Net\n\ndef net():\n    return Net()\n"
)


def network(folder: Path, source: str | None = None) -> Network:
    torch.manual_seed(1)
    (folder / "net.py").write_text(source or FACTORY.format(tests=str(Path(__file__).parent)))
    save_file(Net().state_dict(), folder / "net.safetensors")
    return Network("torch", Artifact("net.py"), "net", Artifact("net.safetensors"))


def with_network(runs: Runs, source: str | None = None) -> Any:
    model = replace(THREE, network=network(runs.folder, source))
    rows = data(runs.folder, X, [0, 1, 2, 0, 1])
    return plan(runs.folder, rows, [stage("bad")], model=model, threat=replace(THREAT, clean_errors="fail"))


def test_an_original_on_which_the_object_fails_is_unknown_and_alone(runs: Runs) -> None:
    """Behind those that the probes look at, one original makes the object raise."""
    body = """if (x == 0.9375).any():
            raise ValueError("no such input")
        return self.linear(x)"""
    made = with_network(runs, DROPOUT.format(body=body))
    x = [[i / 64, 0.5] for i in range(40)]
    x[36] = [0.9375, 0.9375]
    made = replace(made, data=(data(runs.folder, x, [0] * 40),))
    runs.toys["bad"] = Toy(moved((0.0, 0.0)))
    result = runner.run(made, RunOptions(out=runs.folder / "out", trust_code=True))
    assert {r.unit for r in runs.rows() if r.clean == "cu"} == {"36"}
    accuracy = result.columns["e"].get("clean_accuracy")
    assert accuracy is not None
    assert accuracy.high - accuracy.low == F(1, 40)  # type: ignore[operator]


def reach(job: Job) -> nn.Module:
    """The module behind the door, as a library that walks object graphs would find it."""
    return job.oracle.opened()[0]


def to_training(job: Job) -> Candidates:
    list(reach(job).modules())[-1].train()
    return offer(job.x)


def rewrite(job: Job) -> Candidates:
    with torch.no_grad():
        next(reach(job).parameters()).add_(1)
    return offer(job.x)


def replace_data(job: Job) -> Candidates:
    weight = next(reach(job).parameters())
    weight.data = weight.data + 1
    return offer(job.x)


@pytest.mark.parametrize("act", [to_training, rewrite, replace_data])
def test_a_stage_that_changes_the_model_stops_the_run_and_records_nothing(runs: Runs, act: Any) -> None:
    made = with_network(runs)
    runs.toys["bad"] = Toy(act)
    with pytest.raises(Stop) as stopped:
        runner.run(made, RunOptions(out=runs.folder / "out", trust_code=True))
    assert code(stopped) == "TM822"
    assert not [r for r in runs.rows() if r.stage == "bad"]


def test_global_states_are_as_before_behind_a_stage() -> None:
    model = Net().eval()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    expected = torch.rand(1), np.random.rand(), random.random()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    threads = torch.get_num_threads()
    with guarded(model, "s"):
        torch.manual_seed(99), np.random.seed(99), random.seed(99)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(threads + 1)
        warnings.warn("noise", UserWarning, stacklevel=1)
    assert (torch.rand(1), np.random.rand(), random.random()) == expected
    assert torch.is_grad_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_num_threads() == threads


def test_the_state_hash_sees_values_names_and_buffers() -> None:
    model = Net()
    first = state_hash(model)
    assert first == state_hash(model)
    model.norm.num_batches_tracked += 1
    second = state_hash(model)
    assert second != first
    model.norm.num_batches_tracked -= 1
    assert state_hash(model) == first


# --- models that are not what the spec says -----------------------------------------------------------------------


DROPOUT = """
import torch
from torch import nn

class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
    def forward(self, x):
        {body}

def net():
    return Noisy()
"""


TURNING = "import os; return self.linear(x) * (-1 if os.path.exists({flag!r}) else 1)"


def test_a_state_that_no_hash_sees_stops_the_run(runs: Runs) -> None:
    """The object turns its answers round behind the probes; the same object that is not made to is left alone."""
    flag = runs.folder / "turned"

    def turn(job: Job) -> Candidates:
        flag.touch()
        return moved((0.0625, 0.0))(job)

    made = with_network(runs, DROPOUT.format(body=TURNING.format(flag=str(flag))))
    runs.toys["bad"] = Toy(turn)
    with pytest.raises(Stop) as stopped:
        runner.run(made, RunOptions(out=runs.folder / "out", trust_code=True))
    assert [d.code for d in stopped.value.diagnostics] == ["TM822"]
    assert [r for r in runs.rows() if r.stage == "bad"] == []
    flag.unlink()
    runs.toys["bad"] = Toy(moved((0.0625, 0.0)))
    assert runner.run(made, RunOptions(out=runs.folder / "later", trust_code=True)).exit_code in (0, 3, 4)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return self.linear(x) + torch.rand(3)", "TM731"),
        ("y = self.linear(x); return -y if torch.rand(()) < 0.02 else y", "TM731"),
        ("import random; y = self.linear(x); return -y if random.random() < 0.02 else y", "TM731"),
        ("import numpy; y = self.linear(x); return -y if numpy.random.rand() < 1e-9 else y", "TM731"),
        ("import os; y = self.linear(x); return -y if os.urandom(1)[0] < 13 else y", "TM731"),
        ("return nn.functional.dropout(self.linear(x), 0.5, training=True)", "TM731"),
        ("y = self.linear(x); return y - y.mean(dim=0) if len(x) > 1 else y", "TM732"),
        ("return self.linear(x).softmax(dim=1)", "TM734"),
        ("return self.linear(x).round()", "TM733"),
        ("return self.linear(x)[:, :2]", "TM718"),
        ("return self.linear(x[:, :1])", "TM736"),
        ("return self.linear(x)[0]", "TM736"),
        ("return None", "TM736"),
    ],
)
def test_probes_speak_before_anything_is_searched(runs: Runs, body: str, expected: str) -> None:
    made = with_network(runs, DROPOUT.format(body=body))
    runs.toys["bad"] = Toy(moved((0.0, 0.0)))
    try:
        result = runner.run(made, RunOptions(out=runs.folder / "out", trust_code=True))
    except Stop as stopped:
        found = [d.code for d in stopped.diagnostics]
        assert not (runs.folder / "out").exists()
    else:
        found = [d.code for d in result.diagnostics]
    assert expected in found
    assert not set(found) - {expected, "TM728", "TM733"}


# --- files --------------------------------------------------------------------------------------------------------


def test_every_hash_is_checked_before_any_file_is_opened(runs: Runs) -> None:
    """The factory would raise; the wrong hash of the data is found first."""
    made = with_network(runs, "raise RuntimeError('opened')")
    wrong = replace(made.data[0], file=Artifact("rows.npz", "0" * 64))
    with pytest.raises(Stop) as stopped:
        runner.run(replace(made, data=(wrong,)), RunOptions(out=runs.folder / "out", trust_code=True))
    assert code(stopped) == "TM711"
    assert not (runs.folder / "out").exists()


def test_a_file_that_may_not_be_read_and_one_without_rows(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up")])

    def denied(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", denied)
        with pytest.raises(Stop) as stopped:
            runs(made, up=moved((0.0, 0.0)))
    assert code(stopped) == "TM710"
    empty = plan(runs.folder, data(runs.folder, np.zeros((0, 2)).tolist(), []), [stage("up")])
    with pytest.raises(Stop) as stopped:
        runs(empty, up=moved((0.0, 0.0)))
    assert code(stopped) == "TM704"


def test_another_run_in_the_folder_is_not_touched(runs: Runs) -> None:
    rows = data(runs.folder, X, Y)
    runs(plan(runs.folder, rows, [stage("up")]), up=moved((0.125, 0.125)))
    before = sorted(p.name for p in (runs.folder / "out").rglob("*"))
    with pytest.raises(Stop) as stopped:
        runs(plan(runs.folder, rows, [stage("up")], seed=1), up=moved((0.125, 0.125)))
    assert code(stopped) == "TM824"
    assert sorted(p.name for p in (runs.folder / "out").rglob("*")) == before
    for name in ("thesis.txt", ".hidden"):
        mine = runs.folder / f"mine{name}"
        mine.mkdir()
        (mine / name).write_text("precious")
        with pytest.raises(Stop) as stopped:
            runs(plan(runs.folder, rows, [stage("up")]), out=mine.name, up=moved((0.125, 0.125)))
        assert code(stopped) == "TM824"
        assert (mine / name).read_text() == "precious"


def test_a_plan_without_evaluations_is_no_success(runs: Runs) -> None:
    made = replace(plan(runs.folder, data(runs.folder, X, Y), [stage("up")]), evaluations=(), claims=())
    with pytest.raises(Stop) as stopped:
        runs(made)
    assert code(stopped) == "TM828"
    assert not (runs.folder / "out").exists()


def test_a_library_that_is_not_installed(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> Any:
        raise BackendMissing("attacks")

    monkeypatch.setattr(runner, "load", missing)
    with pytest.raises(Stop) as stopped:
        runs(plan(runs.folder, data(runs.folder, X, Y), [stage("up")]))
    assert code(stopped) == "TM510"
    assert "tmlang[attacks]" in (stopped.value.diagnostics[0].help or "")


# --- stopping and going on ----------------------------------------------------------------------------------------


def drawn(job: Job) -> Candidates:
    steps = [torch.rand(2, generator=torch.Generator().manual_seed(s)) for s in job.seeds]
    return offer(job.x + (torch.stack(steps) - 0.5) / 4)


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_stopped_run_goes_on_and_ends_as_if_it_had_not_been(runs: Runs, at: int) -> None:
    rows = data(runs.folder, X, Y)
    made = plan(runs.folder, rows, [stage("dice"), stage("proof", "certify")], repeats=2)
    calls = 0

    def interrupted(job: Job) -> Candidates:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return drawn(job)

    acts = {"proof": verdicts("unknown")}
    stopped = runs(made, batch=2, dice=interrupted, **acts)
    assert stopped.exit_code == INTERRUPTED
    assert stopped.path == runs.folder / "out"
    committed = runs.rows()
    assert not (runs.folder / "out" / "statement.json").exists()
    finished = runs(made, batch=2, dice=drawn, **acts)
    whole = runs(made, out="whole", batch=2, dice=drawn, **acts)
    assert runs.rows()[: len(committed)] == committed
    key = lambda r: (r.stage, r.repeat, r.unit)  # noqa: E731
    assert comparable(sorted(runs.rows(), key=key)) == comparable(sorted(runs.rows("whole"), key=key))
    assert finished.columns == whole.columns


def test_a_finished_run_is_not_run_again(runs: Runs) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up")])
    first = runs(made, up=moved((0.125, 0.125)))

    def never(_: Job) -> Candidates:
        raise AssertionError("asked again")

    again = runs(made, up=never)
    assert again.columns == first.columns
    assert again.exit_code == first.exit_code


def test_a_half_written_file_does_not_hinder(runs: Runs) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up")])

    def interrupt(_: Job) -> Candidates:
        raise KeyboardInterrupt

    runs(made, up=interrupt)
    (runs.folder / "out" / "records" / ".000002.parquet.x1").write_bytes(b"half")
    assert runs(made, up=moved((0.125, 0.125))).exit_code == 0
    assert not list((runs.folder / "out" / "records").glob(".*"))


def test_time_that_is_up_leaves_timeouts_and_not_survivors(runs: Runs) -> None:
    import time

    def slow(job: Job) -> Candidates:
        time.sleep(0.3)
        return offer(job.x)

    made = plan(
        runs.folder,
        data(runs.folder, X, Y),
        [stage("slow"), stage("proof", "certify")],
        stop_after=Fraction(1, 5),
    )
    result = runs(made, batch=2, slow=slow, proof=verdicts("certified"))
    assert [r.status for r in runs.rows() if r.stage == "slow"] == ["none"] * 2 + ["timeout"] * 3
    assert {r.verdict for r in runs.rows() if r.stage == "proof"} == {"timeout"}
    assert result.columns["e"].get("survival").low == F(2, 5)  # type: ignore[union-attr]
    assert result.exit_code == 5
