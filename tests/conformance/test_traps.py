"""Traps of the libraries that only some of their attacks have, each against the library itself."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, colours, digits, method, model, search, threat, unit_box
from conformance_support import watched
from torch import nn

from tmlang.backends.foolbox import _Pictures
from tmlang.backends.native.transform_hunt import TransformHunt
from tmlang.backends.torchattacks import Pixels, Rearranged, Saliency
from tmlang.meaning.threats import Ball, Both, Either, Threat, Transform
from tmlang.meaning.values import Quantity, Symbol


def fixed(weight: list[list[float]], bias: list[float]) -> nn.Linear:
    layer = nn.Linear(len(weight[0]), len(bias))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        layer.bias.copy_(torch.tensor(bias))
    return layer


def test_jsma_without_a_target_aims_at_the_likeliest_wrong_class() -> None:
    """Of three classes the library would aim at label + 1 modulo ten: class 1, which no input reaches."""
    network = fixed([[-1, -1, -1, -1], [0, 0, 0, 0], [1, 1, 1, 1]], [1.0, -9.0, 0.0])
    case = Case(network, unit_box(4), model(3), np.full((1, 4), 0.1, np.float32), [0])
    found = search("torchattacks.JSMA", case, case.job(threat("l0", 2)))
    assert case.decisions(found.x).tolist() == [2]
    # 0.4 < 1 - 0.4 before; two features rise to 1, and 2.2 > 1 - 2.2.
    assert sorted(found.x[0].tolist()) == pytest.approx([0.1, 0.1, 1, 1])


def test_jsma_that_lowers_features_is_refused() -> None:
    """With a negative theta all saliencies are negative in torchattacks 3.5.1, and the greatest is that of no pair."""
    import torchattacks

    network = nn.Sequential(nn.Flatten(), fixed([[1, 3, 3], [-1, -3, -3]], [-1.0, 2.0]))
    library = torchattacks.JSMA(network, theta=-1.0, gamma=0.5)
    library.set_mode_targeted_by_label(quiet=True)
    x = torch.full((1, 1, 1, 3), 0.9)
    assert (library(x, torch.tensor([1])) != x).flatten().tolist() == [True, False, False]
    assert method("torchattacks.JSMA").arguments["theta"].low == 0


@pytest.mark.parametrize("most", [1, 2, 3, 6])
@pytest.mark.parametrize(
    ("path", "kind", "adapter"),
    [
        ("torchattacks.JSMA", "l0", Saliency),
        ("torchattacks.OnePixel", "pixels_changed", Pixels),
        ("torchattacks.Pixle", "pixels_changed", Rearranged),
    ],
)
def test_the_library_is_told_how_many_may_change(
    monkeypatch: pytest.MonkeyPatch, path: str, kind: str, adapter: Any, most: int
) -> None:
    """What the library returns, before anything is cut back; one restart, since Pixle's add up."""
    returned: list[torch.Tensor] = []
    run = adapter.run

    def kept(self: Any, wanted: Any) -> torch.Tensor:
        returned.append(run(self, wanted))
        returned.append(wanted.z)
        return returned[0]

    monkeypatch.setattr(adapter, "run", kept)
    arguments = {"restarts": Fraction(1)} if path.endswith("Pixle") else {}
    watched(path, colours(8), threat(kind, most), arguments=arguments)
    changed = returned[0] != returned[1]
    counts = changed.any(dim=1).flatten(1).sum(dim=1) if kind == "pixels_changed" else changed.flatten(1).sum(dim=1)
    # JSMA changes features in pairs.
    assert counts.max() <= (most + most % 2 if kind == "l0" else most)
    assert counts.max() >= 1


def test_newton_fool_keeps_a_failure_whose_gradient_has_underflowed() -> None:
    """With weights this large a failure is certain, its gradient is nought, and the library divides by it."""
    import foolbox

    network = fixed([[0, 0], [4000, 4000]], [0.0, -2000.0])
    case = Case(network, unit_box(2), model(2), np.array([[0.24, 0.2499], [0.4, 0.4]], np.float32), [0, 1])
    x = torch.from_numpy(case.x).reshape(-1, 1, 1, 2)
    flat = nn.Sequential(nn.Flatten(), network).eval()
    library = foolbox.attacks.NewtonFoolAttack(steps=40).run(
        foolbox.PyTorchModel(flat, bounds=(0, 1)), x.clone(), torch.tensor([0, 1])
    )
    assert not torch.isfinite(library).all()
    found = search("foolbox.NewtonFoolAttack", case, case.job(threat("l2", 1)), steps=Fraction(40))
    assert found.errors == (None, None)
    assert torch.isfinite(found.x).all()


