"""Seeds, companions, query limits, deadlines and step sizes of the native searches."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
import torch
from backend_support import Case, model, threat, unit_box
from native_support import linear, run
from torch import nn

from tmlang.backends.native.hunt import Hunt
from tmlang.backends.native.terrain import Terrain
from tmlang.meaning.spaces import Cell, Metric
from tmlang.meaning.threats import Ball, Both
from tmlang.meaning.values import Distance, Quantity, Symbol


@pytest.fixture(scope="module")
def bumpy():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 5))
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(2)
    x = np.random.default_rng(0).random((24, 8)).astype(np.float32)
    case = Case(net, unit_box(8), model(5), x, [0] * 24)
    case.y = case.decisions(torch.from_numpy(x))
    return case


LENGTH = {
    "apgd": {"steps": F(12)}, "pgd": {"steps": F(12)}, "apgd_targeted": {"steps": F(12)}, "square": {"queries": F(150)},
    "fab": {"steps": F(8)}, "fab_targeted": {"steps": F(8)},
    "coordinates": {"rounds": F(8)},
    "decision_search": {"steps": F(40)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("attack", "norm"),
    [(a, n) for a in LENGTH for n in ("linf", "l2", "l1") if n != "l1" or a != "decision_search"],
)  # fmt: skip
def test_a_unit_does_not_depend_on_its_companions(bumpy, attack, norm):
    spec = threat(norm, {"linf": F(1, 20), "l2": F(1, 8), "l1": F(1, 4)}[norm])
    whole = run(attack, bumpy, bumpy.job(spec), **LENGTH[attack])
    assert 0 < int(whole.offered.sum()) < 24
    for i in (0, 7, 23):
        alone = bumpy.job(spec, rows=slice(i, i + 1), seeds=i)
        found = run(attack, bumpy, alone, **LENGTH[attack])
        assert bool(found.offered[0]) == bool(whole.offered[i])
        assert torch.allclose(found.x[0], whole.x[i], atol=1e-5)


def test_a_seed_decides_the_start(bumpy):
    spec = threat("linf", F(1, 20))
    first, again, other = (run("apgd", bumpy, bumpy.job(spec, seeds=s), steps=F(3)).x for s in (5, 5, 6000))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_global_random_states_stay(bumpy):
    before = torch.get_rng_state()
    run("apgd", bumpy, bumpy.job(threat("linf", F(1, 20))), steps=F(3), restarts=F(2))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("attack", ["apgd", "pgd", "apgd_targeted"])
def test_what_failed_costs_nothing_more(bumpy, attack):
    """A unit that stands uses all its rows; one that failed stops there."""
    job = bumpy.job(threat("linf", F(1, 20)))
    found = run(attack, bumpy, job, steps=F(10), restarts=F(2))
    full = 1 + 2 * 4 * 11 if attack == "apgd_targeted" else 2 * 11
    assert (job.oracle.spent[~found.offered] == full).all()
    assert (job.oracle.spent[found.offered] < full).any()
    assert (job.oracle.gradients[~found.offered] == (2 * 4 * 10 if attack == "apgd_targeted" else 2 * 10)).all()


@pytest.mark.parametrize("limit", [0, 1, 7])
@pytest.mark.parametrize("attack", LENGTH)
def test_a_query_limit_is_kept(bumpy, attack, limit):
    job = bumpy.job(threat("linf", F(1, 20)), limit=limit)
    restarts = {} if attack == "decision_search" else {"restarts": F(2)}
    found = run(attack, bumpy, job, **LENGTH[attack], **restarts)
    assert int(job.oracle.queries.max()) <= limit
    assert found.errors == (None,) * 24
    if attack != "coordinates":  # it stops where no change of one feature is better
        assert (job.oracle.queries[~found.offered] >= limit - 1).all()


def test_a_deadline_leaves_units_unfinished(bumpy):
    job = replace(bumpy.job(threat("linf", F(1, 20))), deadline=time.monotonic() - 1)
    found = run("apgd", bumpy, job, steps=F(10))
    assert not found.offered.any()
    assert found.errors == ("timeout",) * 24


def test_steps_are_lengths_in_the_space(bumpy):
    """One step of 1/100 from the original moves every free coordinate by just that."""
    job = bumpy.job(threat("linf", F(1, 10)))
    step = {"step_size": Distance(F(1, 25), "px"), "random_start": Symbol("false")}
    found = run("pgd", bumpy, job, steps=F(1), **step)
    moved = (found.x - job.x)[found.offered].abs()
    assert len(moved)
    inner = (job.x[found.offered] - 0.5).abs() < 0.46
    assert torch.allclose(moved[inner], torch.tensor(0.04), atol=1e-6)


def test_a_share_of_the_radius_is_taken_in_every_branch():
    from tmlang.backends.native.arguments import in_radii
    from tmlang.backends.native.terrain import Terrain

    case = linear([[0, 0], [1, 1]], [0, 0], unit_box(2), [[0.5, 0.5]])
    sets = case.job(threat("l2", F(1, 5))).sets
    terrain = Terrain.of(sets, 0, torch.float32)
    assert in_radii(Quantity(F(1, 4), "radii"), terrain).tolist() == [[0.25]]
    assert in_radii(Distance(F(1, 10), "px"), terrain).tolist() == [[pytest.approx(0.5, rel=1e-5)]]


def test_uniform_numbers_hang_on_seed_and_draw_alone():
    """SplitMix64 by its definition, in whole numbers of Python; its first number of the seed 0 is published."""

    def mixed(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    gamma = 0x9E3779B97F4A7C15
    assert mixed(gamma) == 0xE220A8397B1DCDAF
    case = linear([[0, 0, 0], [1, 0, 0]], [0.6, 0], unit_box(3), [[0.4, 0.4, 0.4]] * 3)
    hunt = Hunt(case.job(threat(), seeds=2**62))
    drawn = hunt.uniform(torch.tensor([2, 0]), 5, 4)
    for row, seed in zip(drawn.tolist(), (2**62 + 2, 2**62), strict=True):
        stream = mixed((seed + 5 * gamma) % 2**64)
        bits = [mixed((stream + j * gamma) % 2**64) >> 40 for j in range(1, 5)]
        assert row == [(b + 0.5) / 2**24 for b in bits]
    many = Hunt(case.job(threat())).uniform(torch.arange(3), 0, 20_000)
    assert abs(float(many.mean()) - 0.5) < 5 / (12 * 60_000) ** 0.5
    assert abs(float(np.corrcoef(many.numpy())[0, 1])) < 5 / 20_000**0.5


@pytest.mark.parametrize("attack", LENGTH)
def test_inputs_in_float64_are_searched_as_others(bumpy, attack):
    """The network answers in float32; a ball that holds nearly everything breaks every unit, by any search."""
    space = replace(unit_box(8), dtype="float64")
    case = Case(bumpy.deployed.network, space, model(5), bumpy.x.astype(np.float64), bumpy.y.tolist())
    found = run(attack, case, case.job(threat("linf", F(9, 10))), **LENGTH[attack])
    assert found.x.dtype == torch.float64
    assert int(found.offered.sum()) > 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("slope", [0.0, 1e-310, 1e-40])
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_no_slope_is_no_direction(dtype, slope, norm):
    """A radius of 8 over the least float is infinite, and 0 times that no number; lengths stay within the radius."""
    space = unit_box(4, cells=(Cell("integer", F(0), F(255), F(1)),), dtype=str(dtype).removeprefix("torch."))
    case = Case(nn.Linear(4, 2), space, model(2), np.full((2, 4), 100), [0, 0])
    ground = Terrain.of(case.job(threat(norm, F(8))).sets, 0, dtype)
    way = ground.ascent(ground.region.centre, torch.full((2, 4), slope, dtype=dtype))
    assert way.isfinite().all()
    assert (way.norm(p=int(norm[1]), dim=1) <= 8.001).all()


@pytest.mark.parametrize("attack", ["square", "decision_search"])
def test_a_metric_that_is_left_out_stops_no_search(attack):
    """Scores 4 a and 3: a goes from 1/2 to 1, at a cost of 1/2 where 1 is allowed, and at a length of 1/2 of 3/4."""
    space = replace(unit_box(2, features=("a", "b")), metrics=(Metric("m", (("a", F(1)), ("b", F(1)))),))
    case = linear([[4, 0], [0, 0]], [0, 3], space, [[0.5, 0.5]])
    allow = Both((Ball("metric", "px", F(1), metric="m"), Ball("l2", "px", F(3, 4))))
    found = run(attack, case, case.job(replace(threat(), allow=allow)), **LENGTH[attack])
    assert bool(found.offered.all())
