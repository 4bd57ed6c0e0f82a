"""What a search climbs: (n, K) scores, labels and targets to one number per row, greater the nearer to failing."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as nnf

from tmlang.backends.contract import BackendRefusal, Job
from tmlang.backends.oracle import Seen

Tensor = torch.Tensor
Loss = Callable[[Seen, Tensor, Tensor | None], Tensor]
"""``(what a pass showed, labels, targets or None) -> (n,)``."""


def cross_entropy(scores: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """Cross-entropy of the label, or minus that of the target."""
    if targets is None:
        return nnf.cross_entropy(scores, labels, reduction="none")
    return -nnf.cross_entropy(scores, targets, reduction="none")


def _of(scores: Tensor, classes: Tensor) -> Tensor:
    return scores.gather(1, classes[:, None])[:, 0]


def best_other(scores: Tensor, classes: Tensor) -> Tensor:
    """The greatest score of any class but ``classes``."""
    return scores.scatter(1, classes[:, None], -torch.inf).amax(dim=1)


def margin(scores: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """Best other score minus the label's (Carlini & Wagner 2017, section V, f6 without a floor), or the target's minus
    the best other."""
    if targets is None:
        return best_other(scores, labels) - _of(scores, labels)
    return _of(scores, targets) - best_other(scores, targets)


def dlr(scores: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """Difference of logits ratio (Croce & Hein 2020, equations 6 and 7): invariant to shift and scale of the logits."""
    ranked = scores.topk(3 if targets is None else 4, dim=1).values
    if targets is None:
        return margin(scores, labels, None) / (ranked[:, 0] - ranked[:, 2] + 1e-12)
    spread = ranked[:, 0] - (ranked[:, 2] + ranked[:, 3]) / 2 + 1e-12
    return (_of(scores, targets) - _of(scores, labels)) / spread


def _ranked(loss: Callable[[Tensor, Tensor, Tensor | None], Tensor]) -> Loss:
    """``loss`` on what a pass showed. A class that is masked out counts as the least of the others, so that ratios stay
    numbers; a row that is no number is the worst of all."""

    def ranked(seen: Seen, labels: Tensor, targets: Tensor | None) -> Tensor:
        scores, masked = seen.scores, seen.scores == -torch.inf
        if bool(masked.any()):
            least = scores.detach().masked_fill(masked, torch.inf).amin(dim=1, keepdim=True)
            scores = torch.where(masked, least, scores)
        return _legible(loss(scores, labels, targets))

    return ranked


def _legible(value: Tensor) -> Tensor:
    """Numbers that can be compared: NaN is no best point."""
    return torch.where(value.isnan(), -torch.inf, value) if bool(value.isnan().any()) else value


_ON_SCORES = {"ce": cross_entropy, "margin": margin, "dlr": dlr}


def reject_aware(rejection_fails: bool) -> Loss:
    """Both what is missing to a wrong class and what is missing to acceptance (the sum of the two hinges); where a
    rejection fails as well, the nearer of wrong class and rejection."""

    def loss(seen: Seen, labels: Tensor, targets: Tensor | None) -> Tensor:
        wrong = margin(seen.scores, labels, targets)
        if seen.slack is None:
            return _legible(wrong)
        if rejection_fails:
            return _legible(torch.maximum(wrong, -seen.slack))
        return _legible(wrong.clamp(max=0) + seen.slack.clamp(max=0))

    return loss


def towards_rejection(seen: Seen, labels: Tensor, targets: Tensor | None) -> Tensor:  # noqa: ARG001
    """How near a rejection is."""
    assert seen.slack is not None
    return _legible(-seen.slack)


def aims(job: Job, loss: Loss) -> tuple[Loss, ...]:
    """What the runs of a search climb, one after the other: ``loss`` towards a wrong class, and, where a rejection is a
    failure as well and the attacker knows of it, the way to a rejection, which is often another one."""
    rejected, unaware = job.threat.rejected, "reject" in job.threat.access.unaware_of
    fails = rejected is not None and rejected.kind in ("fail", "fail_within") and not unaware
    return (loss, towards_rejection) if fails and job.target is None and job.oracle.shows_slack else (loss,)


def loss_of(job: Job, name: str, *, targeted: bool | None = None) -> Loss:
    """The loss of this name for a job. Raises :class:`BackendRefusal` where it is not defined for so few classes."""
    aims = job.target is not None if targeted is None else targeted
    least = {"dlr": 4 if aims else 3}.get(name, 2)
    classes = job.oracle.classes
    if classes < least:
        raise BackendRefusal(f"the loss {name} needs {least} classes, and the model has {classes}; take ce or margin")
    if name == "reject_aware":
        rejected = job.threat.rejected
        return reject_aware(rejected is not None and rejected.kind == "fail")
    return _ranked(_ON_SCORES[name])
