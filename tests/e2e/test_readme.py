"""What the README tells a newcomer to type works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from e2e_support import ROOT, Evidence, run, tmc
from torch import nn

pytestmark = pytest.mark.xdist_group("readme")
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """All blocks of code in ``language``, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


FIRST, NORMALIZED, BYTES, FACTORY, BOTH_BALLS, _FEATURES = blocks("tm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the README's Python makes, for a network and pictures of the reader's own, and its spec."""
    place = tmp_path_factory.mktemp("newcomer")
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 4, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))
    images = np.random.default_rng(1).random((24, 3, 32, 32), dtype=np.float32)
    labels = net(torch.from_numpy(images)).argmax(1).numpy()
    labels[:2] = (labels[:2] + 1) % 10
    code = blocks("python")[0]
    for name in ("net.onnx", "test.npz"):
        code = code.replace(f'"{name}"', repr(str(place / name)))
    exec(compile(code, "README.md", "exec"), {"net": net, "images": images, "labels": labels})
    (place / "mine.tm").write_text(FIRST)
    return place


@pytest.fixture(scope="module")
def evidence(folder: Path) -> Evidence:
    said, found = run(folder / "mine.tm", folder / "evidence")
    assert said.code in (0, 3, 4), said.text
    return found


def test_the_spec_of_the_readme_checks_plans_and_freezes(folder: Path) -> None:
    for command in ("check", "plan", "freeze"):
        said = tmc(command, "mine.tm", folder=folder)
        assert said.code == 0, said.text


def test_it_runs_and_counts_the_two_wrong_labels(evidence: Evidence) -> None:
    assert evidence.share("mine", "clean_accuracy").as_integer_ratio() == (9, 10)
    assert evidence.claims()["the attack was run on everything"] == "supported"


def test_the_report_lies_in_the_evidence_and_can_be_made_again(evidence: Evidence, tmp_path: Path) -> None:
    reported = tmc("report", evidence.path, folder=tmp_path)
    assert reported.code == 0, reported.text
    for name in ("report.html", "report.md"):
        assert (tmp_path / name).read_text() == (evidence.path / name).read_text()


def test_the_audit_agrees(evidence: Evidence) -> None:
    audited = tmc("audit", evidence.path, folder=evidence.path.parent)
    assert audited.code == 0, audited.text


def test_every_command_and_file_that_it_names_exists() -> None:
    commands = set(re.findall(r"(?:^|`)tmc ([a-z]+)", README, re.MULTILINE))
    assert {"check", "run", "report"} <= commands
    listed = tmc("--help", folder=ROOT).text
    assert not [name for name in commands if not re.search(rf"^    {name} ", listed, re.MULTILINE)]
    files = re.findall(r"`((?:docs|specs|benchmarks|locks|tmlang)/[\w./-]+|[A-Z]{2,}\.md|NOTICE)`", README)
    assert "docs/architecture.md" in files
    assert not [name for name in files if not (ROOT / name).exists()]


def with_clauses(spec: str, *clauses: str) -> str:
    """``spec`` with clauses (or the whole space) in the place of their namesakes, steps in front of the network."""
    for clause in clauses:
        word = clause.split(maxsplit=1)[0]
        if word == "step:":
            spec = spec.replace("  network:", f"{clause}\n  network:")
        else:
            spec = re.sub(rf"^ *{word} .*$", clause, spec, count=1, flags=re.MULTILINE)
    return spec


@pytest.mark.parametrize("variant", [NORMALIZED, BYTES, FACTORY, BOTH_BALLS])
def test_the_smaller_pieces_check_where_they_belong(variant: str, tmp_path: Path) -> None:
    spec = with_clauses(FIRST, *variant.splitlines())
    if "bytes" in variant:  # a step of a thousandth is no step on bytes
        spec = spec.replace("alpha: 1/1020 in px", "alpha: 1 'levels' in px")
    (tmp_path / "variant.tm").write_text(spec)
    said = tmc("check", "variant.tm", folder=tmp_path)
    assert said.code == 0, said.text
