"""What a transform makes of a picture: T(x; theta), one number for one, whoever works it out.

Pixel centres have whole coordinates and the centre of the picture is the centre of every part. Parameters ``theta`` are
float64 numbers, in the order of the parts: ``rotate`` the angle in degrees, counterclockwise as seen; ``translate`` the
pixels down, then to the right; ``scale`` s the factor 1 + s; ``shear`` the angle by which columns lean, each row going
right by the tangent times its distance below the centre; ``brightness`` what is added; ``contrast`` c the factor 1 + c
about the middle of a coordinate's range. Cosine, sine and tangent are the nearest float64 numbers. The parts that move
are composed in the order written into one affine map, and the picture, continued by ``fill`` beyond its edge, is
interpolated once where the inverse map leads: by the nearest pixel (halves upwards), bilinearly, or bicubically (Keys
1981, a = -1/2). Up to here everything is exact arithmetic. The result is rounded once to the nearest value of the space
(ties to even) and clipped into its range.

:func:`resample` is the same in float64, differentiable, with a bound of its error; :func:`transformed` takes from it
what the bound decides, and works the rest out in rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import floor, pi

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.domain import Domain, Indices, Values
from tmlang.backends.masks import image_axes
from tmlang.base.angles import cos_sin, tan
from tmlang.base.exact import round_nearest

Tensor = torch.Tensor

VALUES = ("brightness", "contrast")
"""The parts that change values and move nothing."""
_U = 2.0**-53
_ROWS = 128
"""Pictures that are worked on together."""
_HALF = Fraction(1, 2)


@dataclass(frozen=True, eq=False)
class Resampling:
    """The parts of a transform, over the pictures of one domain: ``parts`` by name, in order."""

    parts: tuple[str, ...]
    interpolate: str
    fill: Fraction
    domain: Domain

    @cached_property
    def axes(self) -> tuple[int, int, int | None]:
        """Rows, columns and channels among the axes of an input."""
        return image_axes(self.domain.space)

    @cached_property
    def frame(self) -> tuple[int, int]:
        """Height and width."""
        rows, columns, _ = self.axes
        shape = self.domain.space.shape
        return shape[rows], shape[columns]

    @cached_property
    def slots(self) -> tuple[tuple[str, int], ...]:
        """Every part with the index of its first parameter."""
        found, at = [], 0
        for part in self.parts:
            found.append((part, at))
            at += 2 if part == "translate" else 1
        return tuple(found)

    @property
    def border(self) -> float:
        """Where between two pixels others begin to count: at a whole place, or half-way for the nearest one."""
        return 0.5 if self.interpolate == "nearest" else 0.0

    @cached_property
    def middle(self) -> tuple[Fraction, ...]:
        """Per coordinate the middle of its range."""
        cells = [self.domain.space.cell(i) for i in range(self.domain.size)]
        return tuple((c.low + c.high) / 2 for c in cells)

    def planes(self, x: Tensor) -> Tensor:
        """Inputs (n, size) as (n, channels, height * width)."""
        shape = self.domain.space.shape
        rows, columns, channel = self.axes
        order = [a for a in (channel, rows, columns) if a is not None]
        return x.reshape(-1, *shape).permute(0, *(a + 1 for a in order)).reshape(len(x), -1, prod2(self.frame))

    @cached_property
    def order(self) -> Tensor:
        """(size,): where each flat coordinate stands in the planes."""
        where: Tensor = self.planes(torch.arange(self.domain.size)[None]).flatten()
        return torch.argsort(where)


def prod2(frame: tuple[int, int]) -> int:
    """Pixels of a picture."""
    return frame[0] * frame[1]


# In float64 -----------------------------------------------------------------------------------------------------------


def resample(how: Resampling, x: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """T before it is rounded, of inputs (n, size) float64 with parameters (n, p) float64, differentiable in both; and
    a bound of its error, infinite where the nearest pixel is not certain: (n, size) both.

    What is worked out is continuous in the place, with a slope of at most 16 times the pixels around it. Where rounding
    may have taken a place over a pixel's border, others than those that were looked at count: then the largest of all.
    """
    places, error = _places(how, theta)
    with torch.no_grad():
        at_border = (torch.stack([(p - torch.round(p + how.border) + how.border).abs() for p in places])).amin(dim=0)
        blurred = (at_border <= error[:, None]) & (error[:, None] > 0)
    value, size, near = _interpolated(how, how.planes(x), *places)
    with torch.no_grad():
        if how.interpolate == "nearest":
            bound = torch.where(blurred, torch.inf, 0.0)[:, None].expand_as(value)
        else:
            most = x.abs().amax(dim=1).clamp(min=abs(float(how.fill)))
            around = torch.where(blurred[:, None], most[:, None, None], near)
            bound = 256 * _U * size + 16 * error[:, None, None] * around
    return _values_changed(how, value.flatten(1)[:, how.order], bound.flatten(1)[:, how.order], theta)


def _values_changed(how: Resampling, value: Tensor, bound: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    for part, at in how.slots:
        if part == "brightness":
            value = value + theta[:, at, None]
        elif part == "contrast":
            middle = torch.tensor([float(m) for m in how.middle], dtype=torch.float64)
            value = middle + (1 + theta[:, at, None]) * (value - middle)
            bound = 2 * bound + 16 * _U * middle.abs()
        else:
            continue
        bound = bound + 16 * _U * value.detach().abs()
    return value, bound


def _places(how: Resampling, theta: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Where each pixel is taken from, (n, height * width) rows and columns, and a bound of the error of both (n,).
    A part that changes nothing has no error, nor has a shift whose sums are exact."""
    height, width = how.frame
    r, c = (torch.arange(k, dtype=torch.float64) - (k - 1) / 2 for k in (height, width))
    rows, columns = (m.flatten()[None].expand(len(theta), -1) for m in torch.meshgrid(r, c, indexing="ij"))
    fixed = theta.detach()
    reach = torch.full((len(theta),), max(height, width) / 2, dtype=torch.float64)
    error = torch.zeros_like(reach)
    for part, at in reversed(how.slots):
        t, size = theta[:, at, None], fixed[:, at]
        more, wider = error, reach
        if part == "rotate":
            cos, sin = torch.cos(t * (pi / 180)), torch.sin(t * (pi / 180))
            rows, columns = rows * cos + columns * sin, columns * cos - rows * sin
            more, wider = 2 * error + 64 * _U * reach, 2 * reach
        elif part == "translate":
            exact = _exact_difference(rows, t) & _exact_difference(columns, theta[:, at + 1, None])
            rows, columns = rows - t, columns - theta[:, at + 1, None]
            wider = reach + size.abs() + fixed[:, at + 1].abs()
            error, reach = torch.where(exact, error, error + 2 * _U * wider), wider
            continue
        elif part == "scale":
            rows, columns = rows / (1 + t), columns / (1 + t)
            wider = reach / (1 + size)
            more = error / (1 + size) + 8 * _U * wider
        elif part == "shear":
            lean = torch.tan(size * (pi / 180)).abs()
            columns = columns - torch.tan(t * (pi / 180)) * rows
            more, wider = error * (1 + lean) + 128 * _U * reach * (1 + lean**2), reach * (1 + lean)
        error, reach = (torch.where(size == 0, old, new) for old, new in ((error, more), (reach, wider)))
    middle = (height - 1) / 2, (width - 1) / 2
    exact = _exact_difference(rows, -middle[0]) & _exact_difference(columns, -middle[1])
    error = 2 * error + torch.where(exact, 0.0, 8 * _U * (reach + max(height, width)))
    return (rows + middle[0], columns + middle[1]), error


