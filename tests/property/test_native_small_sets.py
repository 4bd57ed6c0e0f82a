"""Native search where every answer is known: small sets on lattices, listed in whole numbers (``small_sets``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction as F

import coupled_sets
import numpy as np
import pytest
import small_sets
from backend_support import Case, model, threat, unit_box
from native_support import run
from torch import nn

from tmlang.backends.native.random import drawn
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball, Either
from tmlang.meaning.values import Symbol, Value

STAGES = {
    "apgd": {"loss": Symbol("margin"), "steps": F(50)},
    "coordinates": {"restarts": F(4)},
    "random": {"draws": F(100)},
}
COUPLED = {name: STAGES[name] for name in ("coordinates", "random")}
CLEAR = 1e-4
"""Scores of a batch and of one row may differ by less."""


def _hunted(seed: int, puzzle: small_sets.Puzzle, stages: Mapping[str, Mapping[str, Value]]) -> Counter[str]:
    """How many of a puzzle's units can be broken, and how many each search alone and all together do break. Whatever
    one offers is a listed member, and fails."""
    breakable = puzzle.gain > CLEAR
    found = {name: run(name, puzzle.case, small_sets.job(puzzle), **given) for name, given in stages.items()}
    for name, candidates in found.items():
        decided = puzzle.case.decisions(candidates.x)
        for i in np.flatnonzero(candidates.offered.numpy()):
            listed = puzzle.members[i].reshape(len(puzzle.members[i]), -1)
            assert (listed == candidates.x[i].numpy().reshape(-1)).all(axis=1).any(), (seed, name, i)
            assert decided[i] != puzzle.case.y[i], (seed, name, i)
    broken = {name: candidates.offered.numpy() & breakable for name, candidates in found.items()}
    broken |= {"together": np.logical_or.reduce(list(broken.values())), "breakable": breakable}
    return Counter({name: int(units.sum()) for name, units in broken.items()} | {"units": len(breakable)})


def _bar(
    seeds: range, make: Callable[[int], small_sets.Puzzle], stages: Mapping[str, Mapping[str, Value]], **least: float
) -> None:
    total = sum((_hunted(seed, make(seed), stages) for seed in seeds), Counter())
    print(dict(total))
    assert total["units"] == small_sets.UNITS * len(seeds)
    assert 0.2 * total["units"] < total["breakable"] < 0.9 * total["units"]
    assert total["together"] >= 0.99 * total["breakable"], total
    for name, share in least.items():
        assert total[name] >= share * total["breakable"], (name, total)


def test_what_can_be_broken_is_broken_and_nothing_else():
    _bar(range(60), small_sets.puzzle, STAGES, coordinates=0.98, apgd=0.9)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_what_can_be_broken_is_broken_in_five_hundred_sets():
    _bar(range(1000, 1500), small_sets.puzzle, STAGES, coordinates=0.98, apgd=0.9)


def test_what_equations_couple_is_broken_too():
    """No feature moves alone here: shares of one, ratios, products, equations in a chain."""
    _bar(range(12), coupled_sets.puzzle, COUPLED, coordinates=0.99, random=0.9)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_what_equations_couple_is_broken_in_five_hundred_sets():
    _bar(range(1000, 1500), coupled_sets.puzzle, COUPLED, coordinates=0.99, random=0.9)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_random_members_are_uniform(norm):
    """On a small lattice every member of the ball is drawn as often as any other: chi-square within five deviations."""
    space = unit_box(2, cells=(Cell("lattice", F(0), F(1), F(1, 8)),))
    case = Case(nn.Sequential(nn.Flatten(), nn.Linear(2, 2)), space, model(2), np.full((1, 2), 0.25, np.float32), [0])
    sets = case.job(threat(norm, F(1, 4))).sets
    many = 4000
    x = drawn(sets.rows([0] * many), [np.random.default_rng(i) for i in range(many)])
    counts = Counter(map(tuple, x.tolist()))
    size = {"linf": 25, "l2": 13, "l1": 13}[norm]
    assert len(counts) == size
    statistic = sum((n - many / size) ** 2 for n in counts.values()) / (many / size)
    assert abs(statistic - (size - 1)) < 5 * (2 * (size - 1)) ** 0.5


@pytest.mark.parametrize("norm", ["l2", "l1", "l0"])
def test_random_members_reach_far_in_many_coordinates(norm):
    """In 200 dimensions half of the volume of a ball lies beyond 0.99 of its radius; the box would never hit it."""
    space = unit_box(200, cells=(Cell("real", F(-9), F(9)),))
    case = Case(nn.Linear(200, 2), space, model(2), np.zeros((1, 200), np.float32), [0])
    radius = F(5) if norm == "l0" else F(1)
    either = Either((Ball(norm, "px", radius), Ball(norm, "px", radius)), ("a", "b"))
    sets = case.job(replace(threat(), allow=either)).sets.rows([0] * 50)
    x = drawn(sets, [np.random.default_rng(i) for i in range(50)])
    assert sets.inside(x).all()
    lengths = sets.distances(x)[norm]
    assert (lengths > 0.9 * float(radius)).all()
    assert len({row.tobytes() for row in x}) == 50
