"""``claims.json``: read with nothing but a JSON parser, a hash and a schema validator."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
from audit_support import evaluation, plan, solver, threat
from test_report_paper import CLAIMS, WORKED, bundle_of

from tmlang.cli.main import main
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.plan.lock import make_lock
from tmlang.report.claims import claims_json, claims_schema, judged, promised

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "claim.schema.json"


def test_results_are_those_of_the_worked_example(tmp_path: Path) -> None:
    document = judged(bundle_of(tmp_path / "run"))
    results = [c["result"] for c in document["claims"]]
    assert [(r["status"], r["low"], r["high"], r["denominator"]) for r in results] == [
        ("supported", "2/5", "13/25", 100),
        ("supported", "1/5", "1/5", 100),
        ("refuted", "2/5", "13/25", 100),
    ]
    assert [r["coverage"] for r in results] == [["22/25", "22/25"], ["40/41", "40/41"], ["22/25", "22/25"]]
    statement = (tmp_path / "run" / "statement.json").read_bytes()
    assert document["evidence"]["statement"] == sha256(statement).hexdigest()
    assert document["evidence"]["rows"] == 260  # 100 clean rows, 80 of the attack, 80 of the certifier


def test_the_identity_is_that_of_the_lock(tmp_path: Path) -> None:
    ids = [c["id"] for c in judged(bundle_of(tmp_path / "run"))["claims"]]
    assert ids == [identity for _, identity in make_lock(WORKED, {}, (), {}).claims]
    assert ids == [c["id"] for c in promised(WORKED)["claims"]]
    assert len(set(ids)) == 3
    renamed = replace(WORKED, claims=tuple(replace(c, text="other") for c in CLAIMS))
    assert [c["id"] for c in promised(renamed)["claims"]] == ids


def test_the_example_of_the_page_checks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = bundle_of(tmp_path / "run")
    assert main(["report", str(bundle.path), "--format", "claims", "--out", str(tmp_path)]) == 0
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/claim.md").read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(code, "claim.md", "exec"), {})
    assert "survival(e) ≥ 40 % supported" in capsys.readouterr().out


def test_the_published_schema_is_that_of_the_types_and_holds(tmp_path: Path) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert schema == json.loads(json.dumps(claims_schema())), "write it anew: run this file as a program"
    documents = [judged(bundle_of(tmp_path / "run")), promised(WORKED)]
    for document in documents:
        jsonschema.validate(json.loads(claims_json(document)), schema)
    broken = json.loads(claims_json(documents[0]))
    broken["claims"][0]["result"]["low"] = 0.4
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_a_claim_that_nothing_measures_has_no_numbers(tmp_path: Path) -> None:
    claims = (Claim("no", Measured("denied", "e"), "<=", Fraction(1)),)
    bundle = bundle_of(tmp_path / "run", plan([evaluation(solver("a"), solver("c"))], [threat()], claims=claims))
    (claim,) = judged(bundle)["claims"]
    assert (claim["result"]["status"], claim["result"]["low"], claim["result"]["denominator"]) == (
        "undecided",
        None,
        None,
    )


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(claims_schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
