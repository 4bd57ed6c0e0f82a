"""What follows for a claim: supported, refuted or undecided, and on which records (LANGUAGE.md section 7)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from tmlang.audit import corruptions
from tmlang.audit.columns import Extent
from tmlang.audit.comparison import Side, not_comparable
from tmlang.audit.intervals import population_interval
from tmlang.audit.quantities import (
    NOT_SHARES,
    NotMeasured,
    Reading,
    baseline_of,
    find_evaluation,
    name_of,
    read,
    rests_on,
)
from tmlang.audit.record import Record
from tmlang.audit.show import interval, number, percent
from tmlang.audit.tally import tally, voided_methods
from tmlang.audit.units import of_the_object
from tmlang.meaning.evaluations import OF_POPULATIONS, Claim, Measured, RoundsTo
from tmlang.meaning.models import Data
from tmlang.meaning.threats import Property, Threat
from tmlang.plan.ir import EvaluationPlan, Plan

ClaimStatus = Literal["supported", "refuted", "undecided", "not_evaluated"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """``[low, high]`` is the range of the claimed quantity (``None`` where it is undefined or not measured).

    ``rests_on``: the stages whose records it was read from. ``reason`` says in one sentence why.
    """

    claim: Claim
    status: ClaimStatus
    low: Extent | None
    high: Extent | None
    reason: str
    rests_on: tuple[str, ...] = ()


def judge_plan(plan: Plan, records: Sequence[Record]) -> tuple[Judgement, ...]:
    """Every claim of the plan, in order."""
    voided = voided_methods(plan, records)
    return tuple(_judge(claim, plan, records, voided) for claim in plan.claims)


def judge(claim: Claim, plan: Plan, records: Sequence[Record]) -> Judgement:
    """Judge one claim of ``plan``: supported iff it holds throughout the range of its column, refuted iff it fails
    throughout, else undecided (what nothing measured included); not evaluated under ``--set``."""
    return _judge(claim, plan, records, voided_methods(plan, records))


def exit_code(judgements: Sequence[Judgement], *, complete: bool, contradicted: bool) -> int:
    """0 all claims supported, 3 some refuted, 4 some undecided or not evaluated, 5 the run is incomplete or a
    certificate was contradicted (which goes before everything: no number of such a run stands)."""
    statuses = {j.status for j in judgements}
    if contradicted:
        return 5
    if "refuted" in statuses:
        return 3
    if not complete:
        return 5
    return 4 if statuses - {"supported"} else 0


def _judge(claim: Claim, plan: Plan, records: Sequence[Record], voided: frozenset[str]) -> Judgement:
    changed = [p.name for p in plan.parameters if p.changed]
    if changed:
        reason = f"{', '.join(changed)} was set for this run, which makes it another claim"
        return Judgement(claim, "not_evaluated", None, None, reason)
    try:
        if claim.op == "holds":
            return _judge_property(claim, plan, records, voided)
        reading = read(claim.left, plan, records, voided)
        if isinstance(claim.right, Measured):
            return _judge_comparison(claim, reading, read(claim.right, plan, records, voided), plan, records)
        return _judge_number(claim, reading, plan)
    except NotMeasured as why:
        return Judgement(claim, "undecided", None, None, str(why))


_COMPARE: dict[str, Callable[[Extent, Extent], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def decide(low: Extent, high: Extent, op: str, right_low: Extent, right_high: Extent) -> ClaimStatus:
    """Whether ``[low, high] op [right_low, right_high]`` holds for all, for none, or for some pairs of values."""
    if op == "==":
        if low == high == right_low == right_high:
            return "supported"
        return "refuted" if high < right_low or low > right_high else "undecided"
    compare = _COMPARE[op]
    upwards = op in (">=", ">")
    worst, best = (low, high) if upwards else (high, low)
    right_worst, right_best = (right_high, right_low) if upwards else (right_low, right_high)
    if compare(worst, right_worst):
        return "supported"
    return "undecided" if compare(best, right_best) else "refuted"


def _judge_number(claim: Claim, reading: Reading, plan: Plan) -> Judgement:
    low, high = reading.low, reading.high
    if claim.population is not None:
        low, high = _population(claim.left.quantity, reading, plan, claim.population)
    if isinstance(claim.right, RoundsTo):
        half = Fraction(1, 2) / 10**claim.right.decimals / (100 if claim.right.percent else 1)
        least, most = claim.right.value - half, claim.right.value + half
        inside = least <= low and high <= most
        status: ClaimStatus = "supported" if inside else "refuted" if high < least or low > most else "undecided"
    else:
        assert isinstance(claim.right, Fraction)
        status = decide(low, high, claim.op, claim.right, claim.right)
    rests = _rests(claim.left, reading, plan)
    reason = _reason(reading, low, high, status, claim)
    if claim.population is not None:
        reason = f"in the population ({_data(reading, plan).population}) {reason}"
    return Judgement(claim, status, low, high, reason, rests)


def _rests(measured: Measured, reading: Reading, plan: Plan) -> tuple[str, ...]:
    """The stages whose records a quantity is read from, those of its baseline too."""
    rests = rests_on(reading.evaluation, measured.quantity, measured.args)
    if measured.quantity in corruptions.QUANTITIES:
        rests += rests_on(baseline_of(plan, dict(measured.args)), measured.quantity)
    return rests


def _reason(reading: Reading, low: Extent, high: Extent, status: ClaimStatus, claim: Claim) -> str:
    column = reading.column
    share = claim.left.quantity not in NOT_SHARES
    of = f" of {column.denominator}" if share else ""
    is_ = "is" if low == high else "lies in"
    note = f", {column.note}" if claim.left.quantity in corruptions.QUANTITIES else ""
    text = f"it {is_} {interval(low, high, share=share)}{of}{note}"
    if status == "undecided":
        open_ = "; ".join(f"{g.reason}: {g.units}" for g in column.gaps)
        return f"{text}, and the claim holds in a part of that range only" + (f" ({open_})" if open_ else "")
    return text


def _population(quantity: str, reading: Reading, plan: Plan, confidence: Fraction) -> tuple[Extent, Extent]:
    """Clopper-Pearson limits around the column's range; raises :class:`NotMeasured` without a sample or where clean
    errors are left out of the denominator (EVIDENCE.md section 8)."""
    subject = plan.subject(reading.evaluation.subject)
    if not isinstance(subject, Threat) or subject.clean_errors != "fail":
        raise NotMeasured("a population interval is defined where clean errors count as failures")
    if quantity not in OF_POPULATIONS or subject.goal.kind == "each":
        raise NotMeasured("it is no share of examples that were drawn one by one")
    data = _data(reading, plan)
    if data.population is None:
        raise NotMeasured(f"nothing says that {data.name} is a sample of its population")
    n = reading.column.denominator
    limits = population_interval(int(reading.low * n), int(reading.high * n), n, confidence)
    return Fraction(limits[0]), Fraction(limits[1])


def _data(reading: Reading, plan: Plan) -> Data:
    subject = plan.subject(reading.evaluation.subject)
    assert not isinstance(subject, Property)
    return plan.data_set(subject.data)


def _judge_comparison(claim: Claim, left: Reading, right: Reading, plan: Plan, records: Sequence[Record]) -> Judgement:
    """Two evaluations: all of one range against all of the other, on the same units, set and failure or not at all."""
    why = not_comparable(*(_side(x.evaluation, plan, records) for x in (left, right)))
    if why:
        raise NotMeasured(f"the two are not comparable: {why}")
    assert isinstance(claim.right, Measured)
    status = decide(left.low, left.high, claim.op, right.low, right.high)
    share = claim.left.quantity not in NOT_SHARES
    reason = f"{interval(left.low, left.high, share=share)} against {interval(right.low, right.high, share=share)}"
    if claim.left.quantity == "survival":
        reason += "; this compares two finite searches, not the models"
    rests = _rests(claim.left, left, plan) + _rests(claim.right, right, plan)
    return Judgement(claim, status, left.low, left.high, reason, tuple(dict.fromkeys(rests)))


def _side(e: EvaluationPlan, plan: Plan, records: Sequence[Record]) -> Side:
    return Side(e.name, e, plan.subject(e.subject), records)


def _judge_property(claim: Claim, plan: Plan, records: Sequence[Record], voided: frozenset[str]) -> Judgement:
    evaluation = find_evaluation(plan, claim.left.evaluation, dict(claim.left.args))
    subject = plan.subject(evaluation.subject)
    columns = tally(evaluation, subject, of_the_object(records), voided=voided)
    real = tally(evaluation, subject, records, voided=voided).holds != columns.holds
    status: dict[str | None, ClaimStatus] = {"holds": "supported", "violated": "refuted"}
    reason = {
        "holds": "no input of the box violates the property",
        "violated": "a replayed input violates the property",
        "vacuous": f"{subject.name} speaks of no input: it is vacuous, which is no evidence",
    }.get(columns.holds or "", "it is proved in real arithmetic only" if real else "no stage decided the property")
    rests = () if columns.holds == "vacuous" else rests_on(evaluation, "holds")
    return Judgement(claim, status.get(columns.holds, "undecided"), None, None, reason, rests)


_SIGNS = {"<=": "≤", ">=": "≥", "<": "<", ">": ">", "==": "=", "rounds_to": "rounds to"}


def formula(claim: Claim) -> str:
    """The claim as a line: ``survival(aa, radius: 1/2) ≥ 45 %``."""
    left = _term(claim.left)
    if claim.op == "holds":
        return left
    unit = f" {claim.unit}" if claim.unit and claim.unit != "%" else ""
    if isinstance(claim.right, Measured):
        right = _term(claim.right)
    elif isinstance(claim.right, RoundsTo):
        scale = 100 if claim.right.percent else 1
        right = f"{float(claim.right.value * scale):.{claim.right.decimals}f}{' %' if claim.right.percent else unit}"
    elif claim.left.quantity in NOT_SHARES:
        right = number(claim.right) + unit
    else:
        right = percent(claim.right, decimals=6)
    within = f", population at {percent(claim.population, 6)}" if claim.population is not None else ""
    return f"{left} {_SIGNS[claim.op]} {right}{within}"


def _term(measured: Measured) -> str:
    args = "".join(f", {name}: {name_of(value)}" for name, value in measured.args)
    return f"{measured.quantity}({measured.evaluation}{args})"
