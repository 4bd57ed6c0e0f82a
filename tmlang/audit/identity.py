"""What the files of a bundle say of the run, against each other: ``run.json``, the plan, the rows and the statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tmlang.audit.bundle import LOCK, Bundle
from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.units import stage_label
from tmlang.diagnostics.stop import stop
from tmlang.plan.ir import EvaluationPlan, Plan
from tmlang.plan.lock import Lock, Targets, artifacts, lock_from_json
from tmlang.plan.text import claim_identity, plan_hash

Json = Mapping[str, Any]
_RUN = frozenset(
    {"artifacts", "backends", "batch_size", "code", "examples", "libraries", "lock", "models", "plan", "tmlang"}
)


def checked_run(run: Any) -> Json:
    """``run.json``, its form checked; TM842 otherwise."""
    fault = _form_fault(run)
    if fault:
        raise stop("TM842", f"`run.json` is not read: {fault}")
    found: Json = run
    return found


def _form_fault(run: Any) -> str | None:
    if not isinstance(run, dict) or run.keys() != _RUN:
        return f"exactly {', '.join(sorted(_RUN))} are needed"
    examples, lock = run["examples"], run["lock"]
    if not isinstance(examples, dict) or not all(isinstance(ids, list) for ids in examples.values()):
        return "`examples` are the ids of every evaluation, in order"
    if not all(isinstance(example, str) for ids in examples.values() for example in ids):
        return "the id of an example is a text"
    if not _texts(run["artifacts"]) or not (lock is None or isinstance(lock, str)):
        return "`artifacts` are hashes by path, and `lock` a hash or null"
    if not _texts(run["libraries"]) or not isinstance(run["tmlang"], str):
        return "`libraries` are versions by name, and `tmlang` is one"
    if not _texts(run["backends"]) or not all(re.fullmatch("[0-9a-f]{64}", h) for h in run["backends"].values()):
        return "`backends` are SHA-256 by name"
    if not all(isinstance(run[k], dict) for k in ("models", "code")) or not all(map(_facts, run["models"].values())):
        return "`models` and `code` are facts by the name of a model"
    return None


_ENVIRONMENT = {
    "command": list,
    "date": str,
    "platform": str,
    "processor": str,
    "python": str,
    "timing": dict,
    "tools": dict,
}


def checked_environment(told: Any) -> Json:
    """``environment.json``, its form checked; TM842 otherwise. Its measured times are nobody's to check."""
    fault = _environment_fault(told)
    if fault:
        raise stop("TM842", f"`environment.json` is not read: {fault}")
    found: Json = told
    return found


def _environment_fault(told: Any) -> str | None:
    if not isinstance(told, dict) or told.keys() != {*_ENVIRONMENT, "unfrozen", "warnings"}:
        return f"exactly {', '.join(sorted((*_ENVIRONMENT, 'unfrozen', 'warnings')))} are needed"
    wrong = [k for k, kind in _ENVIRONMENT.items() if not isinstance(told[k], kind)]
    lists = (told["command"], told["unfrozen"], told["warnings"])
    if wrong or not all(isinstance(found, list) for found in lists) or not _texts(told["tools"]):
        return f"`{(*wrong, 'tools')[0]}` is of another kind"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", told["date"]):
        return "`date` is the day on which the run ended"
    if not all(isinstance(text, str) for text in (*told["command"], *told["unfrozen"])):
        return "a word of the command and the path of a file are texts"
    if not all(_texts(w) and w.keys() == {"code", "message"} for w in told["warnings"]):
        return "a warning has a code and a message"
    return None


def _texts(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(value, str) for value in found.values())


def _facts(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(value, (str, int, float)) for value in found.values())


def lock_of(bundle: Bundle) -> Lock | None:
    """The lock that the run was held to, if the bundle holds one; TM861 for what is none."""
    return lock_from_json(bundle.read_bytes(LOCK), LOCK) if LOCK in set(bundle.files()) else None


