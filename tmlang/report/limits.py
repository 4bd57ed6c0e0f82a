"""What does not follow, and what nobody tried: said of this run, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tmlang.audit import masking
from tmlang.audit.columns import Columns
from tmlang.audit.corruptions import published
from tmlang.audit.record import Record
from tmlang.audit.units import attack_stages, is_estimate, proof_stages
from tmlang.meaning.arithmetic import ARITHMETIC, supposing
from tmlang.meaning.models import Data, Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Shift, Subject, Threat
from tmlang.plan.arithmetic import PROVED_GAP
from tmlang.plan.ir import EvaluationPlan, Plan


def limits(plan: Plan, evaluation: EvaluationPlan, columns: Columns, records: Sequence[Record]) -> tuple[str, ...]:
    """What a reader must not conclude from the numbers of one evaluation."""
    subject = plan.subject(evaluation.subject)
    model = plan.model(subject.model)
    found = [*_evidence(evaluation, subject, plan.space(model.space), columns, records)]
    if isinstance(subject, (Threat, Shift)):
        found += _data(plan.data_set(subject.data), columns, interval=isinstance(subject, Shift))
    if isinstance(subject, Threat):
        found += _attacker(subject, evaluation.repeats)
    found += _object(model)
    return tuple(found)


def _evidence(
    evaluation: EvaluationPlan, subject: Subject, space: Space, columns: Columns, records: Sequence[Record]
) -> Iterator[str]:
    attacks = attack_stages(evaluation) if isinstance(subject, Threat) else ()
    proofs = proof_stages(evaluation)
    searched = [s for s in attacks if s.role == "attack"]
    if searched:
        count = "one attack" if len(searched) == 1 else f"{len(searched)} attacks"
        estimate = isinstance(subject, Threat) and is_estimate(subject)
        bounds = "it is an estimate, and bounds nothing" if estimate else "it bounds R from above only"
        found = f"Survival says what {count} with these budgets did not find."
        yield f"{found} Another or a longer search may break more; {bounds}."
    if isinstance(subject, Threat) and not proofs and not is_estimate(subject):
        yield "No certificate ran, so nothing bounds R from below."
    if isinstance(subject, Shift):
        yield "An average over a named change says nothing about changes that somebody chooses."
        yield from _published_strengths(evaluation, space)
        if len(columns.corrupted) > 1 and any(map(published, evaluation.stages)):
            yield (
                "The interval counts every input of the published set as an example of its own. Those of one original "
                "under several corruptions are not independent, so an interval for new originals is wider."
            )
    if untold := masking.untold(evaluation, records) if searched else ():
        yield f"Not checked ({masking.FLAT}): whether any step of {' and '.join(untold)} came beyond its start."
    if any(r.gap_kind == "proved" and r.evaluation == evaluation.name for r in records) and any(
        PROVED_GAP in s.arguments for s in proofs
    ):
        yield f"Certificates are about {ARITHMETIC}. {supposing()}"
    drawn = [s.label for s in proofs if s.evidence == "probabilistic"]
    if drawn:
        yield (
            f"{', '.join(drawn)} drew: each certificate is wrong with the stated probability. It speaks of the ideal "
            "vote over all noise, and not of a deployed vote of some draws."
        )
    yield from _arithmetic(evaluation, records)
    for s in proofs:
        if s.trusts:
            yield (
                f"{s.label} is the word of {s.trusts}, a solver in floating point that hands out no proof: it never "
                "counts as certified, and a claim that needs it is supported under an assumption."
            )
    partial = [s.label for s in evaluation.stages if s.lowering == "inner"]
    if partial:
        yield f"{', '.join(partial)} searched a part of the allowed set only."
    wider = [s.label for s in proofs if s.lowering == "outer"]
    if wider:
        yield f"{', '.join(wider)} proved about more than the allowed set: sound, and looser than it could be."
    if columns.counts.unfinished or columns.counts.certifier_failed:
        yield "Stages that did not finish leave a range and no number; the range is what is claimed about."


def _published_strengths(evaluation: EvaluationPlan, space: Space) -> Iterator[str]:
    """Of the common corruptions (Hendrycks and Dietterich, ICLR 2019): their strengths are in pixels."""
    if any(s.backend == "imagecorruptions" for s in evaluation.stages) and 224 not in space.shape:
        size = " by ".join(str(n) for n in space.shape)
        yield f"The published severities were tuned for pictures of 224 by 224 pixels; these inputs are {size}."


def _arithmetic(evaluation: EvaluationPlan, records: Sequence[Record]) -> Iterator[str]:
    """In which arithmetic the certificates hold (EVIDENCE.md section 6)."""
    kinds = {r.gap_kind for r in records if r.evaluation == evaluation.name and r.verdict == "certified"}
    if kinds & {None, "none"}:
        yield "Some certificates hold in real arithmetic: the gap to the arithmetic of the object is not bounded."
    if "assumed" in kinds:
        yield (
            "The gap between the certificates' arithmetic and the object's is assumed, and not proved: a claim that "
            "needs such certificates is supported under an assumption."
        )


def _data(data: Data, columns: Columns, *, interval: bool) -> Iterator[str]:
    units = "pairs of example and target" if columns.units == "pairs" else "examples"
    if data.population is None:
        counted = f"{columns.counts.base} {units} of {data.name}"
        yield f"The numbers speak of these {counted}, and of no population behind them."
        if interval:
            yield "The interval would hold for a population that they were drawn from; the spec names none."
    else:
        alone = "the interval alone speaks" if interval else "claims marked `population` alone speak"
        yield f"The numbers speak of {columns.counts.base} sampled {units}; {alone} of the rest ({data.population})."
    if data.truth.kind == "predicted":
        yield f"The labels are predictions of {data.truth.model}: agreement with them is not correctness."
    if data.truth.kind == "published":
        yield f"The labels are published ones; nobody reviewed them here, nor {_kept(columns)}."


def _kept(columns: Columns) -> str:
    judged = columns.get("witnesses_judged")
    if judged is None:
        return "whether they still hold after a change"
    left = judged.denominator - judged.numerator
    return f"whether they still hold for {left} of the {judged.denominator} failing inputs"


def _attacker(threat: Threat, repeats: int) -> Iterator[str]:
    access = threat.access
    if access.unaware_of:
        yield f"The attacker here does not know of {', '.join(access.unaware_of)}; whoever does may do better."
    if access.level in ("scores", "decisions", "transfer", "nothing"):
        yield "An attacker with more access than declared may do better."
    if access.randomness == "known":
        yield "The searches saw draws of their own, never those that judge: whoever knows these may do better."
    if access.requests == "share_state":
        yield "Requests share state, and what was searched keeps none: each was answered as if it were the first."
    if access.queries is not None:
        yield f"An attacker with more than {access.queries} queries may do better."
        if repeats > 1 and access.queries_per == "example":
            yield "The repeats share the queries of an example, so each searches with what those before it left."
    if threat.success is not None and threat.success.kind == "single_draw":
        yield "A single draw is an estimate: it says how often an attack works, and bounds nothing."
    if threat.nature is not None:
        yield "The world draws here, so the numbers are estimates over its draws, and no worst case."
    unreviewed = [a for a in threat.assumptions if a.reviewed is None and a.evidence is None]
    if unreviewed:
        yield "What is assumed above was not reviewed; the numbers hold only as far as it does."


def _object(model: Model) -> Iterator[str]:
    if model.network.kind == "remote":
        yield "The object is a service that was observed once; it may have changed since."
    else:
        yield (
            "Decisions are those of one reference evaluator, one input at a time; other hardware or other "
            "batches may decide differently where two outputs nearly tie."
        )


def untested(plan: Plan, evaluations: Sequence[EvaluationPlan]) -> tuple[str, ...]:
    """What none of the evaluations looked at."""
    threats = [s for e in evaluations if isinstance(s := plan.subject(e.subject), Threat)]
    found = ["changes beyond the allowed sets: other kinds, larger ones, and combinations"]
    if threats and all(t.goal.kind == "untargeted" for t in threats):
        found.append("attacks that aim at a given class (an untargeted failure may be any wrong class)")
    if threats and all(t.perturbation == "per_example" for t in threats):
        found.append("one change for all examples")
    frozen = sorted({t.name for t in threats if t.mutable.kind != "all"})
    if frozen:
        found.append(f"changes of what is frozen in {', '.join(frozen)}")
    if threats and all(t.access.level == "white_box" for t in threats):
        found.append("what an attacker with less knowledge would reach (it is at most as much)")
    used = {plan.subject(e.subject).model for e in evaluations}
    others = sorted(m.name for m in plan.models if m.name not in used)
    if others:
        found.append(f"the models {', '.join(others)}, which the spec names and no evaluation attacks")
    found.append("tampering with training data, with weights, or with the machine that runs the object")
    return tuple(found)
