"""TorchScript and exported programs as plain modules, operation by operation, for verifiers that read torch modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from tmlang.backends.contract import BackendRefusal

Tensor = torch.Tensor


def as_modules(network: nn.Module, z: Tensor) -> nn.Module:
    """``network`` itself, or a graph of the same operations that answers bit for bit the same at inputs ``z``.

    Raises :class:`BackendRefusal` where a program has more than operations on tensors, or answers otherwise.
    """
    try:
        if isinstance(network, torch.jit.ScriptModule):
            plain = _of_script(network)
        elif isinstance(network, fx.GraphModule):
            plain = _of_export(network)
        else:
            return network
        same = torch.equal(plain(z), network(z))
    except (RuntimeError, AttributeError, TypeError, ValueError, KeyError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BackendRefusal(f"the program cannot be read operation by operation: {first}") from error
    if not same:
        raise BackendRefusal("the program answers otherwise when it is read operation by operation")
    return plain


def _of_export(network: fx.GraphModule) -> nn.Module:
    """Without the checks of shapes that an exported program makes first; they hold no numbers."""
    graph = fx.Graph()
    known: dict[fx.Node, Any] = {}
    for node in network.graph.nodes:
        if node.op == "call_module" and node.target == "_guards_fn":
            continue
        if node.op == "output":
            (found,) = node.args[0] if isinstance(node.args[0], (tuple, list)) else node.args
            graph.output(known[found])
        else:
            known[node] = graph.node_copy(node, lambda n: known[n])
    return fx.GraphModule(network, graph).eval()


def _of_script(network: torch.jit.ScriptModule) -> nn.Module:
    """The frozen graph: weights are constants of it, and branches that hang on them are gone."""
    # What was frozen before has no flag of training any more.
    frozen: Any = torch.jit.freeze(network, optimize_numerics=False) if hasattr(network, "training") else network
    holder, graph = nn.Module(), fx.Graph()
    inputs = list(frozen.graph.inputs())
    known: dict[str, Any] = {inputs[1].debugName(): graph.placeholder("x")}
    # A verifier looks for weights among the parameters, and for the statistics of a normalization among the buffers.
    normalized = [list(node.inputs()) for node in frozen.graph.findAllNodes("aten::batch_norm")]
    statistics = {value.debugName() for values in normalized for value in values[3:5]}
    for node in frozen.graph.nodes():
        kind, arguments = node.kind(), [known[v.debugName()] for v in node.inputs()]
        if kind == "prim::Constant":
            made = node.output().toIValue()
            if isinstance(made, Tensor):
                name = f"constant_{len(known)}"
                if made.is_floating_point() and node.output().debugName() not in statistics:
                    holder.register_parameter(name, nn.Parameter(made.clone(), requires_grad=False))
                else:
                    holder.register_buffer(name, made.clone())
                made = graph.get_attr(name)
        elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
            made = arguments
        elif kind.startswith("aten::"):
            made = graph.call_function(getattr(torch.ops.aten, kind.removeprefix("aten::")), tuple(arguments))
        else:
            raise BackendRefusal(f"a program with `{kind}` is not read operation by operation")
        known[node.output().debugName()] = made
    (output,) = frozen.graph.outputs()
    graph.output(known[output.debugName()])
    return fx.GraphModule(holder, graph).eval()
