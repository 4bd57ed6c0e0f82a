"""What follows for a claim: supported, perhaps under an assumption, refuted or undecided, and on which records
(LANGUAGE.md section 7)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Literal

from tmlang.audit import corruptions
from tmlang.audit.columns import Extent, Restriction
from tmlang.audit.comparison import Side, not_comparable
from tmlang.audit.intervals import population_interval
from tmlang.audit.levels import GRANTED, JUDGED, SURE
from tmlang.audit.quantities import (
    NOT_SHARES,
    NotMeasured,
    Range,
    Reading,
    assumptions,
    baseline_of,
    find_evaluation,
    name_of,
    read,
    rests_on,
)
from tmlang.audit.record import Record
from tmlang.audit.show import interval, number, percent
from tmlang.audit.tally import tally, voided_methods
from tmlang.meaning.evaluations import CONFIDENCE, OF_DRAWS, OF_POPULATIONS, Claim, Measured, RoundsTo
from tmlang.meaning.models import Data
from tmlang.meaning.threats import Property, Threat
from tmlang.plan.ir import EvaluationPlan, Plan

ClaimStatus = Literal["supported", "assumed", "refuted", "undecided", "not_evaluated"]
STATUS_WORDS: Mapping[ClaimStatus, str] = {
    "supported": "supported",
    "assumed": "supported under an assumption",
    "refuted": "refuted",
    "undecided": "undecided",
    "not_evaluated": "not evaluated",
}
"""How a status is told to people."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """``[low, high]`` is the range of the claimed quantity (``None`` where it is undefined or not measured).

    ``rests_on``: the stages whose records it was read from. ``reason`` says in one sentence why. ``assumes``: what the
    range rests on in part, in words; an ``assumed`` claim would not be supported without it.
    """

    claim: Claim
    status: ClaimStatus
    low: Extent | None
    high: Extent | None
    reason: str
    rests_on: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()


def judge_plan(plan: Plan, records: Sequence[Record]) -> tuple[Judgement, ...]:
    """Every claim of the plan, in order."""
    voided = voided_methods(plan, records)
    return tuple(_judge(claim, plan, records, voided) for claim in plan.claims)


def judge(claim: Claim, plan: Plan, records: Sequence[Record]) -> Judgement:
    """Judge one claim of ``plan``: supported iff it holds throughout the range of its column, refuted iff it fails
    throughout, with the evidence that rests on assumptions and without it; assumed iff it holds with it alone, else
    undecided (what nothing measured included); not evaluated under ``--set``."""
    return _judge(claim, plan, records, voided_methods(plan, records))


def exit_code(judgements: Sequence[Judgement], *, complete: bool, contradicted: bool) -> int:
    """0 all claims supported, 3 some refuted, 4 some undecided or not evaluated, 6 neither, and some supported under an
    assumption; 5 the run is incomplete or a certificate was contradicted (which goes before everything: no number of
    such a run stands)."""
    statuses = {j.status for j in judgements}
    if contradicted:
        return 5
    if "refuted" in statuses:
        return 3
    if not complete:
        return 5
    if statuses - {"supported", "assumed"}:
        return 4
    return 6 if "assumed" in statuses else 0


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
        return _judge_number(claim, reading, plan, records)
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


def joined(whole: ClaimStatus, granted: Collection[ClaimStatus]) -> ClaimStatus:
    """One status out of that of the whole range, whatever is believed, and those with everything granted. What is
    granted may support a claim, and says so, and never refutes one."""
    if whole != "undecided":
        return whole
    return "assumed" if set(granted) == {"supported"} else "undecided"


def _granted(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """The ranges with everything granted, without and with what holds in real arithmetic alone."""
    return tuple(ends for level, ends in zip(JUDGED, ranges, strict=True) if level != SURE)


def _hull(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _judge_number(claim: Claim, reading: Reading, plan: Plan, records: Sequence[Record]) -> Judgement:
    ranges = reading.at
    drawn = reading.column.drawn if claim.left.quantity in OF_DRAWS else None
    if drawn is not None:
        ranges = tuple(_of_draws(ends, drawn, reading.column.denominator, claim.population) for ends in reading.at)
    elif claim.population is not None:
        confidence = claim.population
        ranges = tuple(_population(claim.left.quantity, reading, ends, plan, confidence) for ends in reading.at)
    low, high = _hull(ranges)
    status = joined(_decided(claim, low, high), [_decided(claim, *ends) for ends in _granted(ranges)])
    rests = _rests(claim.left, reading, plan)
    sure, granted = _ends(ranges)
    assumes = assumptions(reading.evaluation, records) if sure != granted else ()
    reason = _reason(reading, ranges, status, claim, assumes)
    if drawn is not None:
        reason = f"over the draws, at {percent(claim.population or CONFIDENCE)}, {reason}"
    elif claim.population is not None:
        reason = f"in the population ({_data(reading, plan).population}) {reason}"
    return Judgement(claim, status, low, high, reason, rests, assumes)


def _ends(ranges: Sequence[Range]) -> tuple[Range, Range]:
    """The ranges without anything assumed, and with everything granted."""
    return ranges[JUDGED.index(SURE)], ranges[JUDGED.index(GRANTED)]


def _decided(claim: Claim, low: Extent, high: Extent) -> ClaimStatus:
    """What follows of one range alone."""
    if isinstance(claim.right, RoundsTo):
        half = Fraction(1, 2) / 10**claim.right.decimals / (100 if claim.right.percent else 1)
        least, most = claim.right.value - half, claim.right.value + half
        inside = least <= low and high <= most
        return "supported" if inside else "refuted" if high < least or low > most else "undecided"
    assert isinstance(claim.right, Fraction)
    return decide(low, high, claim.op, claim.right, claim.right)


def _rests(measured: Measured, reading: Reading, plan: Plan) -> tuple[str, ...]:
    """The stages whose records a quantity is read from, those of its baseline too."""
    rests = rests_on(reading.evaluation, measured.quantity, measured.args)
    if measured.quantity in corruptions.QUANTITIES:
        rests += rests_on(baseline_of(plan, dict(measured.args)), measured.quantity)
    return rests


def _granting(assumes: Sequence[str]) -> str:
    return f"under an assumption ({'; '.join(assumes)})"


def _reason(
    reading: Reading, ranges: Sequence[Range], status: ClaimStatus, claim: Claim, assumes: Sequence[str]
) -> str:
    column = reading.column
    share = claim.left.quantity not in NOT_SHARES
    of = f" of {column.denominator}" if share else ""
    note = f", {column.note}" if claim.left.quantity in corruptions.QUANTITIES else ""
    sure, granted = _ends(ranges)

    def lies(ends: Range) -> str:
        return f"{'is' if ends[0] == ends[1] else 'lies in'} {interval(*ends, share=share)}"

    if assumes:
        text = f"it {lies(granted)}{of} {_granting(assumes)}, and {lies(sure)} without it"
    else:
        text = f"it {lies(_hull(ranges))}{of}{note}{_of_these(reading)}"
    if status == "undecided":
        open_ = "; ".join(f"{g.reason}: {g.units}" for g in column.gaps)
        part = "in some of these values only" if assumes else "in a part of that range only"
        return f"{text}, and the claim holds {part}" + (f" ({open_})" if open_ else "")
    return text


def _of_these(reading: Reading) -> str:
    """That an average is of these examples alone, and its interval."""
    told = reading.column.interval
    if told is None or reading.column.drawn is not None:
        return ""
    ends = interval(Fraction(told.low), Fraction(told.high))
    return f" (these examples alone; interval {ends} at {percent(told.level)})"


def _of_draws(ends: Range, drawn: int, denominator: int, confidence: Fraction | None) -> Range:
    """Clopper-Pearson limits of the mean probability over what nature or the object draws: an open draw counts at the
    end where it hurts, and what was not drawn fails (EVIDENCE.md section 5)."""
    if not drawn:
        return ends
    scale = Fraction(drawn, denominator)
    low, high = (int(end * denominator) for end in ends)
    limits = population_interval(low, high, drawn, CONFIDENCE if confidence is None else confidence)
    return Fraction(limits[0]) * scale, Fraction(limits[1]) * scale


def _population(quantity: str, reading: Reading, ends: Range, plan: Plan, confidence: Fraction) -> Range:
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
    limits = population_interval(int(ends[0] * n), int(ends[1] * n), n, confidence)
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
    pairs = product(_granted(left.at), _granted(right.at))
    whole = decide(left.low, left.high, claim.op, right.low, right.high)
    status = joined(whole, [decide(*mine, claim.op, *theirs) for mine, theirs in pairs])
    share = claim.left.quantity not in NOT_SHARES
    reason = f"{interval(left.low, left.high, share=share)} against {interval(right.low, right.high, share=share)}"
    if claim.left.quantity == "survival":
        reason += "; this compares two finite searches, not the models"
    rests = tuple(dict.fromkeys(_rests(claim.left, left, plan) + _rests(claim.right, right, plan)))
    both: list[str] = []
    for side in (left, right):
        sure, granted = _ends(side.at)
        both += assumptions(side.evaluation, records) if sure != granted else ()
    assumes = tuple(dict.fromkeys(both))
    reason += f", in part {_granting(assumes)}" if assumes else ""
    return Judgement(claim, status, left.low, left.high, reason, rests, assumes)


def _side(e: EvaluationPlan, plan: Plan, records: Sequence[Record]) -> Side:
    return Side(e.name, e, plan.subject(e.subject), records)


def _judge_property(claim: Claim, plan: Plan, records: Sequence[Record], voided: frozenset[str]) -> Judgement:
    evaluation = find_evaluation(plan, claim.left.evaluation, dict(claim.left.args))
    subject = plan.subject(evaluation.subject)
    at = [tally(evaluation, subject, records, restriction=Restriction(level=x), voided=voided).holds for x in JUDGED]
    words: dict[str | None, ClaimStatus] = {"holds": "supported", "violated": "refuted"}
    told = [words.get(verdict, "undecided") for verdict in at]
    status = joined(told[JUDGED.index(SURE)], [one for x, one in zip(JUDGED, told, strict=True) if x != SURE])
    assumes = assumptions(evaluation, records) if status == "assumed" else ()
    open_ = "it is proved in real arithmetic only" if "holds" in at else "no stage decided the property"
    empty = f"{subject.name} speaks of no input: it is vacuous, which is no evidence"
    reason = {
        "supported": "no input of the box violates the property",
        "assumed": f"no input of the box violates the property, {_granting(assumes)}",
        "refuted": "a replayed input violates the property",
    }.get(status, empty if "vacuous" in at else open_)
    rests = () if "vacuous" in at else rests_on(evaluation, "holds")
    return Judgement(claim, status, None, None, reason, rests, assumes)


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
