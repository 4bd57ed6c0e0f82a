"""ONNX graphs as torch modules with gradients, checked against onnxruntime before they are believed.

The file is parsed as data. Side files with weights are taken only from the model's own folder, as plain files, and the
graph is opened from a fresh copy (onnxruntime and onnx have followed links out of the folder).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

from tmlang.diagnostics.stop import Stop, stop
from tmlang.execute.sources.files import Files
from tmlang.execute.sources.onnx_operators import OPERATORS, Unsupported
from tmlang.meaning.values import Artifact

POINTS = 8
"""Random inputs on which the conversion must agree with onnxruntime."""
TOLERANCE = 1e-4
"""Greatest difference, relative to the greatest output (at least 1), that counts as float rounding."""


def load_onnx(artifact: Artifact, files: Files, shape: tuple[int, ...]) -> tuple[nn.Module, Mapping[str, Any]]:
    """The graph of ``artifact`` for inputs (n, *shape), and facts for the bundle.

    Raises :class:`Stop`: TM712 (no ONNX file), TM703 (side files elsewhere), TM716 (not converted), TM717 (disagrees).
    """
    graph_bytes = files.read(artifact)
    with tempfile.TemporaryDirectory(prefix="tmlang-onnx-") as folder:
        model, side_files = _open(graph_bytes, artifact, files, Path(folder))
        try:
            module = Graph(model)
        except Unsupported as e:
            raise _unsupported(artifact, str(e)) from e
        worst = _compare(module, Path(folder) / "model.onnx", artifact, shape)
    operators = sorted({n.op_type for n in model.graph.node})
    return module, {
        "kind": "onnx",
        "opset": module.opset,
        "operators": operators,
        "external_data": side_files,
        "greatest_difference_to_onnxruntime": worst,
    }


def _unsupported(artifact: Artifact, what: str) -> Stop:
    return stop(
        "TM716",
        f'"{artifact.path}" uses {what}',
        artifact.origin,
        notes=(f"converted are {', '.join(OPERATORS)}",),
        help="export the network without it, or give it as torch(…) with --trust-code",
    )


def _open(data: bytes, artifact: Artifact, files: Files, folder: Path) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Parse the graph in a fresh folder with its side files copied in; the hashes of these."""
    copy = folder / "model.onnx"
    copy.write_bytes(data)
    try:
        model = onnx.load(str(copy), load_external_data=False)
        side = {}
        for name in _external_names(model):
            side[name] = _copy_side_file(name, artifact, files, folder)
        if side:
            model = onnx.load(str(copy))
        onnx.checker.check_model(str(copy))
    except Stop:
        raise
    except Exception as e:
        first = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise stop("TM712", f'"{artifact.path}" is no ONNX graph: {first}', artifact.origin) from e
    return model, side


