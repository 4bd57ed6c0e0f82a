"""What must hold between the rows of a run, whatever the run was (EVIDENCE.md sections 1, 2 and 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tmlang.audit.draws import draw_faults
from tmlang.audit.record import Record
from tmlang.audit.recorrupt import corruption_faults
from tmlang.audit.shift_rows import shift_faults
from tmlang.audit.trials import confirmed, trial_faults
from tmlang.audit.undecided_rows import PLAIN, UNFIT, undecided_faults

Json = Mapping[str, Any]


def row_faults(plan: Json, rows: Sequence[Record]) -> Iterator[str]:
    """Every contradiction between rows, or between a row and the plan, in words that name the row."""
    evaluations = {e["name"]: e for e in plan["evaluations"]}
    subjects = {s["name"]: s for s in plan["subjects"]}
    models = {m["name"]: m for m in plan["models"]}
    units: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        if row.evaluation not in evaluations:
            yield f"{row.unit}: the plan has no evaluation `{row.evaluation}`"
        else:
            units.setdefault((row.evaluation, row.unit), []).append(row)
    for evaluation in evaluations.values():
        told = {row.example for (name, _), of_unit in units.items() if name == evaluation["name"] for row in of_unit}
        yield from _selection_faults(plan, subjects[evaluation["subject"]], evaluation["name"], len(told))
        yield from draw_faults(plan, evaluation, rows)
    yield from corruption_faults(plan, rows)
    bases = Counter(name for (name, _), rows in units.items() if rows[0].label >= 0 and rows[0].label != rows[0].target)
    for (name, unit), of_unit in units.items():
        evaluation = evaluations[name]
        subject = subjects[evaluation["subject"]]
        model = models[subject["model"]]
        decide = PLAIN if subject["is"] == "Property" else model["decide"]
        random = model["random"]["kind"] != "never"
        where = f"{name}, {unit}"
        yield from (f"{where}: {fault}" for fault in _unit_faults(evaluation, of_unit))
        yield from (f"{where}: {fault}" for row in of_unit for fault in undecided_faults(evaluation, decide, row))
        if subject["is"] == "Threat":
            for row in of_unit:
                clean = _label(evaluation, row) == "clean"
                drawn = _drawn(subject, row, random=random, clean=clean)
                yield from (f"{where}: {fault}" for fault in _threat_faults(subject, row, bases[name], drawn=drawn))
                yield from (f"{where}: {fault}" for fault in trial_faults(subject, row, clean=clean))
            judged = random or subject["nature"] is not None
            attacked = [] if judged else [r for r in of_unit if _label(evaluation, r) != "clean"]
            yield from (f"{where}: {fault}" for row in attacked for fault in _flag_faults(row))
            yield from (f"{where}: {fault}" for fault in _query_faults(evaluation, subject, of_unit))
        elif subject["is"] == "Shift":
            yield from (f"{where}: {fault}" for fault in shift_faults(evaluation, of_unit))


def _selection_faults(plan: Json, subject: Json, name: str, examples: int) -> Iterator[str]:
    """As many examples as the plan takes, where it says how many: a row that is left out changes every share."""
    if subject["is"] == "Property":
        return
    takes = next(d for d in plan["data"] if d["name"] == subject["data"])["takes"]
    counted = [t for t in takes[-1:] if t["kind"] in ("first", "sample")]
    if counted and examples != counted[0]["count"]:
        yield f"{name}: there are rows of {examples} examples, and the plan takes {counted[0]['count']}"


def _label(evaluation: Json, row: Record) -> str:
    return row.stage.removeprefix(evaluation["name"] + "/")


def _unit_faults(evaluation: Json, rows: Sequence[Record]) -> Iterator[str]:
    """One clean row; the same example, label, target and clean status in all; known stages; verdicts from provers."""
    stages = {s["label"]: s for s in evaluation["stages"]}
    clean = [r for r in rows if _label(evaluation, r) == "clean"]
    if len(clean) != 1:
        yield f"{len(clean)} clean rows"
    facts = {(r.example, r.label, r.target, r.clean, r.clean_decision) for r in rows}
    if len(facts) > 1:
        yield "rows disagree on example, label, target or clean decision"
    first = rows[0]
    settled = first.label < 0 or first.label == first.target
    for row in rows:
        label = _label(evaluation, row)
        if label == "clean":
            continue
        if label not in stages:
            yield f"the plan has no stage `{label}`"
        elif row.verdict is not None and stages[label]["role"] == "attack":
            yield f"`{label}` is an attack and gives a verdict"
        if settled:
            yield f"`{label}` ran on a unit that is not applicable"
        if not 0 <= row.repeat < evaluation["repeats"]:
            yield f"`{label}` has repeat {row.repeat} of {evaluation['repeats']}"


def _drawn(subject: Json, row: Record, *, random: bool, clean: bool) -> bool:
    """Whether a row is judged by draws: of a random object, or of nature around a candidate (or an original)."""
    return random or (subject["nature"] is not None and (not clean or row.outcomes is not None))


def _threat_faults(subject: Json, row: Record, base: int, *, drawn: bool) -> Iterator[str]:
    """Failure follows from decision, label, target and the rejection rule; nothing fails outside the set."""
    if not drawn and row.clean != "cu" and row.label >= 0:
        expected = {row.label: "cc", -1: "cr"}.get(-2 if row.clean_decision is None else row.clean_decision, "cw")
        if row.clean != expected:
            yield f"a clean decision {row.clean_decision} for label {row.label} is called {row.clean}"
    if not drawn and row.verdict in (None, "broken"):
        yield from _margin_faults(row)
    if (row.status, row.within_scope) in (("valid", False), ("invalid", True), ("valid", None)):
        yield f"status {row.status} with within_scope {row.within_scope}"
    if row.observed_failure is None:
        return
    if row.status != "valid" or row.within_scope is not True or row.clean != "cc":
        yield f"a failure is told of a {row.status} candidate of a {row.clean} unit"
        return
    if drawn:
        if row.observed_failure and not confirmed(subject["success"], row, base):
            yield f"{row.errors} failures in {row.draws} draws confirm nothing at the stated level"
        return
    expected_failure = fails(subject, row)
    if expected_failure is not None and expected_failure != row.observed_failure:
        yield f"decision {row.decision} for label {row.label} is told as observed_failure {row.observed_failure}"


def _margin_faults(row: Record) -> Iterator[str]:
    """A measured margin is above 0 where the label was decided, and below where another class was."""
    if row.margin is None or row.decision is None or row.decision < 0:
        return
    right = row.decision == row.label
    if (row.margin > 0 and not right) or (row.margin < 0 and right):
        yield f"decision {row.decision} for label {row.label} with the margin {row.margin:.6g}"


def _flag_faults(row: Record) -> Iterator[str]:
    """What repeats other cells of the row for a reader."""
    decided = row.decision is not None
    expected = {
        "changed_correct": row.clean == "cc" and row.decision != row.label if decided else None,
        "rejected": row.decision == -1 if decided else None,
        "counted_failure": row.observed_failure is True and row.within_access is True,
    }
    for name, value in expected.items():
        told = getattr(row, name)
        if told is not None and value is not None and told != value:
            yield f"{name} is told as {told}, and follows as {value}"


def fails(subject: Json, row: Record) -> bool | None:
    """F of the decision (EVIDENCE.md section 1); ``None`` where it depends on a distance that is not here."""
    if row.decision is None:
        return row.target is None and row.message == UNFIT
    if row.target is not None or subject["goal"]["kind"] != "untargeted":
        return None if row.target is None else row.decision == row.target
    rejected = (subject["rejected"] or {"kind": "fail"})["kind"]
    if row.decision == -1 and rejected == "fail_within":
        return None
    return row.decision != row.label and (row.decision != -1 or rejected == "fail")


def _query_faults(evaluation: Json, subject: Json, rows: Sequence[Record]) -> Iterator[str]:
    """Nothing beyond ``queries <= N`` counts as found within the declared access (EVIDENCE.md section 4)."""
    access = subject["access"]
    limit = access["queries"]
    if limit is None:
        return
    spent = 0
    for label, repeat in _order(evaluation, rows):
        of_stage = [r for r in rows if _label(evaluation, r) == label and r.repeat == repeat]
        for row in of_stage:
            if row.within_access is True and spent + row.queries > limit:
                yield f"`{label}` is told as within access after {spent + row.queries} of {limit} queries"
        if access["queries_per"] == "example":
            spent += max((r.queries for r in of_stage), default=0)


def _order(evaluation: Json, rows: Iterable[Record]) -> list[tuple[str, int]]:
    labels = [s["label"] for s in evaluation["stages"]]
    there = {(_label(evaluation, r), r.repeat) for r in rows}
    return [(label, repeat) for repeat in range(evaluation["repeats"]) for label in labels if (label, repeat) in there]
