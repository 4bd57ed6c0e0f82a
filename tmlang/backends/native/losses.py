"""What a search climbs: (n, K) scores, labels and targets to one number per row, greater the nearer to failing."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as nnf

from tmlang.backends.contract import BackendRefusal

Tensor = torch.Tensor
Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""``(scores, labels, targets or None) -> (n,)``."""


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


LOSSES: dict[str, Loss] = {"ce": cross_entropy, "margin": margin, "dlr": dlr}


def loss_named(name: str, classes: int, *, targeted: bool) -> Loss:
    """Raises :class:`BackendRefusal` where the loss is not defined for so few classes."""
    least = {"dlr": 4 if targeted else 3}.get(name, 2)
    if classes < least:
        raise BackendRefusal(f"the loss {name} needs {least} classes, and the model has {classes}; take ce or margin")
    return LOSSES[name]
