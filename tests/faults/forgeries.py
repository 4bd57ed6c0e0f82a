"""A catalogue of forgeries: any cell of any row, and any file, changed, dropped, swapped or copied from another run.

The forger is the strongest there is: whatever follows from what was changed (numbers, claims, descriptions, files that
nothing names any more, hashes) is written anew by tmlang itself. ``forgery(seed)`` makes one and says who found it;
``alarm(seed)`` makes an honest run and says who blames it.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from math import nextafter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest
from audit_support import forged, sealed
from honest import KINDS, honest

from tmlang.api.auditing import audit
from tmlang.api.rerunning import Again, run_again
from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.audit.schema import COLUMNS, RecordColumn, of_class
from tmlang.audit.tensorfile import read, write
from tmlang.diagnostics.stop import Stop
from tmlang.execute import calls
from tmlang.execute.workers import Limits
from tmlang.plan.text import plan_hash
from tmlang.report.write import write_descriptions

WAYS = ("changed", "dropped", "swapped", "copied")
CHECKED = tuple(c for c in COLUMNS if c.name in {*of_class("re-derived"), *of_class("re-run")})
RUNS = 4
"""Honest runs of every kind that are forged."""
_TESTIMONY_OF_RUN = ("backends", "numpy", "capability", "processor")
"""What ``run.json`` tells of the machine and of code that may not lie here: consistent testimony."""


@dataclass(frozen=True)
class Forgery:
    """``by``: ``audit``, ``model``, ``rerun``, or ``nobody``; ``not reproduced`` where a row tells that time or memory
    failed, which a rerun cannot deny, and says (exit code 4)."""

    what: str
    by: str


@contextmanager
def units_of_calls(folder: Path) -> Iterator[None]:
    """Calls of the size that the run in ``folder`` had."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "UNITS", int((folder / "units").read_text()))
        yield


def found_by(folder: Path, path: Path, limits: Limits = Limits()) -> tuple[str, list[str]]:  # noqa: B008
    """Who finds something in the bundle at ``path`` of the spec in ``folder``, and what."""
    try:
        found = audit(path)
        if found.faults:
            return "audit", [f.text for f in found.faults]
        with units_of_calls(folder):
            run_again(found, path, Again(folder, limits=limits))
    except Stop as stopped:
        return "audit", [d.message for d in stopped.diagnostics]
    if found.faults:
        return "rerun" if found.faults[0].code == "TM857" else "model", [f.text for f in found.faults]
    return "nobody" if not found.unreproduced else "not reproduced", [f.text for f in found.unreproduced]


@cache
def _home() -> Path:
    return Path(mkdtemp(prefix="forgeries-"))


@cache
def run_of(kind: str, number: int) -> Path:
    return honest(_home() / f"{kind}-{number}", kind, number)


# Cells ----------------------------------------------------------------------------------------------------------------


def _other(column: RecordColumn, value: Any, random: Random) -> Any:
    """Another value that the column may hold."""
    if column.words:
        return random.choice(sorted(column.words - {value}))
    if column.kind is bool:
        return not value
    if column.kind is int:
        return random.choice([1, -1, 7]) + (value or 0)
    if column.kind is float:
        return random.choice([nextafter(value or 0.0, 9.0), (value or 0.0) + 0.25, -(value or 1.0)])
    if column.name == "outcomes" and value:
        at = random.randrange(len(value))
        return value[:at] + ("1" if value[at] == "0" else "0") + value[at + 1 :]
    return f"{value or ''}1"


def _gone(column: RecordColumn) -> Any:
    return None if column.nullable else {int: 0, float: 0.0, bool: False, str: ""}[column.kind]


def _follows(row: Record) -> Record:
    """With the cells that a reader works out from the others."""
    if row.stage == "clean" or row.outcomes is not None or row.verdict == "certified":
        return row
    decided = row.decision is not None
    return replace(
        row,
        changed_correct=row.clean == "cc" and row.decision != row.label if decided else None,
        rejected=row.decision == -1 if decided else row.rejected,
        counted_failure=bool(row.observed_failure and row.within_access) if decided else row.counted_failure,
    )


