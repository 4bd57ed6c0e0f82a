"""Bounds of every output by a solver that answers whether a score can be that great: doubling, then bisection.

Each end is enclosed from both sides: an input of the set takes the one value, and the solver denies the other. It
begins where ascent by gradients ends, which is mostly within the tolerance of the truth, so that two questions an end
are the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from tmlang.audit.outputs import OutputBounds
from tmlang.backends.contract import Job
from tmlang.backends.folding import Folded
from tmlang.backends.probing import ascend, inside

Tensor = torch.Tensor

QUESTIONS = 60
"""Of one end: more than doubling to the largest float and back would take is no search any more."""

Answers = Callable[[Tensor, float], "np.ndarray | bool | None"]
"""``row`` (K,) and ``level``: an input of the box where ``row @ scores`` may be that great; ``False``: there is none;
``None``: no answer, or none that is believed."""


@dataclass(frozen=True)
class Ends:
    """The search of one unit. ``tolerance``: how near both sides of an end shall come."""

    job: Job
    folded: Folded
    unit: int
    tolerance: float
    answers: Answers

    def bounds(self) -> tuple[OutputBounds | None, str | None]:
        """The bounds, ``None`` where an end has none; and what they lack."""
        eye = torch.eye(len(self.folded.offset), dtype=torch.float64)
        rows = torch.cat([-eye, eye])
        found = [self._end(row) for row in rows]
        if not np.isfinite(found).all():
            return None, "the solver bounds not every output in the time"
        (below, above), wide = np.array(found).reshape(2, len(eye), 2), sum(u - r > self.tolerance for r, u in found)
        told = OutputBounds(-below[:, 1], -below[:, 0], above[:, 0], above[:, 1])
        return told, f"{wide} of {len(found)} ends of outputs are wider than the tolerance" if wide else None

    def _end(self, row: Tensor) -> tuple[float, float]:
        """(reached, denied): ``row @ scores`` takes the first somewhere in the set, and the second nowhere."""
        start = ascend(self.job, self.unit, lambda x: self.folded.scores(x) @ row)
        reached, denied, step = self._value(row, start), float("inf"), self.tolerance / 2
        for _ in range(QUESTIONS):
            if denied - reached <= self.tolerance:
                break
            level = reached + step if denied == float("inf") else (reached + denied) / 2
            if not reached < level < denied:
                break
            answer = self.answers(row, level)
            if answer is None:
                break
            if isinstance(answer, np.ndarray):
                # A point a little below the level moves the search on as well, unless it stands.
                value = self._value(row, torch.from_numpy(answer).double()[None])
                if value <= reached and denied < float("inf"):
                    break
                reached, step = max(reached, value), 2 * step
            else:
                denied = level
        return reached, denied

    def _value(self, row: Tensor, points: Tensor) -> float:
        """The greatest value at those of the points (n, *shape) that are moved into the set."""
        members = inside(self.job, self.unit, points)
        return float((self.folded.scores(members) @ row).amax()) if len(members) else -float("inf")
