"""Networks from files: only what was named, nothing unpickled, no code without consent, ONNX as onnxruntime has it."""

from __future__ import annotations

import json
import os
import struct
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from backend_support import model, unit_box
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save, save_file
from torch import nn

from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.stop import Stop
from tmlang.execute.sources.files import Files, folder_hash
from tmlang.execute.sources.models import load_network
from tmlang.meaning.models import Network
from tmlang.meaning.values import Artifact, Symbol

F = Fraction

FACTORY = """
import torch
from torch import nn
from parts import width

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 3))

def number():
    return 3

def broken():
    raise RuntimeError("no such layer")
"""


def built() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).eval()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(FACTORY)
    (tmp_path / "parts.py").write_text("width = 5\n")
    save_file(built().state_dict(), tmp_path / "net.safetensors")
    return tmp_path


def torch_network(symbol: str = "net", weights: str = "net.safetensors", sha: str | None = None) -> Network:
    return Network("torch", Artifact("net.py"), symbol, Artifact(weights, sha))


def load(folder: Path, network: Network, shape: tuple[int, ...] = (1, 2, 2), trust: bool = True) -> Any:
    spec = model(3, network=network)
    return load_network(network, spec, unit_box(*shape), Files(folder), trust_code=trust)


def refused(folder: Path, network: Network, **more: Any) -> Diagnostic:
    with pytest.raises(Stop) as stopped:
        load(folder, network, **more)
    (found,) = stopped.value.diagnostics
    return found


def test_a_factory_needs_consent_and_gives_its_weights_and_hashes(folder: Path) -> None:
    assert refused(folder, torch_network(), trust=False).code == "TM713"
    loaded = load(folder, torch_network())
    x = torch.rand(6, 1, 2, 2)
    assert torch.equal(loaded.module(x), built()(x))
    assert not any(p.requires_grad for p in loaded.module.parameters())
    assert not any(m.training for m in loaded.module.modules())
    assert loaded.facts["code"] == {
        name: sha256((folder / name).read_bytes()).hexdigest() for name in ("net.py", "parts.py")
    }


def test_a_factory_gets_the_arguments_of_the_spec(folder: Path) -> None:
    (folder / "wide.py").write_text(
        "from torch import nn\n\ndef net(width, act, slope, sizes):\n"
        "    assert (width, act, slope, sizes) == (4, 'relu', 0.5, (1, 2)), (width, act, slope, sizes)\n"
        "    return nn.Linear(width, 3)\n"
    )
    args = (("width", F(4)), ("act", Symbol("relu")), ("slope", F(1, 2)), ("sizes", (F(1), F(2))))
    network = Network("torch", Artifact("wide.py"), "net", None, args)
    assert load(folder, network, shape=(4,)).module(torch.zeros(1, 4)).shape == (1, 3)


def test_another_file_than_the_named_one(folder: Path) -> None:
    found = refused(folder, torch_network(sha="0" * 64))
    assert found.code == "TM711"
    real = sha256((folder / "net.safetensors").read_bytes()).hexdigest()
    assert "0" * 64 in found.notes[0]
    assert real in found.notes[1]
    assert load(folder, torch_network(sha=real)).module is not None


def test_paths_stay_in_the_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "evil.py").write_text("raise SystemExit\n")
    (folder / "link.py").symlink_to(outside / "evil.py")
    for path in ("../evil.py", str(outside / "evil.py"), "link.py", "a/../../evil.py"):
        network = Network("torch", Artifact(path), "net", None)
        assert refused(folder, network).code == "TM703"
    assert refused(folder, Network("torch", Artifact("nte.py"), "net", None)).code == "TM710"


@pytest.mark.parametrize(
    ("symbol", "text"), [("missing", "net"), ("number", "int"), ("broken", "RuntimeError: no such layer")]
)
def test_a_factory_that_fails(folder: Path, symbol: str, text: str) -> None:
    found = refused(folder, torch_network(symbol))
    assert found.code == "TM719"
    assert text in found.message + " ".join(found.notes)


def test_weights_that_do_not_fit(folder: Path) -> None:
    state = built().state_dict()
    state["extra"] = state.pop("4.bias")
    state["1.weight"] = torch.zeros(5, 7)
    save_file(state, folder / "other.safetensors")
    found = refused(folder, torch_network(weights="other.safetensors"))
    assert found.code == "TM715"
    assert any("4.bias" in n for n in found.notes)
    assert any("extra" in n for n in found.notes)
    assert any("(5, 4)" in n and "(5, 7)" in n for n in found.notes)
    state = built().state_dict()
    state["1.weight"][0, 0] = float("nan")
    save_file(state, folder / "nan.safetensors")
    assert refused(folder, torch_network(weights="nan.safetensors")).code == "TM715"


