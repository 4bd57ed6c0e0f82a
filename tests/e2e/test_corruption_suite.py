"""The fifteen common corruptions at five severities in one line, on scanned digits; every number counted again."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from e2e_support import SPECS, run_here

from tmlang.audit.bundle import Bundle
from tmlang.audit.tally import tally_plan

F = Fraction
SPEC = """
model blurred: page -> classes(10) {
  step:     permute(hwc, chw)
  step:     scale(1/255)
  step:     mean_filter(15)
  step:     resize(8, filter: bilinear)
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors")
  decide:   argmax ties lowest
  random:   never
}

evaluate suite of common_corruptions(net: reader, images: test) { seed: 0 }
evaluate reference of common_corruptions(net: blurred, images: test) { seed: 0 }

claim "mCE": mce(suite, baseline: reference) <= 1
"""


@pytest.mark.xdist_group("shifts")
def test_the_suite_in_one_line(tmp_path: Path) -> None:
    for name in ("digits.py", "digits.npz", "digits.safetensors", "test_ids.txt"):
        shutil.copy(SPECS / "digits" / name, tmp_path)
    own = (SPECS / "digits" / "shifts.tm").read_text(encoding="utf-8")
    head = own[: own.index("shift out_of_focus")].replace("take:     first 100", "take:     first 1")
    text = head.replace("tm 1\n", "tm 1\nuse std.corruptions (common_corruptions)\n", 1) + SPEC
    (tmp_path / "suite.tm").write_text(text, encoding="utf-8")
    _, _ = run_here(tmp_path / "suite.tm", tmp_path / "run", "--trust-code")
    bundle = Bundle.open(tmp_path / "run")
    rows = [r for r in bundle.records() if r.stage != "clean"]
    assert len({(r.corruption, r.severity) for r in rows}) == 75
    assert {r.status for r in rows} == {"valid"}
    columns = tally_plan(bundle.plan(), list(bundle.records()))
    right = {name: [r.decision == r.label for r in rows if r.evaluation == name] for name in ("suite", "reference")}
    for name, found in right.items():
        column = columns[name].get("corrupted_accuracy")
        assert column is not None
        assert (column.low, column.denominator) == (F(sum(found), 75), 75)
        assert len(columns[name].corrupted) == 75
    # The definition, from the rows alone.
    sums = {
        (name, c): sum(r.decision != r.label for r in rows if (r.evaluation, r.corruption) == (name, c))
        for name in right
        for c in {r.corruption for r in rows}
    }
    kinds = {c for _, c in sums}
    told = bundle.json("columns.json")["claims"][0]
    assert all(sums["reference", c] for c in kinds)
    assert told["low"] == told["high"] == str(sum(F(sums["suite", c], sums["reference", c]) for c in kinds) / 15)
