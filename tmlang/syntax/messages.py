"""What is wrong with a token, in the user's words: what was expected here, and an example."""

from __future__ import annotations

from collections.abc import Callable

from tmlang.base.source import Span
from tmlang.diagnostics.model import Diagnostic, Edit, Fix, Label
from tmlang.diagnostics.suggest import either, nearest
from tmlang.syntax import editions
from tmlang.syntax.lexer import CLOSES, END, RESERVED, Token, span
from tmlang.syntax.parser import State, Table
from tmlang.syntax.words import CLAUSES, DECLARATIONS, FORMS, KEYWORD_SYNONYMS, NOT_YET, SYNONYMS, UNITS

_COMPARATORS = frozenset(("<=", ">=", "<", ">", "=="))
_SIGNS = frozenset("+-*/%")
_GROUPS = (
    (frozenset(("anything", "metric", "patch", "transform", "NAME", "(")), "a set such as `linf <= 8/255 in px`"),
    (frozenset(("NUMBER", "STRING", "NAME", "(", "-", "[")), "a value such as `8/255`"),
    (_COMPARATORS, "a comparison such as `<=`"),
)
"""Kinds of tokens that mean one thing together."""
_KINDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string in double quotes",
    "LABEL": "a name with a colon",
    "UNIT": "a unit such as 'degC'",
}


class Trouble:
    """A token that may not stand where it stands: the stacks of the parser behind the token before, and its number."""

    def __init__(
        self, file: str, table: Table, states: list[int], values: list[object], tokens: list[Token], place: int
    ) -> None:
        self.file = file
        self.table = table
        self.states = states
        self.values = values
        self.tokens = tokens
        self.place = place
        self.token = tokens[place]
        self.before = tokens[max(0, place - 1)]
        self.first_on_line = self.before.line < self.token.line
        self.expected = {kind for kind in table.states[states[-1]].actions if table.reading(states, kind)}
        """The kinds of tokens that may stand here."""
        ends = [table.states[found[0]] for kind in ("}", "claim", END) if (found := table.reading(states, kind))]
        self.around: State | None = next((state for state in ends if state.begins), None)
        """The state in which an item of a block or of the file may begin here, if what stands before may end here."""

    @property
    def starts_anew(self) -> str | None:
        """In words, what begins or ends with the token: then what stands before it was not finished."""
        token = self.token
        if token.kinds == (END,):
            return "the file ends"
        if token.text == "}":
            return "the block ends"
        if self.first_on_line and token.text.endswith(":"):
            return "the next clause begins"
        if self.first_on_line and token.text in DECLARATIONS:
            return "the next declaration begins"
        return None

    def span(self, token: Token | None = None) -> Span:
        token = token or self.token
        return span(self.file, token, token)

    def opened(self) -> list[Token]:
        """The brackets that are open here, outermost first."""
        found: list[Token] = []
        for value in self.values:
            if isinstance(value, Token) and value.text in CLOSES:
                found.append(value)
            elif isinstance(value, Token) and value.text in CLOSES.values() and found:
                found.pop()
        return found


FIRST = f"tm {editions.CURRENT}"
"""How a spec begins."""


def edition(file: str, tokens: list[Token]) -> Diagnostic:
    """What is wrong with the first two tokens, which are not ``tm 1``."""
    word, number = tokens[0], tokens[min(1, len(tokens) - 1)]
    if word.text == "tm" and "NUMBER" in number.kinds:
        where = span(file, number, number)
        old = number.text.isdigit() and len(number.text) < 10 and int(number.text) in editions.UPGRADES
        help = f"tmc fmt --upgrade {file}" if old else f"tm {editions.CURRENT}, or a tmc that knows this edition"
        known = f"edition {number.text} is not known here; this is edition {editions.CURRENT}"
        message = f"edition {number.text} is no longer read; this is edition {editions.CURRENT}" if old else known
        return Diagnostic("TM010", message, where, help=help)
    edit = (
        Edit(span(file, word, word), FIRST) if word.text == "tm" else Edit(Span(file, 0, 0, 1, 1, 1, 1), FIRST + "\n")
    )
    message = f"a spec begins with its language edition: `{FIRST}`"
    return Diagnostic("TM004", message, span(file, word, word), fix=Fix(f"put `{FIRST}` in front", (edit,)))


