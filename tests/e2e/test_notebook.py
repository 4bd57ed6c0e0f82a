"""A notebook of the examples of docs/api.md, executed by Jupyter's own client in a kernel of its own.

Nightly: it installs ``locks/py311-notebook.txt`` into an environment that sees the packages of this one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from e2e_support import ROOT, SPECS

pytestmark = pytest.mark.nightly
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE | re.DOTALL)
SHOWN = ["front", "wrong", "planned", "evidence", "live"]
REFUSED = "tm.plan_of('tm 1\\nspace px: tensor(3)\\n')"
EXECUTE = """
import json, sys, nbformat
from nbclient import NotebookClient
cells = json.load(sys.stdin)
made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
made.cells[-1].metadata["tags"] = ["raises-exception"]
NotebookClient(made, timeout=250, kernel_name="python3").execute()
print(json.dumps([cell["outputs"] for cell in made.cells]))
"""


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("jupyter") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    lock = ROOT / "locks" / "py311-notebook.txt"
    command = [str(venv / "bin" / "pip"), "install", "--quiet", "--no-deps", "-r", str(lock)]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"Jupyter cannot be installed here: {installed.stderr[-200:]}")
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "beside.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return venv


@pytest.fixture(scope="module")
def outputs(jupyter: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each cell put out: those of the page, one that shows each object, one that refuses."""
    folder = tmp_path_factory.mktemp("notebook") / "sensor"
    shutil.copytree(SPECS / "sensor", folder)
    home = {"PATH": f"{jupyter / 'bin'}:{os.environ['PATH']}", "JUPYTER_DATA_DIR": str(folder.parent / "data")}
    done = subprocess.run(
        [str(jupyter / "bin" / "python"), "-c", EXECUTE],
        input=json.dumps([*BLOCKS, *SHOWN, REFUSED]),
        cwd=folder,
        env=os.environ | home,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def html(cell: list[dict[str, Any]]) -> str:
    (told,) = [o["data"]["text/html"] for o in cell if "data" in o]
    return "".join(told)


def test_the_page_runs_in_a_notebook(outputs: list[list[dict[str, Any]]]) -> None:
    assert not [o for cell in outputs[:-1] for o in cell if o["output_type"] == "error"]


def test_a_run_draws_its_progress_once_and_the_objects_show_themselves(outputs: list[list[dict[str, Any]]]) -> None:
    running = next(i for i, block in enumerate(BLOCKS) if "evidence = tm.run(" in block)
    drawn = html(outputs[running])
    assert re.search(r"exact/grid.*<progress max='6' value='6'>.*6 of 6.*3 still stand", drawn, re.DOTALL)
    front, wrong, planned, evidence, live = map(html, outputs[len(BLOCKS) : -1])
    assert "means one thing: 1 evaluation, 2 claims" in front
    assert "float16x is no number type" in wrong
    assert "2 claims will be judged from the records." in planned
    assert evidence.startswith('<iframe sandbox="allow-scripts"')
    assert "<progress" in live


def test_a_refusal_shows_its_diagnostics_and_no_frames(outputs: list[list[dict[str, Any]]]) -> None:
    (refused,) = outputs[-1]
    shown = "\n".join(refused["traceback"])
    assert shown.startswith("error[TM001]: expected `of` behind `)`")
    assert "reading.py" not in shown
