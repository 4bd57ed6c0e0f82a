"""The lock of a spec: everything a protocol fixes before results are seen, so that a run can be held to it.

``tmc freeze`` writes ``<spec>.lock``; ``tmc run --locked`` runs only what still means the same: the whole plan with
every resolved argument, every artifact with its hash, the text hash of every module, the versions of the libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import metadata
from typing import Any

from tmlang import __version__
from tmlang.base import canonical
from tmlang.base.source import NOWHERE, Span
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.stop import Stop, stop
from tmlang.meaning.threats import Threat
from tmlang.meaning.values import Artifact
from tmlang.plan import codec
from tmlang.plan.capability import Capabilities
from tmlang.plan.ir import EvaluationPlan, Plan
from tmlang.plan.text import claim_identity, plan_hash

FORMAT = 1

Targets = tuple[tuple[str, str], ...]
"""(example, class) in the order of the units."""
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Lock:
    """``plan`` has a hash on every artifact; ``claims`` are titles with their identities; ``libraries`` are installed
    distributions with their versions; ``targets`` are those that only model or data can tell, by evaluation."""

    format: int
    tmlang: str
    sha256: str
    plan: Plan
    claims: tuple[tuple[str, str], ...]
    libraries: tuple[tuple[str, str], ...]
    targets: tuple[tuple[str, Targets], ...] = ()


def make_lock(
    plan: Plan,
    hashes: Mapping[str, str],
    libraries: tuple[tuple[str, str], ...],
    targets: Mapping[str, Targets],
) -> Lock:
    """The lock of ``plan`` with the ``hashes`` of its artifacts, by path as written."""
    plan = frozen(plan, hashes)
    claims = tuple((claim.text, claim_identity(plan, claim)) for claim in plan.claims)
    return Lock(FORMAT, __version__, plan_hash(plan), plan, claims, libraries, tuple(targets.items()))


def lock_json(lock: Lock) -> bytes:
    return canonical.dumps(codec.encode(lock, Lock))


def lock_from_json(data: bytes, name: str) -> Lock:
    """Strict reading of :func:`lock_json`; raises a ``Stop`` with TM861."""
    try:
        lock: Lock = codec.decode(canonical.loads(data), Lock, "lock")
    except (canonical.NotCanonical, codec.FormError) as error:
        raise stop("TM861", f"`{name}` is no lock: {error}", help="write it anew: tmc freeze") from error
    if lock.format != FORMAT or lock.sha256 != plan_hash(lock.plan):
        raise stop("TM861", f"`{name}` does not agree with itself", help="write it anew: tmc freeze")
    return lock


def with_targets(plan: Plan) -> tuple[EvaluationPlan, ...]:
    """The evaluations whose targets the spec does not tell: ranked by the model, drawn, or named in the data."""
    told = ("untargeted", "class", "each", "next")
    subjects = {s.name for s in plan.subjects if isinstance(s, Threat) and s.goal.kind not in told}
    return tuple(e for e in plan.evaluations if e.subject in subjects)


def artifacts(plan: Plan) -> tuple[Artifact, ...]:
    """Every artifact that the plan names, each once, in order."""
    return artifacts_of(plan)


def artifacts_of(part: Any) -> tuple[Artifact, ...]:
    """Every artifact in a part of a plan, each once, in order."""
    return tuple(dict.fromkeys(_artifacts(part)))


def frozen(plan: Plan, hashes: Mapping[str, str]) -> Plan:
    """The plan with ``hashes`` on the artifacts that came without one."""
    filled: Plan = _mapped(
        plan, lambda a: a if a.sha256 is not None or a.path not in hashes else replace(a, sha256=hashes[a.path])
    )
    return filled


def under_lock(plan: Plan, lock: Lock, libraries: tuple[tuple[str, str], ...], place: Span = NOWHERE) -> Plan:
    """``plan`` with the artifacts' hashes of ``lock``, if it means what was locked; raises a ``Stop`` otherwise."""
    plan = frozen(plan, {a.path: a.sha256 for a in artifacts(lock.plan) if a.sha256 is not None})
    found = [*_other_meaning(plan, lock, place), *_other_libraries(lock, libraries, place)]
    if found:
        raise Stop(*found)
    return plan


NOT_INSTALLED = "not installed"


def installed(plan: Plan, capabilities: Capabilities) -> tuple[tuple[str, str], ...]:
    """The distributions that the stages run on, and torch and numpy, with their installed versions."""
    backends = {stage.backend for e in plan.evaluations for stage in e.stages}
    names = {b.library for b in map(capabilities.backend, backends) if b is not None} | {"torch", "numpy"}
    found = []
    for name in sorted(names):
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            found.append((name, NOT_INSTALLED))
    return tuple(found)


def _other_meaning(plan: Plan, lock: Lock, place: Span) -> Iterator[Diagnostic]:
    if plan_hash(plan) == lock.sha256:
        return
    found = [c for c in changes(lock.plan, plan) if not c.startswith("modules")]
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    yield Diagnostic(
        "TM862",
        "the spec no longer means what was locked",
        place,
        notes=(*found[:_SHOWN], *more),
        help="go back to the locked spec, or freeze it anew: its results are then of another claim",
    )


def _other_libraries(lock: Lock, libraries: tuple[tuple[str, str], ...], place: Span) -> Iterator[Diagnostic]:
    here = dict((*libraries, ("tmlang", __version__)))
    for name, version in (*lock.libraries, ("tmlang", lock.tmlang)):
        if here.get(name) != version:
            yield Diagnostic(
                "TM863",
                f"{name} is {here.get(name, 'not used')} here and {version} in the lock",
                place,
                help=f"install {name}=={version}, or freeze anew",
            )


def changes(old: Plan, new: Plan, first: str = "was", second: str = "is") -> Iterator[str]:
    """Each place where two plans differ, with both sides behind these words."""
    for where, a, b in _changes(codec.encode(old, Plan), codec.encode(new, Plan), ""):
        yield f"{where}: {first} {_short(a)}, {second} {_short(b)}"


def _changes(old: Any, new: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _changes(old.get(key), new.get(key), f"{where}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            label = b.get("name", i) if isinstance(b, dict) else i
            yield from _changes(a, b, f"{where}[{label}]")
    elif old != new:
        yield where, old, new


def _short(value: Any) -> str:
    text = canonical.dumps(value).decode("utf-8")
    return text if len(text) <= 60 else f"{text[:57]}…"


def _artifacts(value: Any) -> Iterator[Artifact]:
    if isinstance(value, Artifact):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _artifacts(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _artifacts(getattr(value, field.name))


def _mapped(value: Any, change: Callable[[Artifact], Artifact]) -> Any:
    """``value`` with every artifact in it changed; what holds none is kept as the same object."""
    if isinstance(value, Artifact):
        return change(value)
    if isinstance(value, tuple):
        items = tuple(_mapped(item, change) for item in value)
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if is_dataclass(value) and not isinstance(value, type):
        new = {f.name: _mapped(getattr(value, f.name), change) for f in fields(value)}
        changed = {name: item for name, item in new.items() if item is not getattr(value, name)}
        return replace(value, **changed) if changed else value
    return value
