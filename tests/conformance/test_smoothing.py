"""Randomized smoothing against what is known in closed form: a linear model's radius is its distance to the plane."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction as F
from statistics import NormalDist

import numpy as np
import pytest
import torch
from backend_support import Case, certify, model, threat, unit_box
from torch import nn

from tmlang.audit.trials import upper_tail
from tmlang.backends.contract import BackendRefusal, Job, Verdicts
from tmlang.backends.decision import NO_DECISION
from tmlang.backends.smoothing import radius
from tmlang.execute.evaluator import Evaluator
from tmlang.execute.vote import Vote
from tmlang.meaning.models import Decide, Step
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball, Both, Either, Goal
from tmlang.meaning.values import Symbol
from tmlang.plan.smoothing import farthest, least_draws, squared_radius

NOISE = Step("noise", (("kind", Symbol("gaussian")), ("sigma", F(1, 2))), differentiable=True, random=True)
SMOOTHED = replace(model(2, [NOISE]), decide=Decide("most_likely"))
PLANE = unit_box(2, cells=(Cell("real", F(-8), F(8)),))


def half_plane(distances: Iterable[float]) -> Case:
    """Class 0 where ``3a + 4b > 0``; points at these signed distances from the line, shifted along it."""
    network = nn.Linear(2, 2)
    network.weight.data = torch.tensor([[3.0, 4.0], [-3.0, -4.0]])
    network.bias.data = torch.zeros(2)
    d = np.array(list(distances))
    along = np.linspace(-2, 2, len(d))
    x = np.stack([0.6 * d - 0.8 * along, 0.8 * d + 0.6 * along], axis=1).astype(np.float32)
    return Case(network, PLANE, SMOOTHED, x, (d < 0).astype(int).tolist())


def certified(case: Case, job: Job, n: int = 4000, **given: F) -> Verdicts:
    return certify("smoothing.gaussian", case, job, **{"n0": F(100), "n": F(n), "alpha": F(1, 1000)} | given)


def ball(r: F | str, norm: str = "l2") -> object:
    return replace(threat(), allow=Ball(norm, "px", F(r)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("hits", "n"), [(15, 20), (150, 200), (199, 200), (200, 200), (997, 1000)])
def test_the_radius_is_that_of_the_exact_binomial_limit(hits: int, n: int) -> None:
    """With ``p`` read back from the radius, so many hits have probability alpha under ``p``: summed exactly."""
    alpha = F(1, 100) if hits > 15 else F(4, 10)
    proved = radius(F(2), hits, n, alpha)
    assert proved is not None
    p = F(NormalDist().cdf(proved / 2)).limit_denominator(10**12)
    assert upper_tail(hits, n, p) <= alpha
    assert upper_tail(hits, n, p + F(1, 10**7)) > alpha


def test_no_majority_proves_nothing() -> None:
    assert radius(F(1), 0, 100, F(1, 1000)) is None
    assert radius(F(1), 50, 100, F(1, 1000)) is None
    assert radius(F(1), 60, 100, F(1, 1000)) is None  # more than half, and not surely


def test_proved_radii_never_pass_the_true_one_and_come_near() -> None:
    distances = np.linspace(0.02, 1.2, 60)
    case = half_plane(distances * np.where(np.arange(60) % 3, 1, -1))
    job = case.job(ball("1/2"))  # type: ignore[arg-type]
    said = certified(case, job)
    for i, trial in enumerate(said.trials):
        assert trial is not None
        if trial.radius is None:
            assert distances[i] < 0.1
            assert said.verdict[i] == "unknown"
            continue
        # 60 statements, each wrong with probability 1/1000; the seeds are fixed.
        assert distances[i] - 0.15 < trial.radius <= distances[i]
        assert (said.verdict[i] == "certified") == (trial.radius > 0.5) == (float(said.margin[i]) > 0)
    assert {"certified", "unknown"} == set(said.verdict)


def test_more_confidence_proves_less() -> None:
    case = half_plane([0.5])
    job = case.job(ball("1/10"))  # type: ignore[arg-type]
    found = [certified(case, job, alpha=F(1, 10**k)).trials[0] for k in (1, 3, 6, 9)]
    radii = [t.radius for t in found if t is not None and t.radius is not None]
    assert len(radii) == 4
    assert radii == sorted(radii, reverse=True)
    assert len(set(radii)) == 4


def test_the_draws_of_a_unit_do_not_depend_on_its_batch() -> None:
    case = half_plane([0.3, 0.7, -0.4, 0.05])
    job = case.job(ball("1/4"))  # type: ignore[arg-type]
    together = certified(case, job, 500).trials
    alone = [certified(case, case.job(ball("1/4"), rows=slice(i, i + 1), seeds=i), 500).trials[0] for i in range(4)]  # type: ignore[arg-type]
    assert list(together) == alone


def test_an_rms_ball_and_an_intersection_are_measured_in_l2() -> None:
    case = half_plane([1.0])
    # l2_rms <= 0.6 is l2 <= 0.8485: proved for a distance of 1; 0.8 is l2 <= 1.131, which is false.
    inside, outside = (certified(case, case.job(ball(r, "l2_rms"))) for r in ("6/10", "8/10"))  # type: ignore[arg-type]
    assert inside.verdict == ("certified",)
    assert outside.verdict == ("unknown",)
    trial = inside.trials[0]
    assert trial is not None
    assert trial.radius is not None
    assert 0.6 < trial.radius <= 1 / 2**0.5
    both = replace(threat(), allow=Both((Ball("linf", "px", F(5)), Ball("l2", "px", F(1, 2)))))
    assert certified(case, case.job(both)).verdict == ("certified",)


@pytest.mark.parametrize(("norm", "stretch"), [("l1", 1.0), ("linf", 2**0.5)])
def test_balls_of_other_norms_are_certified_within_an_l2_ball(norm: str, stretch: float) -> None:
    """A point 1 from the line: l1 <= r is within l2 <= r, linf <= r within l2 <= r times the root of 2. What is proved
    is never more than the true distance in that norm, 5/4 and 5/7."""
    case = half_plane([1.0])
    for r in (F(6, 10), F(8, 10), F(12, 10)):
        said = certified(case, case.job(ball(r, norm)))  # type: ignore[arg-type]
        (trial,) = said.trials
        assert trial is not None
        assert trial.radius is not None
        assert 0.85 < trial.radius * stretch <= 1.0
        assert trial.radius < {"l1": 5 / 4, "linf": 5 / 7}[norm]
        assert (said.verdict[0] == "certified") == (trial.radius > r) == (float(said.margin[0]) > 0)


def test_the_l2_ball_around_a_set_is_worked_out_by_hand() -> None:
    """In 4 coordinates, of which linf takes the root, 2; a tolerance is part of the radius."""
    l2, l1, linf = Ball("l2", "px", F(3)), Ball("l1", "px", F(2)), Ball("linf", "px", F(1, 2), tolerance=F(1, 4))
    assert [squared_radius(b, 4) for b in (l2, l1, linf)] == [F(9), F(4), F(9, 4)]
    assert squared_radius(Both((l2, linf)), 4) == F(9, 4)
    assert squared_radius(Either((l2, Both((l1, linf))), ("", "")), 4) == F(9)
    assert squared_radius(Either((l1, Ball("l0", "px", F(1))), ("", "")), 4) is None
    assert squared_radius(Both((l1, Ball("l0", "px", F(1)))), 4) == F(4)


def test_a_class_that_stays_becomes_no_target() -> None:
    case = half_plane([1.0, -1.0, 0.2])
    goal = Goal("targeted")
    targeted = replace(ball("1/2"), goal=goal)  # type: ignore[type-var]
    plain = certified(case, case.job(ball("1/2")))  # type: ignore[arg-type]
    said = certified(case, case.job(targeted, target=[1, 0, 1]))  # type: ignore[arg-type]
    assert said.verdict == plain.verdict == ("certified", "certified", "unknown")
    assert said.trials == plain.trials


def test_a_wrong_guess_abstains_and_draws_no_further() -> None:
    case = half_plane([-0.5])
    case.y = torch.tensor([0])
    job = case.job(ball("1/10"))  # type: ignore[arg-type]
    said = certified(case, job)
    assert said.verdict == ("unknown",)
    assert said.messages[0] is not None
    assert "abstains" in said.messages[0]
    assert int(job.oracle.spent[0]) == 100


def test_time_runs_out_as_a_timeout() -> None:
    case = half_plane([1.0])
    assert certified(case, replace(case.job(ball("1/2")), deadline=0.0)).verdict == ("timeout",)  # type: ignore[arg-type]


def test_another_object_is_refused_at_run_time_too() -> None:
    case = half_plane([1.0])
    case.decide.model = replace(SMOOTHED, decide=Decide("majority", "reject", draws=10))
    with pytest.raises(BackendRefusal):
        certified(case, case.job(ball("1/2")))  # type: ignore[arg-type]


def test_reach_and_least_draws_agree() -> None:
    for r, sigma in ((F(3, 4), F(1, 4)), (F(1), F(1)), (F(1, 100), F(1))):
        least = least_draws(r * r, sigma, F(1, 1000))
        assert least is not None
        assert farthest(sigma, least, F(1, 1000)) > float(r)
        assert least == 1 or farthest(sigma, least - 1, F(1, 1000)) <= float(r)
    assert least_draws(F(40) ** 2, F(1), F(1, 1000)) is None
    # 1,000 draws at 0.1 %: p >= 0.001^(1/1000) = 0.993116, and Phi^-1 of that is 2.463 (tables: 2.46 -> 0.99305).
    assert 2.462 < farthest(F(1), 1000, F(1, 1000)) < 2.464


def test_the_clean_class_is_named_or_left_open() -> None:
    """A two-sided binomial test at 1/1000: on the line the draws split evenly; one sigma away 84 % agree."""
    case = half_plane([0.0, 0.5, -0.5])
    vote = Vote(Evaluator(case.deployed, case.decide), 400, F(1, 1000), seed=0)
    x = torch.from_numpy(case.x)
    assert vote.decide(x).tolist() == [NO_DECISION, 0, 1]
    assert vote.decide(x).tolist() == vote.decide(x).tolist()
    # Ten draws that all agree have probability 2 / 1024 by chance: not enough at 1/1000; eleven are.
    far = torch.from_numpy(half_plane([7.0]).x)
    assert Vote(vote.evaluator, 10, F(1, 1000), 0).decide(far).tolist() == [NO_DECISION]
    assert Vote(vote.evaluator, 11, F(1, 1000), 0).decide(far).tolist() == [0]
