"""From written values to exact ones: numbers, quantities, words, calls, files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import PurePosixPath

from tmlang.base.source import Span
from tmlang.diagnostics.model import Edit, Fix
from tmlang.diagnostics.suggest import did_you_mean, either
from tmlang.meaning.values import Artifact, Call, Quantity, Symbol, Value
from tmlang.semantics.scope import Entry, Env, World
from tmlang.semantics.units import Unit, known_units, parse_unit
from tmlang.syntax import ast

_BITS = 4096
"""Bits of a numerator or denominator beyond which a number is a mistake (or an attack on the checker)."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


def value(world: World, env: Env, node: ast.Value) -> Value:
    """The meaning of any value; ``None`` if it was refused (and reported), or depends on something unknown.

    A name that nothing declares is a word (``Symbol``): whoever takes the value knows its words.
    """
    match node:
        case ast.Number():
            return node.value
        case ast.String():
            return node.value
        case ast.Name():
            return _named(world, env, node)
        case ast.Negate():
            return _binary(world, "-", Fraction(0), value(world, env, node.operand), node, node.operand)
        case ast.Binary():
            left, right = value(world, env, node.left), value(world, env, node.right)
            return _binary(world, node.op, left, right, node, node.right)
        case ast.Quantity():
            return _quantity(world, env, node)
        case ast.Distance():
            from tmlang.semantics.distances import distance

            return distance(world, env, node)
        case ast.Call():
            return call(world, env, node)
        case ast.Tuple():
            return _entries(world, env, node)
        case ast.List():
            return tuple(value(world, env, item) for item in node.items)
        case ast.Choice():
            return tuple(i.value if isinstance(i, ast.String) else Symbol(i.text) for i in node.items)
    raise AssertionError(node)


def call(world: World, env: Env, node: ast.Call) -> Call:
    """A call with its arguments evaluated; a positional one is called ``""``. An argument twice is reported."""
    args: list[tuple[str, Value]] = []
    origins: list[tuple[str, Span, Span]] = []
    seen: set[str] = set()
    for arg in node.args:
        name = arg.name.text if arg.name else ""
        if arg.name and name in seen:
            world.report("TM114", f"{name}: is given twice", arg.name)
            continue
        seen.add(name)
        args.append((name, value(world, env, arg.value)))
        origins.append((name, (arg.name or arg.value).span, arg.value.span))
    path = tuple(p.text for p in node.path.parts)
    return Call(path, tuple(args), node.path.span, tuple(origins))


def _named(world: World, env: Env, node: ast.Name) -> Value:
    if node.text in env.bound:
        found = env.bound[node.text]
        return Symbol(world.names.of(found)) if isinstance(found, Entry) else found
    if node.text in env.file.unclear:
        return None
    entry = env.file.table.get(node.text)
    if entry is None:
        return {"true": True, "false": False}.get(node.text, Symbol(node.text))
    if entry.kind in ("let", "param"):
        return defined(world, entry, node)
    return Symbol(world.names.of(entry))


def defined(world: World, entry: Entry, at: ast.Name) -> Value:
    """The value of a ``let`` or ``param``, at the value it has in this reading of the program."""
    if entry in world.overrides:
        return world.overrides[entry]
    return world.once(entry, at, lambda: value(world, Env(entry.file), entry.node.value))


def _entries(world: World, env: Env, node: ast.Tuple) -> Value:
    """A tuple; with names, a tuple of (name, value) pairs."""
    values = [value(world, env, item.value) for item in node.items]
    names = [item.name for item in node.items]
    if not any(names):
        return tuple(values)
    pairs: list[tuple[str, Value]] = []
    for name, item, v in zip(names, node.items, values, strict=True):
        if name is None:
            world.report("TM221", "either every entry of a tuple has a name or none has", item)
        elif name.text in dict(pairs):
            world.report("TM114", f"{name.text}: is given twice", name)
        else:
            pairs.append((name.text, v))
    return tuple(pairs)


