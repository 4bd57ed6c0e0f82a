"""Native searches where the worst case is known by hand: linear models, tiny sets."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
import torch
from backend_support import Case, model, resolved, threat, unit_box
from torch import nn

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.loading import load
from tmlang.backends.native.apgd import checkpoints
from tmlang.backends.native.losses import cross_entropy, dlr, loss_named, margin
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball, Both, Either, Goal, Mutable, Patch
from tmlang.meaning.values import Distance, Quantity, Symbol

ADAPTERS = {
    name: load("native", name) for name in ("apgd", "apgd_targeted", "pgd", "square", "fab_targeted", "enumerate")
}


def run(name, case, job, **arguments):
    adapter = ADAPTERS[name]
    job = replace(job, arguments=resolved(f"native.{name}", job, case.spec, **arguments))
    return adapter.certify(job) if name == "enumerate" else adapter.search(job)


def linear(weight, bias, space, x):
    """Two or more classes with scores ``W x + b``; labels are its own decisions."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(len(weight[0]), len(weight)))
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor(weight, dtype=torch.float32))
        net[1].bias.copy_(torch.tensor(bias, dtype=torch.float32))
    x = np.asarray(x, np.float32)
    case = Case(net, space, model(len(weight)), x, [0] * len(x))
    case.y = case.decisions(torch.from_numpy(x))
    return case


# --- the schedule and the losses ----------------------------------------------------


