"""The attacker's door to a world that draws: what is handed in is seen under nature's draws (expectation over
transformation: Athalye et al., Synthesizing robust adversarial examples, ICML 2018, section 2.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from tmlang.backends.failure import Failure
from tmlang.backends.nature import Parameters, Scene
from tmlang.backends.oracle import AccessDenied, Oracle, Seen

Tensor = torch.Tensor


class DrawnOracle(Oracle):
    """``parent`` behind ``scene``, with its ledger: a row of scores is the mean over ``draws`` draws and costs as many
    rows, a decision is that of one. Draws come from each unit's own seed and from how many it has had.

    ``originals`` (N, *shape) and ``failure`` are of the units. A row that is observed is decided as failing where it
    fails in every draw, so a search goes on while it can do better; what failed in most of them is kept (``best``).
    """

    def __init__(
        self, parent: Oracle, scene: Scene, originals: Tensor, failure: Failure, seeds: Sequence[int], draws: int
    ) -> None:
        self.__dict__.update(parent.__dict__)  # its grants, and its ledger itself
        self.scene, self.originals, self.failure, self.draws = scene, originals, failure, draws
        self._seeds, self._had = tuple(seeds), [0] * len(seeds)
        self._handed = originals, torch.arange(len(originals))

    @property
    def rows(self) -> int:
        return self._rows * self.draws

    def logits(self, x: Tensor, units: Tensor | None = None) -> Tensor:
        return self.observe(x, units).scores

    def observe(self, x: Tensor, units: Tensor | None = None) -> Seen:
        at = self._units(x, units)
        self._handed = x, at
        of = at.repeat_interleave(self.draws)
        handed = x.repeat_interleave(self.draws, dim=0)
        seen = super().observe(self._shown(handed, of, self._parameters(at, self.draws)), of)
        fails = self.failure.rows(of)(seen.decisions, handed).reshape(len(x), self.draws)
        # Of every row the decision of a draw that does not fail, where there is one.
        weakest = fails.float().argmin(dim=1, keepdim=True)
        decisions = seen.decisions.reshape(len(x), self.draws).gather(1, weakest)[:, 0]
        slack = None if seen.slack is None else seen.slack.reshape(len(x), self.draws).mean(dim=1)
        scores = seen.scores.reshape(len(x), self.draws, -1).mean(dim=1)
        if self.best is not None:
            self.best.note(x, at, fails.float().mean(dim=1), scores)
        return Seen(scores, decisions, slack)

    def decisions(self, x: Tensor, units: Tensor | None = None, *, alone: bool = False) -> Tensor:
        at = self._units(x, units)
        self._handed = x, at
        with torch.no_grad():
            decided = super().decisions(self._shown(x, at, self._parameters(at, 1)), at, alone=alone)
        if self.best is not None:
            self.best.note(x, at, self.failure.rows(at)(decided, x).float(), None)
        return decided

    def _rank(self, x: Tensor, units: Tensor | None, decided: Tensor, scores: Tensor | None) -> None:
        """Pictures are no candidates: what was handed in is ranked, over all of its draws."""

    def _note(self, x: Tensor, units: Tensor | None, decided: Tensor) -> None:  # noqa: ARG002
        """Of the pictures that are shown what was handed in is remembered."""
        handed, at = self._handed
        of = torch.arange(len(handed)).repeat_interleave(len(x) // max(1, len(handed)))
        super()._note(handed[of], at[of], decided)

    def module(self) -> nn.Module:
        raise AccessDenied("a library asks the object as it is, and the world draws around it")

    def opened(self) -> tuple[nn.Module, object]:  # type: ignore[override]
        raise AccessDenied("the network itself asked, and the world draws around it")

    def unit(self, index: int) -> Oracle:
        raise AccessDenied(f"unit {index} asked alone, and the world draws around it")

    def _units(self, x: Tensor, units: Tensor | None) -> Tensor:
        if units is None and len(x) != self.units:
            raise AccessDenied("rows that belong to no unit asked, and the world draws for each")
        return torch.arange(len(x)) if units is None else units

    def _parameters(self, at: Tensor, draws: int) -> Parameters:
        """The next ``draws`` draws of every row, (n * draws, p)."""
        found = []
        for unit in at.tolist():
            found.append(self.scene.draw(self._seeds[unit], self._had[unit], draws))
            self._had[unit] += draws
        return np.concatenate(found) if found else np.zeros((0, len(self.scene.names)))

    def _shown(self, x: Tensor, of: Tensor, theta: Parameters) -> Tensor:
        shown = self.scene.shown(x.flatten(1), self.originals[of].flatten(1), theta)
        return shown.reshape(x.shape)
