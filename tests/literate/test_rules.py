"""``docs/rules.md``: every rule of the field has its place, and every code that is named exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tmlang.diagnostics.registry import all_rules

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
CATALOGUE = ROOT.parent / "shared" / "cases" / "CATALOGUE.md"


def rows() -> dict[str, list[str]]:
    found = re.findall(r"^\| ([EWR]\d+) \|[^|]*\|([^|]*)\|([^|]*)\|$", TABLE, re.M)
    assert len({r for r, _, _ in found}) == len(found)
    for rule, codes, how in found:
        assert codes.strip() or how.strip(), rule
    return {rule: re.findall(r"TM\d{3}", codes) for rule, codes, _ in found}


def test_every_code_of_the_table_exists() -> None:
    known = {r.code for r in all_rules()}
    assert {code for codes in rows().values() for code in codes} <= known


@pytest.mark.shared
def test_every_rule_of_the_catalogue_is_in_the_table() -> None:
    if not CATALOGUE.exists():
        pytest.skip("the shared data folder is not beside the checkout")
    assert set(re.findall(r"^([EWR]\d+) ", CATALOGUE.read_text(encoding="utf-8"), re.M)) == set(rows())
