"""Properties (input boxes and output relations without data) and shifts (averages over a change of the world)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Literal, cast

from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Property, Shift
from tmlang.meaning.values import Symbol, Value
from tmlang.semantics import clauses, data, decisions, distances, emptiness, models, published, values
from tmlang.semantics.models import KnownModel
from tmlang.semantics.scope import Bound, Entry, Env, World
from tmlang.semantics.spaces import doc
from tmlang.semantics.threats import KnownSubject
from tmlang.syntax import ast

_MIRRORED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "==": "=="}


def property_of(world: World, entry: Entry) -> KnownSubject | None:
    """The checked property."""
    return world.once(entry, entry.node.name, lambda: _property(world, entry))


def shift_of(world: World, entry: Entry, bound: Mapping[str, Bound], name: str, at: ast.Name) -> KnownSubject | None:
    """The instance of a shift with its parameters bound; ``name`` is what the instance is called in the program."""
    key = (entry, tuple(bound.items()))
    return world.once(key, at, lambda: _shift(world, entry, Env(entry.file, bound), name))


def _property(world: World, entry: Entry) -> KnownSubject | None:
    node, env = cast(ast.Property, entry.node), Env(entry.file)
    known = models.model(world, env, node.model)
    found = clauses.once_each(world, node)
    needed = {"given": "which inputs it speaks of", "always": "what holds of the outputs there"}
    complete = clauses.require(world, "TM401", node.name, found, needed)
    if known is None:
        return None
    name = world.names.of(entry)
    given = clauses.read(found, "given", lambda v: _given(world, env, v, known))
    always = clauses.read(found, "always", lambda v: _always(world, env, v, known))
    if not complete or given is None or always is None:
        return None
    at = cast(ast.Given, found["given"].value)
    empty = emptiness.check_given(world, at, given, known.space, name)
    made = Property(name, known.meaning.name, given, always, empty, doc(node), node.name.span)
    return KnownSubject(made, known, None)


def _given(world: World, env: Env, node: ast.Given, known: KnownModel) -> tuple[tuple[str, str, Fraction], ...] | None:
    """The input box, each bound in the unit of its feature and within its range."""
    made: list[tuple[str, str, Fraction]] = []
    ok = True
    for comparison in node.comparisons:
        one = _bound(world, env, comparison, known.space)
        ok = ok and one is not None
        made += [one] if one else []
    return tuple(made) if ok else None


def _bound(world: World, env: Env, node: ast.Comparison, space: Space) -> tuple[str, str, Fraction] | None:
    name, op, written = node.left, node.op, node.right
    turned = not (isinstance(name, ast.Name) and name.text in space.features)
    if turned and isinstance(written, ast.Name) and written.text in space.features:
        name, op, written = written, _MIRRORED[op], node.left  # type: ignore[assignment]
    if not isinstance(name, ast.Name):
        world.report("TM415", "a bound is a feature, a comparison and a number", node)
        return None
    if name.text not in space.features:
        if space.features:
            world.unknown("TM110", name, "feature", list(space.features), space.name)
        else:
            world.report("TM415", f"{space.name} has no named features to bound", name)
        return None
    got = distances.amount(world, env, written)
    if got is None:
        return None
    value = distances.of_feature(world, space, name.text, got, written)
    if value is None:
        return None
    cell = space.cells[space.features.index(name.text)]
    if not cell.low <= value <= cell.high:
        low, high = values.show(cell.low), values.show(cell.high)
        world.report("TM415", f"{name.text} lies in [{low}, {high}], and {values.show(value)} does not", written)
        return None
    return name.text, op, value


def _always(
    world: World, env: Env, node: ast.Condition, known: KnownModel
) -> tuple[tuple[str, str, Value], ...] | None:
    """Alternatives, any of which must hold."""
    if isinstance(node, ast.Conjunction):
        help = "write a property for each of them: both hold iff each does"
        world.report("TM012", "a property asserts one thing, or alternatives joined by or", node, help=help)
        return None
    parts = node.parts if isinstance(node, ast.Disjunction) else (node,)
    made = [_alternative(world, env, p, known) for p in parts]
    return None if None in made else cast("tuple[tuple[str, str, Value], ...]", tuple(made))


def _alternative(world: World, env: Env, node: ast.Condition, known: KnownModel) -> tuple[str, str, Value] | None:
    names = known.meaning.classes
    if isinstance(node, ast.Extremal):
        name = decisions.class_named(world, node.subject, names, code="TM415")
        return None if name is None else (name, f"is_{'not_' if node.negated else ''}{node.which}", None)
    if not isinstance(node, ast.Comparison) or not isinstance(node.left, ast.Name):
        world.report("TM415", "the outputs have the names of the classes: coc <= 1500, coc is not min", node)
        return None
    name = decisions.class_named(world, node.left, names, code="TM415")
    right = values.value(world, env, node.right)
    if isinstance(right, Symbol) and isinstance(node.right, ast.Name):
        other = decisions.class_named(world, node.right, names, code="TM415")
        return None if name is None or other is None else (name, node.op, Symbol(other))
    number = right if isinstance(right, Fraction) else values.number(world, env, node.right)
    return None if name is None or number is None else (name, node.op, number)


def _shift(world: World, entry: Entry, env: Env, name: str) -> KnownSubject | None:
    node = cast(ast.Shift, entry.node)
    known = models.model(world, env, node.model)
    examples = data.data(world, env, node.data)
    found = clauses.once_each(world, node)
    complete = clauses.require(world, "TM401", node.name, found, {"apply": "which change of the world is applied"})
    why = "an estimate is stated with its interval, for instance wilson at 95 %"
    complete = clauses.require(world, "TM610", node.name, found, {"interval": why}) and complete
    if known is not None and examples is not None:
        data.check_against(world, examples, known, node.data)
    env = env.about(known)
    changes = published.changes(world, env, node)
    interval = clauses.read(found, "interval", lambda v: _interval(world, env, v))
    if not complete or known is None or examples is None or not changes or interval is None:
        return None
    made = Shift(
        name,
        known.meaning.name,
        examples.meaning.name,
        changes,
        *interval,
        doc(node),
        node.name.span,
    )
    return KnownSubject(made, known, examples)


def _interval(
    world: World, env: Env, node: ast.Interval
) -> tuple[Literal["wilson", "clopper_pearson"], Fraction] | None:
    method = values.word(world, node.method, ("wilson", "clopper_pearson"), "interval")
    confidence = values.share(world, env, node.confidence, "a confidence")
    if method is None or confidence is None:
        return None
    return cast("Literal['wilson', 'clopper_pearson']", method), confidence