def test_a_safetensors_header_with_a_name_twice(folder: Path) -> None:
    data = save({"a": torch.zeros(1), "b": torch.zeros(1)})
    (length,) = struct.unpack("<Q", data[:8])
    header = data[8 : 8 + length].decode().replace('"b"', '"a"')
    (folder / "twice.safetensors").write_bytes(struct.pack("<Q", length) + header.encode() + data[8 + length :])
    found = refused(folder, torch_network(weights="twice.safetensors"))
    assert found.code == "TM712"
    assert "twice" in found.message
    for damaged in (b"", b"\xff" * 40, struct.pack("<Q", 10) + b"{"):
        (folder / "bad.safetensors").write_bytes(damaged)
        assert refused(folder, torch_network(weights="bad.safetensors")).code == "TM712"


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch evil-was-here",)


def test_pickles_are_not_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    torch.save({"w": Evil()}, folder / "evil.pt")
    assert refused(folder, torch_network(weights="evil.pt")).code == "TM714"
    assert not (folder / "evil-was-here").exists()
    (folder / "m.pkl").write_bytes(b"")
    assert refused(folder, Network("sklearn", Artifact("m.pkl"))).code == "TM714"
    torch.save(built().state_dict(), folder / "plain.pt")
    x = torch.rand(2, 1, 2, 2)
    assert torch.equal(load(folder, torch_network(weights="plain.pt")).module(x), built()(x))


def test_torchscript_and_exported_programs(folder: Path) -> None:
    net, x = built(), torch.rand(6, 1, 2, 2)
    torch.jit.trace(net, x).save(str(folder / "net.ts"))
    batch = torch.export.Dim("batch")
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: batch},)), folder / "net.pt2")
    for kind, name in (("torchscript", "net.ts"), ("exported", "net.pt2")):
        network = Network(kind, Artifact(name))  # type: ignore[arg-type]
        assert refused(folder, network, trust=False).code == "TM713"
        assert torch.allclose(load(folder, network).module(x), net(x), atol=1e-6)
        (folder / "bad").write_bytes(b"not a zip")
        assert refused(folder, Network(kind, Artifact("bad"))).code == "TM712"  # type: ignore[arg-type]


def test_linear_in_the_spec() -> None:
    args = (("weights", ((F(1), F(2)), (F(0), F(-1)), (F(1, 3), F(0)))), ("bias", (F(0), F(1), F(2))))
    loaded = load(Path("/"), Network("linear", args=args), shape=(2,))
    got = loaded.module(torch.tensor([[3.0, 4.0]]))
    assert torch.allclose(got, torch.tensor([[11.0, -3.0, 3.0]]))
    score = load(Path("/"), Network("linear", args=(("weights", (F(1), F(1))), ("bias", F(0)))), shape=(2,))
    assert score.module(torch.tensor([[0.375, 0.5]])).tolist() == [[0.875]]
    assert refused(Path("/"), Network("linear", args=args), shape=(3,)).code == "TM718"


def test_a_remote_model_is_not_run(tmp_path: Path) -> None:
    assert refused(tmp_path, Network("remote")).code == "TM726"


def test_folder_hash_is_that_of_the_listing(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_bytes(b"two")
    (tmp_path / "sub" / "a.txt").write_bytes(b"one")
    listing = f"{sha256(b'two').hexdigest()}  b.txt\n{sha256(b'one').hexdigest()}  sub/a.txt\n"
    assert folder_hash(tmp_path) == sha256(listing.encode()).hexdigest()


# --- ONNX ---------------------------------------------------------------------------------------------------------


def graph(nodes: list[Any], shape: tuple[Any, ...], outputs: tuple[Any, ...], opset: int = 17, **constants: Any) -> Any:
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, outputs)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def save_graph(folder: Path, made: Any, name: str = "g.onnx") -> Network:
    onnx.save(made, folder / name)
    return Network("onnx", Artifact(name))


RNG = np.random.default_rng(5)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


