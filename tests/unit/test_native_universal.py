"""One perturbation for all: linear models, where the best one is known, and candidates that only pretend."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
import torch
from backend_support import search, threat, unit_box
from native_support import linear, run

from tmlang.backends.contract import BackendRefusal, Fit
from tmlang.backends.shared import is_shared
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Access, Ball, Both, Mutable, Patch, Transform
from tmlang.meaning.values import Distance, Quantity


def shared_job(case, fitted, spec):
    """``case`` is judged, ``fitted`` fitted on."""
    spec = replace(spec, perturbation="universal", fitted_on="fit")
    there = fitted.job(spec)
    return replace(case.job(spec), fit=Fit(there.oracle, there.sets, there.x, there.y, None, 3))


def cases(space, slope, bias, rows):
    """Pictures of class 0 alone: to fit on, and to judge."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 17, (6 * rows, *space.shape)) / 16
    x = x[(x * slope).reshape(len(x), -1).sum(axis=1) < bias - 0.05]
    weight = [[0] * slope.size, slope.reshape(-1)]
    return [linear(weight, [float(bias), 0], space, part) for part in (x[:rows], x[rows : 2 * rows])]


@pytest.mark.parametrize("kind", ["linf", "masked", "levels"])
def test_the_best_change_of_a_linear_model_is_found(kind):
    """All examples are of class 0, so the best change of all is the radius times the signs of the slope; where an
    example has no room it is cut off."""
    rng = np.random.default_rng(4)
    slope, radius = rng.normal(size=12), F(1, 8)
    cell = Cell("lattice", F(0), F(1), F(1, 16)) if kind == "levels" else Cell("real", F(0), F(1))
    names = tuple("abcdefghijkl")
    space = unit_box(12, features=names, cells=(cell,) * 12, layout="each")
    free = np.ones(12) if kind != "masked" else np.array([1, 0] * 6)
    spec = threat("linf", radius)
    if kind == "masked":
        spec = replace(spec, mutable=Mutable("features", tuple((n, "any") for n in names[::2])))
    fitted, judged = cases(space, slope, slope.sum() / 2 + 0.4, 40)
    x = judged.x.astype(float)
    best = np.clip(x + float(radius) * np.sign(slope) * free, 0, 1)
    margin = best @ slope - (slope.sum() / 2 + 0.4)
    clear = np.abs(margin) > 5e-3
    assert 3 < (margin > 0)[clear].sum() < clear.sum() - 3
    job = shared_job(judged, fitted, spec)
    found = run("pgd", judged, job, steps=F(40), step_size=Distance(F(1, 40), "px"))
    assert np.array_equal((judged.decisions(found.x) == 1).numpy()[clear], (margin > 0)[clear])
    assert job.sets.inside(found.x.numpy()).all()
    assert is_shared(job.sets, found.x.numpy())


def test_a_universal_patch_takes_the_best_place():
    rng = np.random.default_rng(6)
    slope = rng.normal(size=(4, 5))
    bias = slope.sum() / 2 + 2.4
    fitted, judged = cases(unit_box(4, 5), slope, bias, 30)
    gains = {}
    for r in range(3):
        for c in range(4):
            pasted = judged.x.astype(float).copy()
            pasted[:, r : r + 2, c : c + 2] = slope[r : r + 2, c : c + 2] > 0
            gains[r, c] = int(((pasted * slope).sum(axis=(1, 2)) > bias).sum())
    job = shared_job(judged, fitted, replace(threat(), allow=Patch("rectangle", 2, 2)))
    found = run("patch_pgd", judged, job, steps=F(30), step_size=Distance(F(1, 10), "px"), places=F(12))
    broken = int((judged.decisions(found.x) == 1).sum())
    assert 0 < max(gains.values()) < 30
    assert broken >= max(gains.values()) - 2  # the place is chosen by the examples of the fit
    assert job.sets.inside(found.x.numpy()).all()
    assert is_shared(job.sets, found.x.numpy())


