"""Units of measurement, exactly.

A unit is a product of atoms with whole exponents: ``'kN'``, ``'ft/s'``, ``'m/s^2'``, ``'N*m'``. An atom is a length,
a mass, a currency … of its own *kind* with an exact factor to the reference of that kind. Two units convert if their
kinds are equal. A temperature in ``degC`` is on a shifted scale: its points and its differences have the
same unit, and it never converts to kelvin here, since nothing in the spec says which of the two is meant.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from tmlang.base.frozen import dataclass

_SI = {"n": -9, "u": -6, "m": -3, "c": -2, "d": -1, "h": 2, "k": 3, "M": 6, "G": 9}

# atom -> (kind, factor to the reference of the kind)
_ATOMS: dict[str, tuple[str, Fraction]] = {
    "s": ("time", Fraction(1)),
    "min": ("time", Fraction(60)),
    "h": ("time", Fraction(3600)),
    "day": ("time", Fraction(86400)),
    "in": ("length", Fraction(254, 10000)),
    "ft": ("length", Fraction(3048, 10000)),
    "mi": ("length", Fraction(1609344, 1000)),
    "nmi": ("length", Fraction(1852)),
    "t": ("mass", Fraction(1000)),
    "lb": ("mass", Fraction(45359237, 100000000)),
    "kt": ("speed", Fraction(1852, 3600)),
    "degC": ("temperature in degC", Fraction(1)),
    "degF": ("temperature in degF", Fraction(1)),
    "px": ("pixels", Fraction(1)),
    "levels": ("levels", Fraction(1)),
    "deg": ("angle in degrees", Fraction(1)),
    "rad": ("angle in radians", Fraction(1)),
    "year": ("calendar years", Fraction(1)),
    "month": ("calendar months", Fraction(1)),
    "bar": ("pressure", Fraction(100000)),
    "atm": ("pressure", Fraction(101325)),
    "mmHg": ("mmHg", Fraction(1)),
    "bpm": ("frequency", Fraction(1, 60)),
    "rpm": ("revolutions", Fraction(1)),
    "dB": ("decibels", Fraction(1)),
    "%": ("number", Fraction(1, 100)),
    "ppm": ("number", Fraction(1, 1000000)),
}

# symbols that take the prefixes of _SI
_PREFIXED: dict[str, tuple[str, Fraction]] = {
    "m": ("length", Fraction(1)),
    "g": ("mass", Fraction(1, 1000)),
    "s": ("time", Fraction(1)),
    "A": ("current", Fraction(1)),
    "K": ("temperature", Fraction(1)),
    "mol": ("amount", Fraction(1)),
    "cd": ("luminous intensity", Fraction(1)),
    "N": ("force", Fraction(1)),
    "Pa": ("pressure", Fraction(1)),
    "J": ("energy", Fraction(1)),
    "W": ("power", Fraction(1)),
    "V": ("voltage", Fraction(1)),
    "C": ("charge", Fraction(1)),
    "F": ("capacitance", Fraction(1)),
    "ohm": ("resistance", Fraction(1)),
    "Hz": ("frequency", Fraction(1)),
    "T": ("flux density", Fraction(1)),
    "lm": ("luminous flux", Fraction(1)),
    "lx": ("illuminance", Fraction(1)),
    "B": ("bytes", Fraction(1)),
    "bit": ("bits", Fraction(1)),
    "l": ("volume", Fraction(1, 1000)),
    "L": ("volume", Fraction(1, 1000)),
}

# kinds that are products of others: kind -> (kind, exponent) in base kinds
_DERIVED: dict[str, tuple[tuple[str, int], ...]] = {
    "speed": (("length", 1), ("time", -1)),
    "frequency": (("time", -1),),
    "force": (("mass", 1), ("length", 1), ("time", -2)),
    "pressure": (("mass", 1), ("length", -1), ("time", -2)),
    "energy": (("mass", 1), ("length", 2), ("time", -2)),
    "power": (("mass", 1), ("length", 2), ("time", -3)),
    "voltage": (("mass", 1), ("length", 2), ("time", -3), ("current", -1)),
    "charge": (("current", 1), ("time", 1)),
    "capacitance": (("mass", -1), ("length", -2), ("time", 4), ("current", 2)),
    "resistance": (("mass", 1), ("length", 2), ("time", -3), ("current", -2)),
    "flux density": (("mass", 1), ("time", -2), ("current", -1)),
    "illuminance": (("luminous flux", 1), ("length", -2)),
    "volume": (("length", 3),),
    "number": (),
}

_CURRENCIES = ("USD", "EUR", "GBP", "JPY", "CHF", "CNY", "INR", "AUD", "CAD", "SEK", "NOK", "DKK", "PLN", "BRL")

_FACTOR = re.compile(r"(%|[A-Za-z]+)(?:\^(-?[1-9]))?")

TIME_UNITS = ("s", "min", "h")
"""What a duration may be written in."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as written, with its kind (base kinds with exponents, sorted) and factor to the reference of the kind."""

    text: str
    kind: tuple[tuple[str, int], ...]
    factor: Fraction

    def describe(self) -> str:
        """The kind in words: ``length``, ``speed``, ``length^2/time``."""
        for name, base in _DERIVED.items():
            if tuple(sorted(base)) == self.kind:
                return name
        up = [_power(k, n) for k, n in self.kind if n > 0]
        down = [_power(k, -n) for k, n in self.kind if n < 0]
        return ("*".join(up) or "1") + "".join(f"/{d}" for d in down)


