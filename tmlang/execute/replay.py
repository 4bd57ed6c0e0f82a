"""The saved inputs of a bundle, given again to the model that was attacked: ``tmc audit --model`` and ``tmc replay``.

The files that the plan names lie under another root than in the run; each must have the hash that the run recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tmlang.audit.bundle import Bundle
from tmlang.audit.identity import checked_run
from tmlang.audit.record import CLEAN_STAGE, Record, reason
from tmlang.audit.remeasure import as_values
from tmlang.backends.decision import why
from tmlang.diagnostics.stop import Stop
from tmlang.execute.arena import Arena, make_arena
from tmlang.execute.enclosed import beyond, bounded_classes, scores_of
from tmlang.execute.machine import OF_THE_MACHINE
from tmlang.execute.world import World
from tmlang.meaning.threats import Ball, branch_names
from tmlang.plan.lock import frozen


@dataclass(frozen=True, slots=True)
class Again:
    """One saved input: ``row`` as recorded, and the ``decision`` that the model takes now (−1: rejected, below: none).
    ``start`` and ``point``: original and changed input (*shape) in the space's values; ``margin``: at the latter."""

    row: Record
    decision: int
    start: np.ndarray
    point: np.ndarray
    margin: float | None = None

    @property
    def agrees(self) -> bool:
        if self.row.decision is not None:
            return self.decision == self.row.decision
        return why(self.decision) == reason(self.row.message)


@dataclass
class Replayed:
    """``faults``: what the model does not do as recorded. ``inputs`` and ``clean``: how many decisions were repeated.
    ``unchecked``: evaluations that one decision says nothing about, and why."""

    faults: list[str] = field(default_factory=list)
    inputs: int = 0
    clean: int = 0
    unchecked: list[str] = field(default_factory=list)


def world_of(bundle: Bundle, root: Path, *, trust_code: bool) -> World:
    """The models and data of a bundle's plan from the files under ``root``.

    Raises a ``Stop`` with TM7 diagnostics where a file is missing or is not the one that the run read.
    """
    run = checked_run(bundle.json("run.json"))
    plan = frozen(bundle.plan(), run["artifacts"])
    world = World(replace(plan, root=str(root)), trust_code=trust_code)
    world.verify()
    return world


def replay_all(bundle: Bundle, world: World) -> Replayed:
    """Every clean decision and every saved input, against what the records say; and the data's ids and labels."""
    found = Replayed()
    run, rows = bundle.json("run.json"), bundle.records()
    for evaluation in world.plan.evaluations:
        own = [r for r in rows if r.evaluation == evaluation.name]
        arena = _arena(world, evaluation.name)
        found.faults += [f"{evaluation.name}: {fault}" for fault in _data_faults(arena, own)]
        found.faults += [f"{evaluation.name}, {fault}" for fault in _left_out(bundle, arena, own)]
        if arena.confirmation is not None and _same_noise(arena, run):
            drawn = [r for r in own if r.outcomes is not None]
            found.faults += [f"{evaluation.name}, {fault}" for fault in _draw_faults(bundle, arena, drawn)]
            found.inputs += sum(r.candidate is not None for r in drawn)
            found.clean += len(arena.units)
            continue
        if (why := _not_one_decision(arena)) is not None:
            found.unchecked.append(f"the decisions of {evaluation.name}: {why}")
            continue
        saved = list(_replayed(bundle, arena, own))
        found.inputs += len(saved)
        for again in saved:
            found.faults += [f"{evaluation.name}, {again.row.unit}: {fault}" for fault in _faults(again, arena)]
        found.faults += [f"{evaluation.name}, {fault}" for fault in _output_faults(bundle, arena, own, saved)]
        found.clean += len(arena.units)
    found.faults += list(_object_faults(world, run))
    return found


def replay_example(bundle: Bundle, world: World, example: str) -> Iterator[Again]:
    """The saved inputs of one example, decided again, in the order of the records."""
    rows = bundle.records()
    for evaluation in world.plan.evaluations:
        own = [r for r in rows if r.evaluation == evaluation.name and r.example == example]
        if any(r.candidate for r in own):
            yield from _replayed(bundle, _arena(world, evaluation.name), own)


def _arena(world: World, name: str) -> Arena:
    arena, found = make_arena(next(e for e in world.plan.evaluations if e.name == name), world)
    if arena is None:
        raise Stop(*found)
    return arena


