"""``tmc audit``: what a bundle says, worked out again from its records by code that did not write it.

Shared with the writer: the form of the files, and nothing that counts, judges or measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tmlang.audit import redraw, unspoken
from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import judge_plan
from tmlang.audit.consistency import row_faults
from tmlang.audit.draws import confidence_note
from tmlang.audit.identity import checked_run, example_faults, identity_faults, lock_faults, lock_of
from tmlang.audit.known import known_faults
from tmlang.audit.output_faults import output_faults
from tmlang.audit.record import Record
from tmlang.audit.recount import Number, Only, Units, rate_name
from tmlang.audit.rejudge import (
    NotRejudged,
    drawing,
    holding_on,
    holds,
    interval_fault,
    number,
    numbers,
    population_fault,
    recount,
    status,
)
from tmlang.audit.remeasure import CannotMeasure, branches_around, broken_rules, distance, exact_values, squared
from tmlang.audit.renature import nature_faults
from tmlang.audit.review import REVIEW, review_faults, review_of
from tmlang.audit.sharing import Pair, is_one_perturbation
from tmlang.audit.summary import form_fault, summary
from tmlang.audit.tally import tally_plan
from tmlang.audit.trials import seed_faults
from tmlang.audit.void import void_methods
from tmlang.diagnostics.stop import Stop, stop
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Ball, Either, Property, Shift, Threat
from tmlang.plan.ir import Plan

Json = Mapping[str, Any]
MODEL = "that the model decides as the records say: the bundle does not hold the model"
DATA = "that the data is what its hash says: the bundle holds the changed examples only"
MAKER = "who made the bundle: it is hashed, and not signed"
SEARCHES = (
    "that every search was made, and as long as the plan says: one that was left out or shortened, or a failure told as"
    " `none`, cannot be seen without a rerun (--rerun) or a signature of whoever ran it (--key)"
)
PROOFS = "that the certificates are proofs: they were not proved again (--proofs)"
TESTIMONY = "seconds, messages, the machine and the day: they are testimony, and no number and no claim reads them"
NEVER_CHECKED = (MODEL, SEARCHES, PROOFS, DATA, MAKER, TESTIMONY)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in the bundle that does not follow from the rest of it."""

    code: str
    text: str


@dataclass
class Audit:
    """``faults`` empty: everything in ``checked`` holds. ``unchecked``: what nobody should take from this audit.
    ``reran``: what was run again, and what a forger may hope of that. ``unreproduced``: what came out otherwise there,
    where another machine or version may be the reason."""

    path: Path
    faults: list[Fault] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    reran: list[str] = field(default_factory=list)
    unreproduced: list[Fault] = field(default_factory=list)


