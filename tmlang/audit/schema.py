"""The records as a table: one column per field of :class:`Record`, checked value by value when read back.

The schema is the one thing that the writer of a bundle and its auditor share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from tmlang.audit.record import Record

MAX_ROWS = 20_000_000
MAX_TEXT = 10_000
MAX_DRAWS = 100_000


class SchemaError(ValueError):
    """A table that does not hold records."""


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """One column: ``kind`` is ``str``, ``int``, ``float`` or ``bool``; ``words`` the only texts allowed, if any."""

    name: str
    kind: type
    nullable: bool
    words: frozenset[str] = frozenset()

    def fault(self, value: Any) -> str | None:
        """What is wrong with one value of this column, if anything."""
        if value is None:
            return None if self.nullable else "is missing"
        if self.kind is float and not math.isfinite(value):
            return f"{value} is no number"
        if self.words and value not in self.words:
            return f"{value!r} is none of {', '.join(sorted(self.words))}"
        if self.kind is str and len(value) > (MAX_DRAWS if self.name == "outcomes" else MAX_TEXT):
            return "is too long"
        return None


def _columns() -> Iterator[RecordColumn]:
    hints = get_type_hints(Record)
    for f in fields(Record):
        hint = hints[f.name]
        members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kinds = [m for m in members if m is not NoneType]
        words = frozenset(w for k in kinds if get_origin(k) is Literal for w in get_args(k))
        yield RecordColumn(f.name, str if words else kinds[0], NoneType in members, words)


COLUMNS: tuple[RecordColumn, ...] = tuple(_columns())

Class = Literal["re-derived", "re-run", "testimony"]
"""How a value is checked: it follows from the rest of the bundle; it needs the model, the data and the search again;
or nobody can check it, and no number and no claim reads it."""

_CLASSES: Mapping[Class, str] = {
    "re-derived": "evaluation stage unit example target repeat clean changed_correct rejected counted_failure seed "
    "label_kept",
    "re-run": "label clean_decision status decision rule within_scope within_access observed_failure verdict margin "
    "linf l2 l1 l0 distance branch queries forwards gradients zero_gradients progressed candidate projected draws "
    "errors gap gap_kind radius label_reviewed outputs outcomes draw_seed corruption severity",
    "testimony": "seconds message",
}


def of_class(name: Class) -> tuple[str, ...]:
    """The columns of a class (docs/bundle.md). Every column has one."""
    return tuple(_CLASSES[name].split())


_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}

SCHEMA = pa.schema([pa.field(c.name, _ARROW[c.kind], nullable=c.nullable) for c in COLUMNS])


def to_table(records: Sequence[Record]) -> pa.Table:
    """The rows as a table of :data:`SCHEMA`; raises :class:`SchemaError` for a value that no column may hold."""
    data = {c.name: [getattr(r, c.name) for r in records] for c in COLUMNS}
    _check(data)
    return pa.Table.from_pydict(data, schema=SCHEMA)


def from_table(table: pa.Table) -> list[Record]:
    """The records that ``table`` holds; raises :class:`SchemaError` for other columns, kinds, words or NaN."""
    if table.num_rows > MAX_ROWS:
        raise SchemaError(f"more than {MAX_ROWS} rows")
    if not table.schema.equals(SCHEMA):
        strange = set(table.schema.names) ^ set(SCHEMA.names)
        raise SchemaError(f"the columns are not those of a record ({', '.join(sorted(strange)) or 'other kinds'})")
    data = {c.name: table.column(c.name).to_pylist() for c in COLUMNS}
    _check(data)
    return [Record(*row) for row in zip(*data.values(), strict=True)]


def _check(data: dict[str, list[Any]]) -> None:
    for column in COLUMNS:
        values = data[column.name]
        for value in dict.fromkeys(values):
            if (fault := column.fault(value)) is not None:
                raise SchemaError(f"row {values.index(value)}: {column.name} {fault}")