def explain(trouble: Trouble) -> Diagnostic:
    """The diagnostic for a token that may not stand where it stands."""
    for special in _SPECIALS:
        found = special(trouble)
        if found is not None:
            return found
    return _unexpected(trouble)


# --- clauses and declarations ---------------------------------------------------------------------------------------


def _unknown_clause(trouble: Trouble) -> Diagnostic | None:
    block, token = _block(trouble), trouble.token
    if block is None or not token.text.endswith(":"):
        return None
    word = token.text[:-1].rstrip()
    known = _words(trouble)
    where = trouble.span()
    if word in CLAUSES:
        states = trouble.table.states
        homes = sorted({_named(s) for s in states if s.begins.endswith("_clause") and word + ":" in s.actions})
        message = f"`{word}:` does not stand in `{block}`, it belongs to {either(f'`{home}`' for home in homes)}"
        return Diagnostic("TM003", message, where, help=_has(block, known))
    meant = [w for w in known if word.lower() in SYNONYMS.get(w, "").split()] or nearest(word, known, at_most=1)
    if not meant:
        return Diagnostic("TM003", f"there is no clause `{word}:` in `{block}`", where, help=_has(block, known))
    noun, example = CLAUSES[meant[0]]
    message = f"there is no clause `{word}:`; {noun} is written `{meant[0]}:`"
    fix = _write(where, meant[0] + ":") if _may_follow(trouble, meant[0] + ":") else None
    return Diagnostic("TM003", message, where, help=example, fix=fix)


def _may_follow(trouble: Trouble, clause: str) -> bool:
    """Whether what stands behind the token could begin a value of this clause."""
    assert trouble.around is not None
    behind = trouble.table.states[trouble.around.actions[clause]].actions
    return any(kind in behind for kind in trouble.tokens[trouble.place + 1].kinds)


def _block(trouble: Trouble) -> str | None:
    """The declaration whose clauses may begin here."""
    around = trouble.around
    return _named(around) if around is not None and around.begins.endswith("_clause") else None


def _named(state: State) -> str:
    word = state.begins.removesuffix("_clause")
    return "suite" if word == "stage" else word


def _words(trouble: Trouble) -> list[str]:
    """The clause words that may stand here, in the order of the table of clauses."""
    return [word for word in CLAUSES if trouble.around is not None and word + ":" in trouble.around.actions]


def _has(block: str, known: list[str]) -> str:
    return f"`{block}` has {either(f'`{w}:`' for w in known)}"


def _write(where: Span, text: str) -> Fix:
    return Fix(f"write `{text}`", (Edit(where, text),))


def _no_value(trouble: Trouble) -> Diagnostic | None:
    word, anew = trouble.values[-1] if trouble.values else None, trouble.starts_anew
    if not isinstance(word, Token) or not word.text.endswith(":") or anew is None:
        return None
    name = word.text[:-1].rstrip()
    if name not in CLAUSES:
        return None
    return Diagnostic("TM002", f"`{name}:` has no value; {anew}", trouble.span(word), help=CLAUSES[name][1])


def _no_colon(trouble: Trouble) -> Diagnostic | None:
    """A clause word without its colon, or followed by `=`."""
    block, token, known = _block(trouble), trouble.token, _words(trouble)
    if block is None or "NAME" not in token.kinds or not (trouble.first_on_line or token.text in known):
        return None
    word = token.text if token.text in known else next(iter(nearest(token.text, known, at_most=1)), None)
    if word is None:
        message = f"a clause begins with its word and a colon, not with `{_shown(token)}`"
        return Diagnostic("TM001", message, trouble.span(), help=_has(block, known))
    following = trouble.tokens[trouble.place + 1]
    end = following if following.text == "=" else token
    message = f"a clause word is followed by a colon: `{word}:`"
    fix = _write(span(trouble.file, token, end), word + ":")
    return Diagnostic("TM001", message, trouble.span(), help=CLAUSES[word][1], fix=fix)


