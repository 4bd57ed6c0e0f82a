"""A failing digit kept as a spec of its own, asked about with its own model and with others.

What another model decides is worked out here with torch alone, from weights that this test writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from e2e_support import SPECS, Evidence, run_here, tmc
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_weights
from safetensors.torch import save_file

from tmlang.cli.main import main

DIGITS = SPECS / "digits"
pytestmark = pytest.mark.xdist_group("incident")
EXAMPLE, LABEL = "2", 2
"""Of the digits; a short search breaks it in both evaluations."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with six digits and short attacks, and its bundle in ``out``."""
    folder = tmp_path_factory.mktemp("incident")
    for name in ("digits.npz", "digits.py", "digits.safetensors"):
        shutil.copyfile(DIGITS / name, folder / name)
    (folder / "test_ids.txt").write_text("\n".join((DIGITS / "test_ids.txt").read_text().split()[:6]) + "\n")
    text = (DIGITS / "digits.tm").read_text().split("\nclaim ")[0].split("# Proved")[0]
    (folder / "digits.tm").write_text(text.replace("steps: 50, restarts: 2", "steps: 20"))
    code, _ = run_here(folder / "digits.tm", folder / "out", "--trust-code")
    assert code == 0
    return folder


@pytest.fixture(scope="module")
def kept(folder: Path) -> Path:
    said = tmc(
        "incident",
        "out",
        "--example",
        EXAMPLE,
        "--evaluation",
        "greys",
        "--model",
        ".",
        "--out",
        "kept/two",
        folder=folder,
    )
    assert said.code == 0, said.text
    return folder / "kept" / "two"


def decisions(weights: Path, inputs: np.ndarray) -> list[int]:
    """By torch alone."""
    scope: dict[str, Callable[[], torch.nn.Module]] = {}
    exec((DIGITS / "digits.py").read_text(), scope)
    model = scope["small_cnn"]()
    model.load_state_dict(load_weights(weights))
    with torch.no_grad():
        found: list[int] = model.eval()(torch.from_numpy(inputs)).argmax(dim=1).tolist()
    return found


