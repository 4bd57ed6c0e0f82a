"""Pictures that a transform is told to have made, made a second time (what T does: ``backends.resampling``).

The auditor's own reading: every pixel from 3 by 3 matrices of rationals, cosines from decimal series, and no value is
rounded: a stored one is asked whether any of its neighbours lies nearer to the exact one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor, isfinite

import numpy as np

from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Allowed, Transform, transforms

Point = Sequence[Fraction]
Matrix = list[list[Fraction]]
_PI = Decimal("3.141592653589793238462643383279502884197169399375105820974944592307816406286208998628034825342117068")
_DIGITS = 80


def shared_out(allow: Allowed | None, theta: Sequence[float] | None) -> dict[Transform, Sequence[float]]:
    """The parameters beside a candidate by the transform whose they are, in the order written; none where there are not
    as many as all transforms together have."""
    found: dict[Transform, Sequence[float]] = {}
    left = list(theta or ())
    for transform in transforms(allow):
        many = sum(2 if part == "translate" else 1 for part, _ in transform.parts)
        found[transform], left = left[:many], left[many:]
        if len(found[transform]) != many:
            return {}
    return {} if left else found


def made_by(space: Space, transform: Transform, original: Point, candidate: Point, theta: Sequence[float]) -> bool:
    """Whether ``theta`` is allowed, and makes this candidate of the original."""
    named = _named(transform, theta)
    if named is None or not all(_allowed(value, most, step) for _, value, most, step in named):
        return False
    rows, columns = (axis for axis in range(3) if axis != space.channel_axis)
    frame = space.shape[rows], space.shape[columns]
    back = _backward([(name, Fraction(value)) for name, value, _, _ in named], frame)
    for i, stored in enumerate(candidate):
        place = [int(p) for p in np.unravel_index(i, space.shape)]
        exact = Fraction(0)
        for row, column, weight in taps(transform.interpolate, back, (place[rows], place[columns])):
            pixel = transform.fill
            if 0 <= row < frame[0] and 0 <= column < frame[1]:
                place[rows], place[columns] = row, column
                pixel = original[int(np.ravel_multi_index(tuple(place), space.shape))]
            exact += weight * pixel
        cell = space.cell(i)
        for name, value, _, _ in named:
            exact += Fraction(value) if name == "brightness" else 0
            exact += Fraction(value) * (exact - (cell.low + cell.high) / 2) if name == "contrast" else 0
        if not is_nearest(space, cell, stored, exact):
            return False
    return True


def _named(transform: Transform, theta: Sequence[float]) -> list[tuple[str, float, Fraction, Fraction | None]] | None:
    """(part, value, greatest magnitude, step) of every parameter; ``None`` where there are not as many."""
    steps = transform.steps or (None,) * len(transform.parts)
    asked = [
        (name, most.value, step)
        for (part, most), step in zip(transform.parts, steps, strict=True)
        for name in (["down", "right"] if part == "translate" else [part])
    ]
    if len(asked) != len(theta):
        return None
    return [(name, value, most, step) for (name, most, step), value in zip(asked, theta, strict=True)]


def _allowed(value: float, most: Fraction, step: Fraction | None) -> bool:
    if not isfinite(value):
        return False
    if step is None:
        return -most <= Fraction(value) <= most
    whole = round(Fraction(value) / step) * step
    return -most <= whole <= most and whole.numerator / whole.denominator == value


# Where pixels come from ----------------------------------------------------------------------------------------------


def _backward(named: Sequence[tuple[str, Fraction]], frame: tuple[int, int]) -> Matrix:
    """From a pixel (row, column, 1) of the picture that was made to its place in the original."""
    centre = Fraction(frame[0] - 1, 2), Fraction(frame[1] - 1, 2)
    return backward(named, centre, centre)


def backward(
    named: Sequence[tuple[str, Fraction]], there: tuple[Fraction, Fraction], here: tuple[Fraction, Fraction]
) -> Matrix:
    """From a pixel to its place in what was moved about ``here`` in the picture, and lies about ``there`` itself."""
    total = _shift(*there)
    for name, value in named:
        total = _times(total, _undone(name, value))
    return _times(total, _shift(-here[0], -here[1]))


def _undone(name: str, value: Fraction) -> Matrix:
    if name == "rotate":
        cos, sin = _cos_sin(value)
        return _matrix(cos, sin, -sin, cos)
    if name == "shear":
        return _matrix(1, 0, -_tan(value), 1)
    if name == "scale":
        return _matrix(1 / (1 + value), 0, 0, 1 / (1 + value))
    return {"down": _shift(-value, Fraction(0)), "right": _shift(Fraction(0), -value)}.get(name, _matrix(1, 0, 0, 1))


def _matrix(a: Fraction | int, b: Fraction | int, c: Fraction | int, d: Fraction | int) -> Matrix:
    return [
        [Fraction(a), Fraction(b), Fraction(0)],
        [Fraction(c), Fraction(d), Fraction(0)],
        [Fraction(0)] * 2 + [Fraction(1)],
    ]


def _shift(down: Fraction, right: Fraction) -> Matrix:
    one, none = Fraction(1), Fraction(0)
    return [[one, none, down], [none, one, right], [none, none, one]]


def _times(a: Matrix, b: Matrix) -> Matrix:
    return [
        [sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0)) for column in zip(*b, strict=True)]
        for row in a
    ]


def taps(interpolate: str, back: Matrix, pixel: tuple[int, int]) -> Iterator[tuple[int, int, Fraction]]:
    """The pixels of the original that one pixel is made of, with their weights."""
    at = [line[0] * pixel[0] + line[1] * pixel[1] + line[2] for line in back[:2]]
    if interpolate == "nearest":
        yield floor(at[0] + Fraction(1, 2)), floor(at[1] + Fraction(1, 2)), Fraction(1)
        return
    more = 0 if interpolate == "bilinear" else 1
    near = [range(floor(p) - more, floor(p) + 2 + more) for p in at]
    for row in near[0]:
        for column in near[1]:
            weight = _weight(interpolate, abs(at[0] - row)) * _weight(interpolate, abs(at[1] - column))
            if weight:
                yield row, column, weight


def _weight(interpolate: str, d: Fraction) -> Fraction:
    """Linear: a tent. Cubic (Keys 1981, equation 15): in Horner's order of the published polynomials."""
    if interpolate == "bilinear":
        return max(1 - d, Fraction(0))
    if d >= 2:
        return Fraction(0)
    low = (Fraction(3, 2), Fraction(-5, 2), Fraction(0), Fraction(1))
    high = (Fraction(-1, 2), Fraction(5, 2), Fraction(-4), Fraction(2))
    total = Fraction(0)
    for factor in low if d < 1 else high:
        total = total * d + factor
    return total


