"""How a run tells how far it is. The runner knows this protocol and no terminal."""

from __future__ import annotations

from collections.abc import Sequence
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
