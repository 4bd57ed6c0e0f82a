"""One evaluation, loaded: everything that stands before its first stage."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tmlang.audit.record import Record
from tmlang.backends.asserted import threat_of
from tmlang.backends.domain import Domain
from tmlang.backends.failure import Failure
from tmlang.backends.nature import Scene, laid, not_drawn
from tmlang.backends.threatset import ThreatSet
from tmlang.diagnostics.model import Diagnostic, has_errors
from tmlang.diagnostics.stop import stop
from tmlang.execute.confirm import Confirmation, Confirmed
from tmlang.execute.fitting import Fitting, fitting
from tmlang.execute.measured_units import probe_sizes, probe_units
from tmlang.execute.probes import probe_all, probe_range
from tmlang.execute.properties import asserted, make_box, probed_model
from tmlang.execute.rows import clean_row
from tmlang.execute.sources.data import LoadedData
from tmlang.execute.units import Unit, clean_pass, make_units
from tmlang.execute.vote import Vote
from tmlang.execute.world import Attacked, World
from tmlang.meaning.threats import Access, Anything, Goal, Mutable, Property, Shift, Subject, Threat
from tmlang.plan.ir import EvaluationPlan
from tmlang.plan.lock import Targets


@dataclass
class Arena:
    """``units`` of one evaluation and, row-aligned, their ``sets``, originals ``x``, labels ``y`` and ``target``
    (``None`` untargeted). ``reviewed``: per unit whether its label was (``None``: the truth is no review).
    ``surrogates``: the models that candidates are transferred from. ``confirmation``: how witnesses of a random object
    are confirmed. ``fitting``: what a universal perturbation is fitted on. ``asserts``: it is about a property, and an
    original that fails is a witness. ``searching`` and ``replaying`` add up the seconds of the stages and of the
    recheck."""

    evaluation: EvaluationPlan
    threat: Threat
    attacked: Attacked
    units: Sequence[Unit]
    sets: ThreatSet
    x: torch.Tensor
    y: torch.Tensor
    target: torch.Tensor | None
    reviewed: Sequence[bool] | None
    clean_seconds: float
    surrogates: tuple[Attacked, ...] = ()
    confirmation: Confirmation | None = None
    fitting: Fitting | None = None
    asserts: bool = False
    searching: float = 0.0
    replaying: float = 0.0

    @property
    def seed(self) -> int:
        """The written seed; without one 0, which the records carry."""
        return self.evaluation.seed or 0

    def confirmed(self) -> Confirmed:
        """F of a random object over all units."""
        assert self.confirmation is not None
        return Confirmed(Failure.of(self.sets, self.y, self.target), self.confirmation, self.x)

    def targets(self) -> Targets:
        """(example, class) for every unit that has a target."""
        classes = self.attacked.model.classes
        return tuple((u.example, classes[u.target]) for u in self.units if u.target is not None)

    def examples(self) -> tuple[str, ...]:
        """The ids of the examples, each once, in the order of the data."""
        return tuple(dict.fromkeys(u.example for u in self.units))

    def clean_kept(self) -> list[np.ndarray | None]:
        """Per unit the original (*shape) where its own row keeps it: one that violates a property."""
        return [self.x[i].numpy() if self.asserts and u.clean == "cw" else None for i, u in enumerate(self.units)]

    def clean_rows(self) -> list[Record]:
        """The units' own rows."""
        share = self.clean_seconds / max(1, len(self.units))
        return [
            clean_row(
                self.evaluation.name,
                unit,
                self.threat,
                broken_rule=self.sets.broken[i],
                reviewed=None if self.reviewed is None else self.reviewed[i],
                seconds=share,
                asserts=self.asserts,
            )
            for i, unit in enumerate(self.units)
        ]


def carried(subject: Subject, evaluation: EvaluationPlan) -> Threat:
    """The threat of an evaluation that can be carried, of a shift its space. Raises TM826 naming what cannot."""
    if isinstance(subject, Shift):
        return _space_of(subject)
    assert isinstance(subject, Threat)
    threat = subject
    single = threat.success is not None and threat.success.kind == "single_draw"
    denied = threat.rejected is not None and threat.rejected.kind == "denied"
    for what, present in (
        *not_drawn(threat),
        ("the nearest input that fails in a single draw", single and threat.minimize is not None),
        ("denials in single draws", single and denied),
    ):
        if present:
            raise stop("TM826", f"{evaluation.name} is about {what}, which is not run yet", evaluation.origin)
    return threat


def _space_of(shift: Shift) -> Threat:
    """Every input of the space, as a set: what nature may hand in. Nobody searches it, and nothing in it fails."""
    everything = Anything(), None, Mutable("all"), Goal("untargeted"), Access("nothing")
    return Threat(shift.name, shift.model, shift.data, *everything, clean_errors="excluded", origin=shift.origin)


