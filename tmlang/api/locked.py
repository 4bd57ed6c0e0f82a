"""Reading the lock beside a spec, for ``tmc freeze --check`` and ``tmc run --locked``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tmlang.diagnostics.stop import Stop, stop

if TYPE_CHECKING:
    from tmlang.plan.ir import Plan
    from tmlang.plan.lock import Lock


def lock_path(spec: str) -> Path:
    return Path(f"{spec}.lock")


def locked_plan(spec: str, plan: Plan) -> tuple[Plan, Lock]:
    """``plan`` with the hashes of the lock beside ``spec``, and that lock.

    Raises a ``Stop``: TM860 without a lock, TM861 when it cannot be read, TM862 when the spec means something else,
    TM863 when a library has another version, than in the lock or than the one that was measured.
    """
    from tmlang.plan.availability import other_versions
    from tmlang.plan.capability import Capabilities
    from tmlang.plan.lock import installed, lock_from_json, under_lock

    path = lock_path(spec)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise stop(
            "TM860", f"`{path}` cannot be read: {error.strerror}", help=f"write it: tmc freeze {spec}"
        ) from error
    lock = lock_from_json(data, str(path))
    known = Capabilities()
    found = under_lock(plan, lock, installed(plan, known)), lock
    if others := other_versions(plan, known):
        raise Stop(*(replace(d, code="TM863", help=f"{d.help}, or run without --locked") for d in others))
    return found
