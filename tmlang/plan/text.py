"""The plan as text that machines read: canonical JSON, its hash, its schema, and the identity of a claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from tmlang.base import canonical
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.models import Data, Model
from tmlang.meaning.threats import Property, Threat
from tmlang.meaning.values import Symbol
from tmlang.plan import codec
from tmlang.plan.codec import FormError
from tmlang.plan.invariants import InvariantBroken, check_plan, declared_name
from tmlang.plan.ir import Cost, EvaluationPlan, Plan


def plan_json(plan: Plan) -> bytes:
    """Canonical JSON (``base.canonical``): keys sorted, no spaces, exact fractions, no positions and no folder."""
    return canonical.dumps(codec.encode(plan, Plan))


def plan_hash(plan: Plan) -> str:
    """SHA-256 (hex) of what the plan means: :func:`plan_json` without the hashes of source texts, so that laying a
    spec out anew changes nothing."""
    return sha256(plan_json(replace(plan, modules=()))).hexdigest()


def plan_from_json(data: bytes, *, root: str = ".") -> Plan:
    """The plan that ``data`` holds. Strict: :class:`FormError` for anything that is no :func:`plan_json`."""
    try:
        plan: Plan = codec.decode(canonical.loads(data), Plan, "plan")
        check_plan(plan, "reading")
    except (canonical.NotCanonical, InvariantBroken) as error:
        raise FormError(str(error)) from error
    except RecursionError as error:
        raise FormError("the plan is nested too deeply") from error
    return replace(plan, root=root)


def plan_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of :func:`plan_json`, made from the types."""
    return {"title": "tmlang plan", **codec.schema(Plan)}


def claim_identity(plan: Plan, claim: Claim, evaluator: Mapping[str, str] | None = None) -> str:
    """SHA-256 (hex) of the canonical JSON of :func:`claim_meaning`."""
    return sha256(canonical.dumps(claim_meaning(plan, claim, evaluator))).hexdigest()


def claim_meaning(plan: Plan, claim: Claim, evaluator: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A claim's meaning as JSON (EVIDENCE.md section 8): its comparison, the evaluations it reads with their subjects,
    models, data and spaces, and the reference ``evaluator`` (device, dtype, threads, …) where one is fixed.

    Titles, doc comments, file layout and names of modules do not matter; values, artifacts and thresholds do.
    """
    evaluations = [e for e in plan.evaluations if declared_name(e) in {m.evaluation for m in _measured(claim)}]
    part = _restricted(plan, evaluations)
    return {
        "claim": codec.encode(replace(claim, text=""), Claim),
        "plan": codec.encode(part, Plan),
        "evaluator": dict(evaluator or {}),
    }


def _measured(claim: Claim) -> list[Measured]:
    """The quantities of both sides, and the baseline of an ``mce``."""
    sides = [claim.left, *([claim.right] if isinstance(claim.right, Measured) else [])]
    baselines = [value for side in sides for key, value in side.args if key == "baseline"]
    return [*sides, *(Measured("", value.name) for value in baselines if isinstance(value, Symbol))]


def _restricted(plan: Plan, evaluations: list[EvaluationPlan]) -> Plan:
    """Only what ``evaluations`` need, without words that carry no meaning."""
    subjects = [s for s in plan.subjects if s.name in {e.subject for e in evaluations}]
    threats = [s for s in subjects if isinstance(s, Threat)]
    names = {s.model for s in subjects} | {n for t in threats for n in t.access.surrogates}
    sets = {s.data for s in subjects if not isinstance(s, Property)} | {t.fitted_on for t in threats if t.fitted_on}
    models, kept_data = _closed(plan, names, sets)
    spaces = {m.space for m in models} | {d.space for d in kept_data}
    return replace(
        plan,
        modules=(),
        spaces=tuple(replace(s, doc="") for s in plan.spaces if s.name in spaces),
        models=tuple(replace(m, doc="") for m in models),
        data=tuple(replace(d, doc="") for d in kept_data),
        subjects=tuple(replace(s, doc="") for s in subjects),
        evaluations=tuple(_bare(e) for e in evaluations),
        claims=(),
        parameters=(),
        figures=(),
        warnings=(),
    )


def _bare(evaluation: EvaluationPlan) -> EvaluationPlan:
    """Without what is worked out from the rest: estimates, explanations, rewrites."""
    stages = tuple(replace(s, cost=Cost(None, None), reasons=()) for s in evaluation.stages)
    return replace(evaluation, stages=stages, passes=(), doc="")


def _closed(plan: Plan, models: set[str], data: set[str]) -> tuple[list[Model], list[Data]]:
    """The models and data of these names and all that they rest on: members of ensembles, data that a rejection was
    calibrated on, models that chose examples or gave the labels."""
    found = [m for m in plan.models if m.name in models]
    sets = [d for d in plan.data if d.name in data]
    more = {name for m in found if m.ensemble for name in m.ensemble[0]}
    more |= {t.model for d in sets for t in d.takes if t.model} | {d.truth.model for d in sets if d.truth.model}
    beside = {r.calibrated_on for m in found for r in m.reject if r.calibrated_on}
    if more <= models and beside <= data:
        return found, sets
    return _closed(plan, models | more, data | beside)
