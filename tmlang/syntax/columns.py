"""Claims in columns: what the author lined up in a run of claims stays lined up."""

from __future__ import annotations

import itertools

from tmlang.base.frozen import dataclass
from tmlang.syntax import ast
from tmlang.syntax.spell import CLOSE, OPEN, WIDTH, maybe, spell, width_of, words


def claim_rows(declarations: tuple[ast.Declaration, ...]) -> dict[int, str]:
    """The text, with break marks, of every claim of a run of claims, by its number among the declarations."""
    made: dict[int, str] = {}
    claims = [(n, d) for n, d in enumerate(declarations) if isinstance(d, ast.Claim)]
    for _, run in itertools.groupby(enumerate(claims), key=lambda place: place[0] - place[1][0]):
        members = [claim for _, claim in run]
        if len(members) > 1:
            made.update(zip((n for n, _ in members), _run([d for _, d in members]), strict=True))
    return made


def claim_row(node: ast.Claim) -> str:
    """The text, with break marks, of a claim by itself."""
    return _Row(node).text(0, 0)


def _run(nodes: list[ast.Claim]) -> list[str]:
    rows = [_Row(node) for node in nodes]
    written = {row.written_column for row in rows}
    longest = max(len(row.head) for row in rows)
    kept = len(written) == 1 and min(written) > longest
    column = min(written) if kept else longest + 2
    places = [row.written_comparison(column) for row in rows]
    around = zip([0, *places], places, [*places[1:], 0], strict=False)
    return [
        row.text(column, place if place in (before, after) else 0)
        for row, (before, place, after) in zip(rows, around, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Row:
    """One claim; columns count from the start of the claim, places of comparisons from the start of its value."""

    node: ast.Claim

    @property
    def head(self) -> str:
        return f"claim {spell(self.node.text)}:"

    @property
    def written_column(self) -> int:
        """Where the value stands in the source; 0 when it is not on the line of the claim."""
        node = self.node
        return node.left.span.start - node.span.start if node.left.span.line == node.span.line else 0

    def written_comparison(self, column: int) -> int:
        """Where the comparison stands in the source; 0 when there is none, or no room for it on one line there."""
        node, right = self.node, self.node.right
        if right is None or node.span.line != node.span.end_line:
            return 0
        sign = 0 if self._rounds else len(node.op or "") + 1
        place = right.span.start - sign - node.left.span.start
        fits = place > width_of(spell(node.left)) and width_of(self.text(column, place)) <= WIDTH
        return place if fits else 0

    def text(self, column: int, place: int) -> str:
        """The claim with its value at ``column`` and its comparison at ``place``, or as soon as there is room."""
        node = self.node
        left = spell(node.left)
        left += " " * (place - width_of(left) - 1)
        test = () if node.right is None else (node.right,) if self._rounds else (node.op or "", node.right)
        value = words(left, *test, *maybe("population at", node.population))
        return f"{self.head:{max(0, column - 1)}} {OPEN}{value}{CLOSE}"

    @property
    def _rounds(self) -> bool:
        return isinstance(self.node.right, ast.RoundsTo)