def audit(path: str | Path) -> Audit:
    """Check the bundle at ``path``. Raises ``Stop`` where it cannot be read at all (TM840, TM842, TM843)."""
    bundle = Bundle.open(path, sealed=False)
    found = Audit(bundle.path)
    found.faults += [Fault("TM841", text) for text in bundle.hash_faults()]
    files = list(bundle.files())
    found.checked.append(f"the SHA-256 of {len(files)} files")
    plan, raw = bundle.plan(), bundle.json("plan.json")
    rows = bundle.records()
    found.checked.append(f"the form of {len(rows)} records")
    found.faults += [Fault("TM844", text) for text in row_faults(raw, rows)]
    found.checked.append("that rows agree with each other and with the plan, and failures with decisions")
    found.faults += [Fault("TM844", text) for text in review_faults(bundle, rows)]
    if (review := review_of(bundle)) is not None:
        found.checked.append(f"that {len(review.judged)} failing inputs are judged as `{REVIEW}` says")
        found.unchecked.append(f"who judged them, and how: `{review.by}` is what was told")
    run, predicate = checked_run(bundle.json("run.json")), bundle.statement()["predicate"]
    found.faults += [Fault("TM844", text) for text in example_faults(plan, run, rows)]
    found.checked.append("that no example of the data is left out, added or moved")
    found.faults += [Fault("TM844", text) for text in known_faults(raw, run, rows)]
    found.checked.append("that seeds, order, counts and draws are those of the plan, and no stage leaves a unit out")
    void = void_methods(raw, rows)
    told = bundle.json("columns.json")
    if (fault := form_fault(told)) is not None:
        raise stop("TM842", f"`columns.json` is not read: {fault}")
    found.faults += [Fault("TM845", text) for text in identity_faults(plan, run, predicate, told)]
    found.faults += [Fault("TM845", text) for text in lock_faults(plan, run, lock_of(bundle), rows)]
    found.faults += [Fault("TM845", text) for text in unspoken.faults(raw)]
    found.faults += [Fault("TM845", text) for text in _numbers(raw, rows, void, told, found)]
    found.faults += [Fault("TM845", text) for text in _claims(raw, rows, void, told, found)]
    if not found.faults and told != summary(tally_plan(plan, rows), judge_plan(plan, rows)):
        # The words beside numbers that hold are of no road of their own: those of the writer are compared.
        found.faults.append(Fault("TM845", "columns.json words units, notes, gaps or grounds otherwise than tmc does"))
    found.faults += [Fault("TM846", text) for text in _candidates(bundle, plan, rows, found)]
    found.faults += [Fault("TM849", text) for text in output_faults(bundle, raw, rows)]
    if bounded := sum(row.outputs is not None for row in rows):
        found.checked.append(f"bounds of outputs of {bounded} certificates, against margins, decisions and each other")
    found.unchecked += NEVER_CHECKED
    return found


# Numbers -------------------------------------------------------------------------------------------------------------


def _numbers(raw: Json, rows: Sequence[Record], void: Units, told: Json, found: Audit) -> Iterator[str]:
    kinds = {s["name"]: s["is"] for s in raw["subjects"]}
    names = {e["name"] for e in raw["evaluations"]}
    if told["evaluations"].keys() != names:
        yield "columns.json has other evaluations than the plan"
        return
    compared = 0
    for evaluation in raw["evaluations"]:
        name, own = evaluation["name"], told["evaluations"][evaluation["name"]]
        kind = kinds[evaluation["subject"]]
        if own["subject"] != evaluation["subject"] or (own["holds"] is None) == (kind == "Property"):
            yield f"{name}: told as an evaluation of `{own['subject']}` that is {own['holds'] or 'no property'}"
        if kind == "Property":
            compared += 1
            mine = holds(raw, evaluation, rows, void)
            if own["holds"] != mine:
                yield f"{name}: told as {own['holds']}, and the records say {mine}"
            rests = holding_on(evaluation, rows, void) if mine == "holds" else ""
            if own["note"] != rests:
                yield f"{name}: the proof is told to rest on “{own['note']}”, and it rests on “{rests}”"
            continue
        counted = numbers(raw, evaluation, rows, void, Only())
        theirs = {**own["columns"], **{f"attack_success:{k}": v for k, v in own["attacks"].items()}}
        theirs |= {f"found_alone:{k}": v for k, v in own["alone"].items()}
        theirs |= {f"corrupted_accuracy:{k}": v for k, v in own["corrupted"].items()}
        compared += len(counted)
        for column in sorted(counted.keys() | theirs.keys()):
            if _told(theirs.get(column)) != counted.get(column):
                said = _say(_told(theirs.get(column)))
                yield f"{name}: {column} is told as {said}, and is {_say(counted.get(column))}"
        if kind == "Shift":
            shift = next(s for s in raw["subjects"] if s["name"] == evaluation["subject"])
            of_shift = [r for r in rows if r.evaluation == name]
            fault = interval_fault(shift, of_shift, own["columns"]["corrupted_accuracy"]["interval"])
            yield from [f"{name}: {fault}"] if fault else []
        if kind == "Threat":
            yield from _words(raw, evaluation, rows, void, own)
        again = recount(raw, evaluation, rows, void, Only())
        counts = redraw.counts(again)
        if redraw.of_draws(again.subject):
            yield from (f"{name}: {fault}" for fault in redraw.limit_faults(again, theirs, population_fault))
        wrong = [f"{k} {own['counts'][k]} for {v}" for k, v in counts.items() if own["counts"][k] != v]
        yield from (f"{name}: the count {fault} is told" for fault in wrong)
        yield from _repeats(raw, evaluation, rows, void, own)
        if sorted({c["method"] for c in own["contradictions"] if not c["within_gap"]} - void):
            yield f"{name}: a contradiction is told that the records do not show"
    told_void = {c["method"] for e in told["evaluations"].values() for c in e["contradictions"] if not c["within_gap"]}
    yield from (
        f"{method} is contradicted by a witness and columns.json does not say so" for method in void - told_void
    )
    found.checked.append(f"{compared} headline numbers, counted again from the records")


