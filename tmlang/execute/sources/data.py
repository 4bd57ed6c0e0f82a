"""Data sets: which rows, in what order, under which label; every original checked against its declared space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tmlang.audit.record import CorruptionCell
from tmlang.backends.domain import Domain
from tmlang.base.exact import exact_decimal, round_down, round_nearest, round_up
from tmlang.diagnostics.stop import Stop, stop
from tmlang.diagnostics.suggest import did_you_mean
from tmlang.execute.sources.files import Files
from tmlang.execute.sources.prepare import picture_shape, prepared
from tmlang.execute.sources.published import Stacked
from tmlang.execute.sources.readers import Label, Table, csv_rows, read_table
from tmlang.meaning.held import stored_as
from tmlang.meaning.models import Data, Take
from tmlang.meaning.spaces import Cell, Space
from tmlang.plan.written import number

PICTURES = 32
"""Files whose sizes are looked at."""
UNUSABLE = -1
"""The label of a row that has none."""

Decide = Callable[[str, np.ndarray], np.ndarray]
"""(model, originals (N, *shape)) -> decisions (N,) under the reference evaluator."""


@dataclass(frozen=True)
class LoadedData:
    """The selected rows in order: ``ids``, ``x`` (N, *shape) in the space's dtype, ``labels`` (N,) int64 with
    :data:`UNUSABLE`, ``reviewed`` (N,) bool (``truth: reviewed``), ``columns`` of a goal, ``rows`` (N,) where they
    stand among the ``total`` rows of the file. ``corruptions``: corruption and severity of each row of a corrupted set.
    ``raw``: the shape of a row before ``prepare:``, where all have one.
    """

    ids: tuple[str, ...]
    x: np.ndarray
    labels: np.ndarray
    reviewed: np.ndarray
    columns: Mapping[str, tuple[str, ...]]
    rows: np.ndarray
    total: int
    corruptions: tuple[CorruptionCell, ...] = ()
    raw: tuple[int, ...] | None = None


def load_data(
    data: Data,
    space: Space,
    classes: Sequence[str],
    files: Files,
    decide: Decide,
    *,
    extra: frozenset[str] = frozenset(),
) -> LoadedData:
    """The rows of ``data`` for a model with these ``classes``; raises :class:`Stop` with TM7 diagnostics.

    ``decide`` is asked only by ``take: correct under M`` and ``truth: predicted by M``.
    """
    table = read_table(data, space, files, extra)
    if not table.labels:
        raise stop("TM704", f'"{data.file.path}" has no rows', data.file.origin)
    if table.classes not in (None, len(classes)):
        message = f'"{data.file.path}" has {table.classes} classes, and the model {len(classes)}'
        help = "labels: names takes the name of a folder for the name of a class"
        raise stop("TM743", message, data.read.origin, help=help)
    selection = _Selection(data, space, classes, files, decide, table)
    for take in data.takes:
        selection.take(take)
    loaded = selection.result()
    if space.originals == "comply":
        check_domain(loaded, space, data)
    return loaded


class _Selection:
    """Rows still selected, while the takes are applied in order."""

    def __init__(
        self, data: Data, space: Space, classes: Sequence[str], files: Files, decide: Decide, table: Table
    ) -> None:
        self.data, self.space, self.classes = data, space, tuple(classes)
        self.files, self.decide, self.table = files, decide, table
        self.ids = table.ids or tuple(str(i) for i in range(len(table.labels)))
        self._unique()
        self.rows = np.arange(len(self.ids))
        self.predicted = data.truth.kind == "predicted"
        self.labels = (
            np.full(len(self.ids), UNUSABLE) if self.predicted else np.array([self._class(v) for v in table.labels])
        ).astype(np.int64)
        self.reviewed = np.zeros(len(self.ids), np.bool_)
        self.known = np.zeros(len(self.ids), np.bool_)
        if data.truth.kind == "reviewed" and data.truth.file is not None:
            self._review()

    def _unique(self) -> None:
        seen: set[str] = set()
        for i in self.ids:
            if i in seen:
                raise stop("TM724", f'the id {i} stands twice in "{self.data.file.path}"', self.data.read.origin)
            seen.add(i)

    def _class(self, label: Label) -> int:
        """The index of a class by its name, or checked; :data:`UNUSABLE` for none."""
        if label is None:
            return UNUSABLE
        if isinstance(label, str) and label in self.classes:
            return self.classes.index(label)
        if isinstance(label, int) and 0 <= label < len(self.classes):
            return label
        raise stop(
            "TM723",
            f'the label {label} of "{self.data.file.path}" is no class of the model',
            self.data.read.origin,
            notes=(f"the classes are {', '.join(self.classes[:12])}{' …' if len(self.classes) > 12 else ''}",),
            help=(isinstance(label, str) and did_you_mean(label, self.classes))
            or "labels are names of classes, or whole numbers from 0",
        )

    def _review(self) -> None:
        """A reviewed table (columns ``id`` and ``label``) decides the labels of the rows that it names."""
        file = self.data.truth.file
        assert file is not None
        header, rows = csv_rows(self.files.read(file), file)
        if not {"id", "label"} <= set(header):
            raise stop("TM721", f'"{file.path}" has no columns id and label', file.origin)
        place = {name: i for i, name in enumerate(self.ids)}
        for row in rows:
            name, label = row[header.index("id")], row[header.index("label")]
            if name not in place:
                raise stop("TM724", f'"{file.path}" reviews the id {name}, which is not in the data', file.origin)
            self.labels[place[name]] = self._class(label or None)
            self.reviewed[place[name]] = True

    def originals(self, rows: np.ndarray) -> np.ndarray:
        raw = self.table.inputs
        if isinstance(raw, Stacked):
            return prepared(self.data, self.space, raw.rows(rows), self.files.read)
        chosen = raw[rows] if isinstance(raw, np.ndarray) else [raw[i] for i in rows]
        return prepared(self.data, self.space, chosen, self.files.read)

    def _predict(self) -> None:
        """Labels of the rows still selected, where ``truth: predicted by M`` has not been asked yet."""
        fresh = self.rows[~self.known[self.rows]]
        if self.predicted and len(fresh):
            assert self.data.truth.model is not None
            decided = self.decide(self.data.truth.model, self.originals(fresh))
            self.labels[fresh] = np.where(decided >= 0, decided, UNUSABLE)
            self.known[fresh] = True

    def take(self, take: Take) -> None:
        rows = self.rows
        if take.kind == "first":
            self.rows = rows[: self._count(take)]
        elif take.kind == "every":
            self.rows = rows[:: take.count]
        elif take.kind == "sample":
            draw = np.random.Generator(np.random.PCG64(take.seed))
            self.rows = np.sort(draw.choice(rows, self._count(take), replace=False))
        elif take.kind == "ids":
            self.rows = self._listed(take)
        elif take.kind == "where_label":
            self._predict()
            self.rows = rows[self.labels[rows] == self._class(take.label)]
        elif take.kind == "correct_under":
            assert take.model is not None
            self._predict()
            self.rows = rows[self.decide(take.model, self.originals(rows)) == self.labels[rows]]
        if not len(self.rows):
            raise stop("TM704", f"`take: {_written(take)}` leaves no row of {len(rows)}", self.data.origin)

    def _count(self, take: Take) -> int:
        assert take.count is not None
        if take.count > len(self.rows):
            raise stop(
                "TM704", f"`take: {_written(take)}` asks for {take.count} rows of {len(self.rows)}", self.data.origin
            )
        return take.count

    def _listed(self, take: Take) -> np.ndarray:
        """The rows of an id file, one id a line, in its order."""
        assert take.file is not None
        text = self.files.read(take.file).decode("utf-8-sig", "replace")
        names = [line.strip() for line in text.splitlines() if line.strip()]
        here = {self.ids[i]: i for i in self.rows}
        unknown = [n for n in names if n not in here]
        if unknown or len(set(names)) < len(names):
            what = f"{len(unknown)} ids that are not here, first {unknown[0]}" if unknown else "an id more than once"
            kind = "ids are the file's own" if self.table.ids else "the file has no ids, so they are row numbers from 0"
            raise stop("TM724", f'"{take.file.path}" names {what}', take.file.origin, notes=(kind,))
        return np.array([here[n] for n in names], dtype=np.int64)

    def result(self) -> LoadedData:
        self._predict()
        rows = self.rows
        return LoadedData(
            ids=tuple(self.ids[i] for i in rows),
            x=self.originals(rows),
            labels=self.labels[rows],
            reviewed=self.reviewed[rows],
            columns={name: tuple(values[i] for i in rows) for name, values in self.table.columns.items()},
            rows=rows,
            total=len(self.ids),
            corruptions=tuple(self.table.cells[i] for i in rows) if self.table.cells else (),
            raw=self._raw(),
        )

    def _raw(self) -> tuple[int, ...] | None:
        inputs = self.table.inputs
        if isinstance(inputs, np.ndarray):
            return inputs.shape[1:]
        if isinstance(inputs, Stacked):
            return None
        shapes = {picture_shape(inputs[i]) for i in self.rows[:PICTURES]}
        return shapes.pop() if len(shapes) == 1 else None


def _written(take: Take) -> str:
    words = {"where_label": f"where label == {take.label}", "correct_under": f"correct under {take.model}"}
    file = f'ids "{take.file.path}"' if take.file else take.kind
    return words.get(take.kind, file if take.count is None else f"{take.kind} {take.count}")


# --- the declared space -------------------------------------------------------------------------------------------


def check_domain(loaded: LoadedData, space: Space, data: Data) -> None:
    """Stop (TM720) when an original is outside its space's box or lattice, saying what the numbers look like."""
    domain = Domain(space)
    flat = loaded.x.reshape(len(loaded.x), -1)
    finite = np.isfinite(flat)
    box = finite & (flat >= domain.low) & (flat <= domain.high)
    inside = box & domain.indices(np.where(box, flat, domain.low))[1]
    if inside.all():
        return
    row, column = (int(i) for i in np.argwhere(~inside)[0])
    raise _outside(loaded, space, data, flat, inside, row, column)


