"""Whether a search by gradients came beyond the point where it began, read from what it asks."""

from __future__ import annotations

import torch

from tmlang.backends.native.losses import margin

Tensor = torch.Tensor


class Progress:
    """For n units, from the passes that gradients were wanted of: whether any showed a greater margin of failure than
    the first. Of a search that begins several times the first beginning counts, so a better later one hides that no
    step helped. ``labels``, ``targets``: (n,)."""

    def __init__(self, labels: Tensor, targets: Tensor | None) -> None:
        self.labels, self.targets = labels, targets
        self.begun = torch.full((len(labels),), torch.inf)
        self.beyond = torch.zeros(len(labels), dtype=torch.bool)
        self.passes = torch.zeros(len(labels), dtype=torch.int64)
        self.apart, self.settled = False, False

    def see(self, scores: Tensor, units: Tensor | None) -> None:
        """The scores (m, K) of a pass over ``units`` (m,), each once; ``None``: nobody knows whose rows they are."""
        if units is None:
            self.apart = True
        if units is None or self.settled:
            return
        targets = None if self.targets is None else self.targets[units]
        value = margin(scores.detach(), self.labels[units], targets).to(self.begun.dtype)
        first = self.passes[units] == 0
        self.begun[units] = torch.where(first, value, self.begun[units])
        self.beyond[units] |= value > self.begun[units]
        self.passes[units] += 1
        self.settled = bool(self.beyond.all())

    def told(self) -> Tensor | None:
        """(n,) bool; ``None`` where it cannot be told: rows that belong to nobody, or a unit with a single pass."""
        return None if self.apart or not bool((self.passes > 1).all()) else self.beyond
