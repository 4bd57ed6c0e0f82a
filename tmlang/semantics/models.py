"""Models: the attacked object, from what the attacker hands in to a class (LANGUAGE.md section 4)."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from tmlang.base.frozen import dataclass
from tmlang.meaning.models import Model, RejectWhen, Step
from tmlang.meaning.spaces import Space
from tmlang.meaning.values import Quantity, Value
from tmlang.semantics import clauses, decisions, distances, flow, networks, steps, values
from tmlang.semantics.flow import Flow
from tmlang.semantics.scope import Entry, Env, World
from tmlang.semantics.spaces import doc, space
from tmlang.syntax import ast

NEEDED = {
    "network": "which function maps inputs to outputs",
    "decide": "how outputs become a class, and what a tie is",
    "random": "whether one input always gets one answer (never), or not (per request, seeded)",
}


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A checked model with what threats and claims ask of it.

    ``derived``: the flow behind each step that names its result.
    """

    meaning: Model
    space: Space
    derived: dict[str, Flow]

    @property
    def rejects(self) -> bool:
        """Whether it can abstain."""
        return self.meaning.abstains

    @property
    def is_random(self) -> bool:
        """Whether one input may get two answers, so that a failure is an event with a probability."""
        return self.meaning.random.kind == "per_request"


def model(world: World, env: Env, name: ast.Name) -> KnownModel | None:
    """The model that ``name`` stands for."""
    entry = world.find(env, name, "model")
    return model_of(world, entry) if entry else None


def model_of(world: World, entry: Entry) -> KnownModel | None:
    """The checked model of a declaration."""
    return world.once(entry, entry.node.name, lambda: _model(world, entry))


def _model(world: World, entry: Entry) -> KnownModel | None:
    node, env = cast(ast.Model, entry.node), Env(entry.file)
    where = space(world, env, node.space)
    names = classes(world, env, node.classes)
    found = clauses.once_each(world, node)
    needed = {k: v for k, v in NEEDED.items() if k != "network" or "ensemble" not in found}
    complete = clauses.require(world, "TM301", node.name, found, needed)
    before, behind, derived, last = _steps(world, env, node, where)
    nets = [n for c in node.all("network") if (n := networks.network(world, env, cast(ast.Network, c.value), last))]
    ensemble = _ensemble(world, env, found.get("ensemble"), len(nets), where)
    rejects = _rejects(world, env, found.get("reject"), names)
    decide = decisions.decide(world, env, found.get("decide"), names)
    random = decisions.randomness(world, env, found.get("random"))
    if where is None or names is None or decide is None or random is None or not complete:
        return None
    if len(nets) != len(list(node.all("network"))) or (not nets and ensemble is None):
        return None
    made = Model(
        world.names.of(entry),
        where.name,
        names,
        before,
        nets[0] if nets else networks.OF_MEMBERS,
        decide,
        random,
        rejects,
        behind,
        ensemble,
        tuple(nets[1:]),
        doc(node),
        node.name.span,
    )
    known = KnownModel(made, where, derived)
    _together(world, known, node, found)
    return known


def classes(world: World, env: Env, node: ast.ClassCount | ast.Choice) -> tuple[str, ...] | None:
    """Class names in index order."""
    if isinstance(node, ast.ClassCount):
        count = values.whole(world, env, node.count, least=2, code="TM310", what="the number of classes")
        if count is not None and count > 10**6:
            world.report("TM310", "a million classes are the most", node.count)
            return None
        return None if count is None else tuple(map(str, range(count)))
    names = [i.value if isinstance(i, ast.String) else i.text for i in node.items]
    for i, name in enumerate(names):
        if name in names[:i]:
            world.report("TM102", f"{name} stands twice in the classes", node.items[i])
            return None
    if len(names) < 2:
        world.report("TM310", "a decision needs at least two classes", node)
        return None
    return tuple(names)