N = helper.make_node
INTS = np.int64
PICTURES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "conv": (
        [N("Conv", ["x", "w", "b"], ["y"], pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2], group=2)],
        {"w": weights(4, 1, 3, 2), "b": weights(4)},
    ),
    "conv_same": ([N("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])], {"w": weights(3, 2, 3, 3)}),
    "max_pool": ([N("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])], {}),
    "average_pool": (
        [N("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[1, 2], pads=[1, 1, 1, 1], count_include_pad=1)],
        {},
    ),
    "global_average": ([N("GlobalAveragePool", ["x"], ["y"])], {}),
    "batch_norm": (
        [N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=0.01)],
        {"s": weights(2), "b": weights(2), "m": weights(2), "v": np.abs(weights(2)) + 1},
    ),
    "affine": (
        [
            N("Sub", ["x", "m"], ["a"]),
            N("Div", ["a", "s"], ["b"]),
            N("Mul", ["b", "b"], ["c"]),
            N("Add", ["c", "x"], ["y"]),
        ],
        {"m": weights(2, 1, 1), "s": np.abs(weights(2, 1, 1)) + 1},
    ),
    "activations": (
        [
            N("LeakyRelu", ["x"], ["a"], alpha=0.2),
            N("Sigmoid", ["a"], ["b"]),
            N("Tanh", ["b"], ["c"]),
            N("Elu", ["c"], ["d"]),
            N("HardSigmoid", ["d"], ["e"], alpha=0.3),
            N("Softplus", ["e"], ["f"]),
            N("Relu", ["f"], ["y"]),
        ],
        {},
    ),
    "clip": ([N("Clip", ["x", "lo", "hi"], ["y"])], {"lo": np.float32(-0.5), "hi": np.float32(0.5)}),
    "pad": ([N("Pad", ["x", "p", "v"], ["y"])], {"p": np.array([0, 0, 1, 2, 0, 0, 0, 1], INTS), "v": np.float32(0.25)}),
    "pad_reflect": ([N("Pad", ["x", "p"], ["y"], mode="reflect")], {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], INTS)}),
    "slice_gather": (
        [
            N("Slice", ["x", "from", "to", "axes", "steps"], ["a"]),
            N("Gather", ["a", "which"], ["y"], axis=3),
        ],
        {
            "from": np.array([1, 0], INTS),
            "to": np.array([5, 9], INTS),
            "axes": np.array([2, 3], INTS),
            "steps": np.array([2, 1], INTS),
            "which": np.array([0, -1, 2], INTS),
        },
    ),
    "transpose_reshape": (
        [N("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]), N("Reshape", ["a", "to"], ["y"])],
        {"to": np.array([0, -1, 4], INTS)},
    ),
    "reduce": ([N("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)], {}),
    "softmax": ([N("Softmax", ["x"], ["a"], axis=1), N("LogSoftmax", ["a"], ["y"], axis=3)], {}),
    "concat_squeeze": (
        [
            N("Unsqueeze", ["x", "one"], ["a"]),
            N("Squeeze", ["a", "one"], ["b"]),
            N("Concat", ["b", "x"], ["y"], axis=1),
        ],
        {"one": np.array([1], INTS)},
    ),
    "min_max_abs": (
        [N("Abs", ["x"], ["a"]), N("Max", ["a", "k"], ["b"]), N("Min", ["b", "x"], ["y"])],
        {"k": np.float32(0.3)},
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_operators_compute_what_onnxruntime_computes(tmp_path: Path, name: str) -> None:
    nodes, constants = PICTURES[name]
    outputs = (None,) * {"transpose_reshape": 3, "reduce": 2}.get(name, 4)
    network = save_graph(tmp_path, graph(nodes, ("n", 2, 6, 7), outputs, **constants))
    loaded = load(tmp_path, network, (2, 6, 7), trust=False)
    assert loaded.facts["greatest_difference_to_onnxruntime"] < 1e-5
    leaf = torch.rand(3, 2, 6, 7, requires_grad=True)
    assert loaded.module(leaf).requires_grad


def test_gemm_matmul_flatten_in_every_form(tmp_path: Path) -> None:
    nodes = [
        N("Flatten", ["x"], ["a"]),
        N("Gemm", ["a", "w", "b"], ["c"], transB=1),
        N("Gemm", ["c", "v", "d"], ["e"], alpha=0.5, beta=2.0),
        N("MatMul", ["e", "u"], ["y"]),
    ]
    constants = {"w": weights(5, 6), "b": weights(5), "v": weights(5, 4), "d": weights(1, 4), "u": weights(4, 3)}
    network = save_graph(tmp_path, graph(nodes, ("n", 2, 3), ("n", 3), **constants))
    assert load(tmp_path, network, (2, 3)).facts["greatest_difference_to_onnxruntime"] < 1e-5


def test_a_graph_for_one_row_serves_a_batch(tmp_path: Path) -> None:
    nodes = [N("Reshape", ["x", "to"], ["a"]), N("MatMul", ["a", "w"], ["y"])]
    made = graph(nodes, (1, 2, 3), (1, 4), to=np.array([1, 6], INTS), w=weights(6, 4))
    module = load(tmp_path, save_graph(tmp_path, made), (6,)).module
    x = torch.rand(5, 6)
    alone = torch.cat([module(row[None]) for row in x])
    assert torch.allclose(module(x), alone)


def test_graphs_that_are_refused(tmp_path: Path) -> None:
    lrn = graph([N("LRN", ["x"], ["y"], size=3)], ("n", 2, 3, 3), (None,) * 4)
    found = refused(tmp_path, save_graph(tmp_path, lrn), shape=(2, 3, 3))
    assert found.code == "TM716"
    assert "LRN" in found.message
    fixed = graph([N("Relu", ["x"], ["y"])], (7, 2), (7, 2))
    assert "7 rows" in refused(tmp_path, save_graph(tmp_path, fixed), shape=(2,)).message
    small = graph([N("Relu", ["x"], ["y"])], ("n", 2), ("n", 2))
    assert refused(tmp_path, save_graph(tmp_path, small), shape=(3,)).code == "TM718"
    (tmp_path / "junk.onnx").write_bytes(b"\x08\x07junk")
    assert refused(tmp_path, Network("onnx", Artifact("junk.onnx")), shape=(2,)).code == "TM712"


def test_a_conversion_that_disagrees_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tmlang.execute.sources import onnx_graph

    wrong = dict(onnx_graph.OPERATORS) | {"Relu": lambda i, _: torch.tanh(i[0])}
    monkeypatch.setattr(onnx_graph, "OPERATORS", wrong)
    network = save_graph(tmp_path, graph([N("Relu", ["x"], ["y"])], ("n", 2), ("n", 2)))
    assert refused(tmp_path, network, shape=(2,)).code == "TM717"


def external(folder: Path, location: str) -> Network:
    made = graph([N("MatMul", ["x", "w"], ["y"])], ("n", 2), ("n", 2), w=np.eye(2, dtype=np.float32))
    onnx.save(made, folder / "e.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    loaded = onnx.load(folder / "e.onnx", load_external_data=False)
    entry = next(e for e in loaded.graph.initializer[0].external_data if e.key == "location")
    entry.value = location
    (folder / "e.onnx").write_bytes(loaded.SerializeToString())
    return Network("onnx", Artifact("e.onnx"))


def test_side_files_of_weights_stay_beside_the_graph(tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    folder = tmp_path / "spec"
    loaded = load(folder, external(folder, "w.bin"), (2,))
    assert loaded.facts["external_data"] == {"w.bin": sha256((folder / "w.bin").read_bytes()).hexdigest()}
    (tmp_path / "secret.bin").write_bytes(np.eye(2, dtype=np.float32).tobytes())
    for location in ("../secret.bin", str(tmp_path / "secret.bin")):
        assert refused(folder, external(folder, location), shape=(2,)).code == "TM703"
    (folder / "soft.bin").symlink_to(tmp_path / "secret.bin")
    os.link(tmp_path / "secret.bin", folder / "hard.bin")
    for location in ("soft.bin", "hard.bin"):
        assert refused(folder, external(folder, location), shape=(2,)).code == "TM703"


def test_facts_are_json(tmp_path: Path) -> None:
    network = save_graph(tmp_path, graph([N("Relu", ["x"], ["y"])], ("n", 2), ("n", 2)))
    assert json.loads(json.dumps(dict(load(tmp_path, network, (2,)).facts)))["operators"] == ["Relu"]


def test_the_documented_operators_are_the_converted_ones() -> None:
    from tmlang.execute.sources.onnx_operators import OPERATORS

    page = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text()
    listed = page.split("export a classifier:")[1].split(".\n")[0]
    assert "".join(listed.split()).split(",") == sorted(OPERATORS)
