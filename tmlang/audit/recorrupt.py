"""Shifts a second time, and their errors by corruption and severity: from what each row says of its own input.

The auditor's own reading of EVIDENCE.md section 2, of the plan as plain JSON and the rows as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from tmlang.audit.record import Record
from tmlang.audit.recount import PROOF_COUNTS, Number, Recount, share

Json = Mapping[str, Any]
Cell = tuple[str | None, int | None]


def of_stage(stage: Json, clean: Record) -> Cell:
    """What a row of this stage must say of its input; two times ``None`` where nothing is known."""
    arguments = dict(stage["arguments"])
    if "severity" in arguments:
        written = Fraction(arguments["severity"]) if isinstance(arguments["severity"], str) else None
        return (stage["method"], int(written)) if written is not None and written.denominator == 1 else (None, None)
    return (clean.corruption, clean.severity) if taken_as_it_is(stage) else (None, None)


def taken_as_it_is(stage: Json) -> bool:
    return bool((stage["backend"], stage["method"]) == ("native", "as_published"))


def corruption_faults(plan: Json, rows: Sequence[Record]) -> Iterator[str]:
    """Every row of an example says the corruption that the data give it, the same in all evaluations; what a shift
    applies is asked elsewhere (``shift_rows``)."""
    subjects = {s["name"]: s for s in plan["subjects"]}
    about = {e["name"]: subjects[e["subject"]] for e in plan["evaluations"]}
    sets = {d["name"]: any(name == "corruption" for name, _ in d["read"]["args"]) for d in plan["data"]}
    told: dict[tuple[str, str], Cell] = {}
    for row in rows:
        subject = about.get(row.evaluation)
        clean = row.stage.removeprefix(row.evaluation + "/") == "clean"
        if subject is None or subject["is"] == "Property" or (subject["is"] == "Shift" and not clean):
            continue
        said = (row.corruption, row.severity)
        wrong = None in said or (row.severity or 0) < 1
        if wrong if sets[subject["data"]] else said != (None, None):
            yield f"{row.evaluation}, {row.unit}: corrupted by {row.corruption} {row.severity} says the row"
        elif told.setdefault((subject["data"], row.example), said) != said:
            yield f"{row.evaluation}, {row.unit}: corrupted in two ways"


def shift_numbers(r: Recount) -> dict[str, Number]:
    """``corrupted_accuracy``: correct answers of all units, changes and repeats. Nothing is known before the
    change of a set that was published corrupted."""
    answers = [row for rows in r.rows.values() for row in rows if row.status == "valid"]
    total = len(r.counted) * len(r.rows) * len(r.repeats)
    right = sum(row.decision == row.label for row in answers)
    cc, cu = len(r.status("cc")), len(r.status("cu"))
    cw = len(r.status("cw"))
    before = {
        "clean_accuracy": share(cc, cc + cu, len(r.counted)),
        "clean_answered": share(cc + cw, cc + cw + cu, len(r.counted)),
    }
    return {
        **({} if any(map(taken_as_it_is, r.evaluation["stages"])) else before),
        **cell_numbers(r),
        "corrupted_accuracy": share(right, right + total - len(answers), total),
        "coverage": share(len(answers), len(answers), total),
    }


def shift_counts(r: Recount) -> dict[str, int]:
    """The letters of a shift: nothing in it is broken or proved."""
    answers = sum(row.status == "valid" for rows in r.rows.values() for row in rows)
    base = len(r.counted)
    never = ("broken", "broken_any_access", *PROOF_COUNTS, "denied", "undecided", "open")
    return {
        "selected": len(r.start),
        "unusable": len(r.start) - base,
        "base": base,
        "denominator": base,
        **{s: len(r.status(s)) for s in ("cc", "cw", "cr", "cu")},
        "unfinished": base * len(r.rows) * len(r.repeats) - answers,
        **dict.fromkeys(never, 0),
    }


def cell_numbers(r: Recount) -> dict[str, Number]:
    """The accuracy of every corruption at every severity; none where some input's are not known."""
    should: Counter[Cell] = Counter()
    for stage in r.evaluation["stages"]:
        should.update(of_stage(stage, row) for row in r.counted.values())
    if any(None in cell for cell in should):
        return {}
    answers = [row for rows in r.rows.values() for row in rows if row.status == "valid"]
    there = Counter((row.corruption, row.severity) for row in answers)
    right = Counter((row.corruption, row.severity) for row in answers if row.decision == row.label)
    found = {}
    for name, severity in sorted(should, key=str):
        k, n = right[name, severity], should[name, severity] * len(r.repeats)
        found[f"corrupted_accuracy:{name} {severity}"] = share(k, k + n - there[name, severity], n)
    return found


def corruption_error(name: str, own: Recount, base: Recount) -> Number | None:
    """The mean over corruptions of errors over the baseline's; ``None`` where it is undefined. The ends are found by
    trying the ends of what the errors may be."""
    cells = [cell_numbers(own), cell_numbers(base)]
    if not cells[0] or cells[0].keys() != cells[1].keys():
        return None
    stages = [*own.evaluation["stages"], *base.evaluation["stages"]]
    if name == "relative_mce" and any(map(taken_as_it_is, stages)):
        return None
    kinds: dict[str, list[str]] = {}
    for key in cells[0]:
        kinds.setdefault(key.removeprefix("corrupted_accuracy:").rpartition(" ")[0], []).append(key)
    lows, highs = [], []
    for keys in kinds.values():
        mine, theirs = (
            list(_sums([told[k] for k in keys], _clean(r) if name == "relative_mce" else (Fraction(0), Fraction(0))))
            for told, r in zip(cells, (own, base), strict=True)
        )
        if min(theirs) <= 0:
            return None
        ratios = [a / b for a, b in product(mine, theirs)]
        lows.append(min(ratios))
        highs.append(max(ratios))
    answers = [row for rows in own.rows.values() for row in rows if row.status == "valid"]
    total = len(own.counted) * len(own.rows) * len(own.repeats)
    low, high = (sum(ends, Fraction(0)) / len(ends) for ends in (lows, highs))
    return sum(row.decision == row.label for row in answers), total, low, high


def _clean(r: Recount) -> tuple[Fraction, Fraction]:
    """The least and the greatest error before any change."""
    wrong, unknown = len(r.status("cw", "cr")), len(r.status("cu"))
    return Fraction(wrong, len(r.counted)), Fraction(wrong + unknown, len(r.counted))


def _sums(accuracies: list[Number], clean: tuple[Fraction, Fraction]) -> Iterator[Fraction]:
    """The least and the greatest sum of errors, each less the clean one."""
    for end, before in ((3, clean[1]), (2, clean[0])):
        yield sum((1 - Fraction(a[end] or 0) - before for a in accuracies), Fraction(0))
