"""The examples that a universal perturbation is fitted on: other data than those that judge it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from tmlang.backends.decision import NO_DECISION
from tmlang.backends.nature import laid
from tmlang.backends.threatset import ThreatSet
from tmlang.execute.units import Clean, make_units
from tmlang.meaning.threats import Threat

if TYPE_CHECKING:
    from tmlang.execute.world import Attacked, World


@dataclass(frozen=True)
class Fitting:
    """Units of the fitting data, row-aligned: ``sets``, originals ``x``, labels ``y``, ``target`` (``None``:
    untargeted)."""

    sets: ThreatSet
    x: torch.Tensor
    y: torch.Tensor
    target: torch.Tensor | None


def fitting(threat: Threat, attacked: Attacked, world: World) -> Fitting | None:
    """What ``threat`` fits on; ``None`` for one that does not."""
    if threat.perturbation != "universal":
        return None
    assert threat.fitted_on is not None
    there = replace(threat, data=threat.fitted_on)
    data = world.data(there)
    unknown = Clean(torch.full((len(data.ids),), NO_DECISION), (None,) * len(data.ids), 0.0)
    units = [unit for unit in make_units(there, attacked, data, unknown) if unit.applicable]
    rows = np.array([unit.row for unit in units], dtype=np.int64)
    mask = world.mask(there, data.rows, data.total)
    space = world.plan.space(attacked.model.space)
    sets = ThreatSet.build(space, laid(there), data.x, ids=data.ids, mask=mask).rows(rows)
    targeted = threat.goal.kind != "untargeted"
    return Fitting(
        sets,
        torch.from_numpy(sets.originals),
        torch.tensor([unit.label for unit in units]),
        torch.tensor([unit.label if unit.target is None else unit.target for unit in units]) if targeted else None,
    )
