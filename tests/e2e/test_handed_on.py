"""An attack that starts from what another found, and one that is handed a data set, through the whole run."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import guilty, spec

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.cli.front import read_spec
from tmlang.execute.runner import RunOptions, run
from tmlang.plan.capability import Capabilities
from tmlang.plan.ir import Plan
from tmlang.plan.lowering import lower

DIGITS = Path(__file__).resolve().parents[2] / "specs" / "digits"

SPEC = """tm 1
space scan: tensor(1, 8, 8) of real[0, 1] stored as float32
model reader: scan -> classes(10) {
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors")
  decide:   argmax ties lowest
  random:   never
}
data test: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids")
  prepare:  { scale(1/16) }
  take:     ids "test_ids.txt"
  take:     first 3
  truth:    published "UCI"
}
data others: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids")
  prepare:  { scale(1/16) }
  take:     ids "train_ids.txt"
  take:     first 30
  truth:    published "UCI"
}
threat nearest on reader over test {
  minimize:      l2 in scan
  mutable:       all
  goal:          untargeted
  access:        decisions
  clean_errors:  fail
}
evaluate chain of nearest {
  attack:  found = foolbox.DatasetAttack(pool: others)
  attack:  shorter = foolbox.PointwiseAttack(starting_points: found, l2_binary_search: false, start_directions: 1,
                                             start_steps: 1)
  seed:    0
}
"""


def planned() -> Plan:
    front = read_spec("spec.tm", {}, SPEC)
    assert front.program is not None
    plan, diagnostics = lower(front.program, Capabilities(), root=str(DIGITS))
    assert plan is not None, diagnostics
    return plan


def rows(folder: Path) -> list[Record]:
    """Without the seconds, which no two runs share."""
    return [replace(r, seconds=0.0) for r in Bundle.open(folder).records()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("received") / "run"
    assert run(planned(), RunOptions(out=out, trust_code=True)).exit_code == 0
    return out


def test_every_failure_is_handed_on_and_comes_nearer(finished: Path) -> None:
    by_stage = {s: {r.unit: r for r in rows(finished) if r.stage == s} for s in ("found", "shorter")}
    assert len(by_stage["found"]) == 3
    for unit, start in by_stage["found"].items():
        end = by_stage["shorter"][unit]
        assert start.counted_failure
        assert end.counted_failure
        assert end.l2 is not None
        assert start.l2 is not None
        assert end.l2 < start.l2
        # 30 inputs of the pool and its own; the walk asks about its start and blends nothing.
        assert start.queries == 31


def test_a_run_that_goes_on_hands_on_what_was_committed(finished: Path, tmp_path: Path) -> None:
    stopped = tmp_path / "run"
    shutil.copytree(finished, stopped)
    for path in stopped.rglob("*"):
        if path.is_file() and path.relative_to(stopped).parts[0] not in (
            "run.json",
            "plan.json",
            "records",
            "candidates",
        ):
            path.unlink()
    *_, last = sorted((stopped / "records").iterdir())
    last.unlink()
    assert {r.stage for r in Bundle.resume(stopped).records()} == {"clean", "found"}
    assert run(planned(), RunOptions(out=stopped, trust_code=True)).exit_code == 0
    assert rows(stopped) == rows(finished)


WALK = """
evaluate aa of linf8 {
  attack:       apgd = native.apgd(steps: 40)
  attack:       walk = foolbox.HopSkipJumpAttack(steps: 10, starting_points: %s)
  attribution:  full
  seed:         0
}
"""
POOL = """
space small: tensor(7) of real[0, 1] stored as float32
data far: small {
  read:   npz("far.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "elsewhere"
}
evaluate aa of linf8 {
  attack:  pool = foolbox.DatasetAttack(pool: %s)
  seed:    0
}
"""


@pytest.mark.parametrize(
    ("text", "code", "token", "words"),
    [
        (WALK % "agpd", "TM504", "agpd", "did you mean apgd"),
        (WALK % "walk", "TM504", "walk", "there is apgd"),
        (WALK % "3", "TM504", "3", "the label of an attack that stands before it"),
        (POOL % "tset", "TM504", "tset", "did you mean test"),
        (POOL % '"test.npz"', "TM504", '"test.npz"', "the name of a data set of px"),
        (POOL % "far", "TM416", "far", "far lies in small"),
        (
            WALK.replace("(steps: 10, starting_points: %s)", "(init_attack: 1)"),
            "TM503",
            "init_attack",
            "starting_points",
        ),
    ],
)
def test_what_is_not_there_is_not_handed_on(text: str, code: str, token: str, words: str) -> None:
    front = read_spec("spec.tm", {}, spec(text))
    wrong = [d for d in front.diagnostics if d.is_error]
    assert [d.code for d in wrong] == [code]
    assert guilty(front, wrong[0]) == token
    assert words in f"{wrong[0].message} {wrong[0].help}"
