"""How far the object's float32 arithmetic can be from real arithmetic, anywhere in a set: proved, case by case.

**The perturbed network.** Every layer that the object computes is a layer of real arithmetic on what was computed
before it, and a rounding: ``z_k = W_k a_(k-1) + b_k + e_k`` with ``a = max(0, z)``. ``enclosing`` bounds ``|e_k|`` by
``gamma_n (|W_k| m_(k-1) + |b_k|)`` and what underflows (Higham 2002, section 3.1), ``m_(k-1)`` being a bound of the
absolute values that the layer is given. So the object on an input is one network of a family, that of all ``e`` within
these bounds; the network of real arithmetic is another one, ``e = 0``. What is proved of the family holds for both.

**Two bounds** of a row of scores ``c``, both of which go backwards through the network:

1. *Drift*, the difference between the two. Behind a ReLU it is what it was in front times a share in [0, 1], which is
   1 where both values are positive, 0 where neither is, and else unknown. So coefficients are intervals, and every
   ``e_k`` enters with the greatest of its absolute values. It holds whatever the scores themselves were bounded by.
2. *Lowering*, CROWN (Zhang et al.: Efficient neural network robustness certification with general activation functions,
   NeurIPS 2018, section 3) of the family: with coefficients ``A_k`` behind layer ``k`` the least value of the row is at
   least that of ``e = 0`` less the sum of ``|A_k| |e_k|``. The lines that bound a ReLU are drawn over bounds of ``z_k``
   that hold for the whole family: those of real arithmetic, widened by the forward error, or those that the same pass
   gives for ``z_k``. It is tighter where layers are many, since no coefficient becomes an interval.

**What the bounds are computed in**, float64, rounds as well, and so do the bounds of a verifier: each of their
operations 2^29 times finer than the object's, with the same absolute values of weights on the way. The forward error
times :data:`FINER` covers 2^11 such operations for each of the object's, and a share of the values themselves covers
what is computed where the object computes nothing.

Networks or parts that are no chain of affine maps and ReLUs (tanh, the greatest of a window) enter by their enclosures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from tmlang.backends.asserted import Asserted
from tmlang.backends.contract import BackendRefusal
from tmlang.backends.deployed import Deployed
from tmlang.backends.enclosing import Enclosed, Enclosing, Made, Map, aten
from tmlang.meaning.arithmetic import unexamined

Tensor = torch.Tensor

FINER = 2.0**-18
"""Share of a forward error that covers the rounding of bounds in float64."""
EXACT = 2.0**-44
"""Share of values that covers the rounding of bounds where the object does not round."""
WIDTH = 512
"""Values of a layer that are bounded by a pass of their own at most."""
NARROWER = 2.0**-8
"""Share of the widths of what a ReLU bends that the forward error must reach before known bounds are found anew."""
NUMBERS = 1 << 22
"""Coefficients that are carried together."""


class Known(NamedTuple):
    """What a verifier knows of the values in front of a ReLU: at some inputs, and bounds in real arithmetic over their
    sets. Each (n, *shape), float64."""

    at: Tensor
    low: Tensor
    high: Tensor


class Ball(NamedTuple):
    """The inputs at most ``radius`` away from ``centre`` (n, *shape) in the norm ``order``, 1 or 2."""

    centre: Tensor
    order: float
    radius: float


@dataclass(frozen=True)
class Computed:
    """The object over the sets of some units."""

    scores: Enclosed
    ball: Ball | None

    def gaps(self, rows: Tensor) -> Tensor:
        """(n, M): what computed combinations ``rows`` (n, M, K) of scores may differ from the real ones by."""
        own = self._own(rows)
        return (_drift(self.scores, own) + _cover(self.scores, own)).T

    def below(self, rows: Tensor, lower: Tensor) -> Tensor:
        """(n, M): how far computed combinations may be below ``lower`` (n, M), which bounds the real ones."""
        own = self._own(rows)
        real, fall = _lowered(self.scores, own, self.ball)
        fallen = (fall + _cover(self.scores, own)).T
        return torch.minimum(self.gaps(rows), torch.maximum(fallen, lower - real.T + fallen))

    def _own(self, rows: Tensor) -> Tensor:
        """(M, n, width), zero for what stands behind the classes: heads that no decision compares."""
        full = torch.zeros(*rows.shape[:2], self.scores.low.shape[1], dtype=torch.float64)
        full[:, :, : rows.shape[2]] = rows
        return full.transpose(0, 1)


def supposed() -> str | None:
    """Why what every bound supposes (``meaning.arithmetic.SUPPOSED``) was not examined here, if so."""
    precision = torch.get_float32_matmul_precision()
    return unexamined(torch.__version__, torch.backends.cpu.get_cpu_capability(), precision)


def computed(
    network: nn.Module,
    low: Tensor,
    high: Tensor,
    dtype: torch.dtype,
    *,
    known: tuple[Tensor, Sequence[Known]] | None = None,
    ball: Ball | None = None,
) -> Computed:
    """``network`` for inputs in ``[low, high]``, each (n, *shape) float64, that are given in ``dtype`` and asked about
    one at a time. ``known``: some of these inputs (n, *shape), and what is known in front of each ReLU.

    Raises :class:`BackendRefusal` for what is not enclosed.
    """
    try:
        return _computed(network, low, high, dtype, known, ball)
    except BackendRefusal as refusal:
        why = str(refusal).partition("\n")[0]  # the interpreter of the graph says behind it where it was
        raise BackendRefusal(f"{why}; `rounding: assumed` takes a measured gap instead") from refusal


def _computed(
    network: nn.Module,
    low: Tensor,
    high: Tensor,
    dtype: torch.dtype,
    known: tuple[Tensor, Sequence[Known]] | None,
    ball: Ball | None,
) -> Computed:
    deployed = network.deployed if isinstance(network, Asserted) else network
    if not isinstance(deployed, Deployed) or deployed.dtype != torch.float32:
        raise BackendRefusal("rounding is bounded for torch networks that compute in float32")
    asked = network.raw if isinstance(network, Asserted) else network
    try:
        # Without operations in place, so that no value changes behind its enclosure.
        traced = make_fx(torch.func.functionalize(lambda x: asked(x)))(low.to(dtype))
    except Exception as error:
        raise BackendRefusal(f"rounding is bounded for networks that can be traced: {error}") from error
    traced.graph.eliminate_dead_code()  # statistics of normalizations, places of greatest values
    bends = _Bends(None if known is None else _agreeing(traced, known[0].to(dtype), known[1]), ball)
    none = torch.zeros_like(low)
    found = Enclosing(traced, bends).run(Enclosed(low, high, none, none, low, high, Made(given=True)))
    if not isinstance(found, Enclosed):
        raise BackendRefusal("rounding is bounded for outputs that hang on the input")
    return Computed(found, ball)


class _Bends:
    """Bounds what goes into one ReLU after the other."""

    def __init__(self, known: Sequence[tuple[Known, Tensor]] | None, ball: Ball | None) -> None:
        self.known, self.ball, self.count = known, ball, 0

    def __call__(self, z: Enclosed) -> Enclosed:
        k, self.count = self.count, self.count + 1
        wide = torch.ones(len(z.low), dtype=torch.bool)
        if self.known is not None:
            known, computed = self.known[k]
            spare = FINER * z.error + EXACT * z.reach
            if bool(((computed - known.at).abs() <= z.error + spare).all()):
                low, high = (side.reshape(z.low.shape) for side in (known.low, known.high))
                z = _within(z, low - spare, high + spare, z.error)
                wide = _sum(z.error, z.bent) > NARROWER * _sum(z.high - z.low, z.bent)
        if k == 0 or z.low[0].numel() > WIDTH or not bool(wide.any()):
            return z  # one affine map of a box is bounded as well as it can be
        return _bounded_anew(z, wide, self.ball)


def _within(z: Enclosed, low: Tensor, high: Tensor, off: Tensor) -> Enclosed:
    """``z`` whose exact values are known to be in ``[low, high]``, and the computed ones ``off`` outside at most."""
    return replace(
        z,
        low=torch.maximum(z.low, low),
        high=torch.minimum(z.high, high),
        least=torch.maximum(z.least, low - off),
        most=torch.minimum(z.most, high + off),
    )


def _bounded_anew(z: Enclosed, wide: Tensor, ball: Ball | None) -> Enclosed:
    """``z`` with the bounds that a pass of its own gives, in the units that are ``wide`` (n,)."""
    low, down = _each_lowered(z, 1, ball)
    high, up = _each_lowered(z, -1, ball)
    spare = FINER * z.error + EXACT * z.reach
    low, high = low - spare, -high + spare
    along = wide.reshape(-1, *[1] * (z.low.ndim - 1))
    return replace(
        z,
        low=torch.where(along, torch.maximum(z.low, low), z.low),
        high=torch.where(along, torch.minimum(z.high, high), z.high),
        least=torch.where(along, torch.maximum(z.least, low - down), z.least),
        most=torch.where(along, torch.minimum(z.most, high + up), z.most),
    )


def _each_lowered(z: Enclosed, sign: int, ball: Ball | None) -> tuple[Tensor, Tensor]:
    """What :func:`_lowered` says of each value of ``z``, or of its negative: (n, *shape) twice."""
    n, size = len(z.low), z.low[0].numel()
    unit, step = torch.eye(size, dtype=torch.float64), max(1, NUMBERS // (n * size))
    parts = []
    for at in range(0, size, step):
        rows = sign * unit[at : at + step, None].expand(-1, n, -1)
        parts.append(_lowered(z, rows.reshape(len(rows), *z.low.shape), ball))
    real, fall = (torch.cat(side).T.reshape(z.low.shape) for side in zip(*parts, strict=True))
    return real, fall


class _Watched(fx.Interpreter):
    """Runs a graph and keeps what goes into every ReLU."""

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__(traced)
        self.bent: list[Tensor] = []

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if getattr(target, "overloadpacket", None) is aten.relu:
            self.bent.append(args[0].double())
        return super().call_function(target, args, kwargs)


def _agreeing(traced: fx.GraphModule, x: Tensor, known: Sequence[Known]) -> list[tuple[Known, Tensor]] | None:
    """What is known in front of each ReLU beside what the object computes there, where they are as many, in as many
    values."""
    watched = _Watched(traced)
    watched.run(x)
    same = len(known) == len(watched.bent) and all(
        k.at.numel() == own.numel() for k, own in zip(known, watched.bent, strict=True)
    )
    if not same:
        return None
    return [(Known(*(side.reshape(own.shape) for side in k)), own) for k, own in zip(known, watched.bent, strict=True)]


def _sum(coefficients: Tensor, values: Tensor) -> Tensor:
    """(M, n) of (M, n, *shape) and (n, *shape); (n,) of both without M."""
    return (coefficients * values).flatten(coefficients.ndim - values[0].ndim).sum(dim=-1)


def _cover(end: Enclosed, rows: Tensor) -> Tensor:
    """(M, n): what the bounds of ``rows`` (M, n, *shape) are off by for their own rounding."""
    return _sum(rows.abs(), FINER * end.error + EXACT * end.reach)


def _backwards(end: Enclosed, carried: tuple[Tensor, ...]) -> Iterator[tuple[Enclosed, _Carrying]]:
    """Every value that ``end`` hangs on, the last first, with what is carried to it from all that hang on it: one
    tensor (M, n, *shape) or several. The receiver says what goes on to its parents."""
    waiting: dict[int, tuple[Enclosed, tuple[Tensor, ...]]] = {end.serial: (end, carried)}
    while waiting:
        value, own = waiting.pop(max(waiting))
        step = _Carrying(own)
        yield value, step
        for parent, more in step.further:
            if parent.serial in waiting:
                more = tuple(a + b for a, b in zip(waiting[parent.serial][1], more, strict=True))
            waiting[parent.serial] = (parent, more)


class _Carrying:
    def __init__(self, own: tuple[Tensor, ...]) -> None:
        self.own = own
        self.further: list[tuple[Enclosed, tuple[Tensor, ...]]] = []


def _through(value: Enclosed, change: Map, coefficients: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """``change`` of zeros, and per parent the coefficients (M, n, *shape) of ``value`` through its linear part."""
    assert value.made is not None
    found: Any = torch.func.vjp(change, *(torch.zeros_like(p.low) for p in value.made.parents))
    return found[0], torch.vmap(found[1])(coefficients)


def _drift(end: Enclosed, rows: Tensor) -> Tensor:
    """(M, n): the greatest difference of ``rows`` (M, n, *shape) of ``end`` between two networks of the family."""
    total = torch.zeros(rows.shape[:2], dtype=torch.float64)
    for value, step in _backwards(end, (rows, torch.zeros_like(rows))):
        middle, half = step.own
        size, made = middle.abs() + half, value.made
        assert made is not None
        if made.signed is None and made.bends is None:
            total += _sum(size, value.error)
            continue
        total += _sum(size, value.local)
        if made.bends is not None:
            (z,) = made.parents
            step.further.append((z, _shared(z, made, middle, half)))
        else:
            assert made.signed is not None and made.absolute is not None  # noqa: PT018
            moved = _through(value, made.signed, middle)[1]
            spread = _through(value, made.absolute, half)[1]
            step.further += [(p, (a, b)) for p, a, b in zip(made.parents, moved, spread, strict=True)]
    return total


def _shared(z: Enclosed, made: Made, middle: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients ``middle`` plus or minus ``half`` times what a function that bends leaves of a difference: some
    share, and of a ReLU all of it or nothing where all values lie on one side."""
    assert made.bends is not None
    ends = middle - half, middle + half
    low, high = ends[0].clamp(max=0) * made.bends, ends[1].clamp(min=0) * made.bends
    if made.rectifies:
        whole, nothing = z.least >= 0, z.most <= 0
        low = torch.where(whole, ends[0], torch.where(nothing, 0.0, low))
        high = torch.where(whole, ends[1], torch.where(nothing, 0.0, high))
    return (low + high) / 2, (high - low) / 2


