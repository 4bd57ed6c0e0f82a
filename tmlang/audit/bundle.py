"""What a run leaves behind (docs/bundle.md): written atomically into a folder, sealed by one statement, read strictly
from there or from one zip."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tmlang.audit import outputs, tablefile, tensorfile
from tmlang.audit.outputs import OutputBounds
from tmlang.audit.package import Archive, packed
from tmlang.audit.record import Record
from tmlang.audit.schema import from_table, to_table
from tmlang.audit.store import Folder, Store, checked_name
from tmlang.base import canonical
from tmlang.base.files import write_atomically
from tmlang.diagnostics.stop import stop
from tmlang.plan.codec import FormError
from tmlang.plan.ir import Plan
from tmlang.plan.text import plan_from_json

STATEMENT = "statement.json"
LOCK = "lock.json"
CRATE = "ro-crate-metadata.json"
SIGNATURE = "signature.json"
_OUTSIDE = frozenset({STATEMENT, SIGNATURE})
"""What the statement does not name: itself, and what signs it."""
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:tmlang:run:v1"


class Bundle:
    """Write: ``create`` (or ``resume``), then in any order ``add_text``, ``add_json``, ``add_candidates``,
    ``add_outputs``, ``write_records``; last ``seal``. Read: ``open`` (sealed bundles only unless ``sealed=False``).

    Every file reaches the disk whole (temporary file, fsync, rename) or not at all, so a killed run can be resumed
    from what is there. Whatever cannot be written or read as it stands ends in a ``Stop`` (TM824, TM84x).
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.path = path
        self._writable = writable
        self._store: Store = Folder(path) if path.is_dir() else Archive.at(path)
        self._last: tuple[tuple[str, str], tensorfile.TensorFile] | None = None

    @classmethod
    def create(cls, path: str | Path) -> Bundle:
        """A new bundle in the empty or absent folder ``path``."""
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise stop("TM824", f"`{folder}` is not empty", help="name a new folder, or resume the run in this one")
        except OSError as error:
            raise stop("TM824", f"`{folder}` cannot be used: {error.strerror}") from error
        return cls(folder, writable=True)

    @classmethod
    def resume(cls, path: str | Path) -> Bundle:
        """An unsealed bundle, to be continued. Half-written files are removed, and candidates and bounds of outputs
        whose rows were never committed."""
        folder = Path(path)
        if not folder.is_dir():
            raise stop("TM840", f"there is no folder `{folder}`")
        if (folder / STATEMENT).exists():
            raise stop("TM847", f"`{folder}` is sealed, so nothing can be added to it")
        bundle = cls(folder, writable=True)
        for name in bundle._store.names():
            if _is_leftover(name):
                (folder / name).unlink()
        named = bundle.named()
        for name in list(bundle.files()):
            if name.startswith(("candidates/", "outputs/")) and name not in named:
                (folder / name).unlink()
        return bundle

    @classmethod
    def open(cls, path: str | Path, *, sealed: bool = True) -> Bundle:
        """A bundle to be read, in its folder or packed; of a sealed one every hash is checked."""
        if not (Path(path).is_dir() or Path(path).is_file()):
            raise stop("TM840", f"there is no folder and no packed bundle `{path}`")
        bundle = cls(Path(path), writable=False)
        if sealed:
            faults = bundle.hash_faults()
            if faults:
                raise stop("TM841", f"`{bundle.path}` is not what was sealed: {faults[0]}", notes=tuple(faults[1:20]))
        return bundle

    # Writing ---------------------------------------------------------------------------------------------------------

    def add_bytes(self, name: str, data: bytes) -> None:
        """One file, e.g. ``plan.json``; a name that stands already is replaced."""
        target = self._target(name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, data)
        except OSError as error:
            raise stop("TM824", f"`{target}` cannot be written: {error.strerror}") from error

    def add_text(self, name: str, text: str) -> None:
        """A text file, e.g. ``spec/main.tm``, ``report.md``."""
        self.add_bytes(name, text.encode("utf-8"))

    def add_json(self, name: str, value: Any) -> None:
        """``value`` as canonical JSON (RFC 8785), e.g. ``environment.json``, ``columns.json``."""
        self.add_bytes(name, canonical.dumps(value))

    def add_candidates(
        self,
        x: NDArray[Any],
        originals: NDArray[Any],
        *,
        space: str,
        indices: bool = False,
        theta: NDArray[np.float64] | None = None,
        draws: NDArray[np.float64] | None = None,
        picture: NDArray[Any] | None = None,
    ) -> tuple[str, ...]:
        """Commit candidates (N, *shape) beside their originals; gives the N references for ``Record.candidate``.

        ``indices``: a lattice space's integer indices instead of values. ``theta``: (N, p), the parameters that make
        each candidate under a transform. ``draws`` (N, draws, p) and ``picture`` (N, *shape): what nature drew around
        each, and what it made of it in one draw, in the same kind as the candidates.
        """
        if x.shape != originals.shape:
            raise ValueError(f"{x.shape} candidates and {originals.shape} originals")
        name = self._next("candidates", "safetensors")
        stored = {"space": space, "stored": "indices" if indices else "values"}
        beside = {"theta": theta, "draws": draws, "picture": picture}
        made = {key: array for key, array in beside.items() if array is not None}
        self.add_bytes(name, tensorfile.write({"x": x, "original": originals, **made}, stored))
        return tuple(f"{name}#{row}" for row in range(len(x)))

    def add_outputs(self, bounds: Sequence[OutputBounds]) -> tuple[str, ...]:
        """Commit the bounds of the outputs of N units of one model; gives the references for ``Record.outputs``."""
        name = self._next("outputs", "safetensors")
        self.add_bytes(name, tensorfile.write(outputs.as_tensors(bounds), {}))
        return tuple(f"{name}#{row}" for row in range(len(bounds)))

    def write_records(self, records: Sequence[Record]) -> str:
        """Commit one batch of rows; gives the file's name."""
        name = self._next("records", "parquet")
        buffer = io.BytesIO()
        pq.write_table(to_table(records), buffer, compression="zstd")
        self.add_bytes(name, buffer.getvalue())
        return name

    def seal(self, predicate: Mapping[str, Any]) -> str:
        """Write ``statement.json`` (in-toto Statement v1) over every file; gives its SHA-256."""
        subject = [{"name": name, "digest": {"sha256": self._store.digest(name)}} for name in self.files()]
        statement = {
            "_type": STATEMENT_TYPE,
            "subject": subject,
            "predicateType": PREDICATE_TYPE,
            "predicate": dict(predicate),
        }
        self.add_json(STATEMENT, statement)
        self._writable = False
        return self._store.digest(STATEMENT)

    def add_signature(self, data: bytes) -> None:
        """Put what signs the statement of a sealed bundle beside it; TM847 for a packed one."""
        if self.path.is_file():
            raise stop("TM847", f"`{self.path}` is packed", help="sign the folder, and pack it then")
        Bundle(self.path, writable=True).add_bytes(SIGNATURE, data)

    def _next(self, folder: str, ending: str) -> str:
        taken = [int(n.split("/")[1].split(".")[0]) for n in self.files() if n.startswith(folder + "/")]
        return f"{folder}/{max(taken, default=0) + 1:06d}.{ending}"

    def _target(self, name: str) -> Path:
        if not self._writable:
            raise stop("TM847", f"`{self.path}` is not open for writing")
        return self.path / checked_name(name)

    # Reading ---------------------------------------------------------------------------------------------------------

    def files(self) -> Iterator[str]:
        """Names of all whole files, sorted, statement and signature apart. A link or a device is refused (TM843)."""
        return (checked_name(n) for n in self._store.names() if n not in _OUTSIDE and not _is_leftover(n))

    def __contains__(self, name: str) -> bool:
        return name in self._store.names()

    def read_bytes(self, name: str) -> bytes:
        """The file ``name``; it must be a plain file inside the bundle."""
        return self._store.read(name)

    def text(self, name: str) -> str:
        try:
            return self.read_bytes(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise stop("TM842", f"`{name}` is no UTF-8 text") from error

    def json(self, name: str) -> Any:
        """Strictly read JSON: a repeated key, NaN or unbounded nesting is refused."""
        try:
            return canonical.loads(self.read_bytes(name))
        except canonical.NotCanonical as error:
            raise stop("TM842", f"`{name}` is not read: {error}") from error

    def plan(self) -> Plan:
        """The plan of the run (``plan.json``); TM842 for anything that is none."""
        try:
            return plan_from_json(self.read_bytes("plan.json"))
        except FormError as error:
            raise stop("TM842", f"`plan.json` is not read: {error}") from error

    def records(self) -> list[Record]:
        """All rows, in the order in which they were committed."""
        return [record for _, record in self.placed_records()]

    def named(self) -> set[str]:
        """The files that the rows name: candidates, and bounds of outputs."""
        return {r.partition("#")[0] for row in self.records() for r in (row.candidate, row.outputs) if r}

    def placed_records(self) -> Iterator[tuple[str, Record]]:
        """Every row with its place, ``records/000001.parquet#17`` (rows of a file count from 0), in order."""
        for name in self.files():
            if name.startswith("records/"):
                try:
                    rows = from_table(tablefile.read(self.read_bytes(name)))
                except (ValueError, OSError, pa.ArrowException) as error:
                    raise stop("TM842", f"`{name}` is not read: {error}") from error
                yield from ((f"{name}#{i}", row) for i, row in enumerate(rows))

    def candidate(self, reference: str) -> tuple[NDArray[Any], NDArray[Any], bool]:
        """(candidate, original, whether they are lattice indices) of a ``Record.candidate`` reference."""
        file, i = self._row(reference, self.candidates)
        return file.tensors["x"][i], file.tensors["original"][i], file.metadata["stored"] == "indices"

    def parameters(self, reference: str) -> tuple[float, ...] | None:
        """The parameters of a transform beside a candidate; ``None`` without any."""
        file, i = self._row(reference, self.candidates)
        return tuple(file.tensors["theta"][i].tolist()) if "theta" in file.tensors else None

    def nature(self, reference: str) -> tuple[NDArray[np.float64], NDArray[Any]] | None:
        """(draws, p) that nature drew around a candidate, and the picture of one draw; ``None`` without any."""
        file, i = self._row(reference, self.candidates)
        return (file.tensors["draws"][i], file.tensors["picture"][i]) if "draws" in file.tensors else None

    def outputs(self, reference: str) -> OutputBounds:
        """The bounds of a ``Record.outputs`` reference."""
        file, i = self._row(reference, self.output_file)
        return OutputBounds(**{name: array[i] for name, array in file.tensors.items()})

    def _row(self, reference: str, read: Callable[[str], tensorfile.TensorFile]) -> tuple[tensorfile.TensorFile, int]:
        """The file that a reference names, and the row in it. The last file is kept: rows come in its order."""
        name, _, row = reference.partition("#")
        key = (read.__name__, name)
        if self._last is None or self._last[0] != key:
            self._last = key, read(name)
        file = self._last[1]
        if not row.isdigit() or int(row) >= min(len(a) for a in file.tensors.values()):
            raise stop("TM844", f"there is no `{reference}` in the bundle")
        return file, int(row)

    def candidates(self, name: str) -> tensorfile.TensorFile:
        """A file of candidates: ``x`` and ``original`` of one shape, beside them ``theta`` (N, p) under a transform and
        ``draws`` (N, draws, p) and ``picture`` where nature draws; ``space`` and ``stored`` in its metadata."""
        try:
            file = tensorfile.read(self.read_bytes(name))
        except tensorfile.TensorFileError as error:
            raise stop("TM842", f"`{name}` is not read: {error}") from error
        others = file.tensors.keys() - {"theta"}
        known = others in ({"x", "original"}, {"x", "original", "draws", "picture"})
        if not known or file.metadata.keys() != {"space", "stored"}:
            raise stop("TM842", f"`{name}` holds something else than candidates and their originals")
        x, original = file.tensors["x"], file.tensors["original"]
        if x.shape != original.shape or x.dtype != original.dtype or x.ndim < 2:
            raise stop("TM842", f"`{name}`: candidates and originals differ in shape or kind")
        theta = file.tensors.get("theta")
        if theta is not None and (theta.ndim != 2 or len(theta) != len(x) or theta.dtype != np.float64):
            raise stop("TM842", f"`{name}`: the parameters are no numbers beside each candidate")
        if "draws" in others:
            draws, picture = file.tensors["draws"], file.tensors["picture"]
            alike = picture.shape == x.shape and picture.dtype == x.dtype
            if not alike or draws.ndim != 3 or len(draws) != len(x) or draws.dtype != np.float64:
                raise stop("TM842", f"`{name}`: what nature drew is no numbers and a picture beside each candidate")
        return file

    def output_file(self, name: str) -> tensorfile.TensorFile:
        """A file of bounds of outputs: arrays ``lower <= least <= greatest <= upper`` (N, K), float64."""
        try:
            return outputs.checked(tensorfile.read(self.read_bytes(name)))
        except tensorfile.TensorFileError as error:
            raise stop("TM842", f"`{name}` is not read: {error}") from error

    def packed(self) -> bytes:
        """The files and their statement as one zip: equal bundles give equal bytes."""
        return packed({name: self.read_bytes(name) for name in (*self.files(), *_OUTSIDE) if name in self})

    def statement(self) -> dict[str, Any]:
        """The statement, its form checked; TM840 where there is none."""
        if STATEMENT not in self:
            raise stop("TM840", f"`{self.path}` has no {STATEMENT}: it was never sealed", help="let the run finish")
        found = self.json(STATEMENT)
        if not isinstance(found, dict) or found.keys() != {"_type", "subject", "predicateType", "predicate"}:
            raise stop("TM840", f"{STATEMENT} is no in-toto statement")
        if (found["_type"], found["predicateType"]) != (STATEMENT_TYPE, PREDICATE_TYPE):
            raise stop("TM840", f"{STATEMENT} is about something else than a run of tmc")
        if not isinstance(found["subject"], list) or not all(_is_subject(s) for s in found["subject"]):
            raise stop("TM840", f"{STATEMENT}: a subject is a name and a SHA-256")
        return found

    def hash_faults(self) -> list[str]:
        """Where the files differ from the statement: changed, missing, or not named in it."""
        named = {s["name"]: s["digest"]["sha256"] for s in self.statement()["subject"]}
        there = set(self._store.names()) - _OUTSIDE
        faults = [f"`{n}` is missing" for n in named.keys() - there]
        faults += [f"`{n}` is not named in the statement" for n in there - named.keys()]
        faults += [f"`{n}` has changed" for n in named.keys() & there if self._store.digest(n) != named[n]]
        return sorted(faults)


def _is_leftover(name: str) -> bool:
    """A half-written file of a run that was killed (``base.files`` writes under a hidden name, then renames)."""
    return name.rpartition("/")[2].startswith(".")


def _is_subject(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.keys() != {"name", "digest"} or not isinstance(entry["name"], str):
        return False
    digest = entry["digest"]
    known = isinstance(digest, dict) and digest.keys() == {"sha256"} and isinstance(digest["sha256"], str)
    return known and re.fullmatch("[0-9a-f]{64}", digest["sha256"]) is not None