def test_in_l2_the_change_points_along_the_slope():
    slope = np.array([3.0, -4.0])
    space = unit_box(2, cells=(Cell("real", F(-9), F(9)),))
    x = [[0.0, t] for t in np.linspace(0.1, 2, 20)]
    case = linear([[0, 0], slope], [0, 0], space, x)  # class 0 where 3 a < 4 b; the distance is 4 t / 5
    job = shared_job(case, case, threat("l2", F(1)))
    found = run("pgd", case, job, steps=F(30), step_size=Distance(F(1, 10), "px"))
    need = np.array([4 * t / 5 for _, t in x])
    broken = (case.decisions(found.x) == 1).numpy()
    assert broken[need < 0.97].all()
    assert not broken[need > 1.0].any()


def test_candidates_of_several_perturbations_are_told_apart():
    case = linear([[0] * 3, [1] * 3], [1, 0], unit_box(3), np.array([[0.5, 0.5, 0.5], [0.25, 0.9, 0.5]]))
    sets = case.job(threat("linf", F(1, 4))).sets
    change = np.array([0.125, 0.25, -0.0625], np.float32)
    one = np.minimum(sets.originals + change, sets.upper)
    assert is_shared(sets, one)  # the second example is cut off at 1
    two = one.copy()
    two[1, 0] -= 0.01
    assert not is_shared(sets, two)
    patched = case.job(replace(threat(), allow=Ball("linf", "px", F(1)))).sets
    pasted = patched.originals.copy()
    pasted[:, 1:] = [0.75, 0.125]
    assert is_shared(patched, pasted)
    pasted[0, 1] = 0.5
    assert not is_shared(patched, pasted)


def test_without_examples_to_fit_on_it_refuses():
    case = linear([[0] * 3, [1] * 3], [1, 0], unit_box(3), np.full((2, 3), 0.25))
    spec = threat("linf", F(1, 4), perturbation="universal", fitted_on="fit")
    with pytest.raises(BackendRefusal, match="fitted on"):
        run("pgd", case, case.job(spec))
    few, there = case.job(spec), case.job(spec, limit=3)
    few = replace(few, fit=Fit(there.oracle, there.sets, there.x, there.y, None, 0))
    with pytest.raises(BackendRefusal, match="4 queries"):
        run("pgd", case, few)


@pytest.mark.parametrize("limit", [4, 5, 7, 12, 30])
def test_the_limit_is_of_every_fitting_example_and_nobody_is_asked_about_the_judged(limit):
    """20 steps towards the corner of the box; four looks are one step of a fourth, which is not enough."""
    space = unit_box(3)
    fitted, judged = (linear([[0] * 3, [1] * 3], [1.6, 0], space, np.full((n, 3), 0.4)) for n in (150, 4))
    spec = threat("linf", F(1, 4), access=Access("white_box", queries=limit))
    job = shared_job(judged, fitted, spec)
    found = run("pgd", judged, job, steps=F(20), step_size=Distance(F(1, 16), "px"))
    assert job.fit is not None
    assert int(job.fit.oracle.queries.max()) <= limit
    assert int(job.oracle.queries.max()) == 0
    failing = (judged.decisions(found.x) == 1).all()
    assert bool(failing) == (limit >= 7)  # 3 * 0.4 + 3 k / 16 > 1.6 takes k = 3 steps


def test_places_share_the_limit():
    rng = np.random.default_rng(6)
    slope = rng.normal(size=(4, 5))
    fitted, judged = cases(unit_box(4, 5), slope, slope.sum() / 2 + 2.4, 30)
    spec = replace(threat(access=Access("white_box", queries=50)), allow=Patch("rectangle", 2, 2))
    job = shared_job(judged, fitted, spec)
    found = run("patch_pgd", judged, job, steps=F(30), step_size=Distance(F(1, 10), "px"), places=F(12))
    assert job.fit is not None
    assert 40 <= int(job.fit.oracle.queries.max()) <= 50  # four for each place at least
    assert bool(found.offered.any())


