"""Pictures that transforms make, beside balls and each other, where every answer is known: turns and shifts by whole
pixels are moves of an array, values are fourths, and every picture of a few pixels is listed."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction as F

import numpy as np
import pytest
import small_sets
import torch
from backend_support import Case, certify, search, threat

from tmlang.audit.remeasure import branches_around, broken_rules, exact_values
from tmlang.backends.contract import Job
from tmlang.backends.finite import listed
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Allowed, Ball, Both, Either, Threat, Transform
from tmlang.meaning.values import Quantity

UNITS = 6
CLEAR = 1e-4


@dataclass(frozen=True)
class Puzzle:
    """``members[i]``: every picture of set ``i`` in fourths, with the branches that hold it; ``gain[i]``: the greatest
    margin of a wrong class among them, ``made[i]``: among those that a transform alone makes."""

    case: Case
    threat: Threat
    members: list[dict[tuple[int, ...], set[str]]]
    gain: np.ndarray
    made: np.ndarray

    def job(self) -> Job:
        plain = self.case.job(replace(self.threat, allow=Ball("linf", "px", F(1, 4))))
        ids = [f"u{i}" for i in range(UNITS)]
        sets = ThreatSet.build(self.case.space, self.threat, self.case.x, ids=ids)
        return replace(plain, sets=sets, threat=self.threat)


def puzzle(seed: int) -> Puzzle:
    draw = random.Random(seed)
    shape = draw.choice([(1, 2, 2), (1, 2, 3), (1, 3, 2)])
    space = Space("px", shape, (Cell("lattice", F(0), F(1), F(1, 4)),), channel_axis=0)
    spec = replace(threat(), allow=_allow(draw, shape))
    x = np.array([[draw.randint(0, 4) for _ in range(space.size)] for _ in range(UNITS)])
    case = small_sets.case_of(seed, draw, space, (x / 4).astype(np.float32).reshape(UNITS, *shape))
    every = np.array(list(itertools.product(range(5), repeat=space.size)))
    members = [_members(space, spec.allow, row, every) for row in x]
    pictures = Either(tuple(Both(atoms) for atoms in _alternatives(spec.allow) if any(map(_is_transform, atoms))))
    made = [_members(space, pictures, row, every) for row in x]
    gain, best = ([_gain(case, list(m), int(y)) for m, y in zip(of, case.y, strict=True)] for of in (members, made))
    return Puzzle(case, spec, members, np.array(gain), np.array(best))


def _gain(case: Case, pictures: list[tuple[int, ...]], label: int) -> float:
    if not pictures:
        return -np.inf
    x = (np.array(pictures) / 4).astype(np.float32).reshape(-1, *case.space.shape)
    with torch.no_grad():
        return small_sets.gain_of(case, x, label)


def _allow(draw: random.Random, shape: tuple[int, ...]) -> Allowed:
    one, other, ball, near = _transform(draw, shape), _transform(draw, shape), _ball(draw), _ball(draw)
    return draw.choice([
        one,
        Both((one, ball)),
        Both((ball, one, near)),
        Either((one, ball), ("moved", "smudged")),
        Either((ball, Both((one, near))), ("smudged", "moved")),
        Both((Either((ball, one)), near)),
        Either((one, other), ("one", "other")),
        Either((one, ball, Both((other, near)))),
    ])  # fmt: skip


def _transform(draw: random.Random, shape: tuple[int, ...]) -> Transform:
    parts = [("translate", F(1), F(1), "px")]
    if shape[1] == shape[2]:
        parts = draw.choice([parts, [("rotate", F(180), F(90), "deg")], [("rotate", F(90), F(90), "deg"), *parts],
                             [*parts, ("rotate", F(90), F(90), "deg")]])  # fmt: skip
    if draw.random() < 0.4:
        parts = [*parts, ("brightness", F(1, 2), F(1, 4), None)]
    named = tuple((name, Quantity(most, unit)) for name, most, _, unit in parts)
    return Transform(named, "bilinear", F(draw.choice([0, 1])), tuple(step for _, _, step, _ in parts))


def _ball(draw: random.Random) -> Ball:
    norm, most = draw.choice([("linf", 2), ("l1", 5), ("l2", 4), ("l0", 3)])
    return Ball(norm, "px", F(draw.randint(1, most), 1 if norm == "l0" else 4))


def _made(transform: Transform, row: np.ndarray, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Every picture that the transform makes, in fourths."""
    ranges = []
    for name, most in transform.parts:
        unit = {"translate": 1, "rotate": 90, "brightness": F(1, 4)}[name]
        reach = int(most.value / unit)
        whole = range(-reach, reach + 1)
        ranges.append(list(itertools.product(whole, whole)) if name == "translate" else list(whole))
    fill = int(4 * transform.fill)
    for chosen in itertools.product(*ranges):
        picture = row.reshape(shape[1:])
        for (name, _), value in zip(transform.parts, chosen, strict=True):
            if name == "rotate":
                picture = np.rot90(picture, value)
            elif name == "translate":
                wide = np.pad(picture, 1, constant_values=fill)
                down, right = value
                picture = wide[1 - down :, 1 - right :][: shape[1], : shape[2]]
            else:
                picture = np.clip(picture + value, 0, 4)
        yield picture.reshape(-1)


