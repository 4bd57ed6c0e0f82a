"""The worked example of ``docs/plugins.md``, installed and used as the page says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from e2e_support import ROOT, SPECS, tmc

pytestmark = pytest.mark.xdist_group("plugin")
FILES = ("pyproject.toml", "tm_nudge/nudge.toml", "tm_nudge/__init__.py")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package of the page is installed."""
    folder, target = tmp_path_factory.mktemp("nudge"), tmp_path_factory.mktemp("site")
    blocks = re.findall(r"^```(?:toml|python)\n(.*?)^```$", (ROOT / "docs" / "plugins.md").read_text(), re.M | re.S)
    for name, text in zip(FILES, blocks, strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
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
    assert tested.text.count("  kept ") == 9
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
