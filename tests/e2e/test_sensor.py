"""``specs/sensor``, worked out by hand: score = first + second, unwanted from 1 on, first within 1/8 and within [0, 1].

| observation | score | what first may become | so |
|---|---|---|---|
| near (3/8, 1/2) ordinary | 7/8 | up to 1/2: score 1, and equality is unwanted | broken, by that input alone |
| far (1/4, 1/2) ordinary | 3/4 | up to 3/8: score 7/8 | stands |
| clear (5/8, 1/2) unwanted | 9/8 | down to 1/2: score 1 | stands |
| just (639/1024, 1/2) unwanted | 1151/1024 | down to 511/1024: score 1023/1024 | broken, by that input alone |
| tie (1/2, 1/2) unwanted | 1 | down: score below 1 | broken |
| edge (0, 1) unwanted | 1 | only up, 0 is the least reading: score at least 1 | stands |
| mislabelled (7/8, 1/4) ordinary | 9/8 | | wrong before anything is changed |
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from e2e_support import SPECS, Evidence, assert_duckdb_agrees, run, tmc
from report_support import tells_every_number
from safetensors.numpy import load_file

from tmlang.audit.bundle import Bundle

pytestmark = pytest.mark.xdist_group("sensor")
F = Fraction
STAND = {"far", "clear", "edge"}
BROKEN = {"near", "just", "tie"}
POINTS = {
    "near": (F(3, 8), F(1, 2), "ordinary"),
    "far": (F(1, 4), F(1, 2), "ordinary"),
    "clear": (F(5, 8), F(1, 2), "unwanted"),
    "just": (F(639, 1024), F(1, 2), "unwanted"),
    "tie": (F(1, 2), F(1, 2), "unwanted"),
    "edge": (F(0), F(1), "unwanted"),
    "mislabelled": (F(7, 8), F(1, 4), "ordinary"),
}


def failures(name: str) -> tuple[int, list[Fraction]]:
    """(inputs in the set, values of first at which the model is wrong), by trying all in rationals."""
    first, second, label = POINTS[name]
    allowed = [F(k, 1024) for k in range(1025) if abs(F(k, 1024) - first) <= F(1, 8)]
    return len(allowed), [v for v in allowed if ("unwanted" if v + second >= 1 else "ordinary") != label]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    said, evidence = run(SPECS / "sensor" / "sensor.tm", tmp_path_factory.mktemp("sensor") / "run")
    assert said.code == 0, said.text
    return evidence


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    said, evidence = run(SPECS / "sensor" / "out_of_scope.tm", tmp_path_factory.mktemp("scope") / "run")
    assert said.code == 0, said.text
    return evidence


def test_duckdb_counts_the_same(exact: Evidence, judged: Evidence) -> None:
    assert_duckdb_agrees(exact)
    assert_duckdb_agrees(judged)


def test_the_table_above_is_what_enumeration_in_rationals_says() -> None:
    found = {name: failures(name) for name in POINTS}
    assert {name for name, (_, wrong) in found.items() if not wrong} == STAND
    assert found["near"] == (257, [F(1, 2)])
    assert found["just"] == (257, [F(511, 1024)])
    assert found["edge"] == (129, [])


def test_half_of_the_six_that_were_right_stand(exact: Evidence) -> None:
    assert exact.share("exact", "clean_accuracy") == F(6, 7)
    assert exact.share("exact", "certified") == exact.share("exact", "upper") == F(1, 2)
    assert exact.share("exact", "coverage") == 1
    assert set(exact.claims().values()) == {"supported"}


def test_every_verdict_and_every_size(exact: Evidence) -> None:
    rows = {row["unit"]: row for row in exact.rows("exact", "grid")}
    assert {name for name, row in rows.items() if row["verdict"] == "certified"} == STAND
    assert {name for name, row in rows.items() if row["verdict"] == "broken"} == BROKEN
    for name, row in rows.items():
        assert row["message"] == f"{failures(name)[0]} inputs in the set"
        assert row["observed_failure"] is (True if name in BROKEN else None)


def test_the_witnesses_are_failures_of_the_exact_set(exact: Evidence) -> None:
    for name, row in ((r["unit"], r) for r in exact.rows("exact", "grid") if r["candidate"]):
        first, second = candidate(exact, row["candidate"])
        assert second == POINTS[name][1]
        assert first in failures(name)[1]


def test_a_wrong_original_is_no_new_failure(exact: Evidence) -> None:
    (row,) = [r for r in exact.rows("exact", "clean") if r["unit"] == "mislabelled"]
    assert (row["clean"], row["clean_decision"]) == ("cw", 1)
    assert row["observed_failure"] is None
    assert row["counted_failure"] is False


def test_what_was_submitted_changes_the_models_mind_and_counts_for_nothing(judged: Evidence) -> None:
    raw = {r["unit"]: r for r in judged.rows("judged", "submitted") if not r["projected"]}
    outside = {"near": "mask", "far": "linf", "tie": "mask", "edge": "domain"}
    assert {name: row["rule"] for name, row in raw.items() if row["status"] == "invalid"} == outside
    for name in outside:
        row = raw[name]
        assert row["changed_correct"] is True
        assert row["within_scope"] is False
        assert row["observed_failure"] is None
        assert row["counted_failure"] is False
    assert {name for name, row in raw.items() if row["status"] == "none"} == {"clear", "just"}


def test_its_inward_projection_is_a_row_of_its_own(judged: Evidence) -> None:
    again = {r["unit"]: r for r in judged.rows("judged", "submitted") if r["projected"]}
    assert set(again) == {"near", "far", "tie", "edge"}
    assert all(row["observed_failure"] is False for row in again.values())
    # (1/2, 1/2) comes back to (3/8, 1/2), an eighth from (1/4, 1/2).
    assert again["far"]["linf"] == 0.125
    assert judged.share("judged", "survival") == 1


@pytest.mark.parametrize("bundle", ["exact", "judged"])
def test_the_audit_agrees(bundle: str, request: pytest.FixtureRequest) -> None:
    evidence: Evidence = request.getfixturevalue(bundle)
    said = tmc("audit", evidence.path, folder=evidence.path.parent)
    assert said.code == 0, said.text


def candidate(evidence: Evidence, reference: str) -> tuple[Fraction, Fraction]:
    """The saved input as exact numbers; a lattice saves indices, 1024 of them to 1."""
    file, row = reference.split("#")
    array = load_file(evidence.path / Path(file))["x"]
    scale = 1024 if np.issubdtype(array.dtype, np.integer) else 1
    first, second = (F(float(v)) / scale for v in array[int(row)])
    return first, second


def test_every_format_tells_the_numbers_of_the_records(exact: Evidence, judged: Evidence) -> None:
    for evidence in (exact, judged):
        tells_every_number(Bundle.open(evidence.path))
