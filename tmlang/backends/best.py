"""The best input that a search was shown of each unit: what is judged where its own draws show no failure.

Draws that judge are fresh. A search that hands in nothing because none of its own few draws failed would have every
judging draw counted as survived, though nothing was judged (EVIDENCE.md section 5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from tmlang.backends.contract import Candidates
from tmlang.backends.failure import Failure

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet

Tensor = torch.Tensor


class Best:
    """Of each of N units the input that failed in the greatest share of the draws of one pass, of equals that of the
    least margin, or, where decisions alone were seen, the last. ``always``: hand it in though no draw failed."""

    def __init__(self, originals: Tensor, failure: Failure, *, always: bool) -> None:
        self.failure, self.always = failure, always
        self.x = originals.clone()
        self.share = torch.full((len(originals),), -1.0)
        self.margin = torch.full((len(originals),), torch.inf, dtype=torch.float64)

    def unit(self, index: int) -> Best:
        """A view of one unit that keeps what it sees here."""
        at = slice(index, index + 1)
        own = object.__new__(Best)
        own.failure, own.always = self.failure.rows(torch.tensor([index])), self.always
        own.x, own.share, own.margin = self.x[at], self.share[at], self.margin[at]
        return own

    def note(self, x: Tensor, units: Tensor, share: Tensor, scores: Tensor | None) -> None:
        """Inputs ``x`` (n, *shape) of ``units`` that failed in ``share`` (n,) of their draws; ``scores`` (n, K): the
        mean of these draws. Rows of one unit may stand several times."""
        margins = torch.full((len(x),), torch.inf, dtype=torch.float64)
        if scores is not None:
            margins = self._margins(scores.detach().double(), units)
        for row, (unit, own, margin) in enumerate(zip(units.tolist(), share.tolist(), margins.tolist(), strict=True)):
            kept, before = float(self.share[unit]), float(self.margin[unit])
            if own > kept or (own == kept and (margin < before or margin == before == torch.inf)):
                self.x[unit], self.share[unit], self.margin[unit] = x[row].detach(), own, margin

    def _margins(self, scores: Tensor, units: Tensor) -> Tensor:
        """How far each row is from failing: of its label above the others, or of the others above its target."""
        target = self.failure.targets
        of = (self.failure.labels if target is None else target)[units][:, None]
        own = scores.gather(1, of)[:, 0]
        others = scores.scatter(1, of, -torch.inf).amax(dim=1)
        return (own - others if target is None else others - own).nan_to_num(nan=torch.inf)

    def or_best(self, found: Candidates, sets: ThreatSet) -> Candidates:
        """``found``, and where it has nothing to offer the best input, inside its set."""
        errors = torch.tensor([e is not None for e in found.errors], dtype=torch.bool)
        at = torch.nonzero(~found.offered & ~errors & (self.share >= 0 if self.always else self.share > 0)).flatten()
        if not len(at):
            return found
        x, offered = found.x.clone(), found.offered.clone()
        inside = sets.rows(at.numpy()).project(self.x[at].numpy()).x
        x[at], offered[at] = torch.from_numpy(inside).to(x.dtype), True
        return replace(found, x=x, offered=offered)
