"""``network:``: which function, from which file, with which outputs."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from tmlang.diagnostics.suggest import did_you_mean
from tmlang.meaning.models import Network
from tmlang.meaning.values import Artifact, Symbol, Value
from tmlang.semantics import steps, values
from tmlang.semantics.builtins import NETWORKS, OUTPUT_KINDS, NetworkRow
from tmlang.semantics.flow import Flow
from tmlang.semantics.scope import Env, World
from tmlang.syntax import ast

_ENFORCED = frozenset({"train", "training", "eval", "mode", "is_training"})
"""Arguments that would ask a factory for a mode; the mode is not the spec's to choose."""

OF_MEMBERS = Network("torch")
"""The network of an ensemble whose members are models: there is none of its own."""


def network(world: World, env: Env, node: ast.Network, at: Flow) -> Network | None:
    """The network, or ``None`` after reporting; ``at`` is the flow that meets it."""
    call = node.call
    row = NETWORKS.get(call.path.text)
    if row is None:
        tail = did_you_mean(call.path.text, NETWORKS) or f"there are {', '.join(NETWORKS)}"
        world.report("TM317", f"no kind of network is called {call.path.text}; {tail}", call.path)
        return None
    source_node, named = _split(world, call, row)
    outputs = _outputs(world, env, node)
    if (row.source != "none" and source_node is None) or named is None or outputs is None:
        return None
    known = {a.name: a for a in row.arguments}
    args: dict[str, Value] = {}
    for name, value in named.items():
        if name in known and known[name].type not in ("matrix", "file") and name != "sha256":
            args[name] = steps.evaluate(world, env, known[name], value)
        elif name not in known or known[name].type == "matrix":
            args[name] = values.value(world, env, value)
    if None in args.values():
        return None
    _order_agrees(world, args.pop("order", None), named.get("order"), at)
    made = _made(world, call, row, source_node, named, args, outputs)
    if made is not None and made.kind == "linear":
        return made if _linear_fits(world, made, named, at) else None
    return made


def _split(world: World, call: ast.Call, row: NetworkRow) -> tuple[ast.String | None, dict[str, ast.Value] | None]:
    """The source (the one positional argument) and the named arguments."""
    positional = [a for a in call.args if a.name is None]
    source: ast.String | None = None
    kind = call.path.text
    if row.source != "none":
        if not positional or not isinstance(positional[0].value, ast.String):
            what = {"factory": '"file.py:factory"', "file": "the name of a file", "url": "an address"}[row.source]
            world.report("TM317", f"{kind} needs {what} first", call.path)
            return None, None
        source = positional.pop(0).value  # type: ignore[assignment]
    if positional:
        world.report("TM317", f"{kind} takes no further argument without a name", positional[0])
        return source, None
    named: dict[str, ast.Value] = {}
    allowed = [a.name for a in row.arguments]
    ok = True
    for arg in call.args:
        if arg.name is None:
            continue
        if arg.name.text in named:
            world.report("TM114", f"{arg.name.text}: is given twice", arg.name)
        elif row.open and arg.name.text in _ENFORCED:
            message = f"{arg.name.text}: is not for the factory: networks are always evaluated, never trained"
            world.report("TM317", message, arg.name, help="leave it out; evaluation mode is enforced and checked")
            ok = False
        elif not row.open and arg.name.text not in allowed:
            tail = did_you_mean(arg.name.text, allowed) or f"it takes {', '.join(allowed)}"
            world.report("TM317", f"{kind} has no argument {arg.name.text}; {tail}", arg.name)
            ok = False
        named[arg.name.text] = arg.value
    missing = [a.name for a in row.arguments if not a.optional and a.name not in named]
    if missing:
        code = "TM705" if kind == "remote" else "TM317"
        world.report(code, f"{kind} needs {', '.join(f'{m}:' for m in missing)}", call.path)
    return source, named if ok and not missing else None


