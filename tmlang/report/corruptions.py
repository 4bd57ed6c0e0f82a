"""The table of a shift by corruption and severity, as the benchmarks print it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tmlang.audit import corruptions
from tmlang.audit.columns import Column, Columns, Extent
from tmlang.audit.quantities import NotMeasured, baseline_of, corruption_errors, find_evaluation
from tmlang.audit.show import DASH, interval, percent
from tmlang.meaning.corruptions import COMMON, EXTRA
from tmlang.meaning.evaluations import Measured
from tmlang.plan.ir import EvaluationPlan, Plan
from tmlang.report.numbers import NumberView, number_view


@dataclass(frozen=True, slots=True)
class CorruptionTable:
    """``rows``: of each corruption its name, the accuracy at each severity, their mean, and its error relative to each
    baseline that a claim names, under ``heads``. ``numbers``: the accuracies with their ends."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[tuple[str, NumberView], ...]


def corruption_table(plan: Plan, evaluation: EvaluationPlan, columns: Mapping[str, Columns]) -> CorruptionTable | None:
    """The table of an evaluation; ``None`` where corruptions and severities are not known."""
    told = dict(columns[evaluation.name].corrupted)
    if not told:
        return None
    strengths = sorted({severity for _, severity in told})
    relative = list(_errors(plan, evaluation, columns))
    rows = []
    for name in in_order({name for name, _ in told}):
        cells = [told.get((name, s)) for s in strengths]
        shown = [DASH if c is None else interval(c.low, c.high) for c in cells]
        errors = [interval(*of[name], share=False) if name in of else DASH for _, of in relative]
        rows.append((name.replace("_", " "), *shown, _mean([c for c in cells if c is not None]), *errors))
    heads = ("corruption", *(f"severity {s}" for s in strengths), "mean", *(head for head, _ in relative))
    numbers = tuple((f"{name} {severity}", number_view(c)) for (name, severity), c in told.items())
    return CorruptionTable(heads, tuple(rows), numbers)


def in_order(names: set[str]) -> list[str]:
    """The names of the benchmark in its order, then others by name."""
    place = {name: i for i, name in enumerate((*COMMON, *EXTRA))}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def extremes(columns: Columns) -> str | None:
    """Where a model is wrong most and least often, for a short report; ``None`` of fewer than two cells."""
    known = [(at, c) for at, c in columns.corrupted if c.low is not None]
    if len(known) < 2:
        return None
    worst = min(known, key=lambda cell: cell[1].low or 0)
    best = max(known, key=lambda cell: cell[1].low or 0)
    said = [
        f"{kind} {name} {s}, {interval(c.low, c.high)}" for kind, ((name, s), c) in (("worst", worst), ("best", best))
    ]
    return f"{'; '.join(said)}; the table by corruption and severity stands in the report"


def _mean(cells: Sequence[Column]) -> str:
    """Over the severities, each weighing the same."""

    def mean(ends: Sequence[Extent | None]) -> Fraction:
        return sum((Fraction(end or 0) for end in ends), Fraction(0)) / len(ends)

    low, high = mean([c.low for c in cells]), mean([c.high for c in cells])
    return percent(low) if low == high else interval(low, high)


def _errors(
    plan: Plan, evaluation: EvaluationPlan, columns: Mapping[str, Columns]
) -> Iterator[tuple[str, Mapping[str, tuple[Fraction, Fraction]]]]:
    """Per quantity and baseline that a claim names: the error of each corruption, where it is defined."""
    seen = set()
    for measured in _measured(plan):
        args = dict(measured.args)
        try:
            own, baseline = find_evaluation(plan, measured.evaluation, args), baseline_of(plan, args)
            key = (measured.quantity, baseline.name)
            if own.name != evaluation.name or key in seen:
                continue
            seen.add(key)
            found = corruption_errors(measured.quantity, columns[own.name], columns[baseline.name])
        except NotMeasured:
            continue
        kind = "CE" if measured.quantity == "mce" else "relative CE"
        yield f"{kind} against {baseline.name}", found


def _measured(plan: Plan) -> Iterator[Measured]:
    for claim in plan.claims:
        sides = (claim.left, claim.right)
        yield from (s for s in sides if isinstance(s, Measured) and s.quantity in corruptions.QUANTITIES)