def _lowered(end: Enclosed, rows: Tensor, ball: Ball | None) -> tuple[Tensor, Tensor]:
    """(M, n) twice: a bound below ``rows`` (M, n, *shape) of ``end`` in real arithmetic, and how far another network of
    the family may be below it."""
    real, fall = (torch.zeros(rows.shape[:2], dtype=torch.float64) for _ in range(2))
    for value, step in _backwards(end, (rows,)):
        (own,) = step.own
        made = value.made
        assert made is not None
        if made.signed is not None:
            constant, further = _through(value, made.signed, own)
            real += _sum(own, constant)
            fall += _sum(own.abs(), value.local)
            step.further += [(p, (a,)) for p, a in zip(made.parents, further, strict=True)]
        elif made.rectifies:
            (z,) = made.parents
            slope, above, below = _lines(z)
            fall += _sum(own.abs(), value.local)
            negative = own.clamp(max=0)
            real += _sum(negative, above)
            step.further.append((z, (own.clamp(min=0) * below + negative * slope,)))
        else:
            real += _least(value, own, ball)
            fall += _sum(own.abs(), value.error)
    return real, fall


def _lines(z: Enclosed) -> tuple[Tensor, Tensor, Tensor]:
    """Of a ReLU over ``[least, most]``: slope and offset of the line above it, and the slope of the one below, through
    zero."""
    positive = (z.least >= 0).double()
    slope = torch.where(z.bent, z.most / torch.where(z.bent, z.most - z.least, 1.0), positive)
    below = torch.where(z.bent, (z.most > -z.least).double(), positive)
    return slope, torch.where(z.bent, -slope * z.least, 0.0), below


def _least(value: Enclosed, own: Tensor, ball: Ball | None) -> Tensor:
    """(M, n): the least of ``own`` (M, n, *shape) times what is only enclosed, or is the input."""
    box = _sum(own.clamp(min=0), value.low) + _sum(own.clamp(max=0), value.high)
    assert value.made is not None
    if ball is None or not value.made.given:
        return box
    order = math.inf if ball.order == 1 else 2.0
    return torch.maximum(box, _sum(own, ball.centre) - ball.radius * own.flatten(2).norm(order, dim=2))
