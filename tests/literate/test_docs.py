"""Every complete spec in the documentation means one thing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tmlang.semantics import check

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```tm\n(tm 1\b.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, text in enumerate(BLOCK.findall(page.read_text()))
]


def test_the_documentation_has_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_example_checks(text: str, tmp_path: Path) -> None:
    spec = tmp_path / "example.tm"
    spec.write_text(text)
    checked = check(spec)
    assert checked.program is not None, [d.message for d in checked.diagnostics]
    assert not [d for d in checked.diagnostics if d.is_error]
