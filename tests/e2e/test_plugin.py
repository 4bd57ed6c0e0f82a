"""The worked example of ``docs/plugins.md``, installed and used as the page says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from e2e_support import ROOT, SPECS, Evidence, tmc

pytestmark = pytest.mark.xdist_group("plugin")
FILES = ("pyproject.toml", "tm_nudge/nudge.toml", "tm_nudge/__init__.py", "tm_nudge/nudge.toml", "tm_nudge/roles.py")
"""The files of the page, in its order; of one that comes twice the second half is added."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package of the page is installed."""
    folder, target = tmp_path_factory.mktemp("nudge"), tmp_path_factory.mktemp("site")
    blocks = re.findall(r"^```(?:toml|python)\n(.*?)^```$", (ROOT / "docs" / "plugins.md").read_text(), re.M | re.S)
    for name, text in zip(FILES, blocks, strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        with (folder / name).open("a") as file:
            file.write(text)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(target), str(folder)], check=True, capture_output=True)
    return target


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(site))


@pytest.mark.usefixtures("installed")
def test_its_methods_are_listed_and_keep_the_rules(tmp_path: Path) -> None:
    assert "nudge.signs" in tmc("backends", folder=tmp_path).text
    listed = tmc("backends", "nudge", "--format", "json", folder=tmp_path)
    assert json.loads(listed.text)[0]["methods"]["signs"]["access"] == "decisions"
    tested = tmc("backends", "test", "nudge", folder=tmp_path)
    assert tested.code == 0, tested.text
    parts = re.split(r"^(?=nudge\.)", tested.text, flags=re.M)[1:]
    kept = {part.split(":")[0]: part.count("  kept ") for part in parts}
    # Neither has a ball to refuse; no threat has a transform beside a mask.
    found = {"nudge.signs": 9, "nudge.corners": 7, "nudge.stickers": 8, "nudge.grain": 3, "nudge.listed": 5}
    assert kept == found
    # The page of tmlang's own backends does not hang on what is installed.
    assert tmc("backends", "--format", "markdown", folder=tmp_path).text == (ROOT / "docs" / "backends.md").read_text()


@pytest.mark.usefixtures("installed")
def test_a_spec_names_it(tmp_path: Path) -> None:
    text = (SPECS / "digits" / "digits.tm").read_text().split("evaluate ")[0].replace('ids "test_ids.txt"', "first 20")
    text = text.replace("linf <= 0.06", "linf <= 0.3")
    spec = "evaluate noisy of faint {\n  attack:  nudge.signs(tries: 30)\n  seed:    0\n}\n"
    for file in (SPECS / "digits").glob("digits.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "s.tm").write_text(text + spec)
    assert tmc("check", "s.tm", folder=tmp_path).code == 0
    assert "nudge.signs" in tmc("plan", "s.tm", folder=tmp_path).text
    ran = tmc("run", "s.tm", "--trust-code", "--quiet", "--out", "out", folder=tmp_path)
    assert ran.code == 0, ran.text
    assert tmc("audit", "out", folder=tmp_path).code == 0
    wrong = text + spec.replace("tries", "trys").replace("nudge.signs", "nudge.signs")
    (tmp_path / "s.tm").write_text(wrong)
    said = tmc("check", "s.tm", folder=tmp_path)
    assert said.code == 1
    assert "TM503" in said.text


LIAR = {
    "tm_liar-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tm-liar\nVersion: 1.0\n",
    "tm_liar-1.0.dist-info/entry_points.txt": "[tmlang.backends]\nliar = tm_liar\n",
    "tm_liar/__init__.py": """
import torch
from tmlang.backends.contract import Verdicts

class Liar:
    def __init__(self, row):
        pass

    def certify(self, job):
        n = len(job.x)
        return Verdicts(("certified",) * n, torch.full((n,), 9.0, dtype=torch.float64), 1e-3, "proved")
""",
    "tm_liar/liar.toml": """
[backend]
name = "liar"
library = "tm-liar"
version = "1.0"
import = "tm_liar"
extra = ""
install = "pip install tm-liar"

[defaults]
class = "tm_liar:Liar"
title = "proves everything"
source = "nowhere"
access = "white_box"
norms = ["linf"]
goals = ["untargeted"]
objects = ["fixed"]
rows = "whole"
draws = "none"
batch_dependent = false
cost = { forward = "1", backward = "0" }
[defaults.carries]
domain = "exact"

[method.bound]
role = "certify"
evidence = "bound"

[method.exact]
role = "decide_exactly"
evidence = "complete"
""",
}


@pytest.mark.parametrize("clause", ["certify: lie = liar.bound()", "decide_exactly: lie = liar.exact()"])
def test_a_verifier_that_proves_everything_is_found_out_without_an_attack(
    clause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At linf 0.3 most digits fail; of those that do, the input is shown, and nothing of the method stands."""
    for name, text in LIAR.items():
        (tmp_path / "site" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "site" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    text = (SPECS / "digits" / "digits.tm").read_text().split("evaluate ")[0].replace('ids "test_ids.txt"', "first 8")
    text = text.replace("linf <= 0.06", "linf <= 0.3")
    for file in (SPECS / "digits").glob("digits.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    claim = 'claim "all": certified(proved) >= 1 %\n'
    (tmp_path / "s.tm").write_text(f"{text}evaluate proved of faint {{\n  {clause}\n  seed: 0\n}}\n{claim}")
    said = tmc("run", "s.tm", "--trust-code", "--quiet", "--out", "out", folder=tmp_path)
    assert said.code == 5
    assert "TM823" in said.text
    assert "certified 1, and a look at its set found an allowed input that fails" in said.text
    evidence = Evidence(tmp_path / "out")
    assert evidence.claims() == {"all": "undecided"}
    assert evidence.summary["evaluations"]["proved"]["counts"]["certified"] == 0
    rows = evidence.rows("proved", "lie")
    failing = [r for r in rows if r["observed_failure"]]
    assert failing
    assert all(r["verdict"] == "certified" and r["candidate"] for r in failing)
    assert tmc("audit", "out", "--model", ".", "--trust-code", folder=tmp_path).code == 0


def test_without_it_the_spec_is_refused(tmp_path: Path) -> None:
    text = (SPECS / "digits" / "digits.tm").read_text().split("evaluate ")[0]
    (tmp_path / "s.tm").write_text(text + "evaluate noisy of faint {\n  attack:  nudge.signs()\n  seed:    0\n}\n")
    said = tmc("check", "s.tm", folder=tmp_path)
    assert said.code == 1
    assert "TM501" in said.text
    assert tmc("backends", "test", "nudge", folder=tmp_path).code == 2


def test_a_manifest_of_another_form_is_a_diagnostic(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    manifest = broken / "tm_nudge" / "nudge.toml"
    manifest.write_text(manifest.read_text().replace('role = "attack"', 'role = "charm"'))
    monkeypatch.setenv("PYTHONPATH", str(broken))
    said = tmc("backends", "nudge", folder=tmp_path)
    assert said.code == 1
    assert "TM521" in said.text
    assert "role is 'charm'" in said.text
    manifest.unlink()
    assert "TM521" in tmc("backends", "nudge", folder=tmp_path).text
