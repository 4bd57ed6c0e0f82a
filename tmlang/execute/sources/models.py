"""Networks: a Python factory with safetensors weights, TorchScript, torch.export, ONNX, or numbers in the spec.

What is a program (Python, TorchScript, an exported program, whose loaders evaluate what the file says) is opened only
with consent; ONNX is converted operator by operator and needs none. Nothing is unpickled: weights come as safetensors,
or by torch's ``weights_only`` loader.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import math
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tmlang.backends.deployed import build_steps, external_layout
from tmlang.diagnostics.stop import Stop, stop
from tmlang.execute.sources.files import Files, file_hash
from tmlang.meaning.models import Model, Network
from tmlang.meaning.spaces import Space
from tmlang.meaning.values import Artifact, Distance, Quantity, Symbol, Value


@dataclass(frozen=True)
class LoadedNetwork:
    """A network in evaluation mode, without parameter gradients. ``facts`` go into the bundle: kind, code files and
    their hashes, converted operators."""

    module: nn.Module
    facts: Mapping[str, Any] = field(default_factory=dict)


def load_network(network: Network, model: Model, space: Space, files: Files, *, trust_code: bool) -> LoadedNetwork:
    """A network of ``model``. Raises :class:`~tmlang.diagnostics.stop.Stop` with a TM7 diagnostic."""
    if network.kind == "linear":
        loaded = _linear(network, model, space, _received(model, space, files))
    elif network.kind == "onnx":
        from tmlang.execute.sources.onnx_graph import load_onnx

        assert network.source is not None
        loaded = LoadedNetwork(*load_onnx(network.source, files, _received(model, space, files)))
    elif network.kind == "torch":
        loaded = _factory(network, files, trust_code)
    elif network.kind in ("torchscript", "exported"):
        loaded = _program(network, files, trust_code)
    elif network.kind == "sklearn":
        raise _pickled(network)
    else:
        raise stop(
            "TM726",
            "a remote model cannot be run from here",
            model.origin,
            help="run the attack against a local copy, and bring its candidates with native.replay",
        )
    loaded.module.eval()
    for parameter in loaded.module.parameters():
        parameter.requires_grad_(False)
    return loaded


def _received(model: Model, space: Space, files: Files) -> tuple[int, ...]:
    """The shape of an input behind the steps of the model."""
    _, layout = build_steps(model.steps, external_layout(space, model.steps), space, files.read)
    return layout.shape


def _pickled(network: Network) -> Stop:
    assert network.source is not None
    return stop(
        "TM714",
        f'"{network.source.path}" would have to be unpickled',
        network.source.origin,
        notes=("scikit-learn stores models as pickles, and opening a pickle runs what it says",),
        help="export the model to ONNX (skl2onnx) and write network: onnx(…), or write linear(…)",
    )


def _consent(network: Network, what: str, artifact: Artifact, trust_code: bool) -> None:
    if not trust_code:
        raise stop(
            "TM713",
            f'"{artifact.path}" is {what}, and code is run only with consent',
            artifact.origin,
            notes=(f"network: {network.kind}(…) can do on this machine whatever you can",),
            help="read it, then run again with --trust-code; an ONNX file needs no consent",
        )


# --- numbers in the spec ------------------------------------------------------------------------------------------


class Linear(nn.Module):
    """``linear(weights, bias)`` on the flattened input: one row of weights per output."""

    def __init__(self, weights: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weights)
        self.register_buffer("bias", bias)
        self.weight: torch.Tensor
        self.bias: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x.flatten(1), self.weight, self.bias)


def _linear(network: Network, model: Model, space: Space, shape: tuple[int, ...]) -> LoadedNetwork:
    size = math.prod(shape)
    args: dict[str, Any] = dict(network.args)
    rows = args["weights"] if isinstance(args["weights"][0], tuple) else (args["weights"],)
    bias = args["bias"] if isinstance(args["bias"], tuple) else (args["bias"],) * len(rows)
    if wrong := [row for row in rows if len(row) != size]:
        received = f"the network receives {size} numbers" + (" behind its steps" if model.steps else "")
        raise stop("TM718", f"a row of weights has {len(wrong[0])} numbers, and {received}", model.origin)
    if len(bias) != len(rows):
        raise stop("TM718", f"the rows of weights are {len(rows)}, and the biases {len(bias)}", model.origin)
    dtype = torch.float64 if space.dtype == "float64" else torch.float32

    def tensor(values: Any) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64).to(dtype)

    weights = tensor([[float(Fraction(v)) for v in row] for row in rows])
    return LoadedNetwork(Linear(weights, tensor([float(Fraction(v)) for v in bias])), {"kind": "linear"})


# --- a Python factory ---------------------------------------------------------------------------------------------


def _factory(network: Network, files: Files, trust_code: bool) -> LoadedNetwork:
    assert network.source is not None
    _consent(network, "Python code", network.source, trust_code)
    place = files.verify(network.source)
    state = None if network.weights is None else load_weights(network.weights, files)
    before = set(sys.modules)
    try:
        module = _call_factory(network, place)
    except Stop:
        raise
    except Exception as e:
        raise stop(
            "TM719",
            f"{network.source.path}:{network.symbol} failed: {type(e).__name__}: {e}",
            network.source.origin,
            help="the factory takes the arguments that the spec names, and gives a torch.nn.Module",
        ) from e
    if state is not None:
        assert network.weights is not None
        _fit(module, state, network.weights)
    code = _code_hashes(files.root, set(sys.modules) - before) | {network.source.path: file_hash(place)}
    return LoadedNetwork(module, {"kind": "torch", "factory": network.symbol, "code": dict(sorted(code.items()))})


def _call_factory(network: Network, place: Path) -> nn.Module:
    """Import the file under a name of its own, its folder on the path for its own imports, and call the factory."""
    assert network.source is not None
    name = f"tmlang_factory_{hashlib.sha256(str(place).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    imported = importlib.util.module_from_spec(spec)
    sys.modules[name] = imported
    sys.path.insert(0, str(place.parent))
    try:
        spec.loader.exec_module(imported)
        factory = getattr(imported, network.symbol or "", None)
        if factory is None:
            offered = ", ".join(sorted(k for k, v in vars(imported).items() if callable(v) and not k.startswith("_")))
            raise stop(
                "TM719",
                f'"{network.source.path}" has no `{network.symbol}`',
                network.source.origin,
                notes=(f"it has {offered or 'nothing that can be called'}",),
            )
        made = factory(**{name: _plain(value) for name, value in network.args})
    finally:
        sys.path.remove(str(place.parent))
    if not isinstance(made, nn.Module):
        given = f"{network.source.path}:{network.symbol} gave a {type(made).__name__}"
        raise stop("TM719", f"{given}, not a torch.nn.Module", network.source.origin)
    return made


def _plain(value: Value) -> Any:
    """An argument of the spec as Python code would write it."""
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, (Quantity, Distance)):
        value = value.value
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


def _code_hashes(root: Path, names: set[str]) -> dict[str, str]:
    """Hashes of the modules among ``names`` whose source lies below ``root``."""
    found = {}
    for name in names:
        source = getattr(sys.modules.get(name), "__file__", None)
        if source and Path(source).resolve().is_relative_to(root):
            found[Path(source).resolve().relative_to(root).as_posix()] = file_hash(Path(source))
    return found


# --- weights ------------------------------------------------------------------------------------------------------


def load_weights(artifact: Artifact, files: Files) -> dict[str, torch.Tensor]:
    """A state dict from safetensors, or from a torch file by the ``weights_only`` loader. Raises TM712 or TM714."""
    data = files.read(artifact)
    if artifact.path.endswith(".safetensors"):
        check_safetensors_header(data, artifact)
        from safetensors.torch import load

        try:
            return dict(load(data))
        except Exception as e:
            raise stop("TM712", f'"{artifact.path}" is no safetensors file: {e}', artifact.origin) from e
    try:
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as e:
        raise stop(
            "TM714",
            f'"{artifact.path}" holds more than tensors',
            artifact.origin,
            notes=("it is a pickle of something else, and opening a pickle runs what it says",),
            help="where it was made, store the weights with safetensors.torch.save_file(model.state_dict(), …)",
        ) from e
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise stop("TM712", f'"{artifact.path}" holds no state dict', artifact.origin)
    return dict(state)


def check_safetensors_header(data: bytes, artifact: Artifact) -> None:
    """Readers disagree on which of two equal names counts, so a header with one twice is refused (TM712)."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen = dict(pairs)
        if len(seen) != len(pairs):
            raise ValueError("a name stands twice in its header")
        return seen

    try:
        (length,) = struct.unpack("<Q", data[:8])
        if length > len(data) - 8:
            raise ValueError("its header is longer than the file")
        json.loads(data[8 : 8 + length], object_pairs_hook=once)
    except (ValueError, struct.error, RecursionError) as e:
        raise stop("TM712", f'"{artifact.path}" is no safetensors file: {e}', artifact.origin) from e