def test_the_fit_depends_on_its_seed_and_not_on_the_judged():
    case = linear([[0] * 3, [1] * 3], [1.6, 0], unit_box(3), np.full((4, 3), 0.5))
    job = shared_job(case, case, threat("linf", F(1, 4), perturbation="universal", fitted_on="fit"))
    alone = replace(job, sets=job.sets.rows([2]), x=job.x[2:3], y=job.y[2:3], seeds=job.seeds[2:3])
    assert torch.equal(run("pgd", case, job).x[2:3], run("pgd", case, alone).x)


# --- pictures that a transform makes ---------------------------------------------------------------------------------


def dots(*places):
    """Strips of five pixels with a dot at a place (or at several); class 1 where the fourth pixel is bright."""
    x = np.zeros((len(places), 1, 1, 5), np.float32)
    for row, place in zip(x, places, strict=True):
        row[0, 0, place] = 1
    space = replace(unit_box(1, 1, 5), channel_axis=0)
    return linear([[0] * 5, [0, 0, 0, 1, 0]], [0.5, 0], space, x)


def shift(step=None):
    return Transform((("translate", Quantity(F(2), "px")),), "bilinear", F(0), () if step is None else (F(step),))


STRIPS = {
    "transform_grid": ({"values": F(5)}, shift(1)),
    "transform_pgd": ({"steps": F(12), "restarts": F(6)}, shift()),
}


@pytest.mark.parametrize("name", list(STRIPS))
def test_one_shift_is_fitted_and_applied_to_all(name):
    """Five fitting dots take one pixel to the right, three take two: one it is, whatever the judged would like."""
    arguments, allow = STRIPS[name]
    fitted, judged = dots(2, 2, 2, 2, 2, 1, 1, 1), dots(1, 1, 2, 4, 1)
    job = shared_job(judged, fitted, replace(threat(), allow=allow))
    found = search(f"native.{name}", judged, job, **arguments)
    assert (judged.decisions(found.x) == 1).tolist() == [False, False, True, False, False]
    assert len(np.unique(found.theta.numpy(), axis=0)) == 1
    assert 0.5 < float(found.theta[0, 1]) < 1.5
    assert job.sets.inside(found.x.numpy(), found.theta.numpy())[found.offered.numpy()].all()
    assert is_shared(job.sets, found.x.numpy(), found.theta.numpy())
    assert int(job.oracle.queries.max()) == 0


@pytest.mark.parametrize("name", list(STRIPS))
def test_who_leaves_the_ball_is_not_attacked(name):
    """A shift of one dot changes two pixels, of two dots that are apart four."""
    arguments, _ = STRIPS[name]
    fitted, judged = dots(2, 2, [0, 2]), dots(2, [0, 2])
    both = Both((shift(1), Ball("l0", "px", F(2))))
    job = shared_job(judged, fitted, replace(threat(), allow=both))
    found = search(f"native.{name}", judged, job, **arguments)
    assert found.offered.tolist() == [True, False]
    assert (judged.decisions(found.x) == 1).tolist() == [True, False]


def test_under_a_limit_the_least_shifts_are_tried():
    fitted, judged = dots(2, 2, 1, 1, 1), dots(2, 1)
    for limit, expected in ((25, [False, True]), (9, [True, False])):  # 9 points up to one pixel, 25 up to two
        spec = replace(threat(access=Access("decisions", queries=limit)), allow=shift(1))
        job = shared_job(judged, fitted, spec)
        found = search("native.transform_grid", judged, job, values=F(5))
        assert (judged.decisions(found.x) == 1).tolist() == expected
        assert job.fit is not None
        assert int(job.fit.oracle.queries.max()) == limit


def test_parameters_of_several_shifts_are_told_apart():
    case = dots(2, 1)
    sets = case.job(replace(threat(), allow=shift(1))).sets
    one, two, none = [0.0, 1.0], [0.0, 2.0], [np.nan, np.nan]
    assert is_shared(sets, sets.originals, np.array([one, one]))
    for other in (two, none):
        assert not is_shared(sets, sets.originals, np.array([one, other]))