def _words(raw: Json, evaluation: Json, rows: Sequence[Record], void: Units, own: Json) -> Iterator[str]:
    """The words beside what rests on certificates: in which arithmetic, how surely, trusting whom."""
    again = recount(raw, evaluation, rows, void, Only())
    counts, sure = redraw.counts(again), confidence_note(evaluation, rows)
    alone = tuple(_arithmetic(evaluation, rows, counts["certified_assumed"], counts["certified"], trusting=False))
    every = _arithmetic(evaluation, rows, counts["trusting_assumed"], counts["certified_trusting"], trusting=True)
    solvers = dict.fromkeys(s["trusts"] for s in again.proofs if s["evidence"] == "trusted")
    for column, words in (
        ("certified", [*alone, sure]),
        (rate_name(again.subject), alone),
        ("certified_trusting", [f"trusting {' and '.join(solvers)}", *every]),
    ):
        told, note = own["columns"].get(column), "; ".join(filter(None, words))
        if told is not None and told["note"] != note:
            yield f"{evaluation['name']}: {column} is told to hold in “{told['note']}”, and it is “{note}”"


def _arithmetic(
    evaluation: Json, rows: Sequence[Record], assumed: int, certified: int, *, trusting: bool
) -> Iterator[str]:
    able = {
        s["label"]
        for s in evaluation["stages"]
        if s["role"] != "attack" and s["lowering"] != "inner" and (trusting or s["evidence"] != "trusted")
    }
    given = [r for r in rows if r.evaluation == evaluation["name"] and r.verdict == "certified"]
    if any((r.gap is None or r.gap_kind == "none") and r.stage.rpartition("/")[2] in able for r in given):
        yield "real arithmetic"
    if assumed:
        yield "assumed" if assumed == certified else f"{assumed} of {certified} assumed"


def _repeats(raw: Json, evaluation: Json, rows: Sequence[Record], void: Units, own: Json) -> Iterator[str]:
    count = evaluation["repeats"]
    if len(own["repeats"]) not in (0, count):
        yield f"{evaluation['name']}: {len(own['repeats'])} of {count} repeats are told"
        return
    for r, column in enumerate(own["repeats"]):
        mine = numbers(raw, evaluation, rows, void, Only(repeat=r))
        number = mine.get("survival", mine.get("corrupted_accuracy"))
        if _told(column) != number:
            yield f"{evaluation['name']}: repeat {r} is told as {_say(_told(column))}, and is {_say(number)}"


def _told(column: Json | None) -> Number | None:
    if column is None:
        return None
    return column["numerator"], column["denominator"], _extent(column["low"]), _extent(column["high"])


def _extent(text: str | None) -> Fraction | float | None:
    """The number that a text stands for; what is no number equals none."""
    if text is None or text == "inf":
        return None if text is None else float("inf")
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return float("nan")


def _say(number: Number | None) -> str:
    if number is None:
        return "not measured"
    low, high = number[2], number[3]
    return "undefined" if low is None else f"{low}" if low == high else f"[{low}, {high}]"


