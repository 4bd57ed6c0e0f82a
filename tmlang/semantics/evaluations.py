"""Evaluations: stages in order, curves, repeats, limits (LANGUAGE.md section 8)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal, cast

from tmlang.base.frozen import dataclass
from tmlang.base.source import Span
from tmlang.diagnostics.model import Edit, Fix, Label
from tmlang.meaning.evaluations import Curve, Evaluation, StageCall
from tmlang.meaning.threats import Property, Shift, Threat
from tmlang.meaning.values import Call, Quantity, Symbol
from tmlang.semantics import clauses, data, distances, instances, models, mutable, properties, threats, values
from tmlang.semantics.builtins import LOGIT_LOSSES
from tmlang.semantics.scope import Bound, Entry, Env, World
from tmlang.semantics.spaces import doc
from tmlang.semantics.threats import KnownSubject
from tmlang.semantics.units import TIME_UNITS, convert, parse_unit
from tmlang.semantics.values import show
from tmlang.syntax import ast

Role = Literal["attack", "certify", "decide_exactly", "enumerate"]


@dataclass(frozen=True, slots=True)
class KnownEvaluation:
    """A checked evaluation. ``points`` are the further instances of its threat along curves over a param."""

    meaning: Evaluation
    subject: KnownSubject
    points: tuple[KnownSubject, ...]

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(s.role for s in self.meaning.stages)


def evaluation_of(world: World, entry: Entry) -> KnownEvaluation | None:
    """The checked evaluation of a declaration."""
    return world.once(entry, entry.node.name, lambda: _evaluation(world, entry))


def subject_of(world: World, entry: Entry, bound: dict[str, Bound], suffix: str, at: ast.Name) -> KnownSubject | None:
    """The instance of a threat or shift, or a property, by its entry."""
    if entry.kind == "property":
        return properties.property_of(world, entry)
    name = instances.called(world.names.of(entry), bound, world) + suffix
    make = threats.threat_of if entry.kind == "threat" else properties.shift_of
    return make(world, entry, bound, name, at)


def _evaluation(world: World, entry: Entry) -> KnownEvaluation | None:
    node, env = cast(ast.Evaluate, entry.node), Env(entry.file)
    found = clauses.once_each(world, node)
    target = world.find(env, node.subject, "threat", "property", "shift")
    bound = instances.bind(world, env, target, node.args or (), node.subject) if target else None
    subject = subject_of(world, target, bound, "", node.subject) if target and bound is not None else None
    about = env.about(subject.model, _moved(subject)) if subject else env.about(None)
    stages = _stages(world, about, node)
    rest = _rest(world, env, found)
    if target and bound is not None and subject is not None:
        curves = [_curve(world, env, cast(ast.Curve, c.value), node, target, subject) for c in node.all("curve")]
    else:
        curves = []
    if subject is None or stages is None or rest is None or None in curves:
        return None
    kept = [c for c in curves if c is not None]
    made = Evaluation(
        world.names.of(entry),
        subject.meaning.name,
        stages,
        curves=tuple(c for c, _ in kept),
        doc=doc(node),
        origin=node.name.span,
        **rest,  # type: ignore[arg-type]
    )
    known = KnownEvaluation(made, subject, tuple(p for _, points in kept for p in points))
    _together(world, known, node, found)
    return known


# --- stages -----------------------------------------------------------------------------------------------------


def _stages(world: World, env: Env, node: ast.Evaluate) -> tuple[StageCall, ...] | None:
    made = spelled_out(world, env, node, ())
    if made is None:
        return None
    seen: dict[str, StageCall] = {}
    for stage in made:
        if stage.label in seen:
            labels = (Label(seen[stage.label].origin, "the first one"),)
            world.report("TM102", f"two stages are called {stage.label}", stage.origin, labels=labels)
            return None
        seen[stage.label] = stage
    return made


def spelled_out(world: World, env: Env, block: ast.Block, within: tuple[Entry, ...]) -> tuple[StageCall, ...] | None:
    """The stages of a block in order, each suite in its place; ``within`` are the suites around it."""
    made: list[StageCall] = []
    ok = True
    for clause in block.clauses:
        word = clause.word.text
        if word in clauses.STAGES:
            made.append(_stage(world, env, cast(Role, word), cast(ast.Stage, clause.value), within))
        elif word == "suite":
            stages = _suite(world, env, cast(ast.Call, clause.value), within)
            ok = ok and stages is not None
            made += stages or ()
    return tuple(made) if ok and all(_whole(s.call) for s in made) else None


def _whole(call: Call) -> bool:
    """Whether no argument was refused."""
    return all(v is not None for _, v in call.args)


def _stage(world: World, env: Env, role: Role, node: ast.Stage, within: tuple[Entry, ...]) -> StageCall:
    made = values.call(world, env, node.call)
    _named_data(world, env, node.call)
    label = node.label.text if node.label else made.path[-1]
    suite = world.names.of(within[-1]) if within else None
    return StageCall(role, label, made, _through(world, env, node.through), suite, (node.label or node.call).span)


def _named_data(world: World, env: Env, node: ast.Call) -> None:
    """Data that a stage is handed belong to the program, and suit the attacked model."""
    for arg in node.args:
        if not isinstance(arg.value, ast.Name):
            continue
        entry = env.bound.get(arg.value.text, env.file.table.get(arg.value.text))
        known = data.data_of(world, entry) if isinstance(entry, Entry) and entry.kind == "data" else None
        if known is not None and env.model is not None:
            data.check_against(world, known, env.model, arg.value)


def _through(world: World, env: Env, node: ast.Name | ast.Call | None) -> Call | None:
    """``straight_through`` or ``expectation(draws: 30)``."""
    if node is None:
        return None
    name = node if isinstance(node, ast.Name) else node.path.parts[0]
    way = values.word(world, name, ("straight_through", "expectation"), "way through a step without a gradient")
    made = Call((name.text,), (), node.span) if isinstance(node, ast.Name) else values.call(world, env, node)
    if way is None:
        return made
    takes = ("draws",) if way == "expectation" else ()
    for given in () if isinstance(node, ast.Name) else node.args:
        if given.name is None or given.name.text not in takes:
            message = f"{way} takes {f'{takes[0]}: alone' if takes else 'no arguments'}"
            world.report("TM116", message, given, help="expectation(draws: 30)" if takes else "straight_through")
            return made
    draws = dict(made.args).get("draws")
    if takes and (not isinstance(draws, Fraction) or draws.denominator != 1 or draws < 1):
        world.report("TM308", "an expectation is over a whole number of draws", node, help="expectation(draws: 30)")
    return made


def _suite(world: World, env: Env, node: ast.Call, within: tuple[Entry, ...]) -> tuple[StageCall, ...] | None:
    if len(node.path.parts) != 1:
        world.report("TM101", f"a suite has one name, and {node.path.text} has a dot", node.path)
        return None
    entry = world.find(env, node.path.parts[0], "suite")
    if entry is None:
        return None
    if entry in within:
        world.report("TM115", f"the suite {entry.name} contains itself", node.path)
        return None
    bound = instances.bind(world, env, entry, node.args, node.path)
    if bound is None:
        return None
    return spelled_out(world, Env(entry.file, bound, env.model, env.moved), entry.node, (*within, entry))


# --- the other clauses ------------------------------------------------------------------------------------------


def _rest(world: World, env: Env, found: dict[str, ast.Clause]) -> dict[str, object] | None:
    made: dict[str, object] = {}
    if "seed" in found:
        made["seed"] = values.whole(world, env, cast(ast.Value, found["seed"].value), least=0, what="a seed")
    if "repeats" in found:
        node = cast(ast.Value, found["repeats"].value)
        made["repeats"] = values.whole(world, env, node, least=1, code="TM801", what="the number of runs")
    if "stop" in found:
        made["stop_after"] = _seconds(world, env, cast(ast.StopAfter, found["stop"].value).time)
    if "attribution" in found:
        node = cast(ast.Name, found["attribution"].value)
        made["attribution"] = values.word(world, node, ("first", "full"), "attribution")
    return None if None in made.values() else made


def _seconds(world: World, env: Env, node: ast.Value) -> Fraction | None:
    """A duration in seconds."""
    got = distances.amount(world, env, node)
    if got is None:
        return None
    if isinstance(got, Fraction):
        text = f"{show(got)} '{TIME_UNITS[1]}', {show(got)} '{TIME_UNITS[0]}' or {show(got)} '{TIME_UNITS[2]}'"
        world.report("TM207", f"{show(got)} of what: write {text}", node)
        return None
    unit = parse_unit(got.unit or "")
    seconds = parse_unit("s")
    value = convert(got.value, unit, seconds) if unit and seconds else None
    if value is None:
        place = node.unit if isinstance(node, ast.Quantity) else node
        world.report("TM206", f"a time is needed here, and '{got.unit}' is none", place)
    elif value <= 0:
        world.report("TM802", "a time limit is greater than zero", node)
        return None
    return value


# --- curves -----------------------------------------------------------------------------------------------------


def _curve(
    world: World, env: Env, node: ast.Curve, block: ast.Evaluate, target: Entry, subject: KnownSubject
) -> tuple[Curve, tuple[KnownSubject, ...]] | None:
    numbers = _numbers(world, env, node, subject)
    if numbers is None:
        return None
    name = node.parameter
    entry = env.file.table.get(name.text)
    if entry is not None and entry.kind == "param":
        return _over_param(world, env, node, block, target, subject, entry, numbers)
    if name.text not in ("radius", "queries"):
        params = [n for n, e in env.file.table.items() if e.kind == "param"]
        world.unknown("TM112", name, "parameter", [*params, "radius", "queries"])
        return None
    threat = subject.meaning
    if not isinstance(threat, Threat):
        world.report("TM112", f"{threat.name} has no {name.text} to vary", name)
        return None
    limit = threat.access.queries
    if name.text == "queries" and (limit is None or any(n > limit for n in numbers)):
        grants = f"grants {limit}" if limit is not None else "does not limit queries"
        world.report("TM211", f"the threat {grants}: {show(max(numbers))} lies beyond", node.values)
        return None
    return Curve(name.text, numbers), ()


def _numbers(world: World, env: Env, node: ast.Curve, subject: KnownSubject) -> tuple[Fraction, ...] | None:
    """The values of a curve, different and not negative; lengths in the space's own units."""
    made: list[Fraction] = []
    for item in node.values.items:
        got = length(world, subject, distances.amount(world, env, item), item)
        if got is None:
            return None
        if got < 0 or got in made:
            why = "is negative" if got < 0 else "stands twice"
            world.report("TM213" if got < 0 else "TM114", f"{show(got)} {why} in this curve", item)
            return None
        made.append(got)
    if not made:
        world.report("TM213", "a curve has at least one value", node.values)
        return None
    return tuple(made)


