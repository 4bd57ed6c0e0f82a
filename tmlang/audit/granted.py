"""What the searches of an evaluation left unused of the access that its threat grants.

A survival is about the searches that ran. Where all of them used less than the threat grants, the number says little of
the declared attacker, and its reader is told in the same breath.
"""

from __future__ import annotations

from tmlang.meaning.threats import Threat
from tmlang.plan.capability import ACCESS
from tmlang.plan.ir import EvaluationPlan, Stage

_WORDS = {"white_box": "white box", "scores": "scores", "decisions": "decisions"}
_USED = {"nothing": "no answer of the object", "decisions": "decisions alone", "scores": "scores alone"}


def unused_grant(evaluation: EvaluationPlan, threat: Threat) -> str:
    """One sentence, or nothing: the attacks used all that is granted, none ran, or the whole set was tried."""
    attacks = [s for s in evaluation.stages if s.role == "attack"]
    granted = threat.access.level
    if not attacks or granted not in _WORDS or len(attacks) < len(evaluation.stages) - _certifiers(evaluation):
        return ""
    named = " and ".join(s.label for s in attacks)
    unused = f"no search used the {_WORDS[granted]} that {threat.name} grants"
    if all(s.backend == "native" and s.method == "replay" for s in attacks):
        return f"Only inputs that were handed in were judged ({named}); {unused}."
    most = max((s.access for s in attacks), key=ACCESS.index)
    if ACCESS.index(most) < ACCESS.index(granted):
        return f"The search by {named} used {_USED[most]}; {unused}."
    if threat.success is not None and granted == "scores" and not any(map(_averages, attacks)):
        return f"The search by {named} saw single draws of a random object, and averaged over none."
    return ""


def _certifiers(evaluation: EvaluationPlan) -> int:
    """Stages that only prove: they try no input, and leave the searches what they are."""
    return sum(s.role == "certify" for s in evaluation.stages)


def _averages(stage: Stage) -> bool:
    return stage.through is not None and stage.through.name == "expectation"
