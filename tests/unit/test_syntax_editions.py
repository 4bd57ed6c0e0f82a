"""A spec of an older edition becomes one of this edition that means the same. The older edition is made up here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tmlang.base.source import Source
from tmlang.cli.main import main
from tmlang.semantics import check
from tmlang.syntax import editions, parse
from tmlang.syntax.editions import edition_of, upgraded

BASE = (Path(__file__).resolve().parents[2] / "tmlang" / "diagnostics" / "pages" / "base.tm").read_text(
    encoding="utf-8"
)
OLD = (
    BASE.replace("tm 1\n", "# mine\ntm 0\n").replace("mutable:", "changeable:").replace("# mine", "# mine: changeable")
)


def made_up(text: str) -> str:
    """In edition 0, `mutable:` was called `changeable:`."""
    return re.sub(r"(?m)^( +)changeable:", r"\1mutable:", text)


@pytest.fixture
def edition_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editions, "UPGRADES", {0: made_up})


@pytest.mark.parametrize(
    ("text", "edition"),
    [
        ("tm 1\n", 1),
        ("# x\n\n  tm # y\n 12\nlet a = 1", 12),
        ("", None),
        ("tm", None),
        ("tm1", None),
        ("let tm 1", None),
        ("tm 1.5", None),
        ("tm 9999999999", None),
    ],
)
def test_the_edition_that_a_text_names(text: str, edition: int | None) -> None:
    assert edition_of(text) == edition


@pytest.mark.usefixtures("edition_0")
def test_an_older_spec_is_refused_with_the_way_up() -> None:
    _, (found,) = parse(Source("s.tm", OLD))
    assert (found.code, found.help) == ("TM010", "tmc fmt --upgrade s.tm")
    assert "no longer read" in found.message


@pytest.mark.usefixtures("edition_0")
def test_an_upgraded_spec_means_the_same() -> None:
    now = upgraded(Source("s.tm", OLD))
    assert now.text.startswith("# mine: changeable\ntm 1\n")
    assert check(now).diagnostics == ()
    wanted, got = check(Source("s.tm", BASE)).program, check(now).program
    assert wanted is not None
    assert got is not None
    assert (got.subjects, got.evaluations, got.claims) == (wanted.subjects, wanted.evaluations, wanted.claims)


@pytest.mark.usefixtures("edition_0")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "s.tm"
    spec.write_text(OLD, encoding="utf-8")
    assert main(["fmt", str(spec)]) == 1
    assert "tmc fmt --upgrade" in capsys.readouterr().err
    assert main(["fmt", str(spec), "--upgrade", "--diff"]) == 1
    assert "-  changeable:" in capsys.readouterr().out
    assert spec.read_text(encoding="utf-8") == OLD
    assert main(["fmt", str(spec), "--upgrade"]) == 0
    assert main(["check", str(spec)]) == 0
    assert main(["fmt", str(spec), "--upgrade", "--check"]) == 0


def test_nothing_leads_from_an_unknown_edition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "s.tm"
    for edition in ("0", "2", "2147483648"):
        text = BASE.replace("tm 1", f"tm {edition}")
        spec.write_text(text, encoding="utf-8")
        assert main(["fmt", str(spec), "--upgrade"]) == 1
        assert "error[TM010]" in capsys.readouterr().err
        assert spec.read_text(encoding="utf-8") == text


def test_every_older_edition_has_its_way_up() -> None:
    assert list(editions.UPGRADES) == list(range(1, editions.CURRENT))
