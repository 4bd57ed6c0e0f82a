"""``specs/digits``: its numbers against direct use of the libraries, and against a second implementation of CROWN."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchattacks
from crown import Layer, box, dense, l2_ball, least_margins
from e2e_support import SPECS, Evidence, assert_duckdb_agrees, run, tmc
from report_support import tells_every_number
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import nn

from tmlang.audit.bundle import Bundle

pytestmark = pytest.mark.xdist_group("digits")
DIGITS = SPECS / "digits"
LINF, L2 = 0.06, 0.25
TestSet = tuple[list[str], torch.Tensor, torch.Tensor]
Layers = tuple[Layer, Layer, Layer]


def network() -> nn.Sequential:
    module = importlib.util.spec_from_file_location("digits_of_the_test", DIGITS / "digits.py")
    assert module is not None
    assert module.loader is not None
    loaded = importlib.util.module_from_spec(module)
    module.loader.exec_module(loaded)
    model: nn.Sequential = loaded.small_cnn()
    model.load_state_dict(load_file(DIGITS / "digits.safetensors"))
    return model.eval()


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    said, found = run(DIGITS / "digits.tm", tmp_path_factory.mktemp("digits") / "run", "--trust-code")
    assert said.code == 3, said.text
    return found


@pytest.fixture(scope="module")
def test_set() -> TestSet:
    """(ids, images, labels) straight from scikit-learn."""
    ids = (DIGITS / "test_ids.txt").read_text().split()
    bunch, rows = load_digits(), [int(i) for i in ids]
    return ids, torch.tensor(bunch.images[rows] / 16, dtype=torch.float32)[:, None], torch.tensor(bunch.target[rows])


def by_unit(evidence: Evidence, evaluation: str, stage: str) -> dict[str, dict[str, Any]]:
    return {row["unit"]: row for row in evidence.rows(evaluation, stage) if not row["projected"]}


def broken(evidence: Evidence, evaluation: str) -> set[str]:
    stages = ("ce", "dlr", "second_opinion")
    rows = (row for stage in stages for row in evidence.rows(evaluation, stage))
    return {row["unit"] for row in rows if row["observed_failure"]}


def test_nothing_was_trained_on_what_is_tested() -> None:
    train, test = (set((DIGITS / f"{part}_ids.txt").read_text().split()) for part in ("train", "test"))
    assert not train & test
    assert train | test == {str(i) for i in range(1797)}


def test_one_claim_of_each_kind(evidence: Evidence) -> None:
    assert evidence.claims() == {
        "four in five are proved": "supported",
        "nine in ten survive": "refuted",
        "at least 85 in 100 are robust": "undecided",
        "three in five are proved in l2": "supported",
    }


def test_clean_accuracy_is_torchs_own(evidence: Evidence, test_set: TestSet) -> None:
    _, x, y = test_set
    correct = int((network()(x).argmax(1) == y).sum())
    assert correct == 439
    assert evidence.share("greys", "clean_accuracy") == Fraction(correct, 450)


def test_survival_is_what_the_library_finds_directly(evidence: Evidence, test_set: TestSet) -> None:
    """auto-PGD with two losses, called without tmlang. Two searches need not find the same last few examples."""
    _, x, y = test_set
    model = network()
    stands = model(x).argmax(1) == y
    for loss in ("ce", "dlr"):
        attack = torchattacks.APGD(model, eps=LINF, steps=50, seed=0, loss=loss)
        stands &= model(attack(x, y)).argmax(1) == y
    assert abs(int(stands.sum()) - 450 * evidence.share("greys", "survival")) <= 2


def test_every_witness_lies_in_the_ball_and_fails(evidence: Evidence, test_set: TestSet) -> None:
    ids, x, y = test_set
    model = network()
    count = 0
    for evaluation in ("greys", "lengths"):
        for stage in ("ce", "dlr", "second_opinion"):
            for row in evidence.rows(evaluation, stage):
                if row["observed_failure"]:
                    at = ids.index(row["unit"])
                    z = candidate(evidence, row["candidate"])
                    assert within(evaluation, z, x[at].numpy())
                    assert int(model(torch.from_numpy(z)[None]).argmax()) != int(y[at])
                    count += 1
    assert count == len(broken(evidence, "greys")) + len(broken(evidence, "lengths"))
    assert count > 80


def within(evaluation: str, z: np.ndarray, x: np.ndarray) -> bool:
    """In rationals: 3/50 is no float, and an ulp beyond is outside."""
    change = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(z.ravel(), x.ravel(), strict=True)]
    inside = all(0 <= v <= 1 for v in z.ravel())
    if evaluation == "greys":
        return inside and max(map(abs, change)) <= Fraction(3, 50)
    return inside and sum(c * c for c in change) <= Fraction(1, 16)


def candidate(evidence: Evidence, reference: str) -> np.ndarray:
    file, row = reference.split("#")
    array: np.ndarray = load_arrays(evidence.path / Path(file))["x"][int(row)]
    return array


def test_linf_certificates_are_those_of_a_second_crown(evidence: Evidence, test_set: TestSet) -> None:
    """On every fourth digit: the same margins, hence the same verdicts."""

    def margin(layers: Layers, centre: np.ndarray, differences: np.ndarray) -> float:
        region = box((centre - LINF).clip(0), (centre + LINF).clip(max=1))
        return float(least_margins(layers, region, differences).min())

    agree(evidence, "greys", test_set, margin)


def test_l2_certificates_are_those_of_a_second_crown(evidence: Evidence, test_set: TestSet) -> None:
    """auto-LiRPA takes the norm of the whole kernel also where a part of it hangs over the edge of the image: looser
    than what is exact there, and sound. The second implementation does the same here, to compare to the digit."""

    def margin(layers: Layers, centre: np.ndarray, differences: np.ndarray) -> float:
        first = layers[0]
        norms = np.sqrt((first.weight**2).sum(axis=1)).reshape(16, 64).max(axis=1).repeat(64)
        middle = first.weight @ centre + first.bias
        z1 = (middle - L2 * norms, middle + L2 * norms)
        return float(least_margins(layers, l2_ball(centre, L2), differences, z1).min())

    agree(evidence, "lengths", test_set, margin)


def agree(
    evidence: Evidence, evaluation: str, test_set: TestSet, margin: Callable[[Layers, np.ndarray, np.ndarray], float]
) -> None:
    ids, x, y = test_set
    layers = dense_layers()
    rows = by_unit(evidence, evaluation, "crown")
    assert len(rows) > 390
    for unit, row in list(rows.items())[::4]:
        at = ids.index(unit)
        label = int(y[at])
        differences = np.eye(10)[label] - np.delete(np.eye(10), label, axis=0)
        expected = margin(layers, x[at].double().numpy().ravel(), differences)
        assert row["margin"] == pytest.approx(expected, abs=1e-5), unit
        # A certificate asks for more than 0: for more than the gap to the arithmetic of the evaluator.
        assert row["verdict"] == ("certified" if expected > row["gap"] else "unknown"), unit


def dense_layers() -> Layers:
    first, _, second, _, _, last = network()
    one, shape = dense(first, (1, 8, 8))
    two, shape = dense(second, shape)
    return one, two, dense(last, (int(np.prod(shape)),))[0]


def test_no_certified_digit_is_broken(evidence: Evidence) -> None:
    for evaluation in ("greys", "lengths"):
        certified = {u for u, r in by_unit(evidence, evaluation, "crown").items() if r["verdict"] == "certified"}
        assert certified
        assert not certified & broken(evidence, evaluation)


def test_duckdb_counts_the_same(evidence: Evidence) -> None:
    assert_duckdb_agrees(evidence)


def test_the_audit_agrees(evidence: Evidence) -> None:
    audited = tmc("audit", evidence.path, folder=evidence.path.parent)
    assert audited.code == 0, audited.text


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_the_report_says_what_became_of_every_claim(name: str, evidence: Evidence) -> None:
    text = (evidence.path / name).read_text()
    for claim, status in evidence.claims().items():
        assert claim in text
        assert status in text


def test_every_format_tells_the_numbers_of_the_records(evidence: Evidence) -> None:
    tells_every_number(Bundle.open(evidence.path))