def _quantity(world: World, env: Env, node: ast.Quantity) -> Value:
    inner = value(world, env, node.value)
    if node.unit.text == "%":
        return inner / 100 if isinstance(inner, Fraction) else refused(world, inner, node.value, "a number")
    if unit(world, node.unit) is None:
        return None
    if isinstance(inner, Quantity):
        world.report("TM206", f"this is in {inner.unit} already", node.unit)
        return None
    return (
        Quantity(inner, node.unit.text)
        if isinstance(inner, Fraction)
        else refused(world, inner, node.value, "a number")
    )


def unit(world: World, node: ast.Unit) -> Unit | None:
    """The unit, or ``None`` after reporting that nobody knows it."""
    found = parse_unit(node.text)
    if found is None:
        tail = did_you_mean(node.text, known_units())
        help = None if tail else "units are products of the usual symbols: 'kg', 'mg/L', 'm/s^2'; a count needs none"
        world.report("TM208", f"no unit is written '{node.text}'{'; ' + tail if tail else ''}", node, help=help)
    return found


def _binary(world: World, op: str, a: Value, b: Value, node: ast.Node, right: ast.Node) -> Value:
    """``a op b`` for numbers and quantities; unlike units do not add."""
    if a is None or b is None:
        return None
    if not isinstance(a, Fraction | Quantity) or not isinstance(b, Fraction | Quantity):
        return refused(world, b if isinstance(a, Fraction | Quantity) else a, node, "a number")
    left, left_unit = (a.value, a.unit) if isinstance(a, Quantity) else (a, None)
    r, right_unit = (b.value, b.unit) if isinstance(b, Quantity) else (b, None)
    if op == "/" and r == 0:
        world.report("TM220", "this divides by zero", right)
        return None
    if op in "+-" and left_unit != right_unit and left != 0:
        one, other = (f"'{u}'" if u else "a plain number" for u in (left_unit, right_unit))
        world.report("TM206", f"{one} and {other} do not add", node)
        return None
    if (op == "*" and left_unit and right_unit) or (op == "/" and right_unit and left_unit != right_unit):
        world.report("TM206", "a product of two quantities has no place here", node, help="multiply by a plain number")
        return None
    result = {"+": left + r, "-": left - r, "*": left * r}[op] if op != "/" else left / r
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > _BITS:
        world.report("TM228", "this number has more digits than any measurement", node)
        return None
    unit_text = None if op == "/" and right_unit else left_unit or right_unit
    return Quantity(result, unit_text) if unit_text else result


def refused(world: World, got: Value, node: ast.Node, wanted: str) -> Fraction | None:
    """Report a value of another kind (nothing for one that was refused already); always ``None``."""
    if isinstance(got, Symbol) and isinstance(node, ast.Name):
        table = world.files[node.span.file].table
        world.unknown("TM101", node, "value", [n for n, e in table.items() if e.kind in ("let", "param")])
    elif got is not None:
        world.report("TM221", f"{wanted} is needed here, and this is {describe(got)}", node)
    return None


def describe(got: Value) -> str:
    """What a value is, in words."""
    match got:
        case bool():
            return "true or false"
        case Fraction():
            return f"the number {show(got)}"
        case str():
            return "a text"
        case Symbol():
            return f"the word {got.name}"
        case Quantity():
            return f"a quantity in '{got.unit}'"
        case Call():
            return f"a call of {got.name}"
        case tuple():
            return f"a list of {len(got)}"
    return "something else"


def show(number: Fraction) -> str:
    """A number as a person would write it: whole, a short decimal, a fraction of small numbers, or rounded."""
    if number.denominator == 1:
        return str(number.numerator)
    if 10**6 % number.denominator == 0:
        digits = next(d for d in range(1, 7) if 10**d % number.denominator == 0)
        return f"{float(number):.{digits}f}" if abs(number) < 10**9 else f"{number.numerator}/{number.denominator}"
    if number.denominator <= 5000 and abs(number.numerator) <= 10**6:
        return f"{number.numerator}/{number.denominator}"
    try:
        return f"{float(number):.6g}"
    except OverflowError:
        return "a number beyond measure"


def number(world: World, env: Env, node: ast.Value, *, positive: bool = False) -> Fraction | None:
    """A pure number (``%`` is one)."""
    got = value(world, env, node)
    if isinstance(got, Quantity):
        world.report("TM206", f"a plain number is needed here, not one in '{got.unit}'", node)
        return None
    if not isinstance(got, Fraction):
        return refused(world, got, node, "a number")
    if positive and got <= 0:
        world.report("TM213", f"this must be greater than zero, and is {show(got)}", node)
        return None
    return got


