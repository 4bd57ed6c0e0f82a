"""What counts: the goal, clean errors, rejections, success of random models, assumptions (LANGUAGE.md section 6)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, cast

from tmlang.meaning.threats import Assumption, Goal, Mutable, Nature, Rejected, Success
from tmlang.semantics import allowed, decisions, values
from tmlang.semantics.data import KnownData
from tmlang.semantics.models import KnownModel
from tmlang.semantics.scope import Env, World
from tmlang.syntax import ast

_MOST_DRAWS = 100_000


def goal(world: World, env: Env, node: ast.Goal, known: KnownModel | None, examples: KnownData | None) -> Goal | None:
    """Which outputs are failures: any wrong class, or a target by name or by rule."""
    if node.kind == "untargeted":
        return Goal("untargeted")
    if node.kind == "class":
        return _target(world, cast("ast.Name | ast.Number", node.target), known, examples)
    if node.kind == "each":
        each = node.each or ast.Name(node.span, "")
        how = values.word(world, each, ("any", "all", "apart"), "way to join the targets")
        if known is not None and len(known.meaning.classes) == 2:
            message = f"{known.meaning.name} has two classes, so its one target is the untargeted failure"
            world.report("TM418", message, node, help="goal: untargeted")
        return Goal("each", None, cast("Literal['any', 'all', 'apart']", how)) if how else None
    if node.kind == "column":
        return Goal("column", column=node.column.value if node.column else None)
    rule = values.word(world, node.word, ("runner_up", "least_likely", "next", "random"), "rule for targets")
    if rule is None:
        return None
    if rule != "random":
        return Goal(cast("Literal['runner_up', 'least_likely', 'next']", rule))
    if len(node.args) != 1:
        world.report("TM406", "random targets are drawn with a seed", node.word, help="goal: targeted random(0)")
        return None
    seed = values.whole(world, env, node.args[0].value, least=0, what="a seed")
    return None if seed is None else Goal("random", seed=seed)


def _target(
    world: World, node: ast.Name | ast.Number, known: KnownModel | None, examples: KnownData | None
) -> Goal | None:
    if known is None:
        return None
    name = decisions.class_named(world, node, known.meaning.classes, code="TM406")
    if name is None:
        return None
    if examples is not None:
        labels = {decisions.class_named(world, n, known.meaning.classes) for n in examples.labels}
        if labels == {name}:
            message = f"every example of {examples.meaning.name} is {name} already, so none can become it"
            world.report("TM406", message, node)
            return None
    return Goal("class", name)


def clean_errors(world: World, node: ast.Name) -> Literal["fail", "excluded"] | None:
    """What inputs that were wrong before any attack count as."""
    word = values.word(world, node, ("fail", "excluded"), "policy for clean errors")
    return cast("Literal['fail', 'excluded'] | None", word)


def rejected(world: World, env: Env, node: ast.Rejected, goal: Goal | None, part: Mutable | None) -> Rejected | None:
    """What a rejection counts as."""
    policy = values.word(world, node.policy, ("fail", "safe", "denied"), "policy for rejections")
    if policy is None:
        return None
    if policy == "fail" and goal is not None and goal.kind != "untargeted":
        world.report("TM407", "a rejection is never the target class; it can be safe or denied", node.policy)
        return None
    if node.within is None:
        return Rejected(cast("Literal['fail', 'safe', 'denied']", policy))
    if policy != "fail" or node.beyond is None or node.beyond.text != "safe":
        help = "rejected: fail within linf <= 2 'levels' in px, safe beyond"
        world.report("TM116", "near the original a rejection fails, and it is safe beyond", node, help=help)
        return None
    within = allowed.ball(world, env, node.within, part, zero=True)
    return Rejected("fail_within", within) if within else None


def success(
    world: World,
    env: Env,
    node: ast.ErrorProbability | ast.SingleDraw,
    nature: Nature | None,
    units: int | None,
) -> Success | None:
    """When a random outcome counts as a failure; ``units`` is the number of examples if the spec fixes it."""
    if isinstance(node, ast.SingleDraw):
        draws = _draws(world, env, node.draws, nature)
        return None if draws is None else Success("single_draw", draws=draws)
    threshold = values.number(world, env, node.threshold)
    confidence = values.share(world, env, node.confidence, "a confidence")
    draws = nature.draws if nature else None
    if node.draws is not None:
        draws = _draws(world, env, node.draws, nature)
    elif nature is None:
        world.report("TM411", "an error probability is measured on fresh draws", node, help="… on 500 fresh draws")
        return None
    if threshold is None or confidence is None or draws is None:
        return None
    if not 0 <= threshold < 1:
        world.report(
            "TM213", f"a probability lies between 0 and 1, and not at {values.show(threshold)}", node.threshold
        )
        return None
    if not _enough(world, node, threshold, confidence, draws, units or 1):
        return None
    return Success("error_probability", threshold, confidence, draws)


def _draws(world: World, env: Env, node: ast.Value, nature: Nature | None) -> int | None:
    """How many fresh draws judge an input: those of nature, where it draws."""
    draws = values.whole(world, env, node, least=1, what="a number of draws")
    if draws is None or (nature is not None and nature.draws == draws):
        return draws
    if draws > _MOST_DRAWS:
        message = f"a number of draws is at most {_MOST_DRAWS}, since each is recorded, and not {draws}"
        world.report("TM213", message, node)
        return None
    if nature is not None:
        message = f"nature draws {nature.draws} times, and success is judged on {draws}: they are the same draws"
        world.report("TM422", message, node, help=f"write {nature.draws} in both places")
        return None
    return draws


def _enough(
    world: World,
    node: ast.ErrorProbability,
    threshold: Fraction,
    confidence: Fraction,
    draws: int,
    units: int,
) -> bool:
    """Whether even ``draws`` failures out of ``draws`` can reject q <= threshold at (1 - confidence) / units
    (EVIDENCE.md section 5, with one candidate per unit): threshold ** draws <= level."""
    level = (1 - confidence) / units
    if draws > 10_000 or threshold**draws <= level:
        return True
    least, chance = draws, threshold**draws
    while chance > level and least < 10_000:
        least, chance = least + 1, chance * threshold
    jointly = f" for {units} examples jointly" if units > 1 else ""
    message = (
        f"{draws} draws that all fail do not reach {values.show(confidence * 100)} %{jointly}; at least {least} do"
    )
    power, bound = float(threshold**draws), float(level)
    note = f"{values.show(threshold)} to the power of {draws} is {power:.3g}, above {bound:.3g}"
    world.report("TM411", message, node.draws or node, notes=(note,))
    return False


def external(world: World, node: ast.ExternalUnits) -> str | None:
    """The reason why distances are in units from outside."""
    reason = node.reason.value.strip()
    if not reason:
        world.report("TM221", "a reason is needed here: who hands in these numbers, and in which unit", node.reason)
    return reason or None


def assumption(world: World, env: Env, node: ast.Assume) -> Assumption | None:
    """What the threat takes for granted, with its evidence or the state of its review."""
    if node.kind == "evidence":
        file = values.artifact(world, node.file.path, node.file.sha256) if node.file else None
        return Assumption(node.text.value, file) if file else None
    if node.kind != "reviewed":
        return Assumption(node.text.value)
    counts = [values.whole(world, env, v, least=0, what="a count") for v in (node.reviewed, node.total) if v]
    if None in counts or len(counts) != 2:
        return None
    done, total = cast("list[int]", counts)
    if done > total:
        world.report("TM213", f"{done} of {total} is more than all", node)
        return None
    return Assumption(node.text.value, None, (done, total))
