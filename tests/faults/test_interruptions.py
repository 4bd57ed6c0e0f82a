"""A run that is killed, or whose disk fails, anywhere: nothing committed is lost or doubled, and the bundle of the run
that goes on is, byte for byte, the one of a run that was never stopped. (Clocks stand still here, so that the measured
times are equal too.)"""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch
from execute_support import THREE, Toy, data, offer, plan, stage

from tmlang.backends.contract import Candidates, Job
from tmlang.base import files
from tmlang.diagnostics.stop import Stop
from tmlang.execute import evaluator, output, runner
from tmlang.execute.runner import RunOptions
from tmlang.plan.ir import Plan

STAGES = ("dice", "more")


def drawn(job: Job) -> Candidates:
    steps = [torch.rand(2, generator=torch.Generator().manual_seed(s)) for s in job.seeds]
    return offer(job.x + (torch.stack(steps) - 0.5) / 4)


class Bench:
    """One small run, and its bundle when nothing comes between."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        rng = np.random.default_rng(5)
        x, y = rng.random((12, 2)).round(3).tolist(), rng.integers(0, 3, 12).tolist()
        self.plan: Plan = plan(folder, data(folder, x, y), [stage(s) for s in STAGES], model=THREE)
        began = time.monotonic()
        self.whole = self.held(self.run(self.fresh()))
        self.seconds = time.monotonic() - began

    def fresh(self) -> Path:
        self.count += 1
        return self.folder / f"out{self.count}"

    def run(self, out: Path) -> Path:
        sources = {"s.tm": "tm 1\n", "a/b.tm": "tm 1\n"}
        self.code = runner.run(self.plan, RunOptions(out=out, batch_size=4, sources=sources)).exit_code
        return out

    @staticmethod
    def held(out: Path) -> dict[str, bytes]:
        """Every file; on how many threads a run was made is unknown once it was interrupted, so that is put aside, with
        what follows of it: the hash and the size of `environment.json`."""
        files = {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}
        if "statement.json" not in files:
            return files
        told = files["environment.json"]
        crate = files["ro-crate-metadata.json"]
        size = f'"contentSize":"{len(told)}"'.encode()
        files["environment.json"] = re.sub(rb'"threads":(null|\d+)', b'"threads":0', told)
        for name in ("statement.json", "ro-crate-metadata.json"):
            for made in (told, crate):
                files[name] = files[name].replace(sha256(made).hexdigest().encode(), b"")
            files[name] = files[name].replace(size, b"")
        return files


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    torch.set_num_threads(1)
    monkeypatch.setattr(runner, "load", lambda *_: Toy(drawn))
    # The reports follow from the other files; drawing them takes longer than the run.
    monkeypatch.setattr(output, "write_into", lambda bundle: bundle.add_text("report.md", "# Report\n") or ())
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(evaluator, "_CALLS", 0)
    memory = Path("/dev/shm")
    return Bench(Path(mkdtemp(dir=memory)) if os.access(memory, os.W_OK) else tmp_path)


@pytest.fixture(autouse=True)
def _tidy(bench: Bench) -> Iterator[None]:
    yield
    import shutil

    shutil.rmtree(bench.folder, ignore_errors=True)


@contextmanager
def at_operation(wanted: int, act: Callable[[], None]) -> Iterator[list[str]]:
    """Counts writes, fsyncs and renames, and calls ``act`` when the one numbered ``wanted`` comes: instead of it, and
    in the middle of a write. Gives the kinds of those that came."""
    seen: list[str] = []

    def reached(kind: str) -> None:
        seen.append(kind)
        if len(seen) - 1 == wanted:
            act()

    class Half:
        def __init__(self, handle: int, mode: str) -> None:
            self.file = real_open(handle, mode)

        def write(self, data: bytes) -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            reached("write")
            self.file.write(data[len(data) // 2 :])

        def __enter__(self) -> Half:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    real_open, real_sync, real_replace = os.fdopen, os.fsync, os.replace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fdopen", Half)
        patch.setattr(files.os, "fsync", lambda handle: (reached("fsync"), real_sync(handle)))
        patch.setattr(files.os, "replace", lambda *names: (reached("rename"), real_replace(*names)))
        yield seen


def operations(bench: Bench) -> list[str]:
    with at_operation(-1, lambda: None) as seen:
        bench.run(bench.fresh())
    return seen


def fails(number: int) -> Callable[[], None]:
    def act() -> None:
        raise OSError(number, os.strerror(number))

    return act


def test_a_failure_at_every_write_fsync_and_rename(bench: Bench) -> None:
    kinds = operations(bench)
    assert {"write", "fsync", "rename"} == set(kinds)
    assert len(kinds) == 4 * len(bench.whole)  # the file's fsync and its folder's
    for k in range(len(kinds)):
        out, number = bench.fresh(), (errno.ENOSPC, errno.EIO)[k % 2]
        with at_operation(k, fails(number)), pytest.raises(Stop) as stopped:
            bench.run(out)
        assert [d.code for d in stopped.value.diagnostics] == ["TM824"], kinds[k]
        assert os.strerror(number) in str(stopped.value)
        committed = {n: b for n, b in Bench.held(out).items() if n.startswith("records/") and "/." not in n}
        assert bench.held(bench.run(out)) == bench.whole, f"operation {k}, {kinds[k]}"
        assert committed.items() <= bench.whole.items()


def test_a_disk_that_stays_full(bench: Bench) -> None:
    """Full from some write on, again and again, until there is room."""
    out, left = bench.fresh(), 0

    def full() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for room in (0, 3, 2, 1, 0, 4, 1):
        left = room
        with pytest.MonkeyPatch.context() as patch:
            real = os.replace
            patch.setattr(files.os, "replace", lambda *names, real=real: (full(), real(*names)))
            with pytest.raises(Stop):
                bench.run(out)
    assert bench.held(bench.run(out)) == bench.whole


def killed(bench: Bench, out: Path, rng: random.Random, total: int) -> bool:
    """Run in a process that is killed somewhere: after a time, or within a write, an fsync or a rename."""
    by_time = rng.random() < 0.5
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            at = -1 if by_time else rng.randrange(total)
            with at_operation(at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                bench.run(out)
        finally:
            os._exit(0)
    if by_time:
        time.sleep(rng.random() * bench.seconds)
        os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kills", [200, pytest.param(2000, marks=[pytest.mark.nightly, pytest.mark.timeout(3000)])])
def test_killed_at_random_points(bench: Bench, kills: int) -> None:
    rng, total = random.Random(kills), len(operations(bench))
    done = 0
    while done < kills:
        out = bench.fresh()
        for _ in range(5):
            done += killed(bench, out, rng, total)
        assert bench.held(bench.run(out)) == bench.whole


def test_ctrl_c_within_an_operation(bench: Bench) -> None:

    def interrupt() -> None:
        raise KeyboardInterrupt

    for k in range(0, len(operations(bench)), 3):
        out = bench.fresh()
        with at_operation(k, interrupt):
            bench.run(out)
        assert bench.code == runner.INTERRUPTED
        assert bench.held(bench.run(out)) == bench.whole
