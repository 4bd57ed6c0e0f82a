"""What a box makes of a network's values, in real arithmetic and in the object's: enclosures, operation by operation.

The object is traced down to torch's own operations (ATen), whatever it was written in, and every value is enclosed
together with the error of its computed version (Higham: Accuracy and stability of numerical algorithms, 2nd ed. (2002),
sections 3.1 and 2.2): an inner product of ``n`` terms computed with unit roundoff ``u`` is off by at most
``gamma_n = n u / (1 - n u)`` times the inner product of the absolute values, in whatever order it is summed, fused or
not; what underflows adds at most the smallest normal number for each product. Every enclosure remembers what it was
made of, so that ``rounding`` can go back through the network. What this supposes is ``meaning.arithmetic.SUPPOSED``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from tmlang.backends.contract import BackendRefusal

Tensor = torch.Tensor
Map = Callable[..., Tensor]
aten = torch.ops.aten

ROUNDOFF = 2.0**-24
"""Of float32, rounding to nearest."""
UNDERFLOW = 2.0**-126
"""What one operation is off by where it underflows, numbers below the normal ones flushed to zero or not."""
SLACK = 2.0**-40
"""Share by which enclosures are widened for their own rounding in float64, at least."""
FUNCTION = 6
"""Roundoffs in a tanh or a sigmoid, 3 units in the last place. The libraries that torch calls state at most 1 for tanh
and exp (SLEEF's ``u10`` functions, MKL in its mode of high accuracy), and a sigmoid adds and divides once; libm's tanhf
is within 2.2 (Zimmermann: Accuracy of mathematical functions (2021), by exhaustion). That this torch stays below on all
float32 numbers is what ``tests/property/test_library_functions.py`` shows every night."""


def gamma(n: int) -> float:
    """The constant of an inner product of ``n`` terms (Higham, section 3.1)."""
    return n * ROUNDOFF / (1 - n * ROUNDOFF)


@dataclass(frozen=True, eq=False)
class Made:
    """How a value was made of ``parents``: by an affine map ``signed`` in real arithmetic (``absolute``: its linear
    part with absolute weights), or by a function, perhaps a ReLU, that grows with its one parent by at most ``bends``
    times as much. Without either only the enclosure is known, as of the input, which is ``given``."""

    parents: tuple[Enclosed, ...] = ()
    signed: Map | None = None
    absolute: Map | None = None
    bends: float | None = None
    rectifies: bool = False
    given: bool = False


@dataclass(frozen=True, eq=False)
class Enclosed:
    """Exact values within ``[low, high]``, the computed ones at most ``error`` away from them and within ``[least,
    most]``, which holds the exact ones too: each (n, *shape), float64. ``local``: what of the error was made in this
    place. ``made``: ``None`` for a number of the network. ``serial`` grows along the network."""

    low: Tensor
    high: Tensor
    error: Tensor
    local: Tensor
    least: Tensor
    most: Tensor
    made: Made | None = Made()
    serial: int = field(default_factory=count().__next__, init=False)

    @staticmethod
    def of(low: Tensor, high: Tensor, error: Tensor, local: Tensor, made: Made | None) -> Enclosed:
        return Enclosed(low, high, error, local, low - error, high + error, made)

    @property
    def reach(self) -> Tensor:
        """Bound of the absolute values that are computed with."""
        return torch.maximum(self.least.abs(), self.most.abs())

    @property
    def bent(self) -> Tensor:
        """Where a ReLU behind it bends."""
        return (self.least < 0) & (self.most > 0)

    def each(self, change: Map) -> Enclosed:
        """Under a map that chooses among the numbers that it is given, and zero."""
        low, high, error, least, most = (change(z) for z in (self.low, self.high, self.error, self.least, self.most))
        return Enclosed(low, high, error, torch.zeros_like(error), least, most, Made((self,), change, change))

    def greatest(self, change: Map) -> Enclosed:
        """Under a map that rounds nothing, grows with its argument and moves no further than that."""
        low, high, error, least, most = (change(z) for z in (self.low, self.high, self.error, self.least, self.most))
        return Enclosed(low, high, error, error, least, most)

    def rectified(self) -> Enclosed:
        """Under a ReLU. Nothing is left of the error where no value is positive."""
        low, high, least, most = (z.clamp(min=0) for z in (self.low, self.high, self.least, self.most))
        error = torch.where(self.most <= 0, 0.0, self.error)
        return Enclosed(
            low, high, error, torch.zeros_like(error), least, most, Made((self,), bends=1.0, rectifies=True)
        )

    def linear(self, signed: Map, absolute: Map, terms: int) -> Enclosed:
        """Under an affine map. ``absolute``: its linear part with absolute weights; ``terms``: roundings on the way."""
        constant = signed(torch.zeros_like(self.low)).abs()
        middle, half = signed((self.low + self.high) / 2), absolute((self.high - self.low) / 2)
        size = absolute(self.reach) + constant
        local = gamma(terms) * size + terms * UNDERFLOW
        error = absolute(self.error) + local
        slack = max(SLACK, terms * 2.0**-50) * size
        return Enclosed.of(middle - half - slack, middle + half + slack, error, local, Made((self,), signed, absolute))

    def plus(self, other: Enclosed) -> Enclosed:
        """One of the two may be a number."""
        low, high, error = self.low + other.low, self.high + other.high, self.error + other.error
        rounded = gamma(1) * (torch.maximum(low.abs(), high.abs()) + error)
        parents, fixed, errors = _parents((self, other))
        kept = sum((f for f in fixed if f is not None), torch.zeros((), dtype=torch.float64))

        def signed(*values: Tensor) -> Tensor:
            return sum(values, kept)

        local = sum(errors, rounded)
        return Enclosed.of(low, high, error + rounded, local, Made(parents, signed, signed))

    def negated(self) -> Enclosed:
        made = self.made and Made((self,), operator.neg, lambda z: z)
        return Enclosed(-self.high, -self.low, self.error, torch.zeros_like(self.error), -self.most, -self.least, made)

    def off_by(self, more: Tensor | float) -> Enclosed:
        """With a further rounding."""
        error, local = self.error + more, self.local + more
        return replace(self, error=error, local=local, least=self.least - more, most=self.most + more)

    def grown(self, change: Map, steepest: float = 1.0) -> Enclosed:
        """Under a function that grows, and nowhere faster than ``steepest``; its own rounding apart."""
        low, high, error = change(self.low), change(self.high), steepest * self.error
        low, high = low - SLACK * low.abs(), high + SLACK * high.abs()
        return Enclosed.of(low, high, error, torch.zeros_like(error), Made((self,), bends=steepest))


class Enclosing(fx.Interpreter):
    """Runs a graph of ATen operations on enclosures; what hangs on no input stays the tensor that it is. ``bent``: is
    given what goes into each ReLU, and may know more of it."""

    extra_traceback = False  # a refusal keeps its words

    def __init__(self, traced: fx.GraphModule, bent: Callable[[Enclosed], Enclosed]) -> None:
        super().__init__(traced)
        self._bent = bent

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is operator.getitem:
            return args[0][args[1]]
        operation = target.overloadpacket
        enclosed = [a for a in _flat(args) if isinstance(a, Enclosed)]
        if not enclosed:
            return _constant(target, args, kwargs)
        if operation is aten.relu:
            return self._bent(enclosed[0]).rectified()
        if operation in _REORDERING:
            return enclosed[0].each(lambda z: target(z, *args[1:], **kwargs))
        if operation not in _OPERATIONS:
            raise _unbounded(target)
        try:
            found = _OPERATIONS[operation](*args, **kwargs)
        except (TypeError, AttributeError) as unknown:  # arguments in a place or of a kind that is not expected
            raise _unbounded(target) from unknown
        reach = (found[0] if isinstance(found, tuple) else found).reach
        if not bool((reach <= torch.finfo(torch.float32).max).all()):
            raise BackendRefusal(f"`{_name(target)}` may overflow in this box")
        return found


def _flat(args: Any) -> list[Any]:
    return [a for arg in args for a in (arg if isinstance(arg, (list, tuple)) else [arg])]


def _name(target: Any) -> str:
    return str(target.overloadpacket.__name__)


def _unbounded(target: Any) -> BackendRefusal:
    return BackendRefusal(f"rounding in `{_name(target)}` is not bounded")


_REORDERING = {
    aten.view, aten._unsafe_view, aten.permute, aten.t, aten.transpose, aten.squeeze, aten.unsqueeze, aten.expand,
    aten.slice, aten.select, aten.index_select, aten.flip, aten.clone, aten.alias, aten.detach, aten.zeros_like,
}  # fmt: skip
"""They choose among the numbers that they are given, and zero."""


def _constant(target: Any, args: Any, kwargs: Any) -> Any:
    """Of numbers of the network alone: reordered, or whole."""
    found = target(*args, **kwargs)
    whole = isinstance(found, Tensor) and not found.is_floating_point()
    exact = _REORDERING | {aten.relu, aten.amax, aten.lift_fresh_copy, aten.zeros, aten.ones}
    if target.overloadpacket not in exact and not whole:
        raise _unbounded(target)
    return found


def _operand(value: Enclosed | Tensor | float) -> Enclosed:
    """What is added: a value, or a number. (A threshold that no float is stands here as its neighbour in float32, with
    which it compares alike, and in proofs as the one in float64: that is the slack.)"""
    if isinstance(value, Enclosed):
        return value
    exact, used = _number(value)
    error = (exact - used).abs() + SLACK * exact.abs()
    return Enclosed.of(exact, exact, error, error, None)


def _parents(values: Sequence[Enclosed]) -> tuple[tuple[Enclosed, ...], list[Tensor | None], list[Tensor]]:
    """Which of ``values`` hang on the input, the others in their places, and their errors."""
    fixed = [None if v.made else v.low for v in values]
    return tuple(v for v in values if v.made), fixed, [v.error for v in values if not v.made]


def _number(value: Tensor | float) -> tuple[Tensor, Tensor]:
    """(what is meant, what is computed with), float64: a number in code is no float32 before it is used."""
    if isinstance(value, Tensor):
        return value.double(), value.double()
    return torch.tensor(value, dtype=torch.float64), torch.tensor(value, dtype=torch.float32).double()


def _plus(a: Any, b: Any, alpha: int = 1) -> Enclosed:
    if alpha != 1:
        raise TypeError
    return _operand(a).plus(_operand(b))


def _minus(a: Any, b: Any, alpha: int = 1) -> Enclosed:
    return _plus(a, _operand(b).negated(), alpha)


def _times(a: Any, b: Any) -> Enclosed:
    value, number = (a, b) if isinstance(a, Enclosed) else (b, a)
    return _scaled(value, *_number(number))


def _divided(value: Enclosed, number: Any) -> Enclosed:
    exact, used = _number(number)
    return _scaled(value, 1 / exact, 1 / used)


def _scaled(value: Enclosed, exact: Tensor, used: Tensor) -> Enclosed:
    """Times a number, which is computed with as another. Two roundings: a kernel may divide first."""
    size, off = torch.maximum(exact.abs(), used.abs()), (exact - used).abs()
    return value.linear(lambda z: z * exact, lambda z: z * size, 2).off_by(off * value.reach)


def _equal(value: Enclosed, numbers: Tensor) -> Enclosed:
    """1 where a value equals a number, else 0: of values that are exact, as categories are."""
    if bool(value.error.any()):
        raise TypeError
    within = (value.low <= numbers) & (numbers <= value.high)
    found = within & (value.low == value.high)
    none = torch.zeros_like(found, dtype=torch.float64)
    return Enclosed.of(found.double(), within.double(), none, none, Made())


def _leaky(value: Enclosed, slope: float = 0.01) -> Enclosed:
    exact, used = _number(slope)
    if not 0 <= exact <= 1:
        raise TypeError
    off = gamma(1) * used + (exact - used).abs()
    return value.grown(lambda z: torch.maximum(z, z * exact)).off_by(off * value.reach + UNDERFLOW)


def _smooth(function: Callable[[Tensor], Tensor], steepest: float) -> Callable[[Enclosed], Enclosed]:
    """A function of a library that grows, and nowhere faster than ``steepest``."""

    def apply(value: Enclosed) -> Enclosed:
        moved = value.grown(function, steepest)
        return moved.off_by(gamma(FUNCTION) * moved.reach + UNDERFLOW)

    return apply


def _matrix(value: Enclosed, matrix: Tensor, bias: Tensor | None = None) -> Enclosed:
    weight, shift = matrix.double(), 0 if bias is None else bias.double()
    return value.linear(lambda z: z @ weight + shift, lambda z: z @ weight.abs(), len(matrix) + 1)


def _convolution(value: Enclosed, weight: Tensor, bias: Tensor | None, *shape: Any) -> Enclosed:
    if shape[3]:  # transposed
        raise TypeError
    kernel, shift = weight.double(), None if bias is None else bias.double()
    return value.linear(
        lambda z: aten.convolution(z, kernel, shift, *shape),
        lambda z: aten.convolution(z, kernel.abs(), None, *shape),
        weight[0].numel() + 1,
    )


def _normalized(
    value: Enclosed, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, *settings: Any
) -> tuple[Enclosed]:
    """``x a + (b - m a)`` with ``a = g / sqrt(v + eps)``: at most eight roundings on the way of any term."""
    *training, _, eps = settings
    if any(training):
        raise TypeError
    scale = 1 / (var.double() + eps).sqrt()
    scale = scale if weight is None else scale * weight.double()
    shift = torch.zeros_like(scale) if bias is None else bias.double()
    along = (1, -1, *[1] * (value.low.ndim - 2))
    moved = (mean.double() * scale).reshape(along)
    scale, shift = scale.reshape(along), shift.reshape(along)
    found = value.linear(lambda z: z * scale + shift - moved, lambda z: z * scale.abs(), 8)
    # Shift and mean may cancel in the constant: both are rounded at full length.
    return (found.off_by(gamma(8) * (shift.abs() + moved.abs())),)


def _averaged(operation: Any, count: Callable[..., int]) -> Callable[..., Enclosed]:
    """Sums and averages of ``count(value, …)`` numbers each; an average divides, or multiplies by a rounded share."""

    def apply(value: Enclosed, *args: Any, **kwargs: Any) -> Enclosed:
        def change(z: Tensor) -> Tensor:
            found: Tensor = operation(z, *args, **kwargs)
            return found

        return value.linear(change, change, count(value.low, *args) + 2)

    return apply


def _along(z: Tensor, dim: Any = None, *_: Any) -> int:
    if not dim or 0 in [d % z.ndim for d in dim]:  # over a batch, of which the evaluator has one row
        raise TypeError
    return math.prod(z.shape[d] for d in dim)


def _greatest(value: Enclosed, dim: Any = None, *args: Any) -> Enclosed:
    _along(value.low, dim)
    return value.greatest(lambda z: aten.amax(z, dim, *args))


def _window(_: Tensor, kernel: list[int], *__: Any) -> int:
    return kernel[0] * kernel[-1]


def _area(z: Tensor, *_: Any) -> int:
    return z.shape[-1] * z.shape[-2]


def _joined(operation: Any) -> Callable[..., Enclosed]:
    def apply(parts: list[Any], dim: int = 0) -> Enclosed:
        values = [_operand(part) for part in parts]
        parents, fixed, _ = _parents(values)

        def signed(*moving: Tensor) -> Tensor:
            left = iter(moving)
            found: Tensor = operation([next(left) if f is None else f for f in fixed], dim)
            return found

        def side(name: str) -> Tensor:
            found: Tensor = operation([getattr(v, name) for v in values], dim)
            return found

        own = operation([torch.zeros_like(v.error) if v.made else v.error for v in values], dim)
        return Enclosed.of(side("low"), side("high"), side("error"), own, Made(parents, signed, signed))

    return apply


def _converted(value: Enclosed, dtype: torch.dtype | None = None, **_: Any) -> Enclosed:
    if dtype not in (None, torch.float32):
        raise TypeError
    return value.off_by(gamma(1) * value.reach + UNDERFLOW)


_OPERATIONS: dict[Any, Callable[..., Any]] = {
    aten.add: _plus,
    aten.sub: _minus,
    aten.rsub: lambda a, b, alpha=1: _minus(b, a, alpha),
    aten.neg: Enclosed.negated,
    aten.mul: _times,
    aten.div: _divided,
    aten.mm: _matrix,
    aten.addmm: lambda bias, value, matrix: _matrix(value, matrix, bias),
    aten.convolution: _convolution,
    # As TorchScript has it: behind the shape stand switches of other devices.
    aten._convolution: lambda value, weight, bias, *shape: _convolution(value, weight, bias, *shape[:6]),
    aten.native_batch_norm: _normalized,
    aten._native_batch_norm_legit_no_training: _normalized,
    aten.eq: _equal,
    aten.leaky_relu: _leaky,
    aten.tanh: _smooth(torch.tanh, 1.0),
    aten.sigmoid: _smooth(torch.sigmoid, 0.25),
    aten.max_pool2d_with_indices: lambda value, *args: (value.greatest(lambda z: functional.max_pool2d(z, *args)),),
    aten.avg_pool2d: _averaged(aten.avg_pool2d, _window),
    aten._adaptive_avg_pool2d: _averaged(aten._adaptive_avg_pool2d, _area),
    aten.mean: _averaged(aten.mean, _along),
    aten.sum: _averaged(aten.sum, _along),
    aten.amax: _greatest,
    aten.cat: _joined(torch.cat),
    aten.stack: _joined(torch.stack),
    aten._to_copy: _converted,
}
"""ATen operation -> what it makes of an enclosure, and of its error."""
