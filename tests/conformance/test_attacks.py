"""One suite for every attack row of every manifest, whoever wrote the attack."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, digits, method, model, threat, unit_box
from conformance_support import (
    ALONE,
    CASES,
    COPIES,
    FAR,
    NEAREST,
    RADII,
    RARE,
    TRANSFORMS,
    UNTOLD,
    expected,
    first,
    fitting,
    home,
    kinds,
    long_steps,
    next_classes,
    outcome,
    refusals,
    rows,
    same,
    searches,
    watched,
)

from tmlang.backends.deployed import Deployed
from tmlang.backends.oracle import AccessDenied, Oracle
from tmlang.meaning.models import Step
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Access, Anything, Ball, Both, Either, Goal, Mutable
from tmlang.plan.capability import InputForm

ATTACKS = [m.path for m in rows("attack")]
ASKING = [m.path for m in rows("attack") if m.access != "nothing" and m.path not in COPIES]
CLIMBS = [m.path for m in rows("attack") if m.access == "white_box" and (m.backend == "native" or not m.minimal)]
BALLS = [(m.path, n) for m in rows("attack") for n in kinds(m)]


def test_the_suite_has_rows() -> None:
    required = {
        *(f"torchattacks.{n}" for n in ("FGSM", "PGD", "PGDL2", "APGD", "Square")),
        *(f"foolbox.{n}" for n in ("LinfPGD", "L2PGD", "BoundaryAttack")),
    }
    assert required <= set(ATTACKS)


@pytest.mark.parametrize(("path", "norm", "name"), searches())
def test_candidates_are_members_and_originals_are_no_candidates(path: str, norm: str, name: str) -> None:
    found = outcome(path, norm, name)
    x, offered = found.candidates.x, found.candidates.offered
    assert x.shape == found.job.x.shape
    assert x.dtype == found.job.x.dtype
    assert not x.requires_grad
    assert offered.dtype == torch.bool
    assert found.candidates.errors == (None,) * 8
    assert found.inside
    moved = (x != found.job.x).flatten(1).any(dim=1)
    assert torch.equal(moved, offered)
    assert offered.any() or path in RARE


@pytest.mark.parametrize(("path", "norm", "name"), searches(refused=False))
def test_nothing_but_the_counters_changes(path: str, norm: str, name: str) -> None:
    found = outcome(path, norm, name)
    assert same(found.before, found.after)
    assert (found.job.oracle.queries > 0).all() == (path in ASKING)
    assert bool(found.job.oracle.gradients.any()) == (path in ASKING and method(path).access == "white_box")


@pytest.mark.parametrize(("path", "norm"), BALLS)
def test_equal_seeds_give_equal_candidates_and_others_do_not(path: str, norm: str) -> None:
    name = home(path)
    case, wanted = CASES[name](), threat(norm, RADII[name][norm])
    first = outcome(path, norm, name).candidates.x
    assert torch.equal(first, watched(path, case, wanted).candidates.x)
    if path not in NEAREST | RARE:
        other = watched(path, case, wanted, seeds=100).candidates.x
        assert torch.equal(first, other) == (method(path).draws == "none")


@pytest.mark.parametrize(("path", "norm"), BALLS)
def test_a_wide_ball_is_broken(path: str, norm: str) -> None:
    case, radius = CASES[home(path)](), RADII[home(path)][norm] * 5
    found = watched(path, case, threat(norm, radius), arguments=long_steps(path, radius))
    correct = case.decisions(found.job.x) == found.job.y
    broken = (case.decisions(found.candidates.x) != found.job.y) & correct
    assert broken.sum() >= expected(path, 0.7, 0.1) * correct.sum()


@pytest.mark.parametrize(
    "path", [pytest.param(m.path, marks=refusals(m, "targeted"), id=m.path) for m in rows("attack")]
)
def test_targets_are_reached(path: str) -> None:
    case = CASES[home(path)]()
    norm = first(path)
    target = next_classes(case)
    radius = RADII[home(path)][norm] * 6
    wide = threat(norm, radius, goal=Goal("class", target="0"))
    found = watched(path, case, wide, target=target, arguments=long_steps(path, radius))
    reached = case.decisions(found.candidates.x) == torch.tensor(target)
    assert found.inside
    assert reached.sum() >= expected(path, 4, 0)
    assert found.candidates.errors == (None,) * 8


@pytest.mark.parametrize(("path", "norm"), [(p, n) for p, n in BALLS if n not in TRANSFORMS])
def test_frozen_coordinates_do_not_move(path: str, norm: str) -> None:
    case = CASES[home(path)]()
    radius = RADII[home(path)][norm] * 4
    half = threat(norm, radius, mutable=Mutable("rows", ranges=((0, 3),)))
    # What does not keep a batch in order is run unit by unit.
    units = 8 if method(path).rows == "whole" else 3
    found = watched(path, case, half, units=units, arguments=long_steps(path, radius))
    assert torch.equal(found.candidates.x[:, :, 4:], found.job.x[:, :, 4:])
    assert found.inside
    if expected(path, 1, 0):
        assert (
            (case.decisions(found.candidates.x) != found.job.y) & (case.decisions(found.job.x) == found.job.y)
        ).any()


def features() -> tuple[Case, Any]:
    """Three features of different ranges; the second may only grow, the third is a whole number."""
    cells = (
        Cell("real", Fraction(-1), Fraction(1)),
        Cell("real", Fraction(0), Fraction(100)),
        Cell("integer", Fraction(0), Fraction(9), Fraction(1)),
    )
    space = unit_box(3, cells=cells, layout="each", features=("a", "b", "c"))
    network = torch.nn.Linear(3, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.02, 0.2]]))
        network.bias.copy_(torch.tensor([0.0, -2.0]))
    x = np.array([[0.1, 40, 3], [-0.5, 60, 4], [0.9, 10, 1], [0.2, 80, 6]], dtype=np.float32)
    ball = Ball("linf", "px", radii=(("a", Fraction(1, 2)), ("b", Fraction(40)), ("c", Fraction(5, 2))), per="feature")
    mutable = Mutable("features", names=(("a", "any"), ("b", "up"), ("c", "any")))
    case = Case(network, space, model(2), x, [0, 0, 0, 1])
    return case, threat(allow=ball, mutable=mutable)


LINF_OF_TWO = [m.path for m in rows("attack") if "linf" in m.norms and m.min_classes <= 2 and m.input == InputForm()]


@pytest.mark.parametrize("path", LINF_OF_TWO)
def test_features_with_their_own_ranges_directions_and_levels(path: str) -> None:
    case, mixed = features()
    found = watched(path, case, mixed, arguments=long_steps(path, Fraction(40)))
    assert found.candidates.errors == (None,) * 4
    assert found.inside
    assert (found.candidates.x[:, 1] >= found.job.x[:, 1]).all()
    assert torch.equal(found.candidates.x[:, 2], found.candidates.x[:, 2].round())
    if expected(path, 1, 0):
        # Unit 0 can reach 0.6 + 1.6 + 1 - 2 > 0 and unit 1 0 + 2 + 1.2 - 2 > 0.
        assert case.decisions(found.candidates.x)[:2].tolist() == [1, 1]


@pytest.mark.parametrize("path", [m.path for m in rows("attack") if "linf" in m.norms])
def test_bytes_stay_bytes(path: str) -> None:
    case = CASES[fitting(method(path))[-1]]()
    levels = replace(case.space, cells=(Cell("integer", Fraction(0), Fraction(255), Fraction(1)),))
    x = case.x.round() if case.space.cells[0].high == 255 else (case.x * 16).round() * 15
    whole = Case(case.deployed.network, levels, case.spec, x, case.y.tolist())
    found = watched(path, whole, threat("linf", 10))
    assert found.candidates.offered.any() or path in ALONE
    assert torch.equal(found.candidates.x, found.candidates.x.round())
    assert found.inside


@pytest.mark.parametrize("path", [m.path for m in rows("attack") if {"linf", "l2"} & set(m.norms)])
def test_unions_and_intersections(path: str) -> None:
    radii = RADII[home(path)]
    balls = (Ball("linf", "px", radii["linf"] * 4), Ball("l2", "px", radii["l2"] * 4))
    for allow in (Either(balls, ("flat", "round")), Both(balls)):
        found = watched(path, CASES[home(path)](), threat(allow=allow))
        assert found.candidates.errors == (None,) * 8
        assert found.candidates.offered.any() or path in ALONE
        assert found.inside


BELOW = {"white_box": "scores", "scores": "decisions", "decisions": "nothing"}


@pytest.mark.parametrize("path", [m.path for m in rows("attack") if m.access in BELOW])
def test_less_access_is_denied(path: str) -> None:
    access = method(path).access
    norm = first(path)
    with pytest.raises(AccessDenied):
        watched(path, CASES[home(path)](), threat(norm, 1), level=BELOW[access])


@pytest.mark.parametrize("path", ASKING)
def test_the_query_limit_holds(path: str) -> None:
    limit = 7
    norm = first(path)
    few = threat(norm, RADII[home(path)][norm] * 4, access=Access("white_box", queries=limit))
    found = watched(path, CASES[home(path)](), few)
    assert (found.job.oracle.queries <= limit).all()
    # A batch of several rows per unit may not fit at all.
    assert (found.job.oracle.queries > 0).all() or method(path).rows == "expanded"
    assert found.candidates.errors == (None,) * 8
    assert found.inside


@pytest.mark.parametrize("path", [*ASKING, *COPIES])
def test_a_deadline_in_the_past_leaves_every_unit_unfinished(path: str) -> None:
    norm = first(path)
    case, radius = CASES[home(path)](), RADII[home(path)][norm]
    found = watched(path, case, threat(norm, radius), deadline=time.monotonic() - 1)
    assert found.candidates.errors == ("timeout",) * 8
    assert not found.candidates.offered.any()
    assert torch.equal(found.candidates.x, found.job.x)


@pytest.mark.parametrize("path", [m.path for m in rows("attack") if "anything" in m.norms])
def test_without_a_ball_all_of_the_domain_is_searched(path: str) -> None:
    case = CASES[fitting(method(path))[-1]]()
    width = case.space.cells[0].high
    found = watched(path, case, threat(allow=Anything()), arguments=long_steps(path, width))
    assert found.candidates.errors == (None,) * 8
    assert found.inside
    if path not in NEAREST:
        assert (found.candidates.x - found.job.x).abs().max() > float(width) / 4
    if expected(path, 1, 0):
        assert (case.decisions(found.candidates.x) != found.job.y).sum() >= 6


@pytest.mark.parametrize("path", [m.path for m in rows("attack") if {"l2", "l2_rms"} <= set(m.norms)])
def test_a_root_mean_square_is_an_l2_ball(path: str) -> None:
    # 64 coordinates: a root mean square of 1/8 is an l2 length of 1.
    rms = watched(path, digits(), threat("l2_rms", Fraction(1, 8)))
    l2 = outcome(path, "l2", "digits")
    assert rms.candidates.errors == (None,) * 8
    assert l2.job.sets.inside(rms.candidates.x.numpy()).all()
    assert torch.allclose(rms.candidates.x, l2.candidates.x, atol=1e-4)


@pytest.mark.parametrize(("path", "norm"), [(m.path, n) for m in rows("attack") for n in m.minimizes])
def test_a_threat_that_minimizes_gets_failures_and_near_ones(path: str, norm: str) -> None:
    case = digits()
    found = watched(path, case, threat(allow=None, minimize=(norm, "px")))
    fails = case.decisions(found.candidates.x) != found.job.y
    assert found.candidates.errors == (None,) * 8
    assert fails.sum() >= expected(path, 5, 3)
    if path in FAR:
        return
    distances = np.array(found.job.sets.distances(found.candidates.x.numpy())[norm])[fails.numpy()]
    # Uniform noise lies about 4 away in l2, 1 in linf, 25 in l1 and 64 in l0.
    assert np.median(distances) < {"l2": 3.5, "linf": 0.7, "l1": 12, "l0": 16}[norm]


@pytest.mark.parametrize(
    "path", [m.path for m in rows("attack") if "straight_through" in m.through and "linf" in m.norms]
)
def test_gradients_go_through_the_view(path: str) -> None:
    """The object quantizes, so its own gradient is zero; the view is the same object with the network's gradient."""
    plain = CASES[home(path)]()
    if plain.space.cells[0].high != 1:
        pytest.skip("the step quantizes [0, 1]")
    step = Step("quantize", (("levels", Fraction(17)),))
    case = Case(plain.deployed.network, plain.space, model(10, [step]), plain.x, plain.y.tolist())
    through = Deployed(case.spec, case.space, plain.deployed.network, read=lambda _: b"", straight_through=True)
    radius = Fraction(2, 5)
    wide = case.job(threat("linf", radius), rows=slice(8))
    oracle = Oracle(case.deployed, case.decide, classes=10, level="white_box", units=8, view=through)
    found = watched(path, case, wide.threat, arguments=long_steps(path, radius), oracle=oracle)
    assert (case.decisions(found.candidates.x) != wide.y).sum() >= 4
    blind = watched(path, case, wide.threat, arguments=long_steps(path, radius))
    assert (case.decisions(blind.candidates.x) != wide.y).sum() < (case.decisions(found.candidates.x) != wide.y).sum()


@pytest.mark.parametrize("path", CLIMBS)
def test_on_an_honest_network_some_step_helps(path: str) -> None:
    """Of whatever tells of it, and did not fail at once: there is no sign of masked gradients to raise."""
    found = outcome(path, first(path), home(path)).candidates
    assert (found.progressed is None) == (path in UNTOLD)
    if found.progressed is not None:
        assert bool((found.progressed | found.offered).all())
