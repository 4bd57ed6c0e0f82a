"""The network that Marabou reads: exported operation by operation, and held to those that it was tested on."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

from tmlang.backends.contract import BackendRefusal

SMOOTH = frozenset({"Sigmoid", "Tanh"})
"""On these Marabou 2.0.0 answered unsat where published counterexamples replay (VNN-COMP dist_shift)."""
TESTED = SMOOTH | {
    "Gemm", "MatMul", "Conv", "BatchNormalization", "MaxPool", "Relu", "LeakyRelu", "Flatten", "Reshape", "Transpose",
    "Add", "Mul", "Concat", "Constant", "Identity", "Squeeze", "Unsqueeze",
}  # fmt: skip
"""Operations that its reader takes for what they are, within the limits of :func:`_reason`."""


def export(body: nn.Module, sample: torch.Tensor, path: Path) -> frozenset[str]:
    """Write ``body`` (float64, inputs like ``sample`` (1, *shape)) to ``path``; gives the operations in it.

    Raises :class:`BackendRefusal` for what cannot be exported or is not trusted.
    """
    held = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # The TorchScript exporter: the newer one writes a second file.
            torch.onnx.export(
                body,
                (sample,),
                held,  # type: ignore[arg-type]
                dynamo=False,
                input_names=["x"],
                output_names=["y"],
            )
        except Exception as failure:
            raise BackendRefusal(f"the network cannot be written as ONNX: {failure}") from failure
    graph = onnx.load_from_string(held.getvalue()).graph
    if strange := sorted({n.op_type for n in graph.node} - TESTED):
        raise BackendRefusal(f"answers of Marabou on {', '.join(strange)} are not trusted")
    constants = {c.name: list(c.dims) for c in graph.initializer}
    used = [name for node in graph.node for name in node.input]
    for node in graph.node:
        for why in _reasons(node, constants, used):
            raise BackendRefusal(f"answers of Marabou on this {node.op_type} are not trusted: {why}")
    path.write_bytes(held.getvalue())
    return frozenset(n.op_type for n in graph.node)


def _reasons(node: Any, constants: dict[str, list[int]], used: list[str]) -> Iterator[str]:
    """The forms of an operation that its reader was found wrong on, or refuses."""
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type in ("Add", "Concat") and len(set(node.input)) < len(node.input):
        yield "one tensor is taken twice"
    if node.op_type == "Add" and any(i in constants for i in node.input):
        other = [i for i in node.input if i not in constants]
        if any(used.count(i) > 1 for i in other):
            yield "a constant is added to what is used again"
    if node.op_type == "Mul" and not any(_is_scalar(constants.get(i)) for i in node.input):
        yield "the factor is no single number"
    if node.op_type == "Conv":
        pads = list(given.get("pads", [0] * 4))
        if given.get("group", 1) != 1 or set(given.get("dilations", [1])) != {1}:
            yield "it is grouped or dilated"
        if pads[: len(pads) // 2] != pads[len(pads) // 2 :]:
            yield "its padding is not symmetric"
    if node.op_type == "MaxPool" and (any(given.get("pads", [0])) or given.get("ceil_mode", 0)):
        yield "its windows are padded"


def _is_scalar(dims: list[int] | None) -> bool:
    return dims is not None and all(d == 1 for d in dims)
