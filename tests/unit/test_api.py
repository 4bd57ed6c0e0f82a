"""``import tmlang as tm``: light, typed, and as docs/api.md shows it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tmlang as tm
from tmlang.api.live import Live, in_notebook
from tmlang.execute.progress import Silent

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def loaded(code: str) -> list[str]:
    """Modules, apart from those of the standard library, that a fresh interpreter has after ``code``."""
    said = "\nimport sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code + said], capture_output=True, text=True, check=True, cwd=ROOT)
    names = done.stdout.splitlines()[-1].split()
    return [n for n in names if n.partition(".")[0] not in sys.stdlib_module_names and not n.startswith("__editable__")]


def test_the_import_loads_nothing_else() -> None:
    bare = loaded("")
    assert [n for n in loaded("import tmlang as tm; dir(tm); tm.__version__") if n not in bare] == ["tmlang"]


def test_a_check_loads_no_library() -> None:
    bare = loaded("")
    found = [n for n in loaded("import tmlang as tm; tm.check('specs/sensor/sensor.tm')") if n not in bare]
    assert "tmlang.api.reading" in found
    assert [n for n in found if n.partition(".")[0] != "tmlang"] == []


def test_the_stub_names_what_is_there() -> None:
    tree = ast.parse((ROOT / "tmlang" / "__init__.pyi").read_text(encoding="utf-8"))
    told = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == tm._PUBLIC
    assert {name: getattr(tm, name).__name__ for name in told} == {name: name for name in told}
    assert set(told) <= set(dir(tm))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tm.nothing  # noqa: B018
    names = re.findall(r"^\| `tm\.(\w+)", PAGE, re.MULTILINE)
    assert set(names) == set(told) - {"Front", "Planned", "Evidence"}


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(BLOCKS) >= 8
    shutil.copytree(ROOT / "specs" / "sensor", tmp_path / "sensor")
    monkeypatch.chdir(tmp_path / "sensor")
    names: dict[str, object] = {}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"api.md, block {number}", "exec"), names)


def test_a_refusal_reads_like_the_terminal() -> None:
    with pytest.raises(tm.Refused) as refused:
        tm.run("tm 1\nspace px: tensor(3) of real[0, 1] stored as float32\n")
    assert refused.value.diagnostics[0].code == "TM828"
    assert "error[TM828]" in str(refused.value)
    assert "spec.tm" in str(refused.value)


def test_text_and_notebook_forms_keep_hostile_text_as_text() -> None:
    front = tm.check("tm 1\nspace <script>\n")
    assert not front.ok
    assert front.summary.endswith("error") or front.summary.endswith("errors")
    assert "<script>" not in front._repr_html_()
    live = Live()
    live.say("<script>")
    live.stage("<b>", 2)
    assert "<script>" not in live._repr_html_()
    assert "<b>" not in live._repr_html_()
    assert str(live) == "<script>\n<b>: 0 of 2"


def test_a_notebook_is_redrawn_and_a_terminal_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert isinstance(in_notebook(), Silent)
    drawn: list[str] = []

    def display(_: object, display_id: bool) -> object:
        assert display_id
        return SimpleNamespace(update=lambda live: drawn.append(str(live)))

    kernel = SimpleNamespace(kernel=object())
    shell = SimpleNamespace(get_ipython=lambda: kernel, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    live = in_notebook()
    live.stage("e/a", 4)
    live.advance(4, 1)
    live.close()
    assert drawn[0] == "e/a: 0 of 4"
    assert drawn[-1].startswith("e/a: 4 of 4, ")
    assert drawn[-1].endswith("1 still stand")


def test_the_report_stands_in_a_frame_of_its_own(tmp_path: Path) -> None:
    evidence = tm.run(ROOT / "specs" / "sensor" / "sensor.tm", out=tmp_path / "<run>")
    shown = evidence._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" title="')
    assert shown.count("<") == 2  # the frame's own tags: its page is escaped
    assert shown.endswith('"></iframe>')
