"""The network that Marabou reads: exported operation by operation, and held to those that it was tested on."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

from tmlang.backends.contract import BackendRefusal

SMOOTH = frozenset({"Sigmoid", "Tanh"})
"""On these Marabou 2.0.0 answered unsat where published counterexamples replay (VNN-COMP dist_shift)."""
TESTED = SMOOTH | {
    "Gemm", "MatMul", "Conv", "BatchNormalization", "MaxPool", "Relu", "LeakyRelu", "Flatten", "Reshape", "Transpose",
    "Add", "Mul", "Concat", "Constant", "Identity", "Squeeze", "Unsqueeze",
}  # fmt: skip
"""Operations that its reader takes for what they are, within the limits of :func:`_reason`."""


def export(body: nn.Module, sample: torch.Tensor, path: Path) -> tuple[frozenset[str], torch.Tensor]:
    """Write ``body`` (float64, inputs like ``sample`` (1, *shape)) for inputs divided by a scale to ``path``. Gives the
    operations in it and the scale (size,), powers of two.

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
    model = onnx.load_from_string(held.getvalue())
    graph = model.graph
    _add_negated(graph)
    if strange := sorted({n.op_type for n in graph.node} - TESTED):
        raise BackendRefusal(f"answers of Marabou on {', '.join(strange)} are not trusted")
    constants = {c.name: list(c.dims) for c in graph.initializer}
    used = [name for node in graph.node for name in node.input]
    for node in graph.node:
        for why in _reasons(node, constants, used):
            raise BackendRefusal(f"answers of Marabou on this {node.op_type} are not trusted: {why}")
    scale = _merge_front(model)
    path.write_bytes(model.SerializeToString())
    return frozenset(n.op_type for n in graph.node), torch.ones(sample.numel()) if scale is None else scale


def _add_negated(graph: Any) -> None:
    """``x - c`` with a constant ``c`` becomes ``x + (-c)``: the reader takes some of the former for ``x + c``."""
    constants = {c.name: c for c in graph.initializer}
    for node in graph.node:
        if node.op_type == "Sub" and node.input[1] in constants and node.input[0] not in constants:
            value = onnx.numpy_helper.to_array(constants[node.input[1]])
            negated = onnx.numpy_helper.from_array(-value, name=f"{node.output[0]}.negated")
            graph.initializer.append(negated)
            node.op_type, node.input[1] = "Add", negated.name


_AFFINE = {"Gemm", "MatMul", "Add", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity"}


def _merge_front(model: Any) -> torch.Tensor | None:
    """Make one ``Gemm`` of the affine operations that a vector (1, size) goes through first, in units in which every
    coordinate moves the first layer alike. The units, or ``None`` where there is no such front.

    The solver splits the widest interval of the input, so widths must mean something; and with a layer of equations
    between inputs and first ReLUs, or with widths that are all alike, ACAS Xu 1,1 property 1 took more than twenty
    times as long.
    """
    graph = model.graph
    name, dims = graph.input[0].name, [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    front, at = _front(graph)
    if len(dims) != 2 or not front:
        return None
    constants = [n for n in graph.node if n.op_type == "Constant"]
    ends = [onnx.helper.make_tensor_value_info(at, onnx.TensorProto.DOUBLE, None)]
    part = onnx.helper.make_graph([*constants, *front], "front", list(graph.input), ends, list(graph.initializer))
    run: Any = ReferenceEvaluator(onnx.helper.make_model(part, opset_imports=model.opset_import))
    rows = [run.run(None, {name: x[None]})[0] for x in (np.zeros(dims[1]), *np.eye(dims[1]))]
    if any(row.ndim != 2 for row in rows):
        return None
    matrix = np.concatenate(rows[1:]) - rows[0]
    reach = np.linalg.norm(matrix, axis=1)
    scale = np.exp2(-np.round(np.log2(np.where(reach > 0, reach, 1))))
    graph.initializer.append(onnx.numpy_helper.from_array(scale[:, None] * matrix, "front.matrix"))
    graph.initializer.append(onnx.numpy_helper.from_array(rows[0][0], "front.bias"))
    merged = onnx.helper.make_node("Gemm", [name, "front.matrix", "front.bias"], [at])
    kept = [n for n in graph.node if n not in front]
    del graph.node[:]
    graph.node.extend([merged, *kept])
    return torch.from_numpy(scale)


def _front(graph: Any) -> tuple[list[Any], str]:
    """The chain of affine operations behind the input, and the name of what comes out of it."""
    fixed = {c.name for c in graph.initializer} | {n.output[0] for n in graph.node if n.op_type == "Constant"}
    front, at = [], graph.input[0].name
    while len(readers := [n for n in graph.node if at in n.input]) == 1 and readers[0].op_type in _AFFINE:
        if set(readers[0].input) - {at} - fixed or list(readers[0].input).count(at) > 1:
            break
        front.append(readers[0])
        at = readers[0].output[0]
    return front, at


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