def _fit(module: nn.Module, state: dict[str, torch.Tensor], artifact: Artifact) -> None:
    wanted = module.state_dict()
    missing = [n for n in wanted if n not in state]
    extra = [n for n in state if n not in wanted]
    other = [n for n in wanted if n in state and wanted[n].shape != state[n].shape]
    notes = []
    for text, names in (("the network needs", missing), ("the file also has", extra)):
        if names:
            notes.append(f"{text} {', '.join(names[:6])}{' …' if len(names) > 6 else ''}")
    notes += [f"{n}: the network has {tuple(wanted[n].shape)}, the file {tuple(state[n].shape)}" for n in other[:6]]
    if bad := [n for n in state if state[n].is_floating_point() and not bool(state[n].isfinite().all())]:
        notes.append(f"not finite: {', '.join(bad[:6])}")
    if notes:
        raise stop(
            "TM715", f'the weights of "{artifact.path}" do not fit the network', artifact.origin, notes=tuple(notes)
        )
    module.load_state_dict(state)


# --- programs of torch --------------------------------------------------------------------------------------------


def _program(network: Network, files: Files, trust_code: bool) -> LoadedNetwork:
    assert network.source is not None
    _consent(network, "a program", network.source, trust_code)
    data = files.read(network.source)
    try:
        if network.kind == "torchscript":
            module: nn.Module = torch.jit.load(io.BytesIO(data), map_location="cpu")  # type: ignore[no-untyped-call]
        else:
            module = torch.export.load(io.BytesIO(data)).module()
    except Exception as e:
        kind = "TorchScript" if network.kind == "torchscript" else "torch.export"
        first = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise stop("TM712", f'"{network.source.path}" is no {kind} file: {first}', network.source.origin) from e
    if network.kind == "exported":
        # The exported graph has its mode written in: the flags say nothing, and these modules refuse to be told.
        for part in module.modules():
            part.training = False
        module.eval = lambda: module  # type: ignore[method-assign]
        module.train = lambda mode=True: module  # type: ignore[method-assign]  # noqa: ARG005
    return LoadedNetwork(module, {"kind": network.kind})
