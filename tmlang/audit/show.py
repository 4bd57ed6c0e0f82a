"""Exact numbers as a reader sees them: one rounding rule for the terminal, the report and every reason."""

from __future__ import annotations

import math
from fractions import Fraction

from tmlang.audit.columns import Extent

DASH = "—"


def percent(value: Extent | None, decimals: int = 1) -> str:
    """A share as a percentage; a share that is not exactly none or all is never shown as 0 % or 100 %."""
    if value is None:
        return DASH
    share = Fraction(value)
    places = decimals
    while 0 < share < 1 and round(share * 100, places) in (0, 100) and places < 12:
        places += 1
    return f"{_decimal(share * 100, places)} %"


def number(value: Extent | None, digits: int = 4) -> str:
    """A distance or ratio to ``digits`` significant digits, exact where it is short; infinite as ``∞``."""
    if value is None:
        return DASH
    if isinstance(value, float) and math.isinf(value):
        return "∞"
    exact = Fraction(value)
    short = _decimal(exact, 12)
    if Fraction(short) == exact and len(short.lstrip("-0.")) <= digits:
        return short
    return f"{float(exact):.{digits}g}"


def interval(low: Extent | None, high: Extent | None, *, share: bool = True) -> str:
    """``[40.0 %, 52.0 %]`` or, of one value, ``40.0 %``."""
    show = percent if share else number
    return show(low) if low == high else f"[{show(low)}, {show(high)}]"


def exact(value: Extent | None) -> str | None:
    """The value as JSON text without loss: ``"13/25"``, ``"inf"``."""
    if value is None:
        return None
    return "inf" if isinstance(value, float) and math.isinf(value) else str(Fraction(value))


def _decimal(value: Fraction, places: int) -> str:
    """Decimal text with at most ``places`` digits behind the point (half to even), trailing zeros dropped past one."""
    scaled = round(value * 10**places)
    sign, digits = "-" if scaled < 0 else "", f"{abs(scaled):0{places + 1}d}"
    whole, part = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return f"{sign}{whole}.{part}" if part else f"{sign}{whole}"
