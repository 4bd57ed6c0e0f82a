"""Certificates by linear bounds (auto-LiRPA 0.3): one bounded module for a batch, margins by a difference matrix.

What is proved is ``score_y > score_j`` by more than the gap for every class ``j`` (for the target alone under a
targeted goal) on a superset of the threat's set: the outward box of linf sets, the whole ball of l2 and l1 ones.
Bounds are computed in float64; the gap to the evaluator's arithmetic is proved, case by case (``rounding``), *assumed*
from its measured size (``folding.rounding_gap``), or not stated: then they hold in real arithmetic.

The library is not believed: its operations are held to those that were tested (``lirpa_graph``), its forward pass is
compared with the object's, its fast mode (in which ``lirpa_windows`` bounds the second convolution) with its slow one,
and every bound must hold at sampled points and at an attacked corner.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import nn

from tmlang.audit.outputs import OutputBounds
from tmlang.backends import lirpa_shims
from tmlang.backends.contract import BackendRefusal, Job, Verdicts
from tmlang.backends.folding import Folded, fold
from tmlang.backends.gaps import Arithmetic, arithmetic, outward
from tmlang.backends.library import isolated
from tmlang.backends.lirpa_graph import (
    UNITS,
    at_once,
    beyond,
    bounded_module,
    evenly,
    in_matrices,
    patches_are_tested,
    seen,
)
from tmlang.backends.lirpa_windows import pair_of
from tmlang.backends.rounding import Ball as WholeBall
from tmlang.backends.rounding import Known, computed
from tmlang.base.exact import round_up
from tmlang.meaning.threats import Ball

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

TOGETHER = 64
"""Units whose gaps are proved together."""

AT_ONCE = 256
"""Points that bounds are compared at in one pass, where a batch is smaller: for small networks a pass is its calls."""


@dataclass(frozen=True)
class Problem:
    """What is to be bounded. ``x``, ``low``, ``high`` (N, *shape) float64; ``ball`` (norm, radius) where a whole ball
    is taken in place of the box; ``rows`` (N, M, K): per unit the differences of scores that must be positive, and
    behind these ``differences`` every score and its negative, where the outputs are bounded too."""

    folded: Folded
    x: Tensor
    low: Tensor
    high: Tensor
    ball: tuple[float, float] | None
    rows: Tensor
    differences: int

    def margins(self, scores: Tensor, units: Tensor | slice = slice(None)) -> Tensor:
        """(n, M) values of the rows of ``units`` (n,) at scores (n, K)."""
        return torch.einsum("nmk,nk->nm", self.rows[units], scores.double())

    def bounds(self, bounded: Any, method: str, units: Tensor, **known: Any) -> Tensor:
        """(len(units), M) proved lower bounds of the rows in real arithmetic. ``known`` goes to the library."""
        library = lirpa_shims.load()
        if self.ball is None:
            region = library.PerturbationLpNorm(norm=math.inf, x_L=self.low[units], x_U=self.high[units])
        else:
            region = library.PerturbationLpNorm(norm=self.ball[0], eps=self.ball[1])
        inputs = (library.BoundedTensor(self.x[units], region),)
        rows = self.rows[units]
        if method == "CROWN" and self.ball is None and bounded.conv_mode == "patches" and (pair := pair_of(bounded)):
            known = {"intermediate_layer_bounds": pair.bounds(self.low[units], self.high[units])}
        try:
            with redirect_stdout(None):  # it prints what it thinks of the box
                found, _ = bounded.compute_bounds(
                    x=inputs, C=rows @ self.folded.matrix, method=method, bound_upper=False, **known
                )
        except lirpa_shims.FAILURES as failure:
            raise BackendRefusal(f"auto-LiRPA failed: {type(failure).__name__}: {failure}") from failure
        lower: Tensor = found + rows @ self.folded.offset
        return lower


Bound = Callable[[Problem, Any, str, Tensor], Tensor]
"""Lower bounds of units, as :meth:`Problem.bounds`."""


def _plain(problem: Problem, bounded: Any, method: str, units: Tensor) -> Tensor:
    return problem.bounds(bounded, method, units)


@dataclass
class Found:
    """What a propagation gives: ``lower`` (n, M), NaN where the deadline came first, and of the units before it what
    was known in front of each ReLU, if that can be told."""

    lower: Tensor
    known: list[Known] | None

    @property
    def done(self) -> Tensor:
        return ~self.lower.isnan().any(dim=1)


Gaps = Callable[[Found], Tensor]
"""(N, M): how far the object may be below each of the bounds, NaN where there is none."""


class LinearBounds:
    """CROWN, CROWN-IBP, IBP and the forward ones: the manifest's ``symbol`` is the library's word for the method."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def certify(self, job: Job) -> Verdicts:
        network, decide = job.oracle.opened()
        with isolated(job.seeds), torch.no_grad():
            folded = fold(network, decide, job.sets.space, job.x)
            _answers_always(job, folded)
            problem = _problem(job, folded)
            stated = arithmetic(job, network, folded, lambda: _members(job, problem))
            gaps = partial(_gaps, job, problem, network, stated)
            with lirpa_shims.in_double():
                found = self.lower(problem, job, gaps)
            off, done = gaps(found), found.done
            reached = _plausible(job, problem, network, found, off + (stated.assumed if stated.kind == "none" else 0))
        own = slice(problem.differences)
        worst = torch.where(done, found.lower[:, own].amin(dim=1), math.nan)
        gap = _of_the_worst(worst, (found.lower - off)[:, own]) if stated.kind == "proved" else off[:, 0]
        words = [
            "timeout" if not d else "certified" if w > g else "unknown"
            for d, w, g in zip(done, worst, gap, strict=True)
        ]
        # What a bound of an output misses beyond the gap that the row states is taken off it.
        shown = torch.where(done[:, None], found.lower - (off - gap[:, None]).clamp(min=0), math.nan)
        outputs = _outputs(job, problem, shown, reached) if job.arguments.get("outputs") else ()
        each = tuple(g if d else None for d, g in zip(done, gap.tolist(), strict=True))
        told = (stated.why,) * len(words)
        value = None if stated.kind == "none" else each
        return Verdicts(tuple(words), worst, value, stated.kind, messages=told, outputs=outputs)  # type: ignore[arg-type]

    def lower(self, problem: Problem, job: Job, gaps: Gaps) -> Found:
        """What exceeds its gap is certified."""
        del gaps
        return propagated(problem, torch.arange(len(problem.x)), self.row.symbol, job.deadline)


