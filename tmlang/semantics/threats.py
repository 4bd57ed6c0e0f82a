"""Threats, properties and shifts: who may do what to which examples, and what counts as a failure (section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tmlang.base.frozen import dataclass
from tmlang.meaning.threats import (
    Assumption,
    Nature,
    Subject,
    Threat,
    transforms,
)
from tmlang.semantics import access, allowed, clauses, data, judging, models, mutable, nature, normalized
from tmlang.semantics.clauses import read
from tmlang.semantics.data import KnownData
from tmlang.semantics.models import KnownModel
from tmlang.semantics.scope import Bound, Entry, Env, World
from tmlang.semantics.spaces import doc
from tmlang.syntax import ast

NEEDED = {
    "mutable": "which part the attacker may move (all, features, a mask)",
    "goal": "any wrong class (untargeted) or a stated one (targeted …)",
    "access": "what the attacker sees (white_box, scores, decisions, transfer from […], nothing)",
    "clean_errors": "whether inputs that were wrong before count as failures (fail) or leave (excluded)",
}


@dataclass(frozen=True, slots=True)
class KnownSubject:
    """A checked threat, property or shift, with the model it is about."""

    meaning: Subject
    model: KnownModel
    data: KnownData | None
    branches: tuple[str, ...] = ()


def threat_of(world: World, entry: Entry, bound: Mapping[str, Bound], name: str, at: ast.Name) -> KnownSubject | None:
    """The instance of a threat with its parameters bound; ``name`` is what the instance is called in the program."""
    key = (entry, tuple(bound.items()))
    return world.once(key, at, lambda: _threat(world, entry, Env(entry.file, bound), name))


def _threat(world: World, entry: Entry, env: Env, name: str) -> KnownSubject | None:
    node = cast(ast.Threat, entry.node)
    known = models.model(world, env, node.model)
    examples = data.data(world, env, node.data)
    if known is not None and examples is not None:
        data.check_against(world, examples, known, node.data)
    env = env.about(known)
    found = clauses.once_each(world, node)
    complete = _complete(world, node, found, known)
    parts = _Parts(world, env, node, found, known, examples)
    made = parts.threat(name, world) if complete and known and examples else None
    if made is None or known is None:
        return None
    if examples is not None and isinstance(made, Threat):
        normalized.check(world, node, made, known, examples)
    names = tuple(allowed.branches(cast(ast.Allowed, found["allow"].value))) if "allow" in found else ()
    return KnownSubject(made, known, examples, names)


def _complete(world: World, node: ast.Threat, found: dict[str, ast.Clause], known: KnownModel | None) -> bool:
    """Every clause that decides something stands, and none that has nothing to decide."""
    ok = True
    if "allow" not in found and "minimize" not in found:
        needed = {"allow": "which inputs the attacker may hand in (or minimize: for the nearest one)"}
        ok = clauses.require(world, "TM401", node.name, found, needed)
    elif "allow" in found and "minimize" in found:
        message = "a threat with a radius allows, one without minimizes: it cannot do both"
        world.report("TM410", message, found["minimize"].word)
        ok = False
    ok = clauses.require(world, "TM401", node.name, found, NEEDED) and ok
    if known is None:
        return ok
    return _fits_model(world, node, found, known) and ok


def _fits_model(world: World, node: ast.Threat, found: dict[str, ast.Clause], known: KnownModel) -> bool:
    """``rejected:`` iff the model rejects, ``success:`` iff something is drawn."""
    ok = True
    name, text = known.meaning.name, world.text_of(node)
    if known.rejects and "rejected" not in found:
        what = "whether a rejection is a failure (fail), none (safe) or its own column (denied)"
        world.report("TM402", f"{name} may reject, and {node.name.text} does not say rejected: {what}", node.name)
        ok = False
    if not known.rejects and "rejected" in found:
        clauses.without(
            world, "TM403", found["rejected"], f"{name} never rejects: rejected: has nothing to count", text=text
        )
        ok = False
    drawn = known.is_random or "nature" in found
    if drawn and "success" not in found:
        who = name if known.is_random else "nature"
        help = "success: error_probability > 1/2 at 99 % on 500 fresh draws"
        world.report(
            "TM405", f"{who} draws, and {node.name.text} does not say success: what is a failure", node.name, help=help
        )
        ok = False
    if not drawn and "success" in found:
        clauses.without(
            world, "TM404", found["success"], f"{name} never draws: success: is for random models", text=text
        )
        ok = False
    return ok


class _Parts:
    """The clauses of one threat, each evaluated once; a refused one is ``None``."""

    def __init__(
        self,
        world: World,
        env: Env,
        node: ast.Threat,
        found: dict[str, ast.Clause],
        known: KnownModel | None,
        examples: KnownData | None,
    ) -> None:
        self.node, self.found, self.known, self.examples = node, found, known, examples
        space = known.space if known else None
        units = examples.exact if examples else None
        part = self.mutable = read(found, "mutable", lambda v: mutable.mutable(world, env, v, space))
        self.allow = read(found, "allow", lambda v: allowed.allowed(world, env, v, part))
        self.minimize = read(found, "minimize", lambda v: allowed.minimized(world, env, v, part))
        self.goal = read(found, "goal", lambda v: judging.goal(world, env, v, known, examples))
        self.access = read(found, "access", lambda v: access.access(world, env, v))
        clean = found.get("clean_errors")
        self.clean_errors = judging.clean_errors(world, cast(ast.Name, clean.value)) if clean else None
        self.rejected = read(found, "rejected", lambda v: judging.rejected(world, env, v, self.goal, part))
        self.nature = read(found, "nature", lambda v: self._nature(world, env, v))
        self.success = read(found, "success", lambda v: judging.success(world, env, v, self.nature, units))
        self.fitted = read(found, "perturbation", lambda v: self._fitted(world, env, v))
        self.units = read(found, "units", lambda v: judging.external(world, v))
        self.assumptions = [judging.assumption(world, env, cast(ast.Assume, c.value)) for c in node.all("assume")]

    def _nature(self, world: World, env: Env, node: ast.Nature) -> Nature | None:
        clause = self.found.get("allow")
        return nature.nature(world, env, node, self.allow, clause.value if clause else None)

    def _fitted(self, world: World, env: Env, node: ast.Perturbation) -> str | None:
        """The data that a universal perturbation is fitted on: not those that judge it."""
        if node.fitted_on is None:
            return None
        on = data.data(world, env, node.fitted_on)
        if on is None:
            return None
        if self.examples is not None and on.meaning.name == self.examples.meaning.name:
            message = f"the perturbation is fitted on {node.fitted_on.text}, and judged on the same examples"
            world.report("TM412", message, node.fitted_on, help="name other data, or write: perturbation: per example")
            return None
        if self.known is not None:
            data.check_against(world, on, self.known, node.fitted_on)
        return on.meaning.name

    def threat(self, name: str, world: World) -> Threat | None:
        """The whole, if nothing was refused."""
        _place_said(world, self)
        _one_reading(world, self)
        _calibration_apart(world, self)
        written = ("mutable", "goal", "access", "clean_errors", "rejected", "success", "nature", "allow", "minimize")
        if any(getattr(self, word) is None for word in written if word in self.found) or None in self.assumptions:
            return None
        universal = "perturbation" in self.found and cast(ast.Perturbation, self.found["perturbation"].value).fitted_on
        if universal and self.fitted is None:
            return None
        assert self.known, "checked by the caller"
        assert self.examples, "checked by the caller"
        if not (self.mutable and self.goal and self.access and self.clean_errors):
            return None
        return Threat(
            name,
            self.known.meaning.name,
            self.examples.meaning.name,
            self.allow,
            self.minimize[:2] if self.minimize else None,
            self.mutable,
            self.goal,
            self.access,
            self.clean_errors,
            self.rejected,
            self.success,
            "universal" if universal else "per_example",
            self.fitted,
            self.nature,
            tuple(cast("list[Assumption]", self.assumptions)),
            self.minimize[2] if self.minimize else None,
            self.units,
            doc(self.node),
            self.node.name.span,
        )


def _place_said(world: World, parts: _Parts) -> None:
    """A patch has a place: at any, at one, or where nature puts it."""
    clause = parts.found.get("allow")
    node = clause.value if clause else None
    if not isinstance(node, ast.Patch) or node.at is not None or parts.allow is None:
        return
    if parts.nature is None or "place" not in {p[0] for p in parts.nature.parts}:
        world.report(
            "TM226",
            "nothing says where the patch lies",
            node,
            help="at any place, at (row, column), or nature: { place … }",
        )


def _one_reading(world: World, parts: _Parts) -> None:
    """A mask and a transform, and masks of single examples and one perturbation for all, do not say what is allowed."""
    if parts.mutable is None or "mutable" not in parts.found:
        return
    node = parts.found["mutable"].value
    if parts.mutable.kind != "all" and transforms(parts.allow):
        world.report(
            "TM420",
            "a transform moves the whole picture, and a part of it is frozen",
            node,
            notes=(
                "one reading: the pictures that happen to equal the original wherever it is frozen",
                "another: what is mutable is cut out of the moved picture and pasted into the original",
            ),
            help="mutable: all; how much changes can be bounded: transform { … } … and pixels_changed <= 40 in px",
        )
    if parts.mutable.per_example and parts.fitted is not None and parts.examples is not None:
        message = f"the masks are those of {parts.examples.meaning.name}, and {parts.fitted} has none to be fitted with"
        help = 'one mask for all examples: mutable: mask("mask.npz"), or perturbation: per example'
        world.report("TM421", message, node, help=help)


def _calibration_apart(world: World, parts: _Parts) -> None:
    """A rejection threshold is not calibrated on the examples that judge it."""
    if parts.known is None or parts.examples is None:
        return
    for r in parts.known.meaning.reject:
        if r.calibrated_on == parts.examples.meaning.name:
            message = f"{parts.known.meaning.name} is calibrated on {r.calibrated_on}, which also judges it"
            world.report("TM412", message, parts.node.data)
