"""Published evaluations written out: right ones check clean, a wrong one is refused at its token and nowhere else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import guilty

from tmlang.cli.front import read_spec

SPECS = Path(__file__).resolve().parents[3] / "shared" / "specs"
EXPECTED = [json.loads(line) for line in (SPECS / "expect.jsonl").read_text().splitlines()] if SPECS.exists() else []
RIGHT = sorted(p.name for p in SPECS.glob("*.tm") if ".wrong" not in p.name)

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SPECS.exists(), reason="the shared data folder is not beside the checkout"),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_is_clean(name: str) -> None:
    front = read_spec(str(SPECS / name), {})
    assert [(d.code, d.message) for d in front.diagnostics] == []
    assert front.plan is not None


@pytest.mark.parametrize("wanted", EXPECTED, ids=lambda w: w["file"])
def test_a_wrong_one_is_refused_at_its_token(wanted: dict[str, object]) -> None:
    front = read_spec(str(SPECS / str(wanted["file"])), {})
    at = [d for d in front.diagnostics if (d.span.line, d.span.column) == (wanted["line"], wanted["column"])]
    assert at == list(front.diagnostics), "something else is blamed, too"
    assert at[0].code.startswith(str(wanted["family"]))
    assert guilty(front, at[0]) == wanted["text"]