def propagated(
    problem: Problem,
    units: Tensor,
    method: str,
    deadline: float | None,
    bound: Bound = _plain,
    memory: int = 1,
) -> Found:
    """Lower bounds of ``units`` by a method of the library. ``memory``: how many times what the coefficients of one
    layer's bounds take is kept."""
    lower = torch.full((len(units), problem.rows.shape[1]), math.nan, dtype=torch.float64)
    if not len(units):
        return Found(lower, None)
    bounded, step = _bounded(problem, units, method, bound, memory)
    parts: list[list[Known] | None] = []
    for start in range(0, len(units), step):
        if deadline is not None and time.monotonic() > deadline:
            break
        # The last part is filled up: the graph was read for one batch size.
        filled = units[torch.arange(start, start + step).clamp(max=len(units) - 1)]
        kept = min(step, len(units) - start)
        lower[start : start + kept] = bound(problem, bounded, method, filled)[:kept]
        parts.append(seen(bounded, problem.x[filled], kept))
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts) or not whole:
        return Found(lower, None)
    return Found(lower, [Known(*map(torch.cat, zip(*relu, strict=True))) for relu in zip(*whole, strict=True)])


def _bounded(problem: Problem, units: Tensor, method: str, bound: Bound, memory: int) -> tuple[Any, int]:
    """The bounded module, and how many units it bounds together: with patches, many times faster, where that mode is
    tested and agrees on one unit."""
    body, n = problem.folded.body, len(units)

    def read(mode: Literal["matrix", "patches"], n: int) -> Any:
        sample = problem.x[units[:1]].expand(n, *problem.x.shape[1:])
        return bounded_module(body, sample, mode, whole_ball=problem.ball is not None, method=method)

    step = max(1, at_once(body, problem.x[:1], memory * n) // memory)
    # The weights of a convolution, parameters or constants, have more than two axes.
    if method.startswith("forward") or all(weight.ndim <= 2 for weight in body.state_dict().values()):
        return read("matrix", step), step
    together = evenly(n, UNITS) if memory == 1 and problem.ball is None else step
    try:
        fast = read("patches", together)
        if patches_are_tested(fast):
            pair = pair_of(fast)
            wide = step if pair is None else beyond(fast, pair, problem.rows.shape[1], together)
            fast = fast if wide == together else read("patches", wide)
            if _agree(problem, fast, method, bound, units[:1]):
                return fast, wide
    except BackendRefusal:
        pass
    return read("matrix", step), step


def _agree(problem: Problem, bounded: Any, method: str, bound: Bound, units: Tensor) -> bool:
    """Whether a module in patches mode bounds units as it does with matrices."""
    fast = bound(problem, bounded, method, units)
    with in_matrices(bounded):
        slow = bound(problem, bounded, method, units)
    return torch.allclose(slow, fast, rtol=1e-9, atol=1e-9)


def _gaps(job: Job, problem: Problem, network: nn.Module, stated: Arithmetic, found: Found) -> Tensor:
    """:data:`Gaps`."""
    off = torch.full_like(found.lower, math.nan)
    if stated.kind != "proved":
        off[found.done] = stated.assumed if stated.kind == "assumed" else 0.0
        return off
    done = found.done.nonzero()[:, 0]
    for start in range(0, len(done), TOGETHER):
        at = done[start : start + TOGETHER]
        known = None if found.known is None else (problem.x[at], [Known(*(z[at] for z in k)) for k in found.known])
        ball = None if problem.ball is None else WholeBall(problem.x[at], *problem.ball)
        own = computed(network, problem.low[at], problem.high[at], job.x.dtype, known=known, ball=ball)
        off[at] = own.below(problem.rows[at], found.lower[at])
    return off


def _of_the_worst(worst: Tensor, computed: Tensor) -> Tensor:
    """(N,): how far the least of the object's differences, which are at least ``computed`` (N, M), may be below
    ``worst`` (N,). Rounded up, but where that would take away a positive rest."""
    least = computed.amin(dim=1)
    gap = worst - least
    up = torch.nextafter(gap, torch.full_like(gap, math.inf))
    return torch.where((least > 0) & (up >= worst), gap, up)


def _answers_always(job: Job, folded: Folded) -> None:
    """A positive margin proves an answer, not that the model gives one."""
    abstains = folded.model.abstains
    if abstains and job.threat.rejected is not None and job.threat.rejected.kind != "safe":
        raise BackendRefusal("a positive margin does not prove that the model answers, and a rejection fails here")
    if folded.model.decide.rule not in ("argmax", "argmin", "threshold"):
        raise BackendRefusal(f"bounds on one network say nothing about `decide: {folded.model.decide.rule}`")


def _problem(job: Job, folded: Folded) -> Problem:
    """The box or ball, and ``e_y - e_j`` for all ``j != y`` or for the target."""
    low, high = outward(job)
    classes = len(folded.offset)
    unit = torch.eye(classes, dtype=torch.float64)
    if job.target is not None:
        rows = (unit[job.y] - unit[job.target])[:, None]
    else:
        others = torch.tensor([[j for j in range(classes) if j != y] for y in job.y.tolist()])
        rows = unit[job.y][:, None] - unit[others]
    differences = rows.shape[1]
    if job.arguments.get("outputs"):
        rows = torch.cat([rows, torch.cat([unit, -unit]).expand(len(rows), -1, -1)], dim=1)
    return Problem(folded, job.x.double(), low, high, _whole_ball(job), rows, differences)


def _whole_ball(job: Job) -> tuple[float, float] | None:
    """(norm, radius rounded outward) where the set is one l2 or l1 ball, whose box and mask are then ignored; ``None``
    where the outward box is bounded."""
    ball = job.threat.allow
    if not isinstance(ball, Ball) or ball.radius is None or ball.norm not in ("l2", "l2_rms", "l1"):
        return None
    radius = round_up(ball.radius + ball.tolerance, "float64")
    if ball.norm == "l2_rms":
        radius = math.nextafter(radius * math.nextafter(math.sqrt(job.sets.space.size), math.inf), math.inf)
    power = 1.0 if ball.norm == "l1" else 2.0
    apart = float(np.linalg.norm(_apart(job), ord=power)) * (1 + 1e-9)
    return power, math.nextafter(radius + apart, math.inf) if apart else radius


def _apart(job: Job) -> np.ndarray:
    """(size,) float64: by how much the stored values of two levels may be farther apart than the levels, whose distance
    is what the set speaks of; half a unit in the last place each, and 0 where all levels are stored as they are."""
    domain = job.sets.domain
    found = np.zeros(domain.size)
    for columns, lattice, cell in domain.groups:
        if lattice is None:
            continue
        most, unit = max(abs(cell.low), abs(cell.high)), math.lcm(cell.low.denominator, lattice.step.denominator)
        short = unit & (unit - 1) == 0 and most * unit <= 2 ** np.finfo(domain.dtype).nmant
        found[columns] = 0.0 if short else float(np.spacing(domain.dtype.type(most)))
    return found


def _plausible(job: Job, problem: Problem, network: nn.Module, found: Found, off: Tensor) -> Tensor:
    """(N, M) the least value of every row at the points of the set that were looked at, infinite without one.

    Raises :class:`BackendRefusal` when a bound is contradicted at a point: in real arithmetic (float64, to its own
    rounding), or in the object's by more than ``off``. A bound that did not widen with the set is contradicted as well.
    """
    lower, done = found.lower, found.done
    rounding = 1e-9 * (1 + lower.abs())
    least = torch.full_like(lower, math.inf)
    points, n = torch.cat(_points(job, problem)), len(lower)
    for at in torch.split(torch.arange(len(points)), max(1, AT_ONCE // n) * n):
        units = at % n
        moved = job.sets.rows(units.numpy()).project(points[at].numpy())
        inside = torch.from_numpy(np.ascontiguousarray(moved.x))
        real = problem.margins(problem.folded.scores(inside), units)
        computed = problem.margins(network(inside)[:, : len(problem.folded.offset)], units)
        below = (real < (lower - rounding)[units]) | (computed < (lower - off)[units])
        if bool((below & done[units, None]).any()):
            raise BackendRefusal("auto-LiRPA's bound is contradicted by a point of the set")
        reached = torch.where(torch.from_numpy(moved.inside)[:, None], real, math.inf)
        least = least.minimum(reached.reshape(-1, *least.shape).amin(dim=0))
    return least


def _outputs(job: Job, problem: Problem, lower: Tensor, least: Tensor) -> tuple[OutputBounds | None, ...]:
    """Bounds of the outputs from the last rows, and margins from the first ones where there is one for every class.
    ``lower``, ``least`` (N, M): proved, and reached, of every row."""
    found: list[OutputBounds | None] = []
    # A bound that is exact may lie above what was reached by its rounding: it is lowered to it.
    ends = torch.stack([lower.minimum(least), least])[:, :, problem.differences :]
    for i, own in enumerate(ends.unbind(dim=1)):
        below, above = own.chunk(2, dim=1)
        low, least_seen, most_seen, high = (a.numpy().copy() for a in (below[0], below[1], -above[1], -above[0]))
        margins = np.insert(lower[i, : problem.differences].numpy(), int(job.y[i]), 0.0)
        told = OutputBounds(low, least_seen, most_seen, high, margins if job.target is None else None)
        found.append(told if bool(own.isfinite().all()) else None)
    return tuple(found)


def _members(job: Job, problem: Problem) -> Tensor:
    """(m, *shape): the same points, those that are members of their sets."""
    points = torch.cat(_points(job, problem))
    moved = job.sets.rows(np.arange(len(points)) % len(job.x)).project(points.numpy().astype(job.sets.originals.dtype))
    return torch.from_numpy(np.ascontiguousarray(moved.x[moved.inside]))


def _points(job: Job, problem: Problem) -> list[Tensor]:
    """Inputs (N, *shape) to look at: two uniform draws, two corners, the corner where the worst margin points, and for
    bounds of outputs the originals and the corners where every row points."""
    low, high = torch.from_numpy(job.sets.lower), torch.from_numpy(job.sets.upper)
    uniform = [low + (high - low) * torch.rand_like(low) for _ in range(2)]
    corners = [torch.where(torch.rand_like(low) < 0.5, low, high) for _ in range(2)]
    with torch.enable_grad():
        x = job.x.double().clone().requires_grad_()  # of float64 originals `double` makes no copy
        worst = problem.margins(problem.folded.scores(x)).amin(dim=1).sum()
        (slope,) = torch.autograd.grad(worst, x)
    return [*uniform, *corners, torch.where(slope > 0, low, high), *_ends(problem, low, high)]


def _ends(problem: Problem, low: Tensor, high: Tensor) -> list[Tensor]:
    """The originals, and per row behind the differences the corner to which it falls from there."""
    if problem.rows.shape[1] == problem.differences:
        return []
    with torch.enable_grad():
        x = problem.x.clone().requires_grad_()
        scores = problem.folded.scores(x)
        slopes = [torch.autograd.grad(s.sum(), x, retain_graph=True)[0] for s in scores.unbind(dim=1)]
    corners = [torch.where(side * s > 0, low, high) for s in slopes for side in (1, -1)]
    return [problem.x.to(low.dtype), *corners]
