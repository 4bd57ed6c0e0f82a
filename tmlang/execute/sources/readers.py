"""Readers of data files: npz, npy, CSV, parquet, a folder of pictures. Strict, without pickle, limited in size.

A reader gives rows as they stand in the file; what they mean (selection, labels, the space) is decided in ``data``.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tmlang.audit.record import CorruptionCell
from tmlang.diagnostics.stop import Stop, stop
from tmlang.diagnostics.suggest import did_you_mean
from tmlang.execute.sources import published
from tmlang.execute.sources.files import Files, folder_files
from tmlang.execute.sources.published import Stacked
from tmlang.meaning.corruptions import layout
from tmlang.meaning.models import Data
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.values import Artifact, Symbol

Label = str | int | None
"""A class by name or by index; ``None`` where the file has none (the unit is then unusable)."""


@dataclass(frozen=True)
class Table:
    """Rows of a data set: ``inputs`` an array (N, …), or the places of N picture files; ``ids`` the file's own or
    ``None``; ``columns`` further columns by name (a CSV's, for ``goal: targeted column``); ``cells`` corruption and
    severity of each row of a corrupted set; ``classes`` how many there are, where labels are positions among them."""

    inputs: np.ndarray | Stacked | tuple[Path, ...]
    labels: tuple[Label, ...]
    ids: tuple[str, ...] | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cells: tuple[CorruptionCell, ...] = ()
    classes: int | None = None


def read_table(data: Data, space: Space, files: Files, extra: frozenset[str] = frozenset()) -> Table:
    """All rows of ``data``. ``extra``: columns that a goal names, beside those of the space.

    Raises :class:`Stop`: TM712 (not such a file), TM714 (pickled), TM721 and TM722 (tables), TM725, TM726.
    """
    readers: Mapping[str, Callable[[], Table]] = {
        "npz": lambda: _npz(data, files),
        "npy": lambda: _npy(data, files),
        "csv": lambda: _csv(data, space, files, extra),
        "parquet": lambda: _parquet(data, space, files, extra),
        "folder": lambda: _folder(data, files),
        "as_published": lambda: _published(data, space, files, extra),
    }
    if data.read.name not in readers:
        raise stop(
            "TM726",
            f"`{data.read.name}` is not read by this version",
            data.read.origin,
            help="save the rows once as npz (x = inputs, y = labels) and read them with npz(…)",
        )
    return readers[data.read.name]()


def _published(data: Data, space: Space, files: Files, extra: frozenset[str]) -> Table:
    """A corrupted set in the layout that its path and ``labels:`` tell."""
    kind = layout(data.file.path, dict(data.read.args).get("labels"))
    if kind in ("npz", None):
        return _npz(data, files)
    if kind == "csv":
        return _csv(data, space, files, extra)
    made = published.arrays(data, files) if kind == "arrays" else published.folders(data, files)
    return Table(made.inputs, made.labels, made.ids, cells=made.cells, classes=made.classes)


def _arguments(data: Data) -> dict[str, Any]:
    return {name: v.name if isinstance(v, Symbol) else v for name, v in data.read.args}


def side_file(data: Data, name: str) -> Artifact:
    """A second file that ``read:`` names (``labels: "y.npy"``), with its hash ``labels_sha256`` if one is written."""
    value = _arguments(data)[name]
    if isinstance(value, Artifact):
        return value
    return Artifact(str(value), _arguments(data).get(f"{name}_sha256"), data.read.origin)


# --- arrays -------------------------------------------------------------------------------------------------------


def _load_array(raw: bytes, what: str, data: Data) -> np.ndarray:
    try:
        array: np.ndarray = np.load(io.BytesIO(raw), allow_pickle=False)
    except ValueError as e:
        code = "TM714" if "pickle" in str(e) or "Object arrays" in str(e) else "TM712"
        help = "store numbers (and labels as whole numbers or fixed-width text)" if code == "TM714" else None
        raise stop(code, f"{what} cannot be read as an array: {e}", data.read.origin, help=help) from e
    return array


def _npz(data: Data, files: Files) -> Table:
    raw = files.read(data.file)
    args = _arguments(data)
    try:
        archive = zipfile.ZipFile(io.BytesIO(raw))
    except zipfile.BadZipFile as e:
        raise stop("TM712", f'"{data.file.path}" is no npz file: {e}', data.file.origin) from e
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(members) < len(archive.infolist()):
        raise stop("TM712", f'"{data.file.path}" holds an array twice under one name', data.file.origin)
    if sum(info.file_size for info in members.values()) > files.limit:
        raise stop("TM725", f'"{data.file.path}" unpacks to more than {files.limit:,} bytes', data.file.origin)

    def array(argument: str) -> np.ndarray:
        name = str(args[argument])
        if name not in members:
            raise stop(
                "TM712",
                f'"{data.file.path}" has no array "{name}"',
                data.read.origin,
                notes=(f"it has {', '.join(sorted(members)) or 'nothing'}",),
                help=did_you_mean(name, members),
            )
        try:
            return _load_array(archive.read(members[name]), f'"{name}" of "{data.file.path}"', data)
        except (zipfile.BadZipFile, OSError, NotImplementedError) as e:
            raise stop("TM712", f'"{data.file.path}" is damaged: {e}', data.file.origin) from e

    ids = array("ids") if "ids" in args else None
    table = _arrays(array("inputs"), array("labels"), ids, data)
    return _with_cells(table, array("corruption"), array("severity"), data) if "corruption" in args else table


def _with_cells(table: Table, corruptions: np.ndarray, severities: np.ndarray, data: Data) -> Table:
    for what, told in (("corruptions", corruptions), ("severities", severities)):
        if told.shape != (len(table.labels),):
            shape = f"there are {len(table.labels)} inputs, and the {what} have shape {told.shape}"
            raise stop("TM727", shape, data.read.origin, help=f"store one of the {what} per input")
    return replace(table, cells=published.cells_of(corruptions.tolist(), severities.tolist(), data))


def _npy(data: Data, files: Files) -> Table:
    inputs = _load_array(files.read(data.file), f'"{data.file.path}"', data)
    second = side_file(data, "labels")
    labels = _load_array(files.read(second), f'"{second.path}"', data)
    ids = None
    if "ids" in _arguments(data):
        third = side_file(data, "ids")
        ids = _load_array(files.read(third), f'"{third.path}"', data)
    return _arrays(inputs, labels, ids, data)


def _arrays(inputs: np.ndarray, labels: np.ndarray, ids: np.ndarray | None, data: Data) -> Table:
    if inputs.dtype.kind not in "fiub":
        raise stop("TM712", f"the inputs are of type {inputs.dtype}, not numbers", data.read.origin)
    for what, array in (("labels", labels), ("ids", ids)):
        if array is not None and (array.ndim != 1 or len(array) != len(inputs)):
            raise stop(
                "TM727",
                f"there are {len(inputs)} inputs, and the {what} have shape {array.shape}",
                data.read.origin,
                help=f"store one of the {what} per input" + ("" if what == "ids" else ", as the class, not one-hot"),
            )
    names = None if ids is None else tuple(str(i) for i in ids.tolist())
    return Table(inputs, tuple(_array_label(v, data) for v in labels.tolist()), names)


def _array_label(value: Any, data: Data) -> Label:
    if isinstance(value, float):
        if value != value:
            return None
        if not value.is_integer():
            raise stop("TM723", f"the label {value} is no whole number", data.read.origin)
        value = int(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, (bool, int)):
        return int(value)
    return str(value) or None


# --- tables -------------------------------------------------------------------------------------------------------

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\Z")


def parse_number(text: str) -> Fraction:
    """A decimal number, exact; raises ``ValueError`` for anything else (``nan``, ``1,5``, ``1_000``)."""
    if not _DECIMAL.match(text):
        raise ValueError(text)
    return Fraction(text)


def csv_rows(raw: bytes, file: Artifact) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of a UTF-8 CSV file with a header, every row as long as it. Raises TM721 or TM712."""
    try:
        reader = csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), strict=True)
        rows = [row for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as e:
        raise stop("TM712", f'"{file.path}" is no CSV file: {e}', file.origin) from e
    if not rows:
        raise stop("TM712", f'"{file.path}" is empty: a header with the names of the columns is needed', file.origin)
    header = [name.strip() for name in rows[0]]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise stop("TM721", f'"{file.path}" has the column {", ".join(twice)} more than once', file.origin)
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(header):
            counted = f"{len(row)} cells and the header {len(header)}"
            raise stop("TM721", f'row {number} of "{file.path}" has {counted}', file.origin)
    return header, [[cell.strip() for cell in row] for row in rows[1:]]


def _csv(data: Data, space: Space, files: Files, extra: frozenset[str]) -> Table:
    header, rows = csv_rows(files.read(data.file), data.file)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    return _table(data, space, columns, extra)


def _parquet(data: Data, space: Space, files: Files, extra: frozenset[str]) -> Table:
    import pyarrow as pa

    from tmlang.audit import tablefile

    try:
        table = tablefile.read(files.read(data.file))
    except (pa.ArrowException, OSError) as e:
        raise stop("TM712", f'"{data.file.path}" is no parquet file: {e}', data.file.origin) from e
    columns = {
        name: ["" if v is None else repr(v) if isinstance(v, float) else str(v) for v in table[name].to_pylist()]
        for name in table.column_names
    }
    return _table(data, space, columns, extra)


def _table(data: Data, space: Space, columns: dict[str, list[str]], extra: frozenset[str]) -> Table:
    """Inputs, labels and ids of named columns: features by name in the space's order, a tensor's columns in the file's
    order."""
    args = _arguments(data)
    label, key = str(args.get("label", args.get("labels"))), args.get("id", args.get("ids"))
    corrupted = [str(args[name]) for name in ("corruption", "severity") if name in args]
    named = [label, *([str(key)] if key else []), *corrupted, *sorted(extra)]
    missing = [n for n in (*named, *space.features) if n not in columns]
    rest = [n for n in columns if n not in named]
    others = [n for n in rest if n not in space.features] if space.features else []
    if missing or others or (not space.features and len(rest) != space.size):
        raise _other_columns(data, space, missing, others, rest)
    count = len(columns[label])
    inputs = np.empty((count, space.size), dtype=np.float64)
    for i, name in enumerate(space.features or rest):
        inputs[:, i] = _column(columns[name], name, space.cell(i), data)
    ids = tuple(columns[str(key)]) if key else None
    labels = tuple(text or None for text in columns[label])
    cells = published.cells_of(columns[corrupted[0]], columns[corrupted[1]], data) if corrupted else ()
    return Table(inputs.reshape(count, *space.shape), labels, ids, {n: tuple(columns[n]) for n in extra}, cells)


def _other_columns(
    data: Data, space: Space, missing: Sequence[str], others: Sequence[str], rest: Sequence[str]
) -> Stop:
    notes = []
    if missing:
        near = [did_you_mean(name, rest) for name in missing]
        notes.append(f"missing: {', '.join(missing)}" + "".join(f" ({n})" for n in near if n))
    if others:
        notes.append(f"not in {space.name}: {', '.join(others)}")
    if not space.features:
        notes.append(f"{space.name} has {space.size} numbers and the file {len(rest)} columns beside label and id")
    return stop(
        "TM721",
        f'the columns of "{data.file.path}" are not those of {space.name}',
        data.read.origin,
        notes=tuple(notes),
        help="the file holds the features of the space by name, the label, and the id if one is named; nothing else",
    )


def _column(cells: Sequence[str], name: str, cell: Cell, data: Data) -> list[float]:
    """One feature's values as the numbers that the space stores (a category's position)."""
    positions = {category: i for i, category in enumerate(cell.categories)}
    values = []
    for number, text in enumerate(cells, 1):
        try:
            values.append(float(positions[text] if positions else parse_number(text)))
        except (KeyError, ValueError, OverflowError):
            wanted = f"one of {', '.join(cell.categories)}" if positions else "a decimal number"
            raise stop(
                "TM722",
                f'row {number} of "{data.file.path}" has {text!r} as {name}',
                data.file.origin,
                notes=(f"{name} is {wanted}",),
                help=did_you_mean(text, positions) if positions else None,
            ) from None
    return values


# --- pictures -----------------------------------------------------------------------------------------------------


def _folder(data: Data, files: Files) -> Table:
    """The pictures that the label table names: columns ``file`` and ``label``; the path in the folder is the id."""
    folder = files.verify(data.file)
    if not folder.is_dir():
        raise stop("TM712", f'"{data.file.path}" is a file and a folder is needed', data.file.origin)
    table = side_file(data, "labels")
    header, rows = csv_rows(files.read(table), table)
    if not {"file", "label"} <= set(header):
        raise stop(
            "TM721",
            f'"{table.path}" has the columns {", ".join(header)}',
            table.origin,
            help="it needs the columns file (a path in the folder) and label",
        )
    present = {p.relative_to(folder).as_posix(): p for p in folder_files(folder)}
    names = [row[header.index("file")] for row in rows]
    if absent := [n for n in names if n not in present]:
        raise stop("TM710", f'"{data.file.path}" has no {absent[0]} (and {len(absent) - 1} more)', table.origin)
    labels = tuple(row[header.index("label")] or None for row in rows)
    return Table(tuple(present[n] for n in names), labels, tuple(names))
