"""A world as files: ``spec.tm``, its data, masks and model."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

from reference.world import Allow, Ball, Cell, Evaluation, Join, Net, Patch, Rule, Space, Threat, Transform, World

Stages = Sequence[tuple[str, str, str]]


def files(world: World, folder: Path) -> None:
    """Everything beside the spec."""
    folder.mkdir(parents=True, exist_ok=True)
    space, dtype = world.space, np.dtype(world.space.dtype or "float32")
    if world.table:
        _csv(world, folder / "rows.csv")
    else:
        x = (world.x / world.over).astype(dtype).reshape(-1, *space.shape)
        np.savez(folder / "rows.npz", x=x, y=np.array(world.labels))
    for threat in world.threats:
        if threat.mask is not None:
            np.savez(folder / f"{threat.name}.npz", mask=threat.mask)
    if world.net.kind == "onnx":
        (folder / "net.onnx").write_bytes(_onnx(world))
    elif world.net.kind == "torch":
        _torch(world, folder)


def _csv(world: World, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        wanted = any("column" in threat.goal for threat in world.threats)
        out.writerow(["id", *world.space.names, "state", *["target"] * wanted])
        for i, row in enumerate(world.x):
            cells = [_entry(world.space.cell(j), F(int(v), world.over)) for j, v in enumerate(row)]
            label = world.labels[i]
            state = "" if label is None else world.classes[label]
            out.writerow([i, *cells, state, *[world.classes[world.targets[i]]] * wanted])


def _entry(cell: Cell, value: F) -> str:
    return cell.words[int(value)] if cell.words else str(int(value)) if value.denominator == 1 else repr(float(value))


# --- models ---------------------------------------------------------------------------------------------------------


def _onnx(world: World) -> bytes:
    size = world.net.layers[0][0].shape[1]
    shape = (size,) if world.net.hot else world.space.shape
    nodes, weights, at = [], [], "x"
    if len(shape) > 1:
        nodes.append(helper.make_node("Flatten", ["x"], ["flat"], axis=1))
        at = "flat"
    for k, (w, b) in enumerate(world.net.layers):
        for name, array in ((f"w{k}", w), (f"b{k}", b)):
            weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        last = k == len(world.net.layers) - 1
        nodes.append(helper.make_node("Gemm", [at, f"w{k}", f"b{k}"], ["y" if last else f"h{k}"], transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [f"h{k}"], [f"r{k}"]))
            at = f"r{k}"
    width = world.net.layers[-1][0].shape[0]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", width])],
        weights,
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def _torch(world: World, folder: Path) -> None:
    arrays, code = {}, []
    for k, (w, b) in enumerate(world.net.layers):
        at = 1 + 2 * k
        arrays |= {f"{at}.weight": w.astype(np.float32), f"{at}.bias": b.astype(np.float32)}
        code += ["nn.ReLU()"] * (k > 0) + [f"nn.Linear({w.shape[1]}, {w.shape[0]})"]
    save_file(arrays, str(folder / "net.safetensors"))
    body = f"nn.Sequential(nn.Flatten(), {', '.join(code)})"
    (folder / "nets.py").write_text(f"from torch import nn\n\n\ndef net():\n    return {body}\n")


# --- the spec -------------------------------------------------------------------------------------------------------


def number(q: F) -> str:
    return str(q) if q >= 0 else f"-{-q}"


def spec(world: World) -> str:
    blocks = ["tm 1", _space(world.space), _model(world), _data(world)]
    blocks += [_threat(t) for t in world.threats]
    blocks += [_evaluation(e) for e in world.evaluations]
    blocks += [f'claim "{name}": {formula}' for name, formula, _ in world.claims]
    return "\n\n".join(blocks) + "\n"


def _kind(cell: Cell) -> str:
    if cell.words:
        return "{" + ", ".join(cell.words) + "}"
    if cell.whole:
        return "bytes" if cell.count == 256 and cell.low == 0 else f"int[{number(cell.low)}, {number(cell.high)}]"
    step = f" step {number(cell.step)}" if cell.step else ""
    return f"real[{number(cell.low)}, {number(cell.high)}]{step}"


def _space(space: Space) -> str:
    stored = f" stored as {space.dtype}" if space.dtype else ""
    if not space.names:
        order = " order rgb" if space.channels is not None else ""
        return f"space s: tensor({', '.join(map(str, space.shape))}) of {_kind(space.cells[0])}{stored}{order}"
    lines = [f"  {name}:  {_kind(space.cell(j))}" for j, name in enumerate(space.names)]
    lines += [f"  {r.text}" for r in space.relations]
    costs = [f"{n}: {'mismatch' if space.cell(j).words and w == 1 else number(w)}"
             for j, (n, w) in enumerate(space.weights)]  # fmt: skip
    if costs:
        lines.append(f"  metric m {{ {'  '.join(costs)} }}")
    return "space s {\n" + "\n".join(lines) + "\n}" + stored


def _model(world: World) -> str:
    classes = world.classes
    named = f"classes({len(classes)})" if classes[0] == "0" else "{" + ", ".join(classes) + "}"
    words = [world.space.names[j] for j in range(world.space.size) if world.net.hot and world.space.cell(j).words]
    steps = [f"  step:  one_hot({w})" for w in words] + [f"  step:  {text}" for text, _, _ in world.net.steps]
    heads = f" outputs logits: {world.net.layers[-1][0].shape[0] - 1}, distance: 1" if world.net.head else ""
    lines = [*steps, f"  network:  {_network(world.net)}{heads}", f"  decide:  {_decide(world.rule, classes)}"]
    if world.rule.rejects:
        lines.append("  reject:  when " + " or ".join(_condition(*c) for c in world.rule.rejects))
    return f"model net: s -> {named} {{\n" + "\n".join([*lines, "  random:  never", "}"])


def _network(net: Net) -> str:
    if net.kind == "onnx":
        return 'onnx("net.onnx")'
    if net.kind == "torch":
        return 'torch("nets.py:net", weights: "net.safetensors")'
    weights, bias = net.layers[0]
    rows = ["[" + ", ".join(number(F(v)) for v in row) + "]" for row in weights]
    if len(rows) == 1:
        return f"linear(weights: {rows[0]}, bias: {number(F(bias[0]))})"
    return f"linear(weights: [{', '.join(rows)}], bias: [{', '.join(number(F(v)) for v in bias)}])"


def _decide(rule: Rule, classes: Sequence[str]) -> str:
    if rule.rule in ("argmax", "argmin"):
        return f"{rule.rule} ties {rule.ties}"
    return f"threshold score {rule.rule} {number(rule.value)} then {classes[0]} else {classes[1]}"


def _condition(what: str, op: str, value: F) -> str:
    return f"class {value}" if what == "class" else f"{what} {op} {number(value)}"


def _data(world: World) -> str:
    read = 'csv("rows.csv", label: "state", id: "id")' if world.table else 'npz("rows.npz", inputs: "x", labels: "y")'
    return f'data rows: s {{\n  read:  {read}\n  take:  all\n  truth:  published "by listing"\n}}'


def allowed(allow: Allow) -> str:
    if isinstance(allow, Join):
        parts = [f"({allowed(p)})" if isinstance(p, Join) else allowed(p) for p in allow.parts]
        if allow.names:
            return " or ".join(f"{n}: {p}" for n, p in zip(allow.names, parts, strict=True))
        return " and ".join(parts)
    if isinstance(allow, Patch):
        at = f" at {allow.place}" if allow.place else " at any place"
        return f"patch({allow.height}, {allow.width}){at}"
    if isinstance(allow, Transform):
        unit = {"rotate": " 'deg'", "translate": " 'px'"}
        parts = [f"{n} <= {number(m)}{unit.get(n, '')} step {number(s)}{unit.get(n, '')}" for n, m, s in allow.parts]
        moves = any(n in ("rotate", "translate", "scale") for n, _, _ in allow.parts)
        how = f" interpolate {allow.interpolate} fill {number(allow.fill)}" if moves else ""
        return f"transform {{ {' '.join(parts)} }}{how}"
    return _ball(allow)


def _ball(ball: Ball) -> str:
    if ball.norm == "anything":
        return "anything"
    tolerance = f" tolerance {number(ball.tolerance)}" if ball.tolerance else ""
    if ball.radii and ball.radii[0][0].isdigit():
        return f"linf <= ({', '.join(number(r) for _, r in ball.radii)}) per channel in s{tolerance}"
    if ball.radii:
        radii = ", ".join(f"{n}: {number(r)}" for n, r in ball.radii)
        return f"linf <= ({radii}) per feature in s{tolerance}"
    norm = "metric m" if ball.norm == "metric" else ball.norm
    return f"{norm} <= {number(ball.radius)} in s{tolerance}"


def _threat(threat: Threat) -> str:
    lines = [
        f"  allow:  {allowed(threat.allow)}",
        f"  mutable:  {threat.mutable.replace('FILE', chr(34) + threat.name + '.npz' + chr(34))}",
        f"  goal:  {threat.goal}",
        "  access:  white_box",
        f"  clean_errors:  {threat.clean_errors}",
    ]
    if threat.rejected:
        beyond = f" {_ball(threat.within)}, safe beyond" if threat.within else ""
        lines.append(f"  rejected:  {threat.rejected}{beyond}")
    return f"threat {threat.name} on net over rows {{\n" + "\n".join(lines) + "\n}"


def _evaluation(e: Evaluation) -> str:
    lines = [f"  {role}:  {label} = {call}" for role, label, call in e.stages]
    if e.full:
        lines.append("  attribution:  full")
    if e.repeats > 1:
        lines.append(f"  repeats:  {e.repeats}")
    return f"evaluate {e.name} of {e.threat.name} {{\n" + "\n".join([*lines, "  seed:  0"]) + "\n}"
