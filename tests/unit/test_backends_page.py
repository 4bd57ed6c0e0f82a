"""``docs/backends.md`` is what the manifests say today, and says all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmlang.cli.backends_page import describe, page, section
from tmlang.cli.main import main
from tmlang.plan.capability import Capabilities
from tmlang.plan.manifest import read_manifest

PAGE = Path(__file__).parents[2] / "docs" / "backends.md"
TOY = """
[backend]
name = "toy"
library = "toybox"
version = "1"
import = "toybox"
extra = "toys"
install = "pip install toybox"
[not_offered]
crawl = "it returns the original"
[defaults]
class = "toybox:Walk"
role = "attack"
evidence = "witness"
access = "scores"
source = "by hand"
norms = ["l2"]
goals = ["untargeted"]
[method.walk]
title = "a walk | a stroll"
aliases = ["stroll"]
refused = { l1 = { by = "library", because = "it has two legs" } }
carries = { domain = "exact", mask = "outer", lattice = "outer", l2 = { domain = "inner" } }
cost = { forward = "steps" }
[method.walk.arguments]
steps = { type = "int", low = 1, high = 9, meaning = "steps" }
way = { type = "symbol", default = "up", choices = ["up", "down"], min_classes = { up = 3 }, meaning = "where to" }
"""


def test_the_page_in_docs_is_current() -> None:
    shipped = Capabilities()
    backends = [b for b in map(shipped.backend, shipped.names) if b is not None]
    assert PAGE.read_text(encoding="utf-8") == page(backends), "run `make docs`"


@pytest.mark.parametrize("path", [m.path for m in Capabilities().methods()])
def test_every_method_argument_and_refusal_is_on_the_page(path: str) -> None:
    method = next(m for m in Capabilities().methods() if m.path == path)
    section = PAGE.read_text(encoding="utf-8").split(f"\n### {path}")[1].split("\n### ")[0].split("\n## ")[0]
    shared = PAGE.read_text(encoding="utf-8").split(f"\n## {method.backend}\n")[1].split("\n### ")[0]
    for name, argument in method.arguments.items():
        assert f"| `{name}` |" in section
        assert argument.meaning.replace("|", "\\|") in section
    for key, refusal in method.refused.items():
        assert f"* cannot {key}: {refusal.because}" in section + shared
    for key, how in method.carries.items():
        lines = [line for line in (section + shared).splitlines() if line.startswith(f"* carries {how}: ")]
        assert any(key in line.split(": ")[1].split(", ") for line in lines), key


def test_a_method_is_described_as_its_row_says() -> None:
    toy = read_manifest(TOY, "toy.toml")
    assert list(describe(toy.methods["walk"])) == [
        "### toy.walk\n",
        "by hand. Also written `stroll`.\n",
        "* works on an object that is ",
        "* needs 2 classes or more",
        "* goes through: nothing",
        "* carries exact: domain",
        "* carries outer: mask, lattice",
        "* carries inner in l2: domain",
        "* cannot l1: it has two legs (the library)",
        "* draws nothing",
        "* forward passes per unit: `steps`",
        "",
        "| argument | type | default | range | meaning |",
        "|---|---|---|---|---|",
        "| `steps` | int | required | >= 1, <= 9 | steps |",
        "| `way` | `up` or `down` | up | up needs 3 classes | where to |",
        "",
    ]
    text = "\n".join(section(toy))
    assert "| `walk` | a walk \\| a stroll | `attack:` | witness | scores | l2 | untargeted |" in text
    assert "* `crawl`: it returns the original" in text


def test_the_command_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends", "--format", "markdown"]) == 0
    assert capsys.readouterr().out == PAGE.read_text(encoding="utf-8")
    assert main(["backends", "torchattacks.PGD", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("### torchattacks.PGD\n")
