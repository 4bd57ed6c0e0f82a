"""``columns.json``: every headline number and judgement of a run, exact, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tmlang.audit.claims import Judgement, formula
from tmlang.audit.columns import Column, Columns
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
        "repeats": [_column(column) for column in c.repeats],
        "contradictions": [asdict(x) for x in c.contradictions],
        "holds": c.holds,
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "numerator": column.numerator,
        "denominator": column.denominator,
        "low": exact(column.low),
        "high": exact(column.high),
        "gaps": {g.reason: g.units for g in column.gaps},
        "note": column.note,
        "interval": None if column.interval is None else list(column.interval),
    }


def _claim(j: Judgement) -> dict[str, Any]:
    return {
        "text": j.claim.text,
        "claim": formula(j.claim),
        "status": j.status,
        "low": exact(j.low),
        "high": exact(j.high),
        "rests_on": list(j.rests_on),
    }
