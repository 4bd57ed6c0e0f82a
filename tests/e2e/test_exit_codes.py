"""What ``tmc run`` returns, on variants of the sensor whose outcome is known by hand (see ``test_sensor``)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from e2e_support import SPECS, Evidence, run_here
from safetensors.numpy import load_file, save_file


@pytest.fixture
def sensor(tmp_path: Path) -> Path:
    shutil.copytree(SPECS / "sensor", tmp_path / "sensor")
    return tmp_path / "sensor"


def outcome(spec: Path) -> tuple[int, Evidence]:
    return run_here(spec, spec.parent / "run")


def change(spec: Path, old: str, new: str) -> Path:
    text = spec.read_text()
    assert old in text
    spec.write_text(text.replace(old, new))
    return spec


def test_0_when_every_claim_is_supported(sensor: Path) -> None:
    code, evidence = outcome(sensor / "sensor.tm")
    assert code == 0
    assert set(evidence.claims().values()) == {"supported"}


def test_3_when_one_is_refuted(sensor: Path) -> None:
    """Three of six stand, and 50 % is not more than 50 %."""
    code, evidence = outcome(
        change(sensor / "sensor.tm", "robust_rate(exact) rounds to 50 %", "robust_rate(exact) > 50 %")
    )
    assert code == 3
    assert evidence.claims()["half of them stand"] == "refuted"


def test_4_when_one_is_undecided(sensor: Path) -> None:
    """Nothing that was submitted counts and nothing was proved, so the rate may be anything."""
    claim = "survival(judged) == 100 %"
    code, evidence = outcome(change(sensor / "out_of_scope.tm", claim, "robust_rate(judged) <= 90 %"))
    assert code == 4
    assert evidence.claims() == {"nothing that was submitted counts": "undecided", "all of it was judged": "supported"}


def test_5_when_the_sets_were_too_large_to_try(sensor: Path) -> None:
    """The edge alone has no more than 200 inputs: it is proved, and of the five others nothing is known."""
    spec = change(sensor / "sensor.tm", "at_most: 1000", "at_most: 200")
    spec.write_text(spec.read_text().split("\nclaim ")[0])
    code, evidence = outcome(spec)
    assert code == 5
    assert evidence.share("exact", "certified").as_integer_ratio() == (1, 6)
    assert evidence.share("exact", "upper") == 1


def test_5_when_a_stage_did_not_finish(sensor: Path) -> None:
    """A unit for which nothing was submitted was not attacked; that is no survival."""
    submitted = load_file(sensor / "submitted.safetensors")
    del submitted["just"]
    save_file(submitted, sensor / "submitted.safetensors")
    spec = sensor / "out_of_scope.tm"
    text = spec.read_text().split("\nclaim ")[0]
    begin, end = text.index(",\n", text.index("submitted.safetensors")), text.index(")\n  seed:")
    spec.write_text(text[:begin] + text[end:])
    code, evidence = outcome(spec)
    assert code == 5
    assert evidence.share("judged", "attack_coverage").as_integer_ratio() == (5, 6)


def test_the_same_command_again_finds_its_own_evidence(sensor: Path) -> None:
    first, evidence = outcome(sensor / "sensor.tm")
    statement = (evidence.path / "statement.json").read_bytes()
    again, _ = outcome(sensor / "sensor.tm")
    assert (first, again) == (0, 0)
    assert (evidence.path / "statement.json").read_bytes() == statement


NEEDLE = Path(__file__).parents[3] / "shared" / "faults" / "needle"


@pytest.mark.shared
@pytest.mark.skipif(not NEEDLE.is_dir(), reason="needs the folder of shared data beside the checkout")
def test_6_when_a_solver_that_is_wrong_is_trusted(tmp_path: Path) -> None:
    """A needle that float32 has and the solver misses: its word supports nothing but under an assumption."""
    pytest.importorskip("maraboupy", exc_type=ImportError)
    for name in ("default", "assumed"):
        shutil.copytree(NEEDLE, tmp_path / name)
    code, evidence = outcome(tmp_path / "default" / "mara.tm")
    assert (code, set(evidence.claims().values())) == (4, {"undecided"}), "the needle is within the proved gap"
    spec = tmp_path / "assumed" / "mara.tm"
    code, evidence = outcome(change(spec, "timeout: 60 's'", "timeout: 60 's', rounding: assumed"))
    assert code == 6
    assert set(evidence.claims().values()) == {"assumed"}
    columns = evidence.summary["evaluations"]["ev"]["columns"]
    assert "certified" not in columns
    assert columns["certified_trusting"]["note"].startswith("trusting marabou 2.0.0")
    assert columns["robust_accuracy"]["low"] == "0"