def _separator(trouble: Trouble) -> Diagnostic | None:
    following = trouble.tokens[min(trouble.place + 1, len(trouble.tokens) - 1)]
    if trouble.around is None or trouble.token.text not in (",", ".") or following.line == trouble.token.line:
        return None
    message = "clauses and declarations follow one another without a separator"
    return Diagnostic("TM001", message, trouble.span(), fix=Fix("leave it out", (Edit(trouble.span(), ""),)))


def _outside(trouble: Trouble) -> Diagnostic | None:
    """Where a declaration may begin."""
    token, where = trouble.token, trouble.span()
    if trouble.around is None or trouble.around.begins != "declaration":
        return None
    if token.text in (")", "]", "}"):
        return Diagnostic("TM005", f"this `{token.text}` closes nothing", where)
    behind_whole = trouble.place == 2 or trouble.before.text == "}"
    if not trouble.first_on_line and not behind_whole:
        return None
    if token.text.endswith(":") and len(token.text) > 1:
        return Diagnostic("TM003", f"`{token.text}` stands outside of a declaration", where, help="is a `}` too early?")
    if "NAME" not in token.kinds:
        return None
    close = nearest(token.text, DECLARATIONS, at_most=1)
    if not close:
        message = f"no declaration begins with `{_shown(token)}`"
        return Diagnostic("TM014", message, where, help=f"declarations are {either(f'`{w}`' for w in DECLARATIONS)}")
    message = f"no declaration begins with `{_shown(token)}`; did you mean `{close[0]}`"
    return Diagnostic("TM014", message, where, help=DECLARATIONS[close[0]], fix=_write(where, close[0]))


# --- brackets and signs ---------------------------------------------------------------------------------------------


def _unclosed(trouble: Trouble) -> Diagnostic | None:
    opened, token, anew = trouble.opened(), trouble.token, trouble.starts_anew
    if not opened:
        return None
    inner = opened[-1]
    if token.text in (")", "]", "}") and token.text != CLOSES[inner.text]:
        label = Label(trouble.span(), f"`{token.text}` comes first")
    elif anew and token.text != "}" and (inner.text != "{" or not token.text.endswith(":")):
        label = Label(trouble.span(), anew)
    else:
        return None
    message = f"this `{inner.text}` is not closed"
    return Diagnostic("TM005", message, trouble.span(inner), labels=(label,), help=f"put `{CLOSES[inner.text]}`")


def _wrong_sign(trouble: Trouble) -> Diagnostic | None:
    """One sign for another, where one meaning is left."""
    token, expected, opened = trouble.token, trouble.expected, trouble.opened()
    where = trouble.span()
    following = trouble.tokens[min(trouble.place + 1, len(trouble.tokens) - 1)]
    pair = token.text + following.text if following.start == token.start + len(token.text) else ""
    if pair in ("=>", "=<") and pair[::-1] in expected:
        meant, message = pair[::-1], f"this comparison is written `{pair[::-1]}`"
        where = span(trouble.file, token, following)
    elif token.text in _COMPARATORS | {"="} and _COMPARATORS & expected == {"<="}:
        meant, message = "<=", "a bound includes its edge and is written `<=`"
    elif token.text == "=" and "==" in expected:
        meant, message = "==", "equality is written `==`"
    elif token.text == "=" and "NAME" in trouble.before.kinds and opened and opened[-1].text == "(":
        where = span(trouble.file, trouble.before, token)
        meant, message = f"{trouble.before.text}:", f"arguments are named with a colon: `{trouble.before.text}: …`"
    elif token.kinds == ("LABEL",) and trouble.before.text in _NAMED_WITH_EQUALS:
        name = token.text[:-1].rstrip()
        meant, message = f"{name} =", f"a name behind `{trouble.before.text}` takes `=`"
    elif "STRING" in expected and "UNIT" in token.kinds and "UNIT" not in expected:
        meant, message = f'"{token.text[1:-1]}"', "strings stand between double quotes, units between single ones"
    elif "UNIT" in expected and "STRING" in token.kinds:
        meant, message = f"'{token.text[1:-1]}'", "units stand between single quotes, strings between double ones"
    else:
        return None
    return Diagnostic("TM001", message, where, fix=_write(where, meant))


_NAMED_WITH_EQUALS = ("let", "param", "attack:", "certify:", "decide_exactly:", "enumerate:")


