"""Patches and universal perturbations from the command line to the audit, on a part of the digits."""

from __future__ import annotations

import shutil
from fractions import Fraction as F
from pathlib import Path

from e2e_support import SPECS, run_here, tmc
from report_support import tells_every_number

from tmlang.audit.bundle import Bundle

STAGES = """
data fit: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids",
                sha256: "21f72be81023caf247cdaaab31c74b90aba65f147593c70b96b10e7d5774c953")
  prepare:  { scale(1/16) }
  take:     first 120
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}

threat blot on reader over test {
  allow:         patch(2, 2) at any place
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

threat sticker on reader over test {
  allow:         patch(3, 3) at any place
  mutable:       all
  perturbation:  universal fitted on fit
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate each of blot {
  attack:  patch = native.patch_pgd(steps: 20, step_size: 1/10 in scan, places: 4)
  attack:  blind = native.random(draws: 20)
  seed:    0
}

evaluate all of sticker {
  attack:  patch = native.patch_pgd(steps: 40, step_size: 1/10 in scan, places: 2)
  seed:    0
}

claim "half survive one sticker": survival(all) >= 30 %
"""


def test_patches_are_searched_decided_again_and_audited(tmp_path: Path) -> None:
    shutil.copytree(SPECS / "digits", tmp_path, dirs_exist_ok=True)
    declared = (tmp_path / "digits.tm").read_text().split("\nthreat ")[0]
    spec = declared.replace('take:     ids "test_ids.txt"', 'take:     ids "test_ids.txt"\n  take:     first 60')
    (tmp_path / "patches.tm").write_text(spec + STAGES)
    code, evidence = run_here(tmp_path / "patches.tm", tmp_path / "out", "--trust-code")
    assert code == 0
    audited = tmc("audit", "out", folder=tmp_path)
    assert audited.code == 0, audited.text
    assert "inputs of all come of one perturbation" in audited.text
    each, everyone = evidence.share("each", "survival"), evidence.share("all", "survival")
    # A patch of its own breaks nearly every digit; one larger sticker for all a part of them.
    assert each < F(1, 4)
    assert F(3, 10) < everyone < F(8, 10)
    witnesses = [row for row in evidence.rows("all", "patch") if row["observed_failure"]]
    assert len(witnesses) > 5
    assert all(row["l0"] <= 9 for row in witnesses)
    # Two places, at each one gradient of all 120 examples to choose it and 40 to climb, shared by those who are judged.
    judged = evidence.rows("all", "patch")
    assert {row["gradients"] for row in judged} == {-(-2 * 41 * 120 // len(judged))}
    assert all(row["forwards"] > row["gradients"] and row["queries"] == 0 for row in judged)
    tells_every_number(Bundle.open(evidence.path))
