"""How a run tells how far it is. The runner knows this protocol and no terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tmlang.diagnostics.model import Diagnostic


class Progress(Protocol):
    def say(self, text: str) -> None:
        """One line about what happens now."""

    def found(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Warnings that the run goes on with."""

    def stage(self, name: str, units: int) -> None:
        """A stage over ``units`` begins."""

    def work(self, units: float) -> None:
        """About so many further units' worth of a running batch is done; :meth:`advance` says it exactly."""

    def advance(self, units: int, standing: int | None = None) -> None:
        """``units`` more of the stage are committed; ``standing``: how many of all units no witness has broken yet."""

    def close(self) -> None:
        """The run is over, whichever way."""


class Silent:
    """Says nothing."""

    def say(self, text: str) -> None: ...

    def found(self, diagnostics: Sequence[Diagnostic]) -> None: ...

    def stage(self, name: str, units: int) -> None: ...

    def work(self, units: float) -> None: ...

    def advance(self, units: int, standing: int | None = None) -> None: ...

    def close(self) -> None: ...


@dataclass
class Pace:
    """How far a stage is: ``exact`` units are committed, ``shown`` adds what a running batch has done, about."""

    name: str
    total: int
    exact: int = 0
    shown: float = 0.0
    standing: int | None = None
    began: float = field(default_factory=lambda: time.monotonic())

    def work(self, units: float) -> None:
        self.shown = min(self.shown + units, float(self.total))

    def advance(self, units: int, standing: int | None) -> None:
        self.exact += units
        self.shown, self.standing = float(self.exact), standing

    def text(self) -> str:
        """``18.4 a second, 12 s left, 394 still stand``."""
        rate = self.shown / max(1e-9, time.monotonic() - self.began)
        left = self.total - self.shown
        parts = [f"{rate:.3g} a second"] if rate else []
        if left and rate:
            parts.append(f"{left / rate:.0f} s left")
        if self.standing is not None:
            parts.append(f"{self.standing} still stand")
        return ", ".join(parts)
