"""A VNN-LIB property as a spec: the same box and the same unsafe outputs, said the other way round.

The file asks for an input that is unsafe; the spec claims that there is none. Every alternative of the file becomes a
property: none of its unsafe outputs are reached from its box.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from tmlang.base.exact import exact_decimal, round_down, round_up
from tmlang.diagnostics.stop import stop
from tmlang.interchange.vnnlib import Atom, Property, Unsafe, stored_as

_HEAD = """\
tm 1

# From {name} (VNN-LIB {version}, sha256 {sha256}).
# The file asks: is there an input of the box with these outputs? This spec claims that there is none, so
# `sat` there is a violated property here, and `unsat` one that holds, or one that is vacuous: no input of its box can
# be stored.
# Constants: {constants}.

"""
_CONSTANTS = {
    "nearest": "nearest (each decimal of the file stands for the nearest {dtype}, which is written here in full)",
    "exact": "exact (each decimal of the file stands for itself, whether a {dtype} is equal to it or not)",
}


def spec_text(found: Property, *, name: str, sha256: str, network: str, network_sha256: str) -> str:
    """The text of a spec that checks. ``network``: the path of the ONNX file from the folder of the spec.

    Raises :class:`~tmlang.diagnostics.stop.Stop` (TM741) for what the language cannot say: inputs without bounds, one
    output alone, sums of outputs.
    """
    inputs, outputs = len(found.unsafe[0].bounds), _count(found)
    if outputs < 2:
        raise stop("TM741", f"{name} speaks of one output; a property compares the outputs of two classes or more")
    hull = [_hull(found.unsafe, i, name) for i in range(inputs)]
    dtype = stored_as(found.element)
    constants = _CONSTANTS[found.constants].format(dtype=dtype)
    lines = [_HEAD.format(name=name, version=found.version, sha256=sha256, constants=constants), "space inputs {\n"]
    ranges = [_held(ends, dtype) for ends in hull]
    lines += [f"  x{i}: real[{exact_decimal(low)}, {exact_decimal(high)}]\n" for i, (low, high) in enumerate(ranges)]
    classes = ", ".join(f"y{j}" for j in range(outputs))
    lines.append(f"}} stored as {dtype}\n\n")
    lines.append(f"model network: inputs -> {{{classes}}} {{\n")
    lines.append(f'  network:  onnx("{network}", sha256: "{network_sha256}")\n')
    lines.append("  decide:   argmax ties lowest    # no part of the property, which is about the outputs themselves\n")
    lines.append("  random:   never\n}\n")
    names = ["safe"] if len(found.unsafe) == 1 else [f"safe{k + 1}" for k in range(len(found.unsafe))]
    for own, unsafe in zip(names, found.unsafe, strict=True):
        lines.append(f"\nproperty {own} on network {{\n  given:   {_given(unsafe, ranges)}\n")
        lines.append(f"  always:  {_always(unsafe, outputs)}\n}}\n")
    lines.append("\n")
    for own in names:
        lines.append(f"evaluate {own}_checked of {own} {{\n  attack:          search = native.pgd(restarts: 8)\n")
        lines.append("  decide_exactly:  split = auto_lirpa.split(timeout: 60 's')\n")
        lines.append("  decide_exactly:  solver = marabou.query(timeout: 60 's')\n  seed:            0\n}\n")
    lines += [f'\nclaim "{own}": holds({own}_checked)' for own in names]
    return "".join(lines) + "\n"


def _count(found: Property) -> int:
    total = 1
    for d in found.outputs:
        total *= d
    return total


def _hull(unsafe: Sequence[Unsafe], i: int, name: str) -> tuple[Fraction, Fraction]:
    lows, highs = [u.bounds[i][0] for u in unsafe], [u.bounds[i][1] for u in unsafe]
    if None in lows or None in highs:
        raise stop("TM741", f"the input X_{i} of {name} has no bound on one side, and a space needs both")
    low, high = min(v for v in lows if v is not None), max(v for v in highs if v is not None)
    if low > high:
        raise stop(
            "TM741",
            f"no input has X_{i} at least {exact_decimal(low)} and at most {exact_decimal(high)}: the box is empty",
        )
    return low, high


def _held(ends: tuple[Fraction, Fraction], dtype: str) -> tuple[Fraction, Fraction]:
    """The range of a space, which must hold a number: where the file's own holds none, its two neighbours, so that it
    is the property that speaks of no input."""
    low, high = Fraction(round_up(ends[0], dtype)), Fraction(round_down(ends[1], dtype))
    return ends if low <= high else (high, low)


def _given(unsafe: Unsafe, hull: Sequence[tuple[Fraction, Fraction]]) -> str:
    """The bounds that are not those of the space already, and no fewer than one."""
    bounds = []
    for i, (own, whole) in enumerate(zip(unsafe.bounds, hull, strict=True)):
        for op, mine, its in zip((">=", "<="), own, whole, strict=True):
            if mine != its and mine is not None:
                bounds.append(f"x{i} {op} {exact_decimal(mine)}")
    return ",\n           ".join(bounds or [f"x0 >= {exact_decimal(hull[0][0])}"])


def _always(unsafe: Unsafe, outputs: int) -> str:
    """The negation of atoms that hold together: alternatives."""
    if not unsafe.outputs:
        raise stop("TM741", "an alternative says nothing of the outputs: every input of its box is unsafe")
    return extremal(unsafe.outputs, outputs) or " or ".join(part for atom in unsafe.outputs for part in _negated(atom))


def extremal(atoms: Sequence[Atom], outputs: int) -> str | None:
    """``y3 is not min`` where one output is at most (at least) every other one."""
    pairs = set()
    for atom in atoms:
        signs = {c: j for (_, j), c in atom.left.terms}
        if atom.op != "<=" or atom.left.constant or set(signs) != {Fraction(1), Fraction(-1)}:
            return None
        pairs.add((signs[Fraction(1)], signs[Fraction(-1)]))  # the first is at most the second
    if len(pairs) != outputs - 1:
        return None
    for word, side in (("min", 0), ("max", 1)):
        if len({pair[side] for pair in pairs}) == 1:
            return f"y{next(iter(pairs))[side]} is not {word}"
    return None


def _negated(atom: Atom) -> Iterator[str]:
    """What holds where ``left op 0`` does not."""
    terms = sorted(atom.left.terms, key=lambda t: -t[1])
    (_, first), top = terms[0]
    op = {"<=": ">", "<": ">="}
    if len(terms) == 2 and terms[1][1] == -top and not atom.left.constant:
        left, right = f"y{first}", f"y{terms[1][0][1]}"
    elif len(terms) == 1:
        left, right = f"y{first}", exact_decimal(-atom.left.constant / top)
    else:
        raise stop("TM741", "a property compares one output with a number or with another output", atom.span)
    if atom.op == "==":
        yield from (f"{left} < {right}", f"{left} > {right}")
    else:
        beyond = op[atom.op]
        yield f"{left} {beyond if top > 0 else {'>': '<', '>=': '<='}[beyond]} {right}"
