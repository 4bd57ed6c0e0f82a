"""What a person judges of failing inputs: out on a sheet, back into a bundle, and nothing else is moved by it."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from audit_support import BROKEN, Rows, attack, evaluation, make_bundle, plan, sealed, threat
from PIL import Image

from tmlang.api.reviewing import HEAD, SHEET, reviewed, write_sheet
from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import judge_plan
from tmlang.audit.summary import summary
from tmlang.audit.tally import tally_plan
from tmlang.audit.verify import audit
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.report.view import view_of
from tmlang.report.write import FORMATS

UNITS = ("a", "b", "c")


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """Three units broken by kept inputs, whose first pixel moved by an eighth, and one that stands."""
    rows = Rows()
    originals = np.stack([np.full((1, 8, 8), value, np.float32) for value in (0.25, 0.5, 0.75)])
    changed = originals.copy()
    changed[:, 0, 0, 0] += 0.125
    for i, unit in enumerate(UNITS):
        rows.clean(unit).attack(unit, "a", "broken", candidate=f"candidates/000001.safetensors#{i}", **BROKEN)
    rows.clean("d").attack("d")
    whole = plan([evaluation(attack())], [threat()])
    return sealed(make_bundle(tmp_path / "run", whole, rows.all, candidates=changed, originals=originals))


def filled(folder: Path, *answers: str, **other: str) -> Path:
    """The sheet with an answer for each line, in the order of the units; ``other``: columns of the first line."""
    with (folder / SHEET).open(newline="") as file:
        lines = list(csv.DictReader(file))
    lines = [line | {"label_kept": answer} for line, answer in zip(lines, answers, strict=False)]
    lines[0] |= other
    path = folder / "filled.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEAD)
        writer.writeheader()
        writer.writerows(lines)
    return path


def judged(bundle: Bundle, tmp_path: Path) -> Bundle:
    write_sheet(bundle, tmp_path / "sheet")
    return reviewed(bundle, filled(tmp_path / "sheet", "yes", "", "no"), "two of us", tmp_path / "judged")


def test_the_sheet_lists_every_failing_input_and_shows_it(bundle: Bundle, tmp_path: Path) -> None:
    assert write_sheet(bundle, tmp_path / "sheet") == 3
    with (tmp_path / "sheet" / SHEET).open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(x["unit"], x["label"], x["decided"], x["found_by"], x["label_kept"]) for x in lines] == [
        (unit, "0", "1", "a", "") for unit in UNITS
    ]
    changed = np.full((1, 8, 8), 0.5, np.float32)
    changed[0, 0, 0] = 0.625
    assert lines[1]["sha256"] == sha256(changed.tobytes()).hexdigest()
    original, after = (np.array(Image.open(tmp_path / "sheet" / name)) for name in lines[1]["pictures"].split())
    assert original.shape == after.shape == (200, 200)
    assert set(original.ravel()) == {128}
    assert set(after[:25, :25].ravel()) == {159}
    assert set(after[25:].ravel()) == {128}


def test_judgements_move_no_other_number(bundle: Bundle, tmp_path: Path) -> None:
    """Of three broken units two are judged and one of them keeps its label: between 1/3 and 2/3 do."""
    made = judged(bundle, tmp_path)
    before, after = (b.json("columns.json")["evaluations"]["e"] for b in (bundle, made))
    validity, coverage = (after["columns"].pop(name) for name in ("semantic_validity", "witnesses_judged"))
    assert before == after
    assert [validity[k] for k in ("numerator", "denominator", "low", "high")] == [1, 3, "1/3", "2/3"]
    assert validity["gaps"] == {"witness not judged": 1}
    assert [coverage[k] for k in ("numerator", "denominator", "low", "high")] == [2, 3, "2/3", "2/3"]
    assert [r.label_kept for r in made.records()] == [None, None, None, None, True, None, False, None]
    assert [replace(r, label_kept=None) for r in made.records()] == bundle.records()
    found = audit(made.path)
    assert found.faults == []
    assert "that 2 failing inputs are judged as `review.json` says" in found.checked
    assert any("two of us" in text for text in found.unchecked)
    told = FORMATS["md"](view_of(made)).decode()
    assert "| semantic validity | [33.3 %, 66.7 %] | 3 |" in told
    assert "| failing inputs judged | 66.7 % | 3 |" in told
    assert "whether they still hold for 1 of the 3 failing inputs" in told


def other(made: Bundle, folder: Path, change) -> Path:
    """A copy whose ``review.json`` and rows ``change`` was given, with numbers and hashes that fit."""
    copy = Bundle.create(folder)
    review, rows = change(made.json("review.json"), made.records())
    for name in made.files():
        if not name.startswith("records/"):
            copy.add_bytes(name, made.read_bytes(name))
    copy.add_json("review.json", review)
    copy.write_records(rows)
    whole = copy.plan()
    copy.add_json("columns.json", summary(tally_plan(whole, rows), judge_plan(whole, rows)))
    copy.seal(made.statement()["predicate"])
    return copy.path


def in_rows(unit: str, kept: bool | None, stage: str = "a"):
    def change(review, rows):
        return review, [replace(r, label_kept=kept) if (r.unit, r.stage) == (unit, stage) else r for r in rows]

    return change


def in_review(at: int, **values):
    def change(review, rows):
        review["judged"][at] |= values
        return review, rows

    return change


def without_one(review, rows):
    return review | {"judged": review["judged"][:1]}, rows


def twice(review, rows):
    return review | {"judged": [*review["judged"], review["judged"][0]]}, rows


@pytest.mark.parametrize(
    "change",
    [
        in_rows("c", True),
        in_rows("b", True),
        in_rows("a", None),
        in_rows("d", True),
        in_rows("a", True, stage="clean"),
        in_review(0, label_kept=False),
        in_review(0, sha256="0" * 64),
        in_review(0, candidate="candidates/000001.safetensors#1"),
        in_review(0, candidate="candidates/000009.safetensors#0"),
        without_one,
        twice,
    ],
)
def test_a_judgement_that_nobody_made_is_found(bundle: Bundle, tmp_path: Path, change) -> None:
    found = audit(other(judged(bundle, tmp_path), tmp_path / "other", change)).faults
    assert "TM844" in {f.code for f in found}


@pytest.mark.parametrize("change", [lambda t: t.pop("by"), lambda t: t["judged"][0].update(more=1)])
def test_a_review_of_another_form_is_refused(bundle: Bundle, tmp_path: Path, change) -> None:
    def edit(review, rows):
        change(review)
        return review, rows

    path = other(judged(bundle, tmp_path), tmp_path / "other", edit)
    with pytest.raises(Stop, match=r"review\.json"):
        audit(path)


@pytest.mark.parametrize(
    ("answers", "changes", "words"),
    [
        (("yes", "maybe", ""), {}, "'maybe' is no answer"),
        (("", "", ""), {}, "judges nothing"),
        (("yes", "no", "no"), {"sha256": "0" * 64}, "line 2 of"),
        (("yes", "no", "no"), {"input": "candidates/000001.safetensors#2"}, "line 2 of"),
        (("yes", "no", "no"), {"input": "candidates/000007.safetensors#0"}, "names no failing input"),
    ],
)
def test_a_sheet_that_does_not_fit_writes_nothing(bundle: Bundle, tmp_path: Path, answers, changes, words) -> None:
    write_sheet(bundle, tmp_path / "sheet")
    with pytest.raises(Stop) as stopped:
        reviewed(bundle, filled(tmp_path / "sheet", *answers, **changes), "me", tmp_path / "out")
    (diagnostic,) = stopped.value.diagnostics
    assert diagnostic.code == "TM854"
    assert words in diagnostic.message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "input,label_kept\nx,yes\n", "\x00", f"{','.join(HEAD)}\nx,y\n"])
def test_a_sheet_of_another_form_is_refused(bundle: Bundle, tmp_path: Path, text: str) -> None:
    (tmp_path / "sheet.csv").write_text(text)
    with pytest.raises(Stop) as stopped:
        reviewed(bundle, tmp_path / "sheet.csv", "me", tmp_path / "out")
    assert stopped.value.diagnostics[0].code == "TM854"


def test_half_a_bundle_is_none(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "tmlang.report.page", raising=False)
    with pytest.raises(Stop) as stopped:
        judged(bundle, tmp_path)
    assert stopped.value.diagnostics[0].code == "TM510"
    assert not (tmp_path / "judged").exists()


def test_nothing_to_judge_is_said(tmp_path: Path) -> None:
    rows = Rows().clean("u").attack("u")
    empty = sealed(make_bundle(tmp_path / "run", plan([evaluation(attack())], [threat()]), rows.all))
    with pytest.raises(Stop, match="nothing to judge"):
        write_sheet(empty, tmp_path / "sheet")
    assert not (tmp_path / "sheet").exists()


def test_the_command(bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(bundle.path), tmp_path / "judged"
    assert main(["review", path, "--out", str(tmp_path / "sheet")]) == 0
    assert "3 failing inputs" in capsys.readouterr().out
    sheet = filled(tmp_path / "sheet", "yes", "no", "")
    assert main(["review", path, "--judged", str(sheet), "--by", "me", "--out", str(out)]) == 0
    assert "e: 2 of 3 broken units judged, and the label still holds for 1 of these" in capsys.readouterr().out
    assert json.loads((out / "review.json").read_text())["by"] == "me"
    for words in (["--judged", str(sheet)], ["--by", "me"], ["--judged", str(sheet), "--by", "me"]):
        with pytest.raises(SystemExit) as stopped:
            main(["review", path, *words])
        assert stopped.value.code == 2
    assert Fraction(tally_plan(bundle.plan(), Bundle.open(out).records())["e"].get("survival").low) == Fraction(1, 4)
