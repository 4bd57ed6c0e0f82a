"""The failures of a run as a reader can check them: what changed, what was decided, where it was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import CLEAN_STAGE, REJECTED, Record
from tmlang.audit.remeasure import exact_values
from tmlang.audit.show import number
from tmlang.audit.units import is_turned, is_witness, stage_label
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Allowed, Property, Shift, Subject, Threat, transforms
from tmlang.plan.ir import EvaluationPlan
from tmlang.plan.written import parameter_names

MOST_ROWS = 40
MOST_PICTURES = 6
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Change:
    """One feature that moved, or, where nothing did, one feature of the input itself (``after`` empty)."""

    feature: str
    before: str
    after: str = ""
    change: str = ""

    @property
    def text(self) -> str:
        moved = f" → {self.after} ({self.change})" if self.after else ""
        return f"{self.feature}: {self.before}{moved}"


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """Original, changed input and signed difference, each (height, width) or (height, width, 3), scaled to [0, 1];
    the difference to [-1, 1], ``reach`` being what 1 stands for, in the space's units."""

    original: NDArray[np.float64]
    changed: NDArray[np.float64]
    difference: NDArray[np.float64]
    reach: str


@dataclass(frozen=True, slots=True)
class FailureView:
    unit: str
    label: str
    decision: str
    stage: str
    distance: str
    within_access: bool
    queries: int
    seed: str
    candidate: str
    changes: tuple[Change, ...] = ()
    pictures: Pictures | None = None


def failure_views(
    bundle: Bundle,
    evaluation: EvaluationPlan,
    subject: Subject,
    classes: Sequence[str],
    space: Space,
    records: Sequence[Record],
) -> tuple[tuple[FailureView, ...], int]:
    """The nearest witness of each broken unit, nearest first, or the first input of each example that a shift turned;
    at most :data:`MOST_ROWS`, and how many there are.

    ``classes``: the names of decisions; those of a property are ``holds`` and ``violated``.
    """
    own = [r for r in records if r.evaluation == evaluation.name]
    rows = turned_by_shift(own) if isinstance(subject, Shift) else nearest_witnesses(own)
    views = [
        failure_view(bundle, evaluation, subject, classes, space, row, pictures=i < MOST_PICTURES)
        for i, row in enumerate(rows[:MOST_ROWS])
    ]
    return tuple(views), len(rows)


def first_witnesses(records: Iterable[Record]) -> list[Record]:
    """The first failing input of every broken unit of one evaluation, within the declared access where one is."""
    first: dict[str, Record] = {}
    for row in records:
        kept = first.get(row.unit)
        if is_witness(row) and (kept is None or (row.within_access and not kept.within_access)):
            first[row.unit] = row
    return list(first.values())


def nearest_witnesses(records: Iterable[Record]) -> list[Record]:
    """One failing input of every broken unit of one evaluation, that of the least change and fewest queries; in this
    order too. Those found beyond the declared access come last."""

    def nearness(row: Record) -> tuple[bool, float, int]:
        far = distance(row)
        return row.within_access is False, float("inf") if far is None else far, row.queries

    nearest: dict[str, Record] = {}
    for row in sorted(filter(is_witness, records), key=nearness):
        nearest.setdefault(row.unit, row)
    return list(nearest.values())


def turned_by_shift(records: Iterable[Record]) -> list[Record]:
    """Of every example that was decided rightly, the first changed input that was not."""
    first: dict[str, Record] = {}
    for row in records:
        if row.stage != CLEAN_STAGE and is_turned(row):
            first.setdefault(row.unit, row)
    return list(first.values())


def distance(row: Record) -> float | None:
    """In the threat's own norm or metric, else the first of linf, l2, l1 that was measured."""
    return next((d for d in (row.distance, row.linf, row.l2, row.l1) if d is not None), None)


@dataclass(frozen=True, slots=True)
class Look:
    """The incident that a reader with one minute should look at, as the table of examples names it, and why."""

    unit: str
    text: str


def look_first(
    evaluation: EvaluationPlan, subject: Subject, classes: Sequence[str], records: Iterable[Record]
) -> Look | None:
    """The failing input that was changed least, or the examples that a shift made wrong; ``None`` of none."""
    own = [r for r in records if r.evaluation == evaluation.name]
    if isinstance(subject, Shift):
        return _fallen(own)
    found = nearest_witnesses(own)
    if not found or isinstance(subject, Property):
        return None
    row = found[0]
    decided = "rejected" if row.decision == REJECTED else f"decided as `{class_name(classes, row.decision)}`"
    if row.decision is None:
        decided = "given scores that are not finite,"
    text = (
        f"The failing input that was changed least is that of example `{row.example}`: at a distance of "
        f"{_distance(row)} it is {decided} in place of `{class_name(classes, row.label)}` "
        f"(found by `{stage_label(evaluation, row)}`)."
    )
    joined = isinstance(subject, Threat) and subject.goal.kind == "each" and subject.goal.each != "apart"
    return Look(row.example if joined else row.unit, text)


