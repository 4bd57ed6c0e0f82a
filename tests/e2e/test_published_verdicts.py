"""Published VNN-COMP instances, imported and run: an answer agrees with the published one, or there is none."""

from __future__ import annotations

import csv
import gzip
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from tmlang.base.source import Source
from tmlang.cli.front import read_spec
from tmlang.execute.runner import RunOptions, run
from tmlang.interchange.as_spec import spec_text
from tmlang.interchange.vnnlib import read

VNN = Path(__file__).resolve().parents[3] / "shared" / "data" / "real" / "vnn"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not VNN.exists(), reason="the shared data folder is not beside the checkout"),
]
SEARCH = "attack: search = native.pgd(restarts: 8)"
SPLIT = "decide_exactly: split = auto_lirpa.split(timeout: {} 's')"
SOLVER = "decide_exactly: solver = marabou.query(timeout: {} 's')"


def expected(family: str) -> dict[tuple[str, str], str]:
    with (VNN / family / "expected.csv").open() as file:
        return {(row["onnx"], row["vnnlib"]): row["expected"] for row in csv.DictReader(file)}


def answer(family: str, network: str, name: str, folder: Path, *stages: str, seconds: int = 20) -> str:
    """``sat``, ``unsat`` or ``unknown`` from the claims of the imported spec."""
    folder.mkdir(exist_ok=True)
    shutil.copy(VNN / family / network, folder / network)
    data = (VNN / family / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    digest = sha256((folder / network).read_bytes()).hexdigest()
    found = read(Source(name, text), "nearest")  # as the tools of the competition read decimals
    spec = spec_text(found, name=name, sha256="0" * 64, network=network, network_sha256=digest)
    kept = [line for line in spec.splitlines() if not line.startswith(("  attack:", "  decide_exactly:"))]
    lines = [line.format(seconds) for line in stages]
    made = [part for line in kept for part in ([*lines, line] if line.startswith("  seed:") else [line])]
    (folder / "spec.tm").write_text("\n".join(made))
    front = read_spec(str(folder / "spec.tm"), {})
    assert front.plan is not None, front.diagnostics
    done = run(front.plan, RunOptions(out=folder / f"out-{name}"))
    words = {c.holds for c in done.columns.values()}
    return "sat" if "violated" in words else "unsat" if words <= {"holds", "vacuous"} else "unknown"


QUICK = [
    ("rl", "cartpole.onnx", "cartpole_case_unsafe_0.vnnlib", SPLIT),
    ("rl", "cartpole.onnx", "cartpole_case_safe_14.vnnlib", SEARCH),
    ("rl", "lunarlander.onnx", "lunarlander_case_safe_19.vnnlib", SOLVER),
    ("rl", "lunarlander.onnx", "lunarlander_case_unsafe_20.vnnlib", SOLVER),
    ("acasxu", "ACASXU_run2a_2_1_batch_2000.onnx", "prop_2.vnnlib", SPLIT),
    ("acasxu", "ACASXU_run2a_1_1_batch_2000.onnx", "prop_1.vnnlib", SPLIT),
]


@pytest.mark.parametrize(("family", "network", "name", "stage"), QUICK)
def test_quick_instances_are_reproduced(family: str, network: str, name: str, stage: str, tmp_path: Path) -> None:
    said = answer(family, network, name, tmp_path, stage, seconds=60)
    truth = expected(family)[network, name]
    assert said == (truth if stage != SEARCH or truth == "sat" else "unknown")


FAMILIES = {
    "rl": (15, SEARCH, SPLIT),
    "acasxu": (6, SEARCH, SPLIT, SOLVER),
    "safenlp_medical": (6, SEARCH, SPLIT, SOLVER),
    "reach_vdp": (15, SEARCH, SPLIT),
    "mnist_fc": (8, SEARCH, SPLIT),
    "sri_resnet_a": (8, SEARCH, SPLIT),
    "oval21_base_deep": (8, SEARCH, SPLIT),
}
"""Seconds of a stage, and the stages: the solver is asked where inputs or layers are few."""


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_published_verdict_is_contradicted(family: str, tmp_path: Path) -> None:
    counts = {"agrees": 0, "open": 0}
    seconds, *stages = FAMILIES[family]
    for (network, name), truth in expected(family).items():
        if not truth:  # the published tools did not agree on any
            continue
        said = answer(family, network, name, tmp_path, *stages, seconds=seconds)
        assert said in (truth, "unknown"), (network, name, said)
        counts["open" if said == "unknown" else "agrees"] += 1
    print(family, counts)
    assert counts["agrees"]


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_solver_that_is_wrong_on_sigmoid_is_not_believed(tmp_path: Path) -> None:
    """dist_shift: Marabou alone says unsat on instances whose published counterexamples replay."""
    for network, name in expected("dist_shift"):
        assert answer("dist_shift", network, name, tmp_path, SOLVER, seconds=20) != "unsat"
