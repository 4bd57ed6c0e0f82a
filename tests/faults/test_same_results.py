"""The digits example gives the same rows and candidates, bit for bit, however it is committed, spread or interrupted.

A method of every adapter takes part, those among them whose results hang on the rows of a call: l2 attacks, whose steps
show the last bits of a gradient; library attacks that draw for a whole call; linear bounds.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tmlang.api.reading import check
from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.execute import calls, output
from tmlang.execute.progress import Silent
from tmlang.execute.runner import INTERRUPTED, RunOptions, run
from tmlang.execute.workers import Limits
from tmlang.plan.ir import Plan

DIGITS = Path(__file__).parents[2] / "specs" / "digits"
MORE = """
## The mean digit of every class: the nearest by scalar product. Small enough for a solver.
model means: scan -> classes(10) {{
  network:  linear(weights: {weights}, bias: {bias})
  decide:   argmax ties lowest
  random:   never
}}

threat hardly on means over few {{
  allow:         linf <= 1/100 in scan
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}}

model smoothed: scan -> classes(10) {{
  step:     noise(gaussian, sigma: 1/4)
  {network}
  decide:   most_likely draw
  random:   never
}}

threat near on smoothed over few {{
  allow:         l2 <= 1/8 in scan
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}}

{shifts}

evaluate greys of faint {{
  attack:       apgd = native.apgd(loss: dlr, steps: 5, restarts: 2)
  attack:       square = native.square(queries: 20)
  attack:       pgd = torchattacks.PGD(alpha: 1/64 in scan, steps: 5)
  certify:      crown = auto_lirpa.crown()
  attribution:  full
  seed:         0
}}

evaluate lengths of short_change {{
  attack:   apgd = native.apgd(loss: ce, steps: 10)
  attack:   pgd = foolbox.L2PGD(steps: 10)
  seed:     0
  repeats:  2
}}

evaluate exact of hardly {{
  decide_exactly:  solver = marabou.query()
  seed:            0
}}

evaluate drawn of near {{
  certify:  cohen = smoothing.gaussian(n0: 20, n: 200, alpha: 1/100)
  seed:     0
}}

