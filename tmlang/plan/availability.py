"""Whether what a plan asks for is at hand: built, and its library installed. Asked before a run, not by the checker."""

from __future__ import annotations

from importlib.util import find_spec

from tmlang.base.source import NOWHERE, Span
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.suggest import listed
from tmlang.meaning.threats import Threat
from tmlang.meaning.values import Symbol
from tmlang.plan.capability import Backend, Capabilities, Method
from tmlang.plan.ir import Plan, Stage
from tmlang.plan.lock import NOT_INSTALLED, installed

_ON_PIXELS = ("place", "brightness", "contrast")
"""The parts of nature that leave a pixel a pixel."""


def unavailable(plan: Plan, capabilities: Capabilities) -> tuple[Diagnostic, ...]:
    """One diagnostic per stage that cannot run here, at the stage."""
    found = [_stage(s, capabilities.backend(s.backend)) for e in plan.evaluations for s in e.stages]
    subjects = dict.fromkeys(e.subject for e in plan.evaluations)
    found += [_reading(subject) for name in subjects if isinstance(subject := plan.subject(name), Threat)]
    return tuple(d for d in found if d is not None)


def unmeasured(plan: Plan, start: Span = NOWHERE) -> tuple[Diagnostic, ...]:
    """That there is nothing to run, told at ``start``: no result is no success."""
    if plan.evaluations:
        return ()
    subject = next((s.name for s in plan.subjects), "a_threat")
    help = f"write what searches or proves: evaluate mine of {subject} {{ attack: … }}"
    return (Diagnostic("TM828", "the spec has no evaluation, so nothing would be measured", start, help=help),)


def other_versions(plan: Plan, capabilities: Capabilities) -> tuple[Diagnostic, ...]:
    """One warning per library that is here in another version than the one that was measured, at its first stage."""
    here, found = dict(installed(plan, capabilities)), dict[str, Diagnostic]()
    for stage in (s for e in plan.evaluations for s in e.stages):
        backend = capabilities.backend(stage.backend)
        if backend is None or here.get(backend.library) in (backend.version, NOT_INSTALLED, None):
            continue
        text = f"{backend.library} is {here[backend.library]} here, and {backend.version} was measured"
        help = f"pip install --no-deps {backend.library}=={backend.version}"
        found.setdefault(backend.library, Diagnostic("TM527", text, stage.origin, help=help))
    return tuple(found.values())


def _stage(stage: Stage, backend: Backend | None) -> Diagnostic | None:
    method = None if backend is None else backend.method(stage.method)
    if backend is None or method is None:
        return Diagnostic("TM501", f"there is no {stage.backend}.{stage.method} here", stage.origin)
    missing = method.path if method.status == "described" else _choice(stage, method)
    if missing is not None:
        return Diagnostic(
            "TM513",
            f"{missing} is described and not built yet: it can be checked and planned, not run",
            stage.origin,
            help=None if method.role == "corrupt" else f"leave the stage `{stage.label}` out to run the others",
        )
    if backend.module and find_spec(backend.module) is None:
        return Diagnostic(
            "TM510",
            f"{method.path} needs {backend.library} {backend.version}, which is not installed",
            stage.origin,
            help=backend.install,
        )
    return None


def _choice(stage: Stage, method: Method) -> str | None:
    """An argument whose choice is not built yet, as it would be written."""
    for name, value in stage.arguments:
        if isinstance(value, Symbol) and value.name in method.arguments[name].not_built:
            return f"`{name}: {value.name}` of {method.path}"
    return None


def _reading(threat: Threat) -> Diagnostic | None:
    """A patch that nature moves between pixels, and nothing says what stands there."""
    nature = threat.nature
    moved = [part for part, *_ in nature.parts if part not in _ON_PIXELS] if nature is not None else []
    if nature is None or nature.interpolate is not None or not moved:
        return None
    return Diagnostic(
        "TM830",
        f"nature's {listed(moved)} of the patch of {threat.name} can be drawn in two ways",
        threat.origin,
        notes=(
            "interpolate nearest: every pixel shows one pixel of the patch, or none, and its edge is sharp",
            "interpolate bilinear: every pixel mixes four, and at its edge the patch with the picture behind it",
        ),
        help=f"nature: {{ … }} draws {nature.draws} interpolate bilinear",
    )
