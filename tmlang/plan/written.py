"""Values as a spec would write them, for messages and for the text form of a plan."""

from __future__ import annotations

from fractions import Fraction

from tmlang.meaning.threats import Allowed, Anything, Ball, Both, Patch, Transform
from tmlang.meaning.values import Artifact, Call, Distance, Quantity, Symbol, Value


def number(value: Fraction) -> str:
    """``100``, ``0.05``, ``8/255``: a decimal when that is exact and short, else a fraction."""
    if value.denominator == 1:
        return str(value.numerator)
    for digits in range(1, 7):
        if (scaled := value * 10**digits).denominator == 1:
            sign = "-" if value < 0 else ""
            return f"{sign}{abs(scaled.numerator) // 10**digits}.{abs(scaled.numerator) % 10**digits:0{digits}}"
    return f"{value.numerator}/{value.denominator}"


def written(value: Value) -> str:
    """Any value of a checked spec."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case Fraction():
            return number(value)
        case str():
            return f'"{value}"'
        case Symbol(name):
            return name
        case Quantity(amount, unit):
            return number(amount) + (f" '{unit}'" if unit else "")
        case Distance(amount, space):
            return f"{number(amount)} in {space}"
        case Artifact(path):
            return f'"{path}"'
        case Call(path, args):
            inside = ", ".join(f"{name}: {written(v)}" if name else written(v) for name, v in args)
            return ".".join(path) + (f"({inside})" if inside else "")
        case _:
            return f"({', '.join(map(written, value))})"


def allowed(part: Allowed) -> str:
    """An allowed set: ``linf <= 8/255 in px``; parts of an intersection or union are joined by ``and`` and ``or``."""
    match part:
        case Ball():
            return _ball(part)
        case Patch(shape, height, width, at):
            size = f"disc(diameter: {height})" if shape == "disc" else f"{height}, {width}"
            return f"patch({size}) " + (f"at {at}" if at else "at any place")
        case Transform():
            return "transform { " + " ".join(map(written_part, transform_parts(part))) + " }"
        case Anything():
            return "anything"
        case Both(parts):
            return " and ".join(f"({allowed(p)})" if not isinstance(p, Ball) else allowed(p) for p in parts)
        case _:
            return " or ".join(allowed(p) for p in part.parts)


def transform_parts(transform: Transform) -> list[tuple[str, Quantity, Quantity | None]]:
    """(name, greatest magnitude, step of its grid or ``None``) of every part, in order."""
    steps = transform.steps or (None,) * len(transform.parts)
    return [
        (name, most, None if step is None else Quantity(step, most.unit))
        for (name, most), step in zip(transform.parts, steps, strict=True)
    ]


def parameter_names(transform: Transform) -> list[tuple[str, str | None]]:
    """(name, unit) of every parameter, in order: a shift has two."""
    ways = {"translate": ("down", "right")}
    return [(f"{name} {way}".rstrip(), most.unit) for name, most in transform.parts for way in ways.get(name, ("",))]


def written_part(part: tuple[str, Quantity, Quantity | None]) -> str:
    """``rotate <= 30 'deg' step 5 'deg'``."""
    name, most, step = part
    return f"{name} <= {written(most)}" + (f" step {written(step)}" if step else "")


def _ball(ball: Ball) -> str:
    norm = f"metric {ball.metric}" if ball.norm == "metric" else ball.norm
    if ball.radius is not None:
        radius = number(ball.radius) + (f" '{ball.unit}'" if ball.unit and ball.unit != "levels" else "")
    else:
        radius = f"({', '.join(f'{n}: {number(r)}' for n, r in ball.radii)}) per {ball.per}"
    tolerance = f" tolerance {number(ball.tolerance)}" if ball.tolerance else ""
    return f"{norm} <= {radius} in {ball.space}{tolerance}"


def changes(calls: tuple[Call, ...]) -> str:
    """The changes of a shift: one as it is written, several by their names with their severities together."""
    if len(calls) == 1:
        return written(calls[0])
    strengths: dict[str, list[str]] = {}
    for call in calls:
        severity = dict(call.args).get("severity")
        strengths.setdefault(".".join(call.path), []).extend([] if severity is None else [written(severity)])
    return ", ".join(f"{name} {'/'.join(of_one)}".strip() for name, of_one in strengths.items())
