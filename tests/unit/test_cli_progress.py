"""Progress: counts by hand, a clock that the test turns, plain lines when nobody watches."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tmlang.base.source import NOWHERE, Source, Span
from tmlang.cli import progress
from tmlang.cli.progress import Bar, Lines
from tmlang.diagnostics.model import Diagnostic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_lines_tell_rate_time_left_and_what_stands(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines({})
    lines.say("loading")
    lines.stage("e/pgd", 100)
    clock[0] += 2
    lines.work(10)
    assert capsys.readouterr().err == "loading\ne/pgd: 100 units\n"
    clock[0] += 3
    lines.work(10)
    assert capsys.readouterr().err == "e/pgd: about 20 of 100, 4 a second, 20 s left\n"
    lines.advance(50, 45)
    clock[0] += 5
    lines.advance(50, 40)
    assert capsys.readouterr().err == "e/pgd: 100 of 100, 10 a second, 40 still stand\n"
    lines.stage("e/crown", 0)
    assert capsys.readouterr().err == "e/crown: nothing left to do\n"


def test_guessed_work_never_passes_the_total(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines({})
    lines.stage("e/pgd", 10)
    clock[0] += 10
    lines.work(1000)
    assert "about 10 of 10" in capsys.readouterr().err


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    bar = Bar({})
    bar.found([Diagnostic("TM733", "[bold]no markup[/bold]", NOWHERE)])
    bar.stage("e/pgd", 4)
    bar.work(1.5)
    bar.advance(4, 3)
    bar.close()
    err = capsys.readouterr().err
    assert "[bold]no markup[/bold]" in err
    assert "4/4" in err
    assert "3 still stand" in err
    assert "\x1b[3" not in err


def test_a_narrow_terminal_keeps_the_count_and_the_carets(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    source = Source("a.tm", 'tm 1\n  network:  torch("digits.py:small_cnn", weights: "digits.safetensors")\n')
    bar = Bar({"a.tm": source})
    bar.found([Diagnostic("TM728", "taken as they are, without a hash: digits.py", Span("a.tm", 17, 26, 2, 13, 2, 22))])
    bar.stage("lengths/second_opinion", 402)
    clock[0] += 4
    bar.work(100)
    bar.advance(402, 390)
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 40
    code, caret = next((a, b) for a, b in pairwise(lines) if "^" in b)
    assert code[caret.index("^") :].startswith("torch(")
    assert any("402/402 390 stand" in line for line in lines)
