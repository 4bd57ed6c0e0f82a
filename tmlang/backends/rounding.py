"""How far the object's float32 arithmetic can be from real arithmetic, anywhere in a box: a proved forward error bound.

Every value is enclosed together with the error of its computed version (Higham: Accuracy and stability of numerical
algorithms, 2nd ed. (2002), sections 3.1 and 2.2): an inner product of ``n`` terms computed with unit roundoff ``u`` is
off by at most ``gamma_n = n u / (1 - n u)`` times the inner product of the absolute values, in whatever order it is
summed, fused or not; what underflows adds at most the smallest normal number for each product. This holds for kernels
that multiply and add, as torch's on a CPU do for one input at a time; it would not for fast transforms (Winograd).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from tmlang.backends import steps
from tmlang.backends.contract import BackendRefusal
from tmlang.backends.deployed import Deployed

Tensor = torch.Tensor

ROUNDOFF = 2.0**-24
"""Of float32, rounding to nearest."""
UNDERFLOW = 2.0**-126
"""What one operation is off by where it underflows, numbers below the normal ones flushed to zero or not."""
SLACK = 2.0**-40
"""Share by which enclosures are widened for their own rounding in float64."""
SHARE = 2.0**-7
"""Share that is added for the rounding of the bounds themselves, each of whose operations is 2^29 times finer."""


def gamma(n: int) -> float:
    """The constant of an inner product of ``n`` terms (Higham, section 3.1)."""
    return n * ROUNDOFF / (1 - n * ROUNDOFF)


@dataclass(frozen=True)
class Enclosed:
    """Exact values within ``[low, high]``, the computed ones at most ``error`` away: each (n, *shape), float64."""

    low: Tensor
    high: Tensor
    error: Tensor

    @property
    def reach(self) -> Tensor:
        """Bound of the absolute values that are computed with."""
        return torch.maximum(self.low.abs(), self.high.abs()) + self.error

    def each(self, change: Callable[[Tensor], Tensor]) -> Enclosed:
        """Under a map that rounds nothing, grows with its argument and moves no further than that: reshaping, ReLU,
        the greatest of a window."""
        return Enclosed(change(self.low), change(self.high), change(self.error))

    def linear(self, signed: Callable[[Tensor], Tensor], absolute: Callable[[Tensor], Tensor], terms: int) -> Enclosed:
        """Under an affine map. ``absolute``: its linear part with absolute weights; ``terms``: roundings on the way."""
        constant = signed(torch.zeros_like(self.low)).abs()
        middle, half = signed((self.low + self.high) / 2), absolute((self.high - self.low) / 2)
        size = absolute(self.reach) + constant
        error = absolute(self.error) + gamma(terms) * size + terms * UNDERFLOW
        return Enclosed(middle - half - SLACK * size, middle + half + SLACK * size, error)

    def plus(self, other: Enclosed) -> Enclosed:
        error = self.error + other.error
        found = Enclosed(self.low + other.low, self.high + other.high, error)
        return Enclosed(found.low, found.high, error + gamma(1) * found.reach)


def proved_gap(network: nn.Module, low: Tensor, high: Tensor, y: Tensor, dtype: torch.dtype) -> float:
    """What the computed margin of ``y`` (n,) over any other class may be off by for inputs in ``[low, high]``, each
    (n, *shape) float64, that are given in ``dtype``.

    Raises :class:`BackendRefusal` for what is not enclosed.
    """
    if not isinstance(network, Deployed) or network.dtype != torch.float32:
        raise BackendRefusal("rounding is bounded for torch networks that compute in float32")
    if network.lift.decide.rule != "argmax" or network.lift.head is not None:
        raise BackendRefusal("rounding is bounded for scores of which the greatest decides")
    value = Enclosed(low.clone(), high.clone(), torch.zeros_like(low))
    if dtype != network.dtype:
        value = Enclosed(value.low, value.high, gamma(1) * value.reach + UNDERFLOW)
    for step in network.steps:
        value = _step(step, value)
    value = _graph(network.network, value)
    for step in network.post_steps:
        value = _step(step, value)
    own = value.error.gather(1, y[:, None])
    others = value.error.scatter(1, y[:, None], 0.0).amax(dim=1, keepdim=True)
    return float((own + others).max()) * (1 + SHARE)


def _step(step: nn.Module, value: Enclosed) -> Enclosed:
    if isinstance(step, (steps.Permute, steps.ReverseChannels)):
        return value.each(step)
    if not isinstance(step, steps.Affine):
        raise BackendRefusal(f"rounding in the step {type(step).__name__} is not bounded")
    for operand, action in ((step.subtract, -1), (step.divide, None), (step.multiply, None), (step.add, 1)):
        if operand is None:
            continue
        c = operand.double()
        if action is not None:
            shift = torch.zeros_like(value.low) + action * c
            value = value.plus(Enclosed(shift, shift, torch.zeros_like(shift)))
        else:
            factor = 1 / c if operand is step.divide else c
            value = value.linear(lambda z, f=factor: z * f, lambda z, f=factor: z * f.abs(), 1)  # type: ignore[misc]
    return value


def _graph(network: nn.Module, value: Enclosed) -> Enclosed:
    """The network operation by operation, as it is traced."""
    try:
        traced = fx.symbolic_trace(nn.Sequential(network))  # a lone layer would be traced into
    except Exception as error:
        raise BackendRefusal(f"rounding is bounded for networks that can be traced: {error}") from error
    known: dict[fx.Node, Any] = {}

    def of(argument: Any) -> Any:
        return fx.node.map_arg(argument, lambda node: known[node])

    for node in traced.graph.nodes:
        if node.op == "placeholder":
            known[node] = value
        elif node.op == "output":
            found = of(node.args[0])
            if isinstance(found, Enclosed):
                return found
        elif node.op == "call_module" and len(node.args) == 1 and not node.kwargs:
            known[node] = _module(traced.get_submodule(str(node.target)), of(node.args[0]))
        elif node.op in ("call_function", "call_method"):
            known[node] = _call(node.target, of(node.args), of(node.kwargs))
        else:
            raise BackendRefusal(f"rounding in `{node.target}` is not bounded")
    raise BackendRefusal("rounding is bounded for networks with one output")


_RESHAPING = (nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout2d, nn.ReLU, nn.MaxPool1d, nn.MaxPool2d)


def _module(module: nn.Module, value: Enclosed) -> Enclosed:
    if isinstance(module, (nn.MaxPool1d, nn.MaxPool2d)) and module.padding:
        raise BackendRefusal("rounding in padded max pooling is not bounded")
    if isinstance(module, _RESHAPING):
        return value.each(module)
    if isinstance(module, nn.Linear):
        return _weighted(functional.linear, module, module.in_features, value)
    if isinstance(module, nn.Conv2d) and module.padding_mode == "zeros":
        terms = module.weight[0].numel()
        shape = {k: getattr(module, k) for k in ("stride", "padding", "dilation", "groups")}
        return _weighted(lambda *a: functional.conv2d(*a, **shape), module, terms, value)
    if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)) and module.running_var is not None:
        return _normalized(module, value)
    if isinstance(module, (nn.AvgPool2d, nn.AdaptiveAvgPool2d)):
        return value.linear(module, module, value.low[0].numel())
    raise BackendRefusal(f"rounding in {type(module).__name__} is not bounded")


def _weighted(apply: Callable[..., Tensor], module: nn.Linear | nn.Conv2d, terms: int, value: Enclosed) -> Enclosed:
    weight = module.weight.double()
    bias = None if module.bias is None else module.bias.double()
    return value.linear(lambda z: apply(z, weight, bias), lambda z: apply(z, weight.abs(), None), terms + 1)


def _normalized(module: nn.BatchNorm1d | nn.BatchNorm2d, value: Enclosed) -> Enclosed:
    """``x a + (b - m a)`` with ``a = g / sqrt(v + eps)``: at most eight roundings on the way of any term."""
    assert module.running_var is not None
    assert module.running_mean is not None
    scale = 1 / (module.running_var.double() + module.eps).sqrt()
    shift = torch.zeros_like(scale)
    if module.affine:
        scale, shift = scale * module.weight.double(), module.bias.double()
    along = (1, -1, *[1] * (value.low.ndim - 2))
    moved = (module.running_mean.double() * scale).reshape(along)
    scale, shift = scale.reshape(along), shift.reshape(along)
    found = value.linear(lambda z: z * scale + shift - moved, lambda z: z * scale.abs(), 8)
    # Shift and mean may cancel in the constant: both are rounded at full length.
    return Enclosed(found.low, found.high, found.error + gamma(8) * (shift.abs() + moved.abs()))


def _call(target: Any, args: Any, kwargs: Any) -> Enclosed:
    first = args[0] if args else None
    if target in (operator.add, operator.iadd, torch.add, "add", "add_") and not kwargs:
        if all(isinstance(a, Enclosed) for a in args):
            return args[0].plus(args[1])  # type: ignore[no-any-return]
    elif isinstance(first, Enclosed):
        rest = args[1:]
        if target in (torch.flatten, torch.relu, functional.relu):
            return first.each(lambda z: target(z, *rest))
        if target in ("flatten", "reshape", "view", "relu", "contiguous"):
            return first.each(lambda z: getattr(z, target)(*rest))
    raise BackendRefusal(f"rounding in `{getattr(target, '__name__', target)}` is not bounded")
