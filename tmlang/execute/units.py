"""The units of a threat: examples, or (example, target) pairs, with their clean status (EVIDENCE.md section 1)."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from tmlang.audit.record import REJECTED, CleanStatus, CorruptionCell
from tmlang.backends.decision import NON_FINITE_FAILS, RAISED, UNSTABLE, WHY
from tmlang.backends.failure import Failure
from tmlang.base.seeds import derive
from tmlang.diagnostics.stop import stop
from tmlang.execute.confirm import Confirmation, Confirmed, Trial
from tmlang.execute.evaluator import Evaluator
from tmlang.execute.sources.data import UNUSABLE, LoadedData
from tmlang.execute.vote import Vote
from tmlang.execute.world import Attacked
from tmlang.meaning.threats import Goal, Threat


@dataclass(frozen=True)
class Unit:
    """``row``: of the loaded data. ``decision``: of the clean input, a code of ``WHY`` where there is none. ``trial``:
    the test of the clean input of a random object. ``margin``: of the label's score over the others, of a fixed one.
    ``corruption``: what a published corrupted set says of the example."""

    id: str
    example: str
    row: int
    label: int
    target: int | None
    clean: CleanStatus
    decision: int
    trial: Trial | None = None
    margin: float | None = None
    corruption: CorruptionCell | None = None

    @property
    def applicable(self) -> bool:
        """Usable label, and a target that is not the label."""
        return self.label != UNUSABLE and self.target != self.label


@dataclass(frozen=True)
class Clean:
    """What E says of the originals: ``decisions`` (N,), and per original its test where the object is random, and its
    margin where it is fixed."""

    decisions: torch.Tensor
    trials: tuple[Trial | None, ...]
    seconds: float
    margins: tuple[float | None, ...] = ()


def clean_pass(
    attacked: Attacked, data: LoadedData, confirmation: Confirmation | None, vote: Vote | None = None
) -> Clean:
    """Decide the originals; a code of ``WHY`` where a fixed object raises or its replays disagree, or where a smoothed
    one's draws cannot tell. Of a random object a clean input is wrong where the test confirms that it fails; without a
    test, where half of the draws or more do."""
    began = time.perf_counter()
    x = torch.from_numpy(data.x)
    if vote is not None:
        return Clean(vote.decide(x), (None,) * len(x), time.perf_counter() - began)
    if confirmation is None:
        evaluator = attacked.evaluator
        labels = torch.from_numpy(data.labels)
        decided, margins = _judged(evaluator, x, labels)
        for _ in range(evaluator.replays - 1):
            decided = torch.where(_judged(evaluator, x, labels)[0] == decided, decided, UNSTABLE)
        margins = tuple(m if d >= REJECTED else None for m, d in zip(margins, decided.tolist(), strict=True))
        return Clean(decided, (None,) * len(x), time.perf_counter() - began, margins)
    correct = Confirmed(Failure(torch.from_numpy(data.labels)), confirmation, x)
    trials = tuple(correct.trial(i, row) for i, row in enumerate(x))
    decided = torch.tensor([trial.decision for trial in trials], dtype=torch.int64)
    return Clean(decided, trials, time.perf_counter() - began)


def _judged(
    evaluator: Evaluator, x: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, tuple[float | None, ...]]:
    """Decisions (n,) and margins of ``x``; ``RAISED`` of an original on which the object raises an exception."""
    try:
        return evaluator.judged(x, labels)
    except Exception:
        if len(x) == 1:
            return torch.tensor([RAISED]), (None,)
        rows = [_judged(evaluator, *row) for row in zip(torch.split(x, 1), torch.split(labels, 1), strict=True)]
        return torch.cat([decided for decided, _ in rows]), tuple(m for _, margins in rows for m in margins)


def make_units(threat: Threat, attacked: Attacked, data: LoadedData, passed: Clean) -> list[Unit]:
    """The units of ``threat`` over ``data`` in order; an example's pairs stand together."""
    classes = attacked.model.classes
    targets = _targets(threat.goal, classes, attacked, data)
    units = []
    for row, (example, label, wanted) in enumerate(zip(data.ids, data.labels.tolist(), targets, strict=True)):
        decision, trial = int(passed.decisions[row]), passed.trials[row]
        margin = passed.margins[row] if passed.margins else None
        clean = _status(label, decision, trial)
        corruption = data.corruptions[row] if data.corruptions else None
        for target in wanted:
            name = example if target is None else f"{example}->{classes[target]}"
            units.append(Unit(name, example, row, label, target, clean, decision, trial, margin, corruption))
    return units


def _status(label: int, decision: int, trial: Trial | None) -> CleanStatus:
    if label == UNUSABLE or (decision in WHY and decision != NON_FINITE_FAILS):
        return "cu"
    if trial is not None and not (trial.confirmed if trial.confirmed is not None else 2 * trial.errors >= trial.draws):
        return "cc"
    if decision == REJECTED:
        return "cr"
    return "cc" if decision == label and trial is None else "cw"


def _targets(
    goal: Goal, classes: tuple[str, ...], attacked: Attacked, data: LoadedData
) -> list[tuple[int | None, ...]]:
    """Per example the targets of its units: one ``None`` when untargeted."""
    k, labels = len(classes), data.labels.tolist()
    if goal.kind == "untargeted":
        return [(None,)] * len(labels)
    if goal.kind == "class":
        assert goal.target is not None
        return [(classes.index(goal.target),)] * len(labels)
    if goal.kind == "each":
        return [tuple(c for c in range(k) if c != y) if y != UNUSABLE else (None,) for y in labels]
    if goal.kind == "next":
        return [((y + 1) % k,) if y != UNUSABLE else (None,) for y in labels]
    if goal.kind == "random":
        assert goal.seed is not None
        return [_random_target(goal.seed, i, y, k) for i, y in zip(data.ids, labels, strict=True)]
    if goal.kind == "column":
        assert goal.column is not None
        return [_named_target(v, classes, goal) for v in data.columns[goal.column]]
    return _ranked_targets(goal, attacked, torch.from_numpy(data.x), labels)


def _random_target(seed: int, example: str, label: int, k: int) -> tuple[int | None, ...]:
    """Uniform over the other classes, from the seed and the example's id alone."""
    if label == UNUSABLE:
        return (None,)
    draw = derive(seed, "target", example) % (k - 1)
    return (draw + (draw >= label),)


def _named_target(value: str, classes: tuple[str, ...], goal: Goal) -> tuple[int | None, ...]:
    if value not in classes:
        raise stop(
            "TM723",
            f'the column {goal.column} names the target "{value}", which is no class',
            notes=(f"the classes are {', '.join(classes[:12])}",),
        )
    return (classes.index(value),)


def _ranked_targets(goal: Goal, attacked: Attacked, x: torch.Tensor, labels: list[int]) -> list[tuple[int | None, ...]]:
    """``runner_up``: the greatest score beside the label's; ``least_likely``: the least. Ties: the lowest class."""
    scores = attacked.evaluator.outputs(x)[:, : len(attacked.model.classes)].clone()
    found: list[tuple[int | None, ...]] = []
    for row, label in zip(scores, labels, strict=True):
        if label == UNUSABLE or not bool(row.amax().isfinite()):
            found.append((None,))
            continue
        others = [c for c in range(len(row)) if c != label]
        best = max if goal.kind == "runner_up" else min
        wanted = best(float(row[c]) for c in others)
        found.append((next(c for c in others if float(row[c]) == wanted),))
    return found
