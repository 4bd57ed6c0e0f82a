"""Of which properties no input is spoken, a second time: from the plan's JSON, by walking from float to float."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np

Json = Mapping[str, Any]
Bounds = list[tuple[str, Fraction]]


def faults(plan: Json) -> list[str]:
    """Properties of which the plan says something else than their own bounds do."""
    told = [(s, of_property(plan, s)) for s in plan["subjects"] if s["is"] == "Property"]
    return [
        f"{s['name']} is told to speak of {'no' if s['empty'] else 'some'} input, and its bounds say otherwise"
        for s, empty in told
        if (s["empty"] is not None) != empty
    ]


def of_property(plan: Json, subject: Json) -> bool:
    """Whether no input obeys the bounds of a property."""
    model = next(m for m in plan["models"] if m["name"] == subject["model"])
    space = next(s for s in plan["spaces"] if s["name"] == model["space"])
    bounds: dict[str, Bounds] = {}
    for name, op, value in subject["given"]:
        bounds.setdefault(name, []).append((op, Fraction(value)))
    return any(_holds_nothing(space, name, own) for name, own in bounds.items())


def _holds_nothing(space: Json, name: str, own: Bounds) -> bool:
    cell = space["cells"][space["features"].index(name)]
    low, high = Fraction(cell["low"]), Fraction(cell["high"])
    delivery = space["delivery"] or {"codec": None}
    step = Fraction(cell["step"]) if cell["step"] else None
    start = low
    if step is None and delivery["codec"] == "png" and high > low:
        step = (high - low) / 255
    if step is None and delivery["codec"] == "rounded":
        step, start = Fraction(delivery["step"]), Fraction(0)
    lower = [(">=", low), *((op.replace("==", ">="), v) for op, v in own if op[0] in ">=")]
    upper = [("<=", high), *((op.replace("==", "<="), v) for op, v in own if op[0] in "<=")]
    if step is not None:
        return _no_level(lower, upper, start, step)
    return _no_float(lower, upper, "float16" if delivery["codec"] == "float16" else space["dtype"])


def _no_level(lower: Bounds, upper: Bounds, start: Fraction, step: Fraction) -> bool:
    least = max(floor((v - start) / step) + 1 if op == ">" else ceil((v - start) / step) for op, v in lower)
    most = min(ceil((v - start) / step) - 1 if op == "<" else floor((v - start) / step) for op, v in upper)
    return least > most


def _no_float(lower: Bounds, upper: Bounds, dtype: str) -> bool:
    kind = np.dtype(dtype).type

    def above(v: Any) -> bool:
        return all(Fraction(float(v)) > edge if op == ">" else Fraction(float(v)) >= edge for op, edge in lower)

    with np.errstate(over="ignore"):
        x = kind(float(max(edge for _, edge in lower)))
        x = np.clip(x, np.finfo(kind).min, np.finfo(kind).max)
        while above(x) and x > np.finfo(kind).min:
            x = np.nextafter(x, kind(-np.inf))
        while not above(x):
            x = np.nextafter(x, kind(np.inf))
            if np.isinf(x):
                return True
    return not all(Fraction(float(x)) < edge if op == "<" else Fraction(float(x)) <= edge for op, edge in upper)
