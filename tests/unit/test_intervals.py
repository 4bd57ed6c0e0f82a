"""Confidence intervals at their edges, beside scipy's."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from scipy.stats import beta, binom, norm

from tmlang.audit.intervals import clopper_pearson_lower, clopper_pearson_upper, population_interval, wilson

ERRORS = (F(1, 40), F(1, 1000), F(1, 10**9))


@pytest.mark.parametrize("trials", [1, 2, 7, 100, 5000])
@pytest.mark.parametrize("error", ERRORS)
def test_limits_are_scipys_for_every_kind_of_count(trials, error):
    for hits in sorted({0, 1, trials // 3, trials - 1, trials}):
        low, high = clopper_pearson_lower(hits, trials, error), clopper_pearson_upper(hits, trials, error)
        assert low == pytest.approx(0 if hits == 0 else beta.ppf(float(error), hits, trials - hits + 1), rel=1e-9)
        assert high == pytest.approx(
            1 if hits == trials else beta.isf(float(error), hits + 1, trials - hits), rel=1e-9, abs=1e-12
        )


def test_a_limit_errs_outwards():
    """At the upper limit itself so few successes are at most as likely as the error, a breath below more likely."""
    for hits, trials in ((0, 10), (3, 10), (40, 100)):
        high = clopper_pearson_upper(hits, trials, F(1, 40))
        assert binom.cdf(hits, trials, high * (1 + 1e-9)) < 1 / 40 < binom.cdf(hits, trials, high * (1 - 1e-9))


def test_nothing_tried_says_nothing():
    assert (clopper_pearson_lower(0, 0, F(1, 40)), clopper_pearson_upper(0, 0, F(1, 40))) == (0.0, 1.0)


def test_wilsons_interval_stays_within_none_and_all():
    z = norm.ppf(0.975)
    for n in range(1, 3000):
        low, high = wilson(F(0), n, F(95, 100)), wilson(F(1), n, F(95, 100))
        assert low[0] >= 0
        assert high[1] <= 1
        assert low[0] == pytest.approx(0, abs=1e-12)
        assert high[1] == pytest.approx(1, abs=1e-12)
        assert low[1] == pytest.approx(z * z / (n + z * z), rel=1e-9)


def test_a_population_interval_spends_half_the_error_on_each_side():
    """200 and 570 of 1,000: the worked example of EVIDENCE.md section 8, [17.6, 60.1] %."""
    low, high = population_interval(200, 570, 1000, F(95, 100))
    assert (round(low, 3), round(high, 3)) == (0.176, 0.601)
    assert low == pytest.approx(beta.ppf(0.025, 200, 801), rel=1e-9)
    assert high == pytest.approx(beta.ppf(0.975, 571, 430), rel=1e-9)
