"""Confidence intervals of a proportion: what a sample says about its population (EVIDENCE.md section 8)."""

from __future__ import annotations

import math
from fractions import Fraction


def clopper_pearson_lower(successes: int, trials: int, error: Fraction) -> float:
    """The least p with P[Bin(trials, p) >= successes] >= ``error`` (Clopper and Pearson, Biometrika 26, 1934)."""
    return 1.0 - clopper_pearson_upper(trials - successes, trials, error)


def clopper_pearson_upper(successes: int, trials: int, error: Fraction) -> float:
    """The greatest p with P[Bin(trials, p) <= successes] >= ``error``.

    Found by bisection to the last float; the result errs upwards by at most one step of the bisection.
    """
    if successes == trials:
        return 1.0
    low, high, target = successes / trials, 1.0, math.log(error)
    while (middle := (low + high) / 2) not in (low, high):
        if _log_tail(successes, trials, middle) >= target:
            low = middle
        else:
            high = middle
    return high


def _log_tail(successes: int, trials: int, p: float) -> float:
    """log P[Bin(trials, p) <= successes], summed from the largest term down; ``0 < p < 1``."""
    log_p, log_q = math.log(p), math.log1p(-p)
    head = math.lgamma(trials + 1)
    terms = [
        head - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * log_p + (trials - k) * log_q
        for k in range(successes, -1, -1)
    ]
    top = max(terms)
    return top + math.log(math.fsum(math.exp(t - top) for t in terms))


def wilson(share: Fraction, trials: int, confidence: Fraction) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson, JASA 22, 1927), two-sided."""
    from statistics import NormalDist

    z = NormalDist().inv_cdf(float(1 + confidence) / 2)
    p, n = float(share), trials
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def population_interval(low: int, high: int, trials: int, confidence: Fraction) -> tuple[float, float]:
    """An interval for the population's share when the sample's lies in ``[low, high] / trials``.

    Half of the error goes to each side: the lower limit of ``low`` and the upper limit of ``high``.
    """
    half = (1 - confidence) / 2
    return clopper_pearson_lower(low, trials, half), clopper_pearson_upper(high, trials, half)
