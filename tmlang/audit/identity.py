"""What the files of a bundle say of the run, against each other: ``run.json``, the plan, the rows and the statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.units import stage_label
from tmlang.diagnostics.stop import stop
from tmlang.plan.ir import Plan
from tmlang.plan.lock import artifacts
from tmlang.plan.text import claim_identity, plan_hash

Json = Mapping[str, Any]
_RUN = frozenset({"artifacts", "batch_size", "code", "examples", "libraries", "lock", "models", "plan", "tmlang"})


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
    if not isinstance(run["artifacts"], dict) or not (lock is None or isinstance(lock, str)):
        return "`artifacts` are hashes by path, and `lock` a hash or null"
    return None


def identity_faults(plan: Plan, run: Json, predicate: Any, told: Json) -> Iterator[str]:
    """Where plan, run, statement and told claims speak of different runs. ``lock``: what the run was held to."""
    own = plan_hash(plan)
    if run["plan"] != own:
        yield "run.json names another plan"
    if run["lock"] not in (None, own):
        yield "run.json tells of a lock, and the plan is not what that lock fixed"
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
        yield f"the statement says something else than the files: {', '.join(differs) or 'it is no object'}"


def example_faults(plan: Plan, run: Json, rows: Sequence[Record]) -> Iterator[str]:
    """The rows are of exactly the examples that the data gave, in that order: one that is left out changes every
    share, whatever ``take:`` says."""
    if run["examples"].keys() != {e.name for e in plan.evaluations}:
        yield "run.json lists the examples of other evaluations than the plan's"
    for evaluation in plan.evaluations:
        given = run["examples"].get(evaluation.name, [])
        if len(set(given)) < len(given):
            yield f"{evaluation.name}: run.json lists an example twice"
        own = (r for r in rows if r.evaluation == evaluation.name)
        counted = list(dict.fromkeys(r.example for r in own if stage_label(evaluation, r) == CLEAN_STAGE))
        if sorted(counted) != sorted(set(given)):
            odd = sorted(set(given) ^ set(counted))
            of = f"{len(counted)} examples, and the data gave {len(given)}"
            yield f"{evaluation.name}: there are rows of {of}: `{odd[0]}` is in one alone"
        elif counted != given:
            at = next(i for i, (a, b) in enumerate(zip(counted, given, strict=False)) if a != b)
            yield f"{evaluation.name}: the examples stand in another order than in the data, from `{given[at]}` on"
