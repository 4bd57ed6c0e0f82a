"""Random specs: every sentence of the grammar, and large specs that mean something.

``Sentences`` walks the rules that lark reads from ``grammar/tm.lark``, not our table and not our printer, so that it
knows nothing of the code under test. ``large_spec`` writes correct specs of any length.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from functools import cache

from lark.load_grammar import load_grammar

from tmlang.base.resources import resource

_NAMES = ("px", "net", "a", "b1", "eps", "radius", "x_y", "Alpha", "victim", "run", "flat")
_NUMBERS = ("0", "1", "8", "255", "0.5", "1e-5", "2.50", "3E2", "1000000", "0.0029")
_STRINGS = ('"a.npz"', '""', '"two words"', '"with \\"quotes\\" and \\\\"', '"# no comment"', '"{ [ ("', '"dœuvre …"')
_UNITS = ("'degC'", "'levels'", "'min'", "'ft/s'", "'#'")
_COMMENTS = ("# plain", "#", "## doc", "### more", "#tight", "#   indented", "# \"quoted\" { ( [ 'unit'", "# ünï")
_TERMINALS = {
    "NAME": _NAMES,
    "NUMBER": _NUMBERS,
    "STRING": _STRINGS,
    "UNIT": _UNITS,
    "LABEL": (*(f"{name}:" for name in _NAMES), "spaced  :"),
}
_TIGHT = frozenset("()[]{},")
_VALUES = frozenset(("value", "term", "product", "factor", "atom"))
"""Mostly plain, so that the other rules have their turn."""


class Grammar:
    """The productions by nonterminal, and the least depth of a derivation per symbol."""

    def __init__(self) -> None:
        text = (resource("grammar") / "tm.lark").read_text(encoding="utf-8")
        terminals, rules, _ = load_grammar(text, "tm.lark", [], False)[0].compile(["start"], "*")
        self.spelling = {t.name: t.pattern.value for t in terminals if t.pattern.type == "str"}
        self.rules: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        for rule in rules:
            self.rules[str(rule.origin.name)].append(tuple(str(s.name) for s in rule.expansion))
        self.depth: dict[str, int] = {}
        changed = True
        while changed:
            changed = False
            for origin, expansions in self.rules.items():
                least = min(self.least(expansion) for expansion in expansions)
                if least < self.depth.get(origin, 1 << 30):
                    self.depth[origin] = least
                    changed = True
        self.shortest = {
            origin: [e for e in expansions if self.least(e) == self.depth[origin]]
            for origin, expansions in self.rules.items()
        }

    def least(self, expansion: tuple[str, ...]) -> int:
        return 1 + max(self.depth.get(s, 1 << 29) if s in self.rules else 0 for s in expansion)


@cache
def grammar() -> Grammar:
    return Grammar()


class Sentences:
    """Random token sequences of the language; ``budget`` bounds their depth."""

    def __init__(self, rng: random.Random, budget: int = 18) -> None:
        self.rng = rng
        self.budget = budget
        self.grammar = grammar()
        # what the grammar allows and the builder refuses: a relation without a sign, a file with other arguments
        self.instead: dict[str, Callable[[int], list[str]]] = {"relation": self._relation, "file": self._file}

    def tokens(self, symbol: str = "start", depth: int = 0) -> list[str]:
        if symbol in self.instead:
            return self.instead[symbol](depth)
        if symbol not in self.grammar.rules:
            return [self._terminal(symbol)]
        plain = symbol in _VALUES and self.rng.random() < 0.6
        if plain or depth + self.grammar.depth[symbol] >= self.budget:
            return self._all(self.rng.choice(self.grammar.shortest[symbol]), depth + 1)
        return self._all(self.rng.choice(self.grammar.rules[symbol]), depth + 1)

    def _all(self, symbols: tuple[str, ...], depth: int) -> list[str]:
        return [token for symbol in symbols for token in self.tokens(symbol, depth)]

    def _terminal(self, name: str) -> str:
        if name == "NUMBER" and self.rng.random() < 0.1:
            return str(self.rng.randrange(10**6))
        return self.grammar.spelling[name] if name in self.grammar.spelling else self.rng.choice(_TERMINALS[name])

    def _relation(self, depth: int) -> list[str]:
        symbols = self.rng.choice([("call",), ("value", "comparator", "value")])
        tokens = self._all(symbols, depth + 1)
        if len(symbols) == 3 and self.rng.random() < 0.3:
            tokens += ["tolerance", *self.tokens("value", depth + 1)]
        return tokens

    def _file(self, depth: int) -> list[str]:
        if depth < self.budget and self.rng.random() < 0.3:
            return ["file", "(", self._terminal("STRING"), ",", "sha256:", self._terminal("STRING"), ")"]
        return [self._terminal("STRING")]


def random_spec(seed: int, declarations: int = 2) -> str:
    """A sentence of the language with random white space and comments; the same for the same seed."""
    rng = random.Random(seed)
    sentences = Sentences(rng)
    tokens = ["tm", "1"]
    for _ in range(rng.randint(0, declarations)):
        tokens += sentences.tokens("declaration")
    text = ""
    for token in tokens:
        tight = text[-1:] in _TIGHT or token in _TIGHT
        text += _gap(rng, tight) + token
    return text + _gap(rng, True)


def _gap(rng: random.Random, tight: bool) -> str:
    kind = rng.random()
    if kind < 0.05:
        return f"{rng.choice(('', ' ', chr(10)))}{rng.choice(_COMMENTS)}{rng.choice((chr(10), chr(13) + chr(10)))}"
    if kind < 0.2:
        return rng.choice(("\n", "\n\n", "  ", "\t", "\r\n", "\n  "))
    return "" if tight and kind < 0.6 else " "


# --- specs that mean something --------------------------------------------------------------------------------------

_SHARED = """tm 1

space px: tensor(3, 32, 32) of real[0, 1] stored as float32 order rgb

data test: px {{
  read:   npz("test.npz", inputs: "x", labels: "y")
  take:   first 1000
  truth:  published "labels of the test set"
}}
"""
_ONE = """
## Network number {n}.
model net_{n}: px -> classes(10) {{
  network:  torch("nets.py:small", weights: "net_{n}.safetensors")
  decide:   argmax ties lowest
  random:   never
}}

threat linf_{n} on net_{n} over test {{
  allow:         linf <= {k}/255 in px
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}}

evaluate run_{n} of linf_{n} {{
  attack:  ce = native.apgd(loss: ce, steps: 100, restarts: 1)
  seed:    {n}
}}

claim "number {n}": survival(run_{n}) >= {k} %
"""


def large_spec(lines: int) -> str:
    """A correct spec of about ``lines`` lines: many models, each with a threat, an evaluation and a claim."""
    each = _ONE.count("\n")
    count = max(1, (lines - _SHARED.count("\n")) // each)
    return _SHARED.format() + "".join(_ONE.format(n=n, k=n % 16 + 1) for n in range(count))
