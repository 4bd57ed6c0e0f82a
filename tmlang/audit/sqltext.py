"""SQL as text. What a bundle says may be hostile: it stands in quotes, and never in a comment."""

from __future__ import annotations

from collections.abc import Iterable


def text(value: str) -> str:
    """A text as SQL writes it; a NUL, which no text of DuckDB holds, is left out."""
    return "'" + value.replace("\0", "").replace("'", "''") + "'"


def name(value: str) -> str:
    """The name of a table."""
    return '"' + value.replace("\0", "").replace('"', '""') + '"'


def double(value: float) -> str:
    """A float64, exactly: the shortest text that reads back as it."""
    return f"{value!r}::DOUBLE"


def texts(values: Iterable[str]) -> str:
    """A list of texts for ``IN``; of nothing one that holds nothing."""
    return "(" + (", ".join(map(text, values)) or "NULL") + ")"


def create(called: str, query: str) -> str:
    """A statement that makes a table for the time of the session."""
    return f"CREATE OR REPLACE TEMP TABLE {name(called)} AS\n{query};\n"