def _claims(raw: Json, rows: Sequence[Record], void: Units, told: Json, found: Audit) -> Iterator[str]:
    if [c["text"] for c in told["claims"]] != [c["text"] for c in raw["claims"]]:
        yield "columns.json has other claims than the plan"
        return
    judged = 0
    for claim, own in zip(raw["claims"], told["claims"], strict=True):
        try:
            mine, limits = status(raw, claim, rows, void)
        except NotRejudged as why:
            found.unchecked.append(f"the claim “{claim['text']}”: {why}")
            continue
        judged += 1
        if own["status"] != mine:
            yield f"the claim “{claim['text']}” is told as {own['status']}, and is {mine}"
        if mine == "assumed" and not own["assumes"]:
            yield f"the claim “{claim['text']}” rests on an assumption, and none is told"
        drawn = drawing(raw, claim, rows, void)
        sampled = claim["population"] is not None if drawn is None else drawn[0] > 0
        if limits is not None and sampled:
            yield from _population(raw, claim, rows, void, own, drawn)
        elif (_extent(own["low"]), _extent(own["high"])) != (limits or (None, None)):
            yield f"the claim “{claim['text']}” is told to range over [{own['low']}, {own['high']}]"
    found.checked.append(f"{judged} claims, judged again")


def _population(
    raw: Json, claim: Json, rows: Sequence[Record], void: Units, own: Json, drawn: tuple[int, int, str] | None
) -> Iterator[str]:
    """The limits of a claim about a population, or about all draws, by their tails."""
    mine = number(raw, claim["left"], rows, void)
    low, high = _extent(own["low"]), _extent(own["high"])
    if mine is None or mine[2] is None or mine[3] is None or low is None or high is None:
        yield f"the claim “{claim['text']}” is told to have limits, and nothing measured it"
        return
    n, base, confidence = drawn or (mine[1], mine[1], claim["population"])
    scale = Fraction(base, n)
    limits = Fraction(low) * scale, Fraction(high) * scale
    fault = population_fault(Fraction(mine[2]) * scale, Fraction(mine[3]) * scale, n, limits, Fraction(confidence))
    if fault:
        yield f"the claim “{claim['text']}”: {fault}"


# Candidates ----------------------------------------------------------------------------------------------------------


def _candidates(bundle: Bundle, plan: Plan, rows: Sequence[Record], found: Audit) -> Iterator[str]:
    """Every saved candidate: measured again against its row, and every counted failure has one."""
    subjects = {e.name: plan.subject(e.subject) for e in plan.evaluations}
    measured, skipped = 0, set()
    for row in rows:
        subject = subjects.get(row.evaluation)
        if subject is None:
            continue
        if row.candidate is None:
            if row.observed_failure:
                yield f"{row.evaluation}, {row.unit}: a failure without the input that fails"
            continue
        try:
            faults = list(_measure(bundle, plan, subject, row))
            measured += 1
        except CannotMeasure as why:
            skipped.add(str(why))
            continue
        except Stop as stopped:
            faults = [d.message for d in stopped.diagnostics]
        yield from (f"{row.evaluation}, {row.unit}, {row.stage}: {fault}" for fault in faults)
    yield from _shared(bundle, plan, rows, found)
    found.checked.append(f"membership and distances of {measured} saved inputs, measured again in rationals")
    found.unchecked += [f"membership of some saved inputs: {why}" for why in sorted(skipped)]


def _shared(bundle: Bundle, plan: Plan, rows: Sequence[Record], found: Audit) -> Iterator[str]:
    """What a universal perturbation is told to break was made of one perturbation."""
    for evaluation in plan.evaluations:
        subject = plan.subject(evaluation.subject)
        if not isinstance(subject, Threat) or subject.perturbation != "universal":
            continue
        space = plan.space(plan.model(subject.model).space)
        pairs: list[Pair] = []
        made: set[str] = set()
        for row in rows:
            counted = row.observed_failure or (row.outcomes is not None and row.status == "valid")
            if row.evaluation == evaluation.name and counted and row.candidate is not None:
                try:
                    stored, original, indices = bundle.candidate(row.candidate)
                    start = exact_values(space, original, indices=indices)
                    pairs.append((start, exact_values(space, stored, indices=indices)))
                    made.add(repr(bundle.parameters(row.candidate)))
                except (ValueError, Stop):  # told where the input is measured
                    continue
        if pairs and (len(made) > 1 or ("None" in made and not is_one_perturbation(space, pairs))):
            yield f"{evaluation.name}: {len(pairs)} inputs are told to be made of one perturbation, and they are not"
        found.checked.append(f"{len(pairs)} inputs of {evaluation.name} come of one perturbation")


