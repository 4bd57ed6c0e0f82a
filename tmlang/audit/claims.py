"""What follows for a claim: supported, refuted or undecided, on which records (LANGUAGE.md section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tmlang.audit.columns import Extent
from tmlang.audit.record import Record
from tmlang.meaning.evaluations import Claim
from tmlang.plan.ir import Plan

ClaimStatus = Literal["supported", "refuted", "undecided", "not_evaluated"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """``[low, high]`` is the range of the claimed quantity (``None`` where it is undefined or not measured).

    ``rests_on``: the stages whose records it was read from. ``reason`` says in one sentence why.
    """

    claim: Claim
    status: ClaimStatus
    low: Extent | None
    high: Extent | None
    reason: str
    rests_on: tuple[str, ...] = ()


def judge(claim: Claim, plan: Plan, records: Sequence[Record]) -> Judgement:
    """Judge one claim of ``plan`` from the records of the run."""
    raise NotImplementedError


def judge_plan(plan: Plan, records: Sequence[Record]) -> tuple[Judgement, ...]:
    """Every claim of the plan, in order."""
    raise NotImplementedError


def exit_code(judgements: Sequence[Judgement], *, complete: bool, contradicted: bool) -> int:
    """0 all claims supported, 3 some refuted, 4 some undecided or not evaluated, 5 the run is incomplete or a
    certificate was contradicted."""
    raise NotImplementedError
