"""Certificates by linear bounds (auto-LiRPA 0.3): one bounded module for a batch, margins by a difference matrix.

What is proved is ``score_y > score_j`` by more than the gap for every class ``j`` (for the target alone under a
targeted goal) on a superset of the threat's set: the outward box of linf sets, the whole ball of l2 and l1 ones.
Bounds are computed in float64; the gap to the evaluator's arithmetic is *assumed* from its measured size
(:func:`_gap`).

The library is not believed: its operations are held to those that were tested, its forward pass is compared with the
object's, bounds that do not widen are refused, and every bound must hold at sampled points and at an attacked corner.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from tmlang.backends import lirpa_shims
from tmlang.backends.contract import BackendRefusal, Job, Verdicts
from tmlang.backends.folding import Folded, fold
from tmlang.backends.library import isolated
from tmlang.base.exact import round_up
from tmlang.meaning.threats import Ball

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

OPTIONS = {"conv_mode": "matrix", "sparse_features_alpha": False}
"""The default patches mode is unsound for grouped convolutions and fails on normalized inputs."""

LINEAR = {"BoundLinear", "BoundConv"}
RESHAPING = {"BoundFlatten", "BoundReshape", "BoundTranspose", "BoundSqueeze", "BoundUnsqueeze"}
TESTED = LINEAR | RESHAPING | {
    "BoundInput", "BoundParams", "BoundBuffers", "BoundConstant", "BoundPrimConstant", "BoundRelu", "BoundSigmoid",
    "BoundTanh", "BoundAdd", "BoundSub", "BoundMul", "BoundBatchNormalization", "BoundMaxPool", "BoundAveragePool",
    "BoundGlobalAveragePool", "BoundReduceMean", "BoundConcat", "BoundIdentity", "BoundShape", "BoundGather",
}  # fmt: skip
"""Operations whose linf bounds no sampling has falsified. Others (ELU, GELU, clamp, padding, softmax) are refused."""

MEMORY = 1 << 27
"""Numbers that the coefficients of one layer's bounds may hold: sets how many units are bounded at once."""

SAFETY = 16
"""How many times the measured difference to the evaluator's arithmetic the gap is."""


@dataclass(frozen=True)
class Margins:
    """``rows`` (N, M, K): per unit the differences of scores that must be positive."""

    rows: Tensor

    def of(self, scores: Tensor) -> Tensor:
        """(N, M) margins of scores (N, K)."""
        return torch.einsum("nmk,nk->nm", self.rows, scores.double())


