"""Runs in which nature draws, worked by hand: a linear model whose failures over all places can be counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from audit_support import forged
from execute_support import THREAT, F, Runs, data, offer, plan, stage

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.audit.verify import audit
from tmlang.backends.contract import Candidates, Job
from tmlang.backends.failure import Failure
from tmlang.backends.native.patch import PatchPGD
from tmlang.diagnostics.stop import Stop
from tmlang.execute.replay import replay_all, world_of
from tmlang.execute.runner import RunOptions
from tmlang.meaning.models import Decide, Model, Network, Randomness
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Nature, Patch, Rejected, Success, Threat
from tmlang.meaning.values import Call, Symbol
from tmlang.plan.capability import Capabilities

SHAPE = (1, 4, 5)
PICTURES = Space("pair", SHAPE, (Cell("real", F(0), F(1)),), channel_axis=0)
# By the sum of weighted pixels against 1; the weights grow to the right and downwards.
WEIGHTS = [F(r + c, 16) for r, c in product(range(4), range(5))]
MODEL = Model(
    "sum", "pair", ("lo", "hi"), (), Network("linear", args=(("weights", tuple(WEIGHTS)), ("bias", F(0)))),
    Decide("threshold", op=">=", value=F(1), positive="hi", negative="lo"), Randomness("never"),
)  # fmt: skip
PLACES = Nature((("place", F(0), F(2), "px"),), 150)
STICKER = replace(
    THREAT, allow=Patch("rectangle", 2, 2), nature=PLACES, success=Success("single_draw", draws=150)
)  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def pasted(job: Job) -> Candidates:
    """Ink in the upper left corner, where a patch is handed in that nature places."""
    x = job.x.clone()
    x[:, :, :2, :2] = 1
    return offer(x)


def by_enumeration(original: np.ndarray) -> F:
    """In how many of the nine places a patch of ones takes the sum to 1 or beyond."""
    failing = 0
    for row, column in product(range(3), range(3)):
        made = original.copy()
        made[row : row + 2, column : column + 2] = 1
        failing += sum(w * F(float(v)) for w, v in zip(WEIGHTS, made.reshape(-1), strict=True)) >= 1
    return F(failing, 9)


GREYS = [0.0, 0.078125]


def made_plan(runs: Runs, threat: Threat = STICKER, **changes: Any) -> Any:
    rows = data(runs.folder, np.array([np.full(SHAPE, grey) for grey in GREYS]).tolist(), [0, 0])
    changes.setdefault("attribution", "full")
    return plan(runs.folder, rows, [stage("up")], model=MODEL, space=PICTURES, threat=threat, **changes)


def test_the_interval_holds_the_share_of_places_at_which_it_fails(runs: Runs) -> None:
    result = runs(made_plan(runs), up=pasted)
    shares = [by_enumeration(np.full((4, 5), grey)) for grey in GREYS]
    assert shares == [F(3, 9), F(6, 9)]
    found = dict(result.columns["e"].attacks)["up"]
    assert found.interval.low < sum(shares) / 2 < found.interval.high
    assert found.denominator == 300
    # Nothing is drawn around a page without the sticker.
    assert [runs.row(u, "clean").draws for u in "01"] == [None, None]
    assert audit(runs.folder / "out").faults == []
    # And draw by draw: what failed is what fails at the place that was drawn.
    for unit, grey in zip("01", GREYS, strict=True):
        row = runs.row(unit, "up")
        draws, picture = Bundle.open(runs.folder / "out").nature(row.candidate or "")
        outcomes = []
        for r, c in draws.astype(int).tolist():
            page = np.full((4, 5), grey)
            page[r : r + 2, c : c + 2] = 1
            outcomes.append("01"[sum(w * F(float(v)) for w, v in zip(WEIGHTS, page.reshape(-1), strict=True)) >= 1])
        assert row.outcomes == "".join(outcomes)
        top, left = draws.astype(int)[outcomes.index("1")]
        assert picture[0, top : top + 2, left : left + 2].min() == 1


def test_an_error_probability_over_places_is_tested(runs: Runs) -> None:
    """The first page fails at fewer places than the second; the threshold lies between them."""
    shares = [by_enumeration(np.full((4, 5), grey)) for grey in GREYS]
    between = sum(shares) / 2
    threat = replace(STICKER, success=Success("error_probability", between, F(9, 10), 150))
    result = runs(made_plan(runs, replace(threat, nature=replace(PLACES, draws=150))), up=pasted)
    assert [runs.row(u, "up").observed_failure for u in "01"] == [False, True]
    assert result.columns["e"].get("upper") is None
    assert audit(runs.folder / "out").faults == []


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(runs: Runs) -> None:
    runs(made_plan(runs), out="whole", up=pasted)

    def stopped(_: Job) -> Candidates:
        raise KeyboardInterrupt

    options = RunOptions(out=runs.folder / "out")
    assert runs(made_plan(runs), options=options, up=stopped).exit_code == 130
    runs(made_plan(runs), options=options, up=pasted)
    names = [n for n in Bundle.open(runs.folder / "whole").files() if n.startswith("candidates/")]
    assert names
    for name in names:
        assert (runs.folder / "whole" / name).read_bytes() == (runs.folder / "out" / name).read_bytes()
    told = [[(r.unit, r.outcomes, r.draw_seed) for r in runs.rows(out)] for out in ("whole", "out")]
    assert told[0] == told[1]


def test_the_model_is_asked_about_every_draw_again(runs: Runs) -> None:
    """Outcomes that were swapped keep every count; the model tells."""
    runs(made_plan(runs), up=pasted)
    bundle = Bundle.open(runs.folder / "out")
    found = replay_all(bundle, world_of(bundle, runs.folder, trust_code=False))
    assert (found.faults, found.inputs, found.clean, found.unchecked) == ([], 2, 2, [])

    def swapped(row: Record) -> Record:
        return replace(row, outcomes=(row.outcomes or "")[::-1])

    lying = Bundle.open(forged(runs.folder / "out", runs.folder / "lie", rows=first(swapped)))
    assert [f for f in replay_all(lying, world_of(lying, runs.folder, trust_code=False)).faults if "draws of up" in f]


# --- what an audit says of lies -------------------------------------------------------------------------------------


def first(change: Callable[[Record], Record]) -> Callable[[list[Record]], list[Record]]:
    return lambda rows: [change(r) if r.stage == "up" and r.unit == "0" else r for r in rows]


ROWS = [
    (lambda r: replace(r, errors=(r.errors or 0) + 1), "are told"),
    (lambda r: replace(r, draw_seed=(r.draw_seed or 0) + 1), "seed"),
    (lambda r: replace(r, outcomes=(r.outcomes or "")[1:]), "draws are told as"),
    (lambda r: replace(r, observed_failure=True, counted_failure=True), "told as a failure"),
]


@pytest.mark.parametrize(("change", "said"), ROWS)
def test_rows_that_lie_about_draws_are_found(runs: Runs, change: Any, said: str) -> None:
    runs(made_plan(runs), up=pasted)
    lying = forged(runs.folder / "out", runs.folder / "lie", rows=first(change))
    assert any(said in fault.text for fault in audit(lying).faults)


@pytest.mark.parametrize(("array", "said"), [("draws", "seed of the draws"), ("picture", "is not what nature makes")])
def test_other_draws_and_pictures_are_found(runs: Runs, array: str, said: str) -> None:
    from tmlang.audit import tensorfile

    runs(made_plan(runs), up=pasted)
    path = runs.folder / "out"
    name = next(n for n in Bundle.open(path).files() if n.startswith("candidates/"))
    file = tensorfile.read((path / name).read_bytes())
    tensors = {key: np.array(value) for key, value in file.tensors.items()}
    tensors[array].reshape(-1)[0] += 0.5 if array == "picture" else 1
    (path / name).write_bytes(tensorfile.write(tensors, file.metadata))
    assert any(said in fault.text for fault in audit(path).faults)


# --- what is refused, and what searches -----------------------------------------------------------------------------


REFUSED = [
    {"allow": Patch("rectangle", 2, 2), "nature": Nature((("brightness", F(0), F(1, 4), None),), 150)},
    {"allow": None, "minimize": ("l2", "pair"), "nature": Nature((("brightness", F(0), F(1, 4), None),), 150)},
    {"mutable": replace(THREAT.mutable, kind="rows", ranges=((0, 1),))},
    {"rejected": Rejected("denied")},
]


@pytest.mark.parametrize("changes", REFUSED)
def test_what_is_not_followed_is_said_before_anything_runs(runs: Runs, changes: dict[str, Any]) -> None:
    with pytest.raises(Stop) as stopped:
        runs(made_plan(runs, replace(STICKER, **changes)), up=pasted)
    assert stopped.value.diagnostics[0].code == "TM826"
    assert not (runs.folder / "out").exists()


def searching(steps: int, seen: list[Job]) -> Callable[[Job], Candidates]:
    row = Capabilities().backend("native").method("patch_pgd")  # type: ignore[union-attr]

    def act(job: Job) -> Candidates:
        seen.append(job)
        arguments = {"loss": Symbol("margin"), "steps": F(steps), "step_size": F(1, 4), "places": F(1)}
        return PatchPGD(row).search(replace(job, arguments=arguments))  # type: ignore[arg-type]

    return act


def test_a_search_sees_the_mean_of_draws_and_pays_for_each(runs: Runs) -> None:
    """Ink everywhere is the best content wherever it lands; each of 9 passes shows 6 draws."""
    seen: list[Job] = []
    through = Call(("expectation",), (("draws", F(6)),))
    rows = data(runs.folder, np.zeros((1, *SHAPE)).tolist(), [0])
    pgd = stage("up", through=through)
    made = plan(runs.folder, rows, [pgd], model=MODEL, space=PICTURES, threat=STICKER, attribution="full")
    runs(made, up=searching(8, seen))
    row = runs.row("0", "up")
    assert row.status == "valid"
    assert row.forwards % 6 == 0
    assert 0 < row.forwards <= 9 * 6 + 1
    best = by_enumeration(np.zeros((4, 5)))
    assert abs((row.errors or 0) / 150 - float(best)) < 0.15


def test_what_is_judged_is_the_best_input_even_where_no_own_draw_failed(runs: Runs) -> None:
    """Twelve blank pages, two passes of one draw each: the best sticker fails in 3 of 9 places, so in several units no
    draw of the search fails. All are judged by their 150 draws all the same, and none counts as survived unjudged."""
    rows = data(runs.folder, np.zeros((12, *SHAPE)).tolist(), [0] * 12)
    pgd = stage("up", through=Call(("expectation",), (("draws", F(1)),)))
    made = plan(runs.folder, rows, [pgd], model=MODEL, space=PICTURES, threat=STICKER, attribution="full")
    result = runs(made, up=searching(1, []))
    told = [runs.row(str(i), "up") for i in range(12)]
    assert [(r.status, r.draws) for r in told] == [("valid", 150)] * 12
    failing = sum(r.errors or 0 for r in told)
    assert result.columns["e"].get("survival").low == 1 - F(failing, 12 * 150)
    assert audit(runs.folder / "out").faults == []


def test_a_pass_that_fails_in_some_draws_is_kept_and_not_taken_for_a_failure(runs: Runs) -> None:
    seen: list[Job] = []
    runs(made_plan(runs), up=lambda job: (seen.append(job), pasted(job))[1])
    oracle, job = seen[0].oracle, seen[0]
    x = job.x.clone()
    x[:, :, :2, :2] = 1
    oracle.draws = 32  # type: ignore[attr-defined]
    decided = oracle.observe(x).decisions
    assert not Failure.of(job.sets, job.y, job.target)(decided, x).any()
    nothing = Candidates(job.x, torch.zeros(len(x), dtype=torch.bool), (None,) * len(x))
    found = oracle.best.or_best(nothing, job.sets)  # type: ignore[union-attr]
    assert found.offered.all()
    assert torch.equal(found.x, x)
    shutil.rmtree(runs.folder / "out")
