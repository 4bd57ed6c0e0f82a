"""Real mistakes of the field (``cases/``): each is refused at the guilty token, and each mended spec is clean."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import guilty

from tmlang.cli.front import Front, read_spec
from tmlang.diagnostics.model import Diagnostic

CASES = Path(__file__).parent / "cases"
WRONG = sorted(CASES.glob("*.wrong.tm"))
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases" / "cases.jsonl"

BY_CONSTRUCTION = {
    "B132": "the exact set is searched with the mask inside, so no step is scaled by what cannot move",
    "B159": "the adapter folds what stands in front of the first layer, or refuses",
    "B162": "the plan says outer, and the certificate is of the larger set",
}
"""Cases that no spec can state wrongly, and what makes them impossible."""


def everything(path: Path) -> tuple[Front, list[Diagnostic]]:
    front = read_spec(path.name, {}, path.read_text(encoding="utf-8"))
    return front, list(front.diagnostics)


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.name.split(".")[0])
def test_a_mistake_is_refused_where_it_is(path: Path) -> None:
    expected = re.findall(r"^# expect: (TM\d+) at `(.*)`$", path.read_text(encoding="utf-8"), re.M)
    assert expected
    checked, diagnostics = everything(path)
    blamed = [(d.code, guilty(checked, d).splitlines()[0]) for d in diagnostics]
    assert len(blamed) == len(expected)
    for (code, token), (got, text) in zip(expected, blamed, strict=True):
        assert (got[: len(code)], text) == (code, token)


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.name.split(".")[0])
def test_its_mended_form_passes(path: Path) -> None:
    _, diagnostics = everything(path.with_name(path.name.replace(".wrong.", ".right.")))
    assert [(d.code, d.message) for d in diagnostics] == []


@pytest.mark.shared
def test_every_case_of_check_time_is_here() -> None:
    if not SHARED.exists():
        pytest.skip("the shared data folder is not beside the checkout")
    cases = [json.loads(line) for line in SHARED.read_text(encoding="utf-8").splitlines()]
    wanted = {c["id"] for c in cases if c["when"].startswith("check")}
    assert wanted == {p.name.split(".")[0] for p in WRONG} | set(BY_CONSTRUCTION)
