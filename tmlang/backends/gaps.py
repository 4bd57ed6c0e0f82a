"""Which gap to the object's arithmetic a proof states, and how it is known: what ``rounding:`` of a method asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn

from tmlang.backends.asserted import Asserted
from tmlang.backends.contract import Job
from tmlang.backends.folding import Folded, rounding_gap
from tmlang.backends.rounding import computed, supposed
from tmlang.meaning.values import Symbol

Tensor = torch.Tensor
Kind = Literal["proved", "assumed", "none"]


@dataclass(frozen=True)
class Arithmetic:
    """``kind`` of the gap that is stated, and ``why`` it is not the one that was asked for. ``assumed``: its size where
    it is assumed."""

    kind: Kind
    assumed: float
    why: str | None = None


def arithmetic(job: Job, network: nn.Module, folded: Folded, points: Callable[[], Tensor]) -> Arithmetic:
    """``points`` (n, *shape): members of the sets of ``job``, beside the originals, that an assumed gap is measured at.

    Raises :class:`BackendRefusal` when the folded object is not the deployed one, or its rounding is not bounded.
    """
    asked, why = job.arguments.get("rounding"), None
    deployed = network.deployed if isinstance(network, Asserted) else network
    if asked == Symbol("none"):
        return Arithmetic("none", rounding_gap(deployed, folded, job.x))
    if asked != Symbol("assumed"):
        why = supposed()
        if why is None:
            first = job.x[:1].double()
            computed(network, first, first, job.x.dtype)  # what is not bounded is refused before anything is proved
            return Arithmetic("proved", rounding_gap(deployed, folded, job.x))
        why = f"the gap is assumed: {why}"
    return Arithmetic("assumed", rounding_gap(deployed, folded, job.x, points()), why)


def outward(job: Job) -> tuple[Tensor, Tensor]:
    """(N, *shape) float64 twice: a box around every set."""
    low, high = (torch.from_numpy(np.ascontiguousarray(side)).double() for side in job.sets.outward_box())
    return low, high
