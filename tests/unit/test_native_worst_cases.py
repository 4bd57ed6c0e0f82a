"""Native searches where the worst case is known: linear models, tiny sets."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
import torch
from backend_support import Case, model, threat, unit_box
from native_support import linear, run, worst_margins

from tmlang.backends.contract import BackendRefusal
from tmlang.meaning.models import Network, RejectWhen
from tmlang.meaning.spaces import Cell, Metric, Ref, Relation
from tmlang.meaning.threats import Ball, Both, Either, Goal, Mutable, Patch, Rejected
from tmlang.meaning.values import Distance, Symbol


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
    """One pixel decides; a patch of two by two at any place reaches it, one in the other corner does not. A walk that
    starts with its patch elsewhere stays there, so several start."""
    weight = np.zeros((2, 16))
    weight[1, 14] = 4
    case = linear(weight, [1, 0], unit_box(4, 4), np.full((1, 4, 4), 0.1))
    free = case.job(replace(threat(), allow=Patch("rectangle", 2, 2)))
    anywhere = run("pgd", case, free, steps=F(40), restarts=F(20))
    assert anywhere.offered.tolist() == [True]
    fixed = run("pgd", case, case.job(replace(threat(), allow=Patch("rectangle", 2, 2, (0, 0)))), steps=F(40))
    assert fixed.offered.tolist() == [False]
    there = case.job(replace(threat(), allow=Patch("rectangle", 2, 2, (2, 2))))
    stepped = run("pgd", case, there, steps=F(40), step_size=Distance(F(1, 20), "px"))
    assert stepped.offered.tolist() == [True]


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


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_square_in_l1_spends_the_budget_where_it_buys_most(shape):
    """In l1 the worst point of a linear model within the box is a fractional knapsack; a search from scores alone finds
    most of what it breaks, and nothing beyond it."""
    rng = np.random.default_rng(14)
    weight = rng.normal(size=(2, 6))
    bias = [0, (weight[0] - weight[1]).sum() / 2]
    case = linear(weight, bias, unit_box(*shape), rng.uniform(0.1, 0.9, (60, *shape)))
    spec = threat("l1", F(1, 2))
    worst = worst_margins(case, spec.allow, np.ones(6))
    job = case.job(spec, level="scores")
    found = run("square", case, job, queries=F(1000), p_init=F(1, 2)).offered.numpy()
    assert found[worst < -0.1].all()
    assert not found[worst > 1e-5].any()
    assert 5 < (worst < -0.1).sum() < (worst < 0).sum() < 50
    assert int(job.oracle.gradients.sum()) == 0


@pytest.mark.parametrize(
    ("schedule", "halvings"), [(10_000, [0] * 10 + [1]), (None, [4, 5, 6, 6, 7, 7, 7, 8, 8, 9, 9])]
)
def test_windows_shrink_over_the_schedule(schedule, halvings, monkeypatch):
    """Of 10,000 rows they halve behind the 10th. The rows of a run of 12 stand for the 833rd, 1,667th, … 9,167th."""
    from tmlang.backends.native.square import Frame

    windows, seen = Frame.window, []
    monkeypatch.setattr(Frame, "window", lambda self, share: seen.append(share) or windows(self, share))
    case = linear(np.ones((2, 6)), [9.0, 0.0], unit_box(6), np.full((1, 6), 0.5))
    over = {} if schedule is None else {"schedule": F(schedule)}
    run("square", case, case.job(threat("linf", F(1, 10)), level="scores"), queries=F(12), p_init=F(4, 5), **over)
    assert seen == [0.8 / 2**h for h in halvings]


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


@pytest.mark.parametrize("attack", ["fab", "fab_targeted"])
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_nearest_failure_of_a_linear_model(norm, attack):
    """Without a radius and with edges far away the least distance is the margin over the dual norm of w: |w|_1 for
    linf, |w|_2, max |w| for l1 (Hoelder)."""
    rng = np.random.default_rng(5)
    space = unit_box(5, cells=(Cell("real", F(-9), F(9)),))
    weight = rng.normal(size=(2, 5))
    case = linear(weight, [0, 0], space, rng.normal(size=(20, 5)))
    w = weight[0] - weight[1]
    dual = {"linf": np.abs(w).sum(), "l2": np.linalg.norm(w), "l1": np.abs(w).max()}[norm]
    job = case.job(replace(threat(), allow=None, minimize=(norm, "px")))
    found = run(attack, case, job, steps=F(15))
    assert found.offered.all()
    assert (case.decisions(found.x) != case.y).all()
    best = np.abs(case.x @ w) / dual
    distance = job.sets.distances(found.x.numpy())["own"]
    assert (distance >= best * (1 - 1e-4)).all()
    assert np.median(distance / best) < 1.01


def test_each_step_goes_to_the_class_whose_boundary_looks_nearest():
    """From x = 0 the planes where classes 1 and 2 take over lie at 1 and 2.01 in l2. In l1, where a step moves one
    coordinate alone, with another bias: at 1.41 and 1.21. One step of a linear model goes to the nearer one."""
    space = unit_box(3, cells=(Cell("real", F(-9), F(9)),))
    weight = [[0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0]]
    for norm, bias, nearest in (("l2", [2**0.5, 0, -0.6, -2], 1), ("l1", [2**0.5, 0, 0.2, -2], 2)):
        case = linear(weight, bias, space, [[0.0, 0.0, 0.0]])
        job = case.job(replace(threat(), allow=None, minimize=(norm, "px")))
        found = run("fab", case, job, steps=F(1))
        assert case.decisions(found.x).tolist() == [nearest]
        assert int(job.oracle.gradients.sum()) == 4
        assert int(job.oracle.spent.sum()) == 2


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
    tries["fab"] = (0.01, {"steps": F(20)})
    tries["square"] = (0.25, {"queries": F(1500)})
    for attack, (slack, arguments) in tries.items():
        found = run(attack, case, case.job(threat("l2", F(1))), **arguments).offered.numpy()
        assert found[need < 1 - slack].all(), attack
        assert not found[need > 1].any()
        assert 5 < found.sum() < 35


def test_decisions_are_enough_for_a_corner():
    """In linf the corner that the weights point to is the worst; turning coordinate after coordinate gets there."""
    rng = np.random.default_rng(7)
    weight = rng.normal(size=(2, 6))
    case = linear(weight, [0, (weight[0] - weight[1]).sum() / 2], unit_box(6), rng.uniform(0.2, 0.8, (40, 6)))
    spec = threat("linf", F(1, 10))
    worst = worst_margins(case, spec.allow, np.ones(6))
    found = run("decision_search", case, case.job(spec, level="decisions"), steps=F(120)).offered.numpy()
    clear = np.abs(worst) > 1e-2
    assert 5 < (worst < 0)[clear].sum() < clear.sum() - 5
    assert np.array_equal(found[clear], (worst < 0)[clear])


def test_blocks_are_turned_from_coarse_to_fine():
    from tmlang.backends.native.decision_search import turn

    turned = [np.flatnonzero((turn(k, 4) < 0)[0].numpy()).tolist() for k in range(8)]
    assert turned == [[], [0, 1, 2, 3], [0, 1], [2, 3], [0], [1], [2], [3]]
    assert torch.equal(turn(8, 4), turn(1, 4))


@pytest.mark.parametrize("seed", range(8))
def test_one_feature_at_a_time_within_relations(seed):
    """Categories, counts, a one-hot group, a relation and a metric; the whole set is listed to see what can fail."""
    rng = np.random.default_rng(seed)
    count, flag = Cell("integer", F(0), F(4), F(1)), Cell("integer", F(0), F(1), F(1))
    kind = Cell("category", F(0), F(2), F(1), categories=("a", "b", "c"))
    names = ("few", "many", "kind", "u", "v", "w")
    space = unit_box(
        6, cells=(count, count, kind, flag, flag, flag), layout="each", features=names, one_hot=(("u", "v", "w"),),
        relations=(Relation(Ref("few"), "<=", Ref("many"), text="few <= many"),),
        metrics=(Metric("m", tuple((n, F(1, 2) if n == "kind" else F(1, 4)) for n in names)),),
    )  # fmt: skip
    few = rng.integers(0, 3, 12)
    choice = np.eye(3, dtype=int)[rng.integers(0, 3, 12)]
    x = np.column_stack([few, few + rng.integers(0, 3, 12), rng.integers(0, 3, 12), choice])
    weight = rng.normal(size=(2, 6))
    case = linear(weight, [0, float((weight[0] - weight[1]) @ x.mean(axis=0))], space, x)
    job = case.job(replace(threat(), allow=Ball("metric", "px", F(1), metric="m")))
    found = run("coordinates", case, job, restarts=F(4))
    truth = []
    for i in range(12):
        members = job.sets.enumerate(i, 10_000)
        assert (members[:, 0] <= members[:, 1]).all()
        truth.append(bool((case.decisions(torch.from_numpy(members)) != case.y[i]).any()))
    assert job.sets.inside(found.x.numpy()).all()
    assert (case.decisions(found.x) != case.y)[found.offered].all()
    assert sum(found.offered.tolist()) >= 0.8 * sum(truth)


def test_a_branch_that_a_method_does_not_know_is_left_out():
    case = linear([[0, 0, 0], [1, 0, 0]], [0.5, 0], unit_box(3), [[0.4, 0.4, 0.4]])
    spiky, flat = Ball("l1", "px", F(3, 10)), Ball("linf", "px", F(3, 20))
    job = case.job(replace(threat(), allow=Either((spiky, flat), ("spiky", "flat"))))
    found = run("decision_search", case, job)
    assert found.offered.tolist() == [True]
    assert "flat" in job.sets.member(found.x.numpy())[0].branch
    with pytest.raises(BackendRefusal, match="linf and l2"):
        run("decision_search", case, case.job(replace(threat(), allow=spiky)))


class Detector(torch.nn.Module):
    """Class 1 above a = 1/2, with a second head a + b."""

    def forward(self, x):
        return {"logits": torch.stack([torch.zeros(len(x)), 4 * (x[:, 0] - 0.5)], 1), "sum": x.sum(1, keepdim=True)}


def test_a_detector_is_evaded():
    """Around (0.4, 0.4) within 0.15: class 1 needs a > 0.5, and acceptance a + b <= 0.78, so b must fall below 0.28."""
    spec = model(
        2, network=Network("torch", outputs=(("logits", 2), ("sum", 1))), reject=(RejectWhen("sum", ">", F(78, 100)),)
    )
    case = Case(Detector(), unit_box(2), spec, np.full((6, 2), 0.4, np.float32), [0] * 6)
    safe = threat("linf", F(15, 100), rejected=Rejected("safe"))
    found = run("apgd", case, case.job(safe), steps=F(30), loss=Symbol("reject_aware"))
    assert found.offered.all()
    assert (found.x[:, 0] > 0.5).all()
    assert (found.x.sum(1) <= 0.78).all()
    blind = run("apgd", case, case.job(safe), steps=F(30), loss=Symbol("ce"))
    assert not blind.offered.all()
    nearer = threat("linf", F(9, 100), rejected=Rejected("fail"))
    assert run("apgd", case, case.job(nearer), steps=F(30), loss=Symbol("reject_aware")).offered.all()


@pytest.mark.parametrize("attack", ["apgd", "pgd"])
def test_unlike_units_are_compared_as_the_metric_does(attack):
    """Degrees in the hundreds, shares of one and a free switch: the budget 1 goes first to what buys most margin per
    unit of the metric (a fractional knapsack), each feature within its range."""
    rng = np.random.default_rng(11)
    ends, prices = np.array([900.0, 1.0, 50.0, 4.0]), np.array([1 / 100, 3, 1 / 8, 0])
    names = ("heat", "share", "load", "free")
    cells = tuple(Cell("real", F(0), F(int(e))) for e in ends)
    weights = tuple((n, F(p).limit_denominator(1000)) for n, p in zip(names[:3], prices, strict=False))
    space = unit_box(4, cells=cells, layout="each", features=names, metrics=(Metric("m", weights),))
    x = rng.random((60, 4)) * ends
    slope = np.array([1 / 120, 1.3, 1 / 11, 1 / 20]) * rng.choice((-1, 1), 4)
    case = linear([[0] * 4, slope], [float(x.mean(axis=0) @ slope), 0.0], space, x)
    sign = np.where(case.y.numpy() == 0, 1.0, -1.0)
    best = []
    for row, s in zip(case.x.astype(float), sign, strict=True):
        margin, left = s * (float(x.mean(axis=0) @ slope) - row @ slope), 1.0
        room = np.where(s * slope > 0, ends - row, row)
        for j in np.argsort(-np.abs(slope) / np.maximum(prices, 1e-12)):
            step = min(room[j], left / prices[j] if prices[j] else np.inf)
            margin, left = margin - step * abs(slope[j]), left - step * prices[j]
        best.append(margin)
    clear, worst = np.abs(best) > 5e-3, np.array(best)
    assert 5 < (worst < 0)[clear].sum() < clear.sum() - 5
    job = case.job(replace(threat(), allow=Ball("metric", "px", F(1), metric="m")))
    found = run(attack, case, job, steps=F(60), restarts=F(2), loss=Symbol("margin"))
    assert np.array_equal(found.offered.numpy()[clear], (worst < 0)[clear])
    assert job.sets.inside(found.x.numpy()).all()
