"""Nodes back to text, each on one line; where the line may be broken is marked.

``BREAK`` stands for a blank or a line break. A broken line goes on below the character behind the innermost ``OPEN``
that ``CLOSE`` has not ended. No spec contains these three characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tmlang.syntax import ast

BREAK, OPEN, CLOSE = "\x1f", "\x01", "\x02"
WIDTH = 120
"""Characters of a line."""


def spell(node: ast.Node) -> str:
    """The text of a node that stands inside a declaration, on one line with break marks."""
    return _SPELL[type(node)](node)


def width_of(text: str) -> int:
    """The characters that a text with marks takes on one line."""
    return len(text) - text.count(OPEN) - text.count(CLOSE)


def words(*parts: str | ast.Node | None) -> str:
    """Words and nodes with blanks between; ``None`` is left out."""
    return " ".join(p if isinstance(p, str) else spell(p) for p in parts if p is not None)


def maybe(word: str, node: ast.Node | None) -> tuple[str | ast.Node, ...]:
    """A word before a node that need not stand."""
    return (word, node) if node is not None else ()


def commas(nodes: Iterable[ast.Node]) -> str:
    return f",{BREAK}".join(map(spell, nodes))


def arguments(args: Iterable[ast.Node]) -> str:
    return group("(", commas(args), ")")


def group(opening: str, inside: str, closing: str) -> str:
    return f"{opening}{OPEN}{inside}{CLOSE}{closing}"


def braced(items: Iterable[str], between: str) -> str:
    """``{ a b }``, or ``{}`` without items."""
    inside = between.join(items)
    return group("{ ", inside, " }") if inside else "{}"


def _names(names: tuple[ast.Name, ...]) -> str:
    return group("[", commas(names), "]")


def _string(node: ast.String) -> str:
    value = node.value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


# --- precedence: parentheses stand only where the tree would be another without them --------------------------------


def _wrap(node: ast.Node, *kinds: type) -> str:
    """In parentheses when of one of the kinds."""
    return group("(", spell(node), ")") if isinstance(node, kinds) else spell(node)


def _operand(node: ast.Value, operators: str, *kinds: type) -> str:
    """In parentheses when binary with one of the operators, or of one of the kinds."""
    inside = isinstance(node, ast.Binary) and node.op in operators
    return group("(", spell(node), ")") if inside else _wrap(node, *kinds)


def _binary(node: ast.Binary) -> str:
    """``8/255`` for two numbers; blanks around the sign elsewhere."""
    if node.op in "*/":
        left, right = _operand(node.left, "+-", ast.Quantity), _operand(node.right, "+-*/", ast.Quantity)
    else:
        left, right = spell(node.left), _operand(node.right, "+-")
    numerator = node.left.operand if isinstance(node.left, ast.Negate) else node.left
    tight = node.op == "/" and isinstance(numerator, ast.Number) and isinstance(node.right, ast.Number)
    return f"{left}/{right}" if tight else f"{left} {node.op}{BREAK}{right}"


# --- by type of node ------------------------------------------------------------------------------------------------


def _cell(node: ast.Cell) -> str:
    if node.kind == "choice":
        return group("{", commas(node.choices), "}")
    blank = " " if node.range and node.range.open else ""
    kind = node.kind + blank + (spell(node.range) if node.range else "")
    return words(kind, node.unit, *maybe("step", node.step))


def _reject_if(node: ast.RejectIf) -> str:
    test = ("class", node.value) if node.quantity.text == "class" else (node.quantity, node.op, node.value)
    return words(*test, node.calibration)


def _take(node: ast.Take) -> str:
    match node.kind:
        case "where":
            return words("where label ==", node.label)
        case "correct":
            return words("correct under", node.model)
    return words(node.kind, node.count, node.file, *maybe("seed", node.seed))


def _ball(node: ast.Ball) -> str:
    per = f"per {node.per}" if node.per else None
    return words(
        node.norm, node.metric, "<=", node.radius, per, *maybe("in", node.space), *maybe("tolerance", node.tolerance)
    )


def _either(node: ast.Either) -> str:
    return f" {BREAK}or  ".join(_wrap(part, ast.Either) for part in node.parts)


def _mutable(node: ast.Mutable) -> str:
    everything = "all except" if node.picks else "all"
    return words(everything if node.everything else None, commas(node.picks) if node.picks else None)


def _index_pick(node: ast.IndexPick) -> str:
    last = "" if node.last is node.first else f"..{spell(node.last)}"
    return f"{node.axis} {spell(node.first)}{last}"


def _goal(node: ast.Goal) -> str:
    if node.kind == "untargeted":
        return "untargeted"
    word = node.word.text + (arguments(node.args) if node.args else "")
    return words("targeted", word, node.target, node.each, node.column)


def _level(node: ast.Level) -> str:
    details = f",{BREAK}".join(words(name, number) for name, number in node.details)
    return words(node.word, group("(", details, ")") if details else None)


def _success(node: ast.ErrorProbability) -> str:
    draws = ("on", node.draws, "fresh draws") if node.draws else ()
    return words("error_probability >", node.threshold, "at", node.confidence, *draws)


def _assume(node: ast.Assume) -> str:
    match node.kind:
        case "reviewed":
            return words(node.text, "reviewed", node.reviewed, "of", node.total)
        case kind:
            return words(node.text, kind, node.file)


_SPELL: dict[type, Callable[[Any], str]] = {
    ast.Name: lambda n: n.text,
    ast.Path: lambda n: n.text,
    ast.Number: lambda n: n.text,
    ast.String: _string,
    ast.Unit: lambda n: "%" if n.text == "%" else f"'{n.text}'",
    ast.Negate: lambda n: "-" + _wrap(n.operand, ast.Binary, ast.Quantity),
    ast.Binary: _binary,
    ast.Quantity: lambda n: words(_operand(n.value, "+-", ast.Quantity), n.unit),
    ast.Distance: lambda n: words(n.value, "in", n.space),
    ast.Arg: lambda n: f"{n.name.text}: {spell(n.value)}" if n.name else spell(n.value),
    ast.Call: lambda n: n.path.text + arguments(n.args),
    ast.Tuple: lambda n: arguments(n.items),
    ast.List: lambda n: group("[", commas(n.items), "]"),
    ast.Choice: lambda n: group("{", commas(n.items), "}"),
    ast.Range: lambda n: group("open(" if n.open else "[", commas((n.low, n.high)), ")" if n.open else "]"),
    ast.File: lambda n: words(f"file({spell(n.path)}, sha256:", f"{spell(n.sha256)})") if n.sha256 else spell(n.path),
    ast.Comparison: lambda n: words(n.left, n.op, n.right, *maybe("tolerance", n.tolerance)),
    ast.Extremal: lambda n: words(n.subject, "is", "not" if n.negated else None, n.which),
    ast.Conjunction: lambda n: f"{BREAK}and ".join(_wrap(p, ast.Conjunction, ast.Disjunction) for p in n.parts),
    ast.Disjunction: lambda n: f"{BREAK}or ".join(_wrap(p, ast.Disjunction) for p in n.parts),
    # spaces
    ast.Cell: _cell,
    ast.TensorBody: lambda n: words("tensor" + arguments(n.shape), "of", n.cell),
    ast.Derive: lambda n: words("derive", n.name, "=", group("", spell(n.value), "")),
    ast.Where: lambda n: words("where", group("", spell(n.relation), "")),
    ast.StoredAs: lambda n: words("stored as", n.dtype),
    ast.Order: lambda n: words("order", n.order),
    ast.DeliveredAs: lambda n: words("delivered as", n.codec),
    ast.Originals: lambda n: words("originals", "must" if n.word.text == "comply" else None, n.word),
    # models and data
    ast.ClassCount: lambda n: f"classes({spell(n.count)})",
    ast.Step: lambda n: words(n.call, *maybe("as", n.result)),
    ast.Network: lambda n: spell(n.call) + (f"{BREAK}outputs {', '.join(map(spell, n.outputs))}" if n.outputs else ""),
    ast.Ensemble: lambda n: words(n.rule, "of", n.of, *(("over", _names(n.members)) if n.members else ())),
    ast.Extreme: lambda n: n.word,
    ast.Threshold: lambda n: words("threshold", n.quantity, n.op, n.value, "then", n.positive, "else", n.negative),
    ast.Draws: lambda n: words(n.word, "of", n.count, "draws"),
    ast.MostLikely: lambda _: "most_likely draw",
    ast.Decide: lambda n: words(n.rule, *maybe("ties", n.ties), *maybe("non_finite", n.non_finite)),
    ast.Reject: lambda n: "when " + f"{BREAK}or ".join(map(spell, n.conditions)),
    ast.RejectIf: _reject_if,
    ast.Calibration: lambda n: words("calibrated on", n.data, "at", n.rate, "clean rejection"),
    ast.Random: lambda n: words(n.word.replace("_", " "), n.seed, *maybe("because", n.reason)),
    ast.Prepare: lambda n: braced(map(spell, n.steps), BREAK),
    ast.Take: _take,
    ast.Truth: lambda n: words(n.kind, "by" if n.model else None, n.text, n.file, n.model),
    # threats
    ast.Ball: _ball,
    ast.Patch: lambda n: words(n.call, *maybe("at", n.at)),
    ast.AnyPlace: lambda _: "any place",
    ast.Transform: lambda n: words(
        "transform",
        braced(map(spell, n.parts), f" {BREAK}"),
        *maybe("interpolate", n.interpolate),
        *maybe("fill", n.fill),
    ),
    ast.TransformPart: lambda n: words(n.name, "<=", n.bound, *maybe("step", n.step)),
    ast.Anything: lambda _: "anything",
    ast.Branch: lambda n: f"{n.name.text}: {_wrap(n.allowed, ast.Both, ast.Either, ast.Branch)}",
    ast.Both: lambda n: f"{BREAK}and ".join(_wrap(part, ast.Both, ast.Either) for part in n.parts),
    ast.Either: _either,
    ast.Minimize: lambda n: words(n.norm, n.metric, *maybe("in", n.space)),
    ast.Mutable: _mutable,
    ast.FeaturePick: lambda n: words(n.name, n.direction, "only" if n.direction else None),
    ast.IndexPick: _index_pick,
    ast.MaskPick: lambda n: words(n.call, "per example" if n.per_example else None),
    ast.Perturbation: lambda n: words("universal fitted on", n.fitted_on) if n.fitted_on else "per example",
    ast.NaturePart: lambda n: words(n.name, n.distribution, n.range, n.unit),
    ast.Nature: lambda n: words(
        braced(map(spell, n.parts), f" {BREAK}"),
        *maybe("draws", n.draws),
        *maybe("interpolate", n.interpolate),
        *maybe("fill", n.fill),
    ),
    ast.Goal: _goal,
    ast.Access: lambda n: commas(n.items),
    ast.Level: _level,
    ast.TransferFrom: lambda n: words("transfer from", _names(n.models)),
    ast.Queries: lambda n: words("queries <=", n.limit, "per", n.per),
    ast.RandomnessKnown: lambda n: words("randomness", n.word),
    ast.Requests: lambda n: words("requests", n.word.replace("_", " ")),
    ast.UnawareOf: lambda n: words("unaware of", _names(n.parts)),
    ast.Rejected: lambda n: words(n.policy, *maybe("within", n.within)) + (f",{BREAK}safe beyond" if n.within else ""),
    ast.ErrorProbability: _success,
    ast.SingleDraw: lambda n: words("single draw judged on", n.draws, "fresh draws"),
    ast.Assume: _assume,
    ast.ExternalUnits: lambda n: words("external because", n.reason),
    ast.Given: lambda n: commas(n.comparisons),
    ast.Interval: lambda n: words(n.method, "at", n.confidence),
    # evaluations and claims
    ast.Stage: lambda n: words(*((n.label, "=") if n.label else ()), n.call, *maybe("through", n.through)),
    ast.StopAfter: lambda n: words("after", n.time),
    ast.Curve: lambda n: words(n.parameter, "over", n.values),
    ast.Figures: lambda n: commas(n.calls),
    ast.Parameter: lambda n: words(n.name, *maybe("=", n.default), *maybe("in", n.among)),
    ast.RoundsTo: lambda n: words("rounds to", n.value),
}
