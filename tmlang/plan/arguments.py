"""The arguments of a call: known names, right types and ranges, every default resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tmlang.base.source import Span
from tmlang.diagnostics.model import Diagnostic, Edit, Fix, Label
from tmlang.diagnostics.suggest import did_you_mean, either, listed, nearest
from tmlang.meaning.models import Data, Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Ball, Property, Shift, Threat
from tmlang.meaning.values import Artifact, Call, Distance, Quantity, Symbol, Value
from tmlang.plan.asked import balls, goal
from tmlang.plan.capability import Argument, Method
from tmlang.plan.formula import evaluate, variables
from tmlang.plan.written import number, written

RESTATES = {
    **dict.fromkeys(("eps", "epsilon", "epsilons", "max_epsilon", "radius", "norm", "ord", "p"), "allow:"),
    **dict.fromkeys(("bounds", "clip_min", "clip_max"), "the space"),
    **dict.fromkeys(("target", "targets", "targeted"), "goal:"),
    **dict.fromkeys(("n_classes", "num_classes"), "the model"),
    **dict.fromkeys(("seed", "random_seed"), "seed:"),
}
"""Arguments by which libraries take what a spec says elsewhere, and where it says it."""

_SECONDS = {"s": 1, "min": 60, "h": 3600}


@dataclass
class Resolution:
    """The arguments of one call against one method. ``data`` and ``earlier``: the data sets of the program and the
    attacks of the evaluation that stand before it, which it may be handed."""

    method: Method
    call: Call
    subject: Threat | Property | Shift
    model: Model
    space: Space
    data: Sequence[Data] = ()
    earlier: Sequence[str] = ()
    values: dict[str, Value] = field(default_factory=dict)
    sha256: str | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def resolve(self) -> tuple[tuple[str, Value], ...]:
        """Every argument of the method in the manifest's order, with what was written or the recorded default."""
        files = [a.name for a in self.method.arguments.values() if a.type == "file"]
        names = iter(files)
        for position, (written_name, value) in enumerate(self.call.args):
            name_span, value_span = self._spans(position)
            if written_name == "sha256" and files:
                self.sha256 = self._hash(value, value_span)
                continue
            name = written_name or next(names, "")
            argument = self.method.arguments.get(name)
            if argument is None:
                self._unknown(name, name_span if written_name else value_span)
                continue
            self.values[name] = self._typed(argument, value, value_span)
        return tuple((a.name, self._hashed(self._value(a))) for a in self.method.arguments.values())

    def numbers(self) -> dict[str, Fraction]:
        """The arguments that are plain numbers, for the formulas of the manifest."""
        found: dict[str, Fraction] = {}
        for name, value in self.values.items():
            if isinstance(value, (Quantity, Distance)):
                found[name] = value.value
            elif isinstance(value, Fraction):
                found[name] = value
        return found

    def _spans(self, position: int) -> tuple[Span, Span]:
        if position < len(self.call.arg_origins):
            _, name, value = self.call.arg_origins[position]
            return name, value
        return self.call.origin, self.call.origin

    def _hash(self, value: Value, span: Span) -> str | None:
        """The hash of the file that the call names."""
        if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
            return value
        self._say(
            "TM701", f"{written(value)} is not a SHA-256", span, help="64 digits: 0 to 9 and a to f, small letters"
        )
        return None

    def _hashed(self, value: Value) -> Value:
        return replace(value, sha256=self.sha256) if isinstance(value, Artifact) and self.sha256 else value

    def _say(
        self, code: str, message: str, span: Span, *, notes: tuple[str, ...] = (), help: str | None = None
    ) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, notes=notes, help=help))

    def _value(self, argument: Argument) -> Value:
        if argument.name not in self.values:
            if argument.default is None and not argument.optional:
                self._say(
                    "TM503",
                    f"{self.method.path} needs `{argument.name}`",
                    path_span(self.call),
                    notes=(f"{argument.name}: {argument.meaning}",),
                    help=f"write {self.method.path}({argument.name}: {_example(argument)})",
                )
            self.values[argument.name] = self._default(argument)
        return self.values[argument.name]

    def _default(self, argument: Argument) -> Value:
        text = argument.default
        if text is None:
            return None
        match argument.type:
            case "int" | "number":
                return Fraction(text)
            case "bool":
                return text == "true"
            case "symbol":
                return Symbol(text)
            case "duration":
                amount, unit = text.split()
                return Quantity(Fraction(amount) * _SECONDS[unit.strip("'")], "s")
            case "distance":
                return self._length(text)
            case _:
                return text

    def _length(self, text: str) -> Value:
        """A default length: a formula over ``radius`` is in radii of the ball, any other in widths of the domain.

        Where these differ from place to place, the share itself is recorded (``'radii'``, ``'widths'``) and the
        adapter takes it of each.
        """
        share = evaluate(text, {**self.numbers(), "radius": Fraction(1)})
        if "radius" in variables(text):
            # A root mean square and a metric are no lengths in the space, so a share of one stays a share.
            radii = {None if ball.norm in ("l2_rms", "metric") else ball.radius for ball in _balls_of(self.subject)}
            radius = radii.pop() if len(radii) == 1 else None
            return Quantity(share, "radii") if radius is None else Distance(share * radius, self.space.name)
        widths = {cell.high - cell.low for cell in self.space.cells}
        return Distance(share * widths.pop(), self.space.name) if len(widths) == 1 else Quantity(share, "widths")

    def _unknown(self, name: str, span: Span) -> None:
        method = self.method
        if name in method.run_arguments:
            self._say("TM503", f"`{name}` of {method.path} is set by the run: {method.run_arguments[name]}", span)
        elif name in method.budget_arguments or name in RESTATES:
            self._restated(name, span)
        elif not name:
            self._say("TM503", f"{method.path} takes its arguments by name", span, help=self._takes())
        else:
            close = nearest(name, method.arguments)
            help = f"did you mean {either(close)}" if close else self._takes()
            fix = Fix(f"write {close[0]}", (Edit(span, close[0]),)) if len(close) == 1 else None
            message = f"{method.path} has no argument `{name}`"
            self.diagnostics.append(Diagnostic("TM503", message, span, help=help, fix=fix))

    def _restated(self, name: str, span: Span) -> None:
        where = RESTATES.get(name, "allow:")
        found = _balls_of(self.subject)[:1] if where == "allow:" else ()
        label = tuple(Label(ball.origin, "the budget stands here") for ball in found)
        said = where if where in ("the space", "the model") else f"`{where}`"
        self.diagnostics.append(
            Diagnostic(
                "TM505",
                f"`{name}` of {self.method.path} would say {said} a second time",
                span,
                labels=label,
                notes=("every stage searches the one set of its threat, whatever library runs it",),
                help=f"leave `{name}` out: the value comes from {said} and reaches the library by itself",
            )
        )

    def _takes(self) -> str:
        names = [f"`{name}`" for name in self.method.arguments]
        return f"it takes {listed(names)}" if names else "it takes no arguments"

    def _typed(self, argument: Argument, value: Value, span: Span) -> Value:
        """The normal form of what was written; says what is wrong with it otherwise and returns it as it is."""
        result = _CONVERT[argument.type](self, argument, value)
        if isinstance(result, _Wrong):
            message = f"`{argument.name}` of {self.method.path} is {result.needed}, not {written(value)}"
            fix = Fix(f"add{result.behind}", (Edit(_end(span), result.behind),)) if result.behind else None
            notes = (f"{argument.name}: {argument.meaning}",)
            self.diagnostics.append(Diagnostic("TM504", message, span, notes=notes, help=result.help, fix=fix))
            return value
        self._classes(argument, result, span)
        return result

    def _classes(self, argument: Argument, value: Value, span: Span) -> None:
        if not isinstance(value, Symbol) or isinstance(self.subject, Shift):
            return
        asked = argument.min_classes.get(value.name, 0)
        if isinstance(self.subject, Threat) and goal(self.subject.goal) == "targeted":
            asked = max(asked, argument.min_classes.get(f"{value.name} targeted", 0))
        have = len(self.model.classes)
        if have < asked:
            self._say(
                "TM511",
                f"`{argument.name}: {value.name}` needs {asked} classes, `{self.model.name}` has {have}",
                span,
                help=f"take {either([c for c in _built(argument) if argument.min_classes.get(c, 0) <= have])}",
            )