def lock_faults(plan: Plan, run: Json, lock: Lock | None, rows: Sequence[Record]) -> Iterator[str]:
    """Where a run is not what it tells to have been held to: plan, versions, and targets that no spec can tell."""
    if run["lock"] != (lock.sha256 if lock else None):
        yield f"run.json tells of {run['lock'] or 'no lock'}, and lock.json is {lock.sha256 if lock else 'not there'}"
    if lock is None:
        return
    if lock.sha256 != plan_hash(plan):
        yield "the plan is not what the lock fixed"
    if (lock.tmlang, dict(lock.libraries)) != (run["tmlang"], run["libraries"]):
        yield "run.json names other versions than the lock"
    for name, targets in lock.targets:
        evaluation = next((e for e in plan.evaluations if e.name == name), None)
        if evaluation is None or targets != _targets(plan, evaluation, rows):
            yield f"{name}: the targets are not those that were locked"


def _targets(plan: Plan, evaluation: EvaluationPlan, rows: Sequence[Record]) -> Targets:
    classes = plan.model(plan.subject(evaluation.subject).model).classes
    own = (r for r in rows if r.evaluation == evaluation.name and stage_label(evaluation, r) == CLEAN_STAGE)
    return tuple((r.example, classes[r.target]) for r in own if r.target is not None and r.target < len(classes))


def identity_faults(plan: Plan, run: Json, predicate: Any, told: Json) -> Iterator[str]:
    """Where plan, run, statement and told claims speak of different runs."""
    own = plan_hash(plan)
    if run["plan"] != own:
        yield "run.json names another plan"
    if run["backends"].keys() != {"tmlang", *(stage.backend for e in plan.evaluations for stage in e.stages)}:
        yield "run.json has the code of other backends than the plan asks"
    for artifact in artifacts(plan):
        if artifact.sha256 is None:
            yield f'"{artifact.path}" has no hash in the plan, and a run writes down what it read'
        elif run["artifacts"].get(artifact.path) != artifact.sha256:
            yield f'"{artifact.path}" is another file in run.json than in the plan'
    claims = [
        {"text": claim.text, "identity": claim_identity(plan, claim), "status": own_claim["status"]}
        for claim, own_claim in zip(plan.claims, told["claims"], strict=False)
    ]
    expected = {"tmlang": run["tmlang"], "plan": own, "lock": run["lock"], "claims": claims}
    if predicate != expected:
        named = predicate if isinstance(predicate, dict) else {}
        differs = sorted(k for k in {*expected, *named} if named.get(k, ...) != expected.get(k, ...))
        yield f"the statement says something else than the files: {', '.join(differs)}"


def example_faults(plan: Plan, run: Json, rows: Sequence[Record]) -> Iterator[str]:
    """The rows are of exactly the examples that the data gave, in that order: one that is left out changes every
    share, whatever ``take:`` says."""
    if run["examples"].keys() != {e.name for e in plan.evaluations}:
        yield "run.json lists the examples of other evaluations than the plan's"
    for evaluation in plan.evaluations:
        given = run["examples"].get(evaluation.name, [])
        order = list(dict.fromkeys(given))
        if len(order) < len(given):
            yield f"{evaluation.name}: run.json lists an example twice"
        own = (r for r in rows if r.evaluation == evaluation.name)
        counted = list(dict.fromkeys(r.example for r in own if stage_label(evaluation, r) == CLEAN_STAGE))
        if sorted(counted) != sorted(order):
            odd = sorted({*order} ^ {*counted})
            of = f"{len(counted)} examples, and the data gave {len(given)}"
            yield f"{evaluation.name}: there are rows of {of}: `{odd[0]}` is in one alone"
        elif counted != order:
            first = next(b for a, b in zip(counted, order, strict=True) if a != b)
            yield f"{evaluation.name}: the examples stand in another order than in the data, from `{first}` on"
