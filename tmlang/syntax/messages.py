"""What is wrong with a token, in the user's words: what was expected here, and an example."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tmlang.base.source import Span
from tmlang.diagnostics.model import Diagnostic, Edit, Fix, Label
from tmlang.diagnostics.suggest import did_you_mean, either, nearest
from tmlang.syntax.lexer import END, Token, span
from tmlang.syntax.parser import Table
from tmlang.syntax.words import CLAUSES, DECLARATIONS, FORMS, NOT_YET, SYNONYMS

_CLOSES = {"(": ")", "[": "]", "{": "}"}
_COMPARATORS = frozenset(("<=", ">=", "<", ">", "=="))
_VALUE = frozenset(("NUMBER", "STRING", "NAME", "(", "-", "["))
_KINDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string in double quotes",
    "LABEL": "a name with a colon",
    "UNIT": "a unit such as 'degC'",
}


class Trouble(NamedTuple):
    """A token that may not stand where it stands: the stacks of the parser, and the number of the token."""

    file: str
    table: Table
    states: list[int]
    values: list[object]
    tokens: list[Token]
    place: int

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    @property
    def before(self) -> Token:
        return self.tokens[max(0, self.place - 1)]

    @property
    def begins(self) -> str:
        """The kind of item that may begin here, if any."""
        return self.table.states[self.states[-1]].begins

    @property
    def first_on_line(self) -> bool:
        return self.before.line < self.token.line

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
        return [v for v in self.values if isinstance(v, Token) and v.text in _CLOSES]

    def expected(self) -> set[str]:
        """The kinds of tokens that may stand here."""
        return {kind for kind in self.table.states[self.states[-1]].actions if self._fits(kind)}

    def _fits(self, kind: str) -> bool:
        states = list(self.states)
        while True:
            action = self.table.states[states[-1]].actions.get(kind)
            if action is None:
                return kind == END and states[-1] == self.table.accept
            if action >= 0:
                return True
            rule = self.table.rules[-1 - action]
            del states[len(states) - rule.size :]
            states.append(self.table.states[states[-1]].gotos[rule.origin])


def edition(file: str, tokens: list[Token]) -> Diagnostic:
    """What is wrong with the first two tokens, which are not ``tm 1``."""
    word, number = tokens[0], tokens[min(1, len(tokens) - 1)]
    if word.text == "tm" and "NUMBER" in number.kinds:
        where = span(file, number, number)
        return Diagnostic("TM010", f"edition {number.text} is not known here; this is edition 1", where, help="tm 1")
    start = Span(file, 0, 0, 1, 1, 1, 1)
    fix = Fix("put `tm 1` in front", (Edit(start, "tm 1\n"),)) if word.text != "tm" else None
    message = "a spec begins with its language edition: `tm 1`"
    return Diagnostic("TM004", message, span(file, word, word), fix=fix)


def explain(trouble: Trouble) -> Diagnostic:
    """The diagnostic for a token that may not stand where it stands."""
    for special in _SPECIALS:
        found = special(trouble)
        if found is not None:
            return found
    return _unexpected(trouble)


# --- clauses and declarations ---------------------------------------------------------------------------------------


def _unknown_clause(trouble: Trouble) -> Diagnostic | None:
    begins, token = trouble.begins, trouble.token
    if not begins.endswith("_clause") or not token.text.endswith(":"):
        return None
    word = token.text[:-1].rstrip()
    block = _block(begins)
    known = _words(trouble)
    where = trouble.span()
    if word in CLAUSES:
        homes = sorted(
            {_block(s.begins) for s in trouble.table.states if word + ":" in s.actions and s.begins[-7:] == "_clause"}
        )
        message = f"`{word}:` does not stand in `{block}`, it belongs to {either(f'`{home}`' for home in homes)}"
        return Diagnostic("TM003", message, where, help=f"`{block}` has {either(f'`{w}:`' for w in known)}")
    meant = [w for w in known if word.lower() in SYNONYMS.get(w, "").split()] or nearest(word, known, at_most=1)
    if not meant:
        message = f"there is no clause `{word}:` in `{block}`"
        return Diagnostic("TM003", message, where, help=f"`{block}` has {either(f'`{w}:`' for w in known)}")
    noun, example = CLAUSES[meant[0]]
    message = f"there is no clause `{word}:`; {noun} is written `{meant[0]}:`"
    fix = Fix(f"write `{meant[0]}:`", (Edit(where, meant[0] + ":"),))
    return Diagnostic("TM003", message, where, help=example, fix=fix)


def _block(begins: str) -> str:
    word = begins.removesuffix("_clause")
    return "suite" if word == "stage" else word


def _words(trouble: Trouble) -> list[str]:
    """The clause words that may stand here, in the order of the table of clauses."""
    actions = trouble.table.states[trouble.states[-1]].actions
    return [word for word in CLAUSES if word + ":" in actions]


def _no_value(trouble: Trouble) -> Diagnostic | None:
    word, anew = trouble.values[-1] if trouble.values else None, trouble.starts_anew
    if not isinstance(word, Token) or not word.text.endswith(":") or word is not trouble.before or anew is None:
        return None
    name = word.text[:-1].rstrip()
    if name not in CLAUSES:
        return None
    return Diagnostic("TM002", f"`{name}:` has no value; {anew}", trouble.span(word), help=CLAUSES[name][1])


def _no_colon(trouble: Trouble) -> Diagnostic | None:
    """A clause word without its colon, or followed by `=`."""
    token = trouble.token
    if not trouble.begins.endswith("_clause") or "NAME" not in token.kinds:
        return None
    known = _words(trouble)
    word = token.text if token.text in known else next(iter(nearest(token.text, known, at_most=1)), None)
    if word is None:
        message = f"a clause begins with its word and a colon, not with `{token.text}`"
        help = f"`{_block(trouble.begins)}` has {either(f'`{w}:`' for w in known)}"
        return Diagnostic("TM001", message, trouble.span(), help=help)
    following = trouble.tokens[trouble.place + 1]
    end = following if following.text == "=" else token
    edit = Edit(span(trouble.file, token, end), word + ":")
    message = f"a clause word is followed by a colon: `{word}:`"
    return Diagnostic("TM001", message, trouble.span(), help=CLAUSES[word][1], fix=Fix(f"write `{word}:`", (edit,)))


def _separator(trouble: Trouble) -> Diagnostic | None:
    if trouble.begins and trouble.token.text in (",", "."):
        fix = Fix("leave it out", (Edit(trouble.span(), ""),))
        message = "clauses and declarations follow one another without a separator"
        return Diagnostic("TM001", message, trouble.span(), fix=fix)
    return None


def _outside(trouble: Trouble) -> Diagnostic | None:
    """Where a declaration is expected."""
    token, where = trouble.token, trouble.span()
    if trouble.begins != "declaration":
        return None
    if token.text in (")", "]", "}"):
        return Diagnostic("TM005", f"this `{token.text}` closes nothing", where)
    if token.text.endswith(":"):
        return Diagnostic("TM003", f"`{token.text}` stands outside of a declaration", where, help="is a `}` too early?")
    if "NAME" not in token.kinds:
        return None
    close = nearest(token.text, DECLARATIONS, at_most=1)
    help = DECLARATIONS[close[0]] if close else f"declarations are {either(f'`{w}`' for w in DECLARATIONS)}"
    hint = did_you_mean(token.text, DECLARATIONS)
    message = f"no declaration begins with `{token.text}`" + (f"; {hint}" if hint else "")
    fix = Fix(f"write `{close[0]}`", (Edit(where, close[0]),)) if close else None
    return Diagnostic("TM014", message, where, help=help, fix=fix)


# --- brackets -------------------------------------------------------------------------------------------------------


def _unclosed(trouble: Trouble) -> Diagnostic | None:
    opened, token, anew = trouble.opened(), trouble.token, trouble.starts_anew
    if not opened:
        return None
    inner = opened[-1]
    if token.text in (")", "]", "}") and token.text != _CLOSES[inner.text]:
        label = Label(trouble.span(), f"`{token.text}` comes first")
    elif anew and token.text != "}" and (inner.text != "{" or not token.text.endswith(":")):
        label = Label(trouble.span(), anew)
    else:
        return None
    message = f"this `{inner.text}` is not closed"
    return Diagnostic("TM005", message, trouble.span(inner), labels=(label,), help=f"put `{_CLOSES[inner.text]}`")


# --- signs ----------------------------------------------------------------------------------------------------------


def _wrong_sign(trouble: Trouble) -> Diagnostic | None:
    """One sign for another, where one meaning is left."""
    token, expected = trouble.token, trouble.expected()
    where = trouble.span()
    opened = trouble.opened()
    meant = None
    if token.text in _COMPARATORS | {"="} and _COMPARATORS & expected == {"<="}:
        meant, message = "<=", "a bound includes its edge and is written `<=`"
    elif token.text == "=" and "==" in expected:
        meant, message = "==", "equality is written `==`"
    elif token.text == "=" and "NAME" in trouble.before.kinds and opened and opened[-1].text == "(":
        meant, message = ":", f"arguments are named with a colon: `{trouble.before.text}: …`"
    elif "STRING" in expected and "UNIT" in token.kinds and "UNIT" not in expected:
        meant, message = f'"{token.text[1:-1]}"', "strings stand between double quotes, units between single ones"
    elif "UNIT" in expected and "STRING" in token.kinds:
        meant, message = f"'{token.text[1:-1]}'", "units stand between single quotes, strings between double ones"
    if meant is None:
        return None
    return Diagnostic("TM001", message, where, fix=Fix(f"write {meant}", (Edit(where, meant),)))


def _let_colon(trouble: Trouble) -> Diagnostic | None:
    word = trouble.before.text
    if word not in ("let", "param") or trouble.token.kinds != ("LABEL",):
        return None
    name = trouble.token.text[:-1].rstrip()
    edit = Edit(trouble.span(), f"{name} =")
    return Diagnostic(
        "TM001", f"`{word}` takes `=`", trouble.span(), help=DECLARATIONS[word], fix=Fix(f"write `{name} =`", (edit,))
    )


def _not_yet(trouble: Trouble) -> Diagnostic | None:
    token, within = trouble.token, trouble.table.states[trouble.states[-1]].within
    what = None
    if {"space", "feature", "tensor"} & set(within):
        what = NOT_YET.get(token.text)
    elif "threat" in within and trouble.before.text == "on" and token.text in ("[", "{"):
        what = "one threat on several models"
    if what is None:
        return None
    help = "write one threat per model, or a threat with the model as its parameter" if "threat" in what else None
    return Diagnostic("TM012", f"the language cannot say this yet: {what}", trouble.span(), help=help)


# --- everything else ------------------------------------------------------------------------------------------------


def _unexpected(trouble: Trouble) -> Diagnostic:
    expected = trouble.expected()
    phrase = either(phrases(expected, trouble.begins))
    help = form(trouble)
    token, anew = trouble.token, trouble.starts_anew
    if anew and trouble.place:
        before = trouble.before
        message = f"expected {phrase} behind `{_shown(before)}`; {anew}"
        return Diagnostic("TM001", message, trouble.span(before), help=help)
    message = f"expected {phrase} here, not `{_shown(token)}`"
    notes: tuple[str, ...] = ()
    if "UNIT" in expected and "NAME" in token.kinds and "NAME" not in expected and trouble.before.kinds == ("NUMBER",):
        notes = (f"a unit stands between single quotes: {trouble.before.text} '{token.text}'",)
    return Diagnostic("TM001", message, trouble.span(), notes=notes, help=help)


def _shown(token: Token) -> str:
    return token.text if len(token.text) <= 40 else token.text[:39] + "…"


def phrases(expected: set[str], begins: str) -> list[str]:
    """What may stand here, in words, the most telling first."""
    left = set(expected)
    said: list[str] = []
    if left >= _VALUE:
        left -= _VALUE
        said.append("a value such as `8/255`")
    clauses = {kind for kind in left if kind.endswith(":") and len(kind) > 1}
    left -= clauses
    declarations = left & DECLARATIONS.keys() if "claim" in left else set()
    left -= declarations
    signs = left & {"+", "-", "*", "/", "%"} if "/" in left or "+" in left else set()
    left -= signs
    comparators = left & _COMPARATORS if left >= _COMPARATORS else set()
    left -= comparators
    said += [_KINDS[kind] for kind in _KINDS if kind in left]
    left -= _KINDS.keys()
    left.discard(END)
    words = [f"`{kind}`" for kind in sorted(left, key=lambda k: (not k.isidentifier(), k))]
    said = words[:6] + said
    if comparators:
        said.append("a comparison such as `<=`")
    if signs:
        said.append("a sign such as `/`")
    if clauses and "LABEL" not in expected:
        said.append("a clause" if begins else "the next clause")
    if declarations:
        said.append("a declaration" if begins else "the next declaration")
    return said or ["the end of the file"]


def form(trouble: Trouble) -> str | None:
    """How the innermost thing that has begun is written."""
    for state, value in zip(reversed(trouble.states), [*reversed(trouble.values), None], strict=True):
        for origin in trouble.table.states[state].within:
            origin = origin.lstrip("_")
            if origin in FORMS:
                noun, example = FORMS[origin]
                return f"{noun}: {example}"
        if isinstance(value, Token) and value.text[:-1].rstrip() in CLAUSES and value.text.endswith(":"):
            return CLAUSES[value.text[:-1].rstrip()][1]
    return None


_SPECIALS: tuple[Callable[[Trouble], Diagnostic | None], ...] = (
    _unknown_clause,
    _no_value,
    _separator,
    _outside,
    _unclosed,
    _no_colon,
    _let_colon,
    _not_yet,
    _wrong_sign,
)
