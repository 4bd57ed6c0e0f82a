"""CROWN with optimized slopes (alpha-CROWN; Xu et al.: Fast and complete: enabling complete verification with rapid and
massively parallel incomplete verifiers, ICLR 2021, section 3.2) for what plain CROWN leaves open.

Any slope between 0 and 1 below an unstable ReLU gives a sound bound, so gradient ascent on the slopes can only be
stopped at a worse or a better one. The better of both bounds counts, margin by margin: none is below plain CROWN's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from tmlang.backends import lirpa_shims
from tmlang.backends.auto_lirpa import Found, Gaps, LinearBounds, Problem, propagated
from tmlang.backends.contract import Job
from tmlang.meaning.values import Symbol

Tensor = torch.Tensor

MEMORY = 16
"""How many times what a plain bound keeps an optimized one does: coefficients of all layers, and their slopes."""


class OptimizedBounds(LinearBounds):
    """``auto_lirpa.alpha_crown``."""

    def lower(self, problem: Problem, job: Job, gaps: Gaps) -> Found:
        """What CROWN certifies keeps its bounds; of the rest, what the deadline left is NaN."""
        # Under the method's own name, so that what is not trusted is refused whatever CROWN certifies.
        found = propagated(problem, torch.arange(len(problem.x)), self.row.symbol, job.deadline, _crown)
        open_ = (~(found.lower > gaps(found))[:, : problem.differences].all(dim=1)).nonzero()[:, 0]
        bound = partial(_optimized, arguments=job.arguments)
        found.lower[open_] = propagated(problem, open_, self.row.symbol, job.deadline, bound, MEMORY).lower
        return found


def _crown(problem: Problem, bounded: Any, method: str, units: Tensor) -> Tensor:
    del method
    return problem.bounds(bounded, "CROWN", units)


def _optimized(problem: Problem, bounded: Any, method: str, units: Tensor, arguments: Mapping[str, Any]) -> Tensor:
    """(len(units), M): for every margin the better of the plain and the optimized bound."""
    plain = problem.bounds(bounded, "CROWN", units)
    sloped = [node for node in bounded.perturbed_optimizable_activations if node.used]
    if not sloped:
        return plain
    steps = int(arguments["iteration"])
    # Its early stop looks at the batch as a whole, and prints.
    options = {"iteration": steps, "lr_alpha": float(arguments["lr_alpha"]), "early_stop_patience": steps}
    every = arguments["layers"] == Symbol("all")
    # Of a layer with few unstable neurons it would bound these alone, and fail on the slopes of tanh and sigmoid.
    bounded.set_bound_opts({"optimize_bound_args": options, "sparse_intermediate_bounds": not every})
    before = [node.inputs[0] for node in sloped]
    fixed = {n.name: (n.lower.detach(), n.upper.detach()) for n in before}
    known = {} if every else lirpa_shims.intermediate(bounded, fixed)
    with torch.enable_grad():
        found = problem.bounds(bounded, method, units, **known).detach()
    return torch.where(found > plain, found, plain)
