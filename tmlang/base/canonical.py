"""JSON in one form only: written as RFC 8785 lays down, read without second guesses.

What is signed or hashed is written here; what came from outside is read here: a key that stands twice, a number that
is none, nesting or length beyond bounds is refused rather than interpreted.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 256
_SAFE_INTEGER = 2**53


class NotCanonical(ValueError):
    """A value that has no canonical form, or a text that is no strict JSON."""


def dumps(value: Any) -> bytes:
    """``value`` (dicts with string keys, lists, tuples, strings, numbers, booleans, ``None``) as canonical UTF-8.

    Raises :class:`NotCanonical` for NaN, infinities, lone surrogates, other keys and whole numbers beyond 2**53.
    """
    try:
        return _text(value, 0).encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotCanonical("a lone surrogate has no UTF-8 form") from error


def loads(data: bytes, *, limit: int = MAX_BYTES) -> Any:
    """Strict reading of UTF-8 JSON; raises :class:`NotCanonical`."""
    if len(data) > limit:
        raise NotCanonical(f"longer than {limit} bytes")
    if _depth(data) > MAX_DEPTH:
        raise NotCanonical(f"nested deeper than {MAX_DEPTH}")
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_no_repetition,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except NotCanonical:
        raise
    except ValueError as error:
        raise NotCanonical(str(error)) from error


_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def _depth(data: bytes) -> int:
    """How deeply brackets nest, strings apart. The reader of the standard library recurses, and beyond the stack where
    some library has raised Python's own limit: depth is measured before it is asked."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for found in _BRACKETS.finditer(data):
        if found[0] in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in (b"]", b"}"):
            depth -= 1
    return deepest


def _text(value: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise NotCanonical(f"nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        if abs(value) > _SAFE_INTEGER:
            raise NotCanonical(f"{value} is beyond 2**53; write it as a string")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_text(item, depth + 1) for item in value)}]"
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise NotCanonical("a key is no string")
        ordered = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_text(key, 0)}:{_text(value[key], depth + 1)}" for key in ordered) + "}"
    raise NotCanonical(f"{type(value).__name__} has no JSON form")


def _number(value: float) -> str:
    """ECMAScript's shortest form (RFC 8785 section 3.2.2.3)."""
    if not math.isfinite(value):
        raise NotCanonical(f"{value} is no JSON number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, exponent = f"{abs(value)!r}e0".split("e")[:2]
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    # value = 0.digits * 10**point
    point = len(whole) + int(exponent) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def _no_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise NotCanonical(f"the key {twice!r} stands twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise NotCanonical(f"{text} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotCanonical(f"{text} is beyond the range of a double")
    return value


def _whole(text: str) -> float:
    """A whole number; beyond 2**53 a double, whose canonical form has no point below 1e21, and nothing else."""
    if len(text) <= 22:
        value = int(text)
        if abs(value) <= _SAFE_INTEGER:
            return value
        if _number(float(value)) == text:
            return float(value)
    raise NotCanonical(f"{text[:40]} is beyond 2**53")
