"""What a subject asks of whoever searches it: norms, features of the set, goal, object, network."""

from __future__ import annotations

from typing import Literal

from tmlang.base.frozen import dataclass
from tmlang.base.source import Span
from tmlang.diagnostics.suggest import either
from tmlang.meaning.models import Model
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Allowed, Ball, Both, Either, Goal, Property, Threat
from tmlang.plan.capability import InputForm
from tmlang.plan.written import allowed


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that is asked. ``key`` is the word of the manifests, ``words`` say it of this spec."""

    key: str
    words: str
    span: Span


def features(subject: Threat | Property, model: Model, space: Space) -> tuple[Need, ...]:
    """The features that the set (and the object's way to abstain) asks for, beside its norm."""
    found: list[Need] = []

    def ask(key: str, words: str, span: Span) -> None:
        found.append(Need(key, words, span))

    if isinstance(subject, Property):
        ask("property", f"`{subject.name}` is a property: a box of inputs and a relation of outputs", subject.origin)
        return tuple(found)
    ask("domain", f"every value stays within the range of `{space.name}`", space.origin)
    mutable = subject.mutable
    if mutable.kind != "all":
        ask("mask", "`mutable:` freezes a part of the input", mutable.origin)
    if any(direction != "any" for _, direction in mutable.names):
        ask("one_way", "a feature may move in one direction only", mutable.origin)
    for ball in balls(subject.allow):
        if ball.radii:
            ask("radii", f"the radii differ per {ball.per}", ball.origin)
        if ball.tolerance:
            ask("tolerance", "the ball has a tolerance", ball.origin)
    if any(cell.kind != "real" for cell in space.cells):
        ask("lattice", f"`{space.name}` has values on a lattice", space.origin)
    if space.relations or space.one_hot:
        ask("relations", f"`{space.name}` has relations that every input obeys", space.origin)
    if space.delivery:
        ask("delivery", f"inputs of `{space.name}` are delivered as {space.delivery.codec}", space.origin)
    if subject.perturbation == "universal":
        ask("universal", "one perturbation serves every example", subject.origin)
    if subject.nature:
        ask("nature", "the world draws as well", subject.origin)
    if rejects(model) and "reject" not in subject.access.unaware_of:
        ask("rejection", f"`{model.name}` may reject", model.origin)
    return tuple(dict.fromkeys(found))


def balls(part: Allowed | None) -> tuple[Ball, ...]:
    """Every ball of an allowed set, in the order written."""
    if isinstance(part, Ball):
        return (part,)
    if isinstance(part, (Both, Either)):
        return tuple(ball for inner in part.parts for ball in balls(inner))
    return ()


def leaf(part: Allowed, threat: Threat) -> Need:
    """What one ball, patch or transform asks: its norm."""
    span = part.origin if isinstance(part, Ball) else threat.origin
    key = part.norm if isinstance(part, Ball) else type(part).__name__.lower()
    assert isinstance(part, Ball) or key in ("patch", "transform", "anything")
    return Need(key, f"`{threat.name}` allows {allowed(part)}", span)


def rejects(model: Model) -> bool:
    """Whether the object can abstain."""
    return model.abstains


def goal(wanted: Goal) -> Literal["untargeted", "targeted"]:
    return "untargeted" if wanted.kind == "untargeted" else "targeted"


def object_kind(model: Model) -> Literal["fixed", "random", "smoothed"]:
    if model.decide.rule == "most_likely":
        return "smoothed"
    return "random" if model.random.kind == "per_request" else "fixed"


OBJECT_WORDS = {
    "fixed": "answers the same every time",
    "random": "draws anew on every request",
    "smoothed": "answers with its most likely class over all draws",
}

GRADIENTS = ("torch", "torchscript", "exported", "linear", "onnx")
"""Kinds of network that can be differentiated."""


def without_gradient(model: Model) -> tuple[str, ...]:
    """The parts of the attacked object that no gradient passes, as a spec names them."""
    blocked = [step.name for step in (*model.steps, *model.post_steps) if not step.differentiable]
    return tuple(dict.fromkeys(blocked)) + (() if model.network.kind in GRADIENTS else (model.network.kind,))


def misfits(form: InputForm, space: Space) -> tuple[str, ...]:
    """How inputs of ``space`` differ from ``form``, in words; a picture has three axes, the channels first or last."""
    found = []
    if form.bytes and not all(_is_byte(cell) for cell in space.cells):
        found.append(f"it takes bytes, `{space.name}` holds other values")
    if form.numbers and any(cell.kind == "category" for cell in space.cells):
        found.append(f"it takes numbers, `{space.name}` has a category")
    if not (form.picture or form.square or form.channels or form.min_side):
        return tuple(found)
    if len(space.shape) != 3:
        return (*found, f"it takes pictures, `{space.name}` has {len(space.shape)} axes")
    first = space.channels_first
    channels, sides = (space.shape[0], space.shape[1:]) if first else (space.shape[2], space.shape[:2])
    if form.channels and channels not in form.channels:
        found.append(f"it takes {either(map(str, form.channels))} channels, `{space.name}` has {channels}")
    if form.square and sides[0] != sides[1]:
        found.append(f"it takes square pictures, `{space.name}` is {sides[0]} by {sides[1]}")
    if min(sides) < form.min_side:
        found.append(f"it takes pictures of {form.min_side} pixels or more, `{space.name}` is {sides[0]} by {sides[1]}")
    return tuple(found)


def _is_byte(cell: Cell) -> bool:
    """256 levels, whatever they are called: ``bytes``, or ``real[0, 1] step 1/255``."""
    return cell.kind in ("lattice", "integer") and cell.step is not None and cell.high - cell.low == 255 * cell.step
