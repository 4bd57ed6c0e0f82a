"""Every number of ``report.tex`` is the tally's, for every fixture of the other formats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from audit_support import make_bundle
from test_report_formats import FIXTURES, expected

from tmlang.audit.bundle import Bundle
from tmlang.audit.tally import tally_plan
from tmlang.report.paper import paper_macros


def printed(tex: str) -> str:
    """The text that TeX prints for a number."""
    plain = {r"\,\%": " %", r"$\infty$": "∞", r"\textemdash{}": "—", r"$\ge$": "≥"}
    for command, text in plain.items():
        tex = tex.replace(command, text)
    return tex


@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_number_is_the_tally_s(tmp_path: Path, fixture) -> None:
    whole, records = fixture()
    bundle = make_bundle(tmp_path / "run", whole, records)
    bundle.add_json("run.json", {"tmlang": "0", "artifacts": {}, "models": {}, "libraries": {"torch": "2"}})
    bundle.seal({})
    tex = paper_macros(Bundle.open(bundle.path), "x")
    found = {key: printed(text) for key, text in re.findall(r"^\\tmset\{x/e/([^}]*)\}\{(.*)\}$", tex, re.MULTILINE)}
    columns = tally_plan(whole, records)["e"]
    keys = [c.name for c in columns.columns] + [f"attack_success/{label}" for label, _ in columns.attacks]
    numbers = list(expected(columns))
    assert len(numbers) == len(keys) > 0
    for key, (_, value, of, low, high) in zip(keys, numbers, strict=True):
        assert found[key] == value
        assert found[f"{key}/of"] == of
        assert found[f"{key}/full"].startswith(value)
        assert f" of {of} (coverage " in found[f"{key}/full"]
        assert (found[f"{key}/low"] == found[f"{key}/high"]) == (low == high)