def _made(
    world: World,
    call: ast.Call,
    row: NetworkRow,
    source: ast.String | None,
    named: dict[str, ast.Value],
    args: dict[str, Value],
    outputs: tuple[tuple[str, int], ...],
) -> Network | None:
    kind = call.path.text
    artifact: Artifact | None = None
    weights: Artifact | None = None
    symbol: str | None = None
    if row.source == "factory":
        assert source is not None
        factory = _factory(world, source)
        weights = _file(world, named["weights"], named.get("sha256"))
        if factory is None or weights is None:
            return None
        artifact, symbol = factory
    elif row.source == "file":
        artifact = values.artifact(world, cast(ast.String, source), named.get("sha256"))
        if artifact is None:
            return None
    elif row.source == "url":
        probes = _file(world, named["probes"], None)
        if probes is None:
            return None
        args = {"url": cast(ast.String, source).value, **args, "probes": probes}
    output_kind = outputs[0][0] if outputs and outputs[0][0] in OUTPUT_KINDS else None
    return Network(kind, artifact, symbol, weights, tuple(args.items()), outputs, output_kind)  # type: ignore[arg-type]


def _file(world: World, node: ast.Value, sha256: ast.Value | None) -> Artifact | None:
    if isinstance(node, ast.String):
        return values.artifact(world, node, sha256)
    world.report("TM221", "the name of a file is needed here", node)
    return None


def _factory(world: World, node: ast.String) -> tuple[Artifact, str] | None:
    """``file.py:factory``."""
    path, _, symbol = node.value.rpartition(":")
    if not path or not symbol.isidentifier():
        world.report("TM317", "a torch network is a factory in a Python file", node, help='torch("file.py:factory", …)')
        return None
    artifact = values.artifact(world, ast.String(node.span, path))
    return (artifact, symbol) if artifact else None


def _outputs(world: World, env: Env, node: ast.Network) -> tuple[tuple[str, int], ...] | None:
    made: list[tuple[str, int]] = []
    for arg in node.outputs:
        count = values.whole(world, env, arg.value, least=1, what="a number of outputs")
        if count is None or arg.name is None:
            return None
        if arg.name.text in dict(made):
            world.report("TM102", f"two outputs are called {arg.name.text}", arg.name)
            return None
        made.append((arg.name.text, count))
    return tuple(made)


def _order_agrees(world: World, stated: Value, node: ast.Value | None, at: Flow) -> None:
    """``order: bgr`` of a network says what it was trained on."""
    if isinstance(stated, Symbol) and node is not None and at.order is not None and at.order != stated.name:
        help = f"insert step: channels({stated.name}) before it"
        world.report("TM306", f"the network was trained on {stated.name} and gets {at.order}", node, help=help)


def _linear_fits(world: World, made: Network, named: dict[str, ast.Value], at: Flow) -> bool:
    """``linear(weights: [1, 1], bias: 0)`` or one row per class: as many weights as inputs, as many biases as rows."""
    args = dict(made.args)
    rows, bias = _matrix(args["weights"]), args["bias"]
    if rows is None:
        world.report("TM317", "the weights are a list of numbers, or one list per output", named["weights"])
        return False
    size = 1
    for d in at.shape or ():
        size *= d
    odd = next((r for r in rows if at.shape is not None and len(r) != size), None)
    if odd is not None:
        world.report("TM303", f"{at.owner} has {size} inputs, and there are {len(odd)} weights", named["weights"])
        return False
    biases = bias if isinstance(bias, tuple) else (bias,)
    if len(biases) != len(rows) or not all(isinstance(b, Fraction) for b in biases):
        world.report("TM303", f"there are {len(rows)} outputs and {len(biases)} biases", named["bias"])
        return False
    return True


def _matrix(v: Value) -> tuple[tuple[Fraction, ...], ...] | None:
    """One row of numbers or a tuple of rows, as a tuple of rows."""
    if not isinstance(v, tuple) or not v:
        return None
    rows = v if all(isinstance(r, tuple) for r in v) else (v,)
    ok = all(isinstance(r, tuple) and r and all(isinstance(x, Fraction) for x in r) for r in rows)
    return cast("tuple[tuple[Fraction, ...], ...]", rows) if ok else None
