"""Text to tokens and comments. What cannot be read becomes a diagnostic, and a token where one is meant."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import NamedTuple

from tmlang.base.source import Source, Span
from tmlang.diagnostics.model import Diagnostic, Edit, Fix
from tmlang.syntax.ast import Comment

END = "$END"
CLOSES = {"(": ")", "[": "]", "{": "}"}
RESERVED = frozenset(("and", "or", "not", "in", "is", "per", "then", "else"))
"""The words that are never names; all others are keywords only where the grammar has them."""

_PATTERN = re.compile(
    r"""
    (?P<blank>   [ \t\r\n]+ )
  | (?P<comment> \#[^\n]* )
  | (?P<label>   [A-Za-z_][A-Za-z0-9_]*+ [ \t]* : )
  | (?P<word>    [A-Za-z_][A-Za-z0-9_]*+ (?!\w) )
  | (?P<number>  [0-9]++ (?:\.[0-9]++)?+ (?:[eE][+-]?[0-9]++)?+ (?!\w) (?!\.(?!\.)) )
  | (?P<string>  "(?:[^"\\\n]|\\["\\])*" )
  | (?P<unit>    '[^'\n]+' )
  | (?P<odd_number>  \.?[0-9](?:(?<=[eE])[+-]|[\w.])*+ )
  | (?P<sign>    -> | <= | >= | == | \.\. | [()\[\]{},:=<>+\-*/%.] )
  | (?P<odd_word>    [^\W\d]\w*+ (?:[ \t]*:)? )
  | (?P<odd_string>  "(?:[^"\\\n]|\\[^\n])*+"? )
  | (?P<odd_quotes>  [“”„][^“”„"\n]*+[“”"] )
  | (?P<odd_unit>    '[^'\n]*+'? )
  | (?P<odd_sign>    . )
    """,
    re.VERBOSE | re.DOTALL,
)

_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff"
_UNSEEN = (
    "\u00ad\u034f\u061c\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Code points without a glyph of their own (Unicode 16: Default_Ignorable_Code_Point), and the format characters."""
_HIDDEN = re.compile(f"[{_CONTROL}{_UNSEEN}]|\\r(?!\\n)")
"""Characters that end a line for some readers only, that nobody sees, or that show the text in another order than it is
read in: two texts that look alike could mean different things."""

_MEANT = {
    "≤": "<=", "≥": ">=", "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "÷": "/", "→": "->", "…": "..",
    "：": ":", "，": ",", "（": "(", "）": ")", "\u00a0": " ", "&": "and", "|": "or", ";": "", "!": "not",
}  # fmt: skip
"""What people mean by characters that we do not use."""


class Token(NamedTuple):
    """``kinds``: what it may count as, in order of preference; ``text`` as written (a label includes its colon)."""

    kinds: tuple[str, ...]
    text: str
    start: int
    line: int
    column: int


def span(name: str, first: Token, last: Token) -> Span:
    """From the start of ``first`` to the end of ``last``; no token reaches over the end of its line."""
    size = len(last.text)
    return Span(name, first.start, last.start + size, first.line, first.column, last.line, last.column + size)


class Lexed(NamedTuple):
    """``tokens`` ends with one of kind ``$END``. ``comments[i]`` stands before token ``before[i]``; its ``doc`` only
    says how it is marked."""

    tokens: list[Token]
    comments: list[Comment]
    before: list[int]
    diagnostics: list[Diagnostic]


MAX_TOKENS = 50_000
"""Words, signs and comments of one file, ten thousand lines: what is answered in two seconds."""
_LONG = (
    "numbers by the thousand belong in a file: weights in an onnx or safetensors file, radii and masks in npy or npz"
)


def tokenize(source: Source, clause_words: Set[str]) -> Lexed:
    """``clause_words`` with their colons (``goal:``)."""
    name = source.name
    tokens: list[Token] = []
    comments: list[Comment] = []
    before: list[int] = []
    text, diagnostics = _without_hidden(source)
    line, line_start = 1, 0
    for match in _PATTERN.finditer(text):
        group, found, start = match.lastgroup, match.group(), match.start()
        if len(tokens) + len(comments) + len(diagnostics) >= MAX_TOKENS and group != "blank":
            beyond = Token((), found, start, line, start - line_start + 1)
            at = span(name, beyond, beyond)
            diagnostics.append(
                Diagnostic("TM008", f"a spec has at most {MAX_TOKENS:,} words and signs", at, help=_LONG)
            )
            break
        if group == "blank":
            if "\n" in found:
                line += found.count("\n")
                line_start = start + found.rindex("\n") + 1
            continue
        column = start - line_start + 1
        if group == "word":
            kinds: tuple[str, ...] = (found,) if found in RESERVED else (found, "NAME")
        elif group == "sign":
            kinds = (found,)
        elif group == "label":
            clause = found[:-1].rstrip() + ":"
            kinds = (clause,) if clause in clause_words else ("LABEL",)
        elif group in _KINDS:
            kinds = _KINDS[group]
        elif group == "comment":
            comments.append(_comment(name, Token((), found, start, line, column)))
            before.append(len(tokens))
            continue
        else:
            kinds, diagnostic = _odd(name, str(group), Token((), found, start, line, column))
            diagnostics.append(diagnostic)
        if kinds:
            tokens.append(Token(kinds, found, start, line, column))
    tokens.append(Token((END,), "", len(text), line, len(text) - line_start + 1))
    return Lexed(tokens, comments, before, diagnostics)


