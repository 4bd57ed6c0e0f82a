"""Numbers along a line: survival after each attack in order, and sweeps over a parameter (EVIDENCE.md section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tmlang.audit.columns import Column
from tmlang.audit.record import Record
from tmlang.audit.tally import column, tally
from tmlang.audit.units import attack_stages
from tmlang.meaning.threats import Threat
from tmlang.plan.ir import EvaluationPlan


def after_each_attack(
    evaluation: EvaluationPlan, threat: Threat, records: Sequence[Record]
) -> tuple[tuple[str, Column], ...]:
    """Survival when the suite is cut off behind each of its attacks; first, under ``""``, before any of them.

    A prefix of a suite is a suite, so each point is a survival; the last is the headline unless a solver broke more.
    """
    stages = attack_stages(evaluation)
    if not stages:
        return ()
    points = []
    for count in range(1, len(stages) + 1):
        cut = replace(evaluation, stages=stages[:count])
        columns = tally(cut, threat, records)
        if count == 1:
            k = columns.counts
            points.append(("", column("survival", k.cc, k.cc + k.cu, k.denominator)))
        survival = columns.get("survival")
        assert survival is not None
        points.append((stages[count - 1].label, survival))
    return tuple(points)
