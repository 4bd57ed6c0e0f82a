"""CROWN bounds of a convolution behind the ReLU of a convolution, window by window: most of what auto-LiRPA spends on
a small convolutional network.

The library carries a row per pre-activation of the second convolution back to the input, and one that is unstable in
one unit for all units of a batch. Here the rows of stable ones, which intervals tell, are left out unit by unit. Both
linear bounds of a ReLU are one middle line minus and plus half their distance, so both bounds of a pre-activation come
from two rows; and since a window of the second convolution sees a window of the input through weights that are the same
everywhere, all rows are taken through the first convolution by one matrix.

Source: Zhang et al.: Efficient neural network robustness certification with general activation functions (NeurIPS
2018), section 3.3, with the library's slopes (1 below a ReLU that is more open than closed, else 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

Tensor = torch.Tensor

ROWS = 1 << 9
"""Rows that are taken back together: what fits into a cache."""


@dataclass(frozen=True)
class Window:
    """What one place of a convolution sees."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]

    def behind(self, first: Window) -> Window:
        """What a place sees of the input of a convolution in front."""
        pairs = list(zip(first.stride, self.kernel, self.stride, self.padding, strict=True))
        return Window(
            tuple((k - 1) * s + own for (s, k, _, _), own in zip(pairs, first.kernel, strict=True)),
            tuple(s * t for s, _, t, _ in pairs),
            tuple(own + s * p for (s, _, _, p), own in zip(pairs, first.padding, strict=True)),
        )

    def of(self, x: Tensor) -> Tensor:
        """(n * places, channels * kernel) of ``x`` (n, channels, height, width)."""
        windows = functional.unfold(x, self.kernel, padding=self.padding, stride=self.stride)
        return windows.transpose(1, 2).reshape(-1, windows.shape[1])