def make_arena(evaluation: EvaluationPlan, world: World) -> tuple[Arena | None, list[Diagnostic]]:
    """The arena of ``evaluation`` and what the probes found; ``None`` when one of that is an error.

    Raises :class:`~tmlang.diagnostics.stop.Stop` where model, data or set cannot be made.
    """
    subject = world.plan.subject(evaluation.subject)
    if isinstance(subject, Property):
        return _property_arena(evaluation, subject, world)
    threat = carried(subject, evaluation)
    attacked, data = world.model(threat.model), world.data(threat)
    stages = evaluation.stages
    gradients = any(s.role == "attack" and s.access == "white_box" and s.through is None for s in stages)
    key = (threat.model, threat.data)
    found = world.once(("probes", *key, str(gradients)), lambda: _probed(threat, attacked, data, world, gradients))
    if has_errors(found):
        return None, found
    space = world.plan.space(attacked.model.space)
    found = [*found, *probe_units(threat, world.plan.data_set(threat.data), space, attacked.model, data.x)]
    if has_errors(found):
        return None, found
    sets = ThreatSet.build(space, laid(threat), data.x, ids=data.ids, mask=world.mask(threat, data.rows, data.total))
    confirmation = _confirmation(evaluation, threat, attacked, data, sets.domain)
    vote = Vote.of(attacked.evaluator, evaluation)
    name = evaluation.name if confirmation or vote else ""
    before = confirmation and confirmation.before(random=attacked.model.random.kind == "per_request")
    passed = world.once(("clean", *key, name), lambda: clean_pass(attacked, data, before, vote))
    units = make_units(threat, attacked, data, passed)
    arena = _aligned(evaluation, threat, attacked, units, sets, data, world, passed.seconds)
    arena.confirmation = confirmation
    arena.fitting = fitting(threat, attacked, world)
    arena.surrogates = tuple(world.model(name) for name in threat.access.surrogates)
    return arena, found


def _property_arena(
    evaluation: EvaluationPlan, subject: Property, world: World
) -> tuple[Arena | None, list[Diagnostic]]:
    if subject.empty is not None:
        return _vacuous(evaluation, subject, world)
    box, found = make_box(evaluation, subject, world)
    if box is None:
        return None, found
    x, y = torch.from_numpy(box.sets.originals), torch.tensor([box.unit.label])
    arena = Arena(evaluation, box.threat, box.attacked, [box.unit], box.sets, x, y, None, None, box.seconds)
    arena.asserts = True
    return arena, found


def _vacuous(evaluation: EvaluationPlan, subject: Property, world: World) -> tuple[Arena | None, list[Diagnostic]]:
    """No unit: the property speaks of no input, and nothing is asked. The model is probed all the same."""
    began = time.perf_counter()
    attacked, found = probed_model(subject, world)
    if has_errors(found):
        return None, found
    asked, space = asserted(attacked, subject), world.plan.space(attacked.model.space)
    sets = ThreatSet.build(space, threat_of(subject), np.empty((0, *space.shape), space.dtype), ids=())
    x, y = torch.from_numpy(sets.originals), torch.empty(0, dtype=torch.int64)
    arena = Arena(evaluation, sets.threat, asked, [], sets, x, y, None, None, time.perf_counter() - began)
    arena.asserts = True
    return arena, found


def _confirmation(
    evaluation: EvaluationPlan, threat: Threat, attacked: Attacked, data: LoadedData, domain: Domain
) -> Confirmation | None:
    """How an evaluation confirms failures of a random object. The error is shared by the clean test and one candidate
    per attack and repeat of every unit."""
    if threat.success is None:
        return None
    attacks = sum(s.role == "attack" for s in evaluation.stages) * evaluation.repeats
    targets = len(attacked.model.classes) - 1 if threat.goal.kind == "each" else 1
    family = (1 + attacks * max(1, len(threat.access.surrogates))) * len(data.ids) * targets
    return Confirmation.of(attacked.evaluator, threat, family, evaluation.seed or 0, Scene.of(threat, domain))


def _probed(threat: Threat, attacked: Attacked, data: LoadedData, world: World, gradients: bool) -> list[Diagnostic]:
    originals, declared = torch.from_numpy(data.x), world.plan.data_set(threat.data)
    world.settle(attacked, originals)
    found = probe_range(declared, world.plan.space(declared.space), data.x) + probe_sizes(declared, data.raw)
    labels = torch.from_numpy(data.labels)
    return found + probe_all(attacked.model, attacked.evaluator, originals, labels, gradients=gradients)


def _aligned(
    evaluation: EvaluationPlan,
    threat: Threat,
    attacked: Attacked,
    units: list[Unit],
    sets: ThreatSet,
    data: LoadedData,
    world: World,
    seconds: float,
) -> Arena:
    rows = np.array([u.row for u in units], dtype=np.int64)
    truth = world.plan.data_set(threat.data).truth.kind
    targeted = threat.goal.kind != "untargeted"
    # A unit without a target (no usable label) is never searched; its own label stands in.
    targets = [u.label if u.target is None else u.target for u in units]
    return Arena(
        evaluation=evaluation,
        threat=threat,
        attacked=attacked,
        units=units,
        sets=sets.rows(rows),
        x=torch.from_numpy(sets.originals[rows]),
        y=torch.tensor([u.label for u in units]),
        target=torch.tensor(targets) if targeted else None,
        reviewed=data.reviewed[rows].tolist() if truth == "reviewed" else None,
        clean_seconds=seconds,
    )
