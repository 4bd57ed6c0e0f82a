"""The LALR(1) table of ``grammar/tm.lark``: made by lark, kept as JSON, read back in a few milliseconds.

The one place that imports lark, and only when no table of this grammar is at hand. The kept table stands in the
user's cache folder under the hash of the grammar and of this file. It is plain JSON, so that whoever could write there
could make us misread a spec but not run code; a folder that others may write to is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tmlang.base.resources import resource
from tmlang.syntax.lexer import END

START = "start"


class Rule(NamedTuple):
    """One production, to be reduced: pop ``size`` values, take those in ``recipe``, and build.

    ``recipe`` has one entry per item of the result: an index into the values (``[i]`` when that value is a list to be
    spliced in), or ``None`` for an optional part that does not stand. ``origin`` is the nonterminal; ``build`` names
    the function that makes the node, ``""`` to pass a single item on, ``"_"`` to make a list to be spliced.
    ``renames``: the one value stays as it is.
    """

    origin: str
    size: int
    recipe: tuple[int | list[int] | None, ...]
    build: str
    renames: bool


class State(NamedTuple):
    """``actions`` by kind of token: the state to shift to, or ``-1 - rule`` to reduce by it. ``gotos`` by nonterminal.

    ``within`` names the nonterminals that have begun here; ``begins`` says which kind of item of a longer list may
    begin (``declaration``, ``member`` of a space, ``threat_clause`` ...), ``""`` for none.
    """

    actions: dict[str, int]
    gotos: dict[str, int]
    within: tuple[str, ...]
    begins: str


class Table(NamedTuple):
    states: tuple[State, ...]
    rules: tuple[Rule, ...]
    start: int
    accept: int
    clause_words: frozenset[str]
    """With their colons."""

    def reading(self, states: Sequence[int], kind: str) -> tuple[int, list[Rule]] | None:
        """The state in which a token of this kind would be read (the accepting one, for the end), and the productions
        to reduce by before that; ``None`` where it may not stand."""
        stack, path = list(states), []
        while (action := self.states[stack[-1]].actions.get(kind, 0)) < 0:
            rule = self.rules[-1 - action]
            path.append(rule)
            del stack[-rule.size :]
            stack.append(self.states[stack[-1]].gotos[rule.origin])
        return (stack[-1], path) if action or (kind == END and stack[-1] == self.accept) else None


@cache
def table() -> Table:
    """The table of the grammar: from the cache, or made now and put there if possible."""
    grammar = (resource("grammar") / "tm.lark").read_bytes()
    stamp = hashlib.sha256(grammar + Path(__file__).read_bytes()).hexdigest()[:32]
    folder = _cache_folder()
    kept = folder / f"tm-{stamp}.json" if folder else None
    if kept is not None and kept.is_file():
        try:
            return _from_json(json.loads(kept.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError):
            pass  # a damaged cache is made again
    made = _make(grammar.decode())
    if kept is not None:
        _keep(kept, json.dumps(made, separators=(",", ":")))
    return _from_json(made)


def _cache_folder() -> Path | None:
    """The user's cache folder for us, or ``None`` where nobody but the user can be kept from writing to it."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "tmlang"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    if os.name == "posix" and (found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return None
    return folder


def _keep(path: Path, text: str) -> None:
    try:
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(text)
        draft.replace(path)
    except OSError:
        pass  # without a cache every start makes the table


def _from_json(data: dict[str, Any]) -> Table:
    """States share their ``actions`` and ``gotos`` where these are equal."""
    actions, gotos = data["actions"], data["gotos"]
    states = tuple(State(actions[a], gotos[g], tuple(w), b) for a, g, w, b in data["states"])
    rules = tuple(
        Rule(origin, size, tuple(recipe), build, renames=build == "" and recipe == [0] and size == 1)
        for origin, size, recipe, build in data["rules"]
    )
    return Table(states, rules, data["start"], data["accept"], frozenset(data["clause_words"]))