def _exact_difference(a: Tensor, b: Tensor | float) -> Tensor:
    """Whether ``a - b`` is exact in float64, for all of each row of ``a`` (n, m): (n,)."""
    a, b = a.detach(), torch.as_tensor(b, dtype=torch.float64).detach()
    difference = a - b
    other = difference - a
    # What rounding took away (Knuth, TAOCP volume 2, section 4.2.2, theorem B).
    return (((a - (difference - other)) - (b + other)) == 0).all(dim=1)


def _interpolated(how: Resampling, planes: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At places (n, height * width): values, the sum of the magnitudes that make them, and the largest of these,
    (n, channels, height * width) each."""
    height, width = how.frame
    (first_row, down), (first_column, across) = (_weights(how.interpolate, p) for p in (rows, columns))
    total, size, largest = (torch.zeros_like(planes) for _ in range(3))
    for i, a in enumerate(down):
        for j, b in enumerate(across):
            r, c = first_row + i, first_column + j
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            at = (r.clamp(0, height - 1) * width + c.clamp(0, width - 1)).to(torch.int64)
            pixel = planes.gather(2, at[:, None].expand(-1, planes.shape[1], -1))
            pixel = torch.where(inside[:, None], pixel, float(how.fill))
            term = (a * b)[:, None] * pixel
            total = total + term
            size = size + term.detach().abs()
            largest = torch.maximum(largest, pixel.detach().abs())
    return total, size, largest


def _weights(interpolate: str, place: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
    """The first pixel along one axis that counts, and the weight of it and of each one behind it."""
    if interpolate == "nearest":
        return torch.floor(place.detach() + 0.5), (torch.ones_like(place),)
    base = torch.floor(place.detach())
    f = place - base
    if interpolate == "bilinear":
        return base, (1 - f, f)
    near = [1 + d**2 * (1.5 * d - 2.5) for d in (f, 1 - f)]
    far = [2 + d * (-4 + d * (2.5 - 0.5 * d)) for d in (1 + f, 2 - f)]
    return base - 1, (far[0], near[0], near[1], far[1])


# Exactly --------------------------------------------------------------------------------------------------------------


def transformed(how: Resampling, x: Values, theta: NDArray[np.float64]) -> Values:
    """T(x; theta), exactly: values (n, size) of inputs (n, size) of the domain and parameters (n, p)."""
    out = np.empty_like(x)
    for start in range(0, len(x), _ROWS):
        part = slice(start, start + _ROWS)
        out[part] = _transformed(how, x[part], theta[part])
    return out


def _transformed(how: Resampling, x: Values, theta: NDArray[np.float64]) -> Values:
    k, _ = how.domain.indices(x)
    with torch.no_grad():
        near, error = resample(how, doubles(how.domain, x, k), torch.from_numpy(theta))

    def exact(i: int) -> Callable[[int], Fraction]:
        of = Exact.of(how, tuple(theta[i].tolist()))
        return lambda j: of.value(x[i], k[i], j)

    return settled(how.domain, near.numpy(), error.numpy(), exact)


def settled(
    domain: Domain,
    value: NDArray[np.float64],
    slack: NDArray[np.float64],
    exact: Callable[[int], Callable[[int], Fraction]],
) -> Values:
    """The values of the domain nearest to numbers (n, size) that are known to ``slack``; ``exact(i)(j)`` is the j-th of
    row i itself, asked for where that does not tell."""
    with np.errstate(invalid="ignore"):
        out, above = _rounded(domain, value - slack), _rounded(domain, value + slack)
        unsure = ~((out == above) & np.isfinite(slack))
    for i in np.flatnonzero(unsure.any(axis=1)):
        of_row = exact(int(i))
        for j in np.flatnonzero(unsure[i]):
            out[i, j] = _nearest(domain, int(j), of_row(int(j)))
    return out


def doubles(domain: Domain, x: Values, k: Indices) -> Tensor:
    """The numbers that inputs (n, size) with indices ``k`` stand for, each as the nearest float64."""
    out = x.astype(np.float64)
    for columns, lattice, _ in domain.groups:
        if lattice is not None:
            out[:, columns] = replace(lattice, dtype="float64").value(k[:, columns])
    return torch.from_numpy(out)


def _rounded(domain: Domain, value: NDArray[np.float64]) -> Values:
    """The nearest values of the domain, clipped into it."""
    out = np.empty(value.shape, domain.dtype)
    for columns, lattice, _ in domain.groups:
        if lattice is None:
            with np.errstate(over="ignore"):
                out[:, columns] = value[:, columns].astype(domain.grid).astype(domain.dtype)
        else:
            low, step = float(lattice.low), float(lattice.step)
            k = np.rint((value[:, columns] - low) / step)
            out[:, columns] = lattice.value(np.clip(np.nan_to_num(k), 0, lattice.last).astype(np.int64))
    clipped: Values = np.clip(out, domain.low, domain.high) + domain.dtype.type(0)
    return clipped


def _nearest(domain: Domain, coordinate: int, value: Fraction) -> float:
    """The value of a coordinate nearest to an exact number, ties to even, clipped into the range."""
    lattice = domain.lattice_at(coordinate)
    if lattice is None:
        rounded = round_nearest(value, domain.grid)
        return float(min(max(rounded, domain.low[coordinate]), domain.high[coordinate])) + 0.0
    k = min(max(round((value - lattice.low) / lattice.step), 0), lattice.last)
    return float(lattice.value(np.array([k]))[0])


@dataclass(frozen=True, eq=False)
class Exact:
    """One set of parameters in rationals; ``inverse``: ``((a, b), (c, d), (e, f))``, a pixel at (r, c) from the centre
    being taken from (a r + b c + e, c r + d c + f)."""

    how: Resampling
    theta: tuple[Fraction, ...]
    inverse: tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction], tuple[Fraction, Fraction]]

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(how: Resampling, theta: tuple[float, ...]) -> Exact:
        exact = tuple(map(Fraction, theta))
        one, none = Fraction(1), Fraction(0)
        rows, columns, shift = (one, none), (none, one), (none, none)
        for part, at in reversed(how.slots):
            t = exact[at]
            (a, b), (c, d), (e, f) = rows, columns, shift
            if part == "rotate":
                cos, sin = cos_sin(t)
                rows, columns = (cos * a + sin * c, cos * b + sin * d), (cos * c - sin * a, cos * d - sin * b)
                shift = cos * e + sin * f, cos * f - sin * e
            elif part == "translate":
                shift = e - t, f - exact[at + 1]
            elif part == "scale":
                rows, columns, shift = ((p / (1 + t), q / (1 + t)) for p, q in (rows, columns, shift))
            elif part == "shear":
                columns, shift = (c - tan(t) * a, d - tan(t) * b), (e, f - tan(t) * e)
        return Exact(how, exact, (rows, columns, shift))

    def value(self, x: Values, k: Indices, coordinate: int) -> Fraction:
        """T before it is rounded, at one flat coordinate of an input ``x`` (size,) with indices ``k``."""
        how = self.how
        place = list(map(int, np.unravel_index(coordinate, how.domain.space.shape)))
        down, across = (tuple(self.taps(axis, place[how.axes[0]], place[how.axes[1]])) for axis in (0, 1))
        total = Fraction(0)
        for row, a in down:
            for column, b in across:
                pixel = how.fill
                if 0 <= row < how.frame[0] and 0 <= column < how.frame[1]:
                    place[how.axes[0]], place[how.axes[1]] = row, column
                    pixel = how.domain.exact(x, k, int(np.ravel_multi_index(place, how.domain.space.shape)))
                total += a * b * pixel
        for part, at in how.slots:
            if part == "brightness":
                total += self.theta[at]
            elif part == "contrast":
                total = how.middle[coordinate] + (1 + self.theta[at]) * (total - how.middle[coordinate])
        return total

    def taps(self, axis: int, row: int, column: int) -> Iterator[tuple[int, Fraction]]:
        """The pixels along one axis that count for the pixel at (row, column), with their weights."""
        r, c = row - Fraction(self.how.frame[0] - 1, 2), column - Fraction(self.how.frame[1] - 1, 2)
        a, b = self.inverse[axis]
        place = a * r + b * c + self.inverse[2][axis] + Fraction(self.how.frame[axis] - 1, 2)
        if self.how.interpolate == "nearest":
            yield floor(place + _HALF), Fraction(1)
            return
        base = floor(place)
        first, taps = (base, 2) if self.how.interpolate == "bilinear" else (base - 1, 4)
        for k in range(first, first + taps):
            yield k, _kernel(self.how.interpolate, abs(place - k))


def _kernel(interpolate: str, d: Fraction) -> Fraction:
    """The weight of a pixel at distance ``d``: at most 1 for bilinear, at most 2 for bicubic."""
    if interpolate == "bilinear":
        return 1 - d
    if d <= 1:
        return 1 + d**2 * (Fraction(3, 2) * d - Fraction(5, 2))
    return 2 + d * (-4 + d * (Fraction(5, 2) - d / 2))