def _fallen(records: Sequence[Record]) -> Look | None:
    """Decided rightly before the change, and not after it."""
    fallen = [r.unit for r in turned_by_shift(records)]
    if not fallen:
        return None
    named = ", ".join(f"`{unit}`" for unit in fallen[:_NAMED]) + (" and others" if len(fallen) > _NAMED else "")
    number = "One example that was" if len(fallen) == 1 else f"{len(fallen)} examples that were"
    return Look(fallen[0], f"{number} decided rightly before the change, and wrongly after it: {named}.")


def failure_view(
    bundle: Bundle,
    evaluation: EvaluationPlan,
    subject: Subject,
    classes: Sequence[str],
    space: Space,
    row: Record,
    *,
    pictures: bool,
) -> FailureView:
    """One failing input; ``pictures``: draw it, where the space is one of pictures and the input was kept."""
    changes: tuple[Change, ...] = ()
    shown = None
    pictures = pictures and space.is_picture
    if row.candidate is not None and (space.features or pictures):
        stored, original, indices = bundle.candidate(row.candidate)
        before, after = (exact_values(space, a, indices=indices) for a in (original, stored))
        if space.features:
            changes = tuple(_changes(space, before, after))
        else:
            shown = _pictures(space, before, after)
    if row.candidate is not None and isinstance(subject, Threat):
        changes += tuple(_parameters(subject.allow, bundle.parameters(row.candidate)))
    return FailureView(
        row.unit,
        class_name(classes, row.label),
        class_name(classes, row.decision) if row.decision is not None else "scores not finite",
        stage_label(evaluation, row),
        _distance(row),
        row.within_access is not False,
        row.queries,
        "—" if row.seed is None else str(row.seed),
        row.candidate or "—",
        changes,
        shown,
    )


def class_name(classes: Sequence[str], index: int | None) -> str:
    """The class as the spec names it."""
    if index is None:
        return "no decision"
    if index == REJECTED:
        return "rejected"
    return classes[index] if 0 <= index < len(classes) else str(index)


def _distance(row: Record) -> str:
    if row.distance is not None:
        return number(Fraction(row.distance))
    found = (("linf", row.linf), ("l2", row.l2), ("l1", row.l1))
    return ", ".join(f"{name} {number(Fraction(d))}" for name, d in found if d is not None) or "—"


def _changes(space: Space, before: Sequence[Fraction], after: Sequence[Fraction]) -> Iterator[Change]:
    same = list(before) == list(after)
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        cell, name = space.cell(i), space.features[i]
        if same:
            yield Change(name, _value(cell, a))
        elif a != b and cell.kind == "category":
            yield Change(name, _value(cell, a), _value(cell, b), "—")
        elif a != b:
            yield Change(
                name, _value(cell, a), _value(cell, b), f"{'+' if b > a else '−'}{_value(cell, abs(b - a), 4)}"
            )


def _parameters(allow: Allowed | None, theta: Sequence[float] | None) -> Iterator[Change]:
    """What a transform did to this picture."""
    names = [named for transform in transforms(allow) for named in parameter_names(transform)]
    for (name, unit), value in zip(names, theta or (nan,) * len(names), strict=True):
        if not isnan(value):
            yield Change(name, f"{number(Fraction(value), 6)}{f' {unit}' if unit else ''}")


def _value(cell: Cell, value: Fraction, digits: int = 7) -> str:
    if cell.kind == "category":
        return cell.categories[int(value)]
    return number(value, digits) + (f" {cell.unit}" if cell.unit else "")


def _pictures(space: Space, before: Sequence[Fraction], after: Sequence[Fraction]) -> Pictures:
    low, high = min(c.low for c in space.cells), max(c.high for c in space.cells)
    change = [b - a for a, b in zip(before, after, strict=True)]
    reach = max((abs(c) for c in change), default=Fraction(0)) or Fraction(1)
    return Pictures(
        _layout(space, [(v - low) / (high - low) for v in before]),
        _layout(space, [(v - low) / (high - low) for v in after]),
        _layout(space, [c / reach for c in change]),
        number(reach),
    )


def _layout(space: Space, values: Sequence[Fraction]) -> NDArray[np.float64]:
    return as_picture(space, np.array([float(v) for v in values]).reshape(space.shape))


def as_picture(space: Space, array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of the space's shape as (height, width) or (height, width, 3), red first."""
    axis = space.picture_axis if array.ndim == 3 else None
    if axis is None:
        return array
    array = np.moveaxis(array, axis, 2)
    if array.shape[2] == 1:
        return array[:, :, 0]
    return array[:, :, ::-1] if space.order == "bgr" else array
