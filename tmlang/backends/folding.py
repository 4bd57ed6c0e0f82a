"""The attacked object as a verifier can read it: one affine layer for the steps in front, the network, an affine map.

Verifiers are sound for chains that begin with a convolution or a matrix (an elementwise operation on the input made
l2 and l1 bounds of auto-LiRPA unsound), so normalization becomes a 1x1 convolution with a diagonal weight. Everything
is in float64: the difference to the object's own arithmetic is the gap that a certificate states.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from tmlang.backends import steps as s
from tmlang.backends.contract import BackendRefusal
from tmlang.backends.decision import Decision
from tmlang.backends.deployed import Deployed, external_layout, joined
from tmlang.backends.programs import as_modules
from tmlang.backends.steps import Layout
from tmlang.meaning.models import Model
from tmlang.meaning.spaces import Space

Tensor = torch.Tensor


class Body(nn.Module):
    """External values (n, *shape) to what stands behind ``network:`` (n, H), float64, no dropout, no gradients kept."""

    def __init__(self, front: nn.Module, network: nn.Module) -> None:
        super().__init__()
        self.front, self.network = front, network

    def forward(self, x: Tensor) -> Tensor:
        return joined(self.network(self.front(x)))


@dataclass(frozen=True)
class Folded:
    """``scores = matrix @ body(x) + offset``: ``matrix`` (K, H), ``offset`` (K,), float64. ``model``: its spec."""

    body: nn.Module
    matrix: Tensor
    offset: Tensor
    model: Model

    def scores(self, x: Tensor) -> Tensor:
        """(n, K) class scores in float64."""
        scores: Tensor = self.body(x.double()) @ self.matrix.T + self.offset
        return scores


def fold(network: nn.Module, decide: Callable[[Tensor], Tensor], space: Space, x: Tensor) -> Folded:
    """``network`` and ``decide`` are what an oracle opens, ``x`` (n, *shape) some inputs.

    Raises :class:`BackendRefusal` for objects that are no affine map around a network.
    """
    if not isinstance(network, Deployed) or not isinstance(decide, Decision):
        raise BackendRefusal("the attacked object is not a torch network that can be opened")
    front = _front(network, external_layout(space, decide.model.steps), space)
    with torch.no_grad():
        z = x[:4].to(network.dtype)
        for step in network.steps:
            z = step(z)
        plain = as_modules(network.network, z)
    body = Body(front, _stripped(plain)).double().eval()
    for parameter in body.parameters():
        parameter.requires_grad_(False)
    matrix, offset = _affine(network, width=body(x[:1].double()).shape[1])
    classes = len(decide.model.classes)
    return Folded(body, matrix[:classes], offset[:classes], decide.model)


SAFETY = 16
"""How many times the measured difference to the evaluator's arithmetic the gap is."""


def rounding_gap(network: nn.Module, folded: Folded, x: Tensor, further: Tensor | None = None) -> float:
    """The assumed difference of a margin between real arithmetic and the evaluator's: for each of its two scores
    :data:`SAFETY` times the greatest difference measured at the originals ``x`` (n, *shape) and at ``further`` inputs,
    and no less than so many units in the last place of the greatest score.

    Raises :class:`BackendRefusal` when the folded object is not the deployed one.
    """
    measured, greatest = _difference(network, folded, x)
    if not measured <= 1e-3 * (1 + greatest):
        raise BackendRefusal(f"the folded object differs from the deployed one by {measured:.3g} at an original")
    further = x[:0] if further is None else further
    for at in range(0, len(further), len(x)):
        some = _difference(network, folded, further[at : at + len(x)])
        measured, greatest = max(measured, some[0]), max(greatest, some[1])
    if not math.isfinite(measured):
        raise BackendRefusal("the object is not finite at an input of a set, as it is in real arithmetic")
    return 2 * SAFETY * max(measured, torch.finfo(network(x[:1]).dtype).eps * greatest)


def _difference(network: nn.Module, folded: Folded, x: Tensor) -> tuple[float, float]:
    """The greatest difference of a score at ``x``, infinite where one is no number, and the greatest score."""
    real = folded.scores(x)
    off = (network(x)[:, : len(folded.offset)].double() - real).abs().nan_to_num(nan=math.inf)
    return float(off.max()), float(real.abs().max())


def _stripped(network: nn.Module) -> nn.Module:
    """A copy in which dropout, which does nothing in evaluation mode, is gone: verifiers trip over it."""
    holder = nn.Sequential(copy.deepcopy(network))
    for module in list(holder.modules()):
        for name, child in module.named_children():
            if isinstance(child, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)):
                setattr(module, name, nn.Identity())
    return holder[0]


