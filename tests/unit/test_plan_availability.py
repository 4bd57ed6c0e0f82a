"""What is not built or not installed is said before a run, and not by the checker."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from plan_support import MANIFEST, THREAT, call, program, stage

from tmlang.meaning.threats import Nature, Patch
from tmlang.meaning.values import Symbol
from tmlang.plan import Capabilities, lower
from tmlang.plan.availability import other_versions, unavailable


def test_each_stage_that_cannot_run_is_told_with_its_reason(tmp_path: Path) -> None:
    text = MANIFEST.replace('choices = ["ce", "dlr"]', 'choices = ["ce", "dlr", "new"]\nnot_built = ["new"]')
    (tmp_path / "toy.toml").write_text(text, encoding="utf-8")
    (tmp_path / "here.toml").write_text(
        text.replace('name = "toy"', 'name = "here"').replace("no_such_module_toylib", "json"), encoding="utf-8"
    )
    capabilities = Capabilities(tmp_path)
    made = program(
        stage(call("toy.walk"), label="away"),
        stage(call("here.walk"), label="fine"),
        stage(call("here.walk", loss=Symbol("new")), label="choice"),
        stage(call("here.solve"), "decide_exactly", "described"),
    )
    plan, found = lower(made, capabilities)
    assert plan is not None
    assert found == ()
    told = unavailable(plan, capabilities)
    assert [(d.code, d.span) for d in told] == [("TM510", made.evaluations[0].stages[0].origin)] + [
        ("TM513", made.evaluations[0].stages[i].origin) for i in (2, 3)
    ]
    assert told[0].help == "pip install 'tmlang[attacks]'"
    assert "toylib 1.0" in told[0].message
    assert "`loss: new` of here.walk" in told[1].message
    assert "here.solve" in told[2].message


def test_a_library_of_another_version_is_told_once_at_its_first_stage(tmp_path: Path) -> None:
    """pytest stands for the library: what is installed here is not version 1.0 of it."""
    text = MANIFEST.replace("no_such_module_toylib", "pytest").replace('library = "toylib"', 'library = "pytest"')
    (tmp_path / "toy.toml").write_text(text, encoding="utf-8")
    measured = text.replace('version = "1.0"', f'version = "{pytest.__version__}"').replace('"toy"', '"same"')
    (tmp_path / "same.toml").write_text(measured, encoding="utf-8")
    capabilities = Capabilities(tmp_path)
    made = program(
        stage(call("same.walk"), label="a"), stage(call("toy.walk"), label="b"), stage(call("toy.walk"), label="c")
    )
    plan, _ = lower(made, capabilities)
    assert plan is not None
    (told,) = other_versions(plan, capabilities)
    assert (told.code, told.span, told.is_error) == ("TM527", made.evaluations[0].stages[1].origin, False)
    assert told.message == f"pytest is {pytest.__version__} here, and 1.0 was measured"
    assert told.help == "pip install --no-deps pytest==1.0"


@pytest.mark.parametrize(
    ("parts", "interpolate", "codes"),
    [("place", None, []), ("place rotate", None, ["TM830"]), ("rotate", "nearest", []), ("brightness", None, [])],
)
def test_a_patch_that_nature_moves_between_pixels_is_drawn_as_the_spec_says(
    parts: str, interpolate: Any, codes: Any
) -> None:
    """Whole places and values need no word; a turn without one has two readings, and both are told."""
    drawn = Nature(tuple((part, Fraction(0), Fraction(6), None) for part in parts.split()), 10, interpolate)
    threat = replace(THREAT, allow=Patch("rectangle", 2, 2), nature=drawn)
    plan, found = lower(program(stage(call("native.patch_pgd")), subjects=(threat,)), Capabilities())
    assert plan is not None, found
    told = unavailable(plan, Capabilities())
    assert [d.code for d in told] == codes
    for diagnostic in told:
        assert "rotate" in diagnostic.message
        assert [note.partition(":")[0] for note in diagnostic.notes] == ["interpolate nearest", "interpolate bilinear"]
        assert "draws 10 interpolate" in (diagnostic.help or "")
