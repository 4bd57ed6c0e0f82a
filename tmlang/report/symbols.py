"""A threat model in set notation, as LaTeX; :mod:`tmlang.report.mathtext` turns the same lines into text for a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from tmlang.meaning.spaces import Arithmetic, Cell, Num, Op, Ref, Relation, Space
from tmlang.meaning.threats import (
    Allowed,
    Anything,
    Ball,
    Both,
    Either,
    Mutable,
    Patch,
    Property,
    Shift,
    Subject,
    Threat,
    Transform,
    transforms,
    without_pictures,
)
from tmlang.meaning.values import Quantity, Symbol, Value
from tmlang.plan.written import number, transform_parts
from tmlang.report.latex import latex_math
from tmlang.report.words import Declared

_SIGNS = {"<=": r"\le", ">=": r"\ge", "==": "=", "<": "<", ">": ">"}
_MOST_CELLS = 6


def symbol_lines(declared: Declared, subject: Subject) -> tuple[str, ...]:
    """The space X, the allowed set S, the failure F and what is counted, one line of LaTeX each.

    Quantifiers stand in the order in which their values are chosen.
    """
    model = next(m for m in declared.models if m.name == subject.model)
    space = next(s for s in declared.spaces if s.name == model.space)
    if isinstance(subject, Property):
        return tuple(_property(subject, space))
    if isinstance(subject, Shift):
        return (r"\mathrm{accuracy} = | \{ (x, y) \in D \mid f(c(x)) = y \} | / |D|",)
    return tuple(_threat(subject, space))


def display(lines: Sequence[str]) -> str:
    """The lines as one aligned LaTeX display (amsmath), harmless whatever a name in them holds."""
    body = " \\\\\n  ".join(latex_math(line).replace(" = ", " &= ", 1) for line in lines)
    return f"\\begin{{align*}}\n  {body}\n\\end{{align*}}"


def _threat(threat: Threat, space: Space) -> Iterator[str]:
    yield f"X = {_domain(space)}"
    conditions = [*_conditions(threat.allow, space), *_mask(threat.mutable), *map(_relation, space.relations)]
    yield rf"S(x) = \{{ x' \in X{' : ' + ', '.join(conditions) if conditions else ''} \}}"
    yield f"F(z) = {_failure(threat)}"
    yield from _counted(threat)


# The set -------------------------------------------------------------------------------------------------------------


def _domain(space: Space) -> str:
    kind = "" if space.is_lattice else rf" \cap {_word(space.dtype)}"
    cells = list(dict.fromkeys(space.cells))
    if space.layout == "each" and len(cells) > 1:
        shown = space.cells if len(space.cells) <= _MOST_CELLS else space.cells[:2]
        tail = "" if shown == space.cells else rf" \times \dots \times {_cell(space.cells[-1])}"
        return r" \times ".join(map(_cell, shown)) + tail + kind
    if space.layout == "channel" and len(cells) > 1:
        pixels = r" \times ".join(str(d) for i, d in enumerate(space.shape) if i != space.channel_axis)
        return "(" + r" \times ".join(map(_cell, space.cells)) + f")^{{{pixels}}}" + kind
    shape = r" \times ".join(map(str, space.shape))
    return f"{_cell(cells[0])}^{{{shape}}}" + kind


def _cell(cell: Cell) -> str:
    if cell.kind == "category":
        return rf"\{{ {', '.join(map(_word, cell.categories))} \}}"
    low, high = _number(cell.low), _number(cell.high)
    if cell.step is None:
        return f"[{low}, {high}]"
    return rf"\{{ {low}, {_number(cell.low + cell.step)}, \dots, {high} \}}"


def _conditions(allow: Allowed | None, space: Space) -> list[str]:
    """Conditions on x' that hold together."""
    if isinstance(allow, Both):
        return [c for part in allow.parts for c in _conditions(part, space)]
    if isinstance(allow, Either):
        parts = [r" \wedge ".join(_conditions(p, space)) or r"\mathrm{true}" for p in allow.parts]
        return ["( " + r" \vee ".join(parts) + " )"]
    if isinstance(allow, Ball):
        return _ball(allow, space)
    if isinstance(allow, Patch):
        covered = rf"\{{ i \mid x'_{{i}} \ne x_{{i}} \}} \subseteq {_patch(allow)}"
        return [covered if allow.at else rf"\exists p: {covered}"]
    if isinstance(allow, Transform):
        limits = ", ".join(_parameter(*part) for part in transform_parts(allow))
        return [rf"\exists \theta: x' = T_{{\theta}}(x), {limits}"]
    assert allow is None or isinstance(allow, Anything)
    return []


