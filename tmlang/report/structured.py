"""``report.json``: the view as data for other programs (docs/report.md), numbers exact and as the pages print them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from tmlang.base import canonical
from tmlang.report.compare import Comparison
from tmlang.report.view import View

REPORT, COMPARISON = "urn:tmlang:report:v1", "urn:tmlang:comparison:v1"


def structured(view: View | Comparison) -> bytes:
    """The view as canonical JSON (RFC 8785): its fields by their names, pictures apart."""
    schema = REPORT if isinstance(view, View) else COMPARISON
    return canonical.dumps({"schema": schema, **_plain(view)})


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        kept = (f.name for f in fields(value) if f.name not in ("pictures", "svg", "png"))
        return {name: _plain(getattr(value, name)) for name in kept}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value
