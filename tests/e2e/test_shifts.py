"""``specs/digits/shifts.tm``: every answer against direct use of library and network, with the recorded seeds."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from e2e_support import SPECS, Evidence, run_here, tmc
from PIL import Image
from report_support import tells_every_number
from safetensors.torch import load_file
from scipy.stats import binomtest
from sklearn.datasets import load_digits

from tmlang.audit.bundle import Bundle
from tmlang.audit.shift_rows import shift_faults
from tmlang.base import canonical

pytestmark = pytest.mark.xdist_group("shifts")
DIGITS = SPECS / "digits"
IDS = (DIGITS / "test_ids.txt").read_text().split()[:100]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    code, found = run_here(DIGITS / "shifts.tm", tmp_path_factory.mktemp("shifts") / "run", "--trust-code")
    assert code == 0
    return found


def pages() -> dict[str, np.ndarray]:
    """(32, 32) bytes by id, straight from scikit-learn."""
    images = load_digits().images
    return {i: np.kron(np.rint(images[int(i)] / 16 * 255), np.ones((4, 4))).astype(np.uint8) for i in IDS}


def decisions(changed: dict[str, np.ndarray]) -> dict[str, int]:
    """The network on pages shrunk by torch, one at a time."""
    module = importlib.util.spec_from_file_location("digits_of_this_test", DIGITS / "digits.py")
    assert module is not None
    assert module.loader is not None
    loaded = importlib.util.module_from_spec(module)
    module.loader.exec_module(loaded)
    model = loaded.small_cnn()
    model.load_state_dict(load_file(DIGITS / "digits.safetensors"))
    found = {}
    with torch.no_grad():
        for i, page in changed.items():
            x = torch.from_numpy(page.astype(np.float32))[None, None] / 255
            small = torch.nn.functional.interpolate(x, (8, 8), mode="bilinear", align_corners=False, antialias=True)
            found[i] = int(model(small).argmax())
    return found


def test_corruptions_and_noise_are_those_of_the_recorded_seeds(evidence: Evidence) -> None:
    from imagecorruptions.corruptions import defocus_blur

    page = pages()
    target = load_digits().target
    labels = {i: int(target[int(i)]) for i in IDS}
    focus = {r["unit"]: r["decision"] for r in evidence.rows("focus", "apply")}
    assert focus == decisions({i: defocus_blur(Image.fromarray(x), 1).astype(np.uint8) for i, x in page.items()})
    assert evidence.share("focus", "corrupted_accuracy") == Fraction(sum(focus[i] == labels[i] for i in IDS), 100)
    for repeat in range(3):
        rows = [r for r in evidence.rows("noise", "apply") if r["repeat"] == repeat]
        drawn = {r["unit"]: np.random.default_rng(r["seed"]).normal(0, 32, 1024).reshape(32, 32) for r in rows}
        noisy = {i: np.clip(np.rint(page[i] + drawn[i]), 0, 255).astype(np.uint8) for i in IDS}
        assert {r["unit"]: r["decision"] for r in rows} == decisions(noisy)


def test_intervals_are_scipy_s(evidence: Evidence) -> None:
    for name, method in (("focus", "wilson"), ("fog", "wilson"), ("salt", "exact")):
        column = evidence.summary["evaluations"][name]["columns"]["corrupted_accuracy"]
        told = binomtest(column["numerator"], 100).proportion_ci(0.95, method=method)
        assert [column["interval"][end] for end in ("low", "high")] == pytest.approx([told.low, told.high], abs=1e-9)
        assert column["denominator"] == 100


def test_the_auditor_and_the_report_agree(evidence: Evidence, tmp_path: Path) -> None:
    assert tmc("audit", evidence.path, folder=tmp_path).code == 0
    for page in ("report.md", "report.html"):
        text = (evidence.path / page).read_text(encoding="utf-8")
        assert "accuracy after the change" in text
        assert "survival, rejections failing" not in text
        assert "broken by none of the attacks" not in text


def test_what_a_change_turned_is_saved_shown_and_asked_about_again(evidence: Evidence, tmp_path: Path) -> None:
    """The saved inputs are exactly the changed pages of the examples that were right before and not after, to the byte
    as the library blurs them; the model takes every decision again, and a row without its input is found."""
    from imagecorruptions.corruptions import defocus_blur

    bundle = Bundle.open(evidence.path)
    rows = [r for r in bundle.records() if r.evaluation == "focus"]
    right = {r.unit for r in rows if r.stage == "clean" and r.clean == "cc"}
    turned = [r for r in rows if r.stage != "clean" and r.unit in right and r.decision != r.label]
    assert turned
    assert [r.unit for r in rows if r.candidate is not None] == [r.unit for r in turned]
    page = pages()
    for r in turned:
        changed, original, _ = bundle.candidate(r.candidate or "")
        assert np.array_equal(original.reshape(32, 32), page[r.unit])
        assert np.array_equal(changed.reshape(32, 32), defocus_blur(Image.fromarray(page[r.unit]), 1).astype(np.uint8))
    text = (evidence.path / "report.html").read_text(encoding="utf-8")
    assert "What the change turned" in text
    assert f'alt="changed input of {turned[0].unit}"' in text
    said = tmc("audit", evidence.path, "--model", DIGITS, "--trust-code", folder=tmp_path)
    assert said.code == 0, said.text
    lost = replace(turned[0], candidate=None)
    plan = canonical.loads(bundle.read_bytes("plan.json"))
    of_focus = next(e for e in plan["evaluations"] if e["name"] == "focus")
    assert "a changed input is saved iff it turned a correct decision" in list(shift_faults(of_focus, [lost]))


def test_every_format_tells_the_numbers_of_the_records(evidence: Evidence) -> None:
    tells_every_number(Bundle.open(evidence.path))