def _external_names(model: onnx.ModelProto) -> list[str]:
    """Names of side files that the graph's tensors point to, wherever a tensor may stand."""
    tensors = list(model.graph.initializer)
    for node in model.graph.node:
        for attribute in node.attribute:
            tensors += [attribute.t] if attribute.HasField("t") else list(attribute.tensors)
    names = [
        entry.value
        for tensor in tensors
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    return list(dict.fromkeys(names))


def _copy_side_file(name: str, artifact: Artifact, files: Files, folder: Path) -> str:
    home = files.path(artifact).parent
    source = home / name
    plain = "/" not in name and "\\" not in name and name not in ("", ".", "..")
    if not plain or source.is_symlink() or (source.exists() and source.stat().st_nlink > 1):
        raise stop(
            "TM703",
            f'"{artifact.path}" keeps weights in "{name}", which is not a plain file beside it',
            artifact.origin,
            help="save the graph with its weights inside (onnx.save without external data)",
        )
    relative = source.relative_to(files.root).as_posix()
    files.verify(Artifact(relative, None, artifact.origin))
    shutil.copyfile(source, folder / name)
    return files.hashes[relative]


class Graph(nn.Module):
    """An ONNX graph, run node by node in its own order; constants are buffers, shapes and axes plain tensors.

    Inputs (n, …) are brought to the declared input shape with n rows. A graph that was exported for one row writes a 1
    where the batch stands in its ``Reshape`` s; those are read as "as many rows as there are".
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        graph = model.graph
        self.opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
        self.constants: dict[str, torch.Tensor | str] = {}
        for tensor in graph.initializer:
            self._add(tensor.name, tensor)
        given = [i for i in graph.input if i.name not in self.constants]
        if len(given) != 1 or len(graph.output) < 1:
            raise Unsupported(f"{len(given)} inputs ({', '.join(i.name for i in given)}) where one is needed")
        self.input = given[0].name
        self.outputs = [o.name for o in graph.output]
        dims = given[0].type.tensor_type.shape.dim
        self.declared = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in dims)
        self.reshapes = False
        self.nodes = [self._node(n) for n in graph.node if not self._constant(n)]
        if len(self.declared) < 2:
            raise Unsupported("an input without an axis for the rows of a batch")
        if self.declared[0] > 1:
            raise Unsupported(f"a batch fixed to {self.declared[0]} rows")
        if self.declared[0] == 1:
            self._free_the_batch()

    def _add(self, name: str, tensor: onnx.TensorProto) -> None:
        value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
        if value.is_floating_point():
            buffer = f"constant_{len(self.constants)}"
            self.register_buffer(buffer, value)
            self.constants[name] = buffer
        else:
            self.constants[name] = value

    def _constant(self, node: onnx.NodeProto) -> bool:
        if node.op_type != "Constant":
            return False
        (attribute,) = node.attribute
        value = onnx.helper.get_attribute_value(attribute)
        tensor = value if attribute.name == "value" else numpy_helper.from_array(np.array(value))
        if isinstance(tensor, onnx.TensorProto) and attribute.name in ("value", "value_ints", "value_int"):
            self._add(node.output[0], tensor)
            return True
        if attribute.name in ("value_float", "value_floats"):
            self._add(node.output[0], numpy_helper.from_array(np.array(value, dtype=np.float32)))
            return True
        raise Unsupported(f"Constant with {attribute.name}")

    def _node(self, node: onnx.NodeProto) -> tuple[str, list[str], str, dict[str, Any]]:
        if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
            raise Unsupported(f"the operator {node.domain + '.' if node.domain else ''}{node.op_type}")
        if any(name for name in node.output[1:]) and node.op_type not in ("Dropout", "BatchNormalization"):
            raise Unsupported(f"a second output of {node.op_type}")
        attributes: dict[str, Any] = {"opset": self.opset}
        for attribute in node.attribute:
            value = onnx.helper.get_attribute_value(attribute)
            attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value
        return node.op_type, list(node.input), node.output[0], attributes

    def _free_the_batch(self) -> None:
        for kind, inputs, _, _ in self.nodes:
            shape = self.constants.get(inputs[1]) if kind == "Reshape" else None
            if isinstance(shape, torch.Tensor) and shape.ndim == 1 and len(shape) > 1 and shape[0] == 1:
                freed = shape.clone()
                freed[0] = 0
                self.constants[inputs[1]] = freed

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        if self.reshapes:
            x = x.reshape(-1, *self.declared[1:])
        values: dict[str, Any] = {
            name: getattr(self, value) if isinstance(value, str) else value for name, value in self.constants.items()
        }
        values[self.input] = x
        for kind, inputs, output, attributes in self.nodes:
            values[output] = OPERATORS[kind]([values[i] if i else None for i in inputs], attributes)
        results = tuple(v.flatten(1) if v.ndim > 2 else v for v in (values[name] for name in self.outputs))
        return results if len(results) > 1 else results[0]


def _points(shape: Sequence[int]) -> np.ndarray:
    """Half of them uniform in [0, 1], half standard normal: (POINTS, *shape) float32, always the same."""
    draw = np.random.Generator(np.random.PCG64(0))
    half = POINTS // 2
    return np.concatenate([draw.random((half, *shape)), draw.standard_normal((half, *shape))]).astype(np.float32)


def _compare(module: Graph, copy: Path, artifact: Artifact, shape: tuple[int, ...]) -> float:
    """The greatest relative difference to onnxruntime over :data:`POINTS` inputs. Raises TM717 beyond rounding."""
    import onnxruntime

    declared = module.declared[1:]
    if any(d < 0 for d in declared):
        declared = shape
    if int(np.prod(declared)) != int(np.prod(shape)):
        raise stop(
            "TM718",
            f'"{artifact.path}" takes {_times(declared)} numbers and the space gives {_times(shape)}',
            artifact.origin,
        )
    module.declared = (module.declared[0], *declared)
    module.reshapes = declared != shape
    points = _points(shape)
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(copy), options, providers=["CPUExecutionProvider"])
        rows = [session.run(None, {module.input: p.reshape(1, *declared)}) for p in points]
        with torch.no_grad():
            mine = module(torch.from_numpy(points))
    except Unsupported as e:
        raise _unsupported(artifact, str(e)) from e
    except Exception as e:
        first = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise stop(
            "TM716", f'"{artifact.path}" cannot be run on {POINTS} trial inputs: {first}', artifact.origin
        ) from e
    theirs = np.stack([np.concatenate([np.asarray(o).reshape(-1) for o in row]) for row in rows])
    ours = (torch.cat(list(mine), dim=1) if isinstance(mine, tuple) else mine).numpy()
    return _agreement(ours, theirs, artifact)


def _agreement(ours: np.ndarray, theirs: np.ndarray, artifact: Artifact) -> float:
    if ours.shape == theirs.shape and np.isfinite(ours).all() and np.isfinite(theirs).all():
        worst = float(np.abs(ours - theirs).max() / max(1.0, float(np.abs(theirs).max())))
        if worst <= TOLERANCE:
            return worst
        found = f"they differ by up to {worst:.2g} of the greatest output; rounding explains {TOLERANCE:g}"
    else:
        found = f"the outputs have shapes {ours.shape} and {theirs.shape}, or are not finite"
    raise stop(
        "TM717",
        f'the conversion of "{artifact.path}" does not compute what onnxruntime computes',
        artifact.origin,
        notes=(f"on {POINTS} trial inputs {found}",),
        help="give the network as torch(…) with --trust-code, and report the graph",
    )


def _times(shape: Sequence[int]) -> str:
    return " x ".join(str(d) for d in shape) or "1"
