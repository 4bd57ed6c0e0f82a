"""``specs/digits/rotations.tm``: every answer against scipy's rotations and direct use of the network."""

from __future__ import annotations

import importlib.util
from fractions import Fraction

import numpy as np
import pytest
import torch
from e2e_support import SPECS, Evidence, run_here, tmc
from safetensors.torch import load_file
from scipy.ndimage import affine_transform
from sklearn.datasets import load_digits

from tmlang.audit.bundle import Bundle

pytestmark = pytest.mark.xdist_group("rotations")
DIGITS = SPECS / "digits"
IDS = (DIGITS / "test_ids.txt").read_text().split()[:100]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    code, found = run_here(DIGITS / "rotations.tm", tmp_path_factory.mktemp("rotations") / "run", "--trust-code")
    assert code == 3  # one claim is refuted
    return found


def network() -> torch.nn.Module:
    spec = importlib.util.spec_from_file_location("digits_of_this_test", DIGITS / "digits.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    model = loaded.small_cnn()
    model.load_state_dict(load_file(DIGITS / "digits.safetensors"))
    return model.eval()


def turned(picture: np.ndarray, degrees: float, down: float = 0.0, right: float = 0.0) -> np.ndarray:
    """Counterclockwise about the centre, then shifted: scipy asks where each pixel of the result comes from."""
    a = np.deg2rad(degrees)
    back = np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
    centre = np.array([3.5, 3.5])
    offset = centre - back @ (centre + np.array([down, right]))
    return affine_transform(picture, back, offset, order=1, mode="grid-constant", cval=0.0).astype(np.float32)


def decided(model: torch.nn.Module, pictures: list[np.ndarray]) -> list[int]:
    with torch.no_grad():
        return [int(model(torch.from_numpy(p)[None, None]).argmax()) for p in pictures]


def test_the_enumeration_knows_what_scipy_and_the_network_say(evidence: Evidence) -> None:
    digits, model = load_digits(), network()
    broken = set()
    for i in IDS:
        answers = decided(model, [turned(digits.images[int(i)] / 16, d) for d in (0, *range(-15, 16))])
        if answers[0] == digits.target[int(i)] and set(answers) != {answers[0]}:
            broken.add(i)
    rows = [r for r in Bundle.open(evidence.path).records() if r.stage == "all"]
    assert {r.unit for r in rows if r.verdict == "broken"} == broken
    assert {r.verdict for r in rows} == {"broken", "certified"}
    assert all(r.message == "31 inputs in the set" for r in rows)


def test_every_failing_picture_is_made_by_its_parameters(evidence: Evidence) -> None:
    bundle, digits, model = Bundle.open(evidence.path), load_digits(), network()
    found = [r for r in bundle.records() if r.stage in ("grid", "slopes") and r.observed_failure]
    assert len(found) >= 20
    for row in found:
        theta = bundle.parameters(row.candidate)
        assert theta is not None
        assert abs(theta[0]) <= 10
        assert max(map(abs, theta[1:])) <= Fraction(1, 4)
        picture = turned(digits.images[int(row.example)] / 16, *theta)
        np.testing.assert_allclose(bundle.candidate(row.candidate)[0][0], picture, rtol=0, atol=2e-7)
        assert decided(model, [picture]) == [row.decision]


def test_the_bundle_is_audited_with_the_model_and_tells_the_parameters(evidence: Evidence) -> None:
    said = tmc("audit", evidence.path, "--model", DIGITS, "--trust-code", folder=evidence.path.parent)
    assert said.code == 0, said.text
    report = (evidence.path / "report.md").read_text()
    assert "rotate by at most 10 'deg' and translate by at most 0.25 'px', in this order" in report
    assert "translate down: " in report
