"""Numbers with a name are the field's: beside a second implementation or a published table (docs/quantities.md)."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from audit_support import Rows, attack, certifier, evaluation, threat
from scipy.stats import binomtest

from tmlang.audit.columns import Column, Restriction
from tmlang.audit.corruptions import Errors, corruption_error, ratios
from tmlang.audit.intervals import population_interval, wilson
from tmlang.audit.tally import tally
from tmlang.meaning.threats import Ball

F = Fraction
BOARDS = Path(__file__).resolve().parents[3] / "shared" / "data" / "real" / "leaderboards"
COUNTS = [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (37, 100), (999, 1000), (4711, 50000)]


@pytest.mark.parametrize("confidence", [F(9, 10), F(95, 100), F(999, 1000)])
@pytest.mark.parametrize(("hits", "n"), COUNTS)
def test_intervals_of_a_proportion_are_scipys(hits: int, n: int, confidence: Fraction) -> None:
    test = binomtest(hits, n)
    for ours, method in (
        (wilson(F(hits, n), n, confidence), "wilson"),
        (population_interval(hits, hits, n, confidence), "exact"),
    ):
        theirs = test.proportion_ci(float(confidence), method)
        assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-9)


# --- published tables ---------------------------------------------------------------------------------------------


def board(name: str) -> dict[str, dict[tuple[str, int], Fraction]]:
    """Accuracy by model, corruption and severity, as RobustBench publishes them."""
    rows = list(csv.reader((BOARDS / f"robustbench_{name}_unaggregated_results.csv").open(encoding="utf-8")))
    cells = [(corruption, int(severity)) for corruption, severity in zip(rows[0][1:], rows[1][1:], strict=True)]
    return {r[0]: dict(zip(cells, map(F, r[1:]), strict=True)) for r in rows[2:] if r[0]}


def errors(accuracies: dict[tuple[str, int], Fraction]) -> Errors:
    cells = [(at, Column("corrupted_accuracy", 0, 1, a, a)) for at, a in accuracies.items()]
    return Errors.of(cells, None, cells[0][1])


@pytest.mark.shared
def test_corruption_errors_are_those_of_the_paper() -> None:
    """Hendrycks and Dietterich (ICLR 2019), table 1: ResNet-50, per cent of AlexNet's errors in whole numbers, and
    their mean, 76.7. RobustBench measured both again, with newer weights (clean error 23.3 for 23.9 %) and on 5,000 of
    the 50,000 pictures of each cell, which moves a corruption by up to 3 points; the mean moves less."""
    paper = {
        **{"gaussian_noise": 80, "shot_noise": 82, "impulse_noise": 83, "defocus_blur": 75, "glass_blur": 89},
        **{"motion_blur": 78, "zoom_blur": 80, "snow": 78, "frost": 75, "fog": 66, "brightness": 57, "contrast": 71},
        **{"elastic_transform": 85, "pixelate": 77, "jpeg_compression": 77},
    }
    imagenet = board("imagenet")
    resnet, alexnet = errors(imagenet["Standard_R50"]), errors(imagenet["AlexNet"])
    found = ratios("mce", resnet, alexnet)
    assert found.keys() == paper.keys()
    for corruption, (low, high) in found.items():
        assert low == high
        assert abs(100 * low - paper[corruption]) < 3, corruption
    column = corruption_error("mce", resnet, alexnet)
    assert column.low == column.high
    assert abs(100 * float(column.low or 0) - 76.7) < 0.5
    assert column.note == "the mean over 15 corruptions, at severities 1, 2, 3, 4, 5"
    itself = corruption_error("mce", alexnet, alexnet)
    assert (itself.low, itself.high) == (1, 1)


@pytest.mark.shared
@pytest.mark.parametrize("data", ["cifar10", "cifar100", "imagenet"])
def test_the_accuracy_over_a_suite_is_the_leaderboards(data: str) -> None:
    """RobustBench's number of a model is the mean over 75 cells of equally many pictures: so is a pooled share. Its
    second digit is cut off in places and rounded in others."""
    rows = csv.DictReader((BOARDS / "robustbench_model_info.csv").open(encoding="utf-8"))
    published = {r["model"]: r for r in rows if (r["dataset"], r["threat"]) == (data, "corruptions")}
    compared = 0
    for model, cells in board(data).items():
        if model in published:
            right = [accuracy * 5000 for accuracy in cells.values()]
            pooled = F(sum(right), 5000 * len(cells))
            assert float(100 * pooled) == pytest.approx(float(published[model]["autoattack_or_corruption"]), abs=0.01)
            compared += 1
    assert compared >= 10


# --- counted again from what each example is ----------------------------------------------------------------------


def test_certified_accuracy_at_a_radius_counts_radii() -> None:
    """Cohen and others (2019): the share of all examples that are right and whose radius is at least r."""
    rng = np.random.default_rng(0)
    radii = np.where(rng.random(40) < 0.3, 0.0, rng.integers(1, 8, 40) / 8)
    right = rng.random(40) < 0.8
    rows = Rows()
    for i, (radius, ok) in enumerate(zip(radii.tolist(), right.tolist(), strict=True)):
        rows.clean(f"u{i}", "cc" if ok else "cw")
        if ok:
            rows.proof(f"u{i}", "c", "certified" if radius else "unknown", radius=radius, margin=1.0)
    ball = threat(allow=Ball("l2", "px", F(1)))
    for r in (F(1, 8), F(1, 2), F(7, 8), F(1)):
        made = tally(evaluation(certifier()), ball, rows.all, restriction=Restriction(radius=r)).get("certified")
        assert made is not None
        assert (made.low, made.denominator) == (F(int((right & (radii >= float(r))).sum()), 40), 40)


def test_accuracy_under_a_suite_and_shares_of_its_attacks() -> None:
    """Croce and Hein (2020): right before any change and broken by no attack, of all. An attack's own success is over
    the right ones; what papers divide by all examples is one less the survival of that attack alone."""
    rng = np.random.default_rng(1)
    right = rng.random(50) < 0.8
    broken = rng.random((50, 2)) < 0.4
    rows = Rows()
    for i in range(50):
        rows.clean(f"u{i}", "cc" if right[i] else "cw")
        for k in range(2) if right[i] else ():
            rows.attack(f"u{i}", "ab"[k], "broken" if broken[i, k] else "none")
    columns = tally(evaluation(attack("a"), attack("b"), attribution="full"), threat(), rows.all)
    survival = columns.get("survival")
    assert survival is not None
    assert survival.low == F(int((right & ~broken.any(axis=1)).sum()), 50)
    for k, (label, column) in enumerate(columns.attacks):
        assert label == "ab"[k]
        assert column.low == F(int((right & broken[:, k]).sum()), int(right.sum()))
        alone = [r for r in rows.all if r.stage in ("clean", label)]
        single = tally(evaluation(attack(label)), threat(), alone).get("survival")
        assert single is not None
        assert 1 - F(single.low or 0) == F(int((~right | broken[:, k]).sum()), 50)


def test_the_median_distance_is_numpys() -> None:
    """Brendel and others (2019): infinite where nothing was found, 0 where the answer was wrong before any change."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = 9 + seed
        distances = np.where(rng.random(n) < 0.2, np.inf, rng.integers(1, 64, n) / 64)
        distances[rng.random(n) < 0.2] = 0
        rows = Rows()
        for i, d in enumerate(distances.tolist()):
            rows.clean(f"u{i}", "cc" if d else "cw")
            if d:
                rows.attack(
                    f"u{i}",
                    "a",
                    *(("none",) if d == np.inf else ("broken",)),
                    **({} if d == np.inf else {"distance": d}),
                )
        nearest = threat(allow=None, minimize=("l2", "px"))
        column = tally(evaluation(attack()), nearest, rows.all).get("median_distance")
        assert column is not None
        assert column.low == column.high == np.median(distances)
