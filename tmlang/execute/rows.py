"""From what happened to a unit to its records. Statuses and failures are decided here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tmlang.audit.record import CLEAN_STAGE, REJECTED, CorruptionCell, Record
from tmlang.backends.decision import why
from tmlang.backends.recheck import Facts
from tmlang.execute.confirm import Trial
from tmlang.execute.units import Unit
from tmlang.meaning.threats import Threat

TIMEOUT = "timeout"
"""The message by which an adapter says that the deadline cut a unit off."""


@dataclass(frozen=True)
class Effort:
    """What a unit cost in one stage."""

    queries: int = 0
    forwards: int = 0
    gradients: int = 0
    zero_gradients: int = 0
    seconds: float = 0.0
    seed: int | None = None
    progressed: bool | None = None


def _base(evaluation: str, stage: str, unit: Unit) -> Record:
    return Record(
        evaluation=evaluation,
        stage=stage,
        unit=unit.id,
        example=unit.example,
        label=unit.label,
        target=unit.target,
        clean=unit.clean,
        clean_decision=unit.decision if unit.decision >= REJECTED else None,
        status="none",
        **_corrupted(unit.corruption),
    )


def _corrupted(by: CorruptionCell | None) -> dict[str, Any]:
    """``by`` as columns."""
    return {} if by is None else dict(zip(("corruption", "severity"), by, strict=True))


def clean_row(
    evaluation: str,
    unit: Unit,
    threat: Threat,
    *,
    broken_rule: str | None,
    reviewed: bool | None,
    seconds: float,
    asserts: bool = False,
) -> Record:
    """The unit's own row. ``broken_rule``: what an exempt original breaks of its own set. ``asserts``: an original that
    fails is itself a witness."""
    failed = unit.clean in ("cw", "cr")
    witness = asserts and unit.clean == "cw" and broken_rule is None
    row = replace(
        _base(evaluation, CLEAN_STAGE, unit),
        status="valid" if witness else "none",
        observed_failure=True if witness else None,
        decision=unit.decision if unit.decision >= REJECTED else None,
        rejected=unit.decision == REJECTED,
        within_scope=broken_rule is None,
        rule=broken_rule,
        counted_failure=failed and threat.clean_errors == "fail" if unit.applicable else None,
        label_reviewed=reviewed,
        margin=unit.margin,
        seconds=seconds,
        message=why(unit.decision),
    )
    return drawn(row, unit.trial) if unit.trial else row


def drawn(row: Record, trial: Trial) -> Record:
    """``row`` with the fresh draws of its input."""
    told = "".join("01"[failed] for failed in trial.outcomes)
    return replace(row, draws=trial.draws, errors=trial.errors, outcomes=told, draw_seed=trial.seed)


def estimated(row: Record) -> Record:
    """``row`` of a candidate without a test behind its draws: their share is an estimate, so no failure of any kind is
    told."""
    return replace(row, observed_failure=None, counted_failure=None)


def attack_row(
    evaluation: str,
    stage: str,
    unit: Unit,
    repeat: int,
    facts: Facts,
    effort: Effort,
    *,
    within_access: bool,
) -> Record:
    """One row of a search from the rechecked ``facts``.

    ``observed_failure`` is null outside the set and for units that were not clean and correct: only what is newly
    induced by an allowed change is a failure of the attacked object. ``counted_failure`` is what the policy counts:
    a new failure within the declared access.
    """
    inside = facts.status == "valid"
    observed = facts.fails if inside and unit.clean == "cc" else None
    scoped = {"valid": True, "invalid": False}.get(facts.status)
    timed_out = facts.status == "error" and facts.message == TIMEOUT
    return replace(
        _base(evaluation, stage, unit),
        repeat=repeat,
        status="timeout" if timed_out else facts.status,
        message=None if timed_out else facts.message,
        decision=facts.decision,
        rule=facts.rule,
        branch=facts.branch,
        within_scope=scoped,
        within_access=within_access if facts.x is not None else None,
        changed_correct=None if facts.decision is None else unit.clean == "cc" and facts.decision != unit.label,
        observed_failure=observed,
        counted_failure=bool(observed) and within_access if facts.x is not None else None,
        rejected=facts.rejected,
        linf=facts.linf,
        l2=facts.l2,
        l1=facts.l1,
        l0=facts.l0,
        distance=facts.distance,
        projected=facts.projected,
        queries=effort.queries,
        forwards=effort.forwards,
        gradients=effort.gradients,
        zero_gradients=effort.zero_gradients,
        progressed=effort.progressed,
        seconds=effort.seconds,
        seed=effort.seed,
    )


def shift_row(
    evaluation: str, stage: str, unit: Unit, repeat: int, facts: Facts, effort: Effort, by: CorruptionCell | None = None
) -> Record:
    """One changed input and its decision. Nobody sought it, so it is no failure of any kind: both stay null. ``by``:
    the corruption of the stage, if it has a severity."""
    known = facts.status in ("valid", "invalid")
    return replace(
        _base(evaluation, stage, unit),
        repeat=repeat,
        status=facts.status,
        message=facts.message,
        decision=facts.decision,
        rule=facts.rule,
        within_scope=facts.status == "valid" if known else None,
        changed_correct=None if facts.decision is None else unit.clean == "cc" and facts.decision != unit.label,
        rejected=facts.rejected,
        seconds=effort.seconds,
        seed=effort.seed,
        **_corrupted(by),
    )


def kept(facts: Facts, *, estimated: bool = False) -> np.ndarray | None:
    """The candidate that is worth keeping: what fails, is rejected, or could not be believed, and whatever an estimate
    rests on."""
    worth = estimated or facts.fails or facts.rejected or facts.status in ("invalid", "unstable", "error")
    return facts.x if worth else None
