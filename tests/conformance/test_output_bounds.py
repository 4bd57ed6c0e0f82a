"""Bounds of every output: exact where the answer is known, sound at every point, and no part of the verdict."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from backend_support import Case, certify, digits, model, threat, unit_box
from crown import box, dense, least_margins
from torch import nn

from tmlang.audit.outputs import OutputBounds
from tmlang.backends import auto_lirpa
from tmlang.backends.contract import BackendRefusal
from tmlang.meaning.models import Step
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball, Mutable
from tmlang.meaning.values import Quantity, Symbol

LIRPA = ["auto_lirpa.crown", "auto_lirpa.crown_ibp", "auto_lirpa.ibp"]
TOLERANCE = Fraction(1, 1000)
ASKED = [*((path, True) for path in LIRPA), ("marabou.query", TOLERANCE)]


RAW = {"rounding": Symbol("assumed")}
"""The method's own bounds: under ``proved`` those of the object's arithmetic stand where they are the tighter."""


def bounds(path: str, asked: object, case: Case, job, **more) -> list[OutputBounds]:
    found = certify(path, case, job, outputs=asked, **more).outputs
    assert len(found) == len(case.x)
    assert all(b is not None and b.fault(len(case.spec.classes)) is None for b in found)
    return list(found)


def linear_case(seed: int) -> Case:
    """Three features in [0, 1], four classes; weights and bias are those of a generator."""
    network = nn.Linear(3, 4)
    rng = np.random.default_rng(seed)
    network.weight.data = torch.from_numpy(rng.normal(size=(4, 3)).astype(np.float32))
    network.bias.data = torch.from_numpy(rng.normal(size=4).astype(np.float32))
    x = rng.uniform(0, 1, (4, 3)).astype(np.float32)
    case = Case(network, unit_box(3, features=("a", "b", "c")), model(4), x, [0] * 4)
    case.y = case.decisions(torch.from_numpy(x))
    return case


@pytest.mark.parametrize(("path", "asked"), ASKED)
def test_outputs_of_a_linear_network_are_bounded_exactly(path: str, asked: object) -> None:
    """By hand: ``w x + b`` over a box is least where every product is; ``b`` is frozen, and the box ends at 0 and 1."""
    case = linear_case(3)
    frozen = threat(radius=Fraction(1, 4), mutable=Mutable("features", names=(("a", "any"), ("c", "any"))))
    w = case.deployed.network.weight.double().numpy()
    b = case.deployed.network.bias.double().numpy()
    tolerance = float(asked) if isinstance(asked, Fraction) else 1e-6
    for x, found in zip(case.x.astype(np.float64), bounds(path, asked, case, case.job(frozen)), strict=True):
        low, high = np.clip(x - 0.25, 0, 1), np.clip(x + 0.25, 0, 1)
        low[1] = high[1] = x[1]
        least, greatest = (np.array([f(r * low, r * high).sum() for r in w]) + b for f in (np.minimum, np.maximum))
        assert found.lower == pytest.approx(least, abs=tolerance)
        assert found.upper == pytest.approx(greatest, abs=tolerance)
        assert found.least == pytest.approx(least, abs=tolerance)
        assert found.greatest == pytest.approx(greatest, abs=tolerance)


def relu_case(seed: int, sizes: tuple[int, ...] = (2, 6, 5, 3), units: int = 3) -> Case:
    torch.manual_seed(seed)
    layers = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())][:-1]
    network = nn.Sequential(*layers)
    for p in network.parameters():
        p.data.mul_(2)
    x = np.random.default_rng(seed).uniform(0.2, 0.8, (units, sizes[0])).astype(np.float32)
    case = Case(network, unit_box(sizes[0]), model(sizes[-1]), x, [0] * units)
    case.y = case.decisions(torch.from_numpy(x))
    return case


def by_intervals(case: Case, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Layer by layer: Moore, Kearfott, Cloud: Introduction to interval analysis (2009), section 2."""
    for layer in case.deployed.network:
        if isinstance(layer, nn.ReLU):
            low, high = np.maximum(low, 0), np.maximum(high, 0)
            continue
        w, b = layer.weight.double().numpy(), layer.bias.double().numpy()
        low, high = (
            np.maximum(w, 0) @ low + np.minimum(w, 0) @ high + b,
            np.maximum(w, 0) @ high + np.minimum(w, 0) @ low + b,
        )
    return low, high


