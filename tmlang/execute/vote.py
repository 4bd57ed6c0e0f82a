"""What the ideal smoothed classifier answers, as far as draws can tell.

The algorithm PREDICT of Cohen, Rosenfeld, Kolter (Certified adversarial robustness via randomized smoothing, ICML 2019,
section 3.2.1; the test is Hung and Fithian's, 2019): the class of most draws, unless a two-sided binomial test between
the two most frequent cannot tell them apart at ``alpha``. The answer is wrong with probability at most ``alpha``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import cast

import torch
from scipy.stats import binomtest

from tmlang.backends.decision import NO_DECISION
from tmlang.base.seeds import derive
from tmlang.execute.evaluator import Evaluator, reference_arithmetic
from tmlang.plan.ir import EvaluationPlan

_NUMBERS = 1 << 20
"""Coordinates that one batch of draws has at most."""


@dataclass(frozen=True)
class Vote:
    """The answers of a smoothed object on ``draws`` draws each, the same for the same input and seed."""

    evaluator: Evaluator
    draws: int
    alpha: Fraction
    seed: int

    @classmethod
    def of(cls, evaluator: Evaluator, evaluation: EvaluationPlan) -> Vote | None:
        """As many draws as the first probabilistic certificate takes, at its ``alpha``; ``None`` without one."""
        stage = next((s for s in evaluation.stages if s.evidence == "probabilistic"), None)
        if stage is None:
            return None
        numbers = cast("dict[str, Fraction]", dict(stage.arguments))
        return cls(evaluator, int(numbers["n"]), numbers["alpha"], evaluation.seed or 0)

    def decide(self, x: torch.Tensor) -> torch.Tensor:
        """(N,) classes of inputs (N, *shape), ``NO_DECISION`` where the test abstains."""
        return torch.tensor([self._named(self._counts(row)) for row in x], dtype=torch.int64)

    def _named(self, counts: Counter[int]) -> int:
        (first, most), *others = [*counts.most_common(2), (NO_DECISION, 0)][:2]
        second = others[0][1]
        told_apart = most > 0 and binomtest(most, most + second, 0.5).pvalue <= self.alpha
        return first if told_apart else NO_DECISION

    def _counts(self, row: torch.Tensor) -> Counter[int]:
        commitment = sha256(row.contiguous().numpy().tobytes()).hexdigest()
        self.evaluator.deployed.reseed(derive(self.seed, "vote", commitment))
        together = max(1, _NUMBERS // row.numel())
        counts: Counter[int] = Counter()
        with reference_arithmetic():
            for start in range(0, self.draws, together):
                block = row.expand(min(together, self.draws - start), *row.shape)
                counts.update(self.evaluator.decision(self.evaluator.deployed(block)).tolist())
        return counts
