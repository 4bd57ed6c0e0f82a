"""The steps of LANGUAGE.md section 4 as torch modules: what stands between the attacker and the network.

Every step maps a batch (n, *shape) to a batch and treats rows independently. A step without a gradient offers
``surrogate``, the function whose gradient ``through straight_through`` uses in its place (backward pass differentiable
approximation; Athalye, Carlini and Wagner, ICML 2018, section 4.1). Float semantics are part of the attacked object and
stand in each docstring; constants are the exact numbers of the spec
rounded to float64 and then to the network's dtype, as a literal in Python code would be.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor


@dataclass(frozen=True)
class Layout:
    """What a step's input looks like: ``shape`` of one row, the axis of ``shape`` along which a vector of numbers lies
    (channels or features; ``None`` when there is none), and the names along it where they have any."""

    shape: tuple[int, ...]
    axis: int | None = None
    names: tuple[str, ...] = ()

    @property
    def width(self) -> int | None:
        """How many numbers a per-channel (per-feature) vector has."""
        return None if self.axis is None else self.shape[self.axis]


class Step(nn.Module):
    """A step. ``differentiable``: autograd gives its gradient. ``random``: it draws (see :meth:`reseed`)."""

    differentiable = True
    random = False

    def out(self, layout: Layout) -> Layout:
        """The layout of what it returns."""
        return layout

    def surrogate(self, x: Tensor) -> Tensor:
        """A differentiable function of the same shapes, for attacks that go through this step."""
        return self(x)  # type: ignore[no-any-return]


def vector(values: Fraction | Sequence[Fraction], layout: Layout) -> Tensor:
    """A number, or one per channel or feature, shaped to broadcast over (n, *shape); float64 until the whole object is
    cast to the network's dtype."""
    if isinstance(values, Fraction):
        return torch.tensor(float(values), dtype=torch.float64)
    assert layout.axis is not None
    shape = [1] * len(layout.shape)
    shape[layout.axis] = len(values)
    return torch.tensor([float(v) for v in values], dtype=torch.float64).reshape(shape)


class Affine(Step):
    """``(x - subtract) / divide * multiply + add``: each operation given is one rounding in the dtype of ``x``, in this
    order; operations that are not given do not happen. ``normalize`` subtracts and divides, ``denormalize`` multiplies
    and adds, ``scale(p/q)`` with ``p = 1`` divides by ``q`` and else multiplies by the float nearest ``p/q``.
    """

    subtract: Tensor | None
    divide: Tensor | None
    multiply: Tensor | None
    add: Tensor | None

    def __init__(self, **operations: Tensor) -> None:
        super().__init__()
        for name in ("subtract", "divide", "multiply", "add"):
            self.register_buffer(name, operations.get(name))

    def forward(self, x: Tensor) -> Tensor:
        if self.subtract is not None:
            x = x - self.subtract
        if self.divide is not None:
            x = x / self.divide
        if self.multiply is not None:
            x = x * self.multiply
        if self.add is not None:
            x = x + self.add
        return x


def scale(factor: Fraction) -> Affine:
    """``scale(1/255)``: for a factor 1/q a division by q, as image libraries do it (one correct rounding of x/q)."""
    if factor.numerator == 1:
        return Affine(divide=torch.tensor(float(factor.denominator), dtype=torch.float64))
    return Affine(multiply=torch.tensor(float(factor), dtype=torch.float64))


class Clip(Step):
    """``clip(low, high)``, componentwise; the gradient is zero outside."""

    def __init__(self, low: Fraction, high: Fraction) -> None:
        super().__init__()
        self.low, self.high = float(low), float(high)

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high)


class Permute(Step):
    """``permute(hwc, chw)``: reorder the axes of a picture."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__()
        self.order = [before.index(c) for c in after]
        self.axis = after.index("c")

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, *[1 + i for i in self.order])

    def out(self, layout: Layout) -> Layout:
        return Layout(tuple(layout.shape[i] for i in self.order), self.axis)


class ReverseChannels(Step):
    """``channels(bgr)`` of an RGB picture, and the other way round."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(1 + self.axis)


class Resize(Step):
    """``resize(height, width, filter)`` of a (c, h, w) picture by ``torch.nn.functional.interpolate``: corners not
    aligned, and like Pillow it averages over the source when it shrinks (``antialias``)."""

    def __init__(self, height: int, width: int, filter: str) -> None:
        super().__init__()
        self.size, self.filter = (height, width), filter

    def forward(self, x: Tensor) -> Tensor:
        if self.filter == "nearest":
            return functional.interpolate(x, self.size, mode="nearest-exact")
        return functional.interpolate(x, self.size, mode=self.filter, align_corners=False, antialias=True)

    def out(self, layout: Layout) -> Layout:
        return replace(layout, shape=(layout.shape[0], *self.size))


class Crop(Step):
    """``crop(top, left, height, width)`` of a (c, h, w) picture."""

    def __init__(self, top: int, left: int, height: int, width: int) -> None:
        super().__init__()
        self.window = (top, left, height, width)

    def forward(self, x: Tensor) -> Tensor:
        top, left, height, width = self.window
        return x[..., top : top + height, left : left + width]

    def out(self, layout: Layout) -> Layout:
        return replace(layout, shape=(*layout.shape[:-2], *self.window[2:]))


class Pad(Step):
    """``pad(by, fill)``: ``by`` pixels of value ``fill`` on every side of a (c, h, w) picture."""

    def __init__(self, margin: int, fill: Fraction) -> None:
        super().__init__()
        self.margin, self.fill = margin, float(fill)

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x, [self.margin] * 4, value=self.fill)

    def out(self, layout: Layout) -> Layout:
        *front, h, w = layout.shape
        return replace(layout, shape=(*front, h + 2 * self.margin, w + 2 * self.margin))