# --- with lark ------------------------------------------------------------------------------------------------------


def _make(grammar: str) -> dict[str, Any]:
    """The table as JSON data. Raises lark's ``GrammarError`` when the grammar has a conflict."""
    from lark.common import ParserConf
    from lark.load_grammar import load_grammar
    from lark.parsers.lalr_analysis import LALR_Analyzer

    loaded: Any = load_grammar(grammar, "tm.lark", [], False)  # type: ignore[no-untyped-call]
    terminals, rules, _ = loaded[0].compile([START], "*")
    spelling = {t.name: t.pattern.value if t.pattern.type == "str" else t.name for t in terminals} | {END: END}
    analyzer: Any = LALR_Analyzer(ParserConf(rules, {}, [START]), debug=True, strict=True)
    analyzer.compute_lalr()

    first = analyzer.lr0_start_states[START]
    numbers = {first: 0}
    order = [first]
    for itemset in order:  # grows while it is walked: breadth first, and the same on every machine
        for symbol in sorted(itemset.transitions, key=lambda s: s.name):
            following = itemset.transitions[symbol]
            if following not in numbers:
                numbers[following] = len(order)
                order.append(following)

    rule_numbers = {rule: n for n, rule in enumerate(rules)}
    actions, gotos, states = _Shared(), _Shared(), []
    accept = -1
    for itemset in order:
        moves = {s: numbers[t] for s, t in itemset.transitions.items()}
        act = {spelling[s.name]: n for s, n in moves.items() if s.is_term}
        act |= {spelling[s.name]: -1 - rule_numbers[r] for s, (r,) in itemset.lookaheads.items() if r in rule_numbers}
        goto = {s.name: n for s, n in moves.items() if not s.is_term}
        if any(p.is_satisfied and p.rule not in rule_numbers for p in itemset.kernel):
            accept = numbers[itemset]
        within = sorted({_plain(p.rule.origin) for p in itemset.kernel if p.index})
        begins = {_plain(p.rule.origin).lstrip("_") for p in itemset.closure if not p.index}
        items = sorted(b for b in begins if b in ("declaration", "member") or b.endswith("_clause"))
        states.append([actions.number(act), gotos.number(goto), within, items[0] if items else ""])
    return {
        "states": states,
        "actions": actions.rows,
        "gotos": gotos.rows,
        "rules": [[str(r.origin.name), len(r.expansion), _recipe(r), _build(r)] for r in rules],
        "start": 0,
        "accept": accept,
        "clause_words": sorted(word for word in spelling.values() if word.endswith(":") and len(word) > 1),
    }


class _Shared:
    """Rows, each distinct one once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, int]] = []
        self._known: dict[str, int] = {}

    def number(self, row: dict[str, int]) -> int:
        row = dict(sorted(row.items()))
        n = self._known.setdefault(str(row), len(self.rows))
        if n == len(self.rows):
            self.rows.append(row)
        return n


def _plain(origin: Any) -> str:
    """The rule that a person wrote: lark names the parts that it splits off ``__threat_star_12``."""
    name = str(origin.name)
    return name[2:].rsplit("_", 2)[0] if name.startswith("__") else name


def _recipe(rule: Any) -> list[int | list[int] | None]:
    absent = rule.options.empty_indices or (False,) * len(rule.expansion)
    recipe: list[int | list[int] | None] = []
    symbols = iter(enumerate(rule.expansion))
    for missing in absent:
        if missing:
            recipe.append(None)
            continue
        index, symbol = next(symbols)
        if symbol.is_term:
            if rule.options.keep_all_tokens or not symbol.filter_out:
                recipe.append(index)
        else:
            recipe.append([index] if symbol.name.startswith("_") else index)
    return recipe


def _build(rule: Any) -> str:
    if rule.alias:
        return str(rule.alias)
    if rule.origin.name.startswith("_"):
        return "_"
    if rule.options.expand1 and len(_recipe(rule)) == 1:
        return ""
    return str(rule.origin.name)
