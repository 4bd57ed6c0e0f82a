"""Real mistakes of the field that only a run can show: the mistaken run is seen through, the mended one counts.

Each test names the cases that it stands for. Cases that another test holds are in ``ELSEWHERE``; those that nothing
holds yet, with the reason, in ``OPEN``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from execute_support import LATTICE, MODEL, SPACE, THREAT, THREE, Runs, data, moved, offer, plan, stage, verdicts
from safetensors.torch import save_file

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.backends.contract import Candidates, Job
from tmlang.cli.main import entry
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball

TESTS = Path(__file__).resolve().parent.parent
SHARED = TESTS.parents[1] / "shared" / "cases" / "cases.jsonl"
F = Fraction
Test = TypeVar("Test", bound=Callable[..., None])

SPEC = """tm 1

space px: tensor(2) of real[0, 1] stored as float32

model m: px -> classes(2) {
  network:  torch("net.py:make", weights: "net.safetensors")
  decide:   argmax ties lowest
  random:   never
}

data d: px {
  read:   npz("d.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}

threat t on m over d {
  allow:         linf <= 1/8 in px
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate e of t {
  attack:  pgd = native.pgd(steps: 10)
  seed:    0
}

claim "half survive": survival(e) >= 50 %
"""
NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.drop = nn.Dropout(0.5)
    def forward(self, x):
        {body}

def make():
    return Net()
"""
PLAIN = "return self.linear(x)"
# Class 1 iff a + b > 1: the sums are 0.5, 0.95 and 1.5, and an allowed change moves a sum by at most 1/4.
X = np.array([[0.25, 0.25], [0.5, 0.45], [0.75, 0.75]], np.float32)
Y = np.array([0, 0, 1])


class Folder:
    """A spec with its files, run by ``tmc``."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.capsys = path, capsys

    def run(self, body: str = PLAIN, x: np.ndarray = X, y: np.ndarray = Y, **changes: str) -> tuple[int, str]:
        """Exit code and output; ``changes``: clauses of the spec by their keyword. Every run starts anew."""
        lines = SPEC.split("\n")
        for word, clause in changes.items():
            (at,) = [i for i, line in enumerate(lines) if line.strip().startswith(f"{word}:")]
            lines[at] = f"  {word}: {clause}"
        (self.path / "s.tm").write_text("\n".join(lines))
        (self.path / "net.py").write_text(NETWORK.format(body=body))
        weight = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
        save_file({"linear.weight": weight, "linear.bias": torch.tensor([0.0, -1.0])}, self.path / "net.safetensors")
        np.savez(self.path / "d.npz", x=x, y=y)
        self.out = self.path / f"out{len(list(self.path.glob('out*')))}"
        with pytest.raises(SystemExit) as ended:
            entry(["run", str(self.path / "s.tm"), "--trust-code", "--out", str(self.out)])
        said = self.capsys.readouterr()
        assert "Traceback" not in said.err
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out + said.err

    def rows(self) -> list[Record]:
        return [r for r in Bundle.open(self.out).records() if r.stage == "pgd"]


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(tmp_path, capsys)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


HERE: set[str] = set()


def cases(*ids: str) -> Callable[[Test], Test]:
    """Says which cases a test stands for."""
    HERE.update(ids)
    return lambda test: test


def survival(result: Any) -> tuple[Any, Any]:
    column = result.columns["e"].get("survival")
    return column.low, column.high


# --- the object ---------------------------------------------------------------------------------------------------


@cases("B007", "B037")
def test_dropout_that_stays_on(folder: Folder) -> None:
    code, said = folder.run("return self.linear(nn.functional.dropout(x, 0.5, training=True))")
    assert (code, "[TM731]" in said, folder.out.exists()) == (1, True, False)
    code, said = folder.run("return self.linear(self.drop(x))")
    assert code == 0
    assert "TM731" not in said


@cases("B041")
def test_an_object_that_answers_otherwise_in_a_batch(folder: Folder) -> None:
    """In a batch every input is decided 1; alone, as E asks, nothing changes: only the second example breaks."""
    code, said = folder.run("return self.linear(x) + (len(x) > 1) * torch.tensor([0.0, 9.0])")
    assert "[TM732]" in said
    assert {(r.unit, r.decision) for r in folder.rows() if r.observed_failure} <= {("1", 1)}
    code, said = folder.run()
    assert (code, "[TM732]" in said) == (0, False)
    assert {(r.unit, r.decision) for r in folder.rows() if r.observed_failure} == {("1", 1)}


@cases("B095", "B097", "B099", "B101")
def test_a_gradient_that_vanishes(folder: Folder) -> None:
    """A search by gradients that stands still is warned of, and a search by scores breaks the same object."""
    flat = "return (64 * self.linear(x)).round()"
    code, said = folder.run(flat)
    assert "[TM733]" in said
    assert not any(r.observed_failure for r in folder.rows())
    assert all(r.status in ("none", "valid") and np.isfinite(r.linf or 0) for r in folder.rows())
    code, said = folder.run(flat, attack="pgd = native.square(queries: 200)", access="scores")
    assert (code, "[TM733]" in said) == (0, False)
    assert {r.unit for r in folder.rows() if r.observed_failure} == {"1"}


@cases("B098")
def test_nan_is_no_class(folder: Folder) -> None:
    """Argmax of NaN is class 0: no example with another label may count as broken by it, and none as right."""
    code, _ = folder.run("return self.linear(x) * float('nan')", y=np.array([1, 1, 1]))
    assert code == 5
    (column,) = [e["columns"]["survival"] for e in _summary(folder.out).values()]
    assert (column["low"], column["high"]) == ("0", "1")
    code, _ = folder.run("return 0 * self.linear(x) + torch.tensor([0.0, 1.0])", y=np.array([1, 1, 1]))
    assert code == 0
    (column,) = [e["columns"]["survival"] for e in _summary(folder.out).values()]
    assert (column["low"], column["high"]) == ("1", "1")


def _summary(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "columns.json").read_text())["evaluations"]
    return found


# --- the data -----------------------------------------------------------------------------------------------------


@cases("B014", "B018")
def test_data_that_was_normalized(folder: Folder) -> None:
    """Stored as (x - mean) / std in float32; undone, the ends of the range are exactly 0 and 1 again."""
    x = np.array([[0.0, 0.25], [1.0, 1.0]], np.float32)
    y = np.array([0, 1])
    stored = ((x - np.float32(0.4914)) / np.float32(0.2023)).astype(np.float32)
    code, said = folder.run(x=stored, y=y)
    assert (code, "[TM720]" in said, folder.out.exists()) == (1, True, False)
    undone = "all\n  undo:  normalize(mean: (0.4914, 0.4914), std: (0.2023, 0.2023))"
    code, said = folder.run(x=stored, y=y, take=undone)
    assert code == 0, said
    assert {r.clean for r in folder.rows()} == {"cc"}


# --- candidates ---------------------------------------------------------------------------------------------------


@cases("B026", "B071")
def test_a_candidate_beyond_an_l2_ball(runs: Runs) -> None:
    """From 0.95 a step of (1/8, 1/8) has length 0.177: beyond 1/8, within 1/4. The projection (0.088, 0.088) breaks
    too, and is what counts."""
    rows = data(runs.folder, [[0.5, 0.45], [0.5, 0.3]], [0, 0])
    near = replace(THREAT, allow=Ball("l2", "pair", F(1, 8)))
    result = runs(plan(runs.folder, rows, [stage("far")], threat=near), far=moved((0.125, 0.125)))
    said = [(r.unit, r.status, r.rule, r.observed_failure) for r in runs.rows() if r.stage == "far"]
    assert said == [
        ("0", "invalid", "l2", None),
        ("0", "valid", None, True),
        ("1", "invalid", "l2", None),
        ("1", "valid", None, False),
    ]
    assert survival(result) == (F(1, 2), F(1, 2))
    wide = replace(THREAT, allow=Ball("l2", "pair", F(1, 4)))
    runs(plan(runs.folder, rows, [stage("far")], threat=wide), out="wide", far=moved((0.125, 0.125)))
    assert runs.row("1", "far", "wide").status == "valid"
    assert runs.row("1", "far", "wide").l2 == pytest.approx(2**-2.5)


@cases("B030", "B033", "B035", "B036")
def test_a_failure_between_the_levels(runs: Runs) -> None:
    """The scores of levels of 1/8 are 7/8 (lo) and 1 (hi); the threshold 29/32 is met a quarter of a level above 7/8.
    What is delivered is the level, and the failure is gone; a step to the next level keeps it."""
    rows = data(runs.folder, [[0.5, 0.375]], [0])
    edge = replace(MODEL, decide=replace(MODEL.decide, value=F(29, 32)))
    made = plan(runs.folder, rows, [stage("between")], space=LATTICE, model=edge)
    result = runs(made, between=moved((0.0, 0.03125)))
    said = [(r.status, r.rule, r.observed_failure) for r in runs.rows() if r.stage == "between"]
    assert said[0] == ("invalid", "lattice", None)
    assert not any(failed for _, _, failed in said)
    assert survival(result)[1] == 1
    result = runs(made, out="level", between=moved((0.0, 0.125)))
    assert survival(result) == (0, 0)


@cases("B048", "B147", "B174")
def test_a_candidate_on_the_boundary(runs: Runs) -> None:
    """(1/2, 0) gives a tie of a with 1/2. The rule of the spec decides it and nothing else: the lowest index is a."""
    for label, broken in ((0, False), (2, True)):
        start = 0.625 if label == 0 else 0.375
        rows = data(runs.folder, [[start, 0.0]], [label])
        runs(
            plan(runs.folder, rows, [stage("edge")], model=THREE),
            out=f"label{label}",
            edge=lambda _: offer(torch.tensor([[0.5, 0.0]])),
        )
        assert runs.row("0", "edge", f"label{label}").observed_failure is broken
    undecided = replace(THREE, decide=replace(THREE.decide, ties="error"))
    rows = data(runs.folder, [[0.375, 0.0]], [2])
    result = runs(
        plan(runs.folder, rows, [stage("edge")], model=undecided),
        out="error",
        edge=lambda _: offer(torch.tensor([[0.5, 0.0]])),
    )
    assert survival(result) == (0, 1)
    assert result.exit_code == 5


@cases("B105")
def test_a_failure_on_the_way_is_kept(folder: Folder) -> None:
    """The first number is decided 1 within 0.03 of 0.6 and nowhere else. From 0.5 in steps of 1/10 the first iterate
    fails and the last, at the edge of the ball, does not; what the library returns is the last."""
    band = "a = x[:, :1]; return torch.cat([0 * a, a - 5 + 10 * ((a - 0.6).abs() < {width})], dim=1)"
    start, label = np.array([[0.5, 0.5]], np.float32), np.array([0])
    pgd = "pgd = torchattacks.PGD(alpha: 1/10 in px, steps: 3, random_start: false)"
    for width, broken in ((0.03, True), (0.0, False)):
        code, said = folder.run(band.format(width=width), start, label, attack=pgd)
        assert [r.observed_failure for r in folder.rows()] == [broken], said
        assert code == (3 if broken else 0)


@cases("B077")
def test_the_distance_of_what_is_returned(runs: Runs) -> None:
    """The nearest and the farthest failing candidate are both witnesses; each row has its own measured distance."""
    made = plan(runs.folder, data(runs.folder, [[0.5, 0.45]], [0]), [stage("first")])
    for by in (0.03125, 0.125):
        result = runs(made, out=str(by), first=moved((by, by)))
        row = runs.row("0", "first", str(by))
        assert (row.observed_failure, row.linf) == (True, pytest.approx(by, abs=1e-7))
        assert survival(result) == (0, 0)


@cases("B090")
def test_a_black_image_for_a_failed_search(runs: Runs) -> None:
    """(0, 0) is decided lo, which is another class than hi, and is no allowed input of (0.75, 0.75)."""
    made = plan(runs.folder, data(runs.folder, [[0.75, 0.75]], [1]), [stage("black")])
    result = runs(made, black=lambda job: offer(torch.zeros_like(job.x)))
    assert [r.observed_failure for r in runs.rows() if r.stage == "black"] == [None, False]
    assert survival(result) == (1, 1)
    near = plan(runs.folder, data(runs.folder, [[0.5, 0.55]], [1]), [stage("black")])
    assert survival(runs(near, out="near", black=moved((-0.125, -0.125)))) == (0, 0)


@cases("B136")
def test_a_category_that_is_half_there(runs: Runs) -> None:
    """The second number is 0 or 1. Half of it is no input; all of it is one, and breaks the example."""
    flag = replace(SPACE, cells=(Cell("real", F(0), F(1)), Cell("integer", F(0), F(1), F(1))), layout="each")
    whole = replace(THREAT, allow=Ball("linf", "pair", F(1)))
    made = plan(runs.folder, data(runs.folder, [[0.5, 0.0]], [0]), [stage("half")], space=flag, threat=whole)
    runs(made, half=moved((0.0, 0.5)))
    first = next(r for r in runs.rows() if r.stage == "half")
    assert (first.status, first.rule, first.observed_failure) == ("invalid", "lattice", None)
    assert survival(runs(made, out="whole", half=moved((0.0, 1.0)))) == (0, 0)


@cases("B150")
def test_a_witness_below_the_domain(runs: Runs) -> None:
    """The ball around 0.05 reaches -0.075, the space ends at 0: only their intersection is allowed."""
    low = replace(MODEL, decide=replace(MODEL.decide, value=F(1, 20)))
    made = plan(runs.folder, data(runs.folder, [[0.0625, 0.0]], [1]), [stage("below", "decide_exactly")], model=low)
    runs(made, below=verdicts("broken", candidates=moved((-0.125, 0.0))))
    assert runs.row("0", "below").observed_failure is not None
    assert not any(r.observed_failure and r.linf and r.linf > 0.0625 for r in runs.rows())


@cases("B188")
def test_an_exception_leaves_nothing_behind(runs: Runs) -> None:
    """The first call fails; the second, on the next batch, is judged as if nothing had been."""
    seen: list[torch.Tensor] = []

    def act(job: Job) -> Candidates:
        seen.append(job.x.clone())
        if len(seen) == 1:
            job.x.mul_(100)
            raise IndexError("label 99")
        return offer(job.x + 0.125)

    rows = data(runs.folder, [[0.25, 0.25], [0.5, 0.45]], [0, 0])
    result = runs(plan(runs.folder, rows, [stage("a")]), batch=1, a=act)
    assert [r.status for r in runs.rows() if r.stage == "a"] == ["error", "valid"]
    assert torch.equal(seen[1], torch.tensor([[0.5, 0.45]]))
    assert (survival(result), result.exit_code) == ((0, F(1, 2)), 5)


# --- counting -----------------------------------------------------------------------------------------------------


@cases("B087", "B115")
def test_one_run_and_its_two_denominators(runs: Runs) -> None:
    """90 % are right, and a fifth of those is broken: 72 % of all, 80 % of the right ones, 20 % of success. An example
    that was wrong already is not searched, so no distance of 0 comes from it."""
    right, near, wrong = [[0.25, 0.25]] * 36, [[0.5, 0.45]] * 9, [[0.75, 0.75]] * 5
    rows = data(runs.folder, [*right, *near, *wrong], [0] * 50)
    found = {}
    for policy in ("fail", "excluded"):
        threat = replace(THREAT, clean_errors=policy)
        made = plan(runs.folder, rows, [stage("up")], threat=threat, attribution="full")
        result = runs(made, out=policy, up=moved((0.125, 0.125)))
        found[policy] = survival(result)
        assert result.columns["e"].get("clean_accuracy").low == F(9, 10)
        assert [(label, c.low) for label, c in result.columns["e"].attacks] == [("up", F(1, 5))]
        assert len([r for r in runs.rows(policy) if r.stage == "up"]) == 45
    assert found == {"fail": (F(18, 25), F(18, 25)), "excluded": (F(4, 5), F(4, 5))}


@cases("B112")
def test_every_attack_starts_from_the_original(runs: Runs) -> None:
    """Two steps in one direction by two attacks do not add up: the union of what each did counts."""
    x = [[0.4375, 0.4375], [0.375, 0.375]]
    made = plan(runs.folder, data(runs.folder, x, [0, 0]), [stage("a"), stage("b")], attribution="full")
    result = runs(made, a=moved((0.0625, 0.0625)), b=moved((0.0625, 0.0625)))
    for name in "ab":
        assert torch.equal(runs.toys[name].jobs[0].x, torch.tensor(x))
    assert survival(result) == (F(1, 2), F(1, 2))


# --- proofs -------------------------------------------------------------------------------------------------------


@cases("B142", "B143", "B171")
def test_unsat_for_everything(runs: Runs) -> None:
    """A verifier that proves all is contradicted by one attack: nothing of it stands. An honest one keeps its proof."""
    x = [[0.25, 0.25], [0.5, 0.45]]
    claim = (Claim("c", Measured("certified", "e"), ">=", F(1, 2)),)
    made = plan(
        runs.folder, data(runs.folder, x, [0, 0]), [stage("up"), stage("proof", "certify")], claims=claim,
        attribution="full",
    )  # fmt: skip
    result = runs(made, up=moved((0.125, 0.125)), proof=verdicts("certified"))
    assert (result.exit_code, "TM823" in {d.code for d in result.diagnostics}) == (5, True)
    assert result.columns["e"].get("certified").low == 0
    result = runs(made, out="honest", up=moved((0.125, 0.125)), proof=verdicts("certified", "unknown"))
    assert (result.exit_code, result.columns["e"].get("certified").low) == (0, F(1, 2))


@cases("B145", "B146")
def test_a_counterexample_that_is_none(runs: Runs) -> None:
    solver = stage("solver", "decide_exactly", evidence="complete")
    made = plan(runs.folder, data(runs.folder, [[0.5, 0.45]], [0]), [solver])
    runs(made, solver=verdicts("broken", candidates=moved((0.0, 0.0))))
    assert runs.row("0", "solver").verdict == "unknown"
    result = runs(made, out="real", solver=verdicts("broken", candidates=moved((0.125, 0.0))))
    assert runs.row("0", "solver", "real").verdict == "broken"
    assert survival(result) == (0, 0)


@cases("B157", "B172")
def test_time_that_is_up_is_no_proof(runs: Runs) -> None:
    """Of "timeout", "unknown" and "certified" the last alone certifies; what gave up has found nothing either."""
    solver = stage("solver", "decide_exactly", evidence="complete")
    made = plan(runs.folder, data(runs.folder, [[0.25, 0.25]], [0]), [solver])
    for said, certified, searched in (("timeout", 0, 0), ("unknown", 0, 0), ("certified", 1, 1)):
        result = runs(made, out=said, solver=verdicts(said))
        assert result.columns["e"].get("certified").low == certified
        assert survival(result) == (searched, 1)


# --- all of them --------------------------------------------------------------------------------------------------

ELSEWHERE = {
    "B044": "unit/test_execute_runner.py::test_a_random_object_is_broken_where_fresh_draws_confirm_it",
    "B081": "unit/test_masking.py::test_one_step_beats_ten_times_as_many",
    "B091": "faults/test_execute_faults.py::test_an_exception_costs_the_units_that_raise_it_alone",
    "B093": "faults/test_execute_faults.py::test_time_that_is_up_leaves_timeouts_and_not_survivors",
    "B049": "unit/test_execute_shifts.py::test_a_seed_comes_from_the_example_and_not_from_its_place",
    "B123": "unit/test_tally_curves.py::test_closed_curves_are_monotone_and_by_the_definition",
    "B127": "unit/test_execute_runner.py::test_the_query_limit_is_shared_by_the_stages",
    "B128": "conformance/test_attacks.py::test_the_query_limit_holds",
    "B130": "unit/test_tally.py::test_a_query_curve_adds_up_over_the_stages",
    "B154": "unit/test_execute_models.py::test_a_conversion_that_disagrees_is_not_believed",
    "B155": "unit/test_execute_models.py::test_operators_compute_what_onnxruntime_computes",
    "B163": "conformance/test_certifiers.py::test_wrong_bounds_are_caught",
    "B166": "faults/test_execute_faults.py::test_a_prover_that_crashes_is_an_error_and_no_unknown",
    "B168": "conformance/test_certifiers.py::test_the_fast_mode_is_left_where_it_disagrees",
    "B180": "unit/test_backend_corruptions.py::test_every_corruption_repeats_from_its_seed_and_from_nothing_else",
    "B170": "conformance/test_certifiers.py::test_no_point_of_the_set_lies_below_the_bound",
}
"""Cases that another test holds."""

OPEN = {
    "B074": "no backend is run at a list of radii",
    "B141": "the library's own robustness query is never called, and no test plants it",
    "B185": "no number is a mean over corruptions: each is claimed by itself",
}
"""Cases that no test holds, and why."""


@pytest.mark.parametrize("place", ELSEWHERE.values())
def test_the_other_places_are_there(place: str) -> None:
    file, name = place.split("::")
    assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8")


@pytest.mark.shared
def test_every_case_of_run_time_is_accounted_for() -> None:
    if not SHARED.exists():
        pytest.skip("the shared data folder is not beside the checkout")
    rows = [json.loads(line) for line in SHARED.read_text(encoding="utf-8").splitlines()]
    wanted = {row["id"] for row in rows if row["when"] == "run"}
    assert sorted(wanted) == sorted([*HERE, *ELSEWHERE, *OPEN])
