"""Several bundles side by side: their numbers in one table, and what follows for each pair whose sets allow it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from tmlang.audit.bundle import Bundle
from tmlang.audit.columns import Columns
from tmlang.audit.comparison import Side, greater, not_comparable
from tmlang.audit.show import DASH
from tmlang.audit.tally import tally_plan
from tmlang.plan.ir import Plan
from tmlang.plan.text import plan_hash
from tmlang.report.numbers import bounds, short

_SHOWN = ("clean_accuracy", "survival", "certified", "corrupted_accuracy", "attack_coverage", "certificate_coverage")

Compared = tuple[Side, Columns, Plan]


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One evaluation of one bundle. ``numbers`` are in the order of :attr:`Comparison.columns`."""

    name: str
    subject: str
    model: str
    plan: str
    units: str
    numbers: tuple[str, ...]
    bounds: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two evaluations of different bundles. ``comparable``: whether ``says`` is a result or why there is none."""

    first: str
    second: str
    comparable: bool
    says: str


@dataclass(frozen=True, slots=True)
class Comparison:
    title: str
    columns: tuple[str, ...]
    rows: tuple[ComparedRow, ...]
    pairs: tuple[Pair, ...]


def compare(bundles: Sequence[Bundle]) -> Comparison:
    """Every evaluation of the bundles, and every pair of two of different bundles."""
    sides = [list(_sides(name, bundle)) for name, bundle in zip(_names(bundles), bundles, strict=True)]
    everything = [side for of in sides for side in of]
    columns = tuple(n for n in _SHOWN if any(c.get(n) for _, c, _ in everything))
    rows = tuple(_row(side, c, plan, columns) for side, c, plan in everything)
    pairs = tuple(_pair(a, b) for one, other in combinations(sides, 2) for a, b in product(one, other))
    return Comparison(" and ".join(dict.fromkeys(_names(bundles))), columns, rows, pairs)


def _names(bundles: Sequence[Bundle]) -> list[str]:
    """The folders' names, or their whole paths where two are called alike."""
    names = [b.path.resolve().name for b in bundles]
    return names if len(set(names)) == len(names) else [str(b.path) for b in bundles]


def _sides(name: str, bundle: Bundle) -> Iterator[Compared]:
    plan, records = bundle.plan(), bundle.records()
    columns = tally_plan(plan, records)
    for evaluation in plan.evaluations:
        yield Side.of(f"{name}/{evaluation.name}", plan, evaluation, records), columns[evaluation.name], plan


def _row(side: Side, columns: Columns, plan: Plan, shown: Sequence[str]) -> ComparedRow:
    numbers = tuple(short(columns, name) for name in shown)
    units = f"{columns.counts.base} {columns.units}"
    found = bounds(columns).text or columns.holds or DASH
    return ComparedRow(side.name, side.subject.name, side.subject.model, plan_hash(plan), units, numbers, found)


def _pair(a: Compared, b: Compared) -> Pair:
    why = not_comparable(a[0], b[0])
    says = why or greater((a[0].name, a[1]), (b[0].name, b[1]))
    return Pair(a[0].name, b[0].name, why is None, says)
