"""Every unit of an evaluation on one line: its fate, who found it, and the records that say so.

The fates are those of the bar at the head of an evaluation, and the numbers of the report count units by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tmlang.audit.columns import Restriction
from tmlang.audit.counting import counted
from tmlang.audit.levels import trust_words
from tmlang.audit.record import CLEAN_STAGE, REJECTED, Record
from tmlang.audit.tally import tally
from tmlang.audit.units import Reader, Rows, Unit, group, in_real_arithmetic, is_share, is_witness, stage_label
from tmlang.meaning.threats import Property, Shift, Subject, Threat
from tmlang.plan.ir import EvaluationPlan
from tmlang.report.failures import class_name, distance

FATES = {
    "proved": "proved",
    "assumed": "proved, its gap assumed",
    "trusted": "not proved, trusting a solver",
    "standing": "not broken, not proved",
    "open": "attack unfinished",
    "broken": "broken",
    "beyond": "broken beyond the declared access",
    "unknown": "clean decision unknown",
    "wrong": "wrong before any change",
    "rejected": "rejected before any change",
    "drawn": "judged by its draws",
    "left": "left out: no usable label, or the target already",
    "right": "right after the change",
    "fallen": "wrong after the change",
    "turned": "rejected after the change",
    "missing": "not evaluated",
    "violated": "violated",
    "holds": "holds",
    "granted": "holds under an assumption",
    "undecided": "undecided",
}
"""Fate of a unit -> how it is called."""

_PROVED = ("proved", "assumed")
_KEPT = (*_PROVED, "trusted", "standing", "open", "unknown")
_ANSWERED = (*_PROVED, "trusted", "standing", "open", "broken", "beyond", "drawn", "unknown")
COUNTED = {
    "clean_accuracy": _ANSWERED,
    "clean_answered": (*_ANSWERED, "wrong"),
    "certified": _PROVED,
    "certified_trusting": (*_PROVED, "trusted"),
    "survival": (*_KEPT, "beyond", "drawn"),
    "upper": _KEPT,
    "robust_accuracy": _KEPT,
    "robust_rate": _KEPT,
    "corrupted_accuracy": ("right",),
}
"""Column -> the fates at its upper end (of ``certified``: at its lower). Other columns lead to all units."""


@dataclass(frozen=True, slots=True)
class Step:
    """One record of a unit, in words. ``place``: the row of the bundle's file that holds it."""

    stage: str
    outcome: str
    decision: str
    distance: str
    margin: str
    queries: int
    seconds: float
    place: str


@dataclass(frozen=True, slots=True)
class Example:
    """``distance``: the least of a failing input, in the space's units; ``queries`` and ``seconds`` over all stages."""

    unit: str
    label: str
    clean: str
    fate: str
    decision: str
    found_by: str
    distance: float | None
    queries: int
    seconds: float
    steps: tuple[Step, ...]


def examples(
    evaluation: EvaluationPlan,
    subject: Subject,
    classes: Sequence[str],
    placed: Sequence[tuple[str, Record]],
    voided: frozenset[str],
) -> tuple[Example, ...]:
    """The units of ``evaluation`` in the order of the run; under ``targeted each any`` or ``all``, its examples."""
    mine = [(place, row) for place, row in placed if row.evaluation == evaluation.name]
    places = {id(row): place for place, row in mine}
    grouped = group(evaluation, (row for _, row in mine))
    fates = _fates(evaluation, subject, grouped, voided)
    by_unit: dict[str, list[Rows]] = {}
    for unit, rows in grouped.items():
        clean = rows[CLEAN_STAGE][0]
        by_unit.setdefault(unit if unit in fates else clean.example, []).append(rows)
    return tuple(
        _example(_Words(evaluation, classes, isinstance(subject, Shift)), unit, fates.get(unit, "left"), parts, places)
        for unit, parts in by_unit.items()
    )


@dataclass(frozen=True, slots=True)
class _Words:
    """What the rows of an evaluation are told with; ``shifted``: of a change that nobody chose."""

    evaluation: EvaluationPlan
    classes: Sequence[str]
    shifted: bool


def _fates(
    evaluation: EvaluationPlan, subject: Subject, grouped: dict[str, Rows], voided: frozenset[str]
) -> dict[str, str]:
    if isinstance(subject, Shift):
        return {unit: _after_shift(evaluation, rows) for unit, rows in grouped.items()}
    if isinstance(subject, Property):
        rows = [row for stages in grouped.values() for of_stage in stages.values() for row in of_stage]
        told = tally(evaluation, subject, rows, voided=voided)
        known = "granted" if told.note else "undecided" if told.holds == "vacuous" else told.holds or "undecided"
        return dict.fromkeys(grouped, known)
    clean = [rows[CLEAN_STAGE][0] for rows in grouped.values()]
    reader = Reader(evaluation, subject, Restriction(), voided)
    usable = [reader.unit(grouped[r.unit]) for r in clean if r.label >= 0 and r.target != r.label]
    fates = {r.unit: "left" for r in clean} if _is_apart(subject) else {}
    found = fates | {u.id: fate(u) for u in counted(subject, clean, usable)[0]}
    if not is_share(subject):
        return found
    return {unit: "drawn" if known in ("standing", "open") else known for unit, known in found.items()}