def _balls_of(subject: Threat | Property | Shift) -> tuple[Ball, ...]:
    return balls(subject.allow) if isinstance(subject, Threat) else ()


@dataclass(frozen=True, slots=True)
class _Wrong:
    """What was needed instead; ``behind`` is what mends it when it is put behind the value."""

    needed: str
    help: str | None = None
    behind: str = ""


def _range(argument: Argument, kind: str) -> str:
    if argument.low is not None and argument.high is not None:
        return f"{kind} from {number(argument.low)} to {number(argument.high)}"
    if argument.low is not None:
        return f"{kind} of {number(argument.low)} or more"
    return kind if argument.high is None else f"{kind} of {number(argument.high)} or less"


def _within(argument: Argument, value: Fraction) -> bool:
    return (argument.low is None or value >= argument.low) and (argument.high is None or value <= argument.high)


def _plain(value: Value) -> Fraction | None:
    """The number, if it is one without a unit."""
    if isinstance(value, Quantity) and value.unit is None:
        return value.value
    return value if isinstance(value, Fraction) else None


_GREATEST = Fraction(10**9)
"""Of whole-number arguments that say no greatest value themselves: what every library can count up to."""


def _int(_: Resolution, argument: Argument, value: Value) -> Value | _Wrong:
    plain = _plain(value)
    if plain is not None and plain > _GREATEST:
        argument = replace(argument, high=min(argument.high or _GREATEST, _GREATEST))
    if plain is None or plain.denominator != 1 or not _within(argument, plain):
        return _Wrong(_range(argument, "a whole number"))
    return plain