def _outside(
    loaded: LoadedData, space: Space, data: Data, flat: np.ndarray, inside: np.ndarray, row: int, column: int
) -> Stop:
    cell = space.cell(column)
    place = tuple(int(i) for i in np.unravel_index(column, space.shape))
    where = space.features[column] if space.features else f"coordinate {place}"
    rows = int((~inside.all(axis=1)).sum())
    allowed = f"[{_show(cell.low)}, {_show(cell.high)}]" + (f" in steps of {_show(cell.step)}" if cell.step else "")
    same = [c for c in range(space.size) if space.cell(c) == cell] if space.layout == "each" else slice(None)
    notes = [
        f"id {loaded.ids[row]} has {flat[row, column]:.9g} at {where}; {space.name} allows {allowed} there",
        f"{rows} of {len(flat)} originals are outside",
    ]
    rounded = _rounded(float(flat[row, column]), cell, space, where)
    notes += rounded[:1]
    guess = rounded[1] if rounded else _guess(flat[:, same], float(cell.low), float(cell.high), cell.step)
    return stop(
        "TM720",
        f"the data of {data.name} does not lie in {space.name}",
        data.origin,
        notes=tuple(notes),
        help=guess or "write what brings the rows into the space (prepare:), or mend the space",
    )


def _rounded(value: float, cell: Cell, space: Space, where: str) -> list[str]:
    """A note and a help where a value misses a bound by rounding alone: it is what the bound is stored as."""
    dtype = stored_as(space)
    if cell.step is not None or not np.isfinite(value):
        return []
    for end, least, word in ((cell.low, True, "least"), (cell.high, False, "greatest")):
        beyond = Fraction(value) < end if least else Fraction(value) > end
        if beyond and value == round_nearest(end, dtype):
            inside = round_up(end, dtype) if least else round_down(end, dtype)
            written = exact_decimal(Fraction(value))
            return [
                f"no {dtype} is {_show(end)}: the {word} of them in the range is {inside:.17g}, and {value:.17g}, "
                f"which {_show(end)} is stored as, lies outside",
                f"write {written} as the {'lower' if least else 'upper'} end of {where}: it holds the data",
            ]
    return []