class LinearBounds:
    """CROWN, CROWN-IBP and IBP: the manifest's ``symbol`` is the library's word for the method."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def certify(self, job: Job) -> Verdicts:
        network, decide = job.oracle.opened()
        folded = fold(network, decide, job.sets.space, job.x)
        _answers_always(job, folded)
        margins = _margins(job, len(folded.offset))
        gap = _gap(network, folded, job.x)
        ball = _whole_ball(job)
        with isolated(job.seeds), torch.no_grad():
            bounded = _bounded(folded, job.x, ball is not None)
            lower = self._lower(job, folded, bounded, margins, ball)
            done = ~lower.isnan().any(dim=1)
            _plausible(job, folded, network, margins, lower, gap, done)
        worst = torch.where(done, lower.amin(dim=1), math.nan)
        words = [
            "timeout" if not d else "certified" if w > gap else "unknown" for d, w in zip(done, worst, strict=True)
        ]
        return Verdicts(tuple(words), worst, gap, "assumed", messages=(None,) * len(words))  # type: ignore[arg-type]

    def _lower(
        self, job: Job, folded: Folded, bounded: Any, margins: Margins, ball: tuple[float, float] | None
    ) -> Tensor:
        """(N, M) proved lower bounds of the margins in real arithmetic, NaN where the deadline came first."""
        library = lirpa_shims.load()
        low, high = (torch.from_numpy(np.ascontiguousarray(side)).double() for side in job.sets.outward_box())
        x, n = job.x.double(), len(job.x)
        lower = torch.full(margins.rows.shape[:2], math.nan, dtype=torch.float64)
        step = _at_once(folded.body, x[:1], n)
        for start in range(0, n, step):
            if job.deadline is not None and time.monotonic() > job.deadline:
                break
            # The last part is filled up: the graph was read for one batch size.
            rows = torch.arange(start, start + step).clamp(max=n - 1)
            if ball is None:
                region = library.PerturbationLpNorm(norm=math.inf, x_L=low[rows], x_U=high[rows])
            else:
                region = library.PerturbationLpNorm(norm=ball[0], eps=ball[1])
            specification = margins.rows[rows] @ folded.matrix
            try:
                found, _ = bounded.compute_bounds(
                    x=(library.BoundedTensor(x[rows], region),),
                    C=specification,
                    method=self.row.symbol,
                    bound_upper=False,
                )
            except (
                NotImplementedError,
                RuntimeError,
                ValueError,
                AssertionError,
                AttributeError,
                IndexError,
            ) as failure:
                raise BackendRefusal(f"auto-LiRPA failed: {type(failure).__name__}: {failure}") from failure
            kept = min(step, n - start)
            lower[start : start + kept] = (found + margins.rows[rows] @ folded.offset)[:kept]
        return lower


def _answers_always(job: Job, folded: Folded) -> None:
    """A positive margin proves an answer, not that the model gives one."""
    abstains = bool(folded.model.reject) or folded.model.decide.ties == "reject"
    if abstains and job.threat.rejected is not None and job.threat.rejected.kind != "safe":
        raise BackendRefusal(
            "a positive margin does not prove that the model answers, and a rejection is a failure here"
        )
    if folded.model.decide.rule not in ("argmax", "argmin", "threshold"):
        raise BackendRefusal(f"bounds on one network say nothing about `decide: {folded.model.decide.rule}`")


def _margins(job: Job, classes: int) -> Margins:
    """``e_y - e_j`` for all ``j != y``, or for the target."""
    unit = torch.eye(classes, dtype=torch.float64)
    if job.target is not None:
        return Margins((unit[job.y] - unit[job.target])[:, None])
    others = torch.stack([torch.tensor([j for j in range(classes) if j != y]) for y in job.y.tolist()])
    return Margins(unit[job.y][:, None] - unit[others])


def _whole_ball(job: Job) -> tuple[float, float] | None:
    """(norm, radius rounded outward) where the set is one l2 or l1 ball, whose box and mask are then ignored; ``None``
    where the outward box is bounded."""
    ball = job.threat.allow
    if not isinstance(ball, Ball) or ball.radius is None or ball.norm not in ("l2", "l2_rms", "l1"):
        return None
    radius = round_up(ball.radius + ball.tolerance, "float64")
    if ball.norm == "l2_rms":
        radius = math.nextafter(radius * math.nextafter(math.sqrt(job.sets.space.size), math.inf), math.inf)
    return (1.0 if ball.norm == "l1" else 2.0), radius


def _gap(network: nn.Module, folded: Folded, x: Tensor) -> float:
    """The assumed difference of a margin between real arithmetic and the evaluator's: :data:`SAFETY` times the greatest
    one measured at the originals, and no less than so many units in the last place of the greatest score.

    Raises :class:`BackendRefusal` when the folded object is not the deployed one.
    """
    with torch.no_grad():
        deployed = network(x)[:, : len(folded.offset)]
        real = folded.scores(x)
    greatest = float(real.abs().max())
    measured = float((deployed.double() - real).abs().max())
    if not measured <= 1e-3 * (1 + greatest):
        raise BackendRefusal(f"the folded object differs from the deployed one by {measured:.3g} at an original")
    return 2 * SAFETY * max(measured, torch.finfo(deployed.dtype).eps * greatest)


def _bounded(folded: Folded, x: Tensor, whole_ball: bool) -> Any:
    """The bounded module, its operations checked."""
    library = lirpa_shims.load()
    sample = x[: _at_once(folded.body, x[:1].double(), len(x))].double()
    try:
        with lirpa_shims.reading_graphs():
            bounded = library.BoundedModule(folded.body, sample, bound_opts=dict(OPTIONS), device="cpu")
    except (NotImplementedError, RuntimeError, TypeError, ValueError, KeyError, AttributeError) as failure:
        raise BackendRefusal(f"auto-LiRPA does not read this network: {failure}") from failure
    nodes = list(bounded._modules.values())
    if strange := sorted({type(n).__name__ for n in nodes} - TESTED):
        raise BackendRefusal(f"bounds of {', '.join(s.removeprefix('Bound') for s in strange)} are not trusted")
    for node in nodes:
        if type(node).__name__ == "BoundMaxPool" and (list(node.kernel_size) != list(node.stride) or any(node.padding)):
            raise BackendRefusal("bounds of max pooling are trusted only where windows do not overlap")
    if whole_ball and not _begins_linear(nodes):
        raise BackendRefusal("l2 and l1 bounds are sound only where the input goes into convolutions or matrices alone")
    difference = float((bounded(sample) - folded.body(sample)).abs().max())
    if not difference <= 1e-9 * (1 + float(folded.body(sample).abs().max())):
        raise BackendRefusal(f"auto-LiRPA computes another function: they differ by {difference:.3g} at an original")
    return bounded


def _begins_linear(nodes: Sequence[Any]) -> bool:
    """Whether every path from the input meets a matrix or a convolution before anything but reshaping."""
    reached = {node.name for node in nodes if type(node).__name__ == "BoundInput"}
    for node in nodes:
        if reached & {getattr(i, "name", i) for i in node.inputs}:
            kind = type(node).__name__
            if kind in RESHAPING:
                reached.add(node.name)
            elif kind not in LINEAR:
                return False
    return True


def _at_once(body: nn.Module, x: Tensor, n: int) -> int:
    """How many units are bounded together: coefficients take the square of the widest layer per unit."""
    sizes = [x.numel()]
    hooks = [
        m.register_forward_hook(lambda _, __, out: sizes.append(out.numel() if isinstance(out, Tensor) else 0))
        for m in body.modules()
        if not list(m.children())
    ]
    try:
        body(x)
    finally:
        for hook in hooks:
            hook.remove()
    return max(1, min(n, MEMORY // max(sizes) ** 2))


def _plausible(
    job: Job, folded: Folded, network: nn.Module, margins: Margins, lower: Tensor, gap: float, done: Tensor
) -> None:
    """Raise when a bound is contradicted at a point of the set, or did not widen although the set is no point."""
    centre = margins.of(folded.scores(job.x))
    moves = torch.from_numpy((job.sets.lower < job.sets.upper).reshape(len(job.x), -1).any(axis=1))
    if bool(((centre <= lower).all(dim=1) & moves & done).any()):
        raise BackendRefusal("auto-LiRPA's bounds did not widen with the set")
    for points in _points(job, folded, margins):
        inside = torch.from_numpy(np.ascontiguousarray(job.sets.project(points.numpy()).x))
        reached = margins.of(network(inside)[:, : len(folded.offset)])
        if bool(((reached < lower - gap) & done[:, None]).any()):
            raise BackendRefusal("auto-LiRPA's bound is contradicted by a point of the set")


def _points(job: Job, folded: Folded, margins: Margins) -> list[Tensor]:
    """Inputs (N, *shape) to look at: two uniform draws, two corners, and the corner where the worst margin points."""
    low, high = torch.from_numpy(job.sets.lower), torch.from_numpy(job.sets.upper)
    uniform = [low + (high - low) * torch.rand_like(low) for _ in range(2)]
    corners = [torch.where(torch.rand_like(low) < 0.5, low, high) for _ in range(2)]
    with torch.enable_grad():
        x = job.x.double().requires_grad_()
        worst = margins.of(folded.scores(x)).amin(dim=1).sum()
        (slope,) = torch.autograd.grad(worst, x)
    return [*uniform, *corners, torch.where(slope > 0, low, high)]
