"""Corrupted sets as their authors publish them: arrays by corruption, folders by corruption, severity and class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tmlang.audit.record import CorruptionCell
from tmlang.diagnostics.stop import Stop, stop
from tmlang.diagnostics.suggest import did_you_mean
from tmlang.execute.sources.files import Files, folder_files
from tmlang.meaning.corruptions import SEVERITIES, chosen
from tmlang.meaning.models import Data
from tmlang.meaning.values import Symbol, Value


class Stacked:
    """Rows of several arrays one behind the other, read only where they are asked for."""

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        self.parts = parts
        self.starts = np.cumsum([0, *(len(p) for p in parts)])

    def rows(self, at: np.ndarray) -> np.ndarray:
        """The rows ``at`` (N, …), in this order."""
        part = np.searchsorted(self.starts, at, side="right") - 1
        places = zip(part.tolist(), (at - self.starts[part]).tolist(), strict=True)
        return np.stack([self.parts[p][i] for p, i in places])


@dataclass(frozen=True)
class Corrupted:
    """The rows of a corrupted set: ``classes`` is the number of classes where labels are positions among them."""

    inputs: Stacked | tuple[Path, ...]
    labels: tuple[str | int, ...]
    ids: tuple[str, ...]
    cells: tuple[CorruptionCell, ...]
    classes: int | None = None


def cells_of(corruptions: Sequence[Any], severities: Sequence[Any], data: Data) -> tuple[CorruptionCell, ...]:
    """What a file says of each input: the name of a corruption and a severity from 1 on."""
    found = []
    for row, (name, severity) in enumerate(zip(corruptions, severities, strict=True), 1):
        name = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
        if not isinstance(name, str) or not name:
            raise _unlike(data, f"row {row} has {name!r} as its corruption", "a corruption has a name")
        found.append((name, _severity(severity, f"row {row} has {severity!r} as its severity", data)))
    return tuple(found)


def _severity(written: Any, what: str, data: Data) -> int:
    try:
        value = Fraction(written)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        value = Fraction(0)
    if value.denominator != 1 or not 1 <= value < 1 << 31:
        raise _unlike(data, what, "a severity is a whole number from 1 on")
    return int(value)


def _unlike(data: Data, what: str, help: str) -> Stop:
    return stop("TM743", f'"{data.file.path}": {what}', data.read.origin, help=help)


def _root(data: Data, files: Files) -> Path:
    root = files.verify(data.file)
    if not root.is_dir():
        raise stop("TM712", f'"{data.file.path}" is a file and a folder is needed', data.file.origin)
    return root


def _names(data: Data, there: Sequence[str]) -> Sequence[str]:
    """The corruptions that are asked for, all of which must be there."""
    wanted = chosen(dict(data.read.args)["corruption"]) or tuple(there)
    absent = [name for name in wanted if name not in there]
    if absent or not wanted:
        near = did_you_mean(absent[0], there) if absent else None
        has = f"it has {', '.join(there[:20]) or 'none'}"
        raise _unlike(data, f"there is no corruption {', '.join(absent) or 'at all'}", near or has)
    return wanted


def _strengths(data: Data, there: Sequence[int], name: str) -> Sequence[int]:
    """The severities that are asked for, all of which must be there."""
    written: Value = dict(data.read.args)["severity"]
    if isinstance(written, Symbol):
        wanted: Sequence[int] = there
    else:
        wanted = [int(w) for w in (written if isinstance(written, tuple) else (written,)) if isinstance(w, Fraction)]
    absent = [s for s in wanted if s not in there]
    if absent or not wanted:
        has = f"it has {', '.join(map(str, there)) or 'none'}"
        raise _unlike(data, f"{name} has no severity {', '.join(map(str, absent)) or 'at all'}", has)
    return wanted


# --- <corruption>.npy and labels.npy ------------------------------------------------------------------------------


def arrays(data: Data, files: Files) -> Corrupted:
    """``<corruption>.npy``: the same examples at severity 1, 2, … 5 in order; ``labels.npy``: a label for each row."""
    root = _root(data, files)
    side = str(dict(data.read.args)["labels"])
    labels = _mapped(root / side, data)
    count, rest = divmod(len(labels), SEVERITIES)
    same = rest == 0 and labels.ndim == 1 and bool((labels.reshape(SEVERITIES, count) == labels[:count]).all())
    if not count or not same:
        help = f"each corruption holds the same examples at {SEVERITIES} severities, so the labels repeat as often"
        raise _unlike(data, f"the {len(labels)} labels of {side} are not {SEVERITIES} times the same", help)
    there = sorted(p.stem for p in root.iterdir() if p.suffix == ".npy" and p.name != side and p.is_file())
    parts: list[np.ndarray] = []
    found, ids, named = [], [], []
    for name in _names(data, there):
        array = _mapped(root / f"{name}.npy", data)
        if len(array) != len(labels):
            raise _unlike(data, f"{name}.npy has {len(array)} rows", f"{side} has {len(labels)}")
        if parts and array.shape[1:] != parts[0].shape[1:]:
            raise _unlike(data, f"{name}.npy has rows of shape {array.shape[1:]}", f"others have {parts[0].shape[1:]}")
        for severity in _strengths(data, range(1, SEVERITIES + 1), name):
            parts.append(array[(severity - 1) * count : severity * count])
            found += [(name, severity)] * count
            ids += [f"{name}/{severity}/{i}" for i in range(count)]
            named += [int(v) for v in labels[:count]]
    return Corrupted(Stacked(parts), tuple(named), tuple(ids), tuple(found))


def _mapped(place: Path, data: Data) -> np.ndarray:
    """An array of numbers, left on the disk until its rows are asked for."""
    if not place.is_file() or not place.resolve().is_relative_to(place.parent.resolve()):
        raise _unlike(data, f"there is no {place.name}", "the folder holds <corruption>.npy and the labels")
    try:
        array: np.ndarray = np.load(place, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as e:
        code = "TM714" if "pickle" in str(e) or "Python objects" in str(e) else "TM712"
        raise stop(code, f"{place.name} cannot be read as an array: {e}", data.read.origin) from e
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or not array.ndim:
        raise stop("TM712", f"{place.name} is no array of numbers", data.read.origin)
    return array


# --- <corruption>/<severity>/<class>/<file> -----------------------------------------------------------------------


def folders(data: Data, files: Files) -> Corrupted:
    """``<corruption>/<severity>/<class>/<file>``. Under ``labels: names`` a folder's name is that of its class, under
    ``labels: sorted`` the k-th of the sorted folders is class k; every corruption must then have the same folders."""
    root = _root(data, files)
    places, labels, ids, found = [], [], [], []
    classes: list[str] | None = None
    for name, severity in _cells(data, root):
        here = root / name / str(severity)
        kinds = _folders(here)
        if classes is not None and kinds != classes:
            other = sorted(set(kinds) ^ set(classes))[0]
            raise _unlike(data, f"the classes of {name}/{severity} are others: {other}", "every one has the same")
        classes = kinds
        for at, kind in enumerate(kinds):
            for place in folder_files(here / kind):
                places.append(place)
                labels.append(kind if _by_name(data) else at)
                ids.append(place.relative_to(root).as_posix())
                found.append((name, severity))
    count = None if _by_name(data) else len(classes or ())
    return Corrupted(tuple(places), tuple(labels), tuple(ids), tuple(found), count)


def _by_name(data: Data) -> bool:
    return dict(data.read.args)["labels"] == Symbol("names")


def _cells(data: Data, root: Path) -> Iterator[CorruptionCell]:
    for name in _names(data, _folders(root)):
        there = _folders(root / name)
        if strange := [s for s in there if not s.isascii() or not s.isdigit() or str(int(s)) != s or s == "0"]:
            raise _unlike(data, f"{name}/{strange[0]} is no severity", "<corruption>/<severity>/<class>/<file>")
        for severity in _strengths(data, sorted(int(s) for s in there), name):
            yield name, severity


def _folders(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir() if p.is_dir() and not p.is_symlink())