def test_pointwise_moves_on_towards_the_original_by_halving() -> None:
    """Nothing but the halving differs: equal seeds, equal starts."""
    case = digits()
    job = case.job(threat(allow=None, minimize=("l2", "px")), rows=slice(3))
    lengths = {}
    for halving in (False, True):
        found = search("foolbox.PointwiseAttack", case, job, start_directions=Fraction(50), l2_binary_search=halving)
        assert (case.decisions(found.x) != job.y).all()
        lengths[halving] = (found.x - job.x).flatten(1).norm(dim=1)
    assert (lengths[True] <= lengths[False] + 1e-6).all()
    assert lengths[True].sum() < lengths[False].sum()


def turned(*parts: tuple[str, int, str], **changes: Any) -> Threat:
    """A threat of a transform with these parts: name, greatest magnitude, unit."""
    named = tuple((name, Quantity(Fraction(most), unit)) for name, most, unit in parts)
    return threat(allow=Transform(named, "bilinear", Fraction(0), **changes))


def test_pictures_of_foolbox_are_those_of_its_parameters_but_for_the_length_of_a_shift() -> None:
    """Which way an angle and a shift go; and the trap: of eight pixels a shift by s moves 7 s / 8."""
    import eagerpy
    from foolbox.attacks.spatial_attack import rotate_and_shift

    case = digits()
    job = case.job(turned(("translate", 3, "px"), ("rotate", 40, "deg")), rows=slice(2))
    pictures = _Pictures(TransformHunt(job))

    def ours(translation: tuple[float, float], rotation: float) -> np.ndarray:
        pictures.rotate_and_shift(pictures.tokens, translation, rotation)
        assert pictures.theta is not None
        return pictures.hunt.made(pictures.theta.repeat(2, axis=0), torch.arange(2)).numpy()

    for translation, rotation in (((1.5, 0.0), 0.0), ((0.0, -2.0), 0.0), ((0.0, 0.0), 25.0), ((-1.0, 0.5), -35.0)):
        theirs = rotate_and_shift(eagerpy.astensor(job.x), translation, rotation).raw.numpy()
        assert np.allclose(ours((translation[0] * 7 / 8, translation[1] * 7 / 8), rotation), theirs, atol=1e-5)
        assert any(translation) == bool((np.abs(ours(translation, rotation) - theirs) > 0.01).any())


@pytest.mark.parametrize(
    ("parts", "asked"),
    [
        ([("rotate", 30, "deg"), ("translate", 2, "px")], 4 * 3 * 3),
        ([("translate", 2, "px")], 3 * 3),
        ([("rotate", 30, "deg")], 4),
    ],
)
def test_the_grid_of_foolbox_is_tried_once_and_at_random_as_often_as_is_said(
    parts: list[tuple[str, int, str]], asked: int
) -> None:
    """A model that nothing breaks is asked about every point; what the threat does not vary is no point."""
    network = nn.Sequential(nn.Flatten(), fixed([[0.0] * 64, [0.0] * 64], [1.0, 0.0]))
    case = Case(network, unit_box(1, 8, 8), model(2), digits().x[:3], [0, 0, 0])
    for arguments, count in (
        ({"num_rotations": Fraction(4), "num_translations": Fraction(3)}, asked),
        ({"grid_search": False, "random_steps": Fraction(7)}, 7),
    ):
        job = case.job(turned(*parts))
        found = search("foolbox.SpatialAttack", case, job, **arguments)
        assert job.oracle.queries.tolist() == [count] * 3
        assert not found.offered.any()


def test_parameters_of_foolbox_lie_on_its_grid_and_on_the_threats() -> None:
    case = digits()
    wide = turned(("rotate", 60, "deg"), ("translate", 3, "px"))
    found = search("foolbox.SpatialAttack", case, case.job(wide), num_rotations=Fraction(4))
    assert found.offered.sum() > 12
    theta = found.theta[found.offered].numpy()
    assert set(theta[:, 0]) <= {-60.0, -20.0, 20.0, 60.0}
    assert set(theta[:, 1:].flatten()) <= {-3.0, -1.5, 0.0, 1.5, 3.0}
    # The first of the library's own order that fails: from the least angle on.
    assert (theta[:, 0] == -60).any()
    whole = turned(("rotate", 60, "deg"), ("translate", 3, "px"), steps=(Fraction(7), Fraction(1)))
    job = case.job(whole)
    found = search("foolbox.SpatialAttack", case, job, num_rotations=Fraction(4))
    theta = found.theta[found.offered].numpy()
    assert set(theta[:, 0]) <= {-56.0, -21.0, 21.0, 56.0}
    assert set(theta[:, 1:].flatten()) <= {-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0}
    assert job.sets.rows(np.flatnonzero(found.offered)).inside(found.x[found.offered].numpy(), theta).all()


