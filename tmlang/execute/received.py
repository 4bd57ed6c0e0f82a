"""What a stage is handed beside its own units: the examples of a data set, or the failures that an earlier stage found.

Failures are read from the committed rows, so a run that goes on hands on what the interrupted one did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.audit.remeasure import as_values
from tmlang.audit.units import is_witness
from tmlang.backends.contract import Received
from tmlang.execute.arena import Arena
from tmlang.execute.world import World
from tmlang.meaning.values import Symbol
from tmlang.plan.capability import RECEIVED
from tmlang.plan.ir import Stage


def received(
    stage: Stage, repeat: int, arena: Arena, world: World, bundle: Bundle, rows: Sequence[Record]
) -> dict[str, Received]:
    """By argument, what ``stage`` is handed in this ``repeat``; ``unit`` counts the arena's units. ``rows`` are those
    committed to ``bundle`` so far."""
    backend = world.capabilities.backend(stage.backend)
    method = backend.method(stage.method) if backend else None
    handed: dict[str, Received] = {}
    for name, value in stage.arguments:
        kind = method.arguments[name].type if method and name in method.arguments else None
        if kind not in RECEIVED or not isinstance(value, Symbol):
            continue
        handed[name] = (
            _examples(value.name, arena, world)
            if kind == "data"
            else _failures(value.name, repeat, arena, bundle, rows)
        )
    return handed


def _examples(name: str, arena: Arena, world: World) -> Received:
    data = world.data(replace(arena.threat, data=name))
    return Received(torch.from_numpy(data.x), torch.from_numpy(data.labels), None)


def _failures(label: str, repeat: int, arena: Arena, bundle: Bundle, rows: Sequence[Record]) -> Received:
    """The first witness within the declared access of every unit that stage ``label`` broke."""
    position = {unit.id: i for i, unit in enumerate(arena.units)}
    found: dict[int, NDArray[np.floating]] = {}
    for row in rows:
        if (row.evaluation, row.stage, row.repeat) != (arena.evaluation.name, label, repeat):
            continue
        unit = position[row.unit]
        if row.candidate is not None and is_witness(row) and row.within_access and unit not in found:
            stored, _, indices = bundle.candidate(row.candidate)
            found[unit] = as_values(arena.sets.space, stored, indices=indices)
    units = torch.tensor(list(found), dtype=torch.int64)
    x = torch.from_numpy(np.stack(list(found.values()))) if found else arena.x[:0]
    return Received(x, arena.y[units], units)


def of_units(handed: Mapping[str, Received], at: Sequence[int]) -> dict[str, Received]:
    """What is handed to a call about the units ``at``, its first being unit 0."""
    place = {unit: k for k, unit in enumerate(at)}
    made: dict[str, Received] = {}
    for name, given in handed.items():
        if given.unit is None:
            made[name] = given
            continue
        kept = [row for row, unit in enumerate(given.unit.tolist()) if unit in place]
        units = torch.tensor([place[int(given.unit[row])] for row in kept], dtype=torch.int64)
        made[name] = Received(given.x[kept], given.y[kept], units)
    return made
