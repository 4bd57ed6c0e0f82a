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

from tmlang.backends.torchattacks import Pixels, Rearranged, Saliency


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