_KINDS = {"number": ("NUMBER",), "string": ("STRING",), "unit": ("UNIT",)}


def _comment(name: str, token: Token) -> Comment:
    written = token.text.rstrip()
    mark = "##" if written.startswith("##") else "#"
    text = written[len(mark) :].removeprefix(" ")
    return Comment(span(name, token, token._replace(text=written)), text, mark == "##")


# --- what cannot be read --------------------------------------------------------------------------------------------


def _without_hidden(source: Source) -> tuple[str, list[Diagnostic]]:
    """The text with hidden characters blanked out, and their diagnostics. A byte order mark at the start is none."""
    text = source.text
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    if not _HIDDEN.search(text):
        return text, []
    diagnostics = []
    for match in list(_HIDDEN.finditer(text))[:5]:
        start = match.start()
        line = text.count("\n", 0, start) + 1
        column = start - text.rfind("\n", 0, start)
        where = Span(source.name, start, start + 1, line, column, line, column + 1)
        diagnostics.append(
            Diagnostic(
                "TM006",
                f"the hidden character U+{ord(match.group()):04X} may make the text look other than it reads",
                where,
                fix=Fix("remove it", (Edit(where, ""),)),
            )
        )
    return _HIDDEN.sub(" ", text), diagnostics


def _odd(name: str, group: str, token: Token) -> tuple[tuple[str, ...], Diagnostic]:
    """What the token may count as all the same, and what is wrong with it."""
    where = span(name, token, token)
    return _ODD[group](token.text, where)


def _odd_word(text: str, where: Span) -> tuple[tuple[str, ...], Diagnostic]:
    strange = next(c for c in text if not c.isascii())
    return ("LABEL",) if text.endswith(":") else ("NAME",), Diagnostic(
        "TM006",
        f"`{strange}` cannot stand in a name: names are ASCII letters, digits and `_`",
        where,
        help="any text may stand between double quotes and in comments",
    )


def _odd_number(text: str, where: Span) -> tuple[tuple[str, ...], Diagnostic]:
    plain = text.replace("_", "")
    fixed = "0" + plain if plain.startswith(".") else plain + "0" if plain.endswith(".") else plain
    fine = re.fullmatch(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", fixed)
    name = re.fullmatch(r"[0-9.]+([A-Za-z]+)", text)
    return ("NUMBER",), Diagnostic(
        "TM007",
        f"`{text}` is no number"
        + (f": a unit stands in single quotes, {text[: name.start(1)]} '{name[1]}'" if name and not fine else ""),
        where,
        help="numbers are written 8, 0.5, 8/255 or 1e-5",
        fix=Fix(f"write {fixed}", (Edit(where, fixed),)) if fine else None,
    )


def _odd_string(text: str, where: Span) -> tuple[tuple[str, ...], Diagnostic]:
    if len(text) > 1 and text.endswith('"') and not re.fullmatch(r'"(?:[^"\\]|\\.)*\\"', text):
        escape = next(m for m in re.finditer(r"\\.", text) if m[0] not in ('\\"', "\\\\"))
        start, column = where.start + escape.start(), where.column + escape.start()
        return ("STRING",), Diagnostic(
            "TM013",
            f"`{escape[0]}` means nothing in a string",
            Span(where.file, start, start + 2, where.line, column, where.line, column + 2),
            help='only \\" and \\\\ are written with a backslash; paths are written with `/`',
        )
    return ("STRING",), Diagnostic(
        "TM005",
        "this string is not closed on its line",
        where,
        help='a string stands between double quotes: "test.npz"',
    )


def _odd_quotes(text: str, where: Span) -> tuple[tuple[str, ...], Diagnostic]:
    return ("STRING",), Diagnostic(
        "TM006",
        f'`{text[0]}` opens no string; strings stand between straight double quotes: "test.npz"',
        where,
        fix=Fix("use straight quotes", (Edit(where, f'"{text[1:-1]}"'),)),
    )


def _odd_unit(text: str, where: Span) -> tuple[tuple[str, ...], Diagnostic]:
    if text == "''":
        return ("UNIT",), Diagnostic("TM006", "there is no unit between these quotes", where, help="write 2 'degC'")
    return ("UNIT",), Diagnostic(
        "TM005",
        "this unit is not closed on its line",
        where,
        help="a unit stands between single quotes, 2 'degC'; strings stand between double quotes",
    )


def _odd_sign(text: str, where: Span) -> tuple[tuple[str, ...], Diagnostic]:
    if text not in _MEANT:
        return (), Diagnostic("TM006", f"the language does not use the character `{text}`", where)
    meant = _MEANT[text]
    instead = f"write `{meant}`" if meant.strip() else "leave it out: clauses and declarations need no separator"
    if meant == " ":
        instead = "write a plain blank"
    return (meant,) if meant.strip() else (), Diagnostic(
        "TM006",
        f"the language does not use the character `{text}`",
        where,
        help=instead,
        fix=Fix(instead.partition(":")[0], (Edit(where, meant),)),
    )


_ODD = {
    "odd_word": _odd_word,
    "odd_number": _odd_number,
    "odd_string": _odd_string,
    "odd_quotes": _odd_quotes,
    "odd_unit": _odd_unit,
    "odd_sign": _odd_sign,
}
