"""The bundle of a run while it is written: its identity, what is committed, and going on from there."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tmlang import __version__
from tmlang.audit.bundle import LOCK, STATEMENT, Bundle
from tmlang.audit.record import Record
from tmlang.base import canonical
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.stop import Stop, stop
from tmlang.execute.code import code
from tmlang.execute.confirm import Drawn
from tmlang.execute.isolation import Batch
from tmlang.execute.machine import processor
from tmlang.execute.world import World
from tmlang.meaning.spaces import Space
from tmlang.plan.ir import Plan
from tmlang.plan.lock import Lock, installed, lock_json
from tmlang.plan.text import plan_hash, plan_json
from tmlang.report.write import tools, write_descriptions, write_into

RUN = "run.json"
"""Names the run: two runs with equal ``run.json`` would commit equal rows, so one may go on from the other."""


def identity(
    plan: Plan,
    world: World,
    batch_size: Mapping[str, int],
    examples: Mapping[str, Sequence[str]],
    lock: Lock | None,
) -> dict[str, Any]:
    """Everything that the rows of a run depend on. ``examples``: the ids that the data gave to each evaluation, in
    order. ``lock``: what the run was held to."""
    return {
        "tmlang": __version__,
        "plan": plan_hash(plan),
        "artifacts": dict(sorted(world.files.hashes.items())),
        "models": {name: attacked.evaluator.identity() for name, attacked in world.loaded().items()},
        "code": {name: dict(attacked.facts) for name, attacked in world.loaded().items()},
        "batch_size": dict(batch_size),
        "examples": {name: list(ids) for name, ids in examples.items()},
        "lock": lock and lock.sha256,
        "libraries": dict(installed(plan, world.capabilities)),
        "backends": code(plan, world.capabilities),
    }


def first_files(plan: Plan, sources: Mapping[str, str], lock: Lock | None) -> dict[str, bytes]:
    """What a bundle holds before any row: the plan, the texts that it was made of, and the lock that it obeys."""
    spec = {f"spec/{name}": text.encode() for name, text in sources.items()}
    return {"plan.json": plan_json(plan)} | spec | ({LOCK: lock_json(lock)} if lock else {})


class RunFolder:
    """A bundle that belongs to one identity. ``sealed``: the run was finished before."""

    def __init__(self, bundle: Bundle, *, sealed: bool) -> None:
        self.bundle, self.sealed = bundle, sealed

    @property
    def path(self) -> Path:
        return self.bundle.path

    @classmethod
    def open(cls, run: Mapping[str, Any], first: Mapping[str, bytes], out: Path | None, name: str) -> RunFolder:
        """The folder ``out`` (or ``runs/<name>-<identity>``): new, or the same run to go on with. ``first``: see
        :func:`first_files`.

        Raises TM824 when it holds anything else.
        """
        digest = sha256(canonical.dumps(run)).hexdigest()
        path = out if out is not None else Path("runs") / f"{name}-{digest[:10]}"
        if _is_fresh(path):
            bundle = Bundle.create(path)
            # Before anything else: whatever happens from here on, the folder says whose it is.
            bundle.add_json(RUN, run)
            return cls(_with(bundle, first), sealed=False)
        sealed = (path / STATEMENT).exists()
        if not (path / RUN).is_file():
            raise stop("TM824", f"`{path}` is not empty and holds no run", help="name another folder with --out")
        bundle = Bundle.open(path) if sealed else Bundle.resume(path)
        before, now = bundle.json(RUN), canonical.loads(canonical.dumps(run))
        if before != now:
            differs = sorted(k for k in {*before, *now} if before.get(k) != now.get(k))
            raise stop(
                "TM824",
                f"`{path}` holds another run",
                notes=(f"it differs in {', '.join(differs)}",),
                help=f"name another folder with --out; --reuse {path} takes what is the same",
            )
        return cls(bundle if sealed else _with(bundle, first), sealed=sealed)

    def commit(self, batch: Batch, originals: np.ndarray, space: Space, indices: Any) -> list[Record]:
        """Write a batch: the candidates that its rows keep, beside their originals, and bounds of outputs; then the
        rows, which name them.

        ``indices``: gives lattice indices (n, *shape) of values, or ``None`` for a real space; what lies off the
        lattice is stored as values.
        """
        rows = list(batch.rows)
        groups: dict[tuple[bool, bool, bool], list[int]] = {}
        for i, keep in enumerate(batch.kept):
            if keep.x is not None:
                as_indices = indices is not None and rows[i].status != "invalid"
                groups.setdefault((as_indices, keep.theta is not None, keep.drawn is not None), []).append(i)
        for (as_indices, made, _), members in groups.items():
            x = np.stack([self._x(batch, i) for i in members])
            start = originals[[batch.kept[i].unit for i in members]]
            if as_indices:
                x, start = indices(x), indices(start)
            theta = np.stack([t for i in members if (t := batch.kept[i].theta) is not None]) if made else None
            around = [d for i in members if (d := batch.kept[i].drawn) is not None]
            nature = _drawn(around, indices if as_indices else None)
            stored = {"theta": theta, **nature}
            names = self.bundle.add_candidates(x, start, space=space.name, indices=as_indices, **stored)
            for i, name in zip(members, names, strict=True):
                rows[i] = replace(rows[i], candidate=name)
        proved = {i: keep.outputs for i, keep in enumerate(batch.kept) if keep.outputs is not None}
        if proved:
            for i, name in zip(proved, self.bundle.add_outputs(list(proved.values())), strict=True):
                rows[i] = replace(rows[i], outputs=name)
        self.bundle.write_records(rows)
        return rows

    @staticmethod
    def _x(batch: Batch, row: int) -> np.ndarray:
        x = batch.kept[row].x
        assert x is not None
        return x

    def seal(self, files: Mapping[str, Any], predicate: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
        """Add the last files and the reports, and close the bundle; gives the libraries that a report lacks, and
        the figures that could not be drawn."""
        for name, value in files.items():
            self.bundle.add_json(name, value)
        lacking: tuple[Diagnostic, ...] = ()
        try:
            lacking = write_into(self.bundle)
        except Stop as stopped:
            lacking = stopped.diagnostics
            if any(d.code != "TM510" for d in lacking):
                raise
        write_descriptions(self.bundle)
        self.bundle.seal(predicate)
        self.sealed = True
        return lacking


def _drawn(found: Sequence[Drawn], indices: Any) -> dict[str, np.ndarray]:
    """What nature drew around candidates, as arrays."""
    if not found:
        return {}
    pictures = np.stack([one.picture for one in found])
    shown = pictures if indices is None else indices(pictures)
    return {"draws": np.stack([one.parameters for one in found]), "picture": shown}


def _is_fresh(path: Path) -> bool:
    """Whether there is nothing in ``path`` but, at most, the first file of a run that was stopped while writing it;
    that is taken away."""
    if not path.exists():
        return True
    held = list(path.iterdir()) if path.is_dir() else [path]
    if not all(p.name.startswith(f".{RUN}.") for p in held):
        return False
    for leftover in held:
        leftover.unlink()
    return True


def _with(bundle: Bundle, files: Mapping[str, bytes]) -> Bundle:
    """``bundle`` with those of the files that it lacks."""
    there = set(bundle.files())
    for name, data in files.items():
        if name not in there:
            bundle.add_bytes(name, data)
    return bundle


def environment(world: World, timing: Mapping[str, Any], argv: Sequence[str] = ()) -> dict[str, Any]:
    """The machine and the measured times: recorded, and no part of what the run is."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": processor(),
        "command": list(argv),
        "unfrozen": sorted(world.files.unfrozen),
        "timing": timing,
        "tools": tools(),
        "date": datetime.now(UTC).date().isoformat(),
    }