evaluate salt of salted {{ seed: 0 }}
"""
STAGES = {
    ("greys", "clean"), ("greys", "apgd"), ("greys", "square"), ("greys", "pgd"), ("greys", "crown"),
    ("lengths", "clean"), ("lengths", "apgd"), ("lengths", "pgd"),
    ("exact", "clean"), ("exact", "solver"), ("drawn", "clean"), ("drawn", "cohen"),
    ("salt", "clean"), ("salt", "apply"),
}  # fmt: skip
MANY = pytest.param(130, marks=[pytest.mark.nightly, pytest.mark.timeout(3000)])
EXAMPLES = pytest.mark.parametrize("examples", [15, MANY])
Facts = list[tuple[Record, Any]]


def digits(folder: Path, examples: int) -> Plan:
    """The declarations of the example and of its shifts, over fewer digits, under a method of every adapter."""
    shutil.copytree(DIGITS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    ids = (folder / "test_ids.txt").read_text().split()
    (folder / "test_ids.txt").write_text("\n".join(ids[:examples]) + "\n")
    (folder / "few_ids.txt").write_text("\n".join(ids[: examples // 5]) + "\n")
    declared = (folder / "digits.tm").read_text().split("\nevaluate ")[0]
    data = declared[declared.index("data test") : declared.index("## Every pixel")]
    few = data.replace("data test", "data few").replace("test_ids", "few_ids")
    network = declared[declared.index("network:") : declared.index("decide:")].rstrip()
    shifts = (folder / "shifts.tm").read_text()
    page = shifts[shifts.index("## What the scanner") : shifts.index("shift out_of_focus")].replace("first 100", "all")
    page = page.replace("reader", "page_reader").replace("data test", "data pages")
    salted = shifts[shifts.index("shift salted") : shifts.index("## A stated")]
    salted = salted.replace("on reader over test", "on page_reader over pages")
    more = MORE.format(network=network, shifts=page + salted, **means())
    (folder / "digits.tm").write_text(f"{declared}\n{few}{more}")
    found = check(folder / "digits.tm")
    assert found.plan is not None, found.diagnostics
    return found.plan


def means() -> dict[str, list[Any]]:
    """Weights w = m and bias -|m|^2 / 2 of the class means m, in hundredths."""
    with np.load(DIGITS / "digits.npz") as data:
        images, labels = data["images"].reshape(-1, 64) / 16, data["labels"]
    m = np.stack([images[labels == k].mean(axis=0) for k in range(10)]).round(2)
    return {"weights": m.tolist(), "bias": (-(m**2).sum(axis=1) / 2).round(2).tolist()}


def facts(out: Path) -> Facts:
    """Every row without its measured time, and the bytes of its candidate, in the order in which they are committed."""
    bundle = Bundle.open(out)
    rows = [
        (replace(r, seconds=0.0, candidate=None), None if r.candidate is None else bundle.candidate(r.candidate))
        for r in bundle.records()
    ]
    return [(row, None if c is None else (c[0].tobytes(), c[1].tobytes())) for row, c in rows]


class Stopping(Silent):
    """Ctrl-C behind the ``left``-th call."""

    def __init__(self, left: int) -> None:
        self.left = left

    def advance(self, units: int, standing: int | None = None) -> None:  # noqa: ARG002
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@EXAMPLES
def test_no_option_and_no_interruption_changes_a_bit(
    tmp_path: Path, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch sizes 1, 7, 64 and that of the calls; 0, 1 and 2 workers; five interruptions."""
    torch.set_num_threads(1)
    monkeypatch.setattr(output, "write_into", lambda _: ())
    monkeypatch.setattr(calls, "UNITS", 6)  # so that a few digits are several calls
    plan = digits(tmp_path, examples)
    whole = RunOptions(out=tmp_path / "whole", trust_code=True)
    run(plan, whole)
    first = facts(tmp_path / "whole")
    assert {(row.evaluation, row.stage) for row, _ in first} == STAGES
    assert {row.status for row, _ in first} <= {"none", "valid"}
    assert sum(kept is not None for _, kept in first) > 5
    for batch, workers in ((64, 1), (7, 2), (1, 0)):
        options = replace(whole, out=tmp_path / f"{batch}-{workers}", batch_size=batch, limits=Limits(workers))
        run(plan, options)
        assert facts(options.out) == first, (batch, workers)
    stopped = replace(whole, out=tmp_path / "stopped")
    for k, (behind, batch) in enumerate(((1, 7), (2, None), (4, 1), (3, 64), (1, 2))):
        again = replace(stopped, batch_size=batch, limits=Limits(k % 3))
        assert run(plan, again, Stopping(behind)).exit_code == INTERRUPTED
        assert not (tmp_path / "stopped" / "statement.json").exists()
    run(plan, stopped)
    assert facts(tmp_path / "stopped") == first
    for name in ("plan.json", "run.json", "columns.json"):
        assert {(tmp_path / out / name).read_bytes() for out in ("whole", "64-1", "7-2", "1-0", "stopped")} == {
            (tmp_path / "whole" / name).read_bytes()
        }


def test_the_size_of_a_call_is_a_fact_of_the_model() -> None:
    """Numbers of one more row, by hand: the view of 4, the product of 8 with its bias inside, ReLU of 8."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU())
    assert calls.numbers(model, torch.zeros(1, 1, 2, 2)) == 4 + 8 + 8
    state = torch.get_rng_state()
    assert calls.call_size(nn.Sequential(model, nn.Dropout().train()), torch.zeros(1, 1, 2, 2)) == 512
    assert torch.equal(torch.get_rng_state(), state)
    wide = nn.Sequential(nn.Conv2d(1, 1 << 12, 1), nn.Flatten())
    assert calls.call_size(wide, torch.zeros(1, 1, 8, 8)) == (1 << 25) // (2 * 64 << 12)


def test_a_unit_stays_in_its_call() -> None:
    assert calls.calls(7, [0, 2, 3, 6], 3) == [(0, 2), (3,), (6,)]
    assert calls.calls(7, [2, 6], 3) == [(2,), (6,)]
    assert calls.calls(7, [], 3) == []
