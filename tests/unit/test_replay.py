"""With model and data at hand: what the files of a bundle alone cannot show is found; one example is shown again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from audit_support import as_run, forged
from execute_support import LATTICE, SPACE, Runs, data, moved, plan, stage

from tmlang.audit.bundle import Bundle
from tmlang.audit.verify import audit
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.execute.replay import replay_all, world_of

# By score a + b against 1: lo, lo, hi, and a clean error. Up by 1/8 in both breaks the second alone.
X = [[0.25, 0.25], [0.5, 0.375], [0.5, 0.625], [0.25, 0.25]]
Y = [0, 0, 1, 1]


@pytest.fixture(params=[SPACE, LATTICE], ids=["real", "lattice"])
def run(request, tmp_path, monkeypatch):
    """The folder of a spec whose run lies in ``out``."""
    runs = Runs(tmp_path, monkeypatch)
    runs(plan(tmp_path, data(tmp_path, X, Y), [stage("up")], space=request.param), up=moved((0.125, 0.125)))
    return tmp_path


def faults(folder: Path, name: str) -> list[str]:
    bundle = Bundle.open(folder / name)
    return replay_all(bundle, world_of(bundle, folder, trust_code=False)).faults


def test_an_honest_run_is_repeated(run):
    bundle = Bundle.open(run / "out")
    found = replay_all(bundle, world_of(bundle, run, trust_code=False))
    assert (found.faults, found.inputs, found.clean, found.unchecked) == ([], 1, 4, [])


def test_a_clean_error_made_right_is_found_by_the_model_alone(run):
    """Every number, claim and hash follows from the forged rows."""

    def better(rows):
        right = {
            "clean": "cc",
            "clean_decision": 1,
            "decision": None,
            "changed_correct": None,
            "counted_failure": False,
            "rejected": None,
        }
        mine = next(r for r in rows if r.unit == "3")
        others = [r for r in rows if r.unit != "3"]
        untold = {"within_scope": None, "label_reviewed": None, "margin": None, "counted_failure": None}
        searched = replace(mine, **(right | untold), stage="up")
        return as_run(Bundle.open(run / "out").plan(), [*others, replace(mine, **right), searched])

    path = forged(run / "out", run / "better", rows=better)
    assert audit(path).faults == []
    assert faults(run, "better") == ["e: 3: recorded as cc before any change, and the model makes it cw"]


def test_an_example_dropped_everywhere_is_found_by_the_data_alone(run):
    def drop(told):
        told["examples"]["e"].remove("1")

    path = forged(run / "out", run / "less", rows=lambda rows: [r for r in rows if r.unit != "1"], run=drop)
    assert audit(path).faults == []
    assert any("other examples" in fault for fault in faults(run, "less"))


def test_a_failure_that_is_none_is_found_by_the_model_alone(run):
    """The candidate is moved back to where the model is still right, and its distances with it."""
    path = run / "moved"
    rows = Bundle.open(run / "out").records()
    found = next(r for r in rows if r.candidate)
    _, original, indices = Bundle.open(run / "out").candidate(found.candidate)
    near = original.copy()
    near[0] += 1 if indices else np.float32(0.0625)
    step = 0.125 if indices else 0.0625
    far = {"linf": step, "l2": step, "l1": step, "l0": 1, "distance": step}
    forged(run / "out", path, rows=lambda rows: [replace(r, **far) if r.candidate else r for r in rows])
    bundle = Bundle(path, writable=True)
    name = found.candidate.partition("#")[0]
    whole = bundle.candidates(name)
    (path / name).unlink()
    bundle.add_candidates(near[None], original[None], space=whole.metadata["space"], indices=indices)
    predicate = json.loads((path / "statement.json").read_bytes())["predicate"]
    bundle.seal(predicate)
    assert audit(path).faults == []
    decided = faults(run, "moved")
    # 1 - (a + b): told of (0.625, 0.5); here (0.625, 0.375), which is still the other class, or (0.5625, 0.375).
    margin = f"e, 1: the input of up was given the margin -0.125, and it is {0.0 if indices else 0.0625}"
    wrong = [] if indices else ["e, 1: the input of up was decided 1, and the model decides 0"]
    assert decided == [*wrong, margin]


def test_other_data_is_not_taken_for_that_of_the_run(run):
    np.savez(run / "rows.npz", x=np.array(X, np.float32), y=np.array([0, 0, 1, 0]))
    with pytest.raises(Stop) as stopped:
        faults(run, "out")
    assert [d.code for d in stopped.value.diagnostics] == ["TM711"]


def test_the_command_lines(run, capsys):
    out, here = str(run / "out"), str(run)
    assert main(["audit", out, "--model", here]) == 0
    assert "4 originals and 1 saved inputs, decided again" in capsys.readouterr().out
    assert main(["replay", out, "--example", "1", "--model", here]) == 0
    said = capsys.readouterr().out
    assert "label lo, before the change lo" in said
    assert "decided now: hi, as recorded; a failure" in said
    with pytest.raises(Stop):
        main(["replay", out, "--example", "0", "--model", here])
    assert main(["report", out, "--format", "md", "--out", str(run / "paper")]) == 0


def test_nothing_is_reported_of_a_bundle_that_fails_its_audit(run):
    path = forged(run / "out", run / "less", rows=lambda rows: [r for r in rows if r.unit != "1"])
    with pytest.raises(Stop) as stopped:
        main(["report", str(path), "--out", str(run / "paper")])
    assert {d.code for d in stopped.value.diagnostics} == {"TM844"}
    assert not (run / "paper").exists()
