"""Progress on a terminal (rich) and in a log (plain lines)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from tmlang.diagnostics import render
from tmlang.diagnostics.model import Diagnostic


class Lines:
    """One line per event and at most one every few seconds while a stage runs; for logs and pipes."""

    EVERY = 5.0

    def __init__(self, sources: render.Sources) -> None:
        self._sources = sources
        self._stage, self._total, self._done = "", 0, 0
        self._began = self._last = time.monotonic()

    def say(self, text: str) -> None:
        self._write(text)

    def found(self, diagnostics: Sequence[Diagnostic]) -> None:
        sys.stderr.write(render.text(diagnostics, self._sources))

    def stage(self, name: str, units: int) -> None:
        self._stage, self._total, self._done = name, units, 0
        self._began = self._last = time.monotonic()
        self._write(f"{name}: {units} units" if units else f"{name}: nothing left to do")

    def advance(self, units: int, standing: int | None = None) -> None:
        self._done += units
        now = time.monotonic()
        if self._done < self._total and now - self._last < self.EVERY:
            return
        self._last = now
        rate = self._done / max(1e-9, now - self._began)
        left = (self._total - self._done) / rate if rate else 0
        tail = "" if standing is None else f", {standing} still stand"
        ahead = f", {left:.0f} s left" if self._done < self._total else ""
        self._write(f"{self._stage}: {self._done} of {self._total}, {rate:.3g} a second{ahead}{tail}")

    def close(self) -> None: ...

    def _write(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class Bar:
    """A bar per stage with rate, time left and how many units still stand."""

    def __init__(self, sources: render.Sources) -> None:
        self._sources = sources
        self._console = Console(stderr=True, no_color="NO_COLOR" in os.environ, highlight=False)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[standing]}"),
            console=self._console,
        )
        self._task: TaskID | None = None
        self._progress.start()

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def found(self, diagnostics: Sequence[Diagnostic]) -> None:
        self._console.print(render.text(diagnostics, self._sources), markup=False, end="")

    def stage(self, name: str, units: int) -> None:
        self._task = self._progress.add_task(name, total=units, rate="", standing="")

    def advance(self, units: int, standing: int | None = None) -> None:
        assert self._task is not None
        self._progress.advance(self._task, units)
        task = next(t for t in self._progress.tasks if t.id == self._task)
        speed = task.finished_speed or task.speed
        self._progress.update(
            self._task,
            rate=f"{speed:.3g}/s" if speed else "",
            standing="" if standing is None else f"{standing} still stand",
        )

    def close(self) -> None:
        self._progress.stop()
