"""A threat model in plain English, clause by clause, from what it means (the paragraph of a good paper).

Names stand in backquotes; the page sets them apart, and LaTeX turns them into ``\\texttt``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from tmlang.meaning.held import stored_as
from tmlang.meaning.models import Data, Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import (
    Access,
    Allowed,
    Anything,
    Assumption,
    Ball,
    Both,
    Either,
    Goal,
    Mutable,
    Patch,
    Property,
    Shift,
    Subject,
    Success,
    Threat,
    Transform,
    transforms,
    without_pictures,
)
from tmlang.plan.written import changes, number, transform_parts, written
from tmlang.report.object_words import data_words, listed, object_words, share, sign, unit_of


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_Named)


class Declared(Protocol):
    """What a checked program and a plan have in common."""

    @property
    def spaces(self) -> tuple[Space, ...]: ...
    @property
    def models(self) -> tuple[Model, ...]: ...
    @property
    def data(self) -> tuple[Data, ...]: ...


@dataclass(frozen=True, slots=True)
class Sentence:
    """``topic`` heads a row of the table "what was allowed"; ``text`` is a full sentence of the paragraph."""

    topic: str
    text: str


METHODS = {"wilson": "Wilson", "clopper_pearson": "Clopper-Pearson"}
"""Way of making an interval -> its name."""


def sentences(declared: Declared, subject: Subject) -> tuple[Sentence, ...]:
    """What a threat, property or shift says, in the order of its quantifiers."""
    model = _named(declared.models, subject.model)
    space = _named(declared.spaces, model.space)
    if isinstance(subject, Property):
        return tuple(_property(subject, model, space))
    data = _named(declared.data, subject.data)
    if isinstance(subject, Shift):
        return tuple(_shift(subject, model, space, data))
    return tuple(_threat(subject, model, space, data))


def paragraph(declared: Declared, subject: Subject) -> str:
    """The sentences as one paragraph."""
    return " ".join(s.text for s in sentences(declared, subject))


def _named(things: Sequence[NamedT], name: str) -> NamedT:
    return next(t for t in things if t.name == name)


def _threat(threat: Threat, model: Model, space: Space, data: Data) -> Iterator[Sentence]:
    yield Sentence("attacked object", object_words(model, space))
    yield Sentence("data", data_words(data))
    where = f" Distances are measured in `{space.name}`, before any step of the object." if model.steps else ""
    yield Sentence("allowed inputs", _allowed_sentence(threat, space) + where)
    yield Sentence("what may move", _mutable(threat.mutable, threat.allow, space))
    yield Sentence("chosen", _chosen(threat))
    if threat.nature is not None:
        yield Sentence("chance", _nature(threat))
    yield Sentence("failure", _failure(threat, model))
    if threat.success is not None:
        yield Sentence("counted when", _success(threat.success))
    yield Sentence("attacker knows", _access(threat.access))
    yield Sentence("counted over", _base(threat))
    if threat.units is not None:
        yield Sentence("units", f"Distances are in external units, the spec says: “{threat.units}”.")
    for assumption in threat.assumptions:
        yield Sentence("assumed", _assumption(assumption))


def _assumption(a: Assumption) -> str:
    if a.reviewed is not None:
        basis = f"after a review of {a.reviewed[0]} of {a.reviewed[1]}"
    else:
        basis = f"on the evidence of `{a.evidence.path}`" if a.evidence else "without review"
    return f"It is assumed, {basis}: “{a.text}”."


def _property(subject: Property, model: Model, space: Space) -> Iterator[Sentence]:
    yield Sentence("attacked object", object_words(model, space))
    limits = [f"`{f}` {sign(op)} {number(v)}{unit_of(space, f)}" for f, op, v in subject.given]
    inputs = f"every input with {listed(limits)}" if limits else "every input of the space"
    yield Sentence("given", f"The property speaks of {inputs}; features that are not named range over the whole space.")
    relations = [_output(name, op, written(v) if v is not None else "") for name, op, v in subject.always]
    yield Sentence("always", f"For each of them, {listed(relations, 'or')}.")
    if subject.empty is not None:
        yield Sentence(
            "verdict",
            f"It is vacuous: no {stored_as(space)} obeys the bounds of `{subject.empty}`, so there is no such input. "
            "To a solver that reads the bounds alike the answer is `unsat`, which says nothing of the object.",
        )
        return
    yield Sentence(
        "verdict", "It holds, is violated by an input that was found, or stays undecided; there are no labels."
    )


def _output(name: str, op: str, value: str) -> str:
    words = {"is_min": "is the least output", "is_not_min": "is not the least output"}
    words |= {"is_max": "is the greatest output", "is_not_max": "is not the greatest output"}
    return f"`{name}` {words[op]}" if op in words else f"`{name}` {sign(op)} {value}"


def _shift(subject: Shift, model: Model, space: Space, data: Data) -> Iterator[Sentence]:
    yield Sentence("attacked object", object_words(model, space))
    yield Sentence("data", data_words(data))
    once = "changed once by" if len(subject.apply) == 1 else f"changed {len(subject.apply)} times, once by each of"
    change = f"Each input is {once} `{changes(subject.apply)}`, drawn from a seed of its own"
    yield Sentence("change", f"{change}; nobody chooses the worst change.")
    name = METHODS[subject.interval]
    of = "none is named: as if the examples were drawn at random" if data.population is None else data.population
    counted = f"The share of right answers is an average, with a {name} interval at {share(subject.confidence)}"
    yield Sentence("counted", f"{counted} for the population ({of}).")


# The set -------------------------------------------------------------------------------------------------------------


def _allowed_sentence(threat: Threat, space: Space) -> str:
    also = f", and which obeys the {len(space.relations)} relations of the space" if space.relations else ""
    if threat.allow is None:
        assert threat.minimize is not None
        metric = f" `{threat.minimize_metric}`" if threat.minimize_metric else ""
        norm = _norm_words(threat.minimize[0]) + metric
        return f"There is no limit: the attacker looks for the nearest input that fails, by {norm}{also}."
    what = allowed_words(threat.allow, space)
    if threat.nature is not None and "place" in {part for part, *_ in threat.nature.parts}:
        what = what.replace("at any place", "where the world puts it")
    return f"The attacker may hand in any input of the space for which {what}{also}."


def allowed_words(allow: Allowed, space: Space) -> str:
    """A condition on the change, to stand behind "for which"."""
    if isinstance(allow, Ball):
        return _ball(allow, space)
    if isinstance(allow, Both):
        return listed([allowed_words(p, space) for p in allow.parts])
    if isinstance(allow, Either):
        names = allow.names or ("",) * len(allow.parts)
        parts = [
            f"({name or i}) {allowed_words(p, space)}"
            for i, (name, p) in enumerate(zip(names, allow.parts, strict=True), 1)
        ]
        return "at least one of these holds: " + "; ".join(parts)
    if isinstance(allow, Patch):
        what = "disc" if allow.shape == "disc" else "rectangle"
        size = f"{allow.height} pixels across" if what == "disc" else f"of {allow.height} × {allow.width} pixels"
        place = f"at row {allow.at[0]}, column {allow.at[1]}" if allow.at else "at any place"
        return f"all changed pixels lie under one {what} {size} {place}"
    if isinstance(allow, Transform):
        parts = [
            f"{name} by at most {written(most)}" + (f" in steps of {written(step)}" if step else "")
            for name, most, step in transform_parts(allow)
        ]
        between = f"{allow.interpolate} interpolation, {number(allow.fill)} beyond the edge"
        return f"the picture is the original after {listed(parts)}, in this order ({between})"
    assert isinstance(allow, Anything)
    return "no limit is set"


def _norm_words(norm: str) -> str:
    return {
        "linf": "the largest change of any coordinate",
        "l2": "the Euclidean length of the change",
        "l2_rms": "the root mean square of the change over all coordinates",
        "l1": "the sum of all changes",
        "l0": "the number of changed coordinates",
        "pixels_changed": "the number of changed pixels",
        "metric": "the weighted change",
    }[norm]


def _ball(ball: Ball, space: Space) -> str:
    tolerance = f" (a tolerance of {number(ball.tolerance)} is part of the set)" if ball.tolerance else ""
    if ball.per is not None:
        limits = [f"`{n}` by at most {number(r)}{unit_of(space, n)}" for n, r in ball.radii]
        of = "channel" if ball.per == "channel" else "feature"
        return f"each {of} moves only so far: {listed(limits)}{tolerance}"
    assert ball.radius is not None
    radius = radius_words(ball, space)
    if ball.norm == "linf":
        return f"no coordinate differs from the original by more than {radius}{tolerance}"
    if ball.norm == "metric":
        metric = next(m for m in space.metrics if m.name == ball.metric)
        weights = ", ".join(f"{number(w)} × `{n}`" for n, w in metric.weights)
        return f"the weighted change `{ball.metric}` ({weights}) is at most {radius}{tolerance}"
    return f"{_norm_words(ball.norm)} is at most {radius}{tolerance}"


def radius_words(ball: Ball, space: Space) -> str:
    """``8/255``, ``4 levels (4/255)``, ``2 degC``."""
    assert ball.radius is not None
    if ball.unit == "levels":
        step = space.cells[0].step or Fraction(1)
        in_units = f" ({number(ball.radius)})" if step != 1 else ""
        return f"{number(ball.radius / step)} levels{in_units}"
    return number(ball.radius) + (f" {ball.unit}" if ball.unit else "")


def _mutable(mutable: Mutable, allow: Allowed | None, space: Space) -> str:
    patch = _patch_of(allow)
    if mutable.kind == "all" and patch is not None:
        where = "wherever it lies" if patch.at is None else f"at row {patch.at[0]}, column {patch.at[1]}"
        return f"Only what lies under the patch may change, {where}."
    if mutable.kind == "all":
        return f"All {space.size} coordinates may change."
    if mutable.kind == "mask":
        each = ", one per example" if mutable.per_example else ""
        return f"Only what the mask `{mutable.file.path if mutable.file else ''}` marks may change{each}."
    if mutable.kind == "features":
        ways = {"any": "", "up": " (up only)", "down": " (down only)"}
        what = listed([f"`{n}`{ways[d]}" for n, d in mutable.names])
    else:
        what = f"{mutable.kind} " + ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in mutable.ranges)
    return f"Everything except {what} may change." if mutable.except_ else f"Only {what} may change."


def _patch_of(allow: Allowed | None) -> Patch | None:
    """The patch outside which nothing may change, if there is one."""
    if isinstance(allow, Both):
        return next((found for part in allow.parts if (found := _patch_of(part)) is not None), None)
    return allow if isinstance(allow, Patch) else None


def _chosen(threat: Threat) -> str:
    if threat.perturbation == "universal":
        made, changed = transforms(threat.allow), without_pictures(threat.allow) is not None
        what = "One vector of parameters" if made and not changed else "One change"
        what += ", or one vector of parameters," if made and changed else ""
        return f"{what} is chosen once, on `{threat.fitted_on}`, and is then the same for every example."
    return "The change is chosen for each example on its own."


def _nature(threat: Threat) -> str:
    assert threat.nature is not None
    parts = [
        f"{name} uniform in [{number(a)}, {number(b)}]{f' {unit}' if unit else ''}"
        for name, a, b, unit in threat.nature.parts
    ]
    of = "patch" if isinstance(threat.allow, Patch) else "picture"
    text = f"The world, and not the attacker, then draws {listed(parts)} of the {of}, {threat.nature.draws} times"
    if threat.nature.interpolate is not None:
        text += f"; between pixels stands their {threat.nature.interpolate} interpolation"
    if threat.nature.fill is not None:
        text += f", and {number(threat.nature.fill)} beyond the edge"
    return text + "."


# Failure, access, counting -------------------------------------------------------------------------------------------


def _failure(threat: Threat, model: Model) -> str:
    text = _goal(threat.goal, model)
    if threat.rejected is None:
        return text
    rejected = {
        "fail": "A rejection counts as a failure.",
        "safe": "A rejection is no failure.",
        "denied": "A rejection is no failure here; it has its own column, as a denial of service.",
        "fail_within": "",
    }[threat.rejected.kind]
    if threat.rejected.within is not None:
        near = threat.rejected.within
        reach = number(near.radius) if near.radius is not None else "the stated radii"
        rejected = f"A rejection counts as a failure within {near.norm} {reach} of the original, and not beyond."
    return f"{text} {rejected}"


def _goal(goal: Goal, model: Model) -> str:
    rules = {
        "runner_up": "the class that comes second on the original",
        "least_likely": "the class that comes last on the original",
        "next": "the class after the label",
        "random": f"a class drawn with seed {goal.seed}",
        "column": f"the class in the column `{goal.column}`",
    }
    if goal.kind == "untargeted":
        return f"An input fails when `{model.name}` decides anything else than the label."
    if goal.kind == "class":
        return f"An input fails when `{model.name}` decides `{goal.target}`."
    if goal.kind == "each":
        how = {
            "any": "an example is broken when any other class is reached, which is the untargeted number",
            "all": "an example is broken when every other class is reached",
            "apart": "every pair of example and target counts on its own",
        }[goal.each or "apart"]
        return f"Each class but the label is a target in turn; {how}."
    return f"An input fails when `{model.name}` decides its target, {rules[goal.kind]}."


def _success(success: Success) -> str:
    if success.kind == "error_probability":
        return (
            f"An input counts when its error probability exceeds {number(success.threshold or Fraction(0))}, tested at "
            f"{share(success.confidence or Fraction(0))} on {success.draws} fresh draws."
        )
    return (
        f"What counts is the share of single draws that fail, judged on {success.draws} fresh draws: an estimate, and "
        "no worst case."
    )


def _access(access: Access) -> str:
    level = {
        "white_box": "The attacker knows the whole object, gradients included",
        "scores": "The attacker sees scores only",
        "decisions": "The attacker sees decisions only",
        "transfer": f"The attacker has other models ({', '.join(f'`{s}`' for s in access.surrogates)})",
        "nothing": "The attacker sees nothing of the object",
    }[access.level]
    detail = [f"the best {access.top}"] if access.top else []
    detail += [f"rounded to {access.rounded} digits"] if access.rounded is not None else []
    text = level + (f" ({', '.join(detail)})" if detail else "")
    per = "attack" if access.queries_per == "attack" else "example"
    text += f", with at most {access.queries} queries per {per}" if access.queries is not None else ""
    text += ", with no limit on queries" if access.queries is None and access.level in ("scores", "decisions") else ""
    text += f", with randomness {access.randomness}" if access.randomness else ""
    text += {"independent": ", requests being independent", "share_state": ", requests sharing state", None: ""}[
        access.requests
    ]
    unaware = (
        f" The attacker does not know of {listed([f'`{u}`' for u in access.unaware_of])}." if access.unaware_of else ""
    )
    return text + "." + unaware


def _base(threat: Threat) -> str:
    if threat.clean_errors == "fail":
        return "Every example counts; one that is wrong already counts as failed."
    return "Only examples that are right to begin with count; clean errors are left out."
