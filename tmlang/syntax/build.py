"""From productions to nodes.

The table names for each production what makes its value: an alias or a rule of ``grammar/tm.lark``. It gets the span of
what was read and the items of the production in order: tokens of the words that are kept, nodes of the parts, ``None``
for an optional part that does not stand. Most are a node class (:data:`_NODES`) or one that takes all items as a tuple
(:data:`_SEQUENCES`); the others are methods of :class:`Builder`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tmlang.base.source import Span
from tmlang.diagnostics.model import Diagnostic
from tmlang.syntax import ast
from tmlang.syntax.build_threats import ThreatBuilder
from tmlang.syntax.lexer import Lexed, Token, span

MAX_NUMBER = 100
"""Characters of a number."""
MAX_EXPONENT = 400

_NODES: dict[str, Callable[..., Any]] = {
    "quantity": ast.Quantity,
    "negate": ast.Negate,
    "distance": ast.Distance,
    "named_arg": ast.Arg,
    "call": ast.Call,
    "closed_range": ast.Range,
    "comparison": ast.Comparison,
    "feature": ast.Feature,
    "derive": ast.Derive,
    "weight": ast.Arg,
    "stored_as": ast.StoredAs,
    "order": ast.Order,
    "delivered_as": ast.DeliveredAs,
    "class_count": ast.ClassCount,
    "step": ast.Step,
    "head": ast.Arg,
    "decide": ast.Decide,
    "threshold": ast.Threshold,
    "most_likely": ast.MostLikely,
    "calibration": ast.Calibration,
    "parameter": ast.Parameter,
    "branch": ast.Branch,
    "patch": ast.Patch,
    "any_place": ast.AnyPlace,
    "transform_part": ast.TransformPart,
    "anything": ast.Anything,
    "minimize": ast.Minimize,
    "perturbation": ast.Perturbation,
    "nature_part": ast.NaturePart,
    "queries": ast.Queries,
    "randomness": ast.RandomnessKnown,
    "error_probability": ast.ErrorProbability,
    "single_draw": ast.SingleDraw,
    "assume": ast.Assume,
    "units": ast.ExternalUnits,
    "interval": ast.Interval,
    "stage": ast.Stage,
    "stop_after": ast.StopAfter,
    "curve": ast.Curve,
    "rounds_to": ast.RoundsTo,
}
_SEQUENCES: dict[str, Callable[..., Any]] = {
    "path": ast.Path,
    "list": ast.List,
    "tuple": ast.Tuple,
    "choice": ast.Choice,
    "disjunction": ast.Disjunction,
    "conjunction": ast.Conjunction,
    "features": ast.FeatureBody,
    "reject": ast.Reject,
    "prepare": ast.Prepare,
    "either": ast.Either,
    "both": ast.Both,
    "access": ast.Access,
    "transfer": ast.TransferFrom,
    "unaware": ast.UnawareOf,
    "given": ast.Given,
    "figures": ast.Figures,
}


class Builder(ThreatBuilder):
    """Makes the nodes of one file. ``diagnostics`` gets what is wrong and the grammar cannot say."""

    def __init__(self, file: str, lexed: Lexed, diagnostics: list[Diagnostic]) -> None:
        self._file = file
        self._comments = lexed.comments
        self._docs: dict[int, list[ast.Comment]] = {}
        for comment, before in zip(lexed.comments, lexed.before, strict=True):
            trails = before > 0 and lexed.tokens[before - 1].line == comment.span.line
            if comment.doc and not trails:
                self._docs.setdefault(lexed.tokens[before].start, []).append(comment)
        self._diagnostics = diagnostics

    def maker(self, build: str) -> Callable[..., Any]:
        """What makes the value of a production, from its span and its items."""
        if build in _NODES:
            return _NODES[build]
        if build in _SEQUENCES:
            node = _SEQUENCES[build]
            return lambda where, *items: node(where, items)
        made: Callable[..., Any] = getattr(self, build)
        return made

    def _doc(self, where: Span) -> tuple[ast.Comment, ...]:
        return tuple(self._docs.get(where.start, ()))

    def _refuse(self, code: str, message: str, where: Span, help: str) -> None:
        self._diagnostics.append(Diagnostic(code, message, where, help=help))

    # --- names and values

    def name(self, where: Span, token: Token) -> ast.Name:
        return ast.Name(where, token.text)

    def label(self, _: Span, token: Token) -> ast.Name:
        """Without the colon and the blanks before it."""
        text = token.text[:-1].rstrip()
        return ast.Name(span(self._file, token, token._replace(text=text)), text)

    def string(self, where: Span, token: Token) -> ast.String:
        return ast.String(where, re.sub(r"\\(.)", r"\1", token.text[1:-1]))

    def number(self, where: Span, token: Token) -> ast.Number:
        text = token.text
        if len(text) < 20 and text.isdecimal():
            return ast.Number(where, Fraction(int(text)), text)
        _, _, exponent = text.lower().partition("e")
        if len(text) > MAX_NUMBER or (exponent.lstrip("+-").isdecimal() and abs(int(exponent)) > MAX_EXPONENT):
            self._refuse(
                "TM007",
                f"a number has at most {MAX_NUMBER} characters and an exponent of at most {MAX_EXPONENT}",
                where,
                help="write a fraction, such as 8/255",
            )
            return ast.Number(where, Fraction(0), text)
        try:
            return ast.Number(where, Fraction(text), text)
        except ValueError:  # the lexer has said so
            return ast.Number(where, Fraction(0), text)

    def unit(self, where: Span, token: Token) -> ast.Unit:
        return ast.Unit(where, token.text.strip("'"))

    percent = unit

    def binary(self, where: Span, left: ast.Value, op: Token, right: ast.Value) -> ast.Binary:
        return ast.Binary(where, op.text, left, right)  # type: ignore[arg-type]

    def comparator(self, _: Span, op: Token) -> str:
        return op.text

    def positional_arg(self, where: Span, value: ast.Value) -> ast.Arg:
        return ast.Arg(where, None, value)

    def word_call(self, where: Span, name: ast.Name, args: tuple[ast.Arg, ...]) -> ast.Call:
        return ast.Call(where, ast.Path(name.span, (name,)), args)

    def arguments(self, _: Span, *args: ast.Arg) -> tuple[ast.Arg, ...]:
        return args

    def open_range(self, where: Span, low: ast.Value, high: ast.Value) -> ast.Range:
        return ast.Range(where, low, high, open=True)

    def file(self, where: Span, path: ast.String | tuple[ast.Arg, ...]) -> ast.File:
        if isinstance(path, ast.String):
            return ast.File(where, path)
        match path:
            case (ast.Arg(name=None, value=ast.String() as name),):
                return ast.File(where, name)
            case (
                ast.Arg(name=None, value=ast.String() as name),
                ast.Arg(name=ast.Name(text="sha256"), value=ast.String() as sha256),
            ):
                return ast.File(where, name, sha256)
        self._refuse("TM001", "a file is a name and, at most, its hash", where, help='file("ids.txt", sha256: "9f2c…")')
        return ast.File(where, ast.String(where, ""))

    def extremal(self, where: Span, subject: ast.Name, *words: Token) -> ast.Extremal:
        which: Any = words[-1].text
        return ast.Extremal(where, subject, any(w is not None and w.text == "not" for w in words), which)

    # --- clauses and declarations

    def clause(self, where: Span, word: Token, value: Any) -> ast.Clause:
        here = span(self._file, word, word)
        return ast.Clause(where, ast.Name(here, word.text[:-1].rstrip()), value)

    def start(self, where: Span, edition: ast.Number, *declarations: ast.Declaration) -> ast.Module:
        attached = {comment.span.start for declaration in declarations for comment in declaration.doc}
        comments = (ast.Comment(c.span, c.text, c.span.start in attached) for c in self._comments)
        return ast.Module(where, edition, declarations, tuple(comments))

    def use(self, where: Span, module: ast.Path | ast.String, *names: ast.Name) -> ast.Use:
        return ast.Use(where, self._doc(where), module, names)

    def let(self, where: Span, name: ast.Name, value: ast.Value) -> ast.Let:
        return ast.Let(where, self._doc(where), name, value)

    def param(self, where: Span, name: ast.Name, value: ast.Value, within: ast.Range | None) -> ast.Param:
        return ast.Param(where, self._doc(where), name, value, within)

    def space(self, where: Span, name: ast.Name, body: Any, *modifiers: Any) -> ast.Space:
        return ast.Space(where, self._doc(where), name, body, modifiers)

    def model(self, where: Span, name: ast.Name, space: ast.Name, classes: Any, *clauses: ast.Clause) -> ast.Model:
        return ast.Model(where, self._doc(where), clauses, name, space, classes)

    def data(self, where: Span, name: ast.Name, space: ast.Name, *clauses: ast.Clause) -> ast.Data:
        return ast.Data(where, self._doc(where), clauses, name, space)

    def parameters(self, _: Span, *parameters: ast.Parameter) -> tuple[ast.Parameter, ...]:
        return parameters

    def threat(
        self,
        where: Span,
        name: ast.Name,
        parameters: tuple[ast.Parameter, ...] | None,
        model: ast.Name,
        data: ast.Name,
        *clauses: ast.Clause,
    ) -> ast.Threat:
        return ast.Threat(where, self._doc(where), clauses, name, parameters or (), model, data)

    def property(self, where: Span, name: ast.Name, model: ast.Name, *clauses: ast.Clause) -> ast.Property:
        return ast.Property(where, self._doc(where), clauses, name, model)

    def shift(
        self, where: Span, name: ast.Name, parameters: Any, model: ast.Name, data: ast.Name, *clauses: ast.Clause
    ) -> ast.Shift:
        return ast.Shift(where, self._doc(where), clauses, name, parameters or (), model, data)

    def suite(self, where: Span, name: ast.Name, parameters: Any, *clauses: ast.Clause) -> ast.Suite:
        return ast.Suite(where, self._doc(where), clauses, name, parameters or ())

    def evaluate(self, where: Span, name: ast.Name, subject: ast.Name, args: Any, *clauses: ast.Clause) -> ast.Evaluate:
        return ast.Evaluate(where, self._doc(where), clauses, name, subject, args)

    def report(self, where: Span, *clauses: ast.Clause) -> ast.Report:
        return ast.Report(where, self._doc(where), clauses)

    def claim(self, where: Span, text: ast.String, left: ast.Value, *rest: Any) -> ast.Claim:
        """``rest`` is the population behind nothing, behind a comparator and a value, or behind ``rounds to``."""
        *verdict, population = rest
        op: Any
        op, right = verdict if len(verdict) == 2 else ("rounds_to", verdict[0]) if verdict else (None, None)
        return ast.Claim(where, self._doc(where), text, left, op, right, population)

    # --- spaces, models, data

    def tensor(self, where: Span, *items: Any) -> ast.TensorBody:
        *shape, cell = items
        return ast.TensorBody(where, tuple(shape), cell)

    def where(self, where: Span, relation: ast.Comparison | ast.Call) -> ast.Where:
        return ast.Where(where, relation)

    def relation(
        self,
        where: Span,
        left: ast.Value,
        op: Any,
        right: ast.Value | None,
        tolerance: ast.Value | None,
    ) -> ast.Comparison | ast.Call:
        if right is not None:
            return ast.Comparison(where, left, op, right, tolerance)
        if isinstance(left, ast.Call):
            return left
        self._refuse("TM001", "a relation compares two sides", where, help="where open_acc <= total_acc")
        return ast.Comparison(where, left, "==", left)

    def metric(self, where: Span, name: ast.Name, *weights: ast.Arg) -> ast.Metric:
        return ast.Metric(where, name, weights)

    def cell(self, where: Span, word: Any, *rest: Any) -> ast.Cell:
        if isinstance(word, ast.Choice):
            return ast.Cell(where, "choice", where, choices=word.items)
        here = span(self._file, word, word)
        if not rest:
            return ast.Cell(where, "bytes", here)
        within, unit, _, step = rest
        return ast.Cell(where, word.text, here, within, step, unit)

    def originals(self, where: Span, *words: Token) -> ast.Originals:
        word = words[-1]
        return ast.Originals(where, ast.Name(span(self._file, word, word), word.text))

    def network(self, where: Span, call: ast.Call, *heads: ast.Arg | None) -> ast.Network:
        return ast.Network(where, call, tuple(h for h in heads if h is not None))

    def ensemble(self, where: Span, rule: ast.Name, of: ast.Name, *members: ast.Name | None) -> ast.Ensemble:
        return ast.Ensemble(where, rule, of, tuple(m for m in members if m is not None))

    def extreme(self, where: Span, word: Token) -> ast.Extreme:
        return ast.Extreme(where, word.text)  # type: ignore[arg-type]

    def draws(self, where: Span, word: Token, _of: Token, count: ast.Value, _draws: Token) -> ast.Draws:
        return ast.Draws(where, word.text, count)  # type: ignore[arg-type]

    def class_rejection(self, where: Span, word: Token, value: ast.Name | ast.Number) -> ast.RejectIf:
        return ast.RejectIf(where, ast.Name(span(self._file, word, word), "class"), "==", value)

    def reject_if(self, where: Span, *items: Any) -> ast.RejectIf:
        *condition, calibration = items
        if len(condition) == 1:
            only: ast.RejectIf = condition[0]
            condition = [only.quantity, only.op, only.value]
        quantity, op, value = condition
        return ast.RejectIf(where, quantity, op, value, calibration)

    def random(self, where: Span, word: Token, *rest: Any) -> ast.Random:
        if word.text == "seeded":
            seed, _, reason = rest
            return ast.Random(where, "seeded", seed, reason)
        return ast.Random(where, "never" if word.text == "never" else "per_request")
