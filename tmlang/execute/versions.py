"""Versions that a bundle tells, against the code whose hash it tells: a hash has one version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tmlang import __version__
from tmlang.execute.code import CORE, code
from tmlang.plan.capability import Capabilities
from tmlang.plan.ir import Plan
from tmlang.plan.lock import installed


def version_faults(plan: Plan, run: Mapping[str, Any]) -> Iterator[str]:
    """Where the code that a run was made by lies here, and has another version than ``run.json`` tells; and libraries
    that the plan does not ask, or asks and that are not told."""
    known = Capabilities()
    here, versions = code(plan, known), dict(installed(plan, known))
    if run["libraries"].keys() != versions.keys():
        odd = sorted(run["libraries"].keys() ^ versions.keys())
        yield f"run.json tells the versions of other libraries than the plan asks: {odd[0]}"
    if run["backends"].get(CORE) == here[CORE] and run["tmlang"] != __version__:
        yield f"run.json tells of tmlang {run['tmlang']}, and the code that it names is that of {__version__}"
    if run["backends"].get(CORE) == here[CORE] and run["libraries"].get(CORE) != versions.get(CORE):
        yield f"run.json tells of {CORE} {run['libraries'].get(CORE)}, and here it is {versions.get(CORE)}"
    for name, digest in here.items():
        backend = known.backend(name)
        library = backend.library if backend is not None else CORE
        if library == CORE or run["backends"].get(name) != digest:
            continue
        if (told := run["libraries"].get(library)) != versions[library]:
            yield f"run.json tells of {library} {told}, and the code that it names is that of {versions[library]}"
