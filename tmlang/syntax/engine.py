"""Runs the table over the tokens of a file, and goes on behind an error so that one run finds several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tmlang.base.source import Source, Span
from tmlang.diagnostics.model import Diagnostic
from tmlang.syntax import ast, editions
from tmlang.syntax.build import Builder
from tmlang.syntax.lexer import CLOSES, END, Token, span, tokenize
from tmlang.syntax.parser import Rule, Table, table

MAX_CHARACTERS = 1 << 20
MAX_DEPTH = 100
"""Nodes inside one another, from the file down to the deepest number."""
MAX_OPEN = 10 * MAX_DEPTH
"""Symbols that are read and not yet part of a tree: far more than so deep a tree can leave open."""
MAX_DIAGNOSTICS = 20


class ParseResult(NamedTuple):
    """``tree`` is ``None`` exactly when there is a diagnostic."""

    tree: ast.Module | None
    diagnostics: tuple[Diagnostic, ...]


def parse(source: Source) -> ParseResult:
    """The tree of ``source``, or TM0 diagnostics in the order of the text. Never raises for bad input."""
    if len(source.text) > MAX_CHARACTERS:
        whole = Span(source.name, 0, 1, 1, 1, 1, 2)
        return ParseResult(None, (Diagnostic("TM008", f"a spec has at most {MAX_CHARACTERS:,} characters", whole),))
    run = _Run(source, table())
    tree = run.run()
    found = sorted(run.diagnostics, key=lambda d: d.span.start)[:MAX_DIAGNOSTICS]
    return ParseResult(None if found else tree, tuple(found))


class _Run:
    """One parse. The stacks hold, for each symbol read: the state behind it, its value, the numbers of its first and
    last token, and how deep its tree is. ``states`` has the start state below all symbols."""

    def __init__(self, source: Source, grammar: Table) -> None:
        lexed = tokenize(source, grammar.clause_words)
        self.file = source.name
        self.table = grammar
        self.tokens = lexed.tokens
        self.diagnostics = lexed.diagnostics
        self.odd_lines = {d.span.line for d in lexed.diagnostics}
        self.builder = Builder(source.name, lexed, lexed.diagnostics)
        self.makers: dict[str, Callable[..., Any]] = {}
        self.states = [grammar.start]
        self.values: list[Any] = []
        self.shifted: tuple[list[int], list[Any]] = ([], [])
        """``states`` and ``values`` as they were behind the token before, with nothing reduced yet."""
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.depths: list[int] = []

    def run(self) -> ast.Module | None:
        """The tree, of which parts may be missing when there are diagnostics; ``None`` when the end was not reached."""
        if not self._is_of_this_edition():
            return None
        rows, rules, accept = self.table.states, self.table.rules, self.table.accept
        states, tokens = self.states, self.tokens
        place: int | None = 0
        while place is not None:
            token = tokens[place]
            actions = rows[states[-1]].actions
            for kind in token.kinds:
                action = actions.get(kind)
                if action is not None:
                    break
            else:
                if states[-1] == accept:
                    return self.values[-1]  # type: ignore[no-any-return]
                place = self._recover(place)
                continue
            if action >= 0:
                states.append(action)
                self.values.append(token)
                self.firsts.append(place)
                self.lasts.append(place)
                self.depths.append(0)
                if len(states) > MAX_OPEN:
                    self.diagnostics.append(_too_deep(span(self.file, token, token)))
                    return None
                self.shifted = (states.copy(), self.values.copy())
                place += 1
                continue
            rule = rules[-1 - action]
            if rule.renames:
                states[-1] = rows[states[-2]].gotos[rule.origin]
            elif not self._reduce(rule):
                return None
        return None

    def _is_of_this_edition(self) -> bool:
        """Whether to read on: with the edition in front, or as if it were there. Another edition is not read."""
        if [token.text for token in self.tokens[:2]] == ["tm", str(editions.CURRENT)]:
            return True
        from tmlang.syntax.messages import edition  # read only when there is something to say

        trouble = edition(self.file, self.tokens)
        self.diagnostics.append(trouble)
        self.tokens[: self.tokens[0].text == "tm"] = [Token((kind,), "", 0, 1, 1) for kind in ("tm", "NUMBER")]
        return trouble.code != "TM010"

    def _reduce(self, rule: Rule) -> bool:
        """Replace the symbols of a production by its value; ``False`` when the tree gets too deep."""
        size = rule.size
        children = self.values[-size:]
        depth = max(self.depths[-size:])
        if rule.recipe and rule.recipe[0] == [0] and rule.build == "_":
            items = children[0]  # a growing list is nobody else's
            rest = rule.recipe[1:]
        else:
            items, rest = [], rule.recipe
        for index in rest:
            if index is None:
                items.append(None)
            elif isinstance(index, int):
                items.append(children[index])
            else:
                items.extend(children[index[0]])
        first, last = self.firsts[-size], self.lasts[-1]
        if rule.build == "_":
            value = items
        elif rule.build == "":
            value = items[0]
        else:
            where = span(self.file, self.tokens[first], self.tokens[last])
            depth += 1
            if depth > MAX_DEPTH:
                self.diagnostics.append(_too_deep(where))
                return False
            maker = self.makers.get(rule.build)
            if maker is None:
                maker = self.makers[rule.build] = self.builder.maker(rule.build)
            value = maker(where, *items)
        self._pop(size)
        self.states.append(self.table.states[self.states[-1]].gotos[rule.origin])
        self.values.append(value)
        self.firsts.append(first)
        self.lasts.append(last)
        self.depths.append(depth)
        return True

    def _pop(self, count: int) -> None:
        if count:
            for stack in (self.states, self.values, self.firsts, self.lasts, self.depths):
                del stack[-count:]

    # --- behind an error

    def _recover(self, place: int) -> int | None:
        """Report the token at ``place``, find the next place to go on at and cut the stacks down to what may stand
        before it. ``None`` at the end of the file."""
        from tmlang.syntax.messages import Trouble, explain

        lines = {t.line for t in self.tokens[max(0, place - 1) : place + 1]}
        if not lines & self.odd_lines:
            trouble = Trouble(self.file, self.table, *self.shifted, self.tokens, place)
            self.diagnostics.append(explain(trouble))
        if len(self.diagnostics) >= MAX_DIAGNOSTICS or not self._settle():
            return None
        begins = [self.table.states[state].begins for state in self.states]
        module = max(i for i, kind in enumerate(begins) if kind == "declaration")
        block = max(i for i, kind in enumerate(begins) if kind)
        brackets = [v.text for v in self.values[block:] if isinstance(v, Token) and v.text in CLOSES]
        while self.tokens[place].kinds != (END,):
            if self._is_declaration(place, self.states[module]):
                self._pop(len(self.states) - 1 - module)
                return place
            if block != module and self._continues_block(place, self.states[block], brackets):
                self._pop(len(self.states) - 1 - block)
                return place
            _follow(brackets, self.tokens[place].text)
            place += 1
        return None

    def _settle(self) -> bool:
        """Reduce what is complete, so that the stacks end where a clause, a member or a declaration may begin;
        ``False`` when the tree gets too deep."""
        for kind in ("}", "claim"):
            found = self.table.reading(self.states, kind)
            if found and self.table.states[found[0]].begins:
                return all(self._reduce(rule) for rule in found[1])
        return True

    def _is_declaration(self, place: int, module: int) -> bool:
        """A declaration word at the start of a line, and before a name, a string or a brace."""
        token, following = self.tokens[place], self.tokens[min(place + 1, len(self.tokens) - 1)]
        begins = token.text in self.table.states[module].actions and self._is_first_on_line(place)
        return begins and bool({"NAME", "LABEL", "STRING", "{"} & set(following.kinds))

    def _continues_block(self, place: int, state: int, brackets: list[str]) -> bool:
        """Whether the next clause, member or the closing brace of the block stands here. Brackets that an error left
        open do not hide what stands at the start of a line."""
        token = self.tokens[place]
        if self.table.states[state].actions.get(token.kinds[0], -1) < 0:
            return False
        if token.text == "}":
            return "{" not in brackets
        return not brackets or (token.text.endswith(":") and self._is_first_on_line(place))

    def _is_first_on_line(self, place: int) -> bool:
        return place == 0 or self.tokens[place - 1].line < self.tokens[place].line


def _follow(brackets: list[str], text: str) -> None:
    """Keep ``brackets``, the open ones, up to date behind ``text``; a closing one closes what stands open inside."""
    if text in CLOSES:
        brackets.append(text)
    for opening, closing in CLOSES.items():
        if text == closing and opening in brackets:
            while brackets.pop() != opening:
                pass


def _too_deep(where: Span) -> Diagnostic:
    return Diagnostic(
        "TM008",
        f"more than {MAX_DEPTH} levels stand inside one another here",
        where,
        help="name a part: let total = …",
    )
