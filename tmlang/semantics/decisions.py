"""From outputs to a class: ``decide:``, ``reject:``, ``random:`` and what they demand of each other."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import cast, get_args

from tmlang.diagnostics.suggest import either
from tmlang.meaning.models import Decide, Model, NonFinite, Randomness, RejectWhen
from tmlang.semantics import values
from tmlang.semantics.scope import Env, World
from tmlang.syntax import ast

_TIES = ("lowest", "reject", "error")
_NON_FINITE: tuple[NonFinite, ...] = get_args(NonFinite)
_OUTPUT_RULES = ("max_softmax", "max_probability", "agreement")


def decide(world: World, env: Env, clause: ast.Clause | None, names: tuple[str, ...] | None) -> Decide | None:
    """The rule of ``decide:``; ``None`` when it is missing or refused."""
    if clause is None:
        return None
    node = cast(ast.Decide, clause.value)
    rule, unfit = node.rule, _non_finite(world, node)
    if isinstance(rule, ast.Threshold):
        found = _threshold(world, env, node, rule, names)
        return None if found is None else replace(found, non_finite=unfit)
    if isinstance(rule, ast.MostLikely):
        if node.ties is not None:
            world.report("TM302", "the most likely class is an ideal, and nothing ties: leave ties out", node.ties)
        return Decide("most_likely", origin=rule.span)
    draws = None
    if isinstance(rule, ast.Draws):
        draws = values.whole(world, env, rule.count, least=2, what="a number of draws")
    ties = _ties(world, node, rule, names)
    word = rule.word
    return (
        None
        if isinstance(rule, ast.Draws) and draws is None
        else Decide(word, ties, draws, non_finite=unfit, origin=rule.span)
    )


def _non_finite(world: World, node: ast.Decide) -> NonFinite:
    """What scores that decide nothing count as; ``error`` where nothing is written."""
    word = node.non_finite
    if word is None:
        return "error"
    if isinstance(node.rule, ast.MostLikely):
        said = "the most likely class is an ideal vote, in which a draw without a class has no voice"
        world.report("TM318", f"{said}: leave non_finite out", word)
        return "error"
    found = next((w for w in _NON_FINITE if w == word.text), None)
    if found is None:
        said = f"scores that are not finite fail, are rejected, or are an error, and `{word.text}` is none of these"
        world.report("TM318", said, word, help=f"non_finite {either(_NON_FINITE)}")
    return found or "error"


def _ties(world: World, node: ast.Decide, rule: ast.Extreme | ast.Draws, names: tuple[str, ...] | None) -> str | None:
    """What a tie is; it must be written, since a tie is an input like any other."""
    if node.ties is None:
        how = "two outputs can be equal"
        if isinstance(rule, ast.Draws) and rule.word == "majority":
            how = f"{rule.count.text if isinstance(rule.count, ast.Number) else 'these'} draws can split evenly"
        world.report("TM302", f"{how}; add ties {either(_TIES)}", rule, help=f"… ties {_TIES[0]}")
        return None
    if node.ties.text in _TIES:
        return node.ties.text
    return class_named(world, node.ties, names, extra=_TIES)


def class_named(
    world: World,
    node: ast.Name | ast.Number,
    names: tuple[str, ...] | None,
    *,
    code: str = "TM113",
    extra: tuple[str, ...] = (),
) -> str | None:
    """The class that a name or an index stands for; classes are numbered from 0."""
    if names is None:
        return None
    if isinstance(node, ast.Number):
        if node.value.denominator == 1 and 0 <= node.value < len(names):
            return names[int(node.value)]
        world.report(
            code, f"the model has {len(names)} classes, numbered 0 to {len(names) - 1}, and no {node.text}", node
        )
        return None
    if node.text in names:
        return node.text
    if names == tuple(map(str, range(len(names)))) and not extra:
        world.report(code, f"the classes are numbered 0 to {len(names) - 1}, and none is called {node.text}", node)
        return None
    world.unknown(code, node, "class", [*extra, *names], "the model")
    return None


def _threshold(
    world: World, env: Env, node: ast.Decide, rule: ast.Threshold, names: tuple[str, ...] | None
) -> Decide | None:
    value = values.number(world, env, rule.value)
    if node.ties is not None:
        world.report("TM302", "a threshold has no ties: >= and > say where equality goes", node.ties)
    if names is None or value is None:
        return None
    positive, negative = class_named(world, rule.positive, names), class_named(world, rule.negative, names)
    if positive is None or negative is None:
        return None
    if len(names) != 2 or positive == negative:
        world.report("TM315", f"a threshold parts two classes, and the model has {len(names)}", rule)
        return None
    if rule.op == "==":
        world.report("TM315", "a score is rarely equal to a number: write >=, >, <= or <", rule)
        return None
    return Decide("threshold", None, None, rule.op, value, positive, negative, rule.quantity.text, origin=node.span)


def randomness(world: World, env: Env, clause: ast.Clause | None) -> Randomness | None:
    """What ``random:`` declares; a fixed seed needs its reason."""
    if clause is None:
        return None
    node = cast(ast.Random, clause.value)
    if node.word != "seeded":
        return Randomness(node.word)
    seed = values.whole(world, env, node.seed, least=0) if node.seed else None
    if node.reason is None or not node.reason.value.strip():
        world.report(
            "TM312",
            "a fixed seed hides the randomness that the service has; say why the service fixes it, too",
            node,
            help='seeded 7 because "the deployed service uses this seed"',
        )
        return None
    return None if seed is None else Randomness("seeded", seed, node.reason.value)


def reject_when(world: World, env: Env, node: ast.RejectIf, names: tuple[str, ...] | None) -> RejectWhen | None:
    """One condition of ``reject:``; a calibrated one names its data and the share of clean inputs it rejects."""
    value: Fraction | None
    if node.quantity.text == "class" and isinstance(node.value, ast.Name):
        named = class_named(world, node.value, names)
        value = Fraction(names.index(named)) if names and named else None
    else:
        value = values.number(world, env, node.value)
    on = rate = None
    if node.calibration is not None:
        data = world.find(env, node.calibration.data, "data")
        rate = values.share(world, env, node.calibration.rate, "the share of clean inputs that are rejected")
        if data is None or rate is None:
            return None
        on = world.names.of(data)
    return None if value is None else RejectWhen(node.quantity.text, node.op, value, on, rate)


def check_rejects(world: World, model: Model, node: ast.Reject | None) -> None:
    """Rejection rules look at things that the model has."""
    heads = [name for name, _ in model.network.outputs[1:]]
    known = [*_OUTPUT_RULES, "class", *heads]
    for condition in node.conditions if node else ():
        name = condition.quantity
        if name.text == "agreement" and model.decide.rule != "majority":
            world.report("TM313", "agreement is of votes, and this model does not vote", name)
        elif name.text not in known:
            help = "outputs logits: 10, distance: 1 behind the network names a second head"
            tail = "" if heads else "; the network has one output"
            world.report("TM313", f"{model.name} has no {name.text} to look at{tail}", name, help=help)


def check_randomness(world: World, model: Model, random: ast.Clause, decide: ast.Clause) -> None:
    """What is drawn, what is declared, and what is decided agree."""
    noisy = next((s for s in model.steps if s.random), None)
    rule, kind = model.decide.rule, model.random.kind
    where = cast(ast.Random, random.value)
    if rule == "most_likely" and kind != "never":
        world.report("TM311", "the most likely class has no randomness left: random: never", where)
    elif noisy and kind == "never" and rule != "most_likely":
        help = "random: per request, or decide: most_likely draw for the ideal vote"
        world.report("TM311", f"the step {noisy.name} draws, and random: says never", where, help=help)
    elif rule in ("majority", "mean") and kind == "never":
        world.report("TM311", "nothing draws, so all draws are equal", cast(ast.Decide, decide.value).rule)
    elif rule == "most_likely" and not noisy:
        world.report(
            "TM311", "nothing draws, so no class is more likely than another", cast(ast.Decide, decide.value).rule
        )


def _outputs(model: Model) -> tuple[str, int] | None:
    """The first output and its width, as far as the spec says it."""
    if model.network.outputs:
        return model.network.outputs[0]
    weights = dict(model.network.args).get("weights") if model.network.kind == "linear" else None
    if not isinstance(weights, tuple):
        return None
    return "score", len(weights) if isinstance(weights[0], tuple) else 1


def check_outputs(world: World, model: Model, found: dict[str, ast.Clause]) -> None:
    """The stated outputs are as many as the decision needs."""
    stated = _outputs(model)
    if stated is None:
        return
    net = cast(ast.Network, found["network"].value)
    where = net.outputs[0].value if net.outputs else net.call.path
    extra = {int(r.value) + 1 for r in model.reject if r.quantity == "class"}
    allowed = {1, 2} if model.decide.rule == "threshold" else {len(model.classes), *extra}
    if len(model.classes) == 2:
        allowed.add(1)
    if stated[1] not in allowed:
        need = either([str(n) for n in sorted(allowed)])
        world.report("TM310", f"the network gives {stated[1]} {stated[0]}, and the decision needs {need}", where)
    quantity = model.decide.quantity
    if model.decide.rule == "threshold" and quantity not in ("score", stated[0]):
        world.report(
            "TM315", f"the network has no {quantity}; it gives {stated[0]}", cast(ast.Decide, found["decide"].value)
        )
