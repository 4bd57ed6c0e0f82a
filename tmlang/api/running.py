"""Running a spec: ``tm.run``, and what ``tmc run`` does before and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tmlang.api.reading import Front, Refused, check, read_sources
from tmlang.base.source import Span
from tmlang.diagnostics.stop import Stop

if TYPE_CHECKING:
    from tmlang.api.evidence import Evidence
    from tmlang.execute.progress import Progress
    from tmlang.execute.runner import RunOptions
    from tmlang.plan.ir import Plan


def run(
    spec: str | Path,
    *,
    out: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
    trust_code: bool = False,
    locked: bool = False,
    batch_size: int | None = None,
    reuse: Sequence[str | Path] = (),
    workers: int | None = None,
    example_timeout: float | None = None,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """Run a spec and give its evidence; the arguments are those of ``tmc run``, and so is the bundle that is written.

    ``out``: the folder of the bundle (``runs/NAME-…`` when ``None``); an equal run that was interrupted goes on there.
    ``reuse``: bundles whose rows are taken where all that they depend on is the same.
    ``batch_size``: examples whose rows are committed together; no number depends on it.
    ``workers``, ``example_timeout`` (seconds), ``memory`` (MB): processes that call methods, and what a call may take.
    ``locked``: run only what the lock beside the spec describes (the spec must be a file then).
    ``progress``: what is told how far it is; when ``None``, a notebook shows a :class:`~tmlang.api.live.Live`.

    Raises :class:`Refused` with the diagnostics where nothing can be run, ``KeyboardInterrupt`` when stopped.
    """
    from tmlang.api.evidence import Evidence
    from tmlang.api.live import in_notebook
    from tmlang.execute import runner
    from tmlang.execute.workers import Limits

    front = at_hand(check(spec, settings=settings))
    if front.plan is None:
        raise Refused(front.diagnostics, front.sources)
    try:
        whole, options = prepared(front, locked=locked)
        where = None if out is None else Path(out)
        limits = Limits.of(workers, example_timeout, memory)
        options = replace(options, out=where, trust_code=trust_code, batch_size=batch_size, limits=limits)
        options = replace(options, reuse=tuple(map(Path, reuse)))
        result = runner.run(whole, options, progress or in_notebook())
    except Stop as stopped:
        sources = {**front.sources, **read_sources(stopped.diagnostics)}
        raise Refused(stopped.diagnostics, sources) from stopped
    if result.exit_code == runner.INTERRUPTED:
        raise KeyboardInterrupt(f"what is done lies in {result.path}, and the same call goes on from there")
    return Evidence.of(result.path)


def at_hand(front: Front) -> Front:
    """The spec without its plan, and with further errors, where something is not built, not installed or not there."""
    from tmlang.plan.availability import unavailable, unmeasured
    from tmlang.plan.capability import Capabilities

    if front.plan is None:
        return front
    missing = (*unavailable(front.plan, Capabilities()), *unmeasured(front.plan, Span(front.path, 0, 0, 1, 1, 1, 1)))
    return replace(front, plan=None, diagnostics=(*front.diagnostics, *missing)) if missing else front


def prepared(front: Front, *, locked: bool) -> tuple[Plan, RunOptions]:
    """The plan to run, as locked or as it is, and the options that follow from the spec."""
    from tmlang.api.locked import locked_plan
    from tmlang.execute.runner import RunOptions

    assert front.plan is not None
    plan, lock = locked_plan(front.path, front.plan) if locked else (front.plan, None)
    return plan, RunOptions(name=Path(front.path).stem, sources=own_texts(front), lock=lock)


def own_texts(front: Front) -> dict[str, str]:
    """The spec's own files by their path from its folder; the standard library is part of tmlang."""
    assert front.plan is not None
    folder, own = Path(front.path).resolve().parent, {m.name for m in front.plan.own_modules}
    found = {}
    for name, source in front.sources.items():
        place = Path(name).resolve()
        if name in own and place.is_relative_to(folder):
            found[place.relative_to(folder).as_posix()] = source.text
    return found