def other_model(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    """A folder with the code and changed weights."""
    folder.mkdir()
    shutil.copyfile(DIGITS / "digits.py", folder / "digits.py")
    weights = load_weights(DIGITS / "digits.safetensors")
    change(weights)
    save_file(weights, folder / "digits.safetensors")
    return folder


def last(weights: dict[str, torch.Tensor], part: str) -> torch.Tensor:
    """Weight or bias of the last layer."""
    return weights[[k for k in weights if k.endswith(part)][-1]]


def favour(label: int) -> Callable[[dict[str, torch.Tensor]], object]:
    def change(weights: dict[str, torch.Tensor]) -> None:
        last(weights, "bias")[label] += 1000

    return change


def twice(weights: dict[str, torch.Tensor]) -> None:
    for part in ("weight", "bias"):
        last(weights, part).mul_(2)


def half_as_many(weights: dict[str, torch.Tensor]) -> None:
    name = [k for k in weights if k.endswith("bias")][-1]
    weights[name] = weights[name][:5].clone()


def test_it_holds_the_very_inputs_and_where_they_came_from(folder: Path, kept: Path) -> None:
    rows = [r for stage in ("ce", "dlr", "second_opinion") for r in Evidence(folder / "out").rows("greys", stage)]
    rows = [r for r in rows if r["example"] == EXAMPLE and r["observed_failure"]]
    assert {r["stage"] for r in rows} == {p.stem for p in kept.glob("*.safetensors")} - {"digits"} != set()
    with np.load(kept / "incident.npz") as data:
        original = data["x"]
        assert (data["y"].tolist(), data["id"].tolist()) == ([LABEL], [EXAMPLE])
    facts = json.loads((kept / "incident.json").read_text())
    for row in rows:
        name, _, at = row["candidate"].partition("#")
        stored = load_file(folder / "out" / name)
        x = load_file(kept / f"{row['stage']}.safetensors")[EXAMPLE]
        assert x.tobytes() == stored["x"][int(at)].tobytes()
        assert original[0].tobytes() == stored["original"][int(at)].tobytes()
        assert decisions(kept / "digits.safetensors", x[None]) == [facts["decisions"][row["stage"]]] != [LABEL]
    run = json.loads((folder / "out" / "run.json").read_text())
    assert facts["models"] == {"reader": run["models"]["reader"]["object"]}
    assert facts["artifacts"] == run["artifacts"]


def test_check_and_run_take_it(kept: Path, tmp_path: Path) -> None:
    assert tmc("check", kept / "incident.tm", folder=tmp_path).code == 0
    assert tmc("fmt", "--check", kept / "incident.tm", folder=tmp_path).code == 0
    code, evidence = run_here(kept / "incident.tm", tmp_path / "run", "--trust-code")
    assert code == 3
    assert set(evidence.claims().values()) == {"refuted"}
    assert tmc("audit", tmp_path / "run", folder=tmp_path).code == 0


@pytest.mark.parametrize(
    ("change", "state", "code", "claims"),
    [
        (None, "still failing", 3, "refuted"),
        (twice, "still failing", 3, "refuted"),
        (favour(LABEL), "mended", 0, "supported"),
        (favour(7), "not comparable", 4, "undecided"),
        (half_as_many, "not comparable", 4, None),
    ],
    ids=["its own model", "other weights", "mended", "wrong before", "no model of this kind"],
)
def test_what_became_of_it(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change, state: str, code: int, claims: str | None
) -> None:
    model = DIGITS if change is None else other_model(tmp_path / "model", change)
    if claims is not None:
        inputs = np.stack([load_file(p)[EXAMPLE] for p in sorted(kept.glob("*.safetensors")) if p.stem != "digits"])
        with np.load(kept / "incident.npz") as data:
            before, now = (decisions(model / "digits.safetensors", x) for x in (data["x"], inputs))
        expected = "not comparable" if before != [LABEL] else "mended" if set(now) == {LABEL} else "still failing"
        assert expected == state
    left = {p.name: p.read_bytes() for p in kept.iterdir()}
    assert main(["incident", str(kept), "--model", str(model), "--trust-code"]) == code
    said = capsys.readouterr().out
    assert {line.split(": ")[1] for line in said.splitlines() if line.count(": ") >= 2} == {state}
    assert ("is another object now" in said) == (claims is not None and change is not None)
    assert {p.name: p.read_bytes() for p in kept.iterdir()} == left
    if claims is not None:
        there = tmp_path / "there"
        shutil.copytree(kept, there)
        shutil.copyfile(model / "digits.safetensors", there / "digits.safetensors")
        assert set(run_here(there / "incident.tm", tmp_path / "run", "--trust-code")[1].claims().values()) == {claims}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--example", EXAMPLE], "failed in greys, lengths"),
        (["--example", "nobody"], "found an allowed input of the example `nobody`"),
        (["--example", EXAMPLE, "--evaluation", "others"], "no stage of others"),
    ],
)
def test_what_cannot_be_kept(folder: Path, arguments: list[str], said: str) -> None:
    answer = tmc("incident", "out", *arguments, "--model", ".", "--out", "never", folder=folder)
    assert answer.code == 1
    assert "error[TM852]" in answer.text
    assert said in answer.text
    assert not (folder / "never").exists()


def test_another_file_than_the_run_read_is_not_kept(folder: Path, tmp_path: Path) -> None:
    model = other_model(tmp_path / "model", twice)
    where = ["--example", EXAMPLE, "--evaluation", "greys", "--out", str(tmp_path / "kept")]
    answer = tmc("incident", "out", *where, "--model", model, folder=folder)
    assert (answer.code, "error[TM711]" in answer.text) == (1, True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]


def test_a_changed_input_is_no_kept_one(kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept, tmp_path / "kept")
    shutil.copyfile(kept / "ce.safetensors", tmp_path / "ce")
    with (tmp_path / "kept" / "ce.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x3f")
    answer = tmc("incident", "kept", "--trust-code", folder=tmp_path)
    assert (answer.code, "error[TM852]" in answer.text) == (1, True)
    answer = tmc("incident", "kept", folder=DIGITS.parent)
    assert (answer.code, "keeps no incident" in answer.text) == (1, True)
