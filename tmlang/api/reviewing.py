"""The failing inputs of a bundle for a person to judge, and a bundle that holds the judgements: ``tmc review``.

Whether a changed input still shows what its label says is for people. A sheet lists every failing input that was kept;
filled in, it makes a second bundle with the same rows, in which each judged one says so (EVIDENCE.md section 2).
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import judge_plan
from tmlang.audit.record import Record
from tmlang.audit.review import REVIEW, Judgement, Review, input_hash
from tmlang.audit.summary import summary
from tmlang.audit.tally import tally_plan
from tmlang.audit.units import is_witness
from tmlang.base.files import write_atomically
from tmlang.diagnostics.stop import stop
from tmlang.meaning.threats import Threat
from tmlang.plan.ir import Plan
from tmlang.report.claims import statement_hash
from tmlang.report.failures import failure_view
from tmlang.report.ink import pngs
from tmlang.report.write import write_descriptions, write_into

SHEET = "review.csv"
HEAD = ("input", "sha256", "evaluation", "unit", "label", "decided", "found_by", "changes", "pictures", "label_kept")
_ANSWERS = {"yes": True, "no": False}


def write_sheet(bundle: Bundle, folder: Path) -> int:
    """Write the sheet, and of pictures the original and the changed one, to ``folder``; gives the number of inputs.

    Raises TM854 where nothing that failed was kept, TM824 where the folder cannot be written.
    """
    plan, text = bundle.plan(), io.StringIO()
    sheet = csv.writer(text, lineterminator="\n")
    sheet.writerow(HEAD)
    pictures: dict[str, bytes] = {}
    witnesses = list(_judgeable(bundle.records()))
    if not witnesses:
        raise stop("TM854", "no failing input was kept in this bundle, so there is nothing to judge")
    for n, row in enumerate(witnesses, 1):
        line, drawn = _line(bundle, plan, row, n)
        sheet.writerow(line)
        pictures |= drawn
    try:
        for name, data in {SHEET: text.getvalue().encode(), **pictures}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, data)
    except OSError as error:
        raise stop("TM824", f"`{folder}` cannot be used: {error.strerror}") from error
    return len(witnesses)


def _judgeable(rows: list[Record]) -> Iterator[Record]:
    return (r for r in rows if is_witness(r) and r.candidate is not None)


def _line(bundle: Bundle, plan: Plan, row: Record, n: int) -> tuple[list[str], dict[str, bytes]]:
    evaluation = next(e for e in plan.evaluations if e.name == row.evaluation)
    subject = plan.subject(evaluation.subject)
    model = plan.model(subject.model)
    classes = model.classes if isinstance(subject, Threat) else ("holds", "violated")
    shown = failure_view(bundle, evaluation, subject, classes, plan.space(model.space), row, pictures=True)
    names = [f"inputs/{n:04d}-{what}.png" for what in ("original", "changed")]
    drawn = dict(zip(names, pngs(shown.pictures), strict=True)) if shown.pictures else {}
    changes = "; ".join(c.text for c in shown.changes)
    told = (row.evaluation, shown.unit, shown.label, shown.decision, shown.stage, changes, " ".join(drawn))
    return [shown.candidate, input_hash(bundle, shown.candidate), *map(_plain, told), ""], drawn


def _plain(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def reviewed(bundle: Bundle, sheet: Path, by: str, out: Path) -> Bundle:
    """A sealed bundle in the new folder ``out``, with the judgements of ``sheet`` in its rows and in ``review.json``.

    ``by``: who judged. Raises TM854 for a sheet that is not of this bundle, or judges nothing.
    """
    review = Review(by, statement_hash(bundle), tuple(_judgements(bundle, sheet)))
    made = Bundle.create(out)
    try:
        _write(made, bundle, review)
    except BaseException:  # half a bundle is none
        shutil.rmtree(made.path, ignore_errors=True)
        raise
    return Bundle.open(out)


def _write(made: Bundle, bundle: Bundle, review: Review) -> None:
    """Everything of ``bundle``, its rows with their judgements, and what follows from them."""
    kept = {j.candidate: j.label_kept for j in review.judged}
    rows: dict[str, list[Record]] = {}
    for place, row in bundle.placed_records():
        answer = kept.get(row.candidate or "") if is_witness(row) else None
        rows.setdefault(place.partition("#")[0], []).append(replace(row, label_kept=answer))
    for name in bundle.files():
        if not name.startswith(("records/", "report.", "figures/")):
            made.add_bytes(name, bundle.read_bytes(name))
    for of_file in rows.values():
        made.write_records(of_file)
    plan, records = made.plan(), made.records()
    made.add_json(REVIEW, review.as_json())
    made.add_json("columns.json", summary(tally_plan(plan, records), judge_plan(plan, records)))
    write_into(made)
    write_descriptions(made)
    made.seal(bundle.statement()["predicate"])


def _judgements(bundle: Bundle, sheet: Path) -> Iterator[Judgement]:
    """The filled lines of the sheet, in its order."""
    there = {r.candidate: r for r in _judgeable(bundle.records())}
    seen: set[str] = set()
    for number, line in enumerate(_lines(sheet), 2):
        where = f"line {number} of `{sheet}`"
        candidate, answer = line["input"], line["label_kept"].strip().lower()
        if candidate not in there or input_hash(bundle, candidate) != line["sha256"]:
            raise stop(
                "TM854", f"{where} names no failing input of this bundle", help="tmc review BUNDLE writes a sheet"
            )
        if candidate in seen:
            raise stop("TM854", f"{where} judges `{candidate}` a second time")
        if answer and answer not in _ANSWERS:
            raise stop("TM854", f"{where}: {answer!r} is no answer", help="yes, no, or nothing where nobody judged it")
        seen.add(candidate)
        if answer:
            yield Judgement(candidate, line["sha256"], _ANSWERS[answer])


def _lines(sheet: Path) -> list[dict[str, str]]:
    try:
        with sheet.open(encoding="utf-8-sig", newline="") as file:
            head, *lines = [*csv.reader(file, strict=True)] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise stop("TM854", f"`{sheet}` cannot be read: {error}") from error
    if tuple(head) != HEAD or any(len(line) != len(HEAD) for line in lines):
        raise stop("TM854", f"`{sheet}` has other columns than {', '.join(HEAD)}")
    found = [dict(zip(HEAD, line, strict=True)) for line in lines]
    if not any(line["label_kept"].strip() for line in found):
        raise stop(
            "TM854", f"`{sheet}` judges nothing: `label_kept` is empty in every line", help="write yes or no there"
        )
    return found