def _not_yet(trouble: Trouble) -> Diagnostic | None:
    token, within = trouble.token, trouble.table.states[trouble.states[-1]].within
    help = None
    if {"tensor", "bytes"} & trouble.expected and token.text in NOT_YET:
        what = NOT_YET[token.text]
    elif ("threat" in within and trouble.before.text == "on" and token.text in ("[", "{")) or (
        trouble.expected == {"over"} and token.text == ","
    ):
        what = "one threat on several models"
        help = "write one threat per model, or a threat with the model as its parameter"
    else:
        return None
    return Diagnostic("TM012", f"the language cannot say this yet: {what}", trouble.span(), help=help)


# --- everything else ------------------------------------------------------------------------------------------------


def _unexpected(trouble: Trouble) -> Diagnostic:
    token, before, anew = trouble.token, trouble.before, trouble.starts_anew
    said = either(phrases(trouble.expected, ends_line=trouble.first_on_line or anew is not None))
    help = form(trouble)
    if anew and trouble.place:
        message = f"expected {said} behind `{_shown(before)}`; {anew}"
        return Diagnostic("TM001", message, trouble.span(before), help=help)
    message = f"expected {said} here, not `{_shown(token)}`"
    notes: tuple[str, ...] = ()
    fix = None
    if "UNIT" in trouble.expected and token.text in UNITS and ("NUMBER" in before.kinds or before.text in ("]", ")")):
        notes = (f"a unit stands between single quotes: {before.text} '{token.text}'",)
        fix = _write(trouble.span(), f"'{token.text}'")
    elif token.text in RESERVED:
        notes = (f"`{token.text}` is a word of the language and never a name",)
    elif "NAME" in token.kinds:
        words = sorted(kind for kind in trouble.expected if kind.isidentifier() and kind.islower())
        meant = [w for w in words if token.text.lower() in KEYWORD_SYNONYMS.get(w, "").split()]
        meant = meant or nearest(token.text, words, at_most=1)
        if meant:
            message += f"; did you mean `{meant[0]}`"
            fix = _write(trouble.span(), meant[0])
    return Diagnostic("TM001", message, trouble.span(), notes=notes, help=help, fix=fix)


def _shown(token: Token) -> str:
    return token.text if len(token.text) <= 40 else token.text[:39] + "…"


def phrases(expected: set[str], ends_line: bool) -> list[str]:
    """What may stand here, in words; what would end the line only where that tells something."""
    left = set(expected)
    said: list[str] = []
    for kinds, phrase in _GROUPS:
        if kinds <= left:
            left -= kinds
            said.append(phrase)
    clauses = {kind for kind in left if kind.endswith(":") and len(kind) > 1}
    declarations = left & DECLARATIONS.keys() if "claim" in left else set()
    left -= clauses | declarations
    signs = left & _SIGNS
    ends = ["`}`"] if "}" in left else []
    ends += ["the next clause"] if clauses and "LABEL" not in expected else []
    ends += ["the next declaration"] if declarations else []
    said += [_KINDS[kind] for kind in _KINDS if kind in left]
    left -= {END, "}", *_KINDS, *_SIGNS}
    said = [f"`{kind}`" for kind in sorted(left, key=lambda k: (not k.isidentifier(), k))] + said
    if signs and len(said) < 3:
        said.append("a sign such as `/`")
    return [*said, *ends] if ends_line or not said else said or ["the end of the file"]


def form(trouble: Trouble) -> str | None:
    """How the innermost thing that has begun is written."""
    for state, value in zip(reversed(trouble.states), [*reversed(trouble.values), None], strict=True):
        for origin in trouble.table.states[state].within:
            if origin.lstrip("_") in FORMS:
                noun, example = FORMS[origin.lstrip("_")]
                return f"{noun}: {example}"
        if isinstance(value, Token) and value.text.endswith(":") and value.text[:-1].rstrip() in CLAUSES:
            return CLAUSES[value.text[:-1].rstrip()][1]
    return None


_SPECIALS: tuple[Callable[[Trouble], Diagnostic | None], ...] = (
    _unknown_clause,
    _no_value,
    _separator,
    _outside,
    _unclosed,
    _no_colon,
    _not_yet,
    _wrong_sign,
)
