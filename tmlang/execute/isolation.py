"""A failure costs one example: what fails together is halved and asked again, down to the unit that fails alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from tmlang.audit.outputs import OutputBounds
from tmlang.audit.record import Record
from tmlang.execute.confirm import Drawn
from tmlang.execute.rows import Effort


@dataclass(frozen=True)
class Kept:
    """What a row keeps: the index of its unit, the candidate (*shape) if it is worth keeping, proved bounds of the
    outputs, the parameters (p,) that make the candidate under a transform, and what nature drew around it."""

    unit: int
    x: np.ndarray | None
    outputs: OutputBounds | None = None
    theta: np.ndarray | None = None
    drawn: Drawn | None = None


@dataclass(frozen=True)
class Batch:
    """Rows of one batch and, aligned, what they keep."""

    rows: tuple[Record, ...]
    kept: tuple[Kept, ...]


@dataclass(frozen=True)
class Piece:
    """What one call is asked about: units (indices into the arena), and the queries that each has used before."""

    at: tuple[int, ...]
    used: tuple[int, ...]
    again: bool = False
    """It failed before, and is one unit."""


@dataclass(frozen=True)
class Fault:
    """Why a call gave nothing. ``final``: it would give nothing for any part of what it was asked about either."""

    status: Literal["error", "timeout", "crashed", "oom"]
    message: str
    final: bool = False
    efforts: tuple[Effort, ...] | None = None
    """What the call cost each of its units; ``None`` where that is lost with the process."""


class Caller(Protocol):
    """A stage that can be asked (:class:`~tmlang.execute.stages.StageRun`)."""

    def ask(self, piece: Piece) -> Batch | Fault: ...

    def failed(self, piece: Piece, fault: Fault) -> Batch: ...


def fault_of(who: str, error: Exception) -> Fault:
    """The fault that an exception is: torch tells of missing memory by a ``RuntimeError``."""
    said = f"{who} failed: {type(error).__name__}: {error}"
    short = isinstance(error, MemoryError) or "DefaultCPUAllocator: " in said
    return Fault("oom" if short else "error", said)


def left(piece: Piece, fault: Fault) -> tuple[Piece, ...]:
    """What is asked after ``piece`` failed: its halves; one unit a second time; nothing where that cannot help.

    An exception of one unit comes again, since a call depends on its seeds alone. What depends on the machine (time,
    memory, a process that went down) is tried twice.
    """
    if fault.final:
        return ()
    half = len(piece.at) // 2
    if half:
        return Piece(piece.at[:half], piece.used[:half]), Piece(piece.at[half:], piece.used[half:])
    return () if piece.again or fault.status == "error" else (replace(piece, again=True),)


def joined(batches: Iterable[Batch]) -> Batch:
    """Batches as one, in order."""
    parts = list(batches)
    return Batch(sum((b.rows for b in parts), ()), sum((b.kept for b in parts), ()))


def answered(caller: Caller, piece: Piece) -> Batch:
    """The rows of ``piece`` from calls within this process."""
    outcome = caller.ask(piece)
    if isinstance(outcome, Batch):
        return outcome
    parts: Sequence[Piece] = left(piece, outcome)
    return joined(answered(caller, part) for part in parts) if parts else caller.failed(piece, outcome)