def test_foolbox_turns_pictures_within_balls_beside_them_and_in_the_branches_that_it_knows() -> None:
    case = digits()
    turn = turned(("rotate", 60, "deg"), ("translate", 2, "px")).allow
    grow = Transform((("scale", Quantity(Fraction(1, 2), None)),), "bilinear", Fraction(0))
    assert isinstance(turn, Transform)
    beside = Both((turn, Ball("linf", "px", Fraction(3, 4))))
    counts = {}
    for name, allow in {"alone": turn, "beside": beside, "one": Either((grow, turn), ("grow", "turn"))}.items():
        job = case.job(threat(allow=allow))
        found = search("foolbox.SpatialAttack", case, job)
        at = np.flatnonzero(found.offered)
        x, theta = found.x[at].numpy(), found.theta[at].numpy()
        assert job.sets.rows(at).inside(x, theta).all()
        assert np.isnan(theta[:, 0]).all() == (name == "one")
        counts[name] = len(at)
    assert 0 < counts["beside"] < counts["alone"] == counts["one"]


DOCUMENTED = {
    "standard": ["apgd-ce", "apgd-t", "fab-t", "square"],
    "plus": ["apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"],
    "rand": ["apgd-ce", "apgd-dlr"],
}
"""What each version of torchattacks' AutoAttack is made of, as its source says."""


def documented(attack: Any) -> str:
    """A part of AutoAttack in the words of its source."""
    kind = type(attack).__name__
    if kind == "FAB":
        return "fab-t" if attack.multi_targeted else "fab"
    return {"APGDT": "apgd-t", "Square": "square"}.get(kind) or f"apgd-{attack.loss}"


@pytest.mark.parametrize("version", DOCUMENTED)
def test_autoattack_of_torchattacks_is_what_it_says_with_our_seed_and_classes(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """The traps: left alone it seeds itself from the clock, and goes for ten classes."""
    import torchattacks

    alone = torchattacks.AutoAttack(digits().deployed)
    assert alone.get_seed() != alone.get_seed()
    made: list[Any] = []

    def forward(self: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        made.append(self)
        return images

    monkeypatch.setattr(torchattacks.AutoAttack, "forward", forward)
    case = colours()
    job = case.job(threat("linf", 10), rows=slice(2), seeds=40)
    search("torchattacks.AutoAttack", case, job, version=Symbol(version))
    (attack,) = made
    parts = attack._autoattack.attacks
    assert [documented(part) for part in parts] == DOCUMENTED[version]
    seed = int(np.random.SeedSequence([40, 41]).generate_state(1)[0])
    for part in parts:
        assert part.seed == seed
        assert part.eps == pytest.approx(10 / 255, abs=1e-9)
        assert getattr(part, "n_target_classes", 4) == 4
        assert part.model is attack.model


def test_autoattack_of_torchattacks_finds_what_its_parts_find_one_after_the_other() -> None:
    import torchattacks

    case, radius = digits(), Fraction(1, 16)
    job = case.job(threat("linf", radius), rows=slice(6))
    seed = int(np.random.SeedSequence(list(job.seeds)).generate_state(1)[0])
    found = search("torchattacks.AutoAttack", case, job, version=Symbol("rand"))
    x, left = job.x.clone(), torch.arange(6)
    for loss in ("ce", "dlr"):
        part = torchattacks.APGD(case.deployed, eps=1 / 16, norm="Linf", loss=loss, eot_iter=20, seed=seed)
        tried = part(job.x[left], job.y[left])
        fails = case.decisions(tried) != job.y[left]
        x[left[fails]], left = tried[fails], left[~fails]
    assert 0 < len(left) < 6
    assert torch.allclose(found.x, x, atol=1e-6)
    assert found.offered.tolist() == [i not in left.tolist() for i in range(6)]
