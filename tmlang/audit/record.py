"""Records: one row per unit and stage (LANGUAGE.md section 10, EVIDENCE.md sections 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CleanStatus = Literal["cc", "cw", "cr", "cu"]
"""Of a unit before any attack: correct, wrong, rejected, unknown (crash, unstable)."""

Status = Literal["none", "valid", "invalid", "error", "timeout", "crashed", "oom", "unstable"]
"""Of an attack row: no candidate offered; a candidate inside the set; outside it; the stage failed on this unit, its
time was up, its process went down, its memory was used up; replays disagree.

``valid`` says only that the candidate lies in the set and replays; whether it is a failure is ``observed_failure``.
"""

CorruptionCell = tuple[str, int]
"""A corruption and its severity."""

FAILED: frozenset[Status] = frozenset({"error", "timeout", "crashed", "oom"})
"""The stage has not finished the unit."""

UNFINISHED = FAILED | {"unstable"}
"""What leaves a unit open: nothing is known of it, neither that it survives nor that it fails."""

Verdict = Literal["certified", "broken", "unknown", "error", "timeout"]
"""Of a certifier, solver or enumeration row. ``broken`` comes with a replayed candidate; an honest ``unknown`` is
finished."""

REJECTED = -1
"""The decision of a model that abstains; classes are 0 and up. ``None`` is "no decision", and the row's ``message``
says why (:data:`UNDECIDED`)."""

UNDECIDED: dict[str, str] = {
    "unclear": "the draws are too close to name a class",
    "tied": "no decision: the scores tie, and ties are an error",
    "non_finite": "no decision: a score that decides is not finite",
    "non_finite_fails": "no class: a score that decides is not finite, which fails for every label",
    "raised": "no decision: the object raises an exception",
    "unstable": "no decision: the replays disagree",
}
"""Why there is no decision, as the ``message`` of a row tells it. Under ``non_finite fail`` this is an answer without a
class: it fails for every label, and is never a target."""

CLEAN_STAGE = "clean"

BRANCHES = " "
"""Joins the names in ``Record.branch`` (names of branches hold no space)."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row. ``stage`` is ``"clean"`` for the unit's own row, which every unit has exactly once per evaluation.

    A unit whose ``label`` is negative (unusable) or equal to its ``target`` (not applicable) has its clean row alone.
    ``unit`` is the example id, or ``<id>->class`` for an (example, target) pair. Distances are from the original, in
    the space's units, float64 within an ulp or two (``None`` without a candidate). ``seconds`` is the unit's share of
    its batch. ``queries`` counts rows forwarded for this unit in this stage up to this row, ``gradients`` rows
    back-propagated. ``candidate`` is ``<file>#<row>`` inside the bundle. ``projected`` marks the inward projection of
    an ``invalid`` failing candidate (its second row). ``margin`` is a certifier's proved margin, or the one measured at
    an original (its clean row) or a kept candidate. ``branch`` names the branch of a union that a certificate covers,
    or every branch that a candidate lies in, joined by ``BRANCHES``.
    """

    evaluation: str
    stage: str
    unit: str
    example: str
    label: int
    clean: CleanStatus
    clean_decision: int | None
    status: Status
    target: int | None = None
    repeat: int = 0
    decision: int | None = None
    rule: str | None = None
    within_scope: bool | None = None
    within_access: bool | None = None
    changed_correct: bool | None = None
    observed_failure: bool | None = None
    counted_failure: bool | None = None
    rejected: bool | None = None
    verdict: Verdict | None = None
    margin: float | None = None
    linf: float | None = None
    l2: float | None = None
    l1: float | None = None
    l0: int | None = None
    distance: float | None = None
    """In the threat's own ball norm or metric (or in the minimized norm); ``None`` under a union."""
    branch: str | None = None
    queries: int = 0
    forwards: int = 0
    gradients: int = 0
    seed: int | None = None
    seconds: float = 0.0
    candidate: str | None = None
    projected: bool = False
    message: str | None = None
    draws: int | None = None
    errors: int | None = None
    """Failing draws among ``draws`` (random objects, and what nature draws)."""
    gap: float | None = None
    """Of a certificate: what ``margin`` must exceed to hold in the evaluator's arithmetic (EVIDENCE.md section 6)."""
    gap_kind: Literal["proved", "assumed", "none"] | None = None
    radius: float | None = None
    """Of a certificate: the greatest radius it proves in the threat's own ball, rounded down (radius curves)."""
    zero_gradients: int = 0
    """Of ``gradients``: those that were zero in every coordinate."""
    progressed: bool | None = None
    """Of a search that tells: whether any of its steps came beyond the point where it began (``None``: it does not)."""
    label_reviewed: bool | None = None
    """Of a clean row: the label was reviewed (``truth: reviewed``)."""
    label_kept: bool | None = None
    """Of a witness: a reviewer judged that the label still holds for the candidate."""
    outputs: str | None = None
    """Of a certificate that bounds every output: ``<file>#<row>`` of these bounds (``audit.outputs``)."""
    outcomes: str | None = None
    """Of fresh draws, in their order: ``1`` where that one failed, ``0`` where it did not."""
    draw_seed: int | None = None
    """What the fresh draws were made from."""
    corruption: str | None = None
    """By what the original was corrupted where a published corrupted set says it; of a row of a shift, the decided
    input."""
    severity: int | None = None
    """How strongly, from 1 on; beside ``corruption``."""


def reason(message: str | None) -> str | None:
    """Which of :data:`UNDECIDED` a message tells, whatever a prover adds behind it; ``None`` for another message."""
    return next((text for text in UNDECIDED.values() if (message or "").partition("; ")[0] == text), None)
