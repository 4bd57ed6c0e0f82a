"""One step as written: its arguments bound to their names and evaluated (``meaning.models.Step`` lists them)."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from tmlang.base.frozen import dataclass
from tmlang.diagnostics.model import Edit, Fix
from tmlang.diagnostics.suggest import did_you_mean, either, nearest
from tmlang.meaning.models import Step
from tmlang.meaning.values import Quantity, Symbol, Value
from tmlang.semantics import values
from tmlang.semantics.builtins import STEPS, Argument, Place, StepRow
from tmlang.semantics.scope import Env, World
from tmlang.syntax import ast

_MISSING_WHERE = {"before": "in front of the network", "behind": "behind the network", "prepare": "in prepare:"}


@dataclass(frozen=True, slots=True)
class Written:
    """A step with the nodes of its arguments, so that later checks can point at them."""

    step: Step
    nodes: dict[str, ast.Value]
    call: ast.Call

    def get(self, name: str) -> Value:
        return dict(self.step.args).get(name)


def read(world: World, env: Env, node: ast.Step, place: Place) -> Written | None:
    """The step, or ``None`` after reporting what is wrong with it."""
    call = node.call
    row = STEPS.get(call.path.text)
    if row is None:
        known = [n for n, r in STEPS.items() if place in r.where]
        tail = did_you_mean(call.path.text, known) or f"there are {', '.join(known)}"
        close = nearest(call.path.text, known)
        fix = Fix(f"write {close[0]}", (Edit(call.path.span, close[0]),)) if len(close) == 1 else None
        world.report("TM307", f"there is no step {call.path.text}; {tail}", call.path, fix=fix)
        return None
    if place not in row.where:
        places = either([_MISSING_WHERE[p] for p in ("before", "behind", "prepare") if p in row.where])
        world.report("TM314", f"{call.path.text} stands {places}, and not {_MISSING_WHERE[place]}", call.path)
        return None
    bound = bind(world, call, row.arguments)
    if bound is None:
        return None
    args = _evaluate(world, env, call, row, bound)
    if args is None:
        return None
    name = call.path.text
    made = Step(name, args, node.result.text if node.result else None, row.differentiable, row.random, node.span)
    return Written(made, bound, call)


def bind(
    world: World, call: ast.Call, arguments: tuple[Argument, ...], *, code: str = "TM308"
) -> dict[str, ast.Value] | None:
    """The written arguments by name; positional ones take the names of the row in order. All faults are reported."""
    name = call.path.text
    by_name = {a.name: a for a in arguments}
    places = [a.name for a in arguments if a.position]
    bound: dict[str, ast.Value] = {}
    ok = True
    for arg in call.args:
        if arg.name is None and arguments and arguments[0].type == "names":
            bound.setdefault(arguments[0].name, ast.List(call.span, tuple(a.value for a in call.args)))
            continue
        key = arg.name.text if arg.name else next((p for p in places if p not in bound), None)
        if key is None or key not in by_name:
            ok = False
            _unknown_argument(world, name, arg, list(by_name), code)
        elif key in bound:
            ok = False
            world.report("TM114", f"{key}: is given twice", arg.name or arg)
        else:
            bound[key] = arg.value
    missing = [a.name for a in arguments if not a.optional and a.name not in bound]
    if missing and ok:
        world.report(code, f"{name} needs {', '.join(f'{m}:' for m in missing)}", call.path)
    return bound if ok and not missing else None


def _unknown_argument(world: World, name: str, arg: ast.Arg, known: list[str], code: str) -> None:
    if arg.name is None:
        world.report(code, f"{name} takes {', '.join(f'{k}:' for k in known) or 'nothing'}, and no more than that", arg)
        return
    tail = did_you_mean(arg.name.text, known) or (f"it takes {', '.join(known)}" if known else "it takes nothing")
    world.report(code, f"{name} has no argument {arg.name.text}; {tail}", arg.name)


def _evaluate(
    world: World, env: Env, call: ast.Call, row: StepRow, bound: dict[str, ast.Value]
) -> tuple[tuple[str, Value], ...] | None:
    args: dict[str, Value] = {}
    for argument in row.arguments:
        if argument.name not in bound or argument.name == "sha256":
            continue
        got = evaluate(world, env, argument, bound[argument.name], bound.get("sha256"))
        if got is None:
            return None
        args[argument.name] = got
    return _completed(world, call, args)


def _completed(world: World, call: ast.Call, args: dict[str, Value]) -> tuple[tuple[str, Value], ...] | None:
    """Arguments that stand for others, and those of which one set is needed."""
    name = call.path.text
    if name in ("resize", "center_crop") and "height" in args:
        args.setdefault("width", args["height"])
    if name == "resize" and ("shorter" in args) == ("height" in args):
        help = "resize(224, …) makes both sides 224; resize(shorter: 256, …) keeps the proportions"
        world.report("TM308", "resize needs a size: both sides, or the shorter one", call.path, help=help)
        return None
    if name == "minmax" and ("file" in args) == ("low" in args or "high" in args):
        world.report("TM308", "minmax needs a file, or low: and high:", call.path)
        return None
    if name == "permute" and args["source"] == args["target"]:
        world.report("TM308", "this permutation changes nothing", call.path)
        return None
    return tuple((k, args[k]) for k in ("height", "width") if k in args) + tuple(
        (k, v) for k, v in args.items() if k not in ("height", "width")
    )


def evaluate(world: World, env: Env, argument: Argument, node: ast.Value, sha256: ast.Value | None = None) -> Value:
    """The value of one argument of a known type; ``None`` after a report."""
    match argument.type:
        case "number":
            return values.number(world, env, node)
        case "numbers":
            return _numbers(world, env, node)
        case "whole":
            count = values.whole(world, env, node, least=0 if argument.name in ("top", "left", "by") else 1)
            return None if count is None else Fraction(count)
        case "word":
            return _word(world, node, argument)
        case "flag":
            got = values.value(world, env, node)
            return got if isinstance(got, bool) else values.refused(world, got, node, "true or false")
        case "file":
            if isinstance(node, ast.String):
                return values.artifact(world, node, sha256)
            return values.refused(world, values.value(world, env, node), node, "the name of a file")
        case "text":
            got = values.value(world, env, node)
            return got if isinstance(got, str) else values.refused(world, got, node, "a text")
        case "names":
            return _names(world, node)
        case "sigma":
            return _sigma(world, env, node)
    raise AssertionError(argument.type)


def _numbers(world: World, env: Env, node: ast.Value) -> Value:
    """A number or a tuple of numbers."""
    got = values.value(world, env, node)
    if isinstance(got, tuple) and got and all(isinstance(x, Fraction) for x in got):
        return got
    if isinstance(got, tuple):
        return None if None in got else values.refused(world, got, node, "a number, or a tuple of numbers,")
    return got if isinstance(got, Fraction) else values.refused(world, got, node, "a number, or a tuple of numbers,")


def _word(world: World, node: ast.Value, argument: Argument) -> Value:
    text = node.text if isinstance(node, ast.Name) else node.value if isinstance(node, ast.String) else None
    if text is not None and text in argument.words:
        return Symbol(text) if isinstance(node, ast.Name) else text
    shown = f'"{text}"' if isinstance(node, ast.String) else text
    tail = did_you_mean(text or "", argument.words) or f"it is {either(argument.words)}"
    world.report("TM308", f"{argument.name}: {shown or 'this'} is not known; {tail}", node)
    return None


def _names(world: World, node: ast.Value) -> Value:
    assert isinstance(node, ast.List)
    odd = next((i for i in node.items if not isinstance(i, ast.Name)), None)
    if odd is not None:
        world.report("TM308", "the names of features are needed here", odd)
        return None
    return tuple(cast(ast.Name, i).text for i in node.items)


def _sigma(world: World, env: Env, node: ast.Value) -> Value:
    """A positive number, or (feature, positive quantity) pairs."""
    got = values.value(world, env, node)
    parts = [v for _, v in cast("tuple[tuple[str, Value], ...]", got)] if is_pairs(got) else [got]
    for v in parts:
        amount = v.value if isinstance(v, Quantity) else v
        if not isinstance(amount, Fraction):
            return values.refused(world, v, node, "a number, or one per feature,")
        if amount <= 0:
            world.report("TM213", f"a spread is greater than zero, and not {values.show(amount)}", node)
            return None
    return got


def is_pairs(got: Value) -> bool:
    """Whether a value is a tuple of (name, value) pairs."""
    return (
        isinstance(got, tuple)
        and bool(got)
        and all(isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str) for x in got)
    )
