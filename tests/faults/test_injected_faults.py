"""Many examples, of which 5 % each crash, hang, or want more memory than there is: one terminal row each, and every
number exact. What is expected is worked out here, in whole 64ths, from the data and the injected faults alone."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import random
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from execute_support import THREE, Runs, data, offer, plan, stage

from tmlang.audit.bundle import Bundle
from tmlang.audit.verify import audit
from tmlang.backends.contract import Candidates, Job
from tmlang.execute import output
from tmlang.execute.workers import Limits

STATUS = {"segfault": "crashed", "hang": "timeout", "memory": "oom"}


def harm(kind: str, lives: Path) -> None:
    if kind == "segfault":
        faulthandler.disable()
        ctypes.string_at(0)
    elif kind == "hang":
        began = time.monotonic()
        while True:
            (lives / str(os.getpid())).write_text(str(time.monotonic() - began))
            time.sleep(0.02)
    else:
        torch.zeros(1 << 32, dtype=torch.float64)


def winner(a: int, b: int) -> int:
    """The class of (a, b)/64 under the greatest of a, b and 1/2, the first on ties."""
    scores = (a, b, 32)
    return scores.index(max(scores))


@pytest.mark.parametrize(
    ("count", "workers", "limit"),
    # Of so many calls some are starved for long where there is other work. A hang waits, so more go on beside it.
    [(120, 2, 0.4), pytest.param(10_000, 8, 1.5, marks=[pytest.mark.nightly, pytest.mark.timeout(5400)])],
)
def test_every_example_ends_once(
    count: int,
    workers: int,
    limit: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = random.Random(count)
    # Pairs apart from one another, so that a call knows its examples by what they hold.
    grid = [(a, b) for a in range(0, 57) for b in range(65)]
    pairs = [grid[k % len(grid)] for k in rng.sample(range(len(grid) * 3), count)]
    kinds = ["segfault"] * (count // 20) + ["hang"] * (count // 20) + ["memory"] * (count // 20)
    kinds += [""] * (count - len(kinds))
    rng.shuffle(kinds)
    labels = [winner(a, b) for a, b in pairs]

    def search(job: Job) -> Candidates:
        for unit in job.sets.ids:
            if kinds[int(unit)]:
                harm(kinds[int(unit)], lives)
        return offer(job.x + torch.tensor([0.125, 0.0]))

    lives = tmp_path / "lives"
    lives.mkdir()
    monkeypatch.setattr(output, "write_into", lambda _: ())
    runs = Runs(tmp_path, monkeypatch)
    made = plan(tmp_path, data(tmp_path, (np.array(pairs) / 64).tolist(), labels), [stage("bad")], model=THREE)
    began = time.monotonic()
    result = runs(made, batch=4, limits=Limits(workers, limit, 200), bad=search)
    seconds = time.monotonic() - began

    rows = [r for r in runs.rows() if r.stage == "bad"]
    assert Counter(r.unit for r in rows) == Counter(str(i) for i in range(count))
    assert {r.unit: r.status for r in rows if r.status != "valid"} == {
        str(i): STATUS[kind] for i, kind in enumerate(kinds) if kind
    }
    finished = [i for i in range(count) if not kinds[i]]
    broken = sum(winner(pairs[i][0] + 8, pairs[i][1]) != labels[i] for i in finished)
    columns = result.columns["e"]
    coverage, survival = columns.get("coverage"), columns.get("survival")
    assert coverage is not None
    assert survival is not None
    assert (coverage.low, coverage.high) == (Fraction(len(finished), count),) * 2
    assert (survival.low, survival.high) == (Fraction(len(finished) - broken, count), Fraction(count - broken, count))
    assert 0 < broken < len(finished)
    # What every hanging call wrote down last of how long it lived.
    overrun = [float(f.read_text() or 0) - limit for f in lives.iterdir()]
    assert len(overrun) >= 2 * (count // 20)
    assert max(overrun) < 2
    assert audit(Bundle.open(tmp_path / "out").path).faults == []
    with capsys.disabled():
        print(
            f"\n{count} examples in {seconds:.0f} s, {len(overrun)} hanging calls, {max(overrun):.2f} s over the limit"
        )
