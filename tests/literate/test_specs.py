"""The examples in ``specs/`` check without a word and stand in the one standard layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmlang.cli.main import entry

SPECS = sorted((Path(__file__).resolve().parents[2] / "specs").glob("*/*.tm"))


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
@pytest.mark.parametrize("command", [["check"], ["fmt", "--check"]], ids=["check", "fmt"])
def test_every_example(spec: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        entry([*command, str(spec)])
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.out
    assert "warning" not in printed.out + printed.err


def test_there_are_examples() -> None:
    assert {path.parent.name for path in SPECS} >= {"sensor", "digits", "mnist_wong_kolter"}
