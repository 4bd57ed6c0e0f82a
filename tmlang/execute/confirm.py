"""What draws is judged on fresh draws: of a random object, and of nature (EVIDENCE.md section 5).

A search may look at as many draws as it likes. What it commits to is then judged on ``n`` draws that nothing has seen:
their seed comes from the candidate's own hash. Under ``error_probability`` a candidate is a witness iff the exact
binomial test rejects ``P[failure] <= threshold`` at ``(1 - confidence) / family``, so that all witnesses of an
evaluation hold jointly. Under ``single draw`` the share of failing draws is an estimate, and nothing is a witness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from math import comb
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.audit.record import REJECTED
from tmlang.backends.decision import NO_DECISION, NON_FINITE_FAILS, is_open
from tmlang.backends.failure import Failure
from tmlang.backends.nature import Scene
from tmlang.base.seeds import derive
from tmlang.diagnostics.stop import stop
from tmlang.execute.evaluator import Evaluator
from tmlang.meaning.threats import Success, Threat

Tensor = torch.Tensor

_TOGETHER = 64
"""Pictures that are made together."""


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
    """What fresh draws of one input from ``seed`` gave: ``outcomes``, whether each failed, and the ``decision`` taken
    most often. ``confirmed``: the test says that more than the threshold fails; ``None`` without one."""

    seed: int
    outcomes: tuple[bool, ...]
    confirmed: bool | None
    decision: int

    @property
    def draws(self) -> int:
        return len(self.outcomes)

    @property
    def errors(self) -> int:
        return sum(self.outcomes)


@dataclass(frozen=True)
class Drawn:
    """What nature drew in the trial of one input: ``parameters`` (draws, p), and the ``picture`` (*shape) of a draw."""

    parameters: NDArray[np.float64]
    picture: NDArray[Any]


def shown_draw(outcomes: Sequence[bool]) -> int:
    """The first failing draw, or the first where none fails."""
    return list(outcomes).index(True) if any(outcomes) else 0


@dataclass(frozen=True)
class Confirmation:
    """Fresh draws of an object, and of the world around it: ``draws`` of each input, from the evaluation's ``seed``.

    ``needed``: the failures that confirm, ``None`` where no threshold is tested (``single draw``). ``scene``: what
    nature makes of an input before the object sees it.
    """

    evaluator: Evaluator
    draws: int
    needed: int | None
    seed: int
    scene: Scene | None = None
    _seen: dict[bytes, tuple[int, Tensor]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls, evaluator: Evaluator, threat: Threat, family: int, seed: int, scene: Scene | None = None
    ) -> Confirmation:
        """``family``: how many tests share the error of the evaluation. Raises TM827 when the draws of ``threat``
        cannot confirm anything."""
        success = threat.success
        assert success is not None
        assert success.draws is not None
        needed = None
        if success.threshold is not None and success.confidence is not None:
            level = (1 - success.confidence) / family
            needed = least_failures(success.draws, success.threshold, level)
            if needed is None:
                raise _too_few(threat, success, level, family)
        return cls(evaluator, success.draws, needed, seed, scene)

    def before(self, *, random: bool) -> Confirmation | None:
        """How originals are judged: nature does nothing to a picture without the patch, and a fixed object is then
        asked once."""
        if self.scene is None or self.scene.patch is None:
            return self
        return replace(self, scene=None, _seen={}) if random else None

    def decisions(self, row: Tensor, original: Tensor) -> tuple[int, Tensor]:
        """The seed, and the decisions (draws,) on one input (*shape) that is handed in for an original; the same for
        the same input."""
        key = (row.contiguous().numpy() + row.numpy().dtype.type(0)).tobytes()  # there is one zero
        seed = derive(self.seed, "confirm", sha256(key).hexdigest())
        if self.scene is not None and self.scene.patch is not None:
            key += original.contiguous().numpy().tobytes()
        if key not in self._seen:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                self.evaluator.deployed.reseed(seed)
                draws = [self.evaluator.decide(x) for x in self._pictures(row, original, seed)]
            self._seen[key] = seed, torch.cat(draws)
        return self._seen[key]

    def _pictures(self, row: Tensor, original: Tensor, seed: int) -> Iterator[Tensor]:
        """What the object sees in each draw: (1, *shape)."""
        if self.scene is None:
            yield from (row[None] for _ in range(self.draws))
            return
        theta = self.scene.draw(seed, 0, self.draws)
        for start in range(0, self.draws, _TOGETHER):
            some = theta[start : start + _TOGETHER]
            x, x0 = (np.repeat(a.numpy().reshape(1, -1), len(some), axis=0) for a in (row, original))
            made = torch.from_numpy(self.scene.made(x, x0, some)).to(row.dtype)
            yield from made.reshape(len(some), 1, *row.shape)

    def drawn(self, row: Tensor, original: Tensor, trial: Trial) -> Drawn | None:
        """What nature drew in a trial, and the picture of its first failing draw (of the first, where none fails)."""
        if self.scene is None:
            return None
        theta = self.scene.draw(trial.seed, 0, self.draws)
        k = shown_draw(trial.outcomes)
        x, x0 = (a.numpy().reshape(1, -1) for a in (row, original))
        return Drawn(theta, self.scene.made(x, x0, theta[k : k + 1]).reshape(row.shape))

    def usual(self, decided: Tensor) -> int:
        """What stands for the decisions (draws,) of one input: the reason where a draw has none, ``REJECTED``
        where that is confirmed (or what most draws gave, without a test), else the class taken most often."""
        if bool(is_open(decided).any()):
            return int(decided[is_open(decided)][0])
        counts = Counter(decided.tolist())
        enough = self.draws // 2 + 1 if self.needed is None else self.needed
        if counts[REJECTED] >= enough:
            return REJECTED
        classes = sorted((-n, c) for c, n in counts.items() if c >= 0)
        return classes[0][1] if classes else NON_FINITE_FAILS if counts[NON_FINITE_FAILS] else NO_DECISION


@dataclass(frozen=True)
class Confirmed:
    """E and F of an object that is judged by draws, for n units; it stands where ``backends.recheck`` expects an
    evaluator, one trial being its replay. Without a test nothing is a failure: a share of draws is an estimate.
    ``originals``: (n, *shape)."""

    base: Failure
    confirmation: Confirmation
    originals: Tensor
    replays = 1

    def __call__(self, decisions: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return torch.tensor([bool(self.trial(i, row).confirmed) for i, row in enumerate(x)], dtype=torch.bool)

    def decide(self, x: Tensor) -> Tensor:
        """What the draws of the unit's input, for all units (n, *shape), usually gave."""
        return torch.tensor([self.trial(i, row).decision for i, row in enumerate(x)], dtype=torch.int64)

    def rows(self, at: Tensor) -> Confirmed:
        return replace(self, base=self.base.rows(at), originals=self.originals[at])

    def trial(self, unit: int, row: Tensor) -> Trial:
        """The draws of an input (*shape) against the failure predicate of one unit."""
        seed, decided = self.confirmation.decisions(row, self.originals[unit])
        alike = self.base.rows(torch.full((len(decided),), unit))
        outcomes = tuple(alike(decided, row.expand(len(decided), *row.shape)).tolist())
        needed = self.confirmation.needed
        confirmed = None if needed is None else sum(outcomes) >= needed
        return Trial(seed, outcomes, confirmed, self.confirmation.usual(decided))


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
