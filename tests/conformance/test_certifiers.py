"""One suite for every row that certifies: exact where the answer is known, never above what a point reaches."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, certify, colours, digits, method, model, threat, unit_box
from conformance_support import rows, same, watched, world
from torch import nn

from tmlang.backends import auto_lirpa, lirpa_graph
from tmlang.backends.contract import BackendRefusal
from tmlang.meaning.models import Decide, Network, RejectWhen, Step
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball, Both, Either, Goal, Mutable, Rejected, Threat
from tmlang.meaning.values import Symbol

# Certificates of a smoothed object are held to its own theorem (test_smoothing.py).
BOUNDS = [m for m in rows("certify") if m.evidence == "bound"]
CERTIFIERS = [m.path for m in BOUNDS]
BALLS = [(m.path, n) for m in BOUNDS for n in ("linf", "l2", "l1") if n in m.norms]
LIRPA = [
    "auto_lirpa.crown", "auto_lirpa.crown_ibp", "auto_lirpa.ibp", "auto_lirpa.alpha_crown", "auto_lirpa.forward",
    "auto_lirpa.forward_backward",
]  # fmt: skip


def test_the_suite_has_rows() -> None:
    assert set(LIRPA) <= set(CERTIFIERS)


def linear_case() -> Case:
    """Four features in [-1, 1], three classes, ten units labelled by the network."""
    network = nn.Linear(4, 3)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        network.weight.copy_(torch.randn(3, 4, generator=generator))
        network.bias.copy_(torch.randn(3, generator=generator))
    x = np.random.default_rng(4).uniform(-1, 1, (10, 4)).astype(np.float32)
    space = unit_box(4, cells=(Cell("real", Fraction(-1), Fraction(1)),))
    case = Case(network, space, model(3), x, [0] * 10)
    case.y = case.decisions(torch.from_numpy(x))
    return case


def exact_margin(case: Case, unit: int, norm: str, radius: float, free: list[bool]) -> float:
    """The least margin of a linear network over a ball: linf within the domain and mask, l2 and l1 without."""
    network = case.deployed.network
    w, b = network.weight.double().numpy(), network.bias.double().numpy()
    x, y = case.x[unit].astype(np.float64), int(case.y[unit])
    worst = np.inf
    for j in {0, 1, 2} - {y}:
        slope, offset = w[y] - w[j], b[y] - b[j]
        if norm == "linf":
            low, high = (np.clip(x + s * radius, -1, 1) for s in (-1, 1))
            low, high = (np.where(free, side, x) for side in (low, high))
            value = np.minimum(slope * low, slope * high).sum() + offset
        else:
            dual = np.linalg.norm(slope) if norm == "l2" else np.abs(slope).max()
            value = slope @ x + offset - radius * dual
        worst = min(worst, value)
    return float(worst)


@pytest.mark.parametrize(("path", "norm"), BALLS)
@pytest.mark.parametrize("radius", [Fraction(1, 10), Fraction(1, 2)])
def test_linear_networks_are_answered_exactly(path: str, norm: str, radius: Fraction) -> None:
    case = linear_case()
    found = certify(path, case, case.job(threat(norm, radius)))
    exact = [exact_margin(case, i, norm, float(radius), [True] * 4) for i in range(10)]
    if path.endswith("ibp") and norm != "linf":
        assert all(m <= e + 1e-9 for m, e in zip(found.margin.tolist(), exact, strict=True))
    else:
        assert found.margin.tolist() == pytest.approx(exact, abs=1e-6)
    certified = [v == "certified" for v in found.verdict]
    assert not any(c and e <= 0 for c, e in zip(certified, exact, strict=True))
    assert not any(not c and m > 1e-4 for c, m in zip(certified, found.margin.tolist(), strict=True))


@pytest.mark.parametrize("path", [p for p, n in BALLS if n == "linf"])
def test_a_mask_is_bounded_exactly(path: str) -> None:
    space = linear_case().space
    case = linear_case()
    case.space = unit_box(4, cells=space.cells, features=("a", "b", "c", "d"))
    frozen = threat("linf", Fraction(1, 2), mutable=Mutable("features", names=(("b", "any"), ("d", "any"))))
    found = certify(path, case, case.job(frozen))
    exact = [exact_margin(case, i, "linf", 0.5, [False, True, False, True]) for i in range(10)]
    assert found.margin.tolist() == pytest.approx(exact, abs=1e-6)


def networks() -> dict[str, nn.Module]:
    """Small networks of every kind that is trusted, on 3x8x8 pictures."""
    conv, flat, relu, linear = nn.Conv2d, nn.Flatten(), nn.ReLU(), nn.Linear
    wide = conv(3, 4, 3, dilation=2, padding=2)
    return {
        "strided": nn.Sequential(conv(3, 4, 3, 2, 1), relu, conv(4, 5, 3), relu, flat, linear(20, 4)),
        "dilated": nn.Sequential(wide, relu, conv(4, 5, 3, 2), relu, flat, linear(45, 4)),
        "grouped": nn.Sequential(conv(3, 6, 3, groups=3), relu, conv(6, 4, 3, 2, groups=2), flat, linear(16, 4)),
        "normalized": nn.Sequential(conv(3, 4, 3, 2), nn.BatchNorm2d(4), nn.LeakyReLU(0.1), flat, linear(36, 4)),
        "pooled": nn.Sequential(conv(3, 4, 3), relu, nn.MaxPool2d(2), nn.AvgPool2d(3), flat, linear(4, 4)),
        "smooth": nn.Sequential(
            conv(3, 4, 3, 2), nn.Sigmoid(), flat, linear(36, 9), nn.Tanh(), nn.Dropout(), linear(9, 4)
        ),
        "silu": nn.Sequential(flat, linear(192, 9), nn.SiLU(), linear(9, 4)),
        "residual": Residual(),
    }


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Linear(256, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))
        return self.last(torch.relu(h + self.second(h)).flatten(1))


def picture_case(network: nn.Module, steps: tuple[Step, ...] = ()) -> Case:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in network.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) / max(1, p[0].numel()) ** 0.5)
        for m in network.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.running_var.fill_(0.3)
    x = np.random.default_rng(0).uniform(0, 1, (6, 3, 8, 8)).astype(np.float32)
    case = Case(network, unit_box(3, 8, 8), model(4, steps), x, [0] * 6)
    case.y = case.decisions(torch.from_numpy(x))
    return case


NORMALIZE = Step("normalize", (("mean", (Fraction(1, 2), Fraction(2, 5), Fraction(3, 10))), ("std", Fraction(1, 4))))


NOT_TRUSTED = [
    ("auto_lirpa.forward", "normalized", "BatchNormalization, LeakyRelu"),
    ("auto_lirpa.forward", "pooled", "AveragePool"),
    ("auto_lirpa.forward_backward", "normalized", "BatchNormalization, LeakyRelu"),
    ("auto_lirpa.alpha_crown", "pooled", "MaxPool"),
]


@pytest.mark.parametrize(("path", "name", "word"), NOT_TRUSTED)
def test_operations_are_refused_method_by_method(path: str, name: str, word: str) -> None:
    case = picture_case(networks()[name])
    with pytest.raises(BackendRefusal, match=f"bounds of {word} are not trusted"):
        certify(path, case, case.job(threat("linf", Fraction(1, 50))))


@pytest.mark.parametrize(
    ("path", "name"), [(p, n) for p in CERTIFIERS for n in networks() if (p, n) not in {r[:2] for r in NOT_TRUSTED}]
)
def test_no_point_of_the_set_lies_below_the_bound(path: str, name: str) -> None:
    case = picture_case(networks()[name], (NORMALIZE,) if name in ("strided", "residual") else ())
    for norm, radius in (("linf", Fraction(1, 50)), ("l2", Fraction(1, 4))):
        job = case.job(threat(norm, radius))
        # What a product of two values rounds is not bounded.
        given = {"rounding": Symbol("assumed")} if name == "silu" else {}
        bound = certify(path, case, job, **given).margin
        assert bound.isfinite().all()
        attack = "torchattacks.PGD" if norm == "linf" else "torchattacks.PGDL2"
        generator = torch.Generator().manual_seed(9)
        reached = [watched(attack, case, job.threat).candidates.x]
        for _ in range(40):
            direction = torch.randn(job.x.shape, generator=generator).sign()
            reached.append(torch.from_numpy(job.sets.project((job.x + direction).numpy()).x))
        for points in reached:
            with torch.no_grad():
                scores = case.deployed(points).double()
            own = scores.gather(1, case.y[:, None])[:, 0]
            others = scores.scatter(1, case.y[:, None], -np.inf).amax(dim=1)
            assert (own - others >= bound - 1e-5).all()


@pytest.mark.parametrize("layers", ["last", "all"])
def test_optimized_slopes_are_never_worse_and_each_unit_is_on_its_own(layers: str) -> None:
    case = picture_case(networks()["residual"])
    job = case.job(threat("linf", Fraction(3, 10)))
    chosen = {"layers": Symbol(layers), "iteration": Fraction(8)}
    plain = certify("auto_lirpa.crown", case, job).margin
    found = certify("auto_lirpa.alpha_crown", case, job, **chosen).margin
    assert (found >= plain).all()
    assert (found > plain + 1e-3).any()
    alone = certify("auto_lirpa.alpha_crown", case, case.job(job.threat, rows=slice(2, 3)), **chosen).margin
    assert alone.tolist() == pytest.approx(found[2:3].tolist(), abs=1e-9)


def test_one_relu_is_optimized_to_the_best_slope() -> None:
    """``relu(x) - 0.4 x + 0.1`` on [-1, 1] is least, 0.1, at 0. Below the ReLU a slope of 0.4 is best, which leaves
    just that; CROWN takes 0 or 1 and proves nothing: ``-0.4 + 0.1``, or at -1 ``-0.6 + 0.1``."""
    network = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0], [1.0]]))
        network[0].bias.copy_(torch.tensor([0.0, 2.0]))  # the second neuron is x + 2 on the whole box
        network[2].weight.copy_(torch.tensor([[1.0, -0.4], [0.0, 0.0]]))
        network[2].bias.copy_(torch.tensor([0.9, 0.0]))
    space = unit_box(1, cells=(Cell("real", Fraction(-1), Fraction(1)),))
    case = Case(network, space, model(2), np.zeros((1, 1), np.float32), [0])
    job = case.job(threat("linf", Fraction(1)))
    assert certify("auto_lirpa.crown", case, job).margin.tolist() == pytest.approx([-0.3], abs=1e-6)
    optimized = certify("auto_lirpa.alpha_crown", case, job, iteration=Fraction(60)).margin
    assert optimized.tolist() == pytest.approx([0.1], abs=5e-3)


@pytest.mark.parametrize("path", LIRPA)
def test_certificates_grow_fewer_with_the_radius_and_need_a_correct_answer(path: str) -> None:
    case = digits()
    counts = []
    for radius in (Fraction(1, 1000), Fraction(1, 50), Fraction(1, 2)):
        found = certify(path, case, case.job(threat("linf", radius)))
        counts.append(found.verdict.count("certified"))
        wrong = case.decisions(torch.from_numpy(case.x)) != case.y
        assert wrong.any()
        assert not any(v == "certified" and w for v, w in zip(found.verdict, wrong.tolist(), strict=True))
        assert found.gap_kind == "proved"
        gaps = [found.gap_of(i) for i in range(len(case.x))]
        assert all(gap is not None and 0 < gap < 2e-1 for gap in gaps)
    assert counts[0] > 20
    assert counts[0] >= counts[1] >= counts[2] == 0


@pytest.mark.parametrize("path", CERTIFIERS)
def test_nothing_changes(path: str) -> None:
    # The network of the colours has batch normalization, which forward bounds do not carry.
    for case in (digits(),) if "forward" in path else (digits(), colours()):
        before = world(case)
        certify(path, case, case.job(threat("linf", Fraction(1, 100)), rows=slice(4)))
        assert same(before, world(case))


@pytest.mark.parametrize("path", CERTIFIERS)
def test_a_deadline_in_the_past_proves_nothing(path: str) -> None:
    case = digits()
    found = certify(
        path, case, case.job(threat("linf", Fraction(1, 100)), rows=slice(4), deadline=time.monotonic() - 1)
    )
    assert found.verdict == ("timeout",) * 4
    assert found.margin.isnan().all()


def test_targets_intersections_and_unions() -> None:
    case = linear_case()
    target = [(int(y) + 1) % 3 for y in case.y]
    plain = certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(1, 5))))
    aimed = threat("linf", Fraction(1, 5), goal=Goal("class", target="0"))
    towards = certify("auto_lirpa.crown", case, case.job(aimed, target=target))
    assert (towards.margin >= plain.margin - 1e-9).all()
    assert (towards.margin > plain.margin + 1e-6).any()
    small, wide = Ball("linf", "px", Fraction(1, 5)), Ball("linf", "px", Fraction(3, 5))
    both = certify("auto_lirpa.crown", case, case.job(threat(allow=Both((small, wide)))))
    either = certify("auto_lirpa.crown", case, case.job(threat(allow=Either((small, wide), ("s", "w")))))
    alone = certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(3, 5))))
    assert both.margin.tolist() == pytest.approx(plain.margin.tolist())
    assert either.margin.tolist() == pytest.approx(alone.margin.tolist())


def score_case(op: str = ">=") -> Case:
    """score = x1 + x2, attack from 1 on; originals (3/8, 1/2) benign and (1/2, 5/8) attack."""
    network = nn.Linear(2, 1)
    with torch.no_grad():
        network.weight.fill_(1)
        network.bias.fill_(0)
    decide = Decide("threshold", op=op, value=Fraction(1), positive="attack", negative="benign")  # type: ignore[arg-type]
    spec = replace(model(2, network=Network("linear"), decide=decide), classes=("benign", "attack"))
    x = np.array([[0.375, 0.5], [0.5, 0.625]], dtype=np.float32)
    return Case(network, unit_box(2, features=("u", "v")), spec, x, [0, 1])


@pytest.mark.parametrize("path", LIRPA)
def test_a_score_is_certified_by_its_distance_to_the_threshold(path: str) -> None:
    case = score_case()
    only_u = Mutable("features", names=(("u", "any"),))
    touching = certify(path, case, case.job(threat("linf", Fraction(1, 8), mutable=only_u)))
    # (1/2, 1/2) scores exactly 1, which is an attack; (3/8, 5/8) scores exactly 1 and stays one, but without a margin.
    assert touching.margin.tolist() == pytest.approx([0, 0], abs=1e-12)
    assert touching.verdict == ("unknown", "unknown")
    inside = certify(path, case, case.job(threat("linf", Fraction(1, 16), mutable=only_u)))
    assert inside.margin.tolist() == pytest.approx([0.0625, 0.0625])
    assert inside.verdict == ("certified", "certified")


@pytest.mark.parametrize("path", LIRPA)
def test_the_least_score_may_decide(path: str) -> None:
    case = linear_case()
    least = Case(case.deployed.network, case.space, model(3, decide=Decide("argmin", ties="lowest")), case.x, [0] * 10)
    least.y = least.decisions(torch.from_numpy(case.x))
    found = certify(path, least, least.job(threat("linf", Fraction(1, 100))))
    assert found.verdict.count("certified") >= 8


REFUSED: dict[str, Any] = {
    "elu": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.ELU(), nn.Linear(9, 4)),
    "gelu": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.GELU(), nn.Linear(9, 4)),
    "relu6": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.ReLU6(), nn.Linear(9, 4)),
    "softmax": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.Softmax(dim=1)),
    "layer norm": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.LayerNorm(9), nn.ReLU(), nn.Linear(9, 4)),
    "overlapping": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(3, 2, 1), nn.Flatten(), nn.Linear(36, 4)),
    "padding": lambda: nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(256, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
@pytest.mark.parametrize("path", LIRPA)
def test_untested_operations_are_refused(path: str, name: str) -> None:
    case = picture_case(REFUSED[name]())
    with pytest.raises(BackendRefusal):
        certify(path, case, case.job(threat("linf", Fraction(1, 100))))


@pytest.mark.parametrize("norm", ["l2", "l1", "l2_rms"])
def test_an_elementwise_first_operation_is_refused_for_balls_that_are_no_boxes(norm: str) -> None:
    case = picture_case(nn.Sequential(nn.ReLU(), nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 4)))
    with pytest.raises(BackendRefusal, match="convolutions or matrices"):
        certify("auto_lirpa.crown", case, case.job(threat(norm, Fraction(1, 100))))
    assert certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(1, 100)))).margin.isfinite().all()


def test_a_rejection_that_fails_is_not_certified_away() -> None:
    case = picture_case(networks()["strided"])
    reject = (RejectWhen("max_softmax", "<", Fraction(1, 2)),)
    careful = Case(case.deployed.network, case.space, model(4, reject=reject), case.x, case.y.tolist())

    def rejecting(kind: Any) -> Threat:
        return threat("linf", Fraction(1, 500), rejected=Rejected(kind))

    for kind in ("fail", "denied"):
        with pytest.raises(BackendRefusal, match="rejection"):
            certify("auto_lirpa.crown", careful, careful.job(rejecting(kind)))
    assert "certified" in certify("auto_lirpa.crown", careful, careful.job(rejecting("safe"))).verdict


@pytest.mark.parametrize("shift", [-1e-2, 0.0, 1.0])
def test_wrong_bounds_are_caught(monkeypatch: pytest.MonkeyPatch, shift: float) -> None:
    def lie(self: auto_lirpa.Problem, bounded: Any, method: str, units: torch.Tensor) -> torch.Tensor:
        del bounded, method
        return self.margins(self.folded.scores(self.x))[units] + shift

    monkeypatch.setattr(auto_lirpa.Problem, "bounds", lie)
    case = digits()
    with pytest.raises(BackendRefusal, match="contradicted"):
        certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(1, 10))))


def test_the_fast_mode_is_left_where_it_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    case = picture_case(networks()["dilated"])
    job = case.job(threat("linf", Fraction(1, 50)))
    plain = certify("auto_lirpa.crown", case, job)
    # Patches are unsound here; were they taken for tested, the comparison with matrices would still keep them out.
    monkeypatch.setattr(auto_lirpa, "patches_are_tested", lambda _: True)
    again = certify("auto_lirpa.crown", case, job)
    assert again.margin.tolist() == plain.margin.tolist()


def test_many_units_are_bounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    case = digits()
    job = case.job(threat("linf", Fraction(1, 50)), rows=slice(7))
    whole = certify("auto_lirpa.crown", case, job)
    monkeypatch.setattr(lirpa_graph, "MEMORY", 3 << 20)
    parts = certify("auto_lirpa.crown", case, job)
    assert parts.margin.tolist() == pytest.approx(whole.margin.tolist(), abs=1e-9)
    assert parts.verdict == whole.verdict


def test_the_symbols_are_the_librarys() -> None:
    symbols = ["CROWN", "CROWN-IBP", "IBP", "CROWN-Optimized", "forward", "forward+backward"]
    assert [method(path).symbol for path in LIRPA] == symbols
