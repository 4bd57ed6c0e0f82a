"""``specs/digits/tilted.tm``: turned pages beside smudged ones, and turned pages within a ball, against scipy and the
network itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from e2e_support import SPECS, Evidence, run_here, tmc
from sklearn.datasets import load_digits
from test_rotations import network, turned

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record

pytestmark = pytest.mark.xdist_group("tilted")
DIGITS = SPECS / "digits"
IDS = (DIGITS / "test_ids.txt").read_text().split()[:100]
ANGLES = [d for d in range(-15, 16) if d]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    code, found = run_here(DIGITS / "tilted.tm", tmp_path_factory.mktemp("tilted") / "run", "--trust-code")
    assert code == 0
    return found


def decided(model: torch.nn.Module, pictures: list[np.ndarray]) -> list[int]:
    with torch.no_grad():
        return model(torch.from_numpy(np.stack(pictures))[:, None]).argmax(dim=1).tolist()


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[np.ndarray, int, list[np.ndarray]]]:
    """Per id the picture, its label where the network agrees with it, and the pictures turned by every angle."""
    digits, model = load_digits(), network()
    found = {}
    for i in IDS:
        picture = digits.images[int(i)] / 16
        if decided(model, [picture.astype(np.float32)]) == [digits.target[int(i)]]:
            found[i] = picture, int(digits.target[int(i)]), [turned(picture, d) for d in ANGLES]
    return found


def failures(evidence: Evidence, stage: str = "") -> list[Record]:
    """Pictures that fail, in the evaluation of both branches."""
    rows = Bundle.open(evidence.path).records()
    found = [r for r in rows if r.evaluation == "either" and r.candidate is not None and r.observed_failure]
    return [r for r in found if stage in ("", r.stage)]


def test_a_page_is_broken_by_tilting_iff_some_angle_breaks_it(evidence: Evidence, pages: dict) -> None:
    model = network()
    tilted = {i for i, (_, label, made) in pages.items() if set(decided(model, made)) != {label}}
    assert {r.unit for r in failures(evidence, "angles")} == tilted
    assert {r.unit for r in failures(evidence) if "tilted" in r.branch} == tilted
    bundle = Bundle.open(evidence.path)
    left_out = {s.label: s.left_out for e in bundle.plan().evaluations if e.name == "either" for s in e.stages}
    assert left_out == {"angles": ("smudged",), "slopes": ("smudged",), "greys": ("tilted",)}
    claims = {c["text"]: c for c in bundle.json("columns.json")["claims"]}
    assert claims["of the turned, two in three"]["high"] == str(Fraction(len(pages) - len(tilted), 100))


def test_within_the_ball_the_answer_is_known(evidence: Evidence, pages: dict) -> None:
    model = network()
    expected = set()
    for i, (picture, label, made) in pages.items():
        near = [p for p in made if np.abs(p - picture).max() <= 0.25]
        assert all(abs(np.abs(p - picture).max() - 0.25) > 1e-6 for p in made)  # none at the edge
        if near and set(decided(model, near)) != {label}:
            expected.add(i)
    rows = [r for r in Bundle.open(evidence.path).records() if r.stage == "all"]
    assert {r.unit for r in rows if r.verdict == "broken"} == expected
    assert {r.unit for r in rows if r.verdict == "certified"} == set(pages) - expected


def test_every_failing_page_is_made_by_its_parameters_or_lies_in_the_ball(evidence: Evidence, pages: dict) -> None:
    bundle = Bundle.open(evidence.path)
    model, found = network(), failures(evidence)
    assert len(found) > 40
    for row in found:
        picture, start = bundle.candidate(row.candidate)[0][0], pages[row.unit][0]
        theta = bundle.parameters(row.candidate)
        assert ("tilted" in row.branch) == (theta is not None)
        assert ("smudged" in row.branch) == (np.abs(picture.astype(float) - start).max() <= 0.1)
        assert (theta is None) == (row.stage == "greys")
        if theta is not None:
            np.testing.assert_allclose(picture, turned(start, *theta), rtol=0, atol=2e-7)
        assert decided(model, [picture]) == [row.decision]
    # Some page is turned by so little that it lies in the ball as well.
    assert "tilted smudged" in {r.branch for r in found}


def test_the_bundle_is_audited_with_the_model(evidence: Evidence) -> None:
    said = tmc("audit", evidence.path, "--model", DIGITS, "--trust-code", folder=evidence.path.parent)
    assert said.code == 0, said.text
    report = (evidence.path / "report.md").read_text()
    assert "(tilted) the picture is the original after rotate by at most 15 'deg' in steps of 1 'deg'" in report
    assert "(smudged) no coordinate differs from the original by more than 0.1" in report
