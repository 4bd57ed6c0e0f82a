"""Probabilistic certificates a second time, by another road: the radius from the draws that the rows tell.

The auditor's own reading of the theorem (Cohen, Rosenfeld, Kolter, ICML 2019), from the plan as plain JSON: nothing of
the code that gave the certificates is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import sqrt
from statistics import NormalDist
from typing import Any

from tmlang.audit.intervals import clopper_pearson_upper
from tmlang.audit.record import Record
from tmlang.audit.show import percent

Json = Mapping[str, Any]
_ROUNDING = 1 + 1e-8


def _rows(evaluation: Json, stage: Json, rows: Sequence[Record]) -> list[Record]:
    names = (stage["label"], f"{evaluation['name']}/{stage['label']}")
    return [r for r in rows if r.evaluation == evaluation["name"] and r.stage in names and r.draws is not None]


def confidence_note(evaluation: Json, rows: Sequence[Record]) -> str:
    """How sure the certificates of an evaluation are, in words; empty where none is probabilistic."""
    stages = [s for s in evaluation["stages"] if s["evidence"] == "probabilistic"]
    if not stages:
        return ""
    spent, proved = Fraction(0), set()
    errors: dict[str, Fraction] = {}
    for stage in stages:
        alpha = Fraction(dict(stage["arguments"])["alpha"])
        for row in _rows(evaluation, stage, rows):
            spent += alpha
            errors[row.unit] = errors.get(row.unit, Fraction(0)) + alpha
            if row.margin is not None:
                proved.add(row.unit)
    worst = max(errors.values(), default=Fraction(0))
    joint = "jointly at none" if spent >= 1 else f"all {len(errors)} jointly at {percent(1 - spent, 6)}"
    return f"each at {percent(1 - worst, 6)}, {joint}; {len(errors) - len(proved)} abstained"


def draw_faults(plan: Json, evaluation: Json, rows: Sequence[Record]) -> Iterator[str]:
    """Certificates that claim a longer radius than their draws prove."""
    subject = next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])
    for stage in evaluation["stages"]:
        if stage["evidence"] != "probabilistic":
            continue
        model = next(m for m in plan["models"] if m["name"] == subject["model"])
        sigma = Fraction(dict(model["steps"][0]["args"])["sigma"])
        size = _size(next(s for s in plan["spaces"] if s["name"] == model["space"]))
        arguments = dict(stage["arguments"])
        for row in _rows(evaluation, stage, rows):
            where = f"{evaluation['name']}, {row.unit}: `{stage['label']}`"
            assert row.draws is not None
            hits = row.draws - (row.errors or 0)
            proved = _radius(float(sigma), hits, row.draws, Fraction(arguments["alpha"])) * _ROUNDING
            if row.verdict == "certified" and row.draws != int(arguments["n"]):
                yield f"{where} certifies on {row.draws} of {arguments['n']} draws"
            claims = row.verdict == "certified" or row.radius is not None
            if claims and proved <= _needed(subject["allow"], row, size):
                yield f"{where} claims more than {hits} of {row.draws} draws prove, a radius of {proved:.6g}"


def _size(space: Json) -> int:
    size = 1
    for n in space["shape"]:
        size *= n
    return size


def _radius(sigma: float, hits: int, n: int, alpha: Fraction) -> float:
    above = clopper_pearson_upper(n - hits, n, alpha)
    return sigma * NormalDist().inv_cdf(1 - above) if above < 1 / 2 else 0.0


def _needed(allow: Json, row: Record, size: int) -> float:
    """The l2 radius that a row speaks for: its own, and the threat's where it certifies that."""
    if allow["is"] == "Either":
        names = [name or str(i) for i, name in enumerate(allow["names"] or [""] * len(allow["parts"]), 1)]
        return _needed(allow["parts"][names.index(row.branch)], row, size) if row.branch in names else float("inf")
    if allow["is"] != "Ball":
        radii = [_needed(part, row, size) for part in allow.get("parts", ()) if part["is"] == "Ball"]
        return min(radii, default=float("inf"))
    # A vector of length 1 in l1 is no longer in l2, one in linf at most the root of the number of coordinates.
    scale = {"l2": 1.0, "l1": 1.0, "l2_rms": sqrt(size), "linf": sqrt(size)}.get(allow["norm"])
    if scale is None:
        return float("inf")
    asked = float(Fraction(allow["radius"])) if row.verdict == "certified" else 0.0
    own = max(asked, row.radius or 0.0)
    return (own + float(Fraction(allow["tolerance"]))) * scale
