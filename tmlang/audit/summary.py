"""``columns.json``: every headline number and judgement of a run, exact, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from types import NoneType
from typing import Any

from tmlang.audit.claims import Judgement, formula
from tmlang.audit.columns import Column, Columns, Contradiction, Counts, Interval
from tmlang.audit.show import exact


def summary(columns: Mapping[str, Columns], judgements: Sequence[Judgement]) -> dict[str, Any]:
    """The form of ``columns.json`` (docs/bundle.md): shares as fractions in text, ``null`` where undefined."""
    return {
        "evaluations": {name: _evaluation(c) for name, c in columns.items()},
        "claims": [_claim(j) for j in judgements],
    }


def _evaluation(c: Columns) -> dict[str, Any]:
    return {
        "subject": c.subject,
        "units": c.units,
        "counts": asdict(c.counts),
        "columns": {column.name: _column(column) for column in c.columns},
        "attacks": {label: _column(column) for label, column in c.attacks},
        "alone": {label: _column(column) for label, column in c.alone},
        "repeats": [_column(column) for column in c.repeats],
        "corrupted": {f"{name} {severity}": _column(column) for (name, severity), column in c.corrupted},
        "contradictions": [asdict(x) for x in c.contradictions],
        "holds": c.holds,
        "note": c.note,
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "numerator": column.numerator,
        "denominator": column.denominator,
        "low": exact(column.low),
        "high": exact(column.high),
        "gaps": {g.reason: g.units for g in column.gaps},
        "note": column.note,
        "interval": interval_json(column.interval),
    }


def interval_json(interval: Interval | None) -> dict[str, Any] | None:
    """``{"low": 0.89, "high": 0.942, "level": "19/20", "method": "clopper_pearson"}``."""
    return None if interval is None else asdict(interval) | {"level": exact(interval.level)}


def _claim(j: Judgement) -> dict[str, Any]:
    return {
        "text": j.claim.text,
        "claim": formula(j.claim),
        "status": j.status,
        "low": exact(j.low),
        "high": exact(j.high),
        "rests_on": list(j.rests_on),
        "assumes": list(j.assumes),
    }


Form = Mapping[str, tuple[type, ...]]
_TEXT: tuple[type, ...] = (str,)
_WHOLE: tuple[type, ...] = (int,)
_MAYBE_TEXT: tuple[type, ...] = (str, NoneType)
_RANGE: Form = {"low": _MAYBE_TEXT, "high": _MAYBE_TEXT}
_COLUMN: Form = {
    **_RANGE,
    "numerator": _WHOLE,
    "denominator": _WHOLE,
    "gaps": (dict,),
    "note": _TEXT,
    "interval": (dict, NoneType),
}
_NUMBER: tuple[type, ...] = (float, int)
"""JSON writes 1.0 as 1."""
_INTERVAL: Form = {"low": _NUMBER, "high": _NUMBER, "level": _TEXT, "method": _TEXT}
_EVALUATION: Form = {
    "subject": _TEXT,
    "units": _TEXT,
    "counts": (dict,),
    "columns": (dict,),
    "attacks": (dict,),
    "alone": (dict,),
    "repeats": (list,),
    "corrupted": (dict,),
    "contradictions": (list,),
    "holds": _MAYBE_TEXT,
    "note": _TEXT,
}
_CONTRADICTION: Form = {f.name: (bool,) if f.name == "within_gap" else _TEXT for f in fields(Contradiction)}
_CLAIM: Form = {**_RANGE, "text": _TEXT, "claim": _TEXT, "status": _TEXT, "rests_on": (list,), "assumes": (list,)}
_COUNTS: Form = {f.name: _WHOLE for f in fields(Counts)}


def form_fault(told: Any) -> str | None:
    """Where ``told`` has not the form of :func:`summary`, if anywhere."""
    try:
        _objects({"columns.json": told}, {"evaluations": (dict,), "claims": (list,)})
        _objects(told["evaluations"], _EVALUATION)
        for name, e in told["evaluations"].items():
            _objects({f"{name}: counts": e["counts"]}, _COUNTS)
            for columns in (e["columns"], e["attacks"], e["alone"], e["corrupted"], dict(enumerate(e["repeats"]))):
                _objects(columns, _COLUMN)
                _objects({f"{k}: interval": c["interval"] for k, c in columns.items() if c["interval"]}, _INTERVAL)
            _objects(dict(enumerate(e["contradictions"])), _CONTRADICTION)
        _objects(dict(enumerate(told["claims"])), _CLAIM)
    except ValueError as fault:
        return str(fault)
    return None


def _objects(found: Mapping[Any, Any], form: Form) -> None:
    for name, value in found.items():
        if not isinstance(value, dict) or value.keys() != form.keys():
            raise ValueError(f"{name}: exactly {', '.join(form)} are needed")
        wrong = [key for key, kinds in form.items() if type(value[key]) not in kinds]
        if wrong:
            raise ValueError(f"{name}: {wrong[0]} is of another kind")
