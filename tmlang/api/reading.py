"""Reading a spec up to its plan: ``tm.check`` and ``tm.plan_of``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tmlang.base.frozen import dataclass
from tmlang.base.source import Source
from tmlang.diagnostics import render
from tmlang.diagnostics.model import Diagnostic, has_errors, in_order
from tmlang.diagnostics.stop import Stop

if TYPE_CHECKING:
    from tmlang.meaning.evaluations import Program
    from tmlang.plan.ir import Plan

TEXT_NAME = "spec.tm"
"""What a spec is called that was given as a text."""


class Refused(Stop):
    """A spec that cannot be planned or run; as text, its diagnostics as ``tmc`` prints them."""

    def __init__(self, diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source]) -> None:
        super().__init__(*diagnostics)
        self._sources = sources

    def __str__(self) -> str:
        return "\n" + render.text(self.diagnostics, self._sources)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the diagnostics, and none of our frames."""
        return render.text(self.diagnostics, self._sources).splitlines()


@dataclass(frozen=True, slots=True)
class Front:
    """A spec as far as it could be understood. ``plan`` is there iff no diagnostic is an error."""

    path: str
    program: Program | None
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, Source]

    @property
    def ok(self) -> bool:
        """Whether the spec means one thing."""
        return not has_errors(self.diagnostics)

    @property
    def summary(self) -> str:
        """``means one thing: 2 evaluations, 1 claim``, or how much is wrong."""
        if self.plan is None or not self.ok:
            return _counted(((sum(d.is_error for d in self.diagnostics), "error"),))
        counts = ((len(self.plan.evaluations), "evaluation"), (len(self.plan.claims), "claim"))
        return f"means one thing: {_counted(counts)}"

    def __str__(self) -> str:
        return render.text(self.diagnostics, self.sources) + f"{self.path}: {self.summary}"

    def _repr_html_(self) -> str:
        return preformatted(str(self))


@dataclass(frozen=True, slots=True)
class Planned:
    """What would run. ``plan`` is the typed plan; as text, what ``tmc plan`` prints."""

    plan: Plan
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, Source]

    @property
    def sha256(self) -> str:
        """The hash of what the plan means."""
        from tmlang.plan.text import plan_hash

        return plan_hash(self.plan)

    @property
    def json(self) -> bytes:
        """The plan in canonical JSON, as a bundle stores it."""
        from tmlang.plan.text import plan_json

        return plan_json(self.plan)

    @property
    def claims(self) -> Mapping[str, str]:
        """The title of each claim with its identity."""
        from tmlang.plan.text import claim_identity

        return {claim.text: claim_identity(self.plan, claim) for claim in self.plan.claims}

    def __str__(self) -> str:
        from tmlang.plan.show import plan_text

        return plan_text(self.plan)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def check(spec: str | Path, *, settings: Mapping[str, str] | None = None) -> Front:
    """Say whether a spec means one thing: ``spec`` is a path, or the text itself if it has a line break.

    ``settings`` gives a ``param`` another value (``{"eps": "4/255"}``). What is wrong stands in ``diagnostics``;
    nothing that a spec says raises.
    """
    if isinstance(spec, str) and "\n" in spec:
        return read_spec(TEXT_NAME, settings or {}, spec)
    return read_spec(str(spec), settings or {})


def plan_of(spec: str | Path, *, settings: Mapping[str, str] | None = None) -> Planned:
    """What would run, on which library, how faithfully, at what cost. Raises :class:`Refused` if that is not clear."""
    front = check(spec, settings=settings)
    if front.plan is None:
        raise Refused(front.diagnostics, front.sources)
    return Planned(front.plan, front.diagnostics, front.sources)


def read_spec(path: str, settings: Mapping[str, str], text: str | None = None) -> Front:
    """Parse, check and match the spec at ``path`` (or ``text``, as if it stood there). Imports no library that a spec
    names."""
    from tmlang.plan import Capabilities, lower, match
    from tmlang.semantics import check

    checked = check(path if text is None else Source(path, text), settings=settings)
    if checked.program is None:
        matched = match(checked.sound, Capabilities()) if checked.sound else ()
        return Front(path, None, None, in_order([*checked.diagnostics, *matched]), checked.sources)
    folder = str(Path(path).parent)
    plan, matched = lower(checked.program, Capabilities(), root=folder, found=checked.diagnostics)
    found = in_order([*checked.diagnostics, *matched])
    return Front(path, checked.program, plan, found, checked.sources)


def read_sources(diagnostics: Sequence[Diagnostic]) -> dict[str, Source]:
    """The files that diagnostics point into, as far as they can be read: for what was found behind the checker."""
    found: dict[str, Source] = {}
    for name in dict.fromkeys(d.span.file for d in diagnostics if d.span.file):
        with suppress(OSError, ValueError):
            found[name] = Source(name, Path(name).read_text(encoding="utf-8"))
    return found


def preformatted(text: str) -> str:
    """``text`` for a notebook, as it stands."""
    from html import escape

    return f'<pre style="font-family:monospace;line-height:1.3">{escape(text)}</pre>'


def _counted(counts: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{n} {word}{'s' * (n != 1)}" for n, word in counts)
