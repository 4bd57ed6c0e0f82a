"""A stage and repeat, ready to be asked call by call: by the run, and by whoever runs it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.backends.contract import Certifier, Corruption, Search
from tmlang.execute.arena import Arena
from tmlang.execute.isolation import Batch, Piece, answered
from tmlang.execute.received import received
from tmlang.execute.shifts import ShiftRun
from tmlang.execute.stages import StageRun
from tmlang.execute.workers import Crew, Limits
from tmlang.execute.world import World
from tmlang.plan.ir import Stage

_CALLERS: Mapping[str, type[StageRun]] = {"corrupt": ShiftRun}
"""Roles that are no search and no proof."""


@dataclass(frozen=True)
class Known:
    """What a stage may look at beside its arena: the models and data, and the rows that were committed before it."""

    world: World
    bundle: Bundle
    rows: Sequence[Record]


def stage_run(
    stage: Stage,
    repeat: int,
    arena: Arena,
    adapter: Search | Certifier | Corruption,
    known: Known,
    *,
    deadline: float | None = None,
    listen: Callable[[int], None] | None = None,
) -> StageRun:
    """The stage with its adapter and what it is handed."""
    handed = received(stage, repeat, arena, known.world, known.bundle, known.rows)
    pictures = known.world.capabilities.carries(stage.backend, stage.method, "transform")
    caller, read = _CALLERS.get(stage.role, StageRun), known.world.files.read
    return caller(arena, stage, repeat, adapter, deadline, read, listen, handed, pictures)


@contextmanager
def batches(
    run: StageRun, pieces: Sequence[Piece], limits: Limits, check: Callable[[], None]
) -> Iterator[Iterator[Batch]]:
    """The rows of every piece, in order, from calls within this process or from workers. ``check``: what a worker must
    pass at its end."""
    if not limits.workers:
        yield (answered(run, piece) for piece in pieces)
        return
    with Crew(replace(run, listen=None), limits, check) as crew:
        yield crew.over(pieces)
