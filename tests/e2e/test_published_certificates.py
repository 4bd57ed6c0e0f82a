"""Certificates against published numbers: reached or beaten, by every method that is at least as tight as CROWN."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import pytest
from e2e_support import SHARED
from test_published_attacks import evaluated

pytestmark = [
    pytest.mark.shared,
    pytest.mark.nightly,
    pytest.mark.timeout(4 * 3600),
    pytest.mark.skipif(not SHARED.exists(), reason="the shared data folder is not beside the checkout"),
]
CROWN = "certify: crown = auto_lirpa.crown()"
ALPHA = "certify: alpha = auto_lirpa.alpha_crown()"


def certified(folder: Path, model: str, images: str, shape: str, radius: str, n: int, stages: str) -> F:
    """The share that is certified, every unit having been looked at."""
    found = evaluated(folder, model, images, shape, radius, n, stages)
    column = found.columns["standard"].get("certified")
    assert column is not None
    assert column.note == ""
    assert column.low == column.high
    print(model, stages, column.low, float(column.low))
    return F(column.low)


@pytest.mark.parametrize(
    ("model", "published"), [("sdp_cnn_a_adv", F(355, 1000)), ("sdp_cnn_a_mix", F(235, 1000))], ids=["adv", "mix"]
)
@pytest.mark.parametrize("stage", [CROWN, ALPHA], ids=["crown", "alpha"])
def test_the_networks_of_sdp(model: str, published: F, stage: str, tmp_path: Path) -> None:
    """Beta-CROWN (Wang et al., NeurIPS 2021), table 2, column CROWN: 200 images of CIFAR-10 at 2/255; complete
    verifiers reach 44.0 and 41.5 %, and no sound bound lies above what attacks leave."""
    share = certified(tmp_path, f"cifar10/{model}.onnx", "cifar10_sdp200.npz", "3, 32, 32", "2/255", 200, stage)
    assert published <= share <= {"sdp_cnn_a_adv": F(505, 1000), "sdp_cnn_a_mix": F(53, 100)}[model]


@pytest.mark.parametrize(
    ("model", "radius", "published", "left"),
    [("eran_6x100", "0.026", F(160, 1000), F(842, 1000)), ("eran_9x200", "0.015", F(259, 1000), F(911, 1000))],
    ids=["6x100", "9x200"],
)
@pytest.mark.parametrize("stage", [CROWN, ALPHA], ids=["crown", "alpha"])
def test_the_networks_of_eran(model: str, radius: str, published: F, left: F, stage: str, tmp_path: Path) -> None:
    """Table 3 of the same paper, column CROWN/DeepPoly: the first 1,000 images of MNIST; ``left`` is what attacks
    leave."""
    share = certified(tmp_path, f"mnist/{model}.onnx", "mnist_test_10k.npz", "1, 28, 28", radius, 1000, stage)
    assert published <= share <= left
