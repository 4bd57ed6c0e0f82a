"""Who follows what nature draws: searches that go by the mean of several draws, and everybody else by name refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import pytest
import torch
from backend_support import digits, search, threat
from conformance_support import method, rows

from tmlang.backends.best import Best
from tmlang.backends.drawn import DrawnOracle
from tmlang.backends.failure import Failure
from tmlang.backends.nature import Scene
from tmlang.meaning.threats import Nature, Patch, Success
from tmlang.plan.support import support

TURNS = Nature((("rotate", F(-20), F(20), "deg"),), 50, "bilinear", F(0))
SPUN = Nature((("rotate", F(-20), F(20), "deg"),), 50, "bilinear")
SUCCESS = Success("single_draw", draws=50)
DRAWS = 3
SEARCHES = {"native.pgd": {"steps": F(4)}, "native.apgd": {"steps": F(4)}, "native.patch_pgd": {"steps": F(4)}}


@pytest.mark.parametrize("path", SEARCHES)
def test_a_search_that_carries_nature_climbs_the_mean_of_its_draws(path: str) -> None:
    """Every look costs as many rows as draws; what is offered lies in its set and fails in more draws than before."""
    case, patch = digits(), Patch("rectangle", 4, 4, (2, 2)) if path == "native.patch_pgd" else None
    kind: dict[str, Any] = {"allow": patch, "nature": SPUN} if patch else {"nature": TURNS}
    asked = threat("linf", F(1, 5), success=SUCCESS, **kind)
    job = case.job(asked, rows=slice(0, 4))
    scene = Scene.of(asked, job.sets.domain)
    assert scene is not None
    failure = Failure.of(job.sets, job.y, job.target)
    oracle = DrawnOracle(job.oracle, scene, job.x, failure, [11 + s for s in job.seeds], DRAWS)
    oracle.best = Best(job.x, failure, always=False)
    found = oracle.best.or_best(search(path, case, replace(job, oracle=oracle), **SEARCHES[path]), job.sets)
    assert job.sets.inside(found.x.numpy()).all()
    assert found.offered.any()
    assert (oracle.spent % DRAWS == 0).all()
    assert torch.equal(oracle.spent, job.oracle.spent)
    failing = [_failing(job, scene, x) for x in (job.x, found.x)]
    assert failing[0] < 0.2
    assert failing[1] > failing[0] + 0.2


def _failing(job: Any, scene: Scene, x: torch.Tensor) -> float:
    """The share of 10 other draws of every unit that fail."""
    failing = []
    for unit in range(len(x)):
        theta = scene.draw(900 + unit, 0, 10)
        handed, original = (a[unit].numpy().reshape(1, -1).repeat(10, axis=0) for a in (x, job.x))
        made = torch.from_numpy(scene.made(handed, original, theta).reshape(10, *x.shape[1:]))
        failing.append((job.oracle._network(made).argmax(dim=1) != job.y[unit]).float().mean())
    return float(torch.stack(failing).mean())


def test_a_library_is_not_let_near_a_world_that_draws() -> None:
    case = digits()
    asked = threat("linf", F(1, 5), success=SUCCESS, nature=TURNS)
    job = case.job(asked, rows=slice(0, 2))
    scene = Scene.of(asked, job.sets.domain)
    assert scene is not None
    oracle = DrawnOracle(job.oracle, scene, job.x, Failure(job.y), [1, 2], DRAWS)
    for door in (oracle.module, oracle.opened, lambda: oracle.unit(0)):
        with pytest.raises(Exception, match="the world draws"):
            door()


@pytest.mark.parametrize("role", ["attack", "certify", "decide_exactly", "enumerate"])
def test_every_row_carries_nature_or_is_refused_for_it(role: str) -> None:
    """By the matcher, with a reason, before anything runs."""
    case = digits()
    for row in rows(role):
        norm = next((n for n in ("linf", "l2", "l1", "l0", "pixels_changed") if n in row.norms), None)
        allow = None if norm else Patch("rectangle", 2, 2, (0, 0)) if "patch" in row.norms else None
        if norm is None and allow is None:
            continue
        kind: dict[str, Any] = {"allow": allow} if allow else {}
        asked = threat(norm or "linf", F(1, 5), success=SUCCESS, nature=SPUN if allow else TURNS, **kind)
        obstacles = [o for o in support(row, asked, case.spec, case.space).obstacles if o.need.key == "nature"]
        assert bool(obstacles) == ("nature" not in row.carries), row.path
        assert all(o.because for o in obstacles)


def test_who_carries_nature() -> None:
    carrying = {row.path for role in ("attack", "certify") for row in rows(role) if "nature" in row.carries}
    assert carrying == set(SEARCHES)
    assert method("native.random").refused["nature"].by == "not_built"
