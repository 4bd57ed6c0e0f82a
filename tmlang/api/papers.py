"""A spec, its lock and its evidence inside a paper's PDF, and out of it again (docs/papers.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tmlang.api.auditing import audit
from tmlang.api.locked import lock_path
from tmlang.api.reading import Refused, check
from tmlang.api.running import own_texts
from tmlang.audit.bundle import Bundle
from tmlang.audit.package import packed, unpack
from tmlang.base.files import write_atomically
from tmlang.diagnostics.stop import Stop, stop
from tmlang.plan.ir import Plan
from tmlang.plan.lock import Lock, artifacts, frozen, lock_from_json
from tmlang.plan.text import plan_hash
from tmlang.report.attachments import attach, attached
from tmlang.report.claims import claims_json, judged, promised

SPEC, LOCK, CLAIMS, BUNDLE, MODULES = ".tm", ".tm.lock", ".claims.json", ".bundle.zip", ".modules.zip"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+-]{0,63}")
MAX_PDF = 1024**3


@dataclass(frozen=True)
class Attached:
    """``files``: what lies in the PDF now, with sizes. ``claims``: the document of claims (docs/claim.md)."""

    files: Mapping[str, int]
    claims: Mapping[str, Any]


def attach_to(pdf: Path, spec: Path, bundle: Path | None, out: Path) -> Attached:
    """Write ``out``: the PDF with the spec, its lock, its claims and, if there is one, the bundle.

    Raises a ``Stop``: TM860 without a lock, TM862 when spec and lock differ in meaning, TM883 when the bundle is of
    another plan, and what :mod:`tmlang.report.attachments` raises.
    """
    name = spec.name.removesuffix(SPEC)
    if not _NAME.fullmatch(name) or not spec.name.endswith(SPEC):
        help = "a name of letters, digits, _, + and -, and the ending .tm"
        raise stop("TM883", f"`{spec.name}` cannot be the name of an attached spec", help=help)
    lock, texts = _locked(spec)
    files = {name + SPEC: texts.pop(spec.name).encode("utf-8")}
    files[name + LOCK] = _read(lock_path(str(spec)))
    if texts:
        files[name + MODULES] = packed({module: text.encode("utf-8") for module, text in texts.items()})
    claims = promised(lock.plan)
    if bundle is not None:
        opened = Bundle.open(bundle)
        _same(opened, lock)
        files[name + BUNDLE], claims = opened.packed(), judged(opened)
    files[name + CLAIMS] = claims_json(claims)
    _write(out, attach(_read(pdf), files))
    return Attached({n: len(data) for n, data in sorted(files.items())}, claims)


@dataclass
class Extracted:
    """One spec out of a paper. ``folder`` holds it; ``faults`` empty: everything in ``checked`` holds."""

    name: str
    folder: Path
    checked: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


def extract_from(pdf: Path, out: Path) -> list[Extracted]:
    """Write what is attached to ``pdf`` into the new folder ``out``, one folder for each spec, and audit it.

    Nothing of it is run. Raises a ``Stop``: TM881 where nothing is attached, TM882 and TM843 for what may not be
    unpacked, TM824 for a folder that is not empty.
    """
    files = attached(_read(pdf), (SPEC, LOCK, CLAIMS, BUNDLE, MODULES))
    names = sorted(n.removesuffix(SPEC) for n in files if n.endswith(SPEC) and _NAME.fullmatch(n.removesuffix(SPEC)))
    if not names:
        raise stop("TM881", f"nothing that tmc attached is in `{pdf}`", help="tmc attach paper.pdf spec.tm BUNDLE")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise stop("TM824", f"`{out}` is not empty", help="name a new folder with --out")
    return [_extracted(name, files, out / name) for name in names]


def _extracted(name: str, files: Mapping[str, bytes], folder: Path) -> Extracted:
    found = Extracted(name, folder)
    for ending in (SPEC, LOCK, CLAIMS):
        if name + ending in files:
            _write(folder / (name + ending), files[name + ending])
    if name + MODULES in files:
        unpack(files[name + MODULES], folder, name + MODULES)
    if name + BUNDLE in files:
        unpack(files[name + BUNDLE], folder / "bundle", name + BUNDLE)
    try:
        _audit(found)
    except Stop as stopped:
        found.faults += [f"{d.code}: {d.message}" for d in stopped.diagnostics]
    return found


def _audit(found: Extracted) -> None:
    """Spec against lock, lock against bundle, bundle in itself, claims against the bundle."""
    lock, _ = _locked(found.folder / (found.name + SPEC))
    found.checked.append("that the spec means what its lock says")
    told = _read(found.folder / (found.name + CLAIMS))
    if not (found.folder / "bundle").is_dir():
        found.unchecked.append("any result: no bundle is attached")
        expected = promised(lock.plan)
    else:
        bundle = Bundle.open(found.folder / "bundle")
        _same(bundle, lock)
        found.checked.append("that the bundle is of a run of this spec, on the files that the lock names")
        audited = audit(bundle.path)
        found.checked += audited.checked
        found.faults += [f"{f.code}: {f.text}" for f in audited.faults]
        found.unchecked += audited.unchecked
        expected = judged(bundle)
    found.faults += _differences(told, claims_json(expected))
    found.checked.append("that the attached claims, identities and results are those of the lock and the bundle")


def _differences(told: bytes, expected: bytes) -> Iterator[str]:
    if told != expected:
        yield "TM883: the attached claims are not those that follow from the lock and the bundle"


def _locked(spec: Path) -> tuple[Lock, dict[str, str]]:
    """The lock beside ``spec``, which says the same, and the texts of the spec's own files by their relative paths."""
    front = check(spec)
    if front.plan is None:
        raise Refused(front.diagnostics, front.sources)
    path = lock_path(str(spec))
    if not path.is_file():
        raise stop("TM860", f"`{path}` is not there", help=f"write it: tmc freeze {spec}")
    lock = lock_from_json(_read(path), str(path))
    if _hash(front.plan, lock) != lock.sha256:
        raise stop("TM862", "the spec does not mean what was locked", help="freeze it anew, and run it under that lock")
    return lock, own_texts(front)


def _hash(plan: Plan, lock: Lock) -> str:
    return plan_hash(frozen(plan, {a.path: a.sha256 for a in artifacts(lock.plan) if a.sha256 is not None}))


def _same(bundle: Bundle, lock: Lock) -> None:
    if plan_hash(bundle.plan()) != lock.sha256:
        raise stop(
            "TM883",
            f"`{bundle.path}` is not the evidence of this spec under its lock",
            notes=("its plan, or a file that it was run on, differs from the locked one",),
            help="run the spec with tmc run --locked, and attach that bundle",
        )


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_PDF:
            raise stop("TM882", f"`{path}` is larger than {MAX_PDF} bytes")
        return path.read_bytes()
    except OSError as error:
        raise stop("TM882", f"`{path}` cannot be read: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        raise stop("TM824", f"`{path}` cannot be written: {error.strerror}") from error
