"""Forged bundles are found, by the audit or by a rerun, and honest ones are blamed by nobody.

The full counts are campaigns (``tests/campaign``: ``forgeries``, ``honest_bundles``).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from audit_support import forged, refused
from forgeries import alarm, forgery, found_by, nothing, run_of, tidy, units_of_calls
from honest import KINDS

from tmlang.api import rerunning
from tmlang.api.auditing import audit
from tmlang.api.rerunning import Again, Part, run_again
from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import judge_plan
from tmlang.audit.record import Record
from tmlang.audit.recount import Only
from tmlang.audit.rejudge import numbers
from tmlang.audit.schema import COLUMNS, of_class
from tmlang.audit.summary import summary
from tmlang.audit.tally import tally_plan
from tmlang.audit.verify import PROOFS, SEARCHES
from tmlang.audit.void import void_methods
from tmlang.cli.main import main
from tmlang.execute.progress import Silent
from tmlang.execute.workers import Limits
from tmlang.report.write import write_descriptions

pytestmark = pytest.mark.xdist_group("forgeries")
Rows = list[Record]


def test_every_column_has_one_class() -> None:
    classed = [*of_class("re-derived"), *of_class("re-run"), *of_class("testimony")]
    assert sorted(classed) == sorted(c.name for c in COLUMNS)


def test_the_page_says_how_every_column_is_checked() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text().split("### What is checked how")[1]
    derived, testimony = (page.split(f"**{head}**")[1].split("**")[0] for head in ("Re-derived", "Testimony"))
    assert {n for n in of_class("re-derived") if f"`{n}`" in derived} == {*of_class("re-derived")}
    assert {c.name for c in COLUMNS if f"`{c.name}`" in testimony} == {*of_class("testimony")}


def test_forgeries_of_the_catalogue_are_found() -> None:
    assert [made for made in map(forgery, range(24)) if made.by == "nobody"] == []


def test_honest_bundles_of_every_kind_are_blamed_by_nobody() -> None:
    assert [text for seed in range(len(KINDS)) for text in alarm(seed)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_and_no_claim_reads_testimony(kind: str) -> None:
    """Seconds and messages drawn at random: both roads give the same numbers, and every claim its status."""
    bundle, random = Bundle.open(run_of(kind, 0) / "out"), Random(kind)
    plan, raw, rows = bundle.plan(), bundle.json("plan.json"), bundle.records()
    other = [replace(r, seconds=random.random() * 1e6, message=random.choice([None, "", "timeout", "x"])) for r in rows]
    assert {*of_class("testimony")} == {"seconds", "message"}
    told = [summary(tally_plan(plan, of), judge_plan(plan, of)) for of in (rows, other)]
    assert told[0] == told[1]
    for evaluation in raw["evaluations"]:
        if kind != "property":
            again = [numbers(raw, evaluation, of, void_methods(raw, of), Only()) for of in (rows, other)]
            assert again[0] == again[1]


# The forgeries of the issue ------------------------------------------------------------------------------------------


def finder(
    kind: str, path: Path, rows: Callable[[Rows], Rows] = list, run: Callable[[Any], object] | None = None
) -> str:
    """Who finds the run of ``kind`` with other rows or another ``run.json``, everything behind them written anew."""
    folder = next(f for n in range(8) if _changes(f := run_of(kind, n), rows) or run is not None)
    forged(folder / "out", path, rows=rows, run=run)
    tidy(path)
    return found_by(folder, path)[0]


def _changes(folder: Path, rows: Callable[[Rows], Rows]) -> bool:
    before = Bundle.open(folder / "out").records()
    return rows(before) != before


def each(change: Callable[[Record], Record]) -> Callable[[Rows], Rows]:
    return lambda rows: [change(r) for r in rows]


def forgotten_witnesses(rows: Rows) -> Rows:
    """Failures told as none, with proofs for their units: a witness gone, a certificate come."""
    broken = {r.unit for r in rows if r.observed_failure}
    proof = next((r for r in rows if r.verdict == "certified"), None)
    made = [nothing(r) if r.observed_failure else r for r in rows]
    if proof is None:
        return made
    told = {"verdict": "certified", "margin": proof.margin, "gap": proof.gap, "gap_kind": proof.gap_kind}
    return [replace(r, **told) if r.unit in broken and r.verdict else r for r in made]  # type: ignore[arg-type]


def one_none(rows: Rows) -> Rows:
    at = next((i for i, r in enumerate(rows) if r.observed_failure), None)
    return [nothing(r) if i == at else r for i, r in enumerate(rows)]


def stripped(rows: Rows) -> Rows:
    gone = dict.fromkeys(("outcomes", "draws", "errors", "draw_seed"))
    return [replace(r, **gone) if r.stage == "clean" else r for r in rows]


def searching(**changes: Any) -> Callable[[Rows], Rows]:
    def change(row: Record) -> Record:
        if row.stage == "clean":
            return row
        made = {k: v(getattr(row, k)) if callable(v) else v for k, v in changes.items()}
        return replace(row, **made)

    return each(change)


def flatter(rows: Rows) -> Rows:
    return [replace(r, zero_gradients=r.zero_gradients + (r.gradients > r.zero_gradients)) for r in rows]


def surer(rows: Rows) -> Rows:
    return [replace(r, margin=r.margin + 1) if r.verdict == "certified" and r.margin else r for r in rows]


NAMED: dict[str, tuple[str, Callable[[Rows], Rows], str]] = {
    "failures told as none, and proofs put in their place": ("attributed", forgotten_witnesses, "rerun"),
    "one failure told as none": ("targeted", one_none, "rerun"),
    "a row of a universal change told as none": ("universal", one_none, "model"),
    "draws taken from originals under nature": ("natural", stripped, "audit"),
    "draws taken from originals of a random object": ("drawn", stripped, "audit"),
    "seeds of a search": ("searched", searching(seed=lambda s: s + 1), "audit"),
    "seeds of a proof": ("enumerated", searching(seed=0), "audit"),
    "queries": ("limited", searching(queries=lambda q: max(q - 1, 0)), "rerun"),
    "passes": ("searched", searching(forwards=lambda q: q + 100), "rerun"),
    "gradients": ("searched", searching(gradients=lambda q: q + 1), "rerun"),
    "zero gradients": ("searched", flatter, "rerun"),
    "more zero gradients than gradients": ("limited", searching(zero_gradients=1), "audit"),
    "progress": ("searched", searching(progressed=lambda p: None if p is None else not p), "rerun"),
    "margins of proofs": ("united", surer, "rerun"),
    "fewer passes than queries": ("limited", searching(forwards=0), "audit"),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_forgery_of_rows_is_found(tmp_path: Path, name: str) -> None:
    kind, change, by = NAMED[name]
    assert finder(kind, tmp_path / "forged", change) == by


def _library(run: Any) -> None:
    run["libraries"]["torchattacks"] = "3.2.6"


def _torch(run: Any) -> None:
    run["models"]["greatest"]["torch"] = "2.0.0"


def _threads(run: Any) -> None:
    run["models"]["greatest"]["threads"] = 8


def _calls(run: Any) -> None:
    run["batch_size"]["e"] += 1


def _lacking(run: Any) -> None:
    run["libraries"] = {k: v for k, v in run["libraries"].items() if k != "numpy"}


def _object(run: Any) -> None:
    run["models"]["greatest"]["object"] = "ab" * 32


@pytest.mark.parametrize(
    ("change", "by"),
    [
        (_library, "audit"),
        (_torch, "audit"),
        (_threads, "audit"),
        (_lacking, "audit"),
        (_object, "model"),
        (_calls, "rerun"),
    ],
)
def test_a_forgery_of_what_the_run_was_is_found(tmp_path: Path, change: Callable[[Any], None], by: str) -> None:
    assert finder("attributed", tmp_path / "forged", run=change) == by


# A rerun -------------------------------------------------------------------------------------------------------------


class Stopping(Silent):
    def advance(self, units: int, standing: int | None = None) -> None:  # noqa: ARG002
        raise KeyboardInterrupt


def small(kind: str) -> Path:
    """A run whose evaluation is several calls."""
    return next(f for n in range(8) if (f := run_of(kind, n)) and (f / "units").read_text() == "3")


def test_a_part_is_drawn_and_its_calls_are_made_whole() -> None:
    folder = small("targeted")
    ids = json.loads((folder / "out" / "run.json").read_text())["examples"]["e"]
    found = audit(folder / "out")
    with units_of_calls(folder):
        run_again(found, folder / "out", Again(folder, part=Part(count=1, seed=5)))
    assert found.faults == []
    assert "drawn from the seed 5 (--seed 5 draws them again)" in found.reran[0]
    rest = " (of the examples that were not run again)"
    assert {SEARCHES + rest, PROOFS + rest} <= {*found.unchecked}
    # Two pairs of an example and one of the next are a call of three; a forged row outside of it is not seen.
    seen = {rerunning._chosen(ids, Part(count=1, seed=s))[1].examples for s in range(40)}
    assert len(seen) == len(ids)


def test_a_stopped_rerun_goes_on_and_forgets_in_the_end(tmp_path: Path) -> None:
    folder = small("searched")
    how = Again(folder, memory=tmp_path / "runs", progress=Stopping())
    with units_of_calls(folder):
        for left in (1, 2):
            with pytest.raises(KeyboardInterrupt):
                run_again(audit(folder / "out"), folder / "out", how)
            (memo,) = (tmp_path / "runs").iterdir()
            assert len(json.loads(memo.read_text())["calls"]) == left
        found = audit(folder / "out")
        run_again(found, folder / "out", replace(how, progress=Silent(), limits=Limits(1)))
    assert found.faults == found.unreproduced == []
    assert SEARCHES not in found.unchecked
    assert list((tmp_path / "runs").iterdir()) == []
    rows = Bundle.open(folder / "out").records()
    assert f"{len(rows)} rows, made again: the same to the bit" in found.checked


def test_proofs_alone_are_made_again() -> None:
    folder = run_of("searched", 0)
    found = audit(folder / "out")
    with units_of_calls(folder):
        run_again(found, folder / "out", Again(folder, part=Part(proofs=True)))
    assert found.faults == []
    proofs = [r for r in Bundle.open(folder / "out").records() if r.verdict is not None]
    assert any(text.startswith(f"{len(proofs)} rows compared") for text in found.reran)
    assert SEARCHES in found.unchecked
    assert PROOFS not in found.unchecked


def elsewhere(folder: Path, path: Path, rows: Callable[[Rows], Rows]) -> Path:
    """The bundle with other rows, told to be made on another processor."""
    forged(folder / "out", path, rows=rows)
    tidy(path)
    told = json.loads((path / "environment.json").read_text())
    told["processor"] = "abacus"
    bundle = Bundle(path, writable=True)
    bundle.add_json("environment.json", told)
    predicate = bundle.statement()["predicate"]
    (path / "statement.json").unlink()
    write_descriptions(bundle)
    bundle.seal(predicate)
    return path


def test_on_another_processor_a_difference_is_no_forgery(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = run_of("targeted", 0)
    with units_of_calls(folder):
        honest = elsewhere(folder, tmp_path / "honest", list)
        assert main(["audit", str(honest), "--model", str(folder), "--rerun", "--quiet"]) == 0
        assert "compared by verdict, and not to the bit: made on the processor abacus" in capsys.readouterr().out
        other = elsewhere(folder, tmp_path / "other", one_none)
        assert main(["audit", str(other), "--model", str(folder), "--rerun", "--quiet", "--format", "json"]) == 4
        told = json.loads(capsys.readouterr().out)
        assert told["faults"] == []
        assert {t["code"] for t in told["not_reproduced"]} == {"TM858"}
        forged(folder / "out", tmp_path / "here", rows=one_none)
        tidy(tmp_path / "here")
        assert main(["audit", str(tmp_path / "here"), "--model", str(folder), "--rerun", "--quiet"]) == 1
        assert "error[TM857]" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--rerun"], ["--proofs"], ["--examples", "3"], ["--model", ".", "--seed", "3"],
        ["--model", ".", "--rerun", "--seed", "3"], ["--model", ".", "--rerun", "--proofs"],
        ["--model", ".", "--rerun", "--examples", "3", "--share", "5%"],
        ["--model", ".", "--rerun", "--share", "101 %"], ["--model", ".", "--rerun", "--examples", "0"],
    ],
)  # fmt: skip
def test_wrong_usage_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["audit", str(run_of("searched", 0) / "out"), *words])
    assert left.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_more_examples_than_there_are() -> None:
    folder = run_of("searched", 0)
    found = audit(folder / "out")
    said = refused("TM859", lambda: run_again(found, folder / "out", Again(folder, part=Part(count=1000))))
    assert "1000 examples" in said


def test_a_rerun_writes_nothing_into_the_bundle(tmp_path: Path) -> None:
    """A rerun writes nothing into the bundle."""
    folder = run_of("searched", 1)
    shutil.copytree(folder / "out", tmp_path / "copy")
    before = {p: p.read_bytes() for p in (tmp_path / "copy").rglob("*") if p.is_file()}
    with units_of_calls(folder):
        run_again(audit(tmp_path / "copy"), tmp_path / "copy", Again(folder))
    assert {p: p.read_bytes() for p in (tmp_path / "copy").rglob("*") if p.is_file()} == before