def cell(rows: list[Record], elsewhere: list[Record], column: RecordColumn, way: str, random: Random) -> list[Record]:
    """``rows`` with one cell of ``column`` forged; the same rows where that changes nothing."""
    at = random.randrange(len(rows))
    value = getattr(rows[at], column.name)
    other = random.randrange(len(rows))
    if way == "changed":
        new = _other(column, value, random)
    elif way == "dropped":
        new = _gone(column)
    elif way == "swapped":
        new = getattr(rows[other], column.name)
    else:
        alike = [r for r in elsewhere if r.stage == rows[at].stage] or elsewhere
        new = getattr(random.choice(alike), column.name)
    made = list(rows)
    made[at] = replace(rows[at], **{column.name: new})
    if way == "swapped":
        made[other] = replace(made[other], **{column.name: value})
    return [_follows(r) for r in made] if random.random() < 0.5 else made


def whole_row(rows: list[Record], elsewhere: list[Record], way: str, random: Random) -> list[Record]:
    """One row forged as a whole; a failure that becomes ``none`` is a row that was changed."""
    made, at = list(rows), random.randrange(len(rows))
    if way == "changed":
        found = [i for i, r in enumerate(rows) if r.stage != "clean" and r.candidate] or [at]
        made[at] = nothing(rows[at := random.choice(found)])
    elif way == "dropped":
        del made[at]
    elif way == "swapped":
        other = random.randrange(len(rows))
        made[at], made[other] = made[other], made[at]
    else:
        made[at] = replace(random.choice(elsewhere), candidate=None, outputs=None)
    return made


_OFFERED = (
    "decision", "rule", "within_scope", "within_access", "changed_correct", "observed_failure", "counted_failure",
    "rejected", "margin", "linf", "l2", "l1", "l0", "distance", "branch", "candidate", "draws", "errors", "outcomes",
    "draw_seed",
)  # fmt: skip


def nothing(row: Record) -> Record:
    """The row of a search that offers nothing, in place of what it found."""
    told = dict.fromkeys(_OFFERED)
    return replace(row, status="none", projected=False, message=None, **told)  # type: ignore[arg-type]


# Files ----------------------------------------------------------------------------------------------------------------


def _leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _leaves(inner, (*at, key))
    if not isinstance(value, (dict, list)):
        yield at


def _change_leaf(told: Any, random: Random) -> None:
    places = [p for p in _leaves(told) if p and not {*map(str, p)} & {*_TESTIMONY_OF_RUN}]
    *way, last = random.choice(places)
    for key in way:
        told = told[key]
    was = told[last]
    told[last] = not was if isinstance(was, bool) else was + 1 if isinstance(was, (int, float)) else f"{was or ''}1"


