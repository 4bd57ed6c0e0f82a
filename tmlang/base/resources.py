"""Where the grammar and the standard library lie: beside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def resource(folder: str) -> Path:
    """The folder ``grammar`` or ``stdlib``."""
    inside = _PACKAGE / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder
