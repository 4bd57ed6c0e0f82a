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


def test_the_list_of_onnx_operators_is_the_one_that_is_converted() -> None:
    from tmlang.execute.sources.onnx_operators import OPERATORS

    text = (ROOT / "docs" / "models.md").read_text().split("## Operators of ONNX")[1]
    listed = text.split("classifier:")[1].split(".")[0].split(",")
    assert [name.strip() for name in listed] == sorted(OPERATORS)


def test_the_files_that_it_shows_how_to_make_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "models.md").read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(
        compile(code, "models.md", "exec"), {"torch": torch, "net": torch.nn.Linear(3, 2), "example": torch.zeros(2, 3)}
    )
    assert {p.name for p in tmp_path.iterdir()} == {"net.safetensors", "net.pt", "net.pt2", "net.onnx"}