@pytest.mark.parametrize("seed", range(4))
def test_ibp_is_interval_arithmetic_and_both_hold_what_the_solver_encloses(seed: int) -> None:
    """CROWN's bounds need not lie within those of intervals (here they do not on every seed); the true ends lie within
    both, and the solver encloses these."""
    case = relu_case(seed)
    job = case.job(threat(radius=Fraction(1, 8)))
    low, high = (side.astype(np.float64) for side in job.sets.outward_box())
    wide = bounds("auto_lirpa.ibp", True, case, job, **RAW)
    for i, found in enumerate(wide):
        least, greatest = by_intervals(case, low[i], high[i])
        assert found.lower == pytest.approx(least, abs=1e-9)
        assert found.upper == pytest.approx(greatest, abs=1e-9)
    exact = bounds("marabou.query", TOLERANCE, case, job) if seed < 2 else wide
    for path in LIRPA:
        for outer, inner in zip(bounds(path, True, case, job), exact, strict=True):
            assert (outer.lower <= inner.least + 1e-9).all()
            assert (outer.upper >= inner.greatest - 1e-9).all()


def test_on_digits_crown_is_within_crown_ibp_is_within_ibp() -> None:
    """Four images at 0.02, where the networks' layers are stable enough for the order that the papers report."""
    case = digits()
    job = case.job(threat(radius=Fraction(1, 50)), rows=slice(0, 4))
    crown, mixed, ibp = (certify(path, case, job, outputs=True).outputs for path in LIRPA)
    for tight, middle, wide in zip(crown, mixed, ibp, strict=True):
        for inner, outer in ((tight, middle), (middle, wide)):
            assert (outer.lower <= inner.lower + 1e-9).all()
            assert (outer.upper >= inner.upper - 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_crown_is_what_a_second_implementation_gives(seed: int) -> None:
    case = relu_case(seed, (6, 10, 9, 4), units=4)
    job = case.job(threat(radius=Fraction(1, 20)))
    layers = tuple(
        dense(copy.deepcopy(m), (m.in_features,))[0] for m in case.deployed.network if isinstance(m, nn.Linear)
    )
    low, high = (side.astype(np.float64) for side in job.sets.outward_box())
    for i, found in enumerate(bounds("auto_lirpa.crown", True, case, job, **RAW)):
        region = box(low[i], high[i])
        assert found.lower == pytest.approx(least_margins(layers, region, np.eye(4)), abs=1e-6)
        assert found.upper == pytest.approx(-least_margins(layers, region, -np.eye(4)), abs=1e-6)


@pytest.mark.parametrize(("path", "asked"), ASKED)
@pytest.mark.parametrize("seed", [0, 7])
def test_every_input_of_a_small_set_gives_outputs_within(path: str, asked: object, seed: int) -> None:
    """All 81 inputs of a lattice set, and 2,000 points of the box around it, which is what is bounded."""
    case = relu_case(seed)
    step = Cell("lattice", Fraction(0), Fraction(1), Fraction(1, 32))
    case.space = unit_box(2, cells=(step,))
    case.x = (np.round(case.x * 32) / 32).astype(np.float32)
    job = case.job(threat(radius=Fraction(1, 8)))
    offsets = np.arange(-4, 5) / 32
    rng = np.random.default_rng(seed)
    for x, found in zip(case.x, bounds(path, asked, case, job), strict=True):
        grid = np.array([(x[0] + a, x[1] + b) for a in offsets for b in offsets], np.float32)
        drawn = (x + rng.uniform(-0.125, 0.125, (2000, 2))).astype(np.float32)
        for points in (grid, drawn):
            with torch.no_grad():
                scores = case.deployed(torch.from_numpy(points).double().float()).double().numpy()
            assert (scores >= found.lower - 1e-5).all()
            assert (scores <= found.upper + 1e-5).all()
        with torch.no_grad():
            inside = case.deployed(torch.from_numpy(grid)).double().numpy()
        # What was reached was reached within the lattice.
        assert (found.least >= inside.min(axis=0) - 1e-5).all()
        assert (found.greatest <= inside.max(axis=0) + 1e-5).all()


@pytest.mark.parametrize("path", LIRPA)
def test_a_verdict_is_the_same_with_and_without_bounds_of_outputs(path: str) -> None:
    case = digits()
    job = case.job(threat(radius=Fraction(1, 50)), rows=slice(0, 6))
    plain, more = certify(path, case, job), certify(path, case, job, outputs=True)
    assert plain.verdict == more.verdict
    assert more.margin.tolist() == pytest.approx(plain.margin.tolist(), abs=1e-9)
    assert plain.outputs == ()
    for y, margin, found in zip(job.y.tolist(), more.margin.tolist(), more.outputs, strict=True):
        assert found is not None
        assert margin <= found.upper[y] - np.delete(found.lower, y).max()


def test_a_normalized_picture_is_bounded_in_its_own_scores() -> None:
    """Attacked corners of the l2 ball and of the box lie within, behind a normalization and a permutation of axes."""
    case = digits()
    step = Step("normalize", (("mean", Fraction(0)), ("std", Fraction(1))))
    normalized = Case(case.deployed.network, case.space, model(10, [step]), case.x[:4], case.y[:4].tolist())
    for norm, radius in (("linf", Fraction(1, 50)), ("l2", Fraction(1, 4))):
        job = normalized.job(threat(norm, radius))
        generator = torch.Generator().manual_seed(5)
        proved = bounds("auto_lirpa.crown", True, normalized, job)
        for _ in range(30):
            noise = torch.randn(job.x.shape, generator=generator).sign() * float(radius) * 2
            points = torch.from_numpy(job.sets.project((job.x + noise).numpy()).x)
            with torch.no_grad():
                scores = normalized.deployed(points).double().numpy()
            for own, found in zip(scores, proved, strict=True):
                assert ((own >= found.lower - 1e-4) & (own <= found.upper + 1e-4)).all()


def test_a_bound_that_a_point_contradicts_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is made to claim a little too much of outputs alone."""
    case = relu_case(1)
    honest = auto_lirpa.Problem.bounds

    def bold(self, bounded, method, units):
        found = honest(self, bounded, method, units).clone()
        found[:, self.differences :] += 3.0
        return found

    monkeypatch.setattr(auto_lirpa.Problem, "bounds", bold)
    with pytest.raises(BackendRefusal, match="contradicted by a point"):
        certify("auto_lirpa.crown", case, case.job(threat(radius=Fraction(1, 8))), outputs=True)
    assert certify("auto_lirpa.crown", case, case.job(threat(radius=Fraction(1, 8)))).outputs == ()


def test_the_solver_encloses_every_end_to_the_tolerance() -> None:
    """Against a grid over the box that is so fine that no score differs by the tolerance between two of its points."""
    case = relu_case(2)
    job = case.job(threat(radius=Fraction(1, 16)))
    found = bounds("marabou.query", Fraction(1, 100), case, job)
    for x, own in zip(case.x, found, strict=True):
        assert (own.least - own.lower <= 0.01).all()
        assert (own.upper - own.greatest <= 0.01).all()
        axes = [np.linspace(max(0, v - 0.0625), min(1, v + 0.0625), 401) for v in x.astype(np.float64)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        with torch.no_grad():
            scores = case.deployed.network.double()(torch.from_numpy(grid)).numpy()
            case.deployed.network.float()
        assert own.lower == pytest.approx(scores.min(axis=0), abs=0.011)
        assert own.upper == pytest.approx(scores.max(axis=0), abs=0.011)
        assert (own.lower <= scores.min(axis=0) + 1e-9).all()
        assert (own.upper >= scores.max(axis=0) - 1e-9).all()


def test_the_solver_bounds_what_its_time_allows() -> None:
    """On sigmoid its proofs are not believed; without time there is no bound, and the row says so."""
    case = relu_case(0, (2, 6, 3), units=1)
    case.deployed.network[1] = nn.Sigmoid()
    said = certify("marabou.query", case, case.job(threat(radius=Fraction(1, 8))), outputs=TOLERANCE)
    assert said.outputs == ()
    assert "no bounds of outputs: the solver's proofs on sigmoid and tanh are not believed" in said.messages[0]
    case = relu_case(0, units=1)
    job = replace(case.job(threat(radius=Fraction(1, 8))), deadline=0.0)
    said = certify("marabou.query", case, job, outputs=TOLERANCE, timeout=Quantity(Fraction(5), "s"))
    assert (said.verdict, said.outputs) == (("timeout",), ())


def test_an_l2_ball_is_bounded_whole() -> None:
    """By hand: a linear score over a ball of radius r changes by r times the length of its weights."""
    case = linear_case(5)
    ball = threat("l2", Fraction(1, 10), allow=Ball("l2", "px", Fraction(1, 10)))
    w, b = case.deployed.network.weight.double().numpy(), case.deployed.network.bias.double().numpy()
    for x, found in zip(case.x.astype(np.float64), bounds("auto_lirpa.crown", True, case, case.job(ball)), strict=True):
        reach = 0.1 * np.linalg.norm(w, axis=1)
        assert found.lower == pytest.approx(w @ x + b - reach, abs=1e-6)
        assert found.upper == pytest.approx(w @ x + b + reach, abs=1e-6)
