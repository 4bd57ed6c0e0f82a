"""Two runs of the same examples: counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from audit_support import BROKEN, Rows, attack, evaluation, make_bundle, plan, run_of, sealed, threat

from tmlang.audit.bundle import Bundle
from tmlang.audit.difference import difference
from tmlang.cli.main import main
from tmlang.meaning.threats import Ball

KEPT = {"candidate": "candidates/000001.safetensors#0", **BROKEN}
PLAN = plan([evaluation(attack())], [threat()])


def bundle(path: Path, told: str, p: Any = PLAN, **run: Any) -> Bundle:
    """``told``: per unit its name and outcome, ``a+`` broken, ``a-`` survives, ``a?`` timed out, ``a!`` wrong."""
    rows = Rows()
    for unit, outcome in told.split():
        rows.clean(unit, "cw" if outcome == "!" else "cc")
        if outcome != "!":
            rows.attack(
                unit, "a", {"+": "broken", "-": "none", "?": "timeout"}[outcome], **(KEPT if outcome == "+" else {})
            )
    made = make_bundle(path, p, rows.all)
    made.add_json("run.json", run_of(p, rows.all) | run)
    return sealed(made)


def test_units_are_told_by_hand(tmp_path):
    """a was broken and is not; b is newly broken; c was broken and its search did not end; d is decided otherwise;
    e and f are in one bundle alone; g stays broken and h stays whole."""
    first = bundle(tmp_path / "1", "a+ b- c+ d- e+ g+ h-")
    second = bundle(tmp_path / "2", "a- b+ c? d! f+ g+ h-")
    (found,) = difference(first, second).evaluations
    assert found.refused is None
    assert found.common == 6
    assert (found.only_first, found.only_second) == (("e",), ("f",))
    assert (found.broken, found.mended, found.open) == (("b",), ("a",), ("c",))
    assert found.decisions == (("d", "0", "1"),)


def test_two_sets_are_no_one_number(tmp_path):
    wider = replace(PLAN, subjects=(threat(allow=Ball("linf", "px", Fraction(1, 4))),))
    found = difference(bundle(tmp_path / "1", "a+ b-"), bundle(tmp_path / "2", "a+ b+", wider))
    assert [e.refused for e in found.evaluations] == ["their threats differ in `allow:`"]
    assert found.evaluations[0].broken == ()
    assert [what for what, _, _ in found.objects] == ["plan"]


def test_changed_objects_are_named(tmp_path):
    models = ({"net": {"object": "aa"}}, {"net": {"object": "bb"}})
    first = bundle(tmp_path / "1", "a-", models=models[0], libraries={"torch": "1"})
    second = bundle(tmp_path / "2", "a-", models=models[1], libraries={"torch": "1", "foolbox": "3"})
    told = difference(first, second).objects
    assert told == (("model net", "aa", "bb"), ("library foolbox", "absent", "3"))


def test_the_command_line(tmp_path, capsys):
    bundle(tmp_path / "1", "a+ b-")
    bundle(tmp_path / "2", "a- b-")
    one, two = str(tmp_path / "1"), str(tmp_path / "2")
    assert main(["diff", one, one]) == 0
    assert capsys.readouterr().out == "nothing differs\n"
    assert main(["diff", one, two]) == 1
    assert capsys.readouterr().out == "e, on 2 common units:\n  newly mended: 1: a\n"
    assert main(["diff", one, two, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["evaluations"][0]["mended"] == ["a"]