# Angles --------------------------------------------------------------------------------------------------------------


def _cos_sin(degrees: Fraction) -> tuple[Fraction, Fraction]:
    cos, sin = _series(degrees)
    return Fraction(float(cos)), Fraction(float(sin))


def _tan(degrees: Fraction) -> Fraction:
    with localcontext(prec=_DIGITS):
        cos, sin = _series(degrees)
        return Fraction(float(sin / cos))


def _series(degrees: Fraction) -> tuple[Decimal, Decimal]:
    """Cosine and sine to some 70 digits; whole quarter turns are taken off first, and are exact."""
    turns = round(degrees / 90)
    rest = degrees - 90 * turns
    with localcontext(prec=_DIGITS):
        x = Decimal(rest.numerator) / Decimal(rest.denominator) * _PI / 180
        cos, sin, term, n = Decimal(1), x, x, 1
        while n < 80 and term:
            term *= x / (n + 1)
            n += 1
            if n % 2:
                sin += term if n % 4 == 1 else -term
            else:
                cos += term if n % 4 == 0 else -term
    quarter = {0: (cos, sin), 1: (-sin, cos), 2: (-cos, -sin), 3: (sin, -cos)}
    return quarter[turns % 4]


# Rounding ------------------------------------------------------------------------------------------------------------


def is_nearest(space: Space, cell: Cell, stored: Fraction, exact: Fraction) -> bool:
    """Whether a stored value is the one of the space nearest to an exact number, within its range, ties to even."""
    if cell.step is not None:
        last = floor((cell.high - cell.low) / cell.step)
        inside = min(max(exact, cell.low), cell.low + last * cell.step)
        twice = 2 * (inside - stored) / cell.step
        return abs(twice) < 1 or (abs(twice) == 1 and ((stored - cell.low) / cell.step) % 2 == 0)
    grid = np.float16 if space.delivery is not None else np.dtype(space.dtype).type
    own = grid(float(stored))
    below, above = (Fraction(float(np.nextafter(own, grid(way)))) for way in (-np.inf, np.inf))
    if (exact >= stored and above > cell.high) or (exact <= stored and below < cell.low):
        return True
    gap = min(abs(exact - below), abs(exact - above))
    off = abs(exact - stored)
    return off < gap or (off == gap and int.from_bytes(own.tobytes(), "little") % 2 == 0)
