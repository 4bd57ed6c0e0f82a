"""A property, loaded: one unit, the box, asked of the model as an object that holds or is violated."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from tmlang.audit.record import CleanStatus
from tmlang.backends.asserted import HOLDS, VIOLATED, Asserted, asserted_model, box_of, threat_of
from tmlang.backends.decision import Decision
from tmlang.backends.deployed import Deployed
from tmlang.backends.domain import Domain
from tmlang.backends.threatset import ThreatSet
from tmlang.diagnostics.model import Diagnostic, has_errors
from tmlang.diagnostics.stop import stop
from tmlang.execute.evaluator import Evaluator
from tmlang.execute.probes import probe_outputs, probe_randomness
from tmlang.execute.units import Unit
from tmlang.execute.world import Attacked, World
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Property, Threat
from tmlang.plan.ir import EvaluationPlan

BOX = "box"
"""The one unit of a property, and its example."""


@dataclass(frozen=True)
class Box:
    """A property ready to be run: the model as an object to attack, the set, the one unit, and the seconds it took."""

    attacked: Attacked
    threat: Threat
    sets: ThreatSet
    unit: Unit
    seconds: float


def make_box(evaluation: EvaluationPlan, subject: Property, world: World) -> tuple[Box | None, list[Diagnostic]]:
    """The box of ``subject`` around its middle, and what the probes found; ``None`` when one of that is an error.

    Where the middle itself violates the property, the unit is ``cw`` and its own row is the witness. Raises
    :class:`~tmlang.diagnostics.stop.Stop` where the model cannot be loaded, or the property cannot be run.
    """
    attacked = world.model(subject.model)
    space = world.plan.space(attacked.model.space)
    _runs(subject, attacked, space, evaluation)
    narrowed = box_of(subject, space)
    middle = _middle(narrowed)
    began = time.perf_counter()
    found = world.once(("probes", subject.name), lambda: _probed(attacked, torch.from_numpy(middle)))
    if has_errors(found):
        return None, found
    asked = asserted(attacked, subject)
    sets = ThreatSet.build(narrowed, threat_of(subject), middle, ids=(BOX,))
    decision = int(asked.evaluator.decide(torch.from_numpy(middle))[0])
    statuses: dict[int, CleanStatus] = {HOLDS: "cc", VIOLATED: "cw"}
    unit = Unit(BOX, BOX, 0, HOLDS, None, statuses.get(decision, "cu"), decision)
    return Box(asked, sets.threat, sets, unit, time.perf_counter() - began), found


def probed_model(subject: Property, world: World) -> tuple[Attacked, list[Diagnostic]]:
    """The model of a property that speaks of no input, and what its probes find in the middle of the whole space."""
    attacked = world.model(subject.model)
    middle = torch.from_numpy(_middle(world.plan.space(attacked.model.space)))
    return attacked, world.once(("probes", subject.name), lambda: _probed(attacked, middle))


def asserted(attacked: Attacked, subject: Property) -> Attacked:
    """The model as an object with the classes ``holds`` and ``violated``."""
    deployed, through = (_about(part, attacked, subject) for part in (attacked.deployed, attacked.straight_through))
    model = asserted_model(attacked.model)
    evaluator = Evaluator(deployed, Decision(model))
    evaluator.repeatable = attacked.evaluator.repeatable
    return replace(attacked, model=model, deployed=deployed, straight_through=through, evaluator=evaluator)


def _about(part: Deployed | Asserted, attacked: Attacked, subject: Property) -> Asserted:
    assert isinstance(part, Deployed)
    return Asserted(part, attacked.decision, subject)


def _runs(subject: Property, attacked: Attacked, space: Space, evaluation: EvaluationPlan) -> None:
    for what, present in (
        ("a model that is random on every request", attacked.model.random.kind == "per_request"),
        ("a space with relations between its features", bool(space.relations or space.one_hot)),
    ):
        if present:
            raise stop("TM826", f"{evaluation.name} is about {what}, and such properties are not run", subject.origin)


def _middle(box: Space) -> np.ndarray:
    """The point (1, *shape) in the middle of every coordinate, in the space's dtype and on its grid."""
    domain = Domain(box)
    values = ((domain.low.astype(np.float64) + domain.high.astype(np.float64)) / 2).astype(domain.dtype)
    values = np.clip(values, domain.low, domain.high)
    for columns, lattice, _ in domain.groups:
        if lattice is not None:
            values[columns] = lattice.value(np.full(len(columns), lattice.last // 2, np.int64))
    return values.reshape(1, *box.shape)


def _probed(attacked: Attacked, x: torch.Tensor) -> list[Diagnostic]:
    with torch.no_grad():
        raw = attacked.deployed.raw(x)
    return [*probe_outputs(attacked.model, raw), *probe_randomness(attacked.model, attacked.evaluator, x)]
