"""Corruptions as they are written: ``read: as_published(…)`` in one of its layouts, and the ``apply:`` of shifts."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import cast

from tmlang.diagnostics.model import Label
from tmlang.meaning.corruptions import called, chosen, layout, spelled_out
from tmlang.meaning.values import Call, Symbol, Value
from tmlang.semantics import values
from tmlang.semantics.builtins import PUBLISHED, ReaderRow
from tmlang.semantics.scope import Env, World
from tmlang.semantics.values import show
from tmlang.syntax import ast


def row_of(world: World, env: Env, file: ast.Value, named: Mapping[str, ast.Arg]) -> ReaderRow | None:
    """The row of the set's layout; ``None`` after a report, or where the arguments are not complete."""
    if not isinstance(file, ast.String):
        return None
    labels = values.value(world, env, named["labels"].value) if "labels" in named else None
    kind = layout(file.value, labels)
    if kind is not None:
        return PUBLISHED[kind]
    if "labels" in named:
        help = 'a folder has labels: "labels.npy" beside <corruption>.npy, or labels: names / labels: sorted'
        message = "this says neither arrays by corruption nor folders by corruption, severity and class"
        world.report("TM744", message, named["labels"].value, help=help)
    return None


def told(world: World, call: Call, named: Mapping[str, ast.Arg]) -> bool:
    """Whether ``corruption:`` and ``severity:`` say what their layout needs; reported if not."""
    args = dict(call.args)
    one_file = isinstance(args.get(""), str) and layout(str(args[""]), None) in ("npz", "csv")
    for name in ("corruption", "severity"):
        node, value = named[name].value, args[name]
        if one_file:
            why = None if isinstance(value, str) else "one file has a column or array for it: its name in quotes"
        else:
            why = _corruptions(value) if name == "corruption" else _listed(value, node) or _severities(value)
        if why is not None:
            world.report("TM744", f"{name}: {why}", node, help=_EXAMPLES[name][one_file])
            return False
    return True


_EXAMPLES = {
    "corruption": ("corruption: common, extra, all, or (fog, frost)", 'corruption: "c"'),
    "severity": ("severity: all, 5, or (1, 3, 5)", 'severity: "s"'),
}


def _corruptions(value: Value) -> str | None:
    """Why this names no corruptions, if it does not."""
    names = chosen(value)
    if names is None or (names == () and value != Symbol("all")):
        return "which corruptions of the folder is said by name"
    twice = sorted({n for n in names if names.count(n) > 1})
    return f"{twice[0]} stands twice" if twice else None


def _severities(value: Value) -> str | None:
    if isinstance(value, Symbol):
        return None if value.name == "all" else f"{value.name} is no severity"
    listed = value if isinstance(value, tuple) else (value,)
    numbers = [v for v in listed if isinstance(v, Fraction)]
    if len(numbers) < len(listed) or not listed:
        return "which severities of the folder is said by whole numbers"
    wrong = [v for v in numbers if v.denominator != 1 or v < 1]
    if wrong:
        return f"{show(wrong[0])} is no severity: they are whole numbers from 1 on"
    return "one stands twice" if len(set(numbers)) < len(numbers) else None


def changes(world: World, env: Env, node: ast.Shift) -> tuple[Call, ...] | None:
    """The changes of a shift in order, each severity of a list by itself; reported where two are the same, or where a
    published set is changed once more."""
    made: dict[str, Call] = {}
    for clause in node.all("apply"):
        written = cast(ast.Call, clause.value)
        call = values.call(world, env, written)
        severity = next((a for a in written.args if a.name and a.name.text == "severity"), None)
        if severity is not None and (why := _listed(dict(call.args)["severity"], severity.value)):
            world.report("TM744", f"severity: {why}", severity.value, help="severity: 3, or severity: (1, 2, 3, 4, 5)")
            return None
        for one in spelled_out(call):
            if called(one) in made:
                labels = (Label(made[called(one)].origin, "the first one"),)
                world.report(
                    "TM102", f"two changes of {node.name.text} are called {called(one)}", written, labels=labels
                )
                return None
            made[called(one)] = one
    if len(made) > 1 and (whole := made.get("as_published")) is not None:
        help = "a shift of its own; read: as_published(…) knows corruption and severity of each input"
        world.report("TM744", "a published set is taken as it is, beside no other change", whole.origin, help=help)
        return None
    return tuple(made.values()) or None


def _listed(value: Value, node: ast.Value) -> str | None:
    """Why several severities are not well listed, if they are not."""
    if isinstance(node, ast.List | ast.Range):
        return "[…] reads as a range: write (…) for several"
    return _severities(value) if isinstance(value, tuple) else None
