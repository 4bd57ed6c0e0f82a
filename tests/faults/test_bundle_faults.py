"""A bundle from a stranger: whatever its bytes are, audit and report end in faults or in a refusal."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest
from audit_support import BROKEN, Rows, attack, certifier, evaluation, make_bundle, plan, sealed, threat
from hypothesis import given, settings
from hypothesis import strategies as st

from tmlang.audit.bundle import Bundle
from tmlang.audit.verify import audit
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.report.view import view_of

CLAIM = Claim("c", Measured("survival", "e"), ">=", 0)
FILES = ("plan.json", "columns.json", "candidates/000001.safetensors", "records/000001.parquet")


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    rows = Rows().clean("u").attack("u", outcome="broken", candidate="candidates/000001.safetensors#0", **BROKEN)
    rows.clean("v").attack("v").proof("v", margin=1.0, gap=0.0, gap_kind="proved")
    whole = plan([evaluation(attack(), certifier())], [threat()])
    bundle = make_bundle(tmp_path_factory.mktemp("honest") / "run", whole, rows.all)
    sealed(bundle)
    assert audit(bundle.path).faults == []
    return bundle.path


def seal_again(path):
    """A statement that fits whatever lies there now."""
    statement = json.loads((path / "statement.json").read_bytes())
    for subject in statement["subject"]:
        subject["digest"]["sha256"] = hashlib.sha256((path / subject["name"]).read_bytes()).hexdigest()
    (path / "statement.json").write_text(json.dumps(statement))


def survives(path):
    """Audit and report end in an orderly way; gives whether anything was found."""
    try:
        found = bool(audit(path).faults)
    except Stop:
        found = True
    try:
        view_of(Bundle.open(path))
    except Stop:
        found = True
    return found


@given(st.data())
@settings(max_examples=120, deadline=None, report_multiple_bugs=False)
def test_changed_bytes_end_in_order(honest, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("changed") / "run"
    shutil.copytree(honest, path)
    target = path / data.draw(st.sampled_from(FILES))
    content = bytearray(target.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "double"]))
    at = data.draw(st.integers(0, len(content) - 1))
    if kind == "flip":
        content[at] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del content[at:]
    else:
        content[at:at] = content[: data.draw(st.integers(1, 64))]
    target.write_bytes(content)
    seal_again(path)
    survives(path)


WORDS = ("units", "gaps", "note", "interval", "rests_on", "claim")
"""What is worded, or worked out from other numbers of the same file."""
VALUES = st.sampled_from([None, True, -1, 2**60, 1.5, "", "1/0", "x" * 100, [], {}, [[]], {"is": "Ball"}])


@given(st.data())
@settings(max_examples=150, deadline=None, report_multiple_bugs=False)
def test_changed_values_are_found_or_change_nothing(honest, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("changed") / "run"
    shutil.copytree(honest, path)
    target = path / data.draw(st.sampled_from(["plan.json", "columns.json"]))
    content = json.loads(target.read_bytes())
    place = content
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    before, place[key] = place[key], data.draw(VALUES)
    target.write_text(json.dumps(content))
    seal_again(path)
    found = survives(path)
    if target.name == "columns.json" and key not in (
        "subject",
        "units",
        "gaps",
        "note",
        "interval",
        "rests_on",
        "claim",
    ):
        assert found or place[key] == before


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_a_refusal_or_a_fault(honest, tmp_path, name):
    path = tmp_path / "run"
    shutil.copytree(honest, path)
    (path / name).unlink()
    assert survives(path)


@pytest.mark.parametrize(
    "statement",
    [
        b"",
        b"[]",
        b"{}",
        b'{"_type":"https://in-toto.io/Statement/v1","subject":[],"predicateType":"other","predicate":{}}',
        b'{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"../x","digest":{"sha256":"00"}}],'
        b'"predicateType":"urn:tmlang:run:v1","predicate":{}}',
        b'{"_type":"https://in-toto.io/Statement/v1","subject":[7],"predicateType":"urn:tmlang:run:v1","predicate":{}}',
    ],
)
def test_a_statement_of_another_form_is_refused(honest, tmp_path, statement):
    path = tmp_path / "run"
    shutil.copytree(honest, path)
    (path / "statement.json").write_bytes(statement)
    with pytest.raises(Stop):
        audit(path)
