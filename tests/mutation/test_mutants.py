"""The tool of mutation testing: which changes it makes, that they are noticed where a test looks, and that every
explained survivor is a mutant that exists. The hunt itself is ``make mutation``."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from mutants import mutants  # noqa: E402
from mutate import ROOT, Outcome, _in_child, explained, judge  # noqa: E402


def names(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "sample.py"
    file.write_text(text)
    return [m.name for m in mutants(file)[1]]


def test_every_decision_of_a_function_is_changed(tmp_path: Path) -> None:
    text = '''
def least(a: "int", b: int = 3, *rest: int) -> int:
    """The least."""
    if a < b and rest:
        return min(a, -b)
    raise ValueError("none" if a else f"{a}")
'''
    assert names(tmp_path, text) == [
        "least: def least(a: 'int', b: int=3, *rest: int) -> int: -> def least(a: 'int', b: int=4, *rest: int) -> int:",
        "least: if a < b and rest: -> if True:",
        "least: if a < b and rest: -> if False:",
        "least: if a < b and rest: -> if a < b or rest:",
        "least: if a < b and rest: -> if rest:",
        "least: if a < b and rest: -> if a < b:",
        "least: a < b and rest -> a <= b and rest",
        "least: a < b and rest -> a >= b and rest",
        "least: return min(a, -b) -> return None",
        "least: min(a, -b) -> max(a, -b)",
        "least: min(a, -b) -> min(a, b)",
        "least: raise ValueError('none' if a else f'{a}') -> pass",
        "least: 'none' if a else f'{a}' -> 'none' if True else f'{a}'",
        "least: 'none' if a else f'{a}' -> 'none' if False else f'{a}'",
    ]


def test_equal_changes_are_told_apart_and_types_are_left_alone(tmp_path: Path) -> None:
    text = "Pair = int | str\n__all__ = ['a']\nONE = 1\ndef f(x: int | None):\n    return g(x[1:], x[1:])\n"
    assert names(tmp_path, text) == [
        ": ONE = 1 -> ONE = 2",
        "f: return g(x[1:], x[1:]) -> return None",
        "f: g(x[1:], x[1:]) -> g(x[:], x[1:])",
        "f: g(x[1:], x[1:]) -> g(x[2:], x[1:])",
        "f: g(x[1:], x[1:]) -> g(x[1:], x[:])",
        "f: g(x[1:], x[1:]) -> g(x[1:], x[2:])",
    ]


def test_a_child_tells_who_failed_or_how_it_ended() -> None:
    def endless() -> str:
        while True:
            pass

    def breaks() -> str:
        raise RuntimeError

    assert _in_child(lambda: "a test", 5) == Outcome("killed", "a test")
    assert _in_child(lambda: "", 5) == Outcome("survived")
    assert _in_child(breaks, 5) == Outcome("broken")
    assert _in_child(endless, 0) == Outcome("endless")


def told(*hows: str) -> list[dict[str, object]]:
    return [{"module": "m.py", "line": i, "name": f"f: {i}", "how": how, "by": ""} for i, how in enumerate(hows)]


def test_survivors_need_a_reason_and_reasons_a_survivor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mutate.explained", lambda: {("m.py", "f: 0"): "never seen", ("m.py", "f: 1"): "slower only"})
    assert judge(told("survived", "survived", *["killed"] * 38)) == []
    assert judge(told("survived", "killed", *["endless"] * 38)) == ["explained, and killed: m.py:1: f: 1"]
    assert judge(told("survived", "survived", "survived", *["killed"] * 60)) == ["survived: m.py:2: f: 2"]
    assert judge(told("survived", "survived", *["killed"] * 37)) == ["fewer than 95% are killed"]
    assert judge(told("survived", "survived", *["killed"] * 37), whole=False) == []
    assert judge(told("survived", "survived", "broken", *["killed"] * 60)) == ["could not be tried: m.py:2: f: 2"]


def test_what_is_explained_exists_and_has_a_reason() -> None:
    """A survivor whose line has changed since is no longer explained."""
    groups = tomllib.loads((HERE / "plan.toml").read_text())["group"]
    modules = [m for g in groups for m in g["modules"]]
    existing = {(m, mutant.name) for m in modules for mutant in mutants(ROOT / m)[1]}
    reasons = explained()
    assert sorted(reasons.keys() - existing) == []
    assert all(len(reason.split()) > 4 for reason in reasons.values())
    assert len(reasons) <= 0.05 * len(existing)
    assert [t for g in groups for t in g["tests"] if not (ROOT / t).is_file()] == []


def test_a_hunt_from_end_to_end(tmp_path: Path) -> None:
    """A package of one function, and a test that does not look at what happens from 0 down."""
    for name, text in {
        "tests/mutation/plan.toml": '[[group]]\nmodules = ["pack/one.py"]\ntests = ["tests/test_one.py"]\n',
        "tests/mutation/survivors.toml": "survivors = []\n",
        "tests/conftest.py": "from hypothesis import settings\nsettings.register_profile('same')\n",
        "tests/test_one.py": "from pack.one import f\ndef test_f():\n    assert f(1) == 2\n",
        "pack/__init__.py": "",
        "pack/one.py": "MORE = 1\ndef f(x):\n    return x + MORE if x > 0 else 0\n",
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['nightly: x']\npythonpath = ['.']\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for file in ("mutants.py", "mutate.py"):
        (tmp_path / "tests/mutation" / file).write_text((HERE / file).read_text())
    done = subprocess.run(
        [sys.executable, "tests/mutation/mutate.py"], cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    survived = [line for line in done.stdout.splitlines() if line.startswith("survived")]
    whole = "survived: pack/one.py:3: f: x + MORE if x > 0 else 0 -> x + MORE if"
    assert survived == [f"{whole} True else 0", f"{whole} x >= 0 else 0", f"{whole} x > 0 else 1"], done.stdout
    assert "pack/one.py: 6 of 9 killed" in done.stdout
    assert done.returncode == 1
