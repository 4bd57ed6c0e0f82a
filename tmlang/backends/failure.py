"""F, the failure predicate of a threat on decisions (EVIDENCE.md section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tmlang.audit.record import REJECTED
from tmlang.backends.decision import NON_FINITE_FAILS
from tmlang.meaning.threats import Rejected

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class Failure:
    """F for n units: ``labels`` (n,) int64, ``targets`` (n,) or ``None``, and what a rejection counts as.

    ``near``: the sets within which a rejection fails (``fail within …, safe beyond``). Under ``denied`` this is
    R_wrong: a rejection is no failure here and is counted in its own column.
    """

    labels: Tensor
    targets: Tensor | None = None
    rejected: Rejected | None = None
    near: ThreatSet | None = None

    @classmethod
    def of(cls, sets: ThreatSet, labels: Tensor, targets: Tensor | None) -> Failure:
        """F of the threat that ``sets`` belongs to."""
        rejected = sets.threat.rejected
        within = rejected.within if rejected else None
        return cls(labels, targets, rejected, sets.allowing(within) if within else None)

    def __call__(self, decisions: Tensor, x: Tensor) -> Tensor:
        """Where ``decisions`` (n,) on inputs ``x`` (n, *shape) fail: (n,) bool. No decision at all never fails; scores
        that are not finite do under ``non_finite fail``, for every label, and reach no target."""
        if self.targets is not None:
            return decisions == self.targets
        lost = decisions == NON_FINITE_FAILS
        if self.rejected is None or self.rejected.kind == "fail":
            return lost | ((decisions >= REJECTED) & (decisions != self.labels))
        wrong = lost | ((decisions >= 0) & (decisions != self.labels))
        if self.near is None:
            return wrong
        denied = decisions == REJECTED
        if bool(denied.any()):
            denied &= torch.from_numpy(self.near.inside(x.detach().cpu().numpy()))
        return wrong | denied

    def rows(self, at: Tensor) -> Failure:
        """F of some of the units, in that order."""
        targets = None if self.targets is None else self.targets[at]
        near = None if self.near is None else self.near.rows(at.numpy())
        return Failure(self.labels[at], targets, self.rejected, near)