def _power(kind: str, exponent: int) -> str:
    return kind if exponent == 1 else f"{kind}^{exponent}"


def _atom(symbol: str) -> tuple[tuple[tuple[str, int], ...], Fraction] | None:
    """Base kinds and factor of one symbol."""
    kind_factor = _ATOMS.get(symbol) or _PREFIXED.get(symbol)
    if kind_factor is None and symbol[:1] in _SI and symbol[1:] in _PREFIXED:
        kind, factor = _PREFIXED[symbol[1:]]
        kind_factor = (kind, factor * Fraction(10) ** _SI[symbol[0]])
    if kind_factor is None and symbol in _CURRENCIES:
        kind_factor = (symbol, Fraction(1))
    if kind_factor is None:
        return None
    kind, factor = kind_factor
    return _DERIVED.get(kind, ((kind, 1),)), factor


@lru_cache(maxsize=256)
def parse_unit(text: str) -> Unit | None:
    """The unit that ``text`` writes, or ``None`` if some symbol in it is not known.

    ``a/b/c`` divides by both; ``*`` multiplies; ``^`` takes a whole exponent between -9 and 9.
    """
    kinds: dict[str, int] = {}
    factor = Fraction(1)
    for position, quotient in enumerate(text.split("/")):
        for part in quotient.split("*"):
            if part == "1" and position == 0:
                continue
            match = _FACTOR.fullmatch(part)
            found = _atom(match[1]) if match else None
            if match is None or found is None:
                return None
            power = int(match[2] or 1) * (1 if position == 0 else -1)
            factor *= found[1] ** power
            for kind, exponent in found[0]:
                kinds[kind] = kinds.get(kind, 0) + exponent * power
    return Unit(text, tuple(sorted((k, n) for k, n in kinds.items() if n)), factor)


def known_units() -> tuple[str, ...]:
    """Every symbol without its prefixes, and the prefixed ones in common use, for suggestions."""
    common = ("km", "cm", "mm", "um", "kg", "mg", "ug", "ms", "us", "kN", "kPa", "hPa", "MPa", "kW", "mV", "kHz", "MHz")
    return (*_ATOMS, *_PREFIXED, *_CURRENCIES, *common, "ft/s", "m/s", "km/h", "m/s^2")


def convert(value: Fraction, unit: Unit, to: Unit) -> Fraction | None:
    """``value`` in ``to``, exactly, or ``None`` if the two are of different kinds."""
    return value * unit.factor / to.factor if unit.kind == to.kind else None
