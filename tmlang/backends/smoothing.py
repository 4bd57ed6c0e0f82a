"""Randomized smoothing: an l2 radius of the ideal smoothed classifier, at a stated confidence per unit.

The algorithm CERTIFY of Cohen, Rosenfeld, Kolter (ICML 2019), section 3.2.2: ``n0`` draws guess the class, ``n`` fresh
ones count it, the lower limit of Clopper and Pearson bounds its probability, and ``plan.smoothing`` holds the theorem.
It says nothing about a vote of finitely many draws. That the class stays is more than that it does not become a target;
balls of other norms are certified within the l2 ball around them. Draws are those of the evaluator's own noise and
arithmetic, whose distance to ideal noise is assumed and not bounded.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, cast

import torch
from scipy import special

from tmlang.backends.contract import BackendRefusal, Job, Trial, Verdicts
from tmlang.backends.deployed import Deployed
from tmlang.meaning.models import Model
from tmlang.meaning.threats import Allowed, Ball
from tmlang.plan.smoothing import sigma_of, squared_radius, stretched, upper_quantile

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

_NUMBERS = 1 << 20
"""Coordinates that one batch of draws has at most."""
_INWARD = 1 - 1e-9
"""What is left of a radius, so that rounding in the quantiles never lengthens one."""


def radius(sigma: Fraction, hits: int, n: int, alpha: Fraction) -> float | None:
    """The radius, rounded down, that ``hits`` of ``n`` draws prove at confidence ``1 - alpha``; ``None``: abstain.

    The lower limit ``p`` solves ``P[Bin(n, p) >= hits] = alpha``; its complement is worked out, which keeps its digits
    where ``p`` is near 1.
    """
    if hits == 0:
        return None
    above = float(special.betainccinv(n - hits + 1, hits, float(alpha)))
    proved = float(sigma) * upper_quantile(above) * _INWARD
    return proved if proved > 0 else None


def own_units(proved: float, ball: Allowed | None, size: int) -> float | None:
    """A proved l2 radius as the greatest radius of the threat's own ball that lies in it, rounded down; ``None`` where
    the set is no single ball."""
    longest = stretched(ball.norm, size) if isinstance(ball, Ball) else None
    if not isinstance(ball, Ball) or longest is None:
        return None
    return (proved / math.sqrt(longest) - float(ball.tolerance)) * _INWARD


class Gaussian:
    """``smoothing.gaussian``."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def certify(self, job: Job) -> Verdicts:
        network, decide = job.oracle.opened()
        model: Model = decide.model  # type: ignore[attr-defined]
        sigma, square = sigma_of(model), squared_radius(job.threat.allow, job.sets.space.size)
        if sigma is None or square is None or model.decide.rule != "most_likely":
            raise BackendRefusal("it certifies sets in an l2 ball, of an object that answers with its most likely draw")
        found = []
        for i, seed in enumerate(job.seeds):
            cast(Deployed, network).reseed(seed)
            found.append(_unit(job, sigma, square, model.classes, i))
        return Verdicts(
            verdict=tuple(f.verdict for f in found),
            margin=torch.tensor([f.left for f in found], dtype=torch.float64),
            gap=0.0,
            gap_kind="assumed",
            messages=tuple(f.message for f in found),
            trials=tuple(f.trial for f in found),
        )


@dataclass(frozen=True)
class _Found:
    """Of one unit. ``left``: by how much the proved radius exceeds the threat's, in l2."""

    verdict: Literal["certified", "unknown", "timeout"]
    message: str | None = None
    left: float = math.nan
    trial: Trial | None = None


def _unit(job: Job, sigma: Fraction, square: Fraction, classes: tuple[str, ...], unit: int) -> _Found:
    n0, n, label = int(job.arguments["n0"]), int(job.arguments["n"]), int(job.y[unit])
    first = _counts(job, unit, n0, len(classes))
    if first is None:
        return _Found("timeout")
    guess = int(first.argmax())
    if guess != label:
        return _Found(
            "unknown", f"abstains: {n0} draws guess {classes[guess]}", trial=Trial(n0, n0 - int(first[label]), None)
        )
    counts = _counts(job, unit, n, len(classes))
    if counts is None:
        return _Found("timeout")
    hits = int(counts[label])
    proved = radius(sigma, hits, n, job.arguments["alpha"])
    if proved is None:
        return _Found("unknown", f"abstains: {hits} of {n} draws", trial=Trial(n, n - hits, None))
    beyond = Fraction(proved) ** 2 > square
    trial = Trial(n, n - hits, own_units(proved, job.threat.allow, job.sets.space.size))
    message = f"{hits} of {n} draws prove an l2 radius of {proved:.6g}"
    return _Found("certified" if beyond else "unknown", message, proved - math.sqrt(square), trial)


def _counts(job: Job, unit: int, draws: int, classes: int) -> Tensor | None:
    """How often each class (K,) is decided in ``draws`` draws; ``None`` behind the deadline. A draw without a class
    counts for none."""
    x = job.x[unit : unit + 1]
    together = max(1, _NUMBERS // x.numel())
    counts = torch.zeros(classes, dtype=torch.int64)
    for start in range(0, draws, together):
        if job.deadline is not None and time.monotonic() >= job.deadline:
            return None
        block = x.expand(min(together, draws - start), *x.shape[1:])
        decided = job.oracle.decisions(block, torch.full((len(block),), unit))
        counts += torch.bincount(decided[decided >= 0], minlength=classes)
    return counts