def length(world: World, subject: KnownSubject, got: Fraction | Quantity | None, node: ast.Node) -> Fraction | None:
    """A written amount as a plain number: a quantity in the unit of what the subject's attacker may move."""
    if not isinstance(got, Quantity):
        return got
    return distances.common(world, subject.model.space, _moved(subject), got, node, node)


def _moved(subject: KnownSubject) -> list[int]:
    """The cells that the subject's attacker may move."""
    return mutable.moved(subject.model.space, getattr(subject.meaning, "mutable", None))


def _over_param(
    world: World,
    env: Env,
    node: ast.Curve,
    block: ast.Evaluate,
    target: Entry,
    subject: KnownSubject,
    param: Entry,
    numbers: tuple[Fraction, ...],
) -> tuple[Curve, tuple[KnownSubject, ...]] | None:
    points: list[KnownSubject] = []
    for number, item in zip(numbers, node.values.items, strict=True):
        if not in_range(world, param, number, item):
            return None
        there = world.at({param: number})
        bound = instances.bind(there, env, target, block.args or (), block.subject)
        suffix = f"@{param.name}={number}"
        point = subject_of(there, target, bound, suffix, block.subject) if bound is not None else None
        if point is None:
            return None
        if point.model.meaning != subject.model.meaning:
            message = f"{param.name} changes the model, and a curve runs over one model"
            world.report("TM012", message, node.parameter, help="write an evaluation for each model")
            return None
        points.append(point)
    names = {replace(p.meaning, name="") for p in points if isinstance(p.meaning, Threat)}
    if len(names) < len(points):
        message = f"{subject.meaning.name} is the same at every {param.name}"
        world.report("TM112", message, node.parameter)
        return None
    return Curve(param.name, numbers, tuple(p.meaning.name for p in points)), tuple(points)