@dataclass(frozen=True)
class Convolution:
    """``name`` as the library calls it, ``weight`` (O, C, *kernel), ``bias`` (O,), both float64."""

    name: str
    weight: Tensor
    bias: Tensor
    stride: tuple[int, int]
    padding: tuple[int, int]

    def of(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding)

    def absolute(self, x: Tensor) -> Tensor:
        """With absolute weights, without the bias."""
        return functional.conv2d(x, self.weight.abs(), None, self.stride, self.padding)

    @property
    def window(self) -> Window:
        return Window(tuple(self.weight.shape[2:]), self.stride, self.padding)

    def interval(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Of a box: exact but for rounding."""
        middle, half = self.of((low + high) / 2), self.absolute((high - low) / 2)
        return middle - half, middle + half


@dataclass(frozen=True)
class Pair:
    """Convolutions ``front`` on the input, ``first`` behind them, and ``second`` behind the ReLU of ``first``, which
    has so many ``places``."""

    front: tuple[Convolution, ...]
    first: Convolution
    second: Convolution
    places: int

    @property
    def names(self) -> set[str]:
        """The nodes whose bounds it knows."""
        return {self.first.name, self.second.name}

    @property
    def numbers(self) -> int:
        """How many the windows of one unit hold."""
        seen = self.second.window.behind(self.first.window)
        kernels = (self.second.weight[0].numel(), self.first.weight.shape[1] * math.prod(seen.kernel))
        return 2 * self.places * sum(kernels)

    def bounds(self, low: Tensor, high: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """By name, of the outputs (n, O, *places) of both, for inputs in ``[low, high]``, each (n, *shape) float64."""
        for part in self.front:
            low, high = part.interval(low, high)
        below, above = self.first.interval(low, high)
        lower, upper = self.second.interval(below.clamp(min=0), above.clamp(min=0))
        shape, rows = lower.shape, _Rows(self, low, high, below, above)
        lower, upper = _by_place(lower), _by_place(upper)
        at, channel = ((lower < 0) & (upper > 0)).nonzero().unbind(dim=1)
        for here, own in zip(torch.split(at, ROWS), torch.split(channel, ROWS), strict=True):
            lower[here, own], upper[here, own] = rows.range(here, own)
        second = _by_channel(lower, shape), _by_channel(upper, shape)
        return {self.first.name: (below, above), self.second.name: second}


class _Rows:
    """The rows of the second convolution's outputs in terms of the input, for every place of every unit (n * places)
    and every channel."""

    def __init__(self, pair: Pair, low: Tensor, high: Tensor, below: Tensor, above: Tensor) -> None:
        """``low``, ``high``: the input of the first convolution; ``below``, ``above``: its outputs."""
        first, second = pair.first, pair.second
        crosses = (below < 0) & (above > 0)
        steep = torch.where(crosses, above / torch.where(crosses, above - below, 1), (below >= 0).double())
        flat = torch.where(crosses, (above > -below).double(), steep)
        shift = torch.where(crosses, -below * steep, 0) / 2
        middle, half = (steep + flat) / 2, (steep - flat) / 2
        bias = first.bias[:, None, None]
        self.constant = _by_place(second.of(middle * bias + shift))
        self.spread = _by_place(second.absolute(half * bias + shift))
        weight = second.weight.flatten(1)
        self.size = size = weight.shape[1]
        self.slopes = torch.cat([second.window.of(side) for side in (middle, half)], dim=1)
        self.weights = torch.cat([weight, weight.abs()], dim=1)
        window = torch.eye(size, dtype=below.dtype).reshape(size, *second.weight.shape[1:])
        back = functional.conv_transpose2d(window, first.weight, stride=first.stride)
        self.back, seen = back.flatten(1), second.window.behind(first.window)
        self.centre, self.radius = (seen.of(side) for side in ((low + high) / 2, (high - low) / 2))

    def range(self, here: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of the outputs at places ``here`` in channels ``own``, each (m,)."""
        both = self.weights.index_select(0, own).mul_(self.slopes.index_select(0, here))
        middle, half = both[:, : self.size] @ self.back, both[:, self.size :] @ self.back
        constant, spread = self.constant[here, own], self.spread[here, own]
        centre, radius = self.centre[here], self.radius[here]
        lower, upper = middle - half, middle + half
        least = (lower * centre - lower.abs() * radius).sum(dim=1) + constant - spread
        return least, (upper * centre + upper.abs() * radius).sum(dim=1) + constant + spread


def _by_place(x: Tensor) -> Tensor:
    """(n * places, channels) of ``x`` (n, channels, height, width), a copy."""
    return x.flatten(2).transpose(1, 2).reshape(-1, x.shape[1])


def _by_channel(x: Tensor, shape: torch.Size) -> Tensor:
    """The inverse of :func:`_by_place`."""
    return x.reshape(shape[0], -1, shape[1]).transpose(1, 2).reshape(shape)


def pair_of(bounded: Any) -> Pair | None:
    """The first such pair in a bounded module, all convolutions of which are neither grouped nor dilated. Convolutions
    in front are bounded by intervals, which is exact where they map channels one by one, as normalization does."""
    for node in bounded._modules.values():
        if _kinds(node, "BoundConv", "BoundRelu", "BoundConv") and _only_relu_follows(bounded, node):
            first = node.inputs[0].inputs[0]
            front, at = [], first.inputs[0]
            while type(at).__name__ == "BoundConv":
                front.append(_convolution(at))
                at = at.inputs[0]
            if type(at).__name__ == "BoundInput":
                places = math.prod(node.output_shape[2:])
                return Pair(tuple(front[::-1]), _convolution(first), _convolution(node), places)
    return None


def _kinds(node: Any, *kinds: str) -> bool:
    """Whether the node and the first inputs before it are of these kinds, the last of them first."""
    for kind in kinds:
        if type(node).__name__ != kind:
            return False
        node = node.inputs[0] if node.inputs else None
    return True


def _only_relu_follows(bounded: Any, node: Any) -> bool:
    """Then it is enough to know of a stable output that it is stable."""
    return {type(bounded[name]).__name__ for name in node.output_name} == {"BoundRelu"}


def _convolution(node: Any) -> Convolution:
    weight = node.inputs[1].forward().detach()
    bias = node.inputs[2].forward().detach() if node.has_bias else weight.new_zeros(len(weight))
    return Convolution(node.name, weight, bias, tuple(node.stride), tuple(node.padding))