def _parameter(name: str, most: Quantity, step: Quantity | None) -> str:
    bound = rf"|{_word(name)}| \le {_number(most.value)}"
    if step is None:
        return bound
    return rf"{bound}, {_word(name)} \in \{{ \dots, 0, {_number(step.value)}, {_number(2 * step.value)}, \dots \}}"


def _patch(patch: Patch) -> str:
    at = f"({patch.at[0]}, {patch.at[1]})" if patch.at else "p"
    shape = (
        rf"{patch.height} \times {patch.width}"
        if patch.shape == "rectangle"
        else rf"\mathrm{{disc}}_{{{patch.height}}}"
    )
    return f"{at} + {shape}"


def _ball(ball: Ball, space: Space) -> list[str]:
    if ball.per is not None:
        return [rf"|x' - x|_{{{_word(name)}}} \le {_number(r + ball.tolerance)}" for name, r in ball.radii]
    assert ball.radius is not None
    reach = _number(ball.radius) + (f" + {_number(ball.tolerance)}" if ball.tolerance else "")
    return [rf"{_norm(ball.norm, space)} \le {reach}"]


def _norm(norm: str, space: Space) -> str:
    """The length of the change."""
    if norm == "metric":
        return r"\sum_{i} w_{i} |x'_{i} - x_{i}|"
    if norm == "l2_rms":
        return rf"\| x' - x \|_{{2}} / \sqrt{{{space.size}}}"
    p = {"linf": r"\infty", "pixels_changed": r"\mathrm{pixels}"}.get(norm, norm.removeprefix("l"))
    return rf"\| x' - x \|_{{{p}}}"


def _mask(mutable: Mutable) -> Iterator[str]:
    if mutable.kind == "all":
        return
    if mutable.kind == "features":
        names = rf"\{{ {', '.join(_word(name) for name, _ in mutable.names)} \}}"
    else:
        ranges = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in mutable.ranges)
        names = r"\mathrm{mask}" if mutable.kind == "mask" else rf"\mathrm{{{mutable.kind}}}({ranges})"
    inside = r"\in" if mutable.except_ else r"\notin"
    yield rf"x'_{{i}} = x_{{i}} \text{{ for }} i {inside} {names}"
    for name, way in mutable.names if not mutable.except_ else ():
        if way != "any":
            sign = r"\ge" if way == "up" else r"\le"
            yield rf"x'_{{{_word(name)}}} {sign} x_{{{_word(name)}}}"


def _relation(relation: Relation) -> str:
    tolerance = rf" \pm {_number(relation.tolerance)}" if relation.tolerance else ""
    return f"{_term(relation.left)} {_SIGNS[relation.op]} {_term(relation.right)}{tolerance}"


def _term(expression: Arithmetic) -> str:
    if isinstance(expression, Num):
        return _number(expression.value)
    if isinstance(expression, Ref):
        return _word(expression.feature)
    assert isinstance(expression, Op)
    tight = expression.op in "*/"
    left = f"({_term(expression.left)})" if tight and isinstance(expression.left, Op) else _term(expression.left)
    right = f"({_term(expression.right)})" if isinstance(expression.right, Op) else _term(expression.right)
    sign = r"\cdot" if expression.op == "*" else expression.op
    return f"{left} {sign} {right}"


# Failure and counting ------------------------------------------------------------------------------------------------


