"""Directed rounding of exact rationals to binary floating point (IEEE 754-2019, sections 3.3 and 4.3).

Numbers stay ``Fraction`` until the tensor door; these three functions are the door. Every result is a Python float
that the named format holds exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, ldexp


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: ``precision`` significant bits, subnormals spaced by ``2 ** least_exponent``."""

    precision: int
    least_exponent: int
    greatest: float


FORMATS = {
    "float16": Format(11, -24, 65504.0),
    "float32": Format(24, -149, ldexp(2**24 - 1, 104)),
    "float64": Format(53, -1074, ldexp(2**53 - 1, 971)),
}


def _scaled(q: Fraction, form: Format) -> tuple[Fraction, int]:
    """``(m, e)`` with ``q == m * 2**e``, where ``2**e`` is the spacing of the format's values around ``q``."""
    magnitude = abs(q)
    log = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** log:
        log -= 1
    exponent = max(log - form.precision + 1, form.least_exponent)
    return q / Fraction(2) ** exponent, exponent


@lru_cache
def round_down(q: Fraction, dtype: str) -> float:
    """The greatest value of ``dtype`` that is at most ``q`` (``-inf`` below all of them)."""
    form = FORMATS[dtype]
    if q >= Fraction(form.greatest):
        return form.greatest
    if q < -Fraction(form.greatest):
        return -inf
    m, e = _scaled(q, form)
    return ldexp(m.numerator // m.denominator, e)


def round_up(q: Fraction, dtype: str) -> float:
    """The least value of ``dtype`` that is at least ``q`` (``inf`` above all of them)."""
    return -round_down(-q, dtype) + 0.0


def round_nearest(q: Fraction, dtype: str) -> float:
    """The value of ``dtype`` nearest to ``q``, ties to even; beyond the format's range the greatest value."""
    form = FORMATS[dtype]
    if abs(q) >= Fraction(form.greatest):
        return form.greatest if q > 0 else -form.greatest
    m, e = _scaled(q, form)
    return ldexp(round(m), e)


def next_up(q: Fraction, dtype: str) -> float:
    """The least value of ``dtype`` above ``q``: half of the least spacing lies between no two values."""
    return round_up(q + Fraction(2) ** (FORMATS[dtype].least_exponent - 1), dtype)


def exact_decimal(value: Fraction) -> str:
    """``value`` without loss: a decimal where there is one, else a ratio."""
    denominator = value.denominator
    twos = (denominator & -denominator).bit_length() - 1
    denominator >>= twos
    fives = 0
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    if denominator != 1:
        return f"{value.numerator}/{value.denominator}"
    places = max(twos, fives)
    digits = f"{abs(value.numerator) * 10**places // value.denominator:0{places + 1}d}"
    whole, rest = (digits[:-places], digits[-places:]) if places else (digits, "")
    return ("-" if value < 0 else "") + whole + (f".{rest}" if rest else "")