def _changed_file(path: Path, random: Random) -> None:
    data = path.read_bytes()
    if path.suffix == ".json":
        told = json.loads(data)
        _change_leaf(told, random)
        Bundle(path.parent, writable=True).add_json(path.name, told)
    elif path.suffix == ".safetensors":
        file = read(data)
        arrays = {k: v.copy() for k, v in file.tensors.items()}
        array = arrays[random.choice(sorted(arrays))].reshape(-1)
        array[random.randrange(len(array))] += 1
        path.write_bytes(write(arrays, dict(file.metadata)))
    elif path.suffix == ".tm":
        path.write_text(path.read_text().replace("seed: 3", "seed: 4").replace("by hand", "by heart"))
    else:
        path.write_bytes(data[: len(data) // 2])


def _forge_file(path: Path, elsewhere: Path, way: str, random: Random) -> str:
    """One file forged, and what tells of it written anew."""
    untold = {"environment.json", "statement.json"}  # testimony, and what is written anew
    names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
    name = random.choice([n for n in names if n not in untold])
    target = path / name
    if way == "changed":
        _changed_file(target, random)
    elif way == "dropped":
        target.unlink()
    elif way == "swapped":
        other = path / random.choice([n for n in names if n not in (name, "statement.json")])
        one, two = target.read_bytes(), other.read_bytes()
        target.write_bytes(two)
        other.write_bytes(one)
    else:
        source = elsewhere / name if (elsewhere / name).is_file() else elsewhere / "run.json"
        target.write_bytes(source.read_bytes())
    bundle = Bundle(path, writable=True)
    told = json.loads((path / "statement.json").read_bytes())["predicate"]
    if name not in ("croissant.json", "ro-crate-metadata.json") and way != "swapped":
        # Where it tells of something that is no bundle any more, nobody can.
        with suppress(Stop, KeyError, ValueError, TypeError, StopIteration, AssertionError):
            write_descriptions(bundle)
    (path / "statement.json").unlink()
    with suppress(Stop):
        Bundle(path, writable=True).seal(told)
    return name


# All of them ----------------------------------------------------------------------------------------------------------


def tidy(path: Path) -> None:
    """Takes away saved inputs that no row names any more, and seals again."""
    bundle = Bundle(path, writable=True)
    named = bundle.named()
    loose = [n for n in bundle.files() if n.startswith(("candidates/", "outputs/")) and n not in named]
    if not loose:
        return
    for name in loose:
        (path / name).unlink()
    (path / "statement.json").unlink()
    write_descriptions(bundle)
    sealed(bundle)


def _alike(honest: Path, path: Path, name: str) -> bool:
    """Whether a copied file says the same but for testimony: the rows of a property, a plan of equal hash."""
    try:
        one, two = Bundle.open(honest, sealed=False), Bundle.open(path, sealed=False)
        if name == "plan.json":
            return plan_hash(one.plan()) == plan_hash(two.plan())
        rows = [[replace(r, seconds=0.0, message=None) for r in b.records()] for b in (one, two)]
        return name.startswith("records/") and rows[0] == rows[1]
    except Stop:
        return False


def forge(kind: str, number: int, path: Path, random: Random) -> str | None:
    """A forged copy of an honest run at ``path``; what was done, or ``None`` where it came out as it was."""
    folder, elsewhere = run_of(kind, number), run_of(kind, (number + 1) % RUNS)
    way = random.choice(WAYS)
    if random.random() < 0.12:
        shutil.copytree(folder / "out", path)
        name = _forge_file(path, elsewhere / "out", way, random)
        same = all(
            (path / p.relative_to(folder / "out")).is_file()
            and (path / p.relative_to(folder / "out")).read_bytes() == p.read_bytes()
            for p in (folder / "out").rglob("*")
            if p.is_file()
        )
        return None if same or _alike(folder / "out", path, name) else f"{kind}: {name} {way}"
    column = random.choice((*CHECKED, None))
    rows, others = Bundle.open(folder / "out").records(), Bundle.open(elsewhere / "out").records()
    made = whole_row(rows, others, way, random) if column is None else cell(rows, others, column, way, random)
    if made == rows:
        return None
    what = f"{kind}: {column.name if column else 'a row'} {way}"
    try:
        forged(folder / "out", path, rows=lambda _: made)
        tidy(path)
    except Exception:  # tmlang's own writer refuses these rows
        shutil.rmtree(path, ignore_errors=True)
        return None
    return what


def forgery(seed: int) -> Forgery:
    """The forgery of a seed, and who finds it."""
    random, tries = Random(seed), 0
    with TemporaryDirectory(prefix="forged-") as folder:
        while True:
            kind, number = random.choice(KINDS), random.randrange(RUNS)
            path = Path(folder) / f"{tries}"
            what = forge(kind, number, path, random)
            if what is not None:
                return Forgery(what, found_by(run_of(kind, number), path)[0])
            tries += 1


def missed(seed: int, count: Callable[..., None] | None = None) -> list[str]:
    """For a campaign: the forgery of a seed, where nobody finds it."""
    made = forgery(seed)
    if count is not None:
        count(**{made.by.replace(" ", "_"): 1})
    return [made.what] if made.by == "nobody" else []


def alarm(seed: int) -> list[str]:
    """For a campaign: who blames an honest run, whatever threads and workers made it and make it again."""
    random = Random(seed)
    threads, workers = random.choice([1, 1, 2]), random.choice([0, 0, 0, 2])
    with TemporaryDirectory(prefix="honest-") as folder:
        kind = KINDS[seed % len(KINDS)]
        made = honest(Path(folder) / "run", kind, seed + RUNS, threads=threads, workers=workers)
        again = Limits(random.choice([0, 0, 0, 2])) if threads == 1 or workers else Limits()
        return [f"{kind}: {text}" for text in found_by(made, made / "out", again)[1]]


def by_finder(seeds: range) -> Counter[str]:
    return Counter(forgery(seed).by for seed in seeds)