def test_checkpoints_are_those_of_the_paper():
    """p = 0, .22, .41, .57, .70, .80, .87, .93, .99: increments fall by .03 from .22 to .06."""
    assert checkpoints(100) == [0, 22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(10) == [0, 3, 5, 6, 7, 8, 9, 10]
    assert checkpoints(1) == [0, 1]


def test_losses_by_hand():
    scores = torch.tensor([[3.0, 1.0, 2.0, -1.0], [0.0, 4.0, 1.0, 2.0]])
    label, target = torch.tensor([0, 0]), torch.tensor([3, 2])
    assert margin(scores, label, None).tolist() == [-1, 4]
    assert margin(scores, label, target).tolist() == [-4, -3]
    assert dlr(scores, label, None).tolist() == pytest.approx([-1 / 2, 4 / 3])
    assert dlr(scores, label, target).tolist() == pytest.approx(
        [(-1 - 3) / (3 - (1 - 1) / 2), (1 - 0) / (4 - (1 + 0) / 2)]
    )
    rest = torch.logsumexp(scores, 1)
    assert torch.allclose(cross_entropy(scores, label, None), rest - scores[:, 0])
    assert torch.allclose(cross_entropy(scores, label, target), -(rest - torch.tensor([-1.0, 1.0])))


def test_the_ratio_does_not_see_shift_and_scale():
    scores = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(5)
    assert torch.allclose(dlr(scores, labels, None), dlr(7 * scores - 3, labels, None), atol=1e-5)


@pytest.mark.parametrize(("classes", "targeted"), [(2, False), (3, True)])
def test_the_ratio_needs_its_classes(classes, targeted):
    with pytest.raises(BackendRefusal, match="needs"):
        loss_named("dlr", classes, targeted=targeted)
    loss_named("dlr", classes + 1, targeted=targeted)


# --- linear models, whose worst case is a formula ----------------------------------------------------


def worst_margins(case, ball, free):
    """The least score difference of two classes over the ball and [0, 1]: every free coordinate as far as it may go in
    linf, the budget spent on the steepest ones first in l1 (a fractional knapsack)."""
    layer = case.deployed.network[1]
    w = (layer.weight[0] - layer.weight[1]).double().numpy()
    sign = np.where(case.y.numpy() == 0, 1.0, -1.0)
    x = case.x.reshape(len(case.x), -1).astype(float)
    clean = sign * (x @ w + float(layer.bias[0] - layer.bias[1]))
    result = []
    for row, s, start in zip(x, sign, clean, strict=True):
        room = np.where(s * w > 0, row, 1 - row) * free
        left = np.inf if ball.norm == "linf" else float(ball.radius)
        for j in np.argsort(-np.abs(w)):
            step = min(room[j], left, float(ball.radius))
            start, left = start - step * abs(w[j]), left - step
        result.append(start)
    return np.array(result)


@pytest.mark.parametrize("norm", ["linf", "l1"])
@pytest.mark.parametrize("attack", ["apgd", "pgd"])
@pytest.mark.parametrize("masked", [False, True])
def test_exactly_the_breakable_are_broken(norm, attack, masked):
    rng = np.random.default_rng(1)
    space = unit_box(6, features=tuple("abcdef"))
    weight = rng.normal(size=(2, 6))
    case = linear(weight, [0.0, -weight[0].sum() / 2 + weight[1].sum() / 2], space, rng.random((60, 6)))
    spec = threat(norm, F(1, 10) if norm == "linf" else F(1, 4))
    free = np.ones(6)
    if masked:
        spec = replace(spec, mutable=Mutable("features", tuple((n, "any") for n in "abd")))
        free = np.array([1, 1, 0, 1, 0, 0.0])
    worst = worst_margins(case, spec.allow, free)
    job = case.job(spec)
    found = run(attack, case, job, steps=F(60), restarts=F(2), loss=Symbol("margin"))
    clear = np.abs(worst) > 2e-3
    assert clear.sum() > 40
    assert (worst < 0)[clear].any()
    assert (worst > 0)[clear].any()
    assert np.array_equal(found.offered.numpy()[clear], (worst < 0)[clear])
    at = found.offered.numpy()
    assert job.sets.rows(np.flatnonzero(at)).inside(found.x[found.offered].numpy()).all()
    assert (case.decisions(found.x)[found.offered] != case.y[found.offered]).all()
    assert torch.equal(found.x[~found.offered], job.x[~found.offered])


def test_l2_reaches_the_dual_norm():
    """In the middle of the box the worst margin is the clean one minus r |w|."""
    rng = np.random.default_rng(2)
    space = unit_box(5, cells=(Cell("real", F(-9), F(9)),))
    weight = rng.normal(size=(2, 5))
    case = linear(weight, [0, 0], space, rng.normal(size=(80, 5)))
    w = weight[0] - weight[1]
    clean = np.abs(case.x @ w)
    worst = clean - 0.5 * np.linalg.norm(w)
    for attack in ("apgd", "pgd"):
        found = run(attack, case, case.job(threat("l2", F(1, 2))), steps=F(40), restarts=F(1))
        clear = np.abs(worst) > 1e-2
        assert np.array_equal(found.offered.numpy()[clear], (worst < 0)[clear])


def test_one_radius_per_feature_and_levels():
    """Radii 1/4 and 1/16 on steps of 1/16 around the middle: |w| = (1, 3) gives a fall of 1/4 + 3/16 and no more."""
    cell = Cell("lattice", F(0), F(1), F(1, 16))
    space = unit_box(2, cells=(cell, cell), layout="each", features=("a", "b"))
    ball = Ball("linf", "px", None, (("a", F(1, 4)), ("b", F(1, 16))), "feature")
    for gap, breaks in ((F(7, 16) - F(1, 100), True), (F(7, 16) + F(1, 100), False)):
        bias = float(gap) + 2.0
        case = linear([[0, 0], [1, 3]], [bias, 0.0], space, [[0.5, 0.5]])
        found = run("apgd", case, case.job(replace(threat(), allow=ball)), steps=F(10))
        assert bool(found.offered[0]) is breaks
        if breaks:
            assert found.x.tolist() == [[0.75, 0.5625]]


def test_a_targeted_threat_goes_for_its_target():
    case = linear([[0, 0], [1, 0], [0, 1]], [0.2, 0, 0], unit_box(2), [[0.1, 0.1]])
    spec = replace(threat("linf", F(1, 5)), goal=Goal("class", "2"))
    found = run("apgd", case, case.job(spec, target=[2]), steps=F(20))
    assert case.decisions(found.x).tolist() == [2]
    nearer = replace(spec, allow=Ball("linf", "px", F(1, 20)))
    assert not run("apgd", case, case.job(nearer, target=[2]), steps=F(20)).offered[0]


def test_a_union_is_searched_branch_by_branch():
    """Only the l1 branch holds a failing input: it may spend 0.3 on one number."""
    case = linear([[0, 0, 0], [1, 0, 0]], [0.6, 0], unit_box(3), [[0.4, 0.4, 0.4]])
    union = Either((Ball("linf", "px", F(1, 10)), Ball("l1", "px", F(3, 10))), ("flat", "spiky"))
    job = case.job(replace(threat(), allow=union))
    found = run("pgd", case, job, steps=F(40))
    assert found.offered.tolist() == [True]
    assert job.sets.member(found.x.numpy())[0].branch == "spiky"
    both = replace(threat(), allow=Both(union.parts))
    assert not run("pgd", case, case.job(both), steps=F(40)).offered[0]


def test_a_patch_finds_its_place():
    """One pixel decides; a patch of two by two at any place reaches it, one in the other corner does not."""
    weight = np.zeros((2, 16))
    weight[1, 14] = 4
    case = linear(weight, [1, 0], unit_box(4, 4), np.full((1, 4, 4), 0.1))
    anywhere = run("pgd", case, case.job(replace(threat(), allow=Patch("rectangle", 2, 2))), steps=F(40))
    assert anywhere.offered.tolist() == [True]
    fixed = run("pgd", case, case.job(replace(threat(), allow=Patch("rectangle", 2, 2, (0, 0)))), steps=F(40))
    assert fixed.offered.tolist() == [False]


@pytest.mark.parametrize(("shape", "changes"), [((6,), {}), ((2, 3), {}), ((2, 1, 3), {"channel_axis": 0})])
def test_square_needs_scores_only_and_takes_any_layout(shape, changes):
    """In linf the worst corner of a linear model is reached by windows of one coordinate."""
    rng = np.random.default_rng(4)
    weight = rng.normal(size=(2, 6))
    space = unit_box(*shape, **changes)
    case = linear(weight, [0, (weight[0] - weight[1]).sum() / 2], space, rng.uniform(0.2, 0.8, (40, *shape)))
    spec = threat("linf", F(1, 10))
    worst = worst_margins(case, spec.allow, np.ones(6))
    job = case.job(spec, level="scores")
    found = run("square", case, job, queries=F(800), p_init=F(1, 2))
    clear = np.abs(worst) > 1e-2
    assert 5 < (worst < 0)[clear].sum() < clear.sum() - 5
    assert np.array_equal(found.offered.numpy()[clear], (worst < 0)[clear])
    assert int(job.oracle.gradients.sum()) == 0


def test_windows_shrink_as_published():
    from tmlang.backends.native.square import Frame, share

    assert [share(0.8, k, 10_000) for k in (10, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001)] == [
        0.8 / 2**h for h in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    ]  # fmt: skip
    assert share(0.8, 6, 5_000) == 0.4
    frame = Frame((0, 1, 2), (3, 32, 32), (3, 32, 32))
    assert frame.window(0.8) == (29, 28)
    assert frame.window(0.0001) == (1, 1)
    assert Frame((0,), (1, 1, 20), (20,)).window(0.25) == (1, 5)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_nearest_failure_of_a_linear_model(norm):
    """Without a radius and with edges far away the least distance is the margin over the dual norm of w: |w|_1 for
    linf, |w|_2, max |w| for l1 (Hoelder)."""
    rng = np.random.default_rng(5)
    space = unit_box(5, cells=(Cell("real", F(-9), F(9)),))
    weight = rng.normal(size=(2, 5))
    case = linear(weight, [0, 0], space, rng.normal(size=(20, 5)))
    w = weight[0] - weight[1]
    dual = {"linf": np.abs(w).sum(), "l2": np.linalg.norm(w), "l1": np.abs(w).max()}[norm]
    job = case.job(replace(threat(), allow=None, minimize=(norm, "px")))
    found = run("fab_targeted", case, job, steps=F(15))
    assert found.offered.all()
    assert (case.decisions(found.x) != case.y).all()
    best = np.abs(case.x @ w) / dual
    distance = job.sets.distances(found.x.numpy())["own"]
    assert (distance >= best * (1 - 1e-4)).all()
    assert np.median(distance / best) < 1.01


def test_the_nearest_failure_at_the_edge_of_the_box():
    """One coordinate has no room, one is frozen: x + y + z must exceed 1.8 and only y may still rise by 0.3 > 0.2."""
    space = unit_box(3, features=("x", "y", "z"))
    case = linear([[0, 0, 0], [1, 1, 1]], [1.8, 0], space, [[1.0, 0.3, 0.3]])
    spec = replace(
        threat(), allow=None, minimize=("linf", "px"), mutable=Mutable("features", (("x", "any"), ("y", "any")))
    )
    found = run("fab_targeted", case, case.job(spec), steps=F(10))
    assert found.x[0, 0] == 1
    assert found.x[0, 2] == pytest.approx(0.3)
    assert found.x[0, 1] == pytest.approx(0.5, abs=2e-3)


def test_square_in_l2_and_fab_find_what_the_gradient_finds():
    """The distance to each boundary of a linear model is known; who is clearly within reach of the radius 1 breaks."""
    rng = np.random.default_rng(6)
    space = unit_box(4, 4, cells=(Cell("real", F(-9), F(9)),))
    weight = rng.normal(size=(4, 16)) / 4
    case = linear(weight, [0] * 4, space, rng.normal(size=(40, 4, 4)))
    scores = case.x.reshape(40, -1) @ weight.T
    y = case.y.numpy()
    others = np.array(
        [
            [(scores[i, y[i]] - scores[i, j]) / np.linalg.norm(weight[y[i]] - weight[j]) for j in range(4) if j != y[i]]
            for i in range(40)
        ]
    )
    need = others.min(axis=1)
    tries = {"fab_targeted": (0.01, {"steps": F(20)}), "apgd_targeted": (0.01, {"steps": F(40)})}
    tries["square"] = (0.25, {"queries": F(1500)})
    for attack, (slack, arguments) in tries.items():
        found = run(attack, case, case.job(threat("l2", F(1))), **arguments).offered.numpy()
        assert found[need < 1 - slack].all(), attack
        assert not found[need > 1].any()
        assert 5 < found.sum() < 35


# --- mechanics ----------------------------------------------------


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
    "fab_targeted": {"steps": F(8)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("attack", "norm"),
    [(a, n) for a in LENGTH for n in ("linf", "l2", "l1") if (a, n) != ("square", "l1")],
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
    assert (job.oracle.forwards[~found.offered] == full).all()
    assert (job.oracle.forwards[found.offered] < full).any()
    assert (job.oracle.gradients[~found.offered] == (2 * 4 * 10 if attack == "apgd_targeted" else 2 * 10)).all()


@pytest.mark.parametrize("limit", [0, 1, 7])
@pytest.mark.parametrize("attack", LENGTH)
def test_a_query_limit_is_kept(bumpy, attack, limit):
    job = bumpy.job(threat("linf", F(1, 20)), limit=limit)
    found = run(attack, bumpy, job, **LENGTH[attack], restarts=F(2))
    assert int(job.oracle.queries.max()) <= limit
    assert found.errors == (None,) * 24
    assert (job.oracle.queries[~found.offered] == limit).all()


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


# --- enumeration ----------------------------------------------------


def lattice_case():
    cell = Cell("lattice", F(0), F(1), F(1, 8))
    return linear([[0, 0], [1, 1]], [1.0, 0.0], unit_box(2, cells=(cell,)), [[0.25, 0.25], [0.5, 0.5], [0.625, 0.25]])


def test_enumeration_is_the_answer():
    """Class 1 iff a + b > 1 (ties go to 0): around (1/4, 1/4) 1/8 a side reaches 3/4; around (5/8, 1/4) 9/8."""
    case = lattice_case()
    verdicts = run("enumerate", case, case.job(threat("linf", F(1, 8))), at_most=F(9))
    assert verdicts.verdict == ("certified", "broken", "broken")
    assert verdicts.sizes == (9, 9, 9)
    assert verdicts.candidates.offered.tolist() == [False, True, True]
    assert (verdicts.candidates.x[1:].sum(dim=1) > 1).all()
    assert (verdicts.gap, verdicts.gap_kind) == (0.0, "proved")


def test_a_larger_set_stays_unknown():
    case = lattice_case()
    verdicts = run("enumerate", case, case.job(threat("linf", F(1, 8))), at_most=F(8))
    assert verdicts.verdict == ("unknown",) * 3
    assert "more than 8" in verdicts.messages[0]
    real = linear([[0, 0], [1, 1]], [1.0, 0.0], unit_box(2), [[0.25, 0.25]])
    assert run("enumerate", real, real.job(threat("linf", F(1, 8)))).verdict == ("unknown",)


def test_an_input_without_a_decision_leaves_the_unit_open():
    class Hole(nn.Module):
        def forward(self, x):
            z = torch.stack([1 - x.sum(1), x.sum(1) - 1], 1)
            return torch.where((x == 0.375).all(1, keepdim=True), torch.nan, z)

    case = lattice_case()
    holed = Case(Hole(), case.space, case.spec, case.x, case.y.tolist())
    verdicts = run("enumerate", holed, holed.job(threat("linf", F(1, 8))))
    assert verdicts.verdict[0] == "error"
    assert verdicts.verdict[1:] == ("broken", "broken")


def test_a_deadline_before_the_end_is_a_timeout():
    case = lattice_case()
    job = replace(case.job(threat("linf", F(1, 8))), deadline=time.monotonic() - 1)
    assert run("enumerate", case, job).verdict == ("timeout",) * 3