def _number(_: Resolution, argument: Argument, value: Value) -> Value | _Wrong:
    plain = _plain(value)
    return plain if plain is not None and _within(argument, plain) else _Wrong(_range(argument, "a number"))


def _bool(_: Resolution, __: Argument, value: Value) -> Value | _Wrong:
    if isinstance(value, Symbol) and value.name in ("true", "false"):
        return value.name == "true"
    return value if isinstance(value, bool) else _Wrong("true or false")


def _symbol(_: Resolution, argument: Argument, value: Value) -> Value | _Wrong:
    if isinstance(value, Symbol) and value.name in argument.choices:
        return value
    if isinstance(value, str) and value in argument.choices:
        return _Wrong("a word without quotes", f"write {argument.name}: {value}")
    close = did_you_mean(value.name, argument.choices) if isinstance(value, Symbol) else None
    return _Wrong(either(_built(argument)), close)


def _built(argument: Argument) -> list[str]:
    return [choice for choice in argument.choices if choice not in argument.not_built]


def _text(_: Resolution, __: Argument, value: Value) -> Value | _Wrong:
    return value if isinstance(value, str) else _Wrong("a text in double quotes")


def _file(_: Resolution, __: Argument, value: Value) -> Value | _Wrong:
    if isinstance(value, Artifact):
        return value
    return Artifact(value) if isinstance(value, str) else _Wrong("the name of a file in double quotes")


def _data(resolution: Resolution, _: Argument, value: Value) -> Value | _Wrong:
    names = [d.name for d in resolution.data if d.space == resolution.space.name]
    return _name(value, names, f"the name of a data set of {resolution.space.name}")


def _stage(resolution: Resolution, _: Argument, value: Value) -> Value | _Wrong:
    return _name(value, resolution.earlier, "the label of an attack that stands before it")


def _name(value: Value, known: Sequence[str], needed: str) -> Value | _Wrong:
    if isinstance(value, Symbol) and value.name in known:
        return value
    close = did_you_mean(value.name, known) if isinstance(value, Symbol) else None
    return _Wrong(needed, close or (f"there is {listed(known)}" if known else "there is none"))


def _distance(resolution: Resolution, argument: Argument, value: Value) -> Value | _Wrong:
    space = resolution.space.name
    if isinstance(value, Distance):
        if value.space != space:
            return _Wrong(f"measured in `{space}`, where the threat measures")
        return value if _within(argument, value.value) else _Wrong(_range(argument, "a length"))
    plain = _plain(value)
    if plain is None:
        return _Wrong("a length in a space")
    return _Wrong("a length in a space", f"write {argument.name}: {written(value)} in {space}", f" in {space}")


def _duration(_: Resolution, argument: Argument, value: Value) -> Value | _Wrong:
    if not isinstance(value, Quantity) or value.unit not in _SECONDS:
        plain = _plain(value)
        say = None if plain is None else f"write {argument.name}: {number(plain)} 's', 'min' or 'h'"
        return _Wrong("a duration", say)
    seconds = value.value * _SECONDS[value.unit]
    return Quantity(seconds, "s") if _within(argument, seconds) else _Wrong(_range(argument, "a number of seconds"))


_CONVERT: dict[str, Callable[[Resolution, Argument, Value], Value | _Wrong]] = {
    "int": _int,
    "number": _number,
    "bool": _bool,
    "symbol": _symbol,
    "text": _text,
    "file": _file,
    "data": _data,
    "stage": _stage,
    "distance": _distance,
    "duration": _duration,
}


def _example(argument: Argument) -> str:
    if argument.choices:
        return argument.choices[0]
    samples = {"int": "1", "number": "1/2", "bool": "true", "distance": "1/100 in px", "duration": "60 's'"}
    if argument.type == "int" and argument.low is not None:
        return number(argument.low)
    return samples.get(argument.type, '"…"')


def path_span(call: Call) -> Span:
    """The span of the dotted name of a call, which its own span begins with."""
    o = call.origin
    length = len(call.name)
    if o.end - o.start <= length:
        return o
    return Span(o.file, o.start, o.start + length, o.line, o.column, o.line, o.column + length)


def _end(span: Span) -> Span:
    """The empty span behind ``span``."""
    return Span(span.file, span.end, span.end, span.end_line, span.end_column, span.end_line, span.end_column)
