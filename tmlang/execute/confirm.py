"""Witnesses of random objects: committed candidates confirmed on fresh draws (EVIDENCE.md section 5).

A search may look at as many draws as it likes. What it commits to is then judged on ``n`` draws that nothing has seen:
their seed comes from the candidate's own hash. A candidate is a witness iff the exact binomial test rejects
``P[failure] <= threshold`` at ``(1 - confidence) / family``, so that all witnesses of an evaluation hold jointly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import comb

import torch

from tmlang.audit.record import REJECTED
from tmlang.backends.decision import NO_DECISION
from tmlang.backends.failure import Failure
from tmlang.diagnostics.stop import stop
from tmlang.execute.evaluator import Evaluator
from tmlang.execute.seeds import derive
from tmlang.meaning.threats import Success, Threat

Tensor = torch.Tensor


def least_failures(draws: int, threshold: Fraction, level: Fraction) -> int | None:
    """The least number of failures in ``draws`` that rejects ``P[failure] <= threshold`` at ``level``; ``None`` when
    not even all of them do. Exact: the tail is summed from the top in whole numbers."""
    hit, miss = threshold.numerator, threshold.denominator - threshold.numerator
    whole = threshold.denominator**draws
    tail = 0
    for failures in range(draws, -1, -1):
        tail += comb(draws, failures) * hit**failures * miss ** (draws - failures)
        if Fraction(tail, whole) > level:
            return failures + 1 if failures < draws else None
    return 0


def least_draws(threshold: Fraction, level: Fraction) -> int:
    """The least number of draws that can confirm anything: the least ``n`` with ``threshold ** n <= level``."""
    n, share = 0, Fraction(1)
    while share > level:
        n, share = n + 1, share * threshold
    return n


@dataclass(frozen=True)
class Trial:
    """``errors`` of ``draws`` failed. ``confirmed``: the test says that more than the threshold does."""

    draws: int
    errors: int
    confirmed: bool


class Confirmation:
    """E for a random object: it stands where ``backends.recheck`` expects an evaluator, one test being its replay.

    ``family``: how many tests share the error of the evaluation. Raises TM827 when ``draws`` cannot confirm anything.
    """

    replays = 1

    def __init__(self, evaluator: Evaluator, threat: Threat, family: int, seed: int) -> None:
        success = threat.success
        assert success is not None and success.threshold is not None and success.confidence is not None  # noqa: PT018
        assert success.draws is not None
        self.evaluator, self.seed, self.draws = evaluator, seed, success.draws
        level = (1 - success.confidence) / family
        needed = least_failures(self.draws, success.threshold, level)
        if needed is None:
            raise _too_few(threat, success, level, family)
        self.needed = needed
        self._seen: dict[bytes, Tensor] = {}

    def decide(self, x: Tensor) -> Tensor:
        """What each input (n, *shape) is answered with: ``REJECTED`` where that is confirmed, else the class answered
        most often, ``NO_DECISION`` where a draw has none or no draw has a class."""
        return torch.tensor([self._usual(self.decisions(row)) for row in x], dtype=torch.int64)

    def _usual(self, decided: Tensor) -> int:
        counts = Counter(decided.tolist())
        if counts[NO_DECISION]:
            return NO_DECISION
        if counts[REJECTED] >= self.needed:
            return REJECTED
        classes = sorted((-n, c) for c, n in counts.items() if c >= 0)
        return classes[0][1] if classes else NO_DECISION

    def decisions(self, row: Tensor) -> Tensor:
        """``draws`` fresh decisions (draws,) on one input (*shape); the same for the same input."""
        key = row.contiguous().numpy().tobytes()
        if key not in self._seen:
            commitment = sha256(key).hexdigest()
            with torch.random.fork_rng(devices=[]):
                seed = derive(self.seed, "confirm", commitment)
                torch.manual_seed(seed)
                self.evaluator.deployed.reseed(seed)
                draws = [self.evaluator.decide(row[None]) for _ in range(self.draws)]
            self._seen[key] = torch.cat(draws)
        return self._seen[key]

    def trial(self, row: Tensor, fails: Callable[[Tensor], Tensor]) -> Trial:
        """The test of one input: ``fails`` tells which decisions (draws,) are failures."""
        errors = int(fails(self.decisions(row)).sum())
        return Trial(self.draws, errors, errors >= self.needed)


@dataclass(frozen=True)
class Confirmed:
    """F of a random object: holds where the test confirms it, whatever the one decision is."""

    base: Failure
    confirmation: Confirmation

    def __call__(self, decisions: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return torch.tensor([self.trial(i, row).confirmed for i, row in enumerate(x)], dtype=torch.bool)

    def rows(self, at: Tensor) -> Confirmed:
        return Confirmed(self.base.rows(at), self.confirmation)

    def trial(self, unit: int, row: Tensor) -> Trial:
        """The test of an input (*shape) against the failure predicate of one unit."""
        draws = self.confirmation.draws
        alike = self.base.rows(torch.full((draws,), unit))
        return self.confirmation.trial(row, lambda decided: alike(decided, row.expand(draws, *row.shape)))


def _too_few(threat: Threat, success: Success, level: Fraction, family: int) -> Exception:
    assert success.threshold is not None
    least = least_draws(success.threshold, level)
    return stop(
        "TM827",
        f"{success.draws} fresh draws can confirm nothing for {threat.name}",
        threat.origin,
        notes=(
            f"{family} tests share the error, so each has {float(level):.3g}",
            f"if every draw failed, that would happen by chance with {float(success.threshold):g}^{success.draws}",
        ),
        help=f"at least {least} fresh draws are needed",
    )
