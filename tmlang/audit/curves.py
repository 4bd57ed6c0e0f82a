"""Numbers along a line: survival after each attack in order, and sweeps over a parameter (EVIDENCE.md section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tmlang.audit.columns import Column, Columns, Restriction
from tmlang.audit.counting import column
from tmlang.audit.record import Record
from tmlang.audit.reuse import reuse
from tmlang.audit.tally import tally, voided_methods
from tmlang.audit.units import attack_stages
from tmlang.meaning.evaluations import Curve
from tmlang.meaning.threats import Threat
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import EvaluationPlan, Plan


def after_each_attack(
    evaluation: EvaluationPlan, threat: Threat, records: Sequence[Record]
) -> tuple[tuple[str, Column], ...]:
    """Survival when the suite is cut off behind each of its attacks; first, under ``""``, before any of them.

    A prefix of a suite is a suite, so each point is a survival; the last is the headline unless a solver broke more.
    """
    stages = attack_stages(evaluation)
    if not stages:
        return ()
    points = []
    for count in range(1, len(stages) + 1):
        cut = replace(evaluation, stages=stages[:count])
        columns = tally(cut, threat, records)
        if count == 1:
            k = columns.counts
            points.append(("", column("survival", k.cc, k.cc + k.cu, k.denominator)))
        survival = columns.get("survival")
        assert survival is not None
        points.append((stages[count - 1].label, survival))
    return tuple(points)


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """``own``: what this point's records say. ``closed``: after reuse, witnesses of smaller sets and certificates of
    larger ones counted in; only closed curves are monotone."""

    value: Fraction
    own: Columns
    closed: Columns


@dataclass(frozen=True, slots=True)
class Sweep:
    """An evaluation over several values of a parameter, of the radius or of the queries, in rising order."""

    evaluation: str
    parameter: str
    points: tuple[SweepPoint, ...]


def sweeps(plan: Plan, records: Sequence[Record]) -> tuple[Sweep, ...]:
    """Every curve of the plan over threats."""
    voided = voided_methods(plan, records)
    found = [_within(plan, e, curve, records, voided) for e in plan.evaluations for curve in e.curves if not e.at]
    names = dict.fromkeys(declared_name(e) for e in plan.evaluations if len(e.at) == 1)
    found += [_across(plan, name, records, voided) for name in names]
    return tuple(sweep for sweep in found if sweep.points)


def _within(
    plan: Plan, evaluation: EvaluationPlan, curve: Curve, records: Sequence[Record], voided: frozenset[str]
) -> Sweep:
    """A curve over ``radius`` or ``queries``: restrictions of the same records, which are closed by themselves."""
    subject = plan.subject(evaluation.subject)
    points = []
    for value in (
        sorted(curve.values) if isinstance(subject, Threat) and curve.parameter in ("radius", "queries") else ()
    ):
        only = Restriction(radius=value) if curve.parameter == "radius" else Restriction(queries=int(value))
        columns = tally(evaluation, subject, records, restriction=only, voided=voided)
        points.append(SweepPoint(value, columns, columns))
    return Sweep(evaluation.name, curve.parameter, tuple(points))


def _across(plan: Plan, name: str, records: Sequence[Record], voided: frozenset[str]) -> Sweep:
    """A curve over a parameter of the threat: one evaluation, with its own records, per value."""
    points = [
        (value, e)
        for e in plan.evaluations
        if declared_name(e) == name and isinstance(value := e.at[0][1], Fraction)
        and isinstance(plan.subject(e.subject), Threat)
    ]  # fmt: skip
    points.sort(key=lambda point: point[0])
    made = []
    for value, evaluation in points:
        threat = plan.threat(evaluation.subject)
        reused = reuse(plan, evaluation, [e for _, e in points], records)
        own = tally(evaluation, threat, records, voided=voided)
        made.append(SweepPoint(value, own, tally(evaluation, threat, [*records, *reused], voided=voided)))
    return Sweep(name, points[0][1].at[0][0] if points else "", tuple(made))