def whole(
    world: World, env: Env, node: ast.Value, *, least: int, code: str = "TM213", what: str = "this"
) -> int | None:
    """A whole number, at least ``least``."""
    got = number(world, env, node)
    if got is None:
        return None
    if got.denominator != 1:
        world.report("TM221", f"{what} is a whole number, and not {show(got)}", node)
        return None
    if got < least:
        world.report(code, f"{what} is at least {least}, and not {show(got)}", node)
        return None
    if got > 2**63 - 1:
        world.report("TM228", f"{what} is beyond every machine", node)
        return None
    return int(got)


def in_range(world: World, env: Env, written: ast.Range, name: str, got: object, at: ast.Node) -> bool:
    """Whether a value lies in the range that ``name`` is declared with; reported if not."""
    low, high = number(world, env, written.low), number(world, env, written.high)
    if low is None or high is None:
        return False
    if isinstance(got, Fraction) and (low < got < high if written.open else low <= got <= high):
        return True
    shown = show(got) if isinstance(got, Fraction) and isinstance(at, ast.Name) else world.said(at)
    world.report("TM211", f"{shown} lies outside {world.said(written)}, the range of {name}", at)
    return False


def share(world: World, env: Env, node: ast.Value, what: str) -> Fraction | None:
    """A number strictly between 0 and 1, such as a confidence; ``99`` is taken for a forgotten ``%``."""
    got = number(world, env, node)
    if got is None or 0 < got < 1:
        return got
    fix = None
    if 1 < got < 100:
        end = Span(node.span.file, node.span.end, node.span.end, *[node.span.end_line, node.span.end_column] * 2)
        fix = Fix("add the %", (Edit(end, " %"),))
    world.report("TM213", f"{what} lies between 0 and 1 (0 % and 100 %), and not at {show(got)}", node, fix=fix)
    return None


def word(world: World, node: ast.Name, allowed: Iterable[str], what: str) -> str | None:
    """A word out of a fixed list."""
    words = list(allowed)
    if node.text in words:
        return node.text
    tail = did_you_mean(node.text, words) or f"it is {either(words)}"
    world.report("TM116", f"{node.text} is no {what}; {tail}", node)
    return None


def artifact(world: World, path: ast.String, sha256: ast.Value | None = None) -> Artifact | None:
    """A file below the folder of the spec, with its hash if one is written."""
    digest = checksum(world, sha256) if sha256 is not None else None
    parts = PurePosixPath(path.value.replace("\\", "/")).parts
    if not path.value or "\x00" in path.value:
        world.report("TM703", "a file needs a name", path)
        return None
    if path.value.startswith(("/", "\\", "~")) or ".." in parts or ":" in parts[0]:
        world.report("TM703", f'"{path.value}" leaves the folder of the spec', path, help="name a file in or below it")
        return None
    return Artifact(path.value, digest, path.span)


def checksum(world: World, node: ast.Value) -> str | None:
    """A SHA-256: 64 lower-case hexadecimal digits; blamed on the digits, without their quotes."""
    if not isinstance(node, ast.String):
        world.report("TM701", "a SHA-256 is a text of 64 hexadecimal digits", node)
        return None
    text = node.value
    if _SHA256.fullmatch(text):
        return text
    span = inside(node.span)
    lowered = text.strip().lower()
    fix = Fix("write it in lower case", (Edit(span, lowered),)) if _SHA256.fullmatch(lowered) else None
    odd = next((c for c in lowered if c not in "0123456789abcdef"), None)
    what = f"this has {len(text)}" if odd is None else f"this has {len(text)} characters, one of them {odd!r}"
    world.report("TM701", f"a SHA-256 has 64 hexadecimal digits, {what}", span, help="tmc freeze writes it", fix=fix)
    return None


def inside(span: Span) -> Span:
    """The span of a quoted text without its quotes."""
    if span.end - span.start < 3 or span.line != span.end_line:
        return span
    return Span(span.file, span.start + 1, span.end - 1, span.line, span.column + 1, span.line, span.end_column - 1)
