"""Workers: a call that crashes, hangs or wants too much memory costs its own example and nothing else."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from execute_support import THREAT, THREE, F, Runs, Toy, data, moved, offer, plan, stage, verdicts
from test_execute_faults import X, Y, comparable, with_network

from tmlang.backends.contract import Candidates, Job
from tmlang.diagnostics.stop import Stop
from tmlang.execute import runner
from tmlang.execute import workers as workers_module
from tmlang.execute.runner import RunOptions
from tmlang.execute.workers import Limits

ONE = Limits(1, seconds=1.0, megabytes=300)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def segfault() -> None:
    faulthandler.disable()
    ctypes.string_at(0)


def hang_deaf() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


def fill() -> None:
    torch.zeros(1 << 30, dtype=torch.float64)


def abort() -> None:
    faulthandler.disable()
    os.abort()


def leave() -> None:
    os._exit(3)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stumble() -> None:
    raise ZeroDivisionError("no step left")


@pytest.mark.parametrize(
    ("act", "status", "said"),
    [
        (segfault, "crashed", "SIGSEGV"),
        (abort, "crashed", "SIGABRT"),
        (leave, "crashed", "exit code 3"),
        (hang_deaf, "timeout", "no answer within 1 s"),
        (fill, "oom", "allocate"),
        (killed, "oom", "killed from outside"),
        (stumble, "error", "no step left"),
    ],
)
def test_what_goes_wrong_costs_one_example(runs: Runs, act: Any, status: str, said: str) -> None:
    def search(job: Job) -> Candidates:
        if bool((job.x == X[2][1]).any()):
            act()
        return offer(job.x)

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("bad"), stage("up")])
    result = runs(made, limits=ONE, bad=search, up=moved((0.125, 0.125)))
    rows = [r for r in runs.rows() if r.stage == "bad"]
    assert [r.status for r in rows] == ["none", "none", status, "none", "none"]
    assert said in (rows[2].message or "")
    columns = result.columns["e"]
    # Unit 1 is broken by `up`, unit 2 is open: neither a survivor nor a failure.
    assert (columns.get("survival").low, columns.get("survival").high) == (F(3, 5), F(4, 5))  # type: ignore[union-attr]
    assert columns.get("coverage").low == F(4, 5)  # type: ignore[union-attr]
    assert result.exit_code == 5
    assert [d.code for d in result.diagnostics] == ["TM728", "TM825"]


def test_a_prover_that_goes_down_has_said_nothing(runs: Runs) -> None:
    def certify(job: Job) -> Any:
        if bool((job.x == X[2][1]).any()):
            segfault()
        return verdicts("certified")(job)

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up"), stage("proof", "certify")])
    result = runs(made, limits=ONE, up=moved((0.0, 0.0)), proof=certify)
    row = runs.row("2", "proof")
    assert (row.status, row.verdict, row.margin) == ("crashed", "error", None)
    certified = result.columns["e"].get("certified")
    assert (certified.low, certified.high) == (F(4, 5), 1)  # type: ignore[union-attr]


def test_what_happens_once_costs_nothing(runs: Runs) -> None:
    """A unit that fails alone is asked again by a fresh process."""

    def search(job: Job) -> Candidates:
        mark = runs.folder / "seen"
        if not mark.exists():
            mark.touch()
            segfault()
        return moved((0.125, 0.125))(job)

    made = plan(runs.folder, data(runs.folder, X[1:2], Y[1:2]), [stage("bad")])
    runs(made, limits=ONE, bad=search)
    assert runs.row("0", "bad").observed_failure is True


def test_a_hang_ends_within_two_seconds_of_its_limit(runs: Runs) -> None:
    made = plan(runs.folder, data(runs.folder, X[:1], Y[:1]), [stage("bad")])
    began = time.monotonic()
    runs(made, limits=Limits(1, seconds=0.5), bad=lambda _: hang_deaf())
    # Asked twice, half a second each.
    assert time.monotonic() - began < 2 * 0.5 + 2
    assert runs.row("0", "bad").status == "timeout"


def test_a_hang_ends_at_its_limit_also_while_the_run_is_busy(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is kept from looking for two seconds more; the call writes down that it lives."""

    def late(pipes: Any, timeout: float | None) -> list[Any]:
        time.sleep((timeout or 0.0) + 2)
        return wait(pipes, 0)

    def search(_: Job) -> Candidates:
        began, lives = time.monotonic(), runs.folder / str(os.getpid())
        while True:
            lives.write_text(str(time.monotonic() - began))
            time.sleep(0.01)

    monkeypatch.setattr(workers_module, "wait", late)
    made = plan(runs.folder, data(runs.folder, X[:1], Y[:1]), [stage("bad")])
    runs(made, limits=Limits(1, seconds=0.5), bad=search)
    row = runs.row("0", "bad")
    assert (row.status, row.message) == ("timeout", "no answer within 0.5 s: the process was killed")
    lived = [float(f.read_text() or 0) for f in runs.folder.glob("[0-9]*")]
    assert len(lived) == 2  # asked twice
    assert 0.2 < max(lived) < 0.5 + 1


