"""How far a run is, in a notebook: :class:`Live`, told by the runner and shown as it changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tmlang.api.reading import preformatted, read_sources
from tmlang.diagnostics import render
from tmlang.diagnostics.model import Diagnostic
from tmlang.execute.progress import Pace, Silent


@dataclass(frozen=True, slots=True)
class Stage:
    """How far one stage is: units done (about, while a batch runs) of ``total``; ``pace`` in words."""

    name: str
    done: int
    total: int
    pace: str


class Live:
    """Progress of a run as an object: hand it to ``tm.run(…, progress=live)`` and look at it at any time.

    ``stages`` and ``messages`` may be read from another thread. ``on_change`` is called with the object itself, at most
    every :attr:`EVERY` seconds and after the last change; :func:`in_notebook` uses it to redraw.
    """

    EVERY = 0.2

    def __init__(self, on_change: Callable[[Live], None] | None = None) -> None:
        self._on_change = on_change
        self._paces: list[Pace] = []
        self._messages: list[str] = []
        self._told = 0.0
        self.finished = False

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Every stage that has begun, in order."""
        return tuple(Stage(p.name, int(p.shown), p.total, p.text()) for p in tuple(self._paces))

    @property
    def messages(self) -> tuple[str, ...]:
        """What was said, warnings included."""
        return tuple(self._messages)

    def say(self, text: str) -> None:
        self._messages.append(text)
        self._changed(always=True)

    def found(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.say(render.text(diagnostics, read_sources(diagnostics)).rstrip())

    def stage(self, name: str, units: int) -> None:
        self._paces.append(Pace(name, units))
        self._changed(always=True)

    def work(self, units: float) -> None:
        self._paces[-1].work(units)
        self._changed()

    def advance(self, units: int, standing: int | None = None) -> None:
        self._paces[-1].advance(units, standing)
        self._changed()

    def close(self) -> None:
        self.finished = True
        self._changed(always=True)

    def _changed(self, *, always: bool = False) -> None:
        now = time.monotonic()
        if self._on_change is not None and (always or now - self._told >= self.EVERY):
            self._told = now
            self._on_change(self)

    def __str__(self) -> str:
        lines = [f"{s.name}: {s.done} of {s.total}" + (f", {s.pace}" if s.pace else "") for s in self.stages]
        return "\n".join([*self.messages, *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(s.name)}</td><td><progress max='{s.total or 1}' value='{s.done if s.total else 1}'>"
            f"</progress></td><td>{s.done} of {s.total}</td><td>{escape(s.pace)}</td></tr>"
            for s in self.stages
        )
        return preformatted("\n".join(self.messages)) + f"<table>{rows}</table>"


def in_notebook() -> Live | Silent:
    """A :class:`Live` that redraws itself where an IPython kernel runs, else nothing."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return Silent()
    display: Any = sys.modules["IPython"].display
    shown = display.display(Live(), display_id=True)
    return Live(shown.update)