def _holds(space: Space, allow: Allowed, row: np.ndarray, every: np.ndarray) -> np.ndarray:
    """Which of all pictures the set holds."""
    if isinstance(allow, (Both, Either)):
        parts = [_holds(space, part, row, every) for part in allow.parts]
        return np.logical_and.reduce(parts) if isinstance(allow, Both) else np.logical_or.reduce(parts)
    if isinstance(allow, Transform):
        code = 5 ** np.arange(space.size)
        return np.isin(every @ code, [picture @ code for picture in _made(allow, row, space.shape)])
    return small_sets.holds(space, allow, (every - row) * (small_sets.SCALE // 4))


def _members(space: Space, allow: Allowed, row: np.ndarray, every: np.ndarray) -> dict[tuple[int, ...], set[str]]:
    parts, names = (allow.parts, allow.names) if isinstance(allow, Either) else ((allow,), ("",))
    found: dict[tuple[int, ...], set[str]] = {}
    for i, part in enumerate(parts, 1):
        for picture in every[_holds(space, part, row, every)]:
            found.setdefault(tuple(picture.tolist()), set()).add((names and names[i - 1]) or str(i))
    return found


def _alternatives(allow: Allowed) -> list[tuple[Allowed, ...]]:
    """The set as a union of intersections."""
    if isinstance(allow, Either):
        return [atoms for part in allow.parts for atoms in _alternatives(part)]
    if isinstance(allow, Both):
        return [sum(chosen, ()) for chosen in itertools.product(*map(_alternatives, allow.parts))]
    return [(allow,)]


def _is_transform(allow: Allowed) -> bool:
    return isinstance(allow, Transform)


def _fourths(x: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(v) for v in (x.reshape(-1) * 4).tolist())


def _searched(found: Puzzle) -> Counter[str]:
    """What is breakable, and what each search breaks of it; whatever one offers is listed in a branch that it may be
    in, made by its parameters, and fails."""
    job, case = found.job(), found.case
    stages = {
        "grid": ("native.transform_grid", {"values": F(9)}),
        "slopes": ("native.transform_pgd", {"steps": F(10), "restarts": F(3)}),
    }
    total: Counter[str] = Counter(breakable=int((found.gain > CLEAR).sum()), made=int((found.made > CLEAR).sum()))
    for name, (path, arguments) in stages.items():
        candidates = search(path, case, job, **arguments)
        offered = candidates.offered.numpy()
        inside = job.sets.member(candidates.x.numpy(), candidates.theta.numpy())
        for i in np.flatnonzero(offered):
            assert _fourths(candidates.x[i]) in found.members[i]
            assert inside[i].inside
            assert int(case.decisions(candidates.x[i : i + 1])) != int(case.y[i])
        assert not (offered & (found.made < -CLEAR)).any()
        total[name] = int((offered & (found.made > CLEAR)).sum())
    return total


@pytest.mark.parametrize("start", [0, pytest.param(100, marks=pytest.mark.nightly)])
def test_a_grid_of_all_values_breaks_whatever_a_picture_breaks(start: int) -> None:
    total = sum((_searched(puzzle(seed)) for seed in range(start, start + 12)), Counter())
    assert total["made"] > 15
    assert total["grid"] == total["made"]
    assert total["slopes"] >= 0.9 * total["made"], total


@pytest.mark.parametrize("start", [200, pytest.param(300, marks=pytest.mark.nightly)])
def test_what_is_listed_is_the_set_and_what_enumeration_says_is_the_answer(start: int) -> None:
    breakable = 0
    for seed in range(start, start + 12):
        found = puzzle(seed)
        job = found.job()
        assert job.sets.count(20_000) == [len(members) for members in found.members]
        verdicts = certify("native.enumerate", found.case, job)
        for i, members in enumerate(found.members):
            every = job.sets.enumerate(i, 20_000)
            assert every is not None
            assert sorted(map(_fourths, torch.from_numpy(every))) == sorted(members)
            if abs(found.gain[i]) > CLEAR:
                assert verdicts.verdict[i] == ("broken" if found.gain[i] > 0 else "certified"), (seed, i)
                breakable += found.gain[i] > 0
        offered = verdicts.candidates
        theta = None if offered.theta is None else offered.theta.numpy()
        witnesses = job.sets.member(offered.x.numpy(), theta)
        assert all(witnesses[i].inside for i in np.flatnonzero(offered.offered.numpy()))
    assert breakable > 15


@pytest.mark.parametrize("seed", range(400, 408))
def test_the_auditor_finds_every_member_in_the_branches_that_hold_it_and_none_beside_them(seed: int) -> None:
    """Parameters of all pictures of a row come from listing them; without these only the balls hold a member."""
    found = puzzle(seed)
    sets, space, allow = found.job().sets, found.case.space, found.threat.allow
    start = exact_values(space, found.case.x[0], indices=False)
    x, theta = listed(sets, 0, 20_000)
    some = random.Random(seed).sample(range(len(x)), min(40, len(x)))
    told = sets.rows([0] * len(some)).member(x[some], theta[some] if theta.shape[1] else None)
    for at, own in zip(some, told, strict=True):
        point, branches = exact_values(space, x[at], indices=False), found.members[0][_fourths(torch.from_numpy(x[at]))]
        assert broken_rules(space, found.threat, start, point, theta[at].tolist()) == []
        if isinstance(allow, Either):
            mine = branches_around(space, allow, start, point, theta[at].tolist())
            assert mine == set((own.branch or "").split())
            assert mine <= branches
        other = [v if j else F(1) - v for j, v in enumerate(point)]
        if tuple(int(4 * v) for v in other) not in found.members[0]:
            assert "ball" in broken_rules(space, found.threat, start, other, theta[at].tolist())
