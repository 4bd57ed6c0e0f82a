"""Every kind of wrong use ends in a diagnostic that names it, a nonzero exit code, and nothing half-done."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from e2e_support import SPECS

from tmlang.cli.main import entry

Damage = Callable[[Path], None]


def say(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    """Exit code of ``tmc`` and all that it printed."""
    with pytest.raises(SystemExit) as ended:
        entry([str(a) for a in arguments])
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert "Traceback" not in text
    assert "TM890" not in text, text
    code = ended.value.code
    assert isinstance(code, int)
    return code, text


def edit(name: str, old: str, new: str) -> Damage:
    def damage(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return damage


def without_hash(name: str, then: Damage) -> Damage:
    """Take every hash out of the spec, so that the damaged file is opened at all."""

    def damage(folder: Path) -> None:
        lines = (folder / name).read_text()
        (folder / name).write_text(re.sub(r",\s*sha256: \"[0-9a-f]{64}\"", "", lines))
        then(folder)

    return damage


def pickled(folder: Path) -> None:
    np.savez(folder / "digits.npz", images=np.array([{"a": 1}], dtype=object), labels=np.zeros(1), ids=np.zeros(1))


def link_out(folder: Path) -> None:
    (folder / "observations.csv").unlink()
    (folder / "observations.csv").symlink_to(SPECS / "sensor" / "observations.csv")


def spec(old: str, new: str) -> Damage:
    return edit("sensor.tm", old, new)


def table(old: str, new: str) -> Damage:
    return without_hash("sensor.tm", edit("observations.csv", old, new))


def no_table(folder: Path) -> None:
    (folder / "observations.csv").write_bytes(b"\x00\xff")


SENSOR = {
    "a file that is not there": (lambda f: (f / "observations.csv").unlink(), "TM710"),
    "another file than the spec names": (edit("observations.csv", "0.375", "0.376"), "TM711"),
    "a path out of the folder": (spec('"observations.csv"', '"../observations.csv"'), "TM703"),
    "a link out of the folder": (link_out, "TM703"),
    "no table": (without_hash("sensor.tm", no_table), "TM712"),
    "a missing column": (table("second", "third"), "TM721"),
    "a cell that is no number": (table("0.375", "n/a"), "TM722"),
    "a value outside the space": (table("0.375", "1.375"), "TM720"),
    "a value between the steps": (table("0.375", "0.3751"), "TM720"),
    "a label that is no class": (table("0.25,0.5,ordinary", "0.25,0.5,odd"), "TM723"),
    "an id twice": (table("far,", "near,"), "TM724"),
    "a set of nothing but the original": (spec("0.125", "1/4096"), "TM2"),
    "a radius beyond the space": (spec("0.125", "8"), "TM2"),
    "a missing clause": (spec("  clean_errors:  excluded", "  #"), "TM4"),
    "a proof of a thing that only attacks saw": (
        spec("enumerate:  grid = native.enumerate(at_most: 1000)", "attack: grid = native.pgd()"),
        "TM6",
    ),
    "no text": (lambda f: (f / "sensor.tm").write_bytes(b"\xff\xfe\x00"), "TM011"),
}

DIGITS = {
    "code without consent": (lambda _: None, "TM713"),
    "a pickle for data": (without_hash("digits.tm", pickled), "TM71"),
    "weights that are none": (
        without_hash("digits.tm", lambda f: (f / "digits.safetensors").write_bytes(b"weights")),
        "TM71",
    ),
    "a factory that is not there": (edit("digits.tm", "digits.py:small_cnn", "digits.py:large_cnn"), "TM719"),
    "weights of another network": (edit("digits.py", "32 * 4 * 4, 10", "32 * 4 * 4, 12"), "TM715"),
    "fewer outputs than classes": (edit("digits.tm", "classes(10)", "classes(12)"), "TM718"),
    "pixels that were not scaled": (edit("digits.tm", "  prepare:  { scale(1/16) }\n", ""), "TM720"),
}


@pytest.mark.parametrize("case", SENSOR)
def test_wrong_spec_or_data(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sensor"
    shutil.copytree(SPECS / "sensor", folder)
    damage, code = SENSOR[case]
    damage(folder)
    ended, text = say(capsys, "run", folder / "sensor.tm", "--out", tmp_path / "run")
    assert ended == 1
    assert f"[{code}" in text
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("case", DIGITS)
def test_wrong_model(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "digits"
    shutil.copytree(SPECS / "digits", folder)
    damage, code = DIGITS[case]
    damage(folder)
    consent = [] if code == "TM713" else ["--trust-code"]
    ended, text = say(capsys, "run", folder / "digits.tm", "--out", tmp_path / "run", *consent)
    assert ended == 1
    assert f"[{code}" in text
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("ruin",),
        ("run",),
        ("run", "a.tm", "b.tm"),
        ("check", "a.tm", "--format", "prose"),
        ("run", "a.tm", "--batch-size", "0"),
        ("run", "a.tm", "--set", "eps"),
        ("plan", "a.tm", "--frmat", "json"),
    ],
)
def test_wrong_words_end_in_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, text = say(capsys, *arguments)
    assert code == 2
    assert "usage: tmc" in text


@pytest.mark.parametrize("command", ["check", "plan", "run", "fmt", "freeze", "audit", "report"])
def test_a_path_that_leads_nowhere(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = say(capsys, command, tmp_path / "nothing.tm")
    assert code in (1, 2)
    assert "nothing.tm" in text


def test_the_output_folder_is_somebody_elses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    code, text = say(capsys, "run", SPECS / "sensor" / "sensor.tm", "--out", tmp_path)
    assert code == 1
    assert "[TM824]" in text
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_spec_without_an_evaluation_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "only.tm").write_text("tm 1\n\nspace px: tensor(2) of real[0, 1] stored as float32\n")
    assert say(capsys, "check", tmp_path / "only.tm")[0] == 0
    code, text = say(capsys, "run", tmp_path / "only.tm", "--out", tmp_path / "out")
    assert code == 1
    assert "[TM828]" in text
    assert [p.name for p in tmp_path.iterdir()] == ["only.tm"]


def test_a_parameter_that_the_spec_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = say(capsys, "run", SPECS / "sensor" / "sensor.tm", "--set", "eps=1/16")
    assert code == 1
    assert "[TM108]" in text
