"""How the numbers were made, as a paragraph for a paper: stages, settings, rechecks, versions and hashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tmlang.meaning.threats import Shift
from tmlang.plan.ir import EvaluationPlan, Plan, Stage
from tmlang.plan.lock import artifacts
from tmlang.plan.passes import DROP_BROKEN
from tmlang.plan.written import written
from tmlang.report.object_words import listed

SHORT = 12
"""Digits of a hash that a paragraph shows."""

_DOES = {
    "attack": "attacked by",
    "certify": "certified by",
    "decide_exactly": "decided by",
    "enumerate": "decided by trying every allowed input with",
    "corrupt": "changed by",
}
_PRUNES = "decided by bounds on boxes of inputs, and by trying every input of the rest, with"
_COVERS = {
    "exact": "on exactly the allowed set",
    "inner": "on a part of the allowed set",
    "outer": "on a superset of the allowed set",
}
_FACTS = ("device", "dtype", "batch_size", "threads")


def protocol(plan: Plan, evaluation: EvaluationPlan, run: Mapping[str, Any]) -> str:
    """The paragraph; names stand in backquotes. ``run`` is the bundle's ``run.json``, ``plan`` with its hashes."""
    return " ".join(_sentences(plan, evaluation, run))


def _sentences(plan: Plan, evaluation: EvaluationPlan, run: Mapping[str, Any]) -> Iterator[str]:
    libraries = run["libraries"]
    stages = [_stage(s) for s in evaluation.stages]
    order = "in this order, " if len(stages) > 1 else ""
    numbered = [f"({i}) {s}" for i, s in enumerate(stages, 1)] if order else stages
    yield f"For `{evaluation.name}`, each input that was right to begin with was {order}{'; '.join(numbered)}."
    if DROP_BROKEN in evaluation.passes and order:
        yield "What one stage broke was left out of the later ones."
    if evaluation.seed is not None:
        runs = f", in {evaluation.repeats} runs whose union counts" if evaluation.repeats > 1 else ""
        yield f"All randomness follows from the seed {evaluation.seed}{runs}."
    if evaluation.stop_after is not None:
        yield f"The stages were stopped after {written(evaluation.stop_after)} s at the latest."
    subject = plan.subject(evaluation.subject)
    evaluator = run["models"].get(subject.model, {})
    facts = ", ".join(f"{name.replace('_', ' ')} {evaluator[name]}" for name in _FACTS if name in evaluator)
    if isinstance(subject, Shift):
        yield f"Decisions are those of one reference evaluator ({facts})."
    else:
        yield (
            "No library's word that an attack succeeded was taken: an input counts as a failure only if it lies in the "
            "allowed set, decided in exact arithmetic, and fails again when evaluated alone by the reference evaluator "
            f"({facts})."
        )
    if any(s.evidence == "bound" for s in evaluation.stages):
        yield (
            "A certificate is the word of its verifier; a failing input in a certified set voids every certificate of "
            "that method."
        )
    if trusted := list(dict.fromkeys(s.trusts for s in evaluation.stages if s.trusts)):
        yield (
            f"{listed(trusted)} {'hands' if len(trusted) == 1 else 'hand'} out no proof; what "
            f"{'it says' if len(trusted) == 1 else 'they say'} is told apart from what is proved."
        )
    versions = [f"{name} {version}" for name, version in libraries.items() if name != "tmlang"]
    yield f"Software: tmlang {run['tmlang']}, {listed(versions)}."
    files = [f"`{a.path}` {a.sha256[:SHORT]}" for a in artifacts(plan) if a.sha256 is not None]
    if files:
        yield f"Files, by the first {SHORT} digits of their SHA-256: {listed(files)}."


def _stage(stage: Stage) -> str:
    settings = [f"{name} = {written(value)}" for name, value in stage.arguments]
    settings += [f"through {written(stage.through)}"] if stage.through is not None else []
    inside = f" ({', '.join(settings)})" if settings else ""
    does = _PRUNES if stage.prunes else _DOES[stage.role]
    return f"{does} `{stage.backend}.{stage.method}`{inside} {_COVERS[stage.lowering]}"
