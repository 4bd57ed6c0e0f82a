"""Progress on a terminal (rich) and in a log (plain lines)."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn

from tmlang.diagnostics import render
from tmlang.diagnostics.model import Diagnostic
from tmlang.execute.progress import Pace, Silent
from tmlang.execute.progress import Progress as Told

_EXCERPT = re.compile(r" *\d* \|")


class Lines:
    """One line per event and at most one every few seconds while a stage runs; for logs and pipes."""

    EVERY = 5.0

    def __init__(self, sources: render.Sources) -> None:
        self._sources = sources
        self._stage = Pace("", 0)
        self._told = time.monotonic()

    def say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def found(self, diagnostics: Sequence[Diagnostic]) -> None:
        sys.stderr.write(render.text(diagnostics, self._sources))

    def stage(self, name: str, units: int) -> None:
        self._stage, self._told = Pace(name, units), time.monotonic()
        self.say(f"{name}: {units} units" if units else f"{name}: nothing left to do")

    def work(self, units: float) -> None:
        self._stage.work(units)
        self._tell("about ")

    def advance(self, units: int, standing: int | None = None) -> None:
        self._stage.advance(units, standing)
        self._tell("", always=self._stage.exact == self._stage.total)

    def close(self) -> None: ...

    def _tell(self, about: str, *, always: bool = False) -> None:
        now = time.monotonic()
        if always or now - self._told >= self.EVERY:
            self._told, stage = now, self._stage
            self.say(f"{stage.name}: {about}{stage.shown:.0f} of {stage.total}, {stage.text()}")


class Bar:
    """A bar per stage with rate, time left and how many units still stand; without the bar where there is no room."""

    EVERY = 0.1
    NARROW = 72

    def __init__(self, sources: render.Sources) -> None:
        self._sources = sources
        self._console = Console(stderr=True, no_color="NO_COLOR" in os.environ, highlight=False)
        self._narrow = self._console.width < self.NARROW
        name, done, pace = TextColumn("{task.description}"), MofNCompleteColumn(), TextColumn("{task.fields[pace]}")
        columns = (name, done, pace) if self._narrow else (SpinnerColumn(), name, BarColumn(), done, pace)
        self._progress = Progress(*columns, console=self._console)
        self._stage = Pace("", 0)
        self._task: TaskID | None = None
        self._shown = 0.0
        self._progress.start()

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def found(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Text is broken at the edge; an excerpt of a source is cut there, so that carets stand where they point."""
        for line in render.text(diagnostics, self._sources).splitlines():
            excerpt = _EXCERPT.match(line) is not None
            self._console.print(line, markup=False, no_wrap=excerpt, overflow="crop" if excerpt else None)

    def stage(self, name: str, units: int) -> None:
        self._stage = Pace(name, units)
        self._task = self._progress.add_task(name, total=units, pace="")

    def work(self, units: float) -> None:
        self._stage.work(units)
        if time.monotonic() - self._shown >= self.EVERY:
            self._show()

    def advance(self, units: int, standing: int | None = None) -> None:
        self._stage.advance(units, standing)
        self._show()

    def close(self) -> None:
        self._progress.stop()

    def _show(self) -> None:
        assert self._task is not None
        self._shown = time.monotonic()
        pace = self._stage.brief() if self._narrow else self._stage.text()
        self._progress.update(self._task, completed=int(self._stage.shown), pace=pace)


def on_stderr(sources: render.Sources, *, quiet: bool) -> Told:
    """What suits where standard error goes: a bar on a terminal, lines in a log, nothing where that was asked."""
    if quiet:
        return Silent()
    plain = not sys.stderr.isatty() or os.environ.get("TERM") == "dumb"
    return Lines(sources) if plain else Bar(sources)
