"""A network of vectors as the plain chain that it is: matrices and ReLUs, whatever operations it was written in.

Verifiers do better on it, and one that does not know an operation (a subtraction of zeros, a ``MatMul`` beside an
``Add``) may know the chain. What is between two ReLUs is taken apart by running it on unit vectors; the chain is
compared with the network before it is given out.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

Tensor = torch.Tensor

AFFINE = {"Gemm", "MatMul", "Add", "Sub", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity"}
WIDTH = 1024
"""Widest layer that is taken apart."""


def chained(body: nn.Module, x: Tensor) -> nn.Module:
    """``body`` (float64) on inputs like ``x`` (n, size) as ``Linear, ReLU, …, Linear``, or ``body`` itself where it is
    no such chain."""
    if x.ndim != 2 or x.shape[1] > WIDTH:
        return body
    try:
        layers = _layers(body, x)
    except Exception:  # whatever the exporter or the interpreter does not know is no chain
        return body
    if layers is None:
        return body
    chain = nn.Sequential(*layers).eval().requires_grad_(False)
    points = torch.cat([x, torch.randn(8, x.shape[1], dtype=torch.float64) * (1 + x.abs().amax())])
    expected = torch.cat([body(point[None]) for point in points])
    close = (chain(points) - expected).abs() <= 1e-9 * (1 + expected.abs().amax())
    return chain if bool(close.all()) else body


def _layers(body: nn.Module, x: Tensor) -> list[nn.Module] | None:
    held: Any = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(body, (x[:1],), held, dynamo=False, input_names=["x"], output_names=["y"])
    model = onnx.load_from_string(held.getvalue())
    graph = model.graph
    fixed = {c.name for c in graph.initializer} | {n.output[0] for n in graph.node if n.op_type == "Constant"}
    layers: list[nn.Module] = []
    segment: list[Any] = []
    at, width = "x", x.shape[1]
    for node in (n for n in graph.node if n.op_type != "Constant"):
        readers = [n for n in graph.node if at in n.input]
        if len(readers) != 1 or list(node.input).count(at) != 1 or set(node.input) - {at} - fixed:
            return None
        if node.op_type == "Relu":
            linear = _linear(model, segment, at, width)
            layers += [linear, nn.ReLU()]
            segment, width = [], linear.out_features
        elif node.op_type in AFFINE:
            segment.append(node)
        else:
            return None
        at = node.output[0]
    return [*layers, _linear(model, segment, at, width)] if at == "y" else None


def _linear(model: Any, segment: list[Any], end: str, width: int) -> nn.Linear:
    """What ``segment`` makes of vectors of ``width``, as one matrix and bias."""
    graph = model.graph
    if not segment:
        raise ValueError("two activations in a row")
    shapes = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.value_info}
    start = next(i for i in segment[0].input if i in shapes or i == "x")
    given = graph.input[0] if start == "x" else shapes[start]
    dims = [d.dim_value for d in given.type.tensor_type.shape.dim]
    constants = [n for n in graph.node if n.op_type == "Constant"]
    out = onnx.helper.make_tensor_value_info(end, onnx.TensorProto.DOUBLE, None)
    part = onnx.helper.make_graph([*constants, *segment], "part", [given], [out], list(graph.initializer))
    run: Any = ReferenceEvaluator(onnx.helper.make_model(part, opset_imports=model.opset_import))
    rows = [run.run(None, {start: v.reshape(dims)})[0].reshape(-1) for v in (np.zeros(width), *np.eye(width))]
    layer = nn.Linear(width, len(rows[0]), dtype=torch.float64)
    matrix = np.stack(rows[1:]) - rows[0]
    layer.load_state_dict({"weight": torch.from_numpy(matrix.T.copy()), "bias": torch.from_numpy(rows[0].copy())})
    return layer
