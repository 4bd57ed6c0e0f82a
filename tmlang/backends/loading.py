"""From a stage's names to the object that runs it: the manifest row, the adapter's class, the library behind it."""

from __future__ import annotations

import importlib
import importlib.util
from typing import cast

from tmlang.backends.contract import BackendMissing, BackendRefusal, Certifier, Corruption, Search
from tmlang.plan.capability import Capabilities, Method


def load(backend: str, method: str, capabilities: Capabilities | None = None) -> Search | Certifier | Corruption:
    """The adapter of ``backend.method``, made with its manifest row; a prover of another package is doubted.

    Raises :class:`BackendMissing` (``args[0]`` is the extra to install) when the library is not importable, and
    :class:`BackendRefusal` when there is no such method, it is only described, or its module cannot be imported.
    """
    known = capabilities or Capabilities()
    found = known.backend(backend)
    row = found.method(method) if found else None
    if found is None or row is None:
        raise BackendRefusal(f"there is no backend method {backend}.{method}")
    if row.status != "available":
        raise BackendRefusal(f"{row.path} is described, but not built")
    if importlib.util.find_spec(found.module) is None:
        raise BackendMissing(found.extra)
    module, name = row.implementation.split(":")
    try:
        adapter: Search | Certifier | Corruption = getattr(importlib.import_module(module), name)(row)
    except (ImportError, AttributeError, TypeError) as error:
        raise BackendRefusal(f"{row.implementation} of {row.path} cannot be loaded: {error}") from error
    if backend not in known.names and row.evidence in ("bound", "trusted"):
        return _doubted(cast(Certifier, adapter), row)
    return adapter


def _doubted(adapter: Certifier, row: Method) -> Certifier:
    from tmlang.backends.doubted import Doubted

    return Doubted(adapter, row)
