"""Which networks auto-LiRPA 0.3 is trusted with, and the bounded module of one of them.

Soundness was tested operation by operation (sampling, attacks, exact answers of linear networks); what was not tested,
or was falsified, is refused by the operations found in the graph that the library read, whatever the source looks like.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import nn

from tmlang.backends import lirpa_shims
from tmlang.backends.contract import BackendRefusal
from tmlang.backends.lirpa_windows import Pair
from tmlang.backends.rounding import Known

Tensor = torch.Tensor

LINEAR = {"BoundLinear", "BoundConv"}
RESHAPING = {"BoundFlatten", "BoundReshape", "BoundTranspose", "BoundSqueeze", "BoundUnsqueeze"}
CONSTANT = {"BoundParams", "BoundBuffers", "BoundConstant", "BoundPrimConstant", "BoundShape"}
TESTED = LINEAR | RESHAPING | CONSTANT | {
    "BoundInput", "BoundRelu", "BoundLeakyRelu", "BoundSigmoid", "BoundTanh", "BoundAdd", "BoundSub", "BoundMul",
    "BoundBatchNormalization", "BoundMaxPool", "BoundAveragePool", "BoundGlobalAveragePool", "BoundReduceMean",
    "BoundConcat", "BoundIdentity", "BoundGather",
}  # fmt: skip
"""Operations whose linf bounds no sampling has falsified. Others (ELU, GELU, clamp, padding, softmax) are refused."""

NOT_TRUSTED = {
    "forward": {"BoundLeakyRelu", "BoundBatchNormalization", "BoundAveragePool", "BoundReduceMean"},
    "forward+backward": {"BoundLeakyRelu", "BoundBatchNormalization"},
    "CROWN-Optimized": {"BoundMaxPool"},
}
"""Of these by method: forward bounds of LeakyReLU were falsified, the rest the library does not carry through."""

MEMORY = 1 << 23
"""Numbers that the coefficients of one layer's bounds may hold: sets how many units are bounded at once. What fits into
a cache is bounded almost twice as fast as what only fits into memory."""

UNITS = 32
"""Units that are bounded together at most where coefficients are few: beyond, nothing is saved."""


def bounded_module(
    body: nn.Module,
    sample: Tensor,
    mode: Literal["matrix", "patches"],
    *,
    whole_ball: bool,
    method: str = "CROWN",
) -> Any:
    """The bounded module of ``body`` for batches like ``sample`` (n, *shape), its operations checked.

    ``whole_ball``: l2 or l1 bounds are wanted. ``method``: as the library calls it. Raises :class:`BackendRefusal` for
    what is not trusted or not readable.
    """
    library = lirpa_shims.load()
    options = {"conv_mode": mode, "sparse_features_alpha": False}
    with lirpa_shims.reading_graphs() as said:
        try:
            bounded = library.BoundedModule(body, sample, bound_opts=options, device="cpu")
        except lirpa_shims.FAILURES as e:
            raise BackendRefusal(f"auto-LiRPA does not read this network: {'; '.join([str(e), *said])}") from e
    lirpa_shims.give_type(bounded, sample.dtype)
    _trusted(list(bounded._modules.values()), whole_ball, TESTED - NOT_TRUSTED.get(method, set()))
    expected, found = body(sample), bounded(sample)
    difference = float((found - expected).abs().max())
    if not difference <= 1e-9 * (1 + float(expected.abs().max())):
        raise BackendRefusal(f"auto-LiRPA computes another function: they differ by {difference:.3g} at an original")
    return bounded


def _trusted(nodes: Sequence[Any], whole_ball: bool, tested: set[str]) -> None:
    if strange := sorted({type(n).__name__ for n in nodes} - tested):
        raise BackendRefusal(f"bounds of {', '.join(s.removeprefix('Bound') for s in strange)} are not trusted")
    pools = [n for n in nodes if type(n).__name__ == "BoundMaxPool"]
    if any(list(n.kernel_size) != list(n.stride) or any(n.padding) for n in pools):
        raise BackendRefusal("bounds of max pooling are trusted only where windows do not overlap")
    if whole_ball and not _begins_linear(nodes):
        raise BackendRefusal("l2 and l1 bounds are sound only where the input goes into convolutions or matrices alone")


def _begins_linear(nodes: Sequence[Any]) -> bool:
    """Whether every path from the input meets a matrix or a convolution before anything but reshaping."""
    reached = {node.name for node in nodes if type(node).__name__ == "BoundInput"}
    for node in nodes:
        if reached & {getattr(i, "name", i) for i in node.inputs}:
            kind = type(node).__name__
            if kind in RESHAPING:
                reached.add(node.name)
            elif kind not in LINEAR:
                return False
    return True


def patches_are_tested(bounded: Any) -> bool:
    """Whether the convolutions are of the kind whose bounds in patches mode are sound: neither grouped nor dilated
    (both were falsified by a point)."""
    convolutions = [n for n in bounded._modules.values() if type(n).__name__ == "BoundConv"]
    return bool(convolutions) and all(n.groups == 1 and set(n.dilation) == {1} for n in convolutions)


@contextmanager
def in_matrices(bounded: Any) -> Iterator[None]:
    """A module that was read for patches mode works with matrices for a while."""
    owners = [(bounded, "conv_mode"), *((n, "mode") for n in bounded._modules.values() if hasattr(n, "mode"))]
    for owner, name in owners:
        setattr(owner, name, "matrix")
    try:
        yield
    finally:
        for owner, name in owners:
            setattr(owner, name, "patches")


def at_once(body: nn.Module, x: Tensor, n: int) -> int:
    """How many of ``n`` units are bounded together: coefficients take the square of the widest layer per unit. ``x`` is
    one of them."""
    sizes = [x.numel()]
    hooks = [
        m.register_forward_hook(lambda _, __, out: sizes.append(out.numel() if isinstance(out, Tensor) else 0))
        for m in body.modules()
        if not list(m.children())
    ]
    try:
        body(x)
    finally:
        for hook in hooks:
            hook.remove()
    return evenly(n, MEMORY // max(sizes) ** 2)


def seen(bounded: Any, x: Tensor, n: int) -> list[Known] | None:
    """What it knows in front of each ReLU of the first ``n`` units of its batch ``x``, in the order of the network;
    ``None`` where it keeps no bounds of one."""
    before = [node.inputs[0] for node in bounded._modules.values() if type(node).__name__ == "BoundRelu"]
    ends: list[Any] = [(getattr(node, "lower", None), getattr(node, "upper", None)) for node in before]
    if not all(isinstance(end, Tensor) and len(end) == len(x) for pair in ends for end in pair):
        return None
    bounded(x, clear_forward_only=True)
    kept = ((bounded.get_forward_value(node), *pair) for node, pair in zip(before, ends, strict=True))
    return [Known(*(z[:n].detach().clone() for z in own)) for own in kept]


def beyond(bounded: Any, pair: Pair, rows: int, n: int) -> int:
    """How many of ``n`` units are bounded together where a pair of convolutions is bounded by windows: of the other
    nodes, those whose output does not go on linearly take as many coefficients as their size times the widest layer's.
    ``rows``: differences of scores."""
    nodes = [node for node in bounded._modules.values() if type(node).__name__ not in CONSTANT]
    bent = {i.name for node in nodes if type(node).__name__ not in LINEAR | RESHAPING for i in node.inputs}
    sizes = {node.name: math.prod(node.output_shape[1:]) for node in nodes}
    most = max([rows, *(size for name, size in sizes.items() if name in bent - pair.names)])
    return evenly(n, min(UNITS, MEMORY // max(most * max(sizes.values()), pair.numbers)))


def evenly(n: int, most: int) -> int:
    """The size of as few equal parts of ``n`` units as there are with at most ``most`` each, but one at least."""
    return -(-n // -(-n // max(1, most)))
