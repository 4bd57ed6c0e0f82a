"""Threats and suites with parameters: one instance per set of arguments."""

from __future__ import annotations

from fractions import Fraction

from tmlang.diagnostics.suggest import did_you_mean, listed
from tmlang.meaning.values import Quantity, Symbol, Value
from tmlang.semantics import values
from tmlang.semantics.scope import Bound, Entry, Env, World
from tmlang.syntax import ast

_OBJECTS = ("model", "data", "space")


def bind(world: World, env: Env, entry: Entry, args: tuple[ast.Arg, ...], at: ast.Node) -> dict[str, Bound] | None:
    """The parameters of a threat or suite with the written arguments, then the defaults; ``None`` after a report."""
    parameters: tuple[ast.Parameter, ...] = getattr(entry.node, "parameters", ())
    known = {p.name.text: p for p in parameters}
    home = Env(entry.file)
    bound: dict[str, Bound] = {}
    ok = True
    for arg in args:
        if arg.name is None or arg.name.text not in known:
            _unknown(world, entry, arg, list(known))
            ok = False
        elif arg.name.text in bound:
            world.report("TM114", f"{arg.name.text}: is given twice", arg.name)
        else:
            bound[arg.name.text] = _argument(world, env, arg.value)
            fits = _among(world, home, known[arg.name.text], bound[arg.name.text], arg.value)
            ok = ok and fits and bound[arg.name.text] is not None
    for name, parameter in known.items():
        if name in bound:
            continue
        if parameter.default is None:
            world.report("TM109", f"{entry.name} needs {name}:", at, help=f"{entry.name}({name}: …)")
            ok = False
        else:
            bound[name] = _argument(world, home, parameter.default)
    return {p: bound[p] for p in known} if ok else None


def _among(world: World, home: Env, parameter: ast.Parameter, got: Bound, at: ast.Node) -> bool:
    """Whether a value is one that the parameter may have; reported if not."""
    among, name = parameter.among, parameter.name.text
    if among is None or got is None:
        return True
    if isinstance(among, ast.Range):
        return values.in_range(world, home, among, name, got, at)
    words = [i.value if isinstance(i, ast.String) else i.text for i in among.items]
    if (got.name if isinstance(got, Symbol | Entry) else got) in words:
        return True
    world.report("TM211", f"{world.said(at)} is not one of {world.said(among)}, which {name} may be", at)
    return False


def unbound(entry: Entry) -> dict[str, Bound]:
    """Every parameter without a value: to check a threat or suite by itself."""
    return {p.name.text: None for p in getattr(entry.node, "parameters", ())}


def called(name: str, bound: dict[str, Bound], world: World) -> str:
    """The name of an instance: ``linf_ball(net: plain, radius: 2/255)``."""
    if not bound:
        return name
    return f"{name}({', '.join(f'{k}: {written(v, world)}' for k, v in bound.items())})"


def written(v: Bound, world: World) -> str:
    """A value as a spec would write it, exactly."""
    match v:
        case Entry():
            return world.names.of(v)
        case Fraction():
            return str(v)
        case Quantity():
            return f"{v.value} '{v.unit}'"
        case Symbol():
            return v.name
        case tuple():
            return f"({', '.join(written(x, world) for x in v)})"
    return str(v)


def _unknown(world: World, entry: Entry, arg: ast.Arg, known: list[str]) -> None:
    takes = f"{entry.name} takes {listed(known)}" if known else f"{entry.name} takes no arguments"
    if arg.name is None:
        world.report("TM108", f"{takes}, each by its name", arg)
        return
    close = did_you_mean(arg.name.text, known)
    world.report("TM108", f"{takes}, and not {arg.name.text}{'; ' + close if close else ''}", arg.name)


def _argument(world: World, env: Env, node: ast.Value) -> Bound:
    """A model, data or space by name, or a value; a word that stands for nothing is reported."""
    if isinstance(node, ast.Name):
        found = env.bound.get(node.text) or env.file.table.get(node.text)
        if isinstance(found, Entry) and found.kind in _OBJECTS:
            return found
        got: Value = values.value(world, env, node)
        if isinstance(got, Symbol) and not isinstance(found, Entry):
            world.unknown("TM101", node, "value, model, data or space", list(env.file.table))
            return None
        return got
    return values.value(world, env, node)
