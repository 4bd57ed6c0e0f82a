"""The ONNX operators that are converted to torch, one function each, as the ONNX operator specification defines them
for opsets 7 to 21. What is not here, or a form that a function does not know, is refused before anything runs.

A function takes the inputs of a node (``None`` where an optional one is left out) and its attributes by name; whole
numbers that give shapes and axes arrive as int64 tensors that no gradient concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

Tensor = Any  # torch.Tensor; operators also take whole numbers and None
Inputs = Sequence[Any]
Attributes = Mapping[str, Any]
Operator = Callable[[Inputs, Attributes], Any]


class Unsupported(Exception):
    """An operator, attribute or form that is not converted; the text says which."""


def _pads(x: Tensor, attributes: Attributes, kernel: Sequence[int], value: float) -> tuple[Tensor, list[int]]:
    """``x`` padded where ONNX pads unevenly, and the even padding left for torch to do."""
    auto = attributes.get("auto_pad", "NOTSET")
    spatial = len(kernel)
    strides, dilations = attributes.get("strides", [1] * spatial), attributes.get("dilations", [1] * spatial)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
            total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            small, large = total // 2, total - total // 2
            begin.append(small if auto == "SAME_UPPER" else large)
            end.append(large if auto == "SAME_UPPER" else small)
    else:
        given = attributes.get("pads", [0] * (2 * spatial))
        begin, end = list(given[:spatial]), list(given[spatial:])
    if begin == end:
        return x, begin
    flat = [p for pair in zip(reversed(begin), reversed(end), strict=True) for p in pair]
    return functional.pad(x, flat, value=value), [0] * spatial


def _conv(i: Inputs, a: Attributes) -> Tensor:
    weight = i[1]
    x, padding = _pads(i[0], a, weight.shape[2:], 0.0)
    run = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[weight.ndim - 2]
    spatial = weight.ndim - 2
    return run(x, weight, i[2] if len(i) > 2 else None, stride=a.get("strides", [1] * spatial), padding=padding,
               dilation=a.get("dilations", [1] * spatial), groups=a.get("group", 1))  # fmt: skip


def _pool(i: Inputs, a: Attributes, average: bool) -> Tensor:
    kernel = list(a["kernel_shape"])
    if len(kernel) != 2:
        raise Unsupported("pooling over other than two axes")
    strides = a.get("strides", [1] * len(kernel))
    ceil = bool(a.get("ceil_mode", 0))
    if not average:
        x, padding = _pads(i[0], a, kernel, float("-inf"))
        return functional.max_pool2d(x, kernel, strides, padding, a.get("dilations", 1), ceil)
    if any(d != 1 for d in a.get("dilations", [1])):
        raise Unsupported("AveragePool with dilations")
    x, padding = _pads(i[0], a, kernel, 0.0)
    counted = bool(a.get("count_include_pad", 0))
    if x is not i[0] and not counted:
        raise Unsupported("AveragePool with uneven padding that does not count")
    return functional.avg_pool2d(x, kernel, strides, padding, ceil, counted)


def _gemm(i: Inputs, a: Attributes) -> Tensor:
    left = i[0].T if a.get("transA", 0) else i[0]
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    bias = i[2] if len(i) > 2 else None
    if alpha == 1 and beta == 1 and a.get("transB", 0) and (bias is None or bias.ndim == 1):
        return functional.linear(left, i[1], bias)
    product = left @ (i[1].T if a.get("transB", 0) else i[1])
    product = product if alpha == 1 else alpha * product
    return product if bias is None else product + (bias if beta == 1 else beta * bias)


def _batch_norm(i: Inputs, a: Attributes) -> Tensor:
    if a.get("training_mode", 0):
        raise Unsupported("BatchNormalization in training mode")
    x, weight, bias, mean, var = i
    return functional.batch_norm(x, mean, var, weight, bias, training=False, eps=a.get("epsilon", 1e-5))


def _reshape(i: Inputs, a: Attributes) -> Tensor:
    if a.get("allowzero", 0):
        raise Unsupported("Reshape with allowzero")
    shape = [i[0].shape[k] if d == 0 else d for k, d in enumerate(i[1].tolist())]
    return i[0].reshape(shape)


def _flatten(i: Inputs, a: Attributes) -> Tensor:
    axis = a.get("axis", 1) % (i[0].ndim + 1)
    return i[0].flatten(1) if axis == 1 else i[0].reshape(_size(i[0].shape[:axis]), -1)


def _size(shape: Sequence[int]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def _axes(i: Inputs, a: Attributes) -> list[int] | None:
    if len(i) > 1 and i[1] is not None:
        return list(i[1].tolist())
    return list(a["axes"]) if "axes" in a else None


def _squeeze(i: Inputs, a: Attributes) -> Tensor:
    axes = _axes(i, a)
    x: Tensor = i[0]
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def _unsqueeze(i: Inputs, a: Attributes) -> Tensor:
    axes = _axes(i, a) or []
    x: Tensor = i[0]
    for axis in sorted(k % (x.ndim + len(axes)) for k in axes):
        x = x.unsqueeze(axis)
    return x


def _clip(i: Inputs, a: Attributes) -> Tensor:
    low = i[1] if len(i) > 1 else a.get("min")
    high = i[2] if len(i) > 2 else a.get("max")
    return torch.clamp(i[0], low, high)


def _pad(i: Inputs, a: Attributes) -> Tensor:
    mode = a.get("mode", "constant")
    if len(i) > 3 and i[3] is not None:
        raise Unsupported("Pad of chosen axes")
    pads = list(i[1].tolist()) if len(i) > 1 else list(a["pads"])
    n = len(pads) // 2
    flat = [p for axis in reversed(range(n)) for p in (pads[axis], pads[axis + n])]
    if mode != "constant":
        if any(flat[-4:]):
            raise Unsupported(f"Pad of batch or channels with mode {mode}")
        return functional.pad(i[0], flat[:-4], mode="replicate" if mode == "edge" else mode)
    value = i[2].item() if len(i) > 2 and i[2] is not None else a.get("value", 0.0)
    return functional.pad(i[0], flat, value=value)


def _slice(i: Inputs, a: Attributes) -> Tensor:
    starts, ends = (i[1].tolist(), i[2].tolist()) if len(i) > 1 else (list(a["starts"]), list(a["ends"]))
    axes = i[3].tolist() if len(i) > 3 and i[3] is not None else list(a.get("axes", range(len(starts))))
    steps = i[4].tolist() if len(i) > 4 and i[4] is not None else [1] * len(starts)
    if any(s < 1 for s in steps):
        raise Unsupported("Slice backwards")
    x: Tensor = i[0]
    index: list[slice] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def _gather(i: Inputs, a: Attributes) -> Tensor:
    x, index = i[0], i[1]
    axis = a.get("axis", 0) % x.ndim
    index = torch.where(index < 0, index + x.shape[axis], index)
    taken: Tensor = x.index_select(axis, index.reshape(-1))
    return taken.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def _softmax(i: Inputs, a: Attributes, log: bool = False) -> Tensor:
    opset = a["opset"]
    run = functional.log_softmax if log else functional.softmax
    if opset >= 13:
        return run(i[0], dim=a.get("axis", -1))
    axis = a.get("axis", 1) % i[0].ndim
    flat = i[0].reshape(_size(i[0].shape[:axis]), -1)
    return run(flat, dim=1).reshape(i[0].shape)


def _reduce(run: Callable[..., Tensor]) -> Operator:
    def reduce(i: Inputs, a: Attributes) -> Tensor:
        axes = _axes(i, a)
        keep = bool(a.get("keepdims", 1))
        if axes is None and a.get("noop_with_empty_axes", 0):
            return i[0]
        return run(i[0], dim=tuple(range(i[0].ndim)) if axes is None else tuple(axes), keepdim=keep)

    return reduce


def _cast(i: Inputs, a: Attributes) -> Tensor:
    kinds = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 11: torch.float64}
    if a["to"] not in kinds:
        raise Unsupported(f"Cast to type {a['to']}")
    return i[0].to(kinds[a["to"]])


def _fold(run: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    def fold(i: Inputs, a: Attributes) -> Tensor:  # noqa: ARG001
        result: Tensor = i[0]
        for x in i[1:]:
            result = run(result, x)
        return result

    return fold


def _divide(x: Tensor, y: Tensor) -> Tensor:
    if not x.is_floating_point():
        return torch.div(x, y, rounding_mode="trunc")
    return x / y


def _unary(run: Callable[[Tensor], Tensor]) -> Operator:
    return lambda i, a: run(i[0])  # noqa: ARG005


def _hard_sigmoid(i: Inputs, a: Attributes) -> Tensor:
    return (i[0] * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0, 1)


OPERATORS: Mapping[str, Operator] = {
    "Abs": _unary(torch.abs),
    "Add": _fold(torch.add),
    "AveragePool": lambda i, a: _pool(i, a, True),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": lambda i, a: torch.cat(list(i), dim=a["axis"]),
    "Conv": _conv,
    "Div": _fold(_divide),
    "Dropout": _unary(lambda x: x),
    "Elu": lambda i, a: functional.elu(i[0], a.get("alpha", 1.0)),
    "Exp": _unary(torch.exp),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": _unary(lambda x: x.mean(dim=tuple(range(2, x.ndim)), keepdim=True)),
    "GlobalMaxPool": _unary(lambda x: x.amax(dim=tuple(range(2, x.ndim)), keepdim=True)),
    "HardSigmoid": _hard_sigmoid,
    "Identity": _unary(lambda x: x),
    "LeakyRelu": lambda i, a: functional.leaky_relu(i[0], a.get("alpha", 0.01)),
    "Log": _unary(torch.log),
    "LogSoftmax": lambda i, a: _softmax(i, a, log=True),
    "MatMul": _fold(torch.matmul),
    "Max": _fold(torch.maximum),
    "MaxPool": lambda i, a: _pool(i, a, False),
    "Min": _fold(torch.minimum),
    "Mul": _fold(torch.mul),
    "Neg": _unary(torch.neg),
    "Pad": _pad,
    "Pow": _fold(torch.pow),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "Relu": _unary(functional.relu),
    "Reshape": _reshape,
    "Shape": _unary(lambda x: torch.tensor(x.shape)),
    "Sigmoid": _unary(torch.sigmoid),
    "Slice": _slice,
    "Softmax": _softmax,
    "Softplus": _unary(functional.softplus),
    "Sqrt": _unary(torch.sqrt),
    "Squeeze": _squeeze,
    "Sub": _fold(torch.sub),
    "Sum": _fold(torch.add),
    "Tanh": _unary(torch.tanh),
    "Transpose": lambda i, a: i[0].permute(a.get("perm", list(reversed(range(i[0].ndim))))),
    "Unsqueeze": _unsqueeze,
}
"""Operator of the default ONNX domain -> its conversion (listed in docs/models.md)."""
