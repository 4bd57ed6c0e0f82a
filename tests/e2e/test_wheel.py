"""The wheel carries what the checkout has beside the package, and works from any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("wheel")
ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("tmlang", "grammar", "stdlib", "pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")
DEPENDENCIES = ("lark", "rich", "markdown-it-py", "mdurl", "Pygments")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing of the build stays in the checkout."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, copy / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(copy / "out"), str(copy)], check=True, capture_output=True)
    (built,) = (copy / "out").glob("tmlang-*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and, copied from this one, what `pip install tmlang` would bring."""
    venv = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    for name in DEPENDENCIES:
        here = distribution(name)
        for file in here.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                target = site / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(here.locate_file(file)), target)
    command = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*command, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    return venv


def tmc(venv: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [str(venv / "bin" / "tmc"), *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_wheel_holds_every_source_file(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tmlang").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted |= {f"tmlang/grammar/{path.name}" for path in (ROOT / "grammar").glob("*.lark")}
    wanted |= {f"tmlang/stdlib/{path.name}" for path in (ROOT / "stdlib").glob("*.tm")}
    assert {"tmlang/grammar/tm.lark", "tmlang/stdlib/suites.tm", "tmlang/backends/native.toml"} <= wanted
    assert inside == wanted


def test_check_works_from_another_folder(fresh: Path, tmp_path: Path) -> None:
    spec = tmp_path / "digits.tm"
    text = (ROOT / "specs" / "digits" / "digits.tm").read_text()
    spec.write_text(text.replace("tm 1\n", "tm 1\nuse std.images (cifar10_mean)\n", 1))
    checked = tmc(fresh, "check", "digits.tm", folder=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_missing_library_is_a_diagnostic_that_names_the_extra(fresh: Path, tmp_path: Path) -> None:
    shutil.copyfile(ROOT / "specs" / "digits" / "digits.tm", tmp_path / "digits.tm")
    planned = tmc(fresh, "plan", "digits.tm", folder=tmp_path)
    assert "auto_lirpa.crown" in planned.stdout
    ran = tmc(fresh, "run", "digits.tm", "--trust-code", folder=tmp_path)
    for said in (planned, ran):
        assert said.returncode == 1
        assert "TM510" in said.stdout + said.stderr
        assert "pip install 'tmlang[verify]'" in said.stdout + said.stderr
        assert "Traceback" not in said.stderr
