"""Bounds of outputs against what the object gives: at the originals when they are proved, and again in an audit."""

from __future__ import annotations

import numpy as np
import torch

from tmlang.audit.outputs import OutputBounds
from tmlang.backends.asserted import Asserted
from tmlang.backends.contract import Job, Verdicts
from tmlang.execute.evaluator import Evaluator, reference_arithmetic


def beyond(bounds: OutputBounds, gap: float, scores: np.ndarray, label: int) -> int | None:
    """A class whose score (K,) at an input of the set lies outside its bounds by more than the gap, or nearer to the
    label's than was proved, if there is one."""
    outside = ~((scores >= bounds.lower - gap) & (scores <= bounds.upper + gap))
    if bounds.margins is not None:
        outside |= ~(scores[label] - scores >= bounds.margins - gap)
    return int(np.argmax(outside)) if bool(outside.any()) else None


def bounded_classes(evaluator: Evaluator) -> tuple[str, ...]:
    """The classes whose outputs are bounded: those of the model, in a property as well."""
    asked = evaluator.deployed
    return asked.classes if isinstance(asked, Asserted) else evaluator.decision.model.classes


def scores_of(evaluator: Evaluator, x: np.ndarray) -> np.ndarray:
    """(N, K) float64 scores (what the property speaks of, in one) of inputs (N, *shape) under the reference
    evaluator."""
    asked, inputs = evaluator.deployed, torch.from_numpy(x)
    if isinstance(asked, Asserted):
        with reference_arithmetic():
            outputs = torch.cat([asked.raw(row) for row in torch.split(inputs, 1)])
    else:
        outputs = evaluator.outputs(inputs)
    scores: np.ndarray = outputs[:, : len(bounded_classes(evaluator))].double().numpy()
    return scores


def disbelief(verdicts: Verdicts, job: Job, evaluator: Evaluator) -> str | None:
    """Why the bounds of outputs that an adapter gives cannot be believed, if so."""
    told = verdicts.outputs
    if not told:
        return None
    if len(told) != len(job.x):
        return f"it bounds the outputs of {len(told)} of {len(job.x)} units"
    classes = bounded_classes(evaluator)
    wrong = [fault for b in told if b is not None and (fault := b.fault(len(classes))) is not None]
    return wrong[0] if wrong else _contradicted(verdicts, job, evaluator)


def _contradicted(verdicts: Verdicts, job: Job, evaluator: Evaluator) -> str | None:
    """The first original of its set whose scores lie elsewhere; nothing can be said of float scores without a gap."""
    x, told = job.x.numpy(), verdicts.outputs
    inside = job.sets.inside(x)
    at = [i for i, own in enumerate(told) if inside[i] and own is not None and verdicts.gap_of(i) is not None]
    if not at:
        return None
    for i, scores in zip(at, scores_of(evaluator, x[at]), strict=True):
        bounds, gap = told[i], verdicts.gap_of(i)
        if bounds is not None and gap is not None and (k := beyond(bounds, gap, scores, int(job.y[i]))) is not None:
            return (
                f"output {bounded_classes(evaluator)[k]} of an original lies outside the bounds that were proved of it"
            )
    return None