def _not_one_decision(arena: Arena) -> str | None:
    random = arena.attacked.model.random.kind == "per_request"
    if random or arena.confirmation is not None or arena.attacked.model.decide.rule == "most_likely":
        return "they are drawn, and not repeated by one pass"
    return None


def _is_shift(arena: Arena) -> bool:
    return any(s.role == "corrupt" for s in arena.evaluation.stages)


def _same_noise(arena: Arena, run: Mapping[str, Any]) -> bool:
    """Whether fresh draws can be made again: those of nature anywhere, an object's own by the same arithmetic."""
    model = arena.attacked.model
    told = run["models"].get(model.name, {})
    return model.random.kind != "per_request" or told == arena.attacked.evaluator.identity()


def _draw_faults(bundle: Bundle, arena: Arena, rows: Sequence[Record]) -> Iterator[str]:
    """Fresh draws of originals and of saved inputs that come out otherwise now."""
    judge, at = arena.confirmed(), {u.id: i for i, u in enumerate(arena.units)}
    for row in rows:
        here = at.get(row.unit)
        if here is None:
            continue
        if row.candidate is None:
            trial = arena.units[here].trial if row.stage.rpartition("/")[2] == CLEAN_STAGE else None
        else:
            stored, original, indices = bundle.candidate(row.candidate)
            start, point = (as_values(arena.sets.space, a, indices=indices) for a in (original, stored))
            if not np.array_equal(arena.x[here].numpy(), start):
                yield f"{row.unit}: the original beside the input of {row.stage} is not that of the data"
            trial = judge.trial(here, torch.from_numpy(point))
        if trial is None:
            continue
        outcomes = "".join("01"[failed] for failed in trial.outcomes)
        if (row.outcomes, row.draw_seed) != (outcomes, trial.seed):
            yield f"{row.unit}: {row.errors} draws of {row.stage} are told to fail, and {trial.errors} do, or others"


def _left_out(bundle: Bundle, arena: Arena, rows: Sequence[Record]) -> Iterator[str]:
    """Units that a universal change is told not to be offered for, and that it moves: one in a ball is left out only
    where the ends of the unit's own range hold it back in every coordinate."""
    if arena.threat.perturbation != "universal" or not isinstance(arena.threat.allow, Ball):
        return
    at = {u.id: i for i, u in enumerate(arena.units)}
    changes: dict[tuple[str, int], np.ndarray] = {}
    for row in rows:
        if row.candidate is not None and row.status == "valid" and (row.stage, row.repeat) not in changes:
            stored, original, indices = bundle.candidate(row.candidate)
            start, point = (as_values(arena.sets.space, a, indices=indices) for a in (original, stored))
            changes[row.stage, row.repeat] = (point.astype(np.float64) - start.astype(np.float64)).reshape(-1)
    for row in rows:
        change = changes.get((row.stage, row.repeat))
        if change is None or row.status != "none" or row.unit not in at:
            continue
        own = arena.sets.rows([at[row.unit]])
        x, lower, upper = (a.reshape(-1).astype(np.float64) for a in (own.originals, own.lower, own.upper))
        told = np.abs(change) > 4 * np.spacing(np.abs(x).astype(arena.sets.domain.grid))
        if (told & np.where(change > 0, x < upper, x > lower)).any():
            yield f"{row.unit}: {row.stage} tells of nothing offered, and the one change of all examples moves it"


def _replayed(bundle: Bundle, arena: Arena, rows: Sequence[Record]) -> Iterator[Again]:
    for row in rows:
        if row.candidate is None or row.status == "invalid":
            continue
        stored, original, indices = bundle.candidate(row.candidate)
        start, point = (as_values(arena.sets.space, a, indices=indices) for a in (original, stored))
        evaluator, x = arena.attacked.evaluator, torch.from_numpy(point[None])
        _, (margin,) = evaluator.judged(x, torch.tensor([row.label]))
        yield Again(row, int(evaluator.decide(x)[0]), start, point, margin)