@pytest.mark.parametrize(("act", "status"), [(lambda: None, "valid"), (segfault, "crashed")])
def test_what_came_while_the_run_itself_was_late_is_no_timeout(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, act: Any, status: str
) -> None:
    """The run looks, sees nothing, is kept from the processor until after the limit, and looks no more."""

    def late(pipes: Any, timeout: float | None) -> list[Any]:
        assert timeout is not None
        wait(pipes)
        time.sleep(timeout)
        return []

    def search(job: Job) -> Candidates:
        act()
        return moved((0.125, 0.125))(job)

    monkeypatch.setattr(workers_module, "wait", late)
    made = plan(runs.folder, data(runs.folder, X[:1], Y[:1]), [stage("bad")])
    runs(made, limits=Limits(1, seconds=1.5), bad=search)
    assert runs.row("0", "bad").status == status


def test_what_a_dead_process_spent_of_a_limit_is_all_that_was_left(runs: Runs) -> None:
    def ask(job: Job) -> Candidates:
        job.oracle.decisions(job.x, torch.arange(len(job.x)))
        return offer(job.x)

    def die(_: Job) -> Candidates:
        segfault()
        raise AssertionError

    access = replace(THREAT.access, level="decisions", queries=5)
    stages = [stage(n, access="decisions") for n in ("one", "bad", "two")]
    made = plan(runs.folder, data(runs.folder, X[:1], Y[:1]), stages, threat=replace(THREAT, access=access))
    runs(made, limits=ONE, one=ask, bad=die, two=ask)
    assert [runs.row("0", s).queries for s in ("one", "bad", "two")] == [1, 4, 0]


def test_a_stage_that_changes_the_model_in_a_worker_stops_the_run(runs: Runs) -> None:
    made = with_network(runs)

    def rewrite(job: Job) -> Candidates:
        with torch.no_grad():
            next(job.oracle.opened()[0].parameters()).add_(1)
        return offer(job.x)

    runs.toys["bad"] = Toy(rewrite)
    with pytest.raises(Stop) as stopped:
        runner.run(made, RunOptions(out=runs.folder / "out", trust_code=True, limits=ONE))
    assert stopped.value.diagnostics[0].code == "TM822"
    assert not [r for r in runs.rows() if r.stage == "bad"]


def drawn(job: Job) -> Candidates:
    steps = [torch.rand(2, generator=torch.Generator().manual_seed(s)) for s in job.seeds]
    return offer(job.x + (torch.stack(steps) - 0.5) / 4)


def test_rows_do_not_depend_on_workers_or_batches(runs: Runs) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.random((40, 2)).round(3), rng.integers(0, 3, 40)
    made = plan(
        runs.folder,
        data(runs.folder, x.tolist(), y.tolist()),
        [stage("dice"), stage("other"), stage("proof", "certify")],
        model=THREE,
        repeats=2,
    )
    acts = {"dice": drawn, "other": drawn, "proof": verdicts("unknown")}
    found = {}
    for workers, batch in ((0, 64), (1, 64), (2, 64), (1, 7), (2, 7), (2, 1)):
        name = f"{workers}-{batch}"
        runs(made, out=name, batch=batch, limits=Limits(workers), **acts)
        order = {"clean": 0, "dice": 1, "other": 2, "proof": 3}
        found[name] = [
            (replace(row, candidate=None), None if r.candidate is None else candidate(runs, name, r.candidate))
            for r, row in zip(runs.rows(name), comparable(runs.rows(name)), strict=True)
        ]
        found[name].sort(key=lambda f: (f[0].repeat, order[f[0].stage], int(f[0].unit)))
    first = found.pop("0-64")
    assert any(c for _, c in first)
    assert all(rows == first for rows in found.values())


def candidate(runs: Runs, out: str, reference: str) -> bytes:
    from tmlang.audit.bundle import Bundle

    return Bundle.open(runs.folder / out, sealed=False).candidate(reference)[0].tobytes()


def test_a_killed_run_takes_its_workers_with_it(runs: Runs) -> None:
    pid = runs.folder / "pid"

    def search(_: Job) -> Candidates:
        pid.with_suffix(".new").write_text(str(os.getpid()))
        pid.with_suffix(".new").rename(pid)
        hang_deaf()
        raise AssertionError

    made = plan(runs.folder, data(runs.folder, X[:1], Y[:1]), [stage("bad")])
    run = os.fork()
    if run == 0:  # pragma: no cover
        try:
            runs(made, limits=Limits(1), bad=search)
        finally:
            os._exit(0)
    until(pid.exists)
    os.kill(run, signal.SIGKILL)
    os.waitpid(run, 0)
    worker = Path(f"/proc/{pid.read_text()}/stat")
    until(lambda: not worker.exists() or worker.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def until(reached: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_no_process_is_left(runs: Runs) -> None:
    import multiprocessing

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("bad")])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    runs(made, limits=Limits(2), batch=1, bad=moved((0.0, 0.0)))
    assert multiprocessing.active_children() == []
    quiet = replace(RunOptions(out=runs.folder / "stopped", batch_size=1), limits=Limits(2))
    from tmlang.execute.progress import Silent

    class Stopping(Silent):
        def advance(self, units: int, standing: int | None = None) -> None:  # noqa: ARG002
            raise KeyboardInterrupt

    assert runner.run(made, quiet, Stopping()).exit_code == runner.INTERRUPTED
    assert multiprocessing.active_children() == []