def in_range(world: World, param: Entry, number: Fraction, at: ast.Node) -> bool:
    """Whether a value of a param lies in the range that the param declares; reported if not."""
    written: ast.Range | None = param.node.range
    return written is None or values.in_range(world, Env(param.file), written, param.name, number, at)


# --- together ---------------------------------------------------------------------------------------------------


def _together(world: World, known: KnownEvaluation, node: ast.Evaluate, found: dict[str, ast.Clause]) -> None:
    """What only shows when the subject and all stages are known."""
    subject, stages = known.subject.meaning, known.meaning.stages
    if isinstance(subject, Shift) and stages:
        message = f"{subject.name} is a shift: nature draws it, and nobody searches or certifies"
        world.report("TM620", message, stages[0].call.origin)
    elif not isinstance(subject, Shift) and not stages:
        world.report("TM618", f"{node.name.text} has no stage: nothing is searched, bounded or decided", node.name)
    for stage in stages:
        _logits(world, known.subject.model, stage)
    draws = isinstance(subject, Shift) or any(s.role == "attack" for s in stages)
    if draws and "seed" not in found and not isinstance(subject, Property):
        closing = distances.behind(node.span)
        at = _before_brace(world, node) or closing
        fix = Fix("add seed: 0", (Edit(at, "  seed: 0\n"),)) if at is not closing else None
        message = f"{node.name.text} draws, and no seed is written: nobody can repeat it"
        world.report("TM621", message, node.name, help="seed: 0", fix=fix)


