"""From a quantity as a claim names it to its column: ``survival(aa, radius: 1/2, part: flat)``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tmlang.audit import corruptions
from tmlang.audit.columns import Column, Columns, Extent, Gap, Restriction
from tmlang.audit.levels import JUDGED, SHOWN, Level
from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.tally import tally
from tmlang.audit.units import (
    attack_stages,
    claims_certificate,
    in_real_arithmetic,
    is_plain,
    is_trusted,
    proof_stages,
    stage_label,
)
from tmlang.meaning.evaluations import Measured
from tmlang.meaning.values import Distance, Quantity, Symbol, Value
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import EvaluationPlan, Plan

NOT_SHARES = frozenset({"median_distance", *corruptions.QUANTITIES})
"""Quantities that are no share of units."""


class NotMeasured(Exception):
    """The quantity has no value in this run, for the reason given."""


Range = tuple[Extent, Extent]


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured quantity: its evaluation, its column as claims read it, and that column's range, which holds those
    of ``at``: its range at each level of ``levels.JUDGED``."""

    evaluation: EvaluationPlan
    column: Column
    low: Extent
    high: Extent
    at: tuple[Range, ...]


def read(measured: Measured, plan: Plan, records: Sequence[Record], voided: frozenset[str]) -> Reading:
    """The column that ``survival(aa, radius: 1/2, part: flat)`` names; raises :class:`NotMeasured`.

    A claim is about the object under its evaluator, so it is judged without what rests on assumptions, with it, and
    with what holds in real arithmetic alone (EVIDENCE.md sections 2 and 6); the range told is as wide as all of them.
    """
    evaluation = find_evaluation(plan, measured.evaluation, dict(measured.args))
    mine = [r for r in records if r.evaluation == evaluation.name]
    stages = {s.label: s for s in proof_stages(evaluation)}
    proofs = [
        (stages[at], r) for r in mine if (at := stage_label(evaluation, r)) in stages and r.verdict == "certified"
    ]
    plain = all(is_plain(s, r) for s, r in proofs) and not any(is_trusted(s) for s in stages.values())
    levels = (SHOWN,) if plain else JUDGED
    columns = [_column(measured, evaluation, plan, records, voided, level) for level in levels]
    found = [(c.low, c.high) for c in columns if c.low is not None and c.high is not None]
    if len(found) < len(levels):
        raise NotMeasured(f"{measured.quantity.replace('_', ' ')} is undefined: its denominator is empty")
    low, high = min(low for low, _ in found), max(high for _, high in found)
    real = sum(in_real_arithmetic(r) for _, r in proofs)
    column = replace(columns[0], low=low, high=high)
    if real and len(set(found)) > 1:
        gap = Gap("certified in real arithmetic, which is not the object's", real)
        column = replace(column, gaps=(*column.gaps, gap))
    return Reading(evaluation, column, low, high, tuple(found) if len(found) > 1 else tuple(found) * len(JUDGED))


def assumptions(evaluation: EvaluationPlan, records: Iterable[Record]) -> tuple[str, ...]:
    """What the certificates of an evaluation that count once everything is granted rest on, in words."""
    mine = [r for r in records if r.evaluation == evaluation.name and claims_certificate(r)]
    found = []
    for stage in proof_stages(evaluation):
        given = [r for r in mine if stage_label(evaluation, r) == stage.label and not in_real_arithmetic(r)]
        if given and stage.trusts:
            found.append(f"trusts {stage.trusts}")
        if any(r.gap_kind != "proved" for r in given):
            argument = "`rounding: assumed`" if "rounding" in dict(stage.arguments) else "the assumed gap"
            found.append(f"rests on {argument} of {stage.label}")
    return tuple(dict.fromkeys(found))


def _column(
    measured: Measured,
    evaluation: EvaluationPlan,
    plan: Plan,
    records: Sequence[Record],
    voided: frozenset[str],
    level: Level,
) -> Column:
    args = dict(measured.args)
    columns = tally(
        evaluation,
        plan.subject(evaluation.subject),
        records,
        restriction=Restriction(
            part=name_of(args["part"]) if "part" in args else None,
            radius=_number(args["radius"]) if "radius" in args else None,
            queries=int(_number(args["queries"])) if "queries" in args else None,
            level=level,
        ),
        voided=voided,
    )
    if measured.quantity in corruptions.QUANTITIES:
        baseline = baseline_of(plan, args)
        other = tally(baseline, plan.subject(baseline.subject), records)
        column: Column | None = _corruption_error(measured.quantity, columns, other)
    elif measured.quantity == "attack_success":
        wanted = name_of(args["attack"]) if "attack" in args else None
        named = [c for label, c in columns.attacks if wanted in (None, label)]
        column = named[0] if len(named) == 1 else None
    else:
        column = columns.get(measured.quantity)
    if column is None:
        raise NotMeasured(f"no stage of {evaluation.name} measures {measured.quantity.replace('_', ' ')}")
    return column


def find_evaluation(plan: Plan, name: str, args: dict[str, Value]) -> EvaluationPlan:
    """The evaluation of that name, at the point of its curve that ``args`` names."""
    named = [e for e in plan.evaluations if name in (e.name, declared_name(e))]
    found = [e for e in named if all(k in args and _number(args[k]) == _number(v) for k, v in e.at)]
    if len(found) != 1:
        raise NotMeasured(f"{name} has {'no' if not found else 'more than one'} point where the claim looks")
    return found[0]


def baseline_of(plan: Plan, args: dict[str, Value]) -> EvaluationPlan:
    """The evaluation that a corruption error is relative to, at the same point of a curve."""
    return find_evaluation(plan, name_of(args["baseline"]), args)


def _corruption_error(name: str, own: Columns, baseline: Columns) -> Column:
    try:
        return corruptions.corruption_error(name, _errors(own), _errors(baseline))
    except corruptions.Undefined as why:
        raise NotMeasured(str(why)) from why


def corruption_errors(name: str, own: Columns, baseline: Columns) -> dict[str, tuple[Fraction, Fraction]]:
    """The range of the error of each corruption relative to the baseline's, of those where it is defined."""
    return corruptions.ratios(name, _errors(own), _errors(baseline))


def _errors(columns: Columns) -> corruptions.Errors:
    pooled = columns.get("corrupted_accuracy")
    if pooled is None:
        raise NotMeasured(f"{columns.evaluation} is of no shift")
    return corruptions.Errors.of(columns.corrupted, columns.get("clean_accuracy"), pooled)


def _number(value: Value) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, (Quantity, Distance)):
        return value.value
    raise NotMeasured(f"{value!r} is no number")


def name_of(value: Value) -> str:
    """A name or number as it stands in a claim."""
    if isinstance(value, Symbol):
        return value.name
    return value if isinstance(value, str) else str(_number(value))


def rests_on(evaluation: EvaluationPlan, quantity: str, args: Iterable[tuple[str, Value]] = ()) -> tuple[str, ...]:
    """The stages whose records a quantity is read from, as ``<evaluation>/<label>``."""
    searched = [s.label for s in attack_stages(evaluation)]
    proved = [s.label for s in proof_stages(evaluation)]
    found = list(dict.fromkeys(s.label for s in evaluation.stages))
    of: dict[str, list[str]] = {
        "survival": searched,
        "attack_coverage": searched,
        "certified": proved,
        "certificate_coverage": proved,
        "clean_accuracy": [],
        "reviewed": [],
        "attack_success": [name_of(v) for k, v in args if k == "attack"],
    }
    return tuple(f"{evaluation.name}/{label}" for label in (CLEAN_STAGE, *of.get(quantity, found)))
