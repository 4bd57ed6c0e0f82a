"""CROWN for two ReLU layers, written anew in numpy, so that certificates can be held to a second implementation.

Zhang et al.: Efficient neural network robustness certification with general activation functions (NeurIPS 2018),
sections 3.2 and 3.3, with the adaptive lower slope (1 where u > -l, else 0). Everything is dense and float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

Array = np.ndarray


@dataclass(frozen=True)
class Layer:
    """``weight @ x + bias``."""

    weight: Array
    bias: Array


def dense(module: nn.Module, shape: tuple[int, ...]) -> tuple[Layer, tuple[int, ...]]:
    """An affine module on inputs of ``shape`` as a matrix, column by column, and the shape behind it."""
    size = int(np.prod(shape))
    with torch.no_grad():
        rows = module.double()(torch.cat([torch.zeros(1, size), torch.eye(size)]).double().reshape(-1, *shape))
    flat = rows.reshape(size + 1, -1).numpy()
    return Layer((flat[1:] - flat[0]).T, flat[0]), tuple(rows.shape[1:])


@dataclass(frozen=True)
class Region:
    """The inputs: ``least(a, b)`` is the least of ``a @ x + b`` over them, for rows ``a``."""

    least: Callable[[Array, Array], Array]

    def range(self, a: Array, b: Array) -> tuple[Array, Array]:
        return self.least(a, b), -self.least(-a, -b)


def box(low: Array, high: Array) -> Region:
    centre, radius = (low + high) / 2, (high - low) / 2
    return Region(lambda a, b: a @ centre + b - np.abs(a) @ radius)


def l2_ball(centre: Array, radius: float) -> Region:
    return Region(lambda a, b: a @ centre + b - radius * np.sqrt((a * a).sum(axis=1)))


def relu_below(a: Array, b: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Rows ``a @ relu(z) + b`` bounded below by rows in ``z``, for ``low <= z <= high``."""
    crosses = (low < 0) & (high > 0)
    on = (low >= 0).astype(float)
    upper = np.where(crosses, high / np.where(crosses, high - low, 1), on)
    lower = np.where(crosses, (high > -low).astype(float), on)
    shift = np.where(crosses, -low * upper, 0)
    return np.where(a > 0, a * lower, a * upper), b + np.minimum(a, 0) @ shift


def least_margins(
    layers: tuple[Layer, Layer, Layer], region: Region, differences: Array, z1: tuple[Array, Array] | None = None
) -> Array:
    """Lower bounds of ``differences @ scores`` over the region; ``differences`` (M, K). ``z1``: the range of the first
    layer's outputs where another one than the exact is to be used."""
    first, second, last = layers
    z1 = z1 or region.range(first.weight, first.bias)

    def in_input(a: Array, b: Array) -> tuple[Array, Array]:
        a, b = relu_below(a, b, *z1)
        return a @ first.weight, b + a @ first.bias

    low = region.least(*in_input(second.weight, second.bias))
    high = -region.least(*in_input(-second.weight, -second.bias))
    a, b = relu_below(differences @ last.weight, differences @ last.bias, low, high)
    return region.least(*in_input(a @ second.weight, b + a @ second.bias))