def _before_brace(world: World, node: ast.Evaluate) -> Span | None:
    """The empty span at the start of the line of the closing brace, if it stands alone there."""
    text = world.text_of(node)
    brace = node.span.end - 1
    start = text.rfind("\n", 0, brace) + 1
    if text[start:brace].strip() or start <= node.name.span.end:
        return None
    span = node.span
    return type(span)(span.file, start, start, span.end_line, 1, span.end_line, 1)


def _logits(world: World, model: models.KnownModel, stage: StageCall) -> None:
    """A loss on logits meets probabilities: gradients vanish where the model is sure, and the attack looks weak."""
    loss = dict(stage.call.args).get("loss")
    softmax = any(s.name == "softmax" for s in model.meaning.post_steps)
    averaged = model.meaning.ensemble is not None and model.meaning.ensemble[1].endswith("probabilities")
    if model.meaning.network.output_kind != "probabilities" and not softmax and not averaged:
        return
    if isinstance(loss, Symbol) and loss.name in LOGIT_LOSSES:
        where = next((v for n, _, v in stage.call.arg_origins if n == "loss"), stage.call.origin)
        message = f"{model.meaning.name} gives probabilities, and the loss {loss.name} is for logits"
        help = "attack the logits: take softmax() out, average logits, or name the output logits:"
        world.report("TM309", message, where, help=help)
