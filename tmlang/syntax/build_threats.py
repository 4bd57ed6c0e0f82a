"""From productions to nodes: what stands in the clauses of data and threats. See :mod:`tmlang.syntax.build`."""

from __future__ import annotations

from typing import Any

from tmlang.base.source import Span
from tmlang.syntax import ast
from tmlang.syntax.lexer import Token, span


class ThreatBuilder:
    _file: str

    def _word(self, *tokens: Token) -> ast.Name:
        """Kept words as a name: ``share state`` is ``share_state``."""
        return ast.Name(span(self._file, tokens[0], tokens[-1]), "_".join(t.text for t in tokens))

    # --- data

    def take_all(self, where: Span) -> ast.Take:
        return ast.Take(where, "all")

    def take_first(self, where: Span, count: ast.Value) -> ast.Take:
        return ast.Take(where, "first", count)

    def take_every(self, where: Span, count: ast.Value) -> ast.Take:
        return ast.Take(where, "every", count)

    def take_sample(self, where: Span, count: ast.Value, seed: ast.Value | None) -> ast.Take:
        return ast.Take(where, "sample", count, seed)

    def take_ids(self, where: Span, file: ast.File) -> ast.Take:
        return ast.Take(where, "ids", file=file)

    def take_where(self, where: Span, label: ast.Name | ast.Number) -> ast.Take:
        return ast.Take(where, "where", label=label)

    def take_correct(self, where: Span, model: ast.Name) -> ast.Take:
        return ast.Take(where, "correct", model=model)

    def truth_published(self, where: Span, text: ast.String) -> ast.Truth:
        return ast.Truth(where, "published", text=text)

    def truth_reviewed(self, where: Span, file: ast.File) -> ast.Truth:
        return ast.Truth(where, "reviewed", file=file)

    def truth_predicted(self, where: Span, model: ast.Name) -> ast.Truth:
        return ast.Truth(where, "predicted", model=model)

    # --- allowed sets

    def per(self, _: Span, __: Token, what: Token) -> str:
        return what.text

    def ball(
        self,
        where: Span,
        norm: ast.Name,
        radius: ast.Value,
        per: Any,
        space: ast.Name | None,
        tolerance: ast.Value | None,
    ) -> ast.Ball:
        return ast.Ball(where, norm, radius, space, per=per, tolerance=tolerance)

    def metric_ball(
        self,
        where: Span,
        word: Token,
        metric: ast.Name,
        radius: ast.Value,
        space: ast.Name | None,
        tolerance: ast.Value | None,
    ) -> ast.Ball:
        return ast.Ball(where, self._word(word), radius, space, metric, tolerance=tolerance)

    def metric_minimize(self, where: Span, word: Token, metric: ast.Name, space: ast.Name | None) -> ast.Minimize:
        return ast.Minimize(where, self._word(word), space, metric)

    def transform(self, where: Span, *items: Any) -> ast.Transform:
        *parts, interpolate, fill = items
        return ast.Transform(where, tuple(parts), interpolate, fill)

    def fixed_call(self, where: Span, word: Token, args: tuple[ast.Arg, ...]) -> ast.Call:
        name = self._word(word)
        return ast.Call(where, ast.Path(name.span, (name,)), args)

    # --- masks, quantifiers, goals

    def mutable_all(self, where: Span) -> ast.Mutable:
        return ast.Mutable(where, True)

    def mutable_except(self, where: Span, *picks: ast.Pick) -> ast.Mutable:
        return ast.Mutable(where, True, picks)

    def mutable(self, where: Span, *picks: ast.Pick) -> ast.Mutable:
        return ast.Mutable(where, False, picks)

    def feature_pick(self, where: Span, name: ast.Name, direction: Token | None, _: Token | None) -> ast.FeaturePick:
        return ast.FeaturePick(where, name, direction.text if direction else None)  # type: ignore[arg-type]

    def index_pick(self, where: Span, axis: Token, first: ast.Value, _: Any, last: ast.Value | None) -> ast.IndexPick:
        return ast.IndexPick(where, axis.text, first, last or first)  # type: ignore[arg-type]

    def per_example(self, _: Span) -> bool:
        return True

    def mask_pick(self, where: Span, call: ast.Call, per_example: bool | None) -> ast.MaskPick:
        return ast.MaskPick(where, call, bool(per_example))

    def nature(self, where: Span, *items: Any) -> ast.Nature:
        *parts, draws, interpolate, fill = items
        return ast.Nature(where, tuple(parts), draws, interpolate, fill)

    def goal_word(self, where: Span, word: Token) -> ast.Goal:
        return ast.Goal(where, "untargeted", self._word(word))

    def goal_class(self, where: Span, _: Token, word: Token, target: ast.Name | ast.Number) -> ast.Goal:
        return ast.Goal(where, "class", self._word(word), target=target)

    def goal_each(self, where: Span, _: Token, word: Token, each: ast.Name) -> ast.Goal:
        return ast.Goal(where, "each", self._word(word), each=each)

    def goal_column(self, where: Span, _: Token, word: Token, column: ast.String) -> ast.Goal:
        return ast.Goal(where, "column", self._word(word), column=column)

    def goal_rule(self, where: Span, _: Token, word: ast.Name, args: tuple[ast.Arg, ...] | None) -> ast.Goal:
        return ast.Goal(where, "rule", word, args=args or ())

    # --- access, rejections, assumptions

    def level(self, where: Span, word: ast.Name, *details: Any) -> ast.Level:
        return ast.Level(where, word, tuple(d for d in details if d is not None))

    def detail(self, _: Span, name: ast.Name, number: ast.Number | None) -> tuple[ast.Name, ast.Number | None]:
        return name, number

    def requests(self, where: Span, _: Token, *words: Token) -> ast.Requests:
        return ast.Requests(where, self._word(*words).text)  # type: ignore[arg-type]

    def rejected(self, where: Span, policy: ast.Name, within: ast.Ball | None, beyond: Token | None) -> ast.Rejected:
        return ast.Rejected(where, policy, within, self._word(beyond) if beyond else None)

    def assume_evidence(self, where: Span, text: ast.String, file: ast.File) -> ast.Assume:
        return ast.Assume(where, text, "evidence", file)

    def assume_reviewed(self, where: Span, text: ast.String, reviewed: ast.Value, total: ast.Value) -> ast.Assume:
        return ast.Assume(where, text, "reviewed", reviewed=reviewed, total=total)

    def assume_unreviewed(self, where: Span, text: ast.String) -> ast.Assume:
        return ast.Assume(where, text, "unreviewed")
