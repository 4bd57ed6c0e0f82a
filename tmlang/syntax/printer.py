"""The canonical layout of a spec (``tmc fmt``).

One clause or member a line, indented by two, its value in the column behind the longest word of the block (words of
more than 16 characters do not push the others); lines of at most 120 characters where a blank allows it; comments
behind code in one column; one empty line around every declaration of several lines. Between declarations of one line,
between clauses and around comments an empty line is kept where the author put one. Claims that follow each other have
their values in one column, the author's if there was one; comparisons that the author lined up, or broke into lines
that fit, stay so. A comment inside a clause moves above it. The layout of a laid-out spec is itself, and its tree is
the tree of what was laid out.
"""

from __future__ import annotations

import difflib
import re
from itertools import groupby
from typing import NamedTuple

from tmlang.base.source import Source, Span
from tmlang.diagnostics.model import Diagnostic
from tmlang.syntax import ast
from tmlang.syntax.columns import claim_row, claim_rows
from tmlang.syntax.engine import parse
from tmlang.syntax.spell import BREAK, CLOSE, OPEN, WIDTH, arguments, group, maybe, spell, width_of, words

INDENT = "  "
LONGEST_PAD = 16
"""Longer words do not widen the column of the values."""
COMMENT_COLUMN = 58
"""Characters before a comment that stands behind code, where the code leaves the three blanks before it free."""


def format_source(source: Source) -> str | tuple[Diagnostic, ...]:
    """The text in canonical layout, or what is wrong with it."""
    tree, diagnostics = parse(source)
    return diagnostics if tree is None else format_tree(tree)


def unified_diff(source: Source, formatted: str) -> str:
    """What the layout changes, in the unified format; empty when nothing."""
    before, after = source.text.splitlines(keepends=True), formatted.splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, source.name, f"{source.name} (laid out)"))


def format_tree(tree: ast.Module) -> str:
    """A tree in canonical layout. Positions in it decide where comments and empty lines stand, and nothing else."""
    return _Printer(tree).text()


class _Item(NamedTuple):
    """A clause or a member: where it stood, its word with the colon (or nothing), and its text with break marks;
    ``block`` is what it has in braces, which go on lines of their own where the whole is too long for one. ``kept`` are
    the lines that the author broke it into, each with the blanks before it."""

    span: Span
    word: str
    text: str
    block: str = ""
    kept: tuple[tuple[int, str], ...] = ()


