"""The digits example gives the same rows and candidates, bit for bit, however it is cut, spread or interrupted.

Batch sizes: methods of tmlang itself. A library draws once for a whole batch, and a bound is computed for a batch, so
there the size of the batches is part of what the run is (``run.json``); workers and interruptions change nothing.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tmlang.api.reading import check
from tmlang.audit.bundle import Bundle
from tmlang.execute import output
from tmlang.execute.progress import Silent
from tmlang.execute.runner import INTERRUPTED, RunOptions, run
from tmlang.execute.workers import Limits
from tmlang.plan.ir import Plan

DIGITS = Path(__file__).parents[2] / "specs" / "digits"
NATIVE = (
    "attack: apgd = native.apgd(loss: dlr, steps: 10, restarts: 2)",
    "attack: pgd = native.pgd(steps: 10)",
    "attack: square = native.square(queries: 30)",
)
LIBRARIES = (
    "attack: apgd = native.apgd(loss: ce, steps: 5)",
    "attack: pgd = torchattacks.PGD(alpha: 1/64 in scan, steps: 5)",
    "certify: crown = auto_lirpa.crown()",
)
EXAMPLES = pytest.mark.parametrize("examples", [16, pytest.param(130, marks=pytest.mark.nightly)])


def digits(folder: Path, stages: tuple[str, ...], examples: int) -> Plan:
    shutil.copytree(DIGITS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    ids = (folder / "test_ids.txt").read_text().split()[:examples]
    (folder / "test_ids.txt").write_text("\n".join(ids) + "\n")
    declared = (folder / "digits.tm").read_text().split("\nevaluate ")[0]
    body = "".join(f"  {s}\n" for s in stages)
    (folder / "digits.tm").write_text(f"{declared}\nevaluate e of faint {{\n{body}  seed: 0\n}}\n")
    found = check(folder / "digits.tm")
    assert found.plan is not None, found.diagnostics
    return found.plan


def facts(out: Path) -> list[tuple[Any, ...]]:
    """Every row without its measured time, and the bytes of its candidate, in the order of stages and units."""
    bundle = Bundle.open(out)
    rows = [
        (replace(r, seconds=0.0, candidate=None), None if r.candidate is None else bundle.candidate(r.candidate))
        for r in bundle.records()
    ]
    return [(row, None if c is None else (c[0].tobytes(), c[1].tobytes())) for row, c in rows]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(output, "write_into", lambda _: None)


@EXAMPLES
def test_neither_batches_nor_workers_change_a_bit(tmp_path: Path, examples: int) -> None:
    plan = digits(tmp_path, NATIVE, examples)
    found = {}
    for batch, workers in ((64, 0), (64, 1), (7, 0), (7, 2), (1, 2)):
        out = tmp_path / f"{batch}-{workers}"
        run(plan, RunOptions(out=out, trust_code=True, batch_size=batch, limits=Limits(workers)))
        found[batch, workers] = facts(out)
    first = found[64, 0]
    assert sum(c is not None for _, c in first) > 0
    assert {row.stage for row, _ in first} == {"clean", "apgd", "pgd", "square"}
    for how, rows in found.items():
        assert rows == first, how


class Stopping(Silent):
    """Ctrl-C behind every ``every``-th batch."""

    def __init__(self, every: int) -> None:
        self.left = every

    def advance(self, units: int, standing: int | None = None) -> None:  # noqa: ARG002
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@EXAMPLES
def test_neither_workers_nor_five_interruptions_change_a_bit(tmp_path: Path, examples: int) -> None:
    plan = digits(tmp_path, LIBRARIES, examples)
    for workers in (0, 1, 2):
        options = RunOptions(out=tmp_path / f"whole{workers}", trust_code=True, batch_size=7, limits=Limits(workers))
        run(plan, options)
    options = replace(options, out=tmp_path / "stopped")
    for batches in (1, 1, 2, 1, 1):
        assert run(plan, options, Stopping(batches)).exit_code == INTERRUPTED
        assert not (tmp_path / "stopped" / "statement.json").exists()
    run(plan, options)
    first = facts(tmp_path / "whole0")
    for name in ("whole1", "whole2", "stopped"):
        assert facts(tmp_path / name) == first, name
    names = {p.relative_to(tmp_path / "stopped") for p in (tmp_path / "stopped").rglob("*")}
    assert names == {p.relative_to(tmp_path / "whole2") for p in (tmp_path / "whole2").rglob("*")}
    for name in ("plan.json", "run.json", "columns.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole2" / name).read_bytes()
