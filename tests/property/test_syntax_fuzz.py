"""A small share of the fuzzing of the front end; ``tests/fuzz/fuzz_front.py`` does the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fuzz"))
import fuzz_front


@pytest.mark.parametrize("seed", [11, 12])
def test_mutated_specs_give_diagnostics_and_nothing_else(seed: int) -> None:
    assert fuzz_front.run(seed, range(800), parse_only=False) == []


def test_a_wrong_answer_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(_: object) -> object:
        raise IndexError("out of range")

    monkeypatch.setattr(fuzz_front, "parse", parse)
    assert fuzz_front.run(11, range(2), parse_only=True) == [(n, "IndexError: out of range") for n in range(2)]
    monkeypatch.setattr(fuzz_front, "parse", lambda _: (None, ()))
    assert [n for n, _ in fuzz_front.run(11, range(2), parse_only=True)] == [0, 1]
