"""Sines, cosines and tangents of exact angles, each as the nearest float64: the same number on every machine."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from tmlang.base.exact import round_nearest

_BITS = 200
"""Bits to which a value is known before it is rounded; of an angle of few bits none lies so near to a tie."""


@lru_cache(maxsize=4096)
def cos_sin(degrees: Fraction) -> tuple[Fraction, Fraction]:
    """Cosine and sine of an angle in degrees, each rounded to the nearest float64."""
    turns = round(degrees / 90)
    cos, sin, bits = _circle(degrees - 90 * turns)
    for _ in range(turns % 4):
        cos, sin = -sin, cos
    return _nearest(Fraction(cos, 1 << bits)), _nearest(Fraction(sin, 1 << bits))


@lru_cache(maxsize=4096)
def tan(degrees: Fraction) -> Fraction:
    """Tangent of an angle between -90 and 90 degrees, rounded to the nearest float64."""
    turns = round(degrees / 90)
    cos, sin, _ = _circle(degrees - 90 * turns)
    return _nearest(Fraction(sin, cos) if turns == 0 else Fraction(-cos, sin))


def _nearest(value: Fraction) -> Fraction:
    return Fraction(round_nearest(value, "float64"))


def _circle(degrees: Fraction) -> tuple[int, int, int]:
    """Cosine and sine of at most 45 degrees as whole multiples of ``2 ** -bits``, and ``bits``: Taylor's series."""
    if not degrees:
        return 1, 0, 0
    # A small sine is as small as its angle, and is wanted to as many bits of its own.
    bits = _BITS + max(0, degrees.denominator.bit_length() - degrees.numerator.bit_length() + 7)
    half_turn = _pi(bits + 16)
    x = (half_turn * degrees.numerator) // (180 * degrees.denominator << 16)
    sums, term, n = [0, 0], 1 << bits, 0
    while term:
        sums[n % 2] += term if n % 4 < 2 else -term
        n += 1
        term = (term * x // n) >> bits
        if term == -1:  # what floors to it is nothing
            term = 0
    return sums[0], sums[1], bits


@lru_cache(maxsize=64)
def _pi(bits: int) -> int:
    """Pi in multiples of ``2 ** -bits`` (Machin 1706: pi / 4 = 4 arctan 1/5 - arctan 1/239)."""

    def arctan(inverse: int) -> int:
        power, total, n = (1 << bits + 16) // inverse, 0, 1
        while power:
            total += power // n if n % 4 == 1 else -(power // n)
            power //= inverse**2
            n += 2
        return total

    return (16 * arctan(5) - 4 * arctan(239)) >> 16