def _steps(
    world: World, env: Env, node: ast.Model, where: Space | None
) -> tuple[tuple[Step, ...], tuple[Step, ...], dict[str, Flow], Flow]:
    """Steps in front of the network and behind it, the named results, and the flow that meets the network."""
    at = flow.of_space(where) if where else Flow(node.space.text)
    before: list[Step] = []
    behind: list[Step] = []
    derived: dict[str, Flow] = {}
    met = decided = False
    for clause in node.clauses:
        met |= clause.word.text == "network"
        decided |= clause.word.text == "decide"
        if clause.word.text != "step":
            continue
        if decided:
            world.report("TM314", "a step stands before the decision: behind it there is only a class", clause.word)
            continue
        written_step = cast(ast.Step, clause.value)
        written = steps.read(world, env, written_step, "behind" if met else "before")
        if written is None:
            continue
        if met:
            behind.append(written.step)
            continue
        step = _sigma_in_units(world, where if not before else None, written)
        at = flow.through(world, at, written)
        before.append(step)
        if written_step.result is not None:
            _name_result(world, env, written_step.result, derived, at)
    return tuple(before), tuple(behind), derived, at


def _name_result(world: World, env: Env, result: ast.Name, derived: dict[str, Flow], at: Flow) -> None:
    if result.text in derived or result.text in env.file.table:
        world.report("TM102", f"{result.text} is the name of something else already", result)
    else:
        derived[result.text] = at


def _sigma_in_units(world: World, where: Space | None, written: steps.Written) -> Step:
    """A ``noise`` step with its spread in the units of the space (pairs per feature, or one number); behind other steps
    (``where`` is ``None``) numbers have lost their unit."""
    step = written.step
    if step.name != "noise":
        return step
    node, sigma = written.nodes["sigma"], written.get("sigma")
    if where is None:
        parts = dict(cast("tuple[tuple[str, Value], ...]", sigma)).values() if steps.is_pairs(sigma) else [sigma]
        if any(isinstance(p, Quantity) for p in parts):
            world.report(
                "TM206", "behind other steps numbers have no unit: draw noise first, or leave the unit out", node
            )
        return step
    if steps.is_pairs(sigma):
        pairs = cast("tuple[tuple[str, Fraction | Quantity], ...]", sigma)
        names = {i.name.text: i for i in node.items if i.name} if isinstance(node, ast.Tuple) else {}
        converted = [(n, distances.of_feature(world, where, n, v, names.get(n, node))) for n, v in pairs]
        args = tuple((k, tuple(converted) if k == "sigma" else v) for k, v in step.args)
    else:
        got, cells = cast("Fraction | Quantity", sigma), range(len(where.cells))
        amount = distances.common(world, where, cells, got, node, node, "spread")
        args = tuple((k, amount if k == "sigma" else v) for k, v in step.args)
    return Step(step.name, args, step.result, step.differentiable, step.random, step.origin)


def _ensemble(
    world: World, env: Env, clause: ast.Clause | None, networks_here: int, where: Space | None
) -> tuple[tuple[str, ...], str] | None:
    if clause is None:
        return None
    node = cast(ast.Ensemble, clause.value)
    rule = values.word(world, node.rule, ("mean", "majority"), "way to join networks")
    of = values.word(world, node.of, ("logits", "probabilities", "classes"), "kind of output")
    members = [m for name in node.members if (m := model(world, env, name))]
    if not node.members and networks_here < 2:
        world.report("TM317", "an ensemble has several network: clauses, or names its members", clause.word)
        return None
    if rule is None or of is None or len(members) != len(node.members):
        return None
    for name, member in zip(node.members, members, strict=True):
        if where is not None and member.space.name != where.name:
            world.report("TM317", f"{name.text} takes {member.space.name}, and the ensemble {where.name}", name)
            return None
    return tuple(m.meaning.name for m in members), f"{rule} of {of}"


def _rejects(
    world: World, env: Env, clause: ast.Clause | None, names: tuple[str, ...] | None
) -> tuple[RejectWhen, ...]:
    if clause is None:
        return ()
    made = [decisions.reject_when(world, env, c, names) for c in cast(ast.Reject, clause.value).conditions]
    return tuple(r for r in made if r is not None)


def _together(world: World, known: KnownModel, node: ast.Model, found: dict[str, ast.Clause]) -> None:
    """What only shows when all clauses are known."""
    made = known.meaning
    decisions.check_rejects(
        world, made, cast("ast.Reject | None", found["reject"].value if "reject" in found else None)
    )
    decisions.check_randomness(world, made, found["random"], found["decide"])
    decisions.check_outputs(world, made, found)
    if len(list(node.all("network"))) > 1 and made.ensemble is None:
        world.report(
            "TM317", "several networks need ensemble: to say how they are joined", list(node.all("network"))[1].word
        )
