"""The bundle: whole files or none, one statement over all of them, nothing read in two ways."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_support import Rows, worked_example
from hypothesis import given, settings
from hypothesis import strategies as st

from tmlang.audit import tensorfile
from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.audit.schema import COLUMNS, SCHEMA, SchemaError, from_table, to_table
from tmlang.base import canonical
from tmlang.diagnostics.stop import Stop


@pytest.fixture
def bundle(tmp_path):
    return Bundle.create(tmp_path / "run")


def code(error):
    return error.value.diagnostics[0].code


def sealed(bundle):
    bundle.add_text("spec/main.tm", "tm 1\n")
    bundle.add_json("columns.json", {"a": 1})
    bundle.write_records(worked_example()[:5])
    bundle.add_candidates(np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32), space="px")
    bundle.seal({"tool": "tmlang"})
    return bundle.path


# Writing and reading ------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_back(bundle):
    rows = worked_example()
    assert bundle.write_records(rows[:50]) == "records/000001.parquet"
    assert bundle.write_records(rows[50:]) == "records/000002.parquet"
    x = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    references = bundle.add_candidates(x, x * 0, space="px", indices=False)
    assert references == ("candidates/000001.safetensors#0", "candidates/000001.safetensors#1")
    bundle.seal({})
    again = Bundle.open(bundle.path)
    assert again.records() == rows
    candidate, original, indices = again.candidate(references[1])
    assert np.array_equal(candidate, x[1])
    assert np.array_equal(original, [0, 0])
    assert not indices


def test_the_statement_names_every_file_with_its_hash(bundle):
    path = sealed(bundle)
    statement = json.loads((path / "statement.json").read_bytes())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    named = {s["name"]: s["digest"]["sha256"] for s in statement["subject"]}
    files = [p for p in path.rglob("*") if p.is_file() and p.name != "statement.json"]
    assert named == {p.relative_to(path).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
    assert len(named) == 4


@pytest.mark.parametrize("change", ["edit", "remove", "add", "hide"])
def test_any_change_after_sealing_is_found(bundle, change):
    path = sealed(bundle)
    if change == "edit":
        (path / "columns.json").write_text('{"a":2}')
    elif change == "remove":
        (path / "spec/main.tm").unlink()
    else:
        (path / {"add": "note.txt", "hide": ".note"}[change]).write_text("x")
    with pytest.raises(Stop) as error:
        Bundle.open(path)
    assert code(error) == "TM841"


def test_an_unsealed_bundle_is_no_evidence_and_can_be_resumed(bundle):
    bundle.write_records(worked_example()[:3])
    (bundle.path / "records/.000002.parquet.x7f").write_bytes(b"half")
    with pytest.raises(Stop) as error:
        Bundle.open(bundle.path)
    assert code(error) == "TM840"
    again = Bundle.resume(bundle.path)
    assert [p.name for p in bundle.path.rglob("*") if p.is_file()] == ["000001.parquet"]
    assert again.write_records(worked_example()[3:5]) == "records/000002.parquet"
    assert again.records() == worked_example()[:5]


def test_a_failed_write_leaves_no_file_behind(bundle, monkeypatch):
    bundle.add_json("columns.json", {"old": True})

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Stop) as error:
        bundle.add_json("columns.json", {"new": True})
    assert code(error) == "TM824"
    monkeypatch.undo()
    assert bundle.json("columns.json") == {"old": True}


def test_a_folder_in_use_and_a_sealed_bundle_are_not_written_to(bundle, tmp_path):
    path = sealed(bundle)
    for write, expected in [
        (lambda: Bundle.create(path), "TM824"),
        (lambda: Bundle.resume(path), "TM847"),
        (lambda: bundle.add_text("a.txt", ""), "TM847"),
        (lambda: Bundle.open(tmp_path / "none"), "TM840"),
    ]:
        with pytest.raises(Stop) as error:
            write()
        assert code(error) == expected


@pytest.mark.parametrize(
    "name",
    ["../out", "a/../../b", "/etc/passwd", "a//b", ".hidden", "a/.b", "", "a\\b", "a\nb", "x" * 200, "a/" * 9 + "b"],
)
def test_no_name_leads_out_of_the_bundle(bundle, name):
    for act in (lambda: bundle.add_text(name, ""), lambda: bundle.read_bytes(name)):
        with pytest.raises(Stop) as error:
            act()
        assert code(error) == "TM843"


def test_links_are_not_followed(bundle, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (bundle.path / "columns.json").symlink_to(secret)
    for act in (lambda: bundle.json("columns.json"), lambda: list(bundle.files())):
        with pytest.raises(Stop) as error:
            act()
        assert code(error) == "TM843"
    (bundle.path / "columns.json").unlink()
    (bundle.path / "records").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(Stop):
        bundle.read_bytes("records/secret.json")


# Records as a table -------------------------------------------------------------------------------------------------

VALUES = {
    str: st.text(st.characters(codec="utf-8"), max_size=8),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
}


@st.composite
def any_record(draw):
    def value(column):
        kind = st.sampled_from(sorted(column.words)) if column.words else VALUES[column.kind]
        return draw(st.none() | kind if column.nullable else kind)

    return Record(**{c.name: value(c) for c in COLUMNS})


@given(st.lists(any_record(), max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_record_survives_the_table(records):
    assert from_table(to_table(records)) == records


def test_the_schema_has_a_column_for_every_field():
    assert [c.name for c in COLUMNS] == [f.name for f in fields(Record)] == SCHEMA.names


@pytest.mark.parametrize(
    "change",
    [
        {"status": "fine"},
        {"clean": "ok"},
        {"linf": float("nan")},
        {"linf": float("inf")},
        {"unit": "x" * 20000},
        {"outcomes": "1" * 100001},
    ],
)
def test_a_value_that_no_column_may_hold_is_refused(change):
    row = replace(Rows().clean("u").all[0], **change)
    with pytest.raises(SchemaError):
        to_table([row])
    loose = pa.Table.from_pylist([{c.name: getattr(row, c.name) for c in COLUMNS}], schema=SCHEMA)
    with pytest.raises(SchemaError):
        from_table(loose)


def test_other_columns_are_refused(bundle):
    table = to_table(worked_example()[:2])
    for wrong in (table.drop_columns(["seconds"]), table.append_column("extra", pa.array([1, 2]))):
        with pytest.raises(SchemaError):
            from_table(wrong)
    (bundle.path / "records").mkdir()
    pq.write_table(table.drop_columns(["seconds"]), bundle.path / "records/000001.parquet")
    with pytest.raises(Stop) as error:
        bundle.records()
    assert code(error) == "TM842"
    (bundle.path / "records/000001.parquet").write_bytes(b"PAR1 this is none PAR1")
    with pytest.raises(Stop) as error:
        bundle.records()
    assert code(error) == "TM842"


# JSON ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "text"),
    [  # RFC 8785, appendix B
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_rfc_8785_lays_down(bits, text):
    assert canonical.dumps(struct.unpack(">d", bytes.fromhex(bits))[0]) == text.encode()


def test_keys_are_sorted_by_utf16_and_strings_escaped():
    # RFC 8785 section 3.2.3, and the example of section 3.2.2.
    names = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    order = [4 if k == "1" else v for k, v in json.loads(canonical.dumps(names)).items()]
    assert order == [2, 4, 6, 7, 1, 5, 3]
    assert canonical.dumps('\u20ac$\u000f\nA\'B"\\\\"/') == b'"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53 + 1, {1: 2}, {"a": {1}}, "\ud800"])
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(canonical.NotCanonical):
        canonical.dumps(value)


@pytest.mark.parametrize(
    "text",
    [b'{"a":1,"a":1}', b"NaN", b"[Infinity]", b"[1e999]", b"{", b"\xff", b"[" * 100000, b'{"a":1}x', b""],
)
def test_loose_json_is_refused(text):
    with pytest.raises(canonical.NotCanonical):
        canonical.loads(text)


# Arrays -------------------------------------------------------------------------------------------------------------


def header_file(header, body=b""):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    return len(text).to_bytes(8, "little") + text + body


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize("kind", ["<f4", "<f8", "<i8", "|u1"])
def test_arrays_survive_their_file(kind):
    array = np.arange(12, dtype=kind).reshape(3, 4)
    file = tensorfile.read(tensorfile.write({"x": array}, {"space": "px"}))
    assert np.array_equal(file.tensors["x"], array)
    assert file.tensors["x"].dtype == array.dtype
    assert file.metadata == {"space": "px"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 8,
        (1 << 40).to_bytes(8, "little") + b"{}",
        header_file({"x": ENTRY}, b"\0" * 7),
        header_file({"x": ENTRY}, b"\0" * 9),
        header_file({"x": {**ENTRY, "dtype": "OBJ"}}, b"\0" * 8),
        header_file({"x": {**ENTRY, "shape": [3]}}, b"\0" * 8),
        header_file({"x": {**ENTRY, "shape": [-2]}}, b"\0" * 8),
        header_file({"x": {**ENTRY, "shape": [True, 2]}}, b"\0" * 8),
        header_file({"x": {**ENTRY, "more": 1}}, b"\0" * 8),
        header_file({"x": ENTRY, "y": ENTRY}, b"\0" * 8),
        header_file({"x": {**ENTRY, "data_offsets": [8, 16]}}, b"\0" * 16),
        header_file(b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[0],'
                    b'"data_offsets":[0,0]}}', b"\0" * 8),
        header_file({"x": ENTRY, "__metadata__": {"a": 1}}, b"\0" * 8),
        header_file(b"[]"),
    ],
)  # fmt: skip
def test_a_tensor_file_that_could_be_read_in_two_ways_is_refused(data):
    with pytest.raises(tensorfile.TensorFileError):
        tensorfile.read(data)


def test_a_reference_beyond_the_file_is_refused(bundle):
    sealed(bundle)
    for reference in (
        "candidates/000001.safetensors#2",
        "candidates/000001.safetensors",
        "candidates/000001.safetensors#-1",
    ):
        with pytest.raises(Stop) as error:
            bundle.candidate(reference)
        assert code(error) == "TM844"


def test_the_documentation_names_every_column_and_word():
    text = (Path(__file__).resolve().parents[2] / "docs/bundle.md").read_text(encoding="utf-8")
    table = text.split("## Records")[1].split("## Candidates")[0]
    for column in COLUMNS:
        assert f"`{column.name}`" in table
        assert all(f"`{word}`" in table for word in column.words)
        row = next(line for line in table.splitlines() if f"`{column.name}`" in line and line.startswith("| `"))
        assert column.nullable == ("○" in row.split("|")[1]) or column.name in ("clean",)