class OneHot(Step):
    """``one_hot(feature)``: the column that holds a category's position becomes one 0/1 column per category, in place.

    The surrogate is ``max(0, 1 - |x - k|)``, which equals it on whole positions.
    """

    differentiable = False

    def __init__(self, column: int, categories: Sequence[str], feature: str) -> None:
        super().__init__()
        self.column, self.feature, self.categories = column, feature, tuple(categories)
        self.register_buffer("positions", torch.arange(len(categories), dtype=torch.float32))
        self.positions: Tensor

    def _replace(self, x: Tensor, columns: Tensor) -> Tensor:
        return torch.cat([x[:, : self.column], columns.to(x.dtype), x[:, self.column + 1 :]], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        return self._replace(x, x[:, self.column, None] == self.positions)

    def surrogate(self, x: Tensor) -> Tensor:
        return self._replace(x, (1 - (x[:, self.column, None] - self.positions).abs()).clamp(min=0))

    def out(self, layout: Layout) -> Layout:
        new = tuple(f"{self.feature}={c}" for c in self.categories)
        names = (*layout.names[: self.column], *new, *layout.names[self.column + 1 :])
        return Layout((len(names),), 0, names)


class Quantize(Step):
    """``quantize(levels: L)`` of values in [0, 1]: ``round(x (L - 1)) / (L - 1)``, halves to even.

    Surrogate: the identity.
    """

    differentiable = False

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.top = float(levels - 1)

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.top).round() / self.top

    def surrogate(self, x: Tensor) -> Tensor:
        return x


class Jpeg(Step):
    """``jpeg(quality, subsampling)`` of a (3, h, w) or (1, h, w) picture in [0, 1]: bytes ``round(255 x)``, encoded and
    decoded by Pillow, divided by 255. Surrogate: identity."""

    differentiable = False
    SUBSAMPLING: Mapping[str, int] = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}

    def __init__(self, quality: int, subsampling: str) -> None:
        super().__init__()
        self.quality, self.subsampling = quality, self.SUBSAMPLING[subsampling]

    def forward(self, x: Tensor) -> Tensor:
        pixels = (x.detach() * 255).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()
        rows = np.stack([self._one(picture) for picture in pixels])
        return torch.from_numpy(rows).permute(0, 3, 1, 2).to(x.dtype) / 255

    def _one(self, picture: np.ndarray) -> np.ndarray:
        from PIL import Image

        grey = picture.shape[2] == 1
        buffer = io.BytesIO()
        image = Image.fromarray(picture[..., 0] if grey else picture)
        image.save(buffer, "JPEG", quality=self.quality, subsampling=self.subsampling)
        return np.asarray(Image.open(buffer)).reshape(picture.shape)

    def surrogate(self, x: Tensor) -> Tensor:
        return x


class MeanFilter(Step):
    """``mean_filter(k)``: every pixel of a (c, h, w) picture becomes the mean of its k by k window (k odd), the edge
    reflected."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        padded = functional.pad(x, [self.size // 2] * 4, mode="reflect")
        return functional.avg_pool2d(padded, self.size, stride=1)


class MedianFilter(Step):
    """``median_filter(size)``: the median of the ``size`` by ``size`` window (odd), the edge reflected. Its gradient
    goes to the pixel that is the median."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        padded = functional.pad(x, [self.size // 2] * 4, mode="reflect")
        windows = padded.unfold(-2, self.size, 1).unfold(-2, self.size, 1)
        return windows.flatten(-2).median(dim=-1).values


class Softmax(Step):
    """``softmax()`` over the classes, behind the network."""

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(dim=1)


class Noise(Step):
    """``noise(kind, sigma)``: ``gaussian`` with standard deviation ``sigma`` or ``uniform`` in ``[-sigma, sigma]``, a
    number or one per feature, added without clipping.

    Draws come from the step's own generator. With ``fixed`` every request starts from the same seed, so every row of
    every batch gets the same draw.
    """

    random = True

    def __init__(self, kind: str, amount: Tensor, fixed: int | None) -> None:
        super().__init__()
        self.kind, self.fixed = kind, fixed
        self.register_buffer("amount", amount)
        self.amount: Tensor
        self.generator = torch.Generator()

    def reseed(self, seed: int) -> None:
        """Start the stream of draws anew."""
        self.generator.manual_seed(seed)

    def forward(self, x: Tensor) -> Tensor:
        shape = x.shape
        if self.fixed is not None:
            self.generator.manual_seed(self.fixed)
            shape = torch.Size((1, *x.shape[1:]))
        if self.kind == "gaussian":
            draw = torch.randn(shape, generator=self.generator, dtype=x.dtype)
        else:
            draw = torch.rand(shape, generator=self.generator, dtype=x.dtype) * 2 - 1
        return x + draw * self.amount


class _ValueOf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, soft: Tensor, exact: Tensor) -> Tensor:  # noqa: ARG004
        return exact.clone()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ARG004
        return gradients[0], None


def value_of(soft: Tensor, exact: Tensor) -> Tensor:
    """Exactly the value of ``exact`` (no rounding of a difference), with the gradient of ``soft``."""
    value: Tensor = _ValueOf.apply(soft, exact)  # type: ignore[no-untyped-call]
    return value


class StraightThrough(Step):
    """A step with its own values and its surrogate's gradient."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and x.requires_grad):
            return self.step(x)  # type: ignore[no-any-return]
        with torch.no_grad():
            exact = self.step(x)
        return value_of(self.step.surrogate(x), exact)
