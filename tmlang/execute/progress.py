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
        rate = self._rate()
        stand = [] if self.standing is None else [f"{self.standing} still stand"]
        return ", ".join([f"{rate:.3g} a second"] * bool(rate) + self._left() + stand)

    def brief(self) -> str:
        """The same where there is little room: ``12 s left``, and at the end ``394 stand``."""
        stand = [] if self.standing is None else [f"{self.standing} stand"]
        return ", ".join(self._left() or stand)

    def _rate(self) -> float:
        return self.shown / max(1e-9, time.monotonic() - self.began)

    def _left(self) -> list[str]:
        rate, left = self._rate(), self.total - self.shown
        return [f"{left / rate:.0f} s left"] if left and rate else []