def _show(q: Fraction | None) -> str:
    return "" if q is None else number(q)


def _guess(values: np.ndarray, low: float, high: float, step: Fraction | None) -> str | None:
    """What such numbers usually are."""
    if not np.isfinite(values).all():
        return "there are numbers that are not finite: mend the file"
    least, most = float(values.min()), float(values.max())
    whole = bool((values == np.floor(values)).all())
    if (low, high) == (0, 1) and least >= 0 and 1 < most <= 255 and (whole or most > 16):
        levels = 16 if most <= 16 else 255
        return f"this looks like 0..{levels}: write prepare: {{ scale(1/{levels}) }}"
    if (low, high) == (0, 255) and least >= 0 and most <= 1:
        return "this looks like 0..1, and the space is bytes: store bytes, or declare real[0, 1]"
    if (low, high) == (0, 1) and -1 <= least < 0 and most <= 1:
        return "this looks like -1..1: write prepare: { add(1) scale(1/2) }"
    if least < low and abs(float(values.mean())) < 1 and 0.5 < float(values.std()) < 2:
        return (
            f"this looks standardized (mean {values.mean():.2f}, deviation {values.std():.2f}): "
            "write undo: normalize(mean: …, std: …) with the numbers it was standardized by"
        )
    if step is not None and least >= low and most <= high:
        return f"the numbers lie between the levels of step {step}: is the step right?"
    return None
