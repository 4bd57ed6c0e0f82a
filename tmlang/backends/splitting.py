"""Branch and bound on the input: CROWN bounds of the pieces of a box, halved until each is proved or one fails.

Complete in the limit, and in practice where few coordinates move; the number of pieces grows exponentially with them.
A piece is halved across the coordinate along which the failing side can still gain most: width times slope at its
middle (the smear rule of interval analysis; Kearfott: Rigorous Global Search (1996), section 4.3).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends import lirpa_shims
from tmlang.backends.answers import Answer, Gap, gap_of, seconds, verdicts
from tmlang.backends.contract import BackendRefusal, Job, Verdicts
from tmlang.backends.library import isolated
from tmlang.backends.lirpa_graph import at_once, bounded_module
from tmlang.backends.polyhedra import Question, question
from tmlang.backends.probing import falsify, member

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor
Ends = TypeVar("Ends", Tensor, NDArray[np.int64])
"""The lower, or upper, ends of boxes, one a row."""

PIECES = 256
"""Pieces that are bounded together, unless memory says fewer."""
OPEN = 1 << 20
"""Pieces that may wait; beyond, the unit is left unknown."""


class Splitting:
    """``auto_lirpa.split``."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def certify(self, job: Job) -> Verdicts:
        return by_boxes(job, lambda bounds: _Search(bounds).unit)


def by_boxes(job: Job, search: Callable[[Bounds], Callable[[int], Answer]]) -> Verdicts:
    """What a search over boxes answers for every unit. What it proves stays more than the gap away from failing."""
    with isolated(job.seeds), torch.no_grad():
        asked = question(job)
        gap = gap_of(job, asked)
        with lirpa_shims.in_double():
            answer = search(Bounds(job, asked, gap))
            found = [answer(i) for i in range(len(job.x))]
    return verdicts(job, found, gap)


def youngest(
    waiting: list[tuple[Ends, Ends]], most: int, join: Callable[[tuple[Ends, ...]], Ends]
) -> tuple[Ends, Ends, list[tuple[Ends, Ends]]]:
    """The at most ``most`` boxes that are bounded next, the youngest first, and what still waits."""
    low, high = (join(side) for side in zip(*waiting, strict=True))
    cut = max(0, len(low) - most)
    return low[cut:], high[cut:], [(low[:cut], high[:cut])] if cut else []


class Bounds:
    """CROWN bounds of pieces of the boxes of one batch. What is proved stays away from failing by more than ``gap``.
    ``together``: pieces that are bounded at once."""

    def __init__(self, job: Job, asked: Question, gap: Gap) -> None:
        self.job, self.asked, self.gap = job, asked, gap
        body, x = asked.folded.body, job.x[:1].double()
        self.together = at_once(body, x, PIECES)
        self.bounded = bounded_module(body, x.expand(self.together, *x.shape[1:]), "matrix", whole_ball=False)
        self.library = lirpa_shims.load()

    def look(self, i: int, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Per piece ``[low, high]`` (n, *shape): whether it stays open, and the slack at its middle (n,).

        Raises :class:`BackendRefusal` when a middle contradicts a bound.
        """
        slack = self.asked.slack(i, self.asked.folded.scores((low + high) / 2))
        open_ = ~self._proved(i, low, high)
        if bool((slack[~open_] > -self.gap.margin(i)).any()):
            raise BackendRefusal("a bound is contradicted by a point of its piece")
        return open_, slack

    def slope(self, i: int, at: Tensor) -> Tensor:
        """The gradient of the slack at points (n, *shape)."""
        with torch.enable_grad():
            at = at.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.asked.slack(i, self.asked.folded.scores(at)).sum(), at)
        return slope

    def _proved(self, i: int, low: Tensor, high: Tensor) -> Tensor:
        """(n,) whether no input of each piece comes within the margin of failing: for every polyhedron one of its rows
        is negative on the whole piece."""
        n = len(low)
        fill = torch.arange(self.together).clamp(max=n - 1)  # the graph was read for one batch size
        low, high = low[fill], high[fill]
        folded, parts = self.asked.folded, self.asked.failing[i]
        rows = -torch.cat([part.matrix for part in parts])
        offset = -torch.cat([part.offset for part in parts]) + rows @ folded.offset
        region = self.library.PerturbationLpNorm(norm=math.inf, x_L=low, x_U=high)
        inputs = (self.library.BoundedTensor((low + high) / 2, region),)
        matrix = (rows @ folded.matrix).expand(self.together, *rows.shape[:1], folded.matrix.shape[1])
        try:
            lower, _ = self.bounded.compute_bounds(x=inputs, C=matrix, method="CROWN", bound_upper=False)
        except (NotImplementedError, RuntimeError, ValueError, AssertionError, AttributeError, IndexError) as failure:
            raise BackendRefusal(f"auto-LiRPA failed: {type(failure).__name__}: {failure}") from failure
        safe = (lower[:n] + offset) > self.gap.margin(i)
        return torch.stack([block.any(dim=1) for block in self._blocks(i, safe)]).all(dim=0)

    def _blocks(self, i: int, safe: Tensor) -> Iterator[Tensor]:
        """The columns of ``safe`` (n, rows), polyhedron by polyhedron."""
        yield from torch.split(safe, [len(part.offset) for part in self.asked.failing[i]], dim=1)


class _Search:
    """Halves boxes until every piece is proved or one fails."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds, self.job, self.asked = bounds, bounds.job, bounds.asked

    def unit(self, i: int) -> Answer:
        end = time.monotonic() + seconds(self.job)
        witness = falsify(self.asked, self.job, i)
        if witness is not None:
            return Answer("broken", None, witness)
        low, high = (torch.from_numpy(side[i : i + 1]).double() for side in self.job.sets.outward_box())
        waiting = [(low, high)]
        count = 0
        while waiting:
            if time.monotonic() >= end:
                return Answer("timeout", f"the time was up after {count} pieces")
            low, high, waiting = youngest(waiting, self.bounds.together, torch.cat)
            count += len(low)
            middle = (low + high) / 2
            open_, slack = self.bounds.look(i, low, high)
            near = middle[open_ & (slack > 0)]
            if len(near) and (witness := member(self.asked, self.job, i, near[:PIECES])) is not None:
                return Answer("broken", None, witness)
            if bool(open_.any()):
                halves = self._halved(i, low[open_], high[open_])
                if halves is None or sum(len(a) for a, _ in waiting) > OPEN:
                    return Answer("unknown", f"undecided after {count} pieces: the least margin is about zero")
                waiting.append(halves)
        return Answer("certified", f"{count} pieces")

    def _halved(self, i: int, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor] | None:
        """Both halves of every piece; ``None`` when a piece cannot be halved any more."""
        middle = (low + high) / 2
        steep, width = self.bounds.slope(i, middle).abs().flatten(1), (high - low).flatten(1)
        gain = width * (steep + 1e-3 * steep.amax(dim=1, keepdim=True) + 1e-12)
        axis = gain.argmax(dim=1, keepdim=True)
        cut = middle.flatten(1).gather(1, axis)
        if bool((cut <= low.flatten(1).gather(1, axis)).any() or (cut >= high.flatten(1).gather(1, axis)).any()):
            return None
        left, right = high.flatten(1).scatter(1, axis, cut), low.flatten(1).scatter(1, axis, cut)
        return torch.cat([low, right.reshape(low.shape)]), torch.cat([left.reshape(high.shape), high])
