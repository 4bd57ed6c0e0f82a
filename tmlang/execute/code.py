"""What makes rows, by hash: tmlang itself, and every backend with its manifest, its adapters and its library."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from tmlang.execute.sources.files import file_hash
from tmlang.plan.capability import Capabilities
from tmlang.plan.ir import Plan

CORE = "tmlang"
_HOME = Path(__file__).resolve().parents[1]
_PACKAGES = ("base", "meaning", "plan", "backends", "execute")
"""What a row depends on; the rest reads specs, counts and draws."""
_CLASS = re.compile(r'^\s*class\s*=\s*"([\w.]+):', re.MULTILINE)


def code(plan: Plan, capabilities: Capabilities) -> dict[str, str]:
    """SHA-256 of the code of ``tmlang`` that all rows depend on, and by name of every backend that the plan asks."""
    names = sorted({stage.backend for e in plan.evaluations for stage in e.stages})
    return {CORE: _core()} | {name: _backend(name, capabilities) for name in names}


def _backend(name: str, capabilities: Capabilities) -> str:
    """Over the manifest, the modules of its adapters, and the list of hashes that the library was installed with; of a
    backend that nobody brings over nothing."""
    backend = capabilities.backend(name)
    if backend is None:
        return sha256(b"").hexdigest()
    manifest = capabilities.manifest(name)
    listed = [f"{file_hash(p)}  {p.name}" for p in (manifest, *_adapters(manifest))]
    return sha256("\n".join([*listed, _record(backend.library)]).encode()).hexdigest()


@cache
def _core() -> str:
    """Over the files of tmlang without the adapters, which are their backends' own."""
    own = Capabilities()
    adapters = {p for name in own.names for p in _adapters(own.manifest(name))}
    files = (p for package in _PACKAGES for p in sorted((_HOME / package).rglob("*.py")))
    return _listing(p for p in files if p not in adapters)


def _listing(files: Iterable[Path]) -> str:
    return sha256("\n".join(f"{file_hash(p)}  {p.relative_to(_HOME)}" for p in files).encode()).hexdigest()


def _adapters(manifest: Path) -> list[Path]:
    """The modules that a manifest's rows name; none of its rows is read for that."""
    found = (find_spec(module) for module in sorted(set(_CLASS.findall(manifest.read_text(encoding="utf-8")))))
    return [Path(spec.origin).resolve() for spec in found if spec is not None and spec.origin is not None]


def _record(library: str) -> str:
    """The names, hashes and sizes of the files of a distribution; of one that is no package or is edited in place, its
    version alone says what it is."""
    try:
        return (metadata.distribution(library).read_text("RECORD") or "") if library != CORE else ""
    except metadata.PackageNotFoundError:
        return ""