def _affine(network: Deployed, width: int) -> tuple[Tensor, Tensor]:
    """Matrix and offset of the steps behind the network and the reading of the scores, from unit vectors."""
    if strange := [type(f).__name__ for f in network.post_steps if not isinstance(f, s.Affine)]:
        raise BackendRefusal(f"the steps behind the network are not affine: {', '.join(strange)}")
    behind = nn.Sequential(*copy.deepcopy(network.post_steps), copy.deepcopy(network.lift)).double()
    offset: Tensor = behind(torch.zeros(1, width, dtype=torch.float64))[0]
    matrix: Tensor = (behind(torch.eye(width, dtype=torch.float64)) - offset).T
    return matrix, offset


def _front(network: Deployed, layout: Layout, space: Space) -> nn.Module:
    """The steps in front as reorderings of axes and one channel map ``M z + b`` behind them, which begins anew behind
    every category that is spread."""
    if not network.steps:
        return nn.Identity()
    axis = layout.axis or 0
    channels = layout.shape[axis]
    matrix, bias = torch.eye(channels, dtype=torch.float64), torch.zeros(channels, dtype=torch.float64)
    low, high = (torch.tensor([float(getattr(c, end)) for c in space.cells]).double() for end in ("low", "high"))
    reorderings: list[nn.Module] = []
    for step in network.steps:
        if isinstance(step, s.Permute):
            reorderings.append(copy.deepcopy(step))
            axis = step.order.index(axis)
        elif isinstance(step, s.Affine):
            scale, shift = _scale_and_shift(step, channels)
            matrix, bias = scale[:, None] * matrix, scale * bias + shift
        elif isinstance(step, s.ReverseChannels):
            matrix, bias = matrix.flip(0), bias.flip(0)
        elif isinstance(step, s.OneHot):
            low, high = (
                matrix.clamp(min=0) @ a + matrix.clamp(max=0) @ b + bias for a, b in ((low, high), (high, low))
            )
            reorderings += [_channel_map(matrix, bias, 1), *_spread(step, low)]
            new = torch.zeros(len(step.categories), dtype=torch.float64)
            low, high = (
                torch.cat([end[: step.column], new + e, end[step.column + 1 :]]) for end, e in ((low, 0), (high, 1))
            )
            channels = len(low)
            matrix, bias = torch.eye(channels, dtype=torch.float64), torch.zeros(channels, dtype=torch.float64)
        else:
            raise BackendRefusal(f"the step {type(step).__name__} is not folded into the network yet")
    if axis != 0:
        raise BackendRefusal("a channel map is folded only where channels come first, as the network reads them")
    return nn.Sequential(*reorderings, _channel_map(matrix, bias, len(layout.shape)))


def _spread(step: s.OneHot, low: Tensor) -> list[nn.Module]:
    """A category in whole positions as columns ``max(0, 1 - |x - k|)``, in matrices and ReLUs; what else there is goes
    through the ReLUs as what it exceeds ``low`` (n,) by, its least value."""
    c, count = step.column, len(step.categories)
    others = torch.tensor([j for j in range(len(low)) if j != c], dtype=torch.int64)
    keep, unit = torch.eye(len(low), dtype=torch.float64)[others], torch.eye(count, dtype=torch.float64)
    here = torch.zeros(count, len(low), dtype=torch.float64)
    here[:, c] = 1
    k, m = torch.arange(count, dtype=torch.float64), len(others)
    apart = _linear(torch.cat([keep, here, -here]), torch.cat([-low[others], -k, k]))
    near = torch.zeros(m + count, m + 2 * count, dtype=torch.float64)
    near[:m, :m], near[m:, m:] = torch.eye(m), torch.cat([-unit, -unit], dim=1)
    nearness = _linear(near, torch.cat([torch.zeros(m), torch.ones(count)]).double())
    order = [*range(c), *range(m, m + count), *range(c, m)]
    back = torch.cat([low[others], torch.zeros(count).double()])
    placed = _linear(torch.eye(m + count, dtype=torch.float64)[order], back[order])
    return [apart, nn.ReLU(), nearness, nn.ReLU(), placed]


def _linear(matrix: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(matrix.shape[1], matrix.shape[0], dtype=torch.float64)
    layer.load_state_dict({"weight": matrix, "bias": bias})
    return layer


def _scale_and_shift(step: s.Affine, channels: int) -> tuple[Tensor, Tensor]:
    """``a`` and ``b`` (C,) of ``a z + b``, the one affine map that the step's operations make."""

    def along(value: Tensor | None, default: float) -> Tensor:
        full = torch.full((channels,), default, dtype=torch.float64)
        return full if value is None else full * 0 + value.double().reshape(-1)

    multiply = along(step.multiply, 1) / along(step.divide, 1)
    return multiply, along(step.add, 0) - along(step.subtract, 0) * multiply


def _channel_map(matrix: Tensor, bias: Tensor, axes: int) -> nn.Module:
    """A matrix on features, a 1x1 convolution on pictures."""
    if axes == 1:
        return _linear(matrix, bias)
    if axes != 3:
        raise BackendRefusal(f"a channel map over {axes} axes is not folded yet")
    layer = nn.Conv2d(len(bias), len(bias), 1).double()
    layer.load_state_dict({"weight": matrix[:, :, None, None], "bias": bias})
    return layer