def _is_apart(threat: Threat) -> bool:
    return threat.goal.kind != "each" or threat.goal.each == "apart"


def fate(unit: Unit) -> str:
    """What became of one counted unit under a threat."""
    if unit.clean != "cc":
        return {"cw": "wrong", "cr": "rejected", "cu": "unknown"}[unit.clean]
    if unit.certified:
        return "assumed" if unit.rests_on_a_gap(trusting=False) else "proved"
    if unit.trusting:
        return "trusted"
    if unit.broken_any:
        return "broken" if unit.broken else "beyond"
    return "open" if unit.open else "standing"


def _after_shift(evaluation: EvaluationPlan, rows: Rows) -> str:
    if rows[CLEAN_STAGE][0].label < 0:
        return "left"
    answers = [r for s in evaluation.stages for r in rows.get(s.label, ()) if r.status == "valid"]
    if len(answers) < evaluation.repeats:
        return "missing"
    given = [r.decision for r in answers if r.decision != r.label]
    return "right" if not given else "turned" if all(d == REJECTED for d in given) else "fallen"


def _example(words: _Words, unit: str, fate: str, parts: Sequence[Rows], places: dict[int, str]) -> Example:
    rows = [r for part in parts for stage in part.values() for r in stage]
    clean = parts[0][CLEAN_STAGE][0]
    shown = _changed(rows) if words.shifted else _witness(rows)
    return Example(
        unit,
        class_name(words.classes, clean.label) if clean.label >= 0 else "none",
        class_name(words.classes, clean.clean_decision),
        fate,
        "" if shown is None else class_name(words.classes, shown.decision),
        "" if shown is None else stage_label(words.evaluation, shown),
        None if shown is None else distance(shown),
        sum(_queries(part, stage) for part in parts for stage in part),
        sum(r.seconds for r in rows),
        tuple(_step(words, r, places[id(r)]) for r in rows),
    )


def _queries(rows: Rows, stage: str) -> int:
    """A row's queries are those of its stage up to it, so the greatest of each repeat counts."""
    most: dict[int, int] = {}
    for row in rows[stage]:
        most[row.repeat] = max(most.get(row.repeat, 0), row.queries)
    return sum(most.values())


def _witness(rows: Sequence[Record]) -> Record | None:
    """The first within the declared access, else the first."""
    found = [r for r in rows if is_witness(r)]
    return next((r for r in found if r.within_access is not False), found[0] if found else None)


def _changed(rows: Sequence[Record]) -> Record | None:
    """Of a shift: the first changed input that is not decided as its label, else the first that was decided."""
    answers = [r for r in rows if r.stage != CLEAN_STAGE and r.status == "valid"]
    return next((r for r in answers if r.decision != r.label), answers[0] if answers else None)


def _step(words: _Words, row: Record, place: str) -> Step:
    far = distance(row)
    repeated = f", repeat {row.repeat + 1}" if words.evaluation.repeats > 1 else ""
    return Step(
        stage_label(words.evaluation, row) + repeated,
        _outcome(row, _basis(words.evaluation, row), shifted=words.shifted),
        "" if row.decision is None else class_name(words.classes, row.decision),
        "" if far is None else f"{far:.4g}",
        "" if row.margin is None else f"{row.margin:.4g}",
        row.queries,
        row.seconds,
        place,
    )


_CLEAN = {"cc": "decided rightly", "cw": "decided wrongly", "cr": "rejected", "cu": "no decision"}


def _basis(evaluation: EvaluationPlan, row: Record) -> list[str]:
    """What a certificate rests on, if on anything."""
    if row.verdict != "certified":
        return []
    trusts = next((s.trusts for s in evaluation.stages if s.label == stage_label(evaluation, row)), "")
    gap = "real arithmetic" if in_real_arithmetic(row) else "" if row.gap_kind == "proved" else "gap assumed"
    return [word for word in (trust_words([trusts] if trusts else []), gap) if word]


def _outcome(row: Record, basis: Sequence[str], *, shifted: bool) -> str:
    told = [*basis]
    told += [f"{row.errors} of {row.draws} draws fail"] if row.outcomes is not None else []
    told += [row.message] if row.message else []
    said = f" ({'; '.join(told)})" if told else ""
    if row.stage == CLEAN_STAGE and not is_witness(row):
        return _CLEAN[row.clean] + said
    if is_witness(row):
        return ("fails, allowed" if row.within_access is not False else "fails, beyond the declared access") + said
    if row.verdict is not None:
        return row.verdict + said
    if row.status == "invalid":
        return f"outside the allowed set: {row.rule}{said}"
    if shifted and row.status == "valid":
        kind = "right" if row.decision == row.label else "rejected" if row.decision == REJECTED else "wrong"
        return f"{kind} after the change{said}"
    valid = "allowed" if row.observed_failure is None and row.outcomes is not None else "allowed, does not fail"
    return {"none": "found nothing", "valid": valid}.get(row.status, row.status) + said
