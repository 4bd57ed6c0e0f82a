"""Every figure in docs/figures.md stands there with the line that asks for it, and the line draws it."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from e2e_support import run_here

from tmlang.audit.bundle import Bundle
from tmlang.meaning.figures import FIGURES
from tmlang.report.material import materials
from tmlang.report.view import view_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/figures.md").read_text(encoding="utf-8")
ASKED = re.findall(r"^report \{ figures: (\w+)\((\w+)\) \}  # (\S+)$", PAGE, re.MULTILINE)
SHORTER = {
    'take:     ids "test_ids.txt"': 'take:     ids "test_ids.txt"\n  take:     first 60',
    "[0.02, 0.04, 0.06, 0.08, 0.12]": "[0.04, 0.08]",
}
"""Of a spec: fewer examples and points, enough for something to break."""


def test_every_figure_stands_on_the_page_in_order() -> None:
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == list(FIGURES) == [name for name, _, _ in ASKED]
    pictures = re.findall(r"^!\[(.+)\]\(figures/(\w+)\.png\)$", PAGE, re.MULTILINE)
    assert [name for _, name in pictures] == list(FIGURES)
    for said, name in pictures:
        assert said.startswith(f"{FIGURES[name].title}: ")
        assert (ROOT / f"docs/figures/{name}.png").is_file()


@pytest.mark.parametrize(
    "spec", [pytest.param(s, marks=pytest.mark.nightly if "shifts" in s else ()) for s in sorted({a[2] for a in ASKED})]
)
def test_the_lines_of_the_page_draw_their_figures(spec: str, tmp_path: Path) -> None:
    folder = tmp_path / "spec"
    shutil.copytree((ROOT / spec).parent, folder, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    path, asked = folder / Path(spec).name, defaultdict(list)
    for name, evaluation, of in ASKED:
        if of == spec:
            asked[evaluation].append(name)
    text = re.sub(r"\nreport \{.*?\n\}\n", "\n", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for old, new in SHORTER.items():
        text = text.replace(old, new)
    calls = [f"{name}({evaluation})" for evaluation, names in asked.items() for name in names]
    path.write_text(f"{text}\nreport {{ figures: {', '.join(calls)} }}\n", encoding="utf-8")
    code, _ = run_here(path, tmp_path / "out", "--trust-code")
    assert code in (0, 3, 4)
    bundle = Bundle.open(tmp_path / "out")
    shown = {m.declared: m.view.name for m in reversed(list(materials(bundle, view_of(bundle))))}
    for evaluation, names in asked.items():
        for name in names:
            assert bundle.text(f"figures/{name}-{shown[evaluation]}.svg").startswith("<?xml")
    assert "is not drawn" not in bundle.text("report.html")
