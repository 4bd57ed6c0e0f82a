"""Where a thing stands in a spec."""

from __future__ import annotations

from tmlang.base.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters in one file.

    ``start`` and ``end`` are 0-based offsets into the text; lines and columns are 1-based and count
    characters (not bytes). ``end_line``/``end_column`` point just behind the last character.
    """

    file: str
    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of ``other`` (same file)."""
        return Span(self.file, self.start, other.end, self.line, self.column, other.end_line, other.end_column)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Span("", 0, 0, 1, 1, 1, 1)
"""The span of what no spec wrote (a recorded default of mechanics)."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one spec file. ``name`` is the path as the user would write it."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """Line ``number`` (1-based) without its newline; empty past the end."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""
