"""Evidence has a direction: what stages can prove, and which numbers compare (LANGUAGE.md section 7).

A witness proves R <= …, a bound R >= …, a complete method both; an estimate says nothing about R.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal, cast

from tmlang.base.frozen import dataclass
from tmlang.meaning.evaluations import OF_DRAWS, OF_POPULATIONS, Measured
from tmlang.meaning.threats import Shift, Threat
from tmlang.semantics.builtins import QuantityRow
from tmlang.semantics.evaluations import KnownEvaluation
from tmlang.semantics.scope import World
from tmlang.semantics.values import show
from tmlang.syntax import ast

Op = Literal["<=", ">=", "<", ">", "==", "rounds_to", "holds"]

_UPPER, _LOWER, _BOTH = frozenset({"<=", "<"}), frozenset({">=", ">"}), frozenset({"==", "rounds_to"})


@dataclass(frozen=True, slots=True)
class Side:
    """A measured quantity with what is known of it."""

    meaning: Measured
    row: QuantityRow
    known: KnownEvaluation
    node: ast.Call


def mirrored(op: str | None) -> Op:
    """The comparison as the right side sees it."""
    return cast(Op, {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}.get(op or "", op))


def differs(left: Side, right: Side) -> str | None:
    """In what two quantities speak of different things; the model may differ, and the access for the same suite."""
    a, b = left.known.subject.meaning, right.known.subject.meaning
    here, there = left.known.meaning.name, right.known.meaning.name
    points = [{k: v for k, v in side.meaning.args if k not in ("attack", "baseline")} for side in (left, right)]
    if points[0] != points[1]:
        return f"{here} and {there} are taken at different points"
    if type(a) is not type(b):
        return f"{here} and {there} are of different kinds"
    if left.row.everywhere and right.row.everywhere:
        same = isinstance(a, Threat | Shift) and isinstance(b, Threat | Shift) and a.data == b.data
        return None if same else f"{here} and {there} have different examples"
    if not isinstance(a, Threat) or not isinstance(b, Threat):
        return None if replace(a, name="", model="") == replace(b, name="", model="") else f"{here} and {there} differ"
    names = {
        "data": "have different examples",
        "minimize": "measure different distances",
        "mutable": "move different parts",
        "goal": "have different goals",
        "clean_errors": "treat clean errors differently",
        "rejected": "treat rejections differently",
        "success": "count successes differently",
        "perturbation": "differ in what one perturbation is for",
        "nature": "draw from different worlds",
    }
    if a.allow != b.allow:
        return _radii(here, there, a, b)
    return next(
        (f"{here} and {there} {why}" for field, why in names.items() if getattr(a, field) != getattr(b, field)), None
    )


def _radii(here: str, there: str, a: Threat, b: Threat) -> str:
    one, other = getattr(a.allow, "radius", None), getattr(b.allow, "radius", None)
    if isinstance(one, Fraction) and isinstance(other, Fraction) and one != other:
        return f"{there} allows {show(other)} and {here} {show(one)}"
    return f"{here} and {there} allow different sets"


def supported(world: World, side: Side, op: Op) -> bool:
    """Whether the stages of an evaluation can prove a claim in this direction."""
    roles, quantity = side.known.roles, side.meaning.quantity
    complete = bool(roles & {"decide_exactly", "enumerate"})
    lower, upper = complete or "certify" in roles, complete or "attack" in roles
    at, name = side.node.path, side.known.meaning.name
    if quantity in ("certified", "certificate_coverage") and not lower:
        help = "add certify: …, or claim the survival"
        world.report("TM602", f"no stage of {name} can certify anything; attacks only give upper bounds", at, help=help)
        return False
    if quantity in ("survival", "attack_coverage", "attack_success", "median_distance") and not upper:
        world.report("TM619", f"no stage of {name} searches for failures", at, help="add attack: … or enumerate: …")
        return False
    if quantity not in ("robust_accuracy", "robust_rate"):
        return True
    if op in _LOWER | _BOTH and not lower:
        help = "write survival, or add a certificate"
        message = f"the attacks of {name} prove that {quantity} is at most their survival, and no lower bound"
        world.report("TM601", message, at, help=help)
        return False
    if op in _UPPER | _BOTH and not upper:
        help = "add attack: …, or claim certified"
        world.report("TM614", f"the certificates of {name} prove lower bounds, and no upper one", at, help=help)
        return False
    return True


def of_draws(side: Side) -> bool:
    """Whether the quantity is a share of single draws, which a claim judges by its interval."""
    subject = side.known.subject.meaning
    single = isinstance(subject, Threat) and subject.success is not None and subject.success.kind == "single_draw"
    return single and side.meaning.quantity in OF_DRAWS


def sampled(world: World, node: ast.Claim, left: Side) -> bool:
    """A claim about the population is of a share of examples that were drawn from it (EVIDENCE.md section 8)."""
    subject, examples = left.known.subject.meaning, left.known.subject.data
    at, name = node.population, left.meaning.quantity
    assert at is not None
    if of_draws(left):
        return True  # what was drawn is the sample
    if examples is None:
        world.report("TM612", "a property has no examples, and speaks of no population", at)
        return False
    made = examples.meaning
    if made.population is None:
        message = f"{made.name} was chosen, not drawn: nothing follows for the population"
        help = 'take: sample 500 seed 0, or sampling: "…" in the data declaration'
        world.report("TM612", message, at, help=help)
        return False
    reason = None
    if name not in OF_POPULATIONS:
        reason = f"{name} is no share of all examples, and has no interval for the population"
    elif isinstance(node.right, ast.Call):
        reason = "two evaluations of the same examples are compared, and an interval is for one"
    elif not isinstance(subject, Threat) or subject.clean_errors != "fail":
        reason = f"the interval is defined where clean errors count as failures, and {subject.name} leaves them out"
    elif subject.goal.kind == "each":
        reason = f"{subject.name} counts several targets for each example, and these are not drawn one by one"
    if reason is not None:
        world.report("TM623", reason, at, help="leave `population` out: the claim is then about the examples")
    return reason is None
