"""A bound that no float is, and data that hold what it is stored as. Decimals are those that Python prints of the exact
value of the float (``Decimal(float)``, and numpy for the narrow types): a second way to them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from tmlang.cli.main import entry

SPEC = """tm 1
space s {{ a: real[{low}, {high}]  b: real[0, 1] }} stored as {dtype}
model m: s -> {{no, yes}} {{
  network:  linear(weights: [[0, 1], [1, 0]], bias: [0, 0])
  decide:   argmax ties lowest
  random:   never
}}
data d: s {{
  read:   csv("d.csv", label: "state")
  take:   all
  truth:  published "by hand"
}}
threat t on m over d {{
  allow:         linf <= 1/10 in s
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}}
evaluate e of t {{ attack: p = native.pgd() seed: 0 }}
claim "c": survival(e) <= 50 %
"""
CASES = [
    # 0.7 * 2**24 = 11744051.2, so the nearest float32 lies below 0.7; that of 0.1 lies above (see test_empty_sets).
    ("float32", "0.7", "0.75", "0.7", "lower"),
    ("float32", "0", "0.1", "0.1", "upper"),
    ("float16", "0.1", "0.5", "0.1", "lower"),
    ("float64", "0", "0.1", "0.1", "upper"),
    ("float32", "-0.75", "-0.7", "-0.7", "upper"),
]


def checked(folder: Path, low: str, high: str, dtype: str, value: str) -> int:
    (folder / "d.csv").write_text(f"a,b,state\n{value},0.25,no\n{high},0.5,yes\n")
    (folder / "spec.tm").write_text(SPEC.format(low=low, high=high, dtype=dtype))
    with pytest.raises(SystemExit) as ended:
        entry(["check", str(folder / "spec.tm"), "--artifacts"])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(("dtype", "low", "high", "value", "end"), CASES)
def test_the_message_offers_the_bound_that_holds_the_data(
    dtype: str, low: str, high: str, value: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(tmp_path, low, high, dtype, value) == 1
    said = capsys.readouterr()
    text = said.out + said.err
    offered = f"{Decimal(float(np.dtype(dtype).type(float(value)))):f}"
    assert "TM720" in text
    assert f"no {dtype} is {value}" in text
    assert f"write {offered} as the {end} end of a: it holds the data" in text
    mended = (offered, high) if end == "lower" else (low, offered)
    assert checked(tmp_path, *mended, dtype, value) == 0


def test_what_misses_by_more_is_no_rounding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path, "0.7", "0.75", "float32", "0.6999999") == 1
    said = capsys.readouterr()
    assert "it holds the data" not in said.out + said.err