def _data_faults(arena: Arena, rows: Sequence[Record]) -> Iterator[str]:
    """The units that data, goal and model give, against the clean rows."""
    clean = {r.unit: r for r in rows if r.stage.rpartition("/")[2] == CLEAN_STAGE}
    if [u.id for u in arena.units] != list(clean):
        yield "the data gives other examples, or in another order, than there are rows of"
    for unit in arena.units:
        row = clean.get(unit.id)
        if row is None:
            continue
        if (row.label, row.target) != (unit.label, unit.target):
            yield f"{unit.id}: recorded with label {row.label} and target {row.target}, and the data says {unit.label}"
        if row.clean != unit.clean:
            yield f"{unit.id}: recorded as {row.clean} before any change, and the model makes it {unit.clean}"
        if row.clean_decision is None and reason(row.message) != why(unit.decision):
            yield f"{unit.id}: recorded before any change: {row.message}; and now: {why(unit.decision) or 'decided'}"
        if not _alike(row.margin, unit.margin):
            yield f"{unit.id}: recorded with the margin {row.margin} before any change, and it is {unit.margin}"


def _faults(again: Again, arena: Arena) -> Iterator[str]:
    row = again.row
    if not again.agrees and row.status != "unstable":
        yield f"the input of {row.stage} was decided {row.decision}, and the model decides {again.decision}"
    searched = row.verdict is None and not _is_shift(arena)  # proofs and shifts tell no margin of an input
    if searched and row.status != "unstable" and not _alike(row.margin, again.margin):
        yield f"the input of {row.stage} was given the margin {row.margin}, and it is {again.margin}"
    here = next((i for i, u in enumerate(arena.units) if u.id == row.unit), None)
    if here is not None and not np.array_equal(arena.x[here].numpy(), again.start):
        yield f"the original beside the input of {row.stage} is not that of the data"


def _alike(told: float | None, found: float | None) -> bool:
    """Margins up to the rounding of another processor."""
    if told is None or found is None:
        return told is found
    return abs(told - found) <= 1e-4 * (1 + abs(found))


def _output_faults(bundle: Bundle, arena: Arena, rows: Sequence[Record], saved: Sequence[Again]) -> Iterator[str]:
    """Bounds of outputs that the model's scores leave: of the original, or of a saved input, in the set or branch that
    they are about."""
    at = {u.id: i for i, u in enumerate(arena.units)}
    points = {unit: [arena.x[i].numpy()] for unit, i in at.items()}
    for again in saved:
        if again.row.unit in points:
            points[again.row.unit].append(again.point)
    for row in rows:
        if row.outputs is None or row.gap is None or row.unit not in points:
            continue
        x = _within(arena, at[row.unit], row, np.stack(points[row.unit]))
        if not len(x):
            continue
        bounds = bundle.outputs(row.outputs)
        scores = scores_of(arena.attacked.evaluator, x)
        outside = [k for own in scores if (k := beyond(bounds, row.gap, own, row.label)) is not None]
        if outside:
            name = bounded_classes(arena.attacked.evaluator)[outside[0]]
            yield f"{row.unit}: output {name} of an input of the set lies outside the bounds that {row.stage} proved"


def _within(arena: Arena, unit: int, row: Record, x: np.ndarray) -> np.ndarray:
    """Those of ``x`` (n, *shape) in the set that a proof is about: one branch of a union. The row of a counterexample
    names the branches of this input instead, so there only what lies in every branch is sure to lie in that one."""
    held = arena.sets.rows([unit] * len(x)).inside_branches(x)
    names = branch_names(arena.threat.allow)
    return x[held[names.index(row.branch)] if row.branch in names and row.verdict != "broken" else held.all(axis=0)]


def _object_faults(world: World, run: Mapping[str, Any]) -> Iterator[str]:
    """The objects, and what is a fact of them whatever the machine is."""
    for name, attacked in world.loaded().items():
        told, now = run["models"].get(name, {}), attacked.evaluator.identity()
        if told.get("object") != now["object"]:
            yield f"{name} is not the model that was attacked: its weights and steps have another hash"
        for fact in now.keys() - {"object", *OF_THE_MACHINE}:
            if told.get(fact) != now[fact]:
                yield f"{name} is told to be evaluated with {fact} {told.get(fact)}, and is with {now[fact]}"
        if run["code"].get(name) != dict(attacked.facts):
            yield f"{name} is told to be made of other files and code than it is"
    if odd := sorted({*run["models"], *run["code"]} ^ {*world.loaded()}):
        yield f"run.json tells of other models than were attacked: {odd[0]}"