def _measure(bundle: Bundle, plan: Plan, subject: Threat | Property | Shift, row: Record) -> Iterator[str]:
    space = plan.space(plan.model(subject.model).space)
    assert row.candidate is not None
    stored, original, indices = bundle.candidate(row.candidate)
    start = exact_values(space, original, indices=indices)
    try:
        point = exact_values(space, stored, indices=indices)
    except ValueError as fault:
        if row.within_scope is not False:
            yield f"told as inside its set, and {fault}"
        return
    yield from seed_faults(plan, space, row, stored, indices=indices)
    if isinstance(subject, Threat):
        yield from nature_faults(bundle, space, subject, row, start, point)
    broken = broken_rules(space, subject, start, point, bundle.parameters(row.candidate))
    if row.within_scope is not None and row.within_scope == bool(broken):
        yield f"told as within_scope {row.within_scope}, and " + (
            f"it breaks {broken[0]}" if broken else "it is inside"
        )
    if isinstance(subject, Threat):
        yield from _branches(space, subject, row, start, point, bundle.parameters(row.candidate))
        yield from _distances(space, row, start, point)
        if isinstance(subject.allow, Ball) and row.distance is not None:
            yield from _own_distance(subject.allow, row, start, point, plan)


def _branches(
    space: Space,
    threat: Threat,
    row: Record,
    start: list[Fraction],
    point: list[Fraction],
    theta: Sequence[float] | None,
) -> Iterator[str]:
    """A candidate inside a union lies in the branches that it is told to lie in, and a failure in no other."""
    if not isinstance(threat.allow, Either) or row.within_scope is not True:
        return
    told, mine = set((row.branch or "").split()), branches_around(space, threat.allow, start, point, theta)
    if told - mine or (row.observed_failure and told != mine):
        yield f"told in branches {sorted(told)}, and it lies in {sorted(mine)}"


def _distances(space: Space, row: Record, start: list[Fraction], point: list[Fraction]) -> Iterator[str]:
    if row.linf is not None and not _near(row.linf, distance(space, "linf", start, point)):
        yield f"told at linf {row.linf}, and it is at {float(distance(space, 'linf', start, point))}"
    if row.l2 is not None and not _near(row.l2 * row.l2, squared(start, point)):
        yield f"told at l2 {row.l2}, and it is at {float(squared(start, point)) ** 0.5}"
    if row.l1 is not None and not _near(row.l1, distance(space, "l1", start, point)):
        yield f"told at l1 {row.l1}, and it is at {float(distance(space, 'l1', start, point))}"
    if row.l0 is not None and row.l0 != distance(space, "l0", start, point):
        yield f"told to change {row.l0} coordinates, and it changes {distance(space, 'l0', start, point)}"


def _own_distance(ball: Ball, row: Record, start: list[Fraction], point: list[Fraction], plan: Plan) -> Iterator[str]:
    if ball.per is not None or ball.norm in ("l2", "l2_rms"):
        return
    space = plan.space(ball.space)
    mine = distance(space, ball.norm, start, point, ball.metric)
    assert row.distance is not None
    if not _near(row.distance, mine):
        yield f"told at a distance of {row.distance}, and it is at {float(mine)}"


def _near(told: float, exact: Fraction) -> bool:
    """Recorded distances are float64 within an ulp or two of the exact one."""
    return abs(Fraction(told) - exact) <= exact / 2**45