def _failure(threat: Threat) -> str:
    """F of a decision z, for the label y or the target t."""
    if threat.goal.kind == "class":
        return f"[ z = {_word(threat.goal.target or '')} ]"
    if threat.goal.kind != "untargeted":
        return "[ z = t ]"
    kind = threat.rejected.kind if threat.rejected else None
    if kind in ("safe", "denied"):
        return r"[ z \notin \{ y, \bot \} ]"
    if kind == "fail_within":
        return r"[ z \notin \{ y, \bot \} \vee ( z = \bot \wedge x' \text{ is near } x ) ]"
    return r"[ z \ne y ]"


def _counted(threat: Threat) -> Iterator[str]:
    """R, or the median distance."""
    fails = "F(f(x'))"
    if threat.nature is not None:
        yield r"q(x') = \mathrm{P}_{\omega}[ F(f(\omega(x'))) ]"
    elif threat.success is not None:
        yield r"q(x') = \mathrm{P}[ F(f(x')) ]"
    if threat.success is not None and threat.success.threshold is not None:
        fails = f"q(x') > {_number(threat.success.threshold)}"
    name = "R" if threat.nature is None else r"\mathrm{estimate}"
    base = "D" if threat.clean_errors == "fail" else r"D_{0}"
    if threat.clean_errors == "excluded":
        yield r"D_{0} = \{ (x, y) \in D \mid f(x) = y \}"
    if threat.success is not None and threat.success.kind == "single_draw":
        yield rf"\mathrm{{estimate}} = \text{{mean of }} q(x') \text{{ over }} {base}"
    elif threat.minimize is not None:
        length = _norm(threat.minimize[0], Space("", (), ()))
        yield rf"d(x, y) = \min \{{ {length} \mid x' \in S(x), {fails} \}}"
        yield rf"m = \text{{median of }} d \text{{ over }} {base}"
    elif threat.perturbation == "universal":
        yield _universal(threat, fails, name, base)
    else:
        stands = rf"\{{ (x, y) \in {base} \mid f(x) = y \wedge \neg \exists x' \in S(x): {fails} \}}"
        yield rf"{name} = | {stands} | / |{base}|"


def _universal(threat: Threat, fails: str, name: str, base: str) -> str:
    """One change for all; of pictures one vector of parameters, and of both kinds one of either."""
    if not transforms(threat.allow):
        chosen, failing = r"\delta", fails.replace("x'", r"x + \delta")
    else:
        chosen = r"\theta" if without_pictures(threat.allow) is None else r"\delta"
        made = rf"T_{{{chosen}}}(x)"
        failing = rf"( {made} \in S(x) \wedge " + fails.replace("x'", made) + " )"
    stands = rf"\{{ (x, y) \in {base} \mid f(x) = y \wedge \neg {failing} \}}"
    return rf"{name} = \min_{{{chosen}}} | {stands} | / |{base}|"


def _property(subject: Property, space: Space) -> Iterator[str]:
    yield f"X = {_domain(space)}"
    limits = ", ".join(f"{_word(name)} {_SIGNS[op]} {_number(value)}" for name, op, value in subject.given)
    yield rf"S = \{{ x \in X{' : ' + limits if limits else ''} \}}"
    if subject.empty is not None:
        yield r"S = \{ \}"
    yield r"\forall x \in S: " + r" \vee ".join(_output(*relation) for relation in subject.always)


def _output(name: str, op: str, value: Value) -> str:
    extremes = {"is_min": r"= \min", "is_not_min": r"\ne \min", "is_max": r"= \max", "is_not_max": r"\ne \max"}
    if op in extremes:
        return rf"{_word(name)} {extremes[op]}_{{j}} f_{{j}}(x)"
    right = value.name if isinstance(value, Symbol) else value
    return f"{_word(name)} {_SIGNS[op]} {_number(right) if isinstance(right, Fraction) else _word(str(right))}"


def _number(value: Fraction) -> str:
    text = number(value)
    if "/" not in text:
        return text
    top, bottom = text.lstrip("-").split("/")
    return ("-" if value < 0 else "") + rf"\tfrac{{{top}}}{{{bottom}}}"


def _word(text: str) -> str:
    """A name, set upright."""
    return r"\mathrm{" + "".join(rf"\{c}" if c in "_%&#$" else c for c in text if c not in "{}\\") + "}"