class _Printer:
    """Puts line by line. ``line`` is the line of the source that was put last, ``comments`` are those to come, the next
    one last. ``apart`` says whether an empty line comes first: ``None`` for as in the source."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.comments = list(reversed(tree.comments))
        self.lines: list[str] = []
        self.line = 0

    def text(self) -> str:
        declarations = self.tree.declarations
        rows = claim_rows(declarations)
        starts = [d.span.start for d in declarations] + [_END]
        edition = self.tree.edition
        apart = self._comments_of(edition.span, "", None)
        self._put([f"tm {edition.text}"], edition.span, starts[0], apart)
        before: ast.Declaration | None = None
        for number, node in enumerate(declarations):
            self._declaration(node, rows.get(number, ""), starts[number + 1], _apart(before, node))
            before = node
        while self.comments:
            comment = self.comments.pop()
            self._put([_comment(comment)], comment.span, _END, None)
        return "\n".join(self.lines) + "\n"

    def _put(self, lines: list[str], where: Span, until: int, apart: bool | None) -> None:
        """Put what stood at ``where``, and the comment behind it on its last line and before ``until``."""
        if self.lines and (where.line - self.line > 1 if apart is None else apart):
            self.lines.append("")
        self.lines += lines
        self.line = where.end_line
        if self.comments:
            following = self.comments[-1].span
            if following.line == where.end_line and where.end <= following.start < until:
                self.lines[-1] = f"{self.lines[-1]:{COMMENT_COLUMN - 3}}   {_comment(self.comments.pop())}"

    def _comments_of(self, item: Span, indent: str, apart: bool | None) -> bool | None:
        """Put the comments before the end of ``item`` above it; whether an empty line is to come before the item."""
        while self.comments and self.comments[-1].span.start < item.end:
            comment = self.comments.pop()
            line = min(comment.span.line, item.line)
            self._put([indent + _comment(comment)], Span("", 0, _END, line, 1, line, 1), 0, apart)
            apart = None
        return apart

    def _declaration(self, node: ast.Declaration, row: str, until: int, apart: bool | None) -> None:
        short = row or _short(node)
        if short is not None:
            apart = self._comments_of(node.span, "", apart)
            self._put(_fill(short), node.span, until, apart)
            return
        header, items = _header_span(node), _items(node)
        starts = [item.span.start for item in items] + [node.span.end]
        apart = self._comments_of(header, "", apart)
        self._put(_fill(_header(node) + " {"), header, starts[0], apart)
        width = max((len(item.word) for item in items if len(item.word) <= LONGEST_PAD), default=0)
        for number, item in enumerate(items):
            apart = self._comments_of(item.span, INDENT, None if number else False)
            self._put(_item(item, width), item.span, starts[number + 1], apart)
        self._comments_of(node.span, INDENT, None if items else False)
        self._put(_fill(words("}", *_modifiers(node))), node.span, until, False)


_END = 1 << 62


def _comment(comment: ast.Comment) -> str:
    return f"{'##' if comment.doc else '#'} {comment.text}".rstrip()


def _item(item: _Item, width: int) -> list[str]:
    if item.block:
        whole = f"{item.text} {{ {item.block} }}"
        if len(INDENT) + width_of(whole) > WIDTH:
            return [f"{INDENT}{item.text} {{", *_fill(item.block, INDENT * 2), INDENT + "}"]
        return _fill(whole, INDENT)
    if not item.word:
        return _fill(item.text, INDENT)
    word = f"{item.word:{width + 2}}" if len(item.word) <= LONGEST_PAD else item.word + " "
    heads = [INDENT + word] + [" " * max(blanks, len(INDENT) + 1) for blanks, _ in item.kept[1:]]
    kept = [_fill(text, head) for head, (_, text) in zip(heads, item.kept, strict=False)]
    if kept and all(len(lines) == 1 for lines in kept):
        return [line for lines in kept for line in lines]
    return _fill(item.text, INDENT + word)


def _fill(text: str, head: str = "") -> list[str]:
    """Text with break marks on as few lines of at most ``WIDTH`` as it takes, the first one beginning with ``head``."""
    lines = [head]
    anchors = [len(head)]
    for number, piece in enumerate(text.split(BREAK)):
        size = width_of(piece)
        if number and len(lines[-1]) + 1 + size > WIDTH:
            lines.append(" " * anchors[-1])
        elif number:
            lines[-1] += " "
        for part in re.split(f"([{OPEN}{CLOSE}])", piece):
            if part == OPEN:
                anchors.append(len(lines[-1]))
            elif part == CLOSE:
                anchors.pop()
            else:
                lines[-1] += part
    return [line.rstrip() for line in lines]


# --- declarations ---------------------------------------------------------------------------------------------------


def _apart(before: ast.Declaration | None, node: ast.Declaration) -> bool | None:
    """Whether an empty line stands between two declarations; as in the source between short ones of one kind."""
    if before is None:
        return None if isinstance(node, ast.Use) else True
    kinds = {type(before), type(node)}
    alike = len(kinds) == 1 or kinds <= {ast.Let, ast.Param}
    return None if alike and _short(before) is not None and _short(node) is not None else True


def _short(node: ast.Declaration) -> str | None:
    """A declaration without lines of its own inside."""
    match node:
        case ast.Use():
            return f"{words('use', node.module)} {arguments(node.names)}"
        case ast.Let():
            return words("let", node.name, "=", node.value)
        case ast.Param():
            return words("param", node.name, "=", node.value, *maybe("in", node.range))
        case ast.Space(body=ast.TensorBody()):
            return words(f"space {node.name.text}:", node.body, *node.modifiers)
        case ast.Claim():
            return claim_row(node)
        case ast.Block(clauses=[clause]) if node.span.line == node.span.end_line:
            text = f"{_header(node)} {{ {clause.word.text}: {spell(clause.value)} }}"
            return text if len(text) <= WIDTH else None
    return None


def _header(node: ast.Declaration) -> str:
    """What stands before the brace."""
    match node:
        case ast.Space():
            return f"space {node.name.text}"
        case ast.Model():
            return f"model {node.name.text}: {node.space.text} -> {spell(node.classes)}"
        case ast.Data():
            return f"data {node.name.text}: {node.space.text}"
        case ast.Threat():
            return f"threat {_signature(node)} on {node.model.text} over {node.data.text}"
        case ast.Property():
            return f"property {node.name.text} on {node.model.text}"
        case ast.Shift():
            return f"shift {_signature(node)} on {node.model.text} over {node.data.text}"
        case ast.Suite():
            return f"suite {_signature(node)}"
        case ast.Evaluate():
            args = "" if node.args is None else arguments(node.args)
            return f"evaluate {node.name.text} of {node.subject.text}{args}"
    return "report"


def _signature(node: ast.Threat | ast.Shift | ast.Suite) -> str:
    return node.name.text + (arguments(node.parameters) if node.parameters else "")


def _header_span(node: ast.Declaration) -> Span:
    """From the start of the declaration to the last node before its brace."""
    match node:
        case ast.Model():
            last: Span = node.classes.span
        case ast.Data():
            last = node.space.span
        case ast.Threat() | ast.Shift():
            last = node.data.span
        case ast.Property():
            last = node.model.span
        case ast.Suite():
            last = (node.name, *node.parameters)[-1].span
        case ast.Evaluate():
            last = (node.subject, *(node.args or ()))[-1].span
        case ast.Space():
            last = node.name.span
        case _:
            last = Span(node.span.file, node.span.start, node.span.start, *[node.span.line, node.span.column] * 2)
    return node.span.to(last)


def _items(node: ast.Declaration) -> list[_Item]:
    if isinstance(node, ast.Block):
        return [
            _Item(c.span, f"{c.word.text}:", group("", spell(c.value), ""), kept=_kept(c.value)) for c in node.clauses
        ]
    if isinstance(node, ast.Space) and isinstance(node.body, ast.FeatureBody):
        return [_member(m) for m in node.body.members]
    return []


def _kept(value: ast.Node) -> tuple[tuple[int, str], ...]:
    """The lines of a list of comparisons that the author broke: which belong together, he knows."""
    if not isinstance(value, ast.Given):
        return ()
    rows = [list(row) for _, row in groupby(value.comparisons, key=lambda c: c.span.line)]
    texts = [f",{BREAK}".join(map(spell, row)) for row in rows]
    lines = [f"{text}," for text in texts[:-1]] + texts[-1:]
    return tuple((row[0].span.column - 1, line) for row, line in zip(rows, lines, strict=True)) if rows[1:] else ()


def _member(node: ast.Node) -> _Item:
    match node:
        case ast.Feature():
            return _Item(node.span, f"{node.name.text}:", spell(node.cell))
        case ast.Metric():
            head = f"metric {node.name.text}"
            if not node.weights:
                return _Item(node.span, "", head + " {}")
            return _Item(node.span, "", head, f" {BREAK}".join(map(spell, node.weights)))
    return _Item(node.span, "", spell(node))


def _modifiers(node: ast.Declaration) -> tuple[ast.Node, ...]:
    return node.modifiers if isinstance(node, ast.Space) else ()
