"""The one packed form of a bundle: its bytes by hand, read by Python's own zip reader, and nothing else accepted."""

from __future__ import annotations

import io
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import audit_support
import pytest
from audit_support import Rows, attack, evaluation, make_bundle, plan, sealed, threat
from hypothesis import given, settings
from hypothesis import strategies as st

import tmlang as tm
from tmlang.audit import package
from tmlang.audit.bundle import Bundle
from tmlang.audit.package import Archive, packed
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop

SMALL = {"a": b"hi", "b/c": b"", "b/d.json": b"{}"}
BY_HAND = (
    # Local header: needs 1.0, no flags, stored, 00:00:00, 1980-01-01; CRC-32 of "hi" is d8932aac; 2 bytes; a name of 1.
    "504b0304 0a00 0000 0000 0000 2100 ac2a93d8 02000000 02000000 0100 0000 61 6869"
    # Directory: made by unix 1.0, the same, no extra field, no comment, disk 0, 0, mode 100644, at 0.
    "504b0102 0a03 0a00 0000 0000 0000 2100 ac2a93d8 02000000 02000000 0100 0000 0000 0000 0000 0000a481 00000000 61"
    # End: one of one file, a directory of 47 bytes behind 33.
    "504b0506 0000 0000 0100 0100 2f000000 21000000 0000"
)


def refused(data: bytes, code: str = "TM853") -> str:
    return audit_support.refused(code, lambda: Archive(data, "x.zip"))


def test_the_bytes_of_one_file_are_those_written_by_hand() -> None:
    assert packed({"a": b"hi"}).hex() == BY_HAND.replace(" ", "")


def test_another_reader_finds_the_files_and_nothing_else() -> None:
    with zipfile.ZipFile(io.BytesIO(packed(SMALL))) as archive:
        assert archive.testzip() is None
        assert {e.filename: archive.read(e) for e in archive.infolist()} == SMALL
        assert {
            (e.date_time, e.compress_type, e.external_attr >> 16, e.extra, e.comment) for e in archive.infolist()
        } == {((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED, 0o100644, b"", b"")}
        assert archive.comment == b""


names = st.lists(st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3}){0,2}", fullmatch=True), max_size=6, unique=True)


@settings(max_examples=60, deadline=None)
@given(names.flatmap(lambda n: st.fixed_dictionaries({k: st.binary(max_size=40) for k in n})))
def test_files_come_back_whatever_their_order_was(files: dict[str, bytes]) -> None:
    data = packed(files)
    assert data == packed(dict(reversed(files.items())))
    if any(a != b and b.startswith(f"{a}/") for a in files for b in files):
        assert "as a file and as a folder" in refused(data)
        return
    archive = Archive(data, "x.zip")
    assert {name: archive.read(name) for name in archive.names()} == files


def test_no_bit_may_be_another_and_no_byte_missing() -> None:
    data = packed(SMALL)
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises(Stop):
                Archive(bytes(changed), "x.zip")
        with pytest.raises(Stop):
            Archive(data[:at], "x.zip")
        with pytest.raises(Stop):
            Archive(data[:at] + b"\0" + data[at:], "x.zip")
    refused(data + b"\0")
    refused(b"")


def zipped(*entries: tuple[str, bytes], change: Callable[[zipfile.ZipInfo], object] = id, **how: int) -> bytes:
    """The zip of another tool, as near to ours as Python's own can come, but for what is asked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **how) as archive:
        for name, data in entries:
            entry = zipfile.ZipInfo(name)
            entry.create_version = entry.extract_version = 10
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            change(entry)
            archive.writestr(entry, data, how.get("compression", zipfile.ZIP_STORED))
    return buffer.getvalue()


def linked(entry: zipfile.ZipInfo) -> None:
    entry.external_attr = 0o120777 << 16


def dated(entry: zipfile.ZipInfo) -> None:
    entry.date_time = (2026, 1, 1, 0, 0, 0)


def extra(entry: zipfile.ZipInfo) -> None:
    entry.extra = struct.pack("<HHB", 0x7875, 1, 1)


def encrypted(data: bytes) -> bytes:
    """With the flag of encryption in both headers of the first file."""
    changed = bytearray(data)
    changed[6] |= 1
    changed[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (zipped(("a", b"x" * 99), compression=zipfile.ZIP_DEFLATED), "compressed"),
        (zipped(("a", bytes(10**6)), compression=zipfile.ZIP_LZMA), "compressed"),
        (encrypted(packed(SMALL)), "encrypted"),
        (zipped(("a", b"/etc/passwd"), change=linked), "as a link"),
        (zipped(("a", b"1"), change=dated), "with a time"),
        (zipped(("a", b"1"), change=extra), "with a time, an owner or more"),
        (zipped(("a", b"1"), ("a", b"2")), "`a` twice"),
        (zipped(("b", b"1"), ("a", b"2")), "not the order"),
        (zipped(("b/", b""), ("b/c", b"2")), "lists the folder `b/`"),
        (packed(SMALL)[:-2] + b"\x04\0well", "does not end"),
        (b"PK\x03\x04 nothing", "does not end"),
        (b"#!/bin/sh\n" + packed(SMALL), "cannot be read"),
    ],
)
def test_other_zips_are_refused_and_it_is_said_why(data: bytes, words: str) -> None:
    assert words in refused(data)


def test_a_name_that_stands_twice_and_another_order_are_refused() -> None:
    one, other = (packed({"a": data}) for data in (b"1", b"2"))
    locals_, heads = [z[:32] for z in (one, other)], [z[32:79] for z in (one, other)]
    twice = b"".join([*locals_, heads[0], heads[1][:-5] + struct.pack("<L", 32) + b"a"])
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, 94, 64, 0)
    assert "`a` twice" in refused(twice + end)
    assert "not the order" in refused(twice.replace(b"a1", b"b1", 1).replace(heads[0], heads[0][:-1] + b"b") + end)


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "a/../../b", "C:\\x", "a\\b", ".hidden", "a/./b", "ü"])
def test_a_name_leads_nowhere_else(name: str) -> None:
    refused(zipped(("good.txt", b""), (name, b"x")), "TM843")
    with pytest.raises(Stop):
        packed({name: b""})


def test_there_are_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = packed(SMALL)
    (tmp_path / "x.zip").write_bytes(data)
    monkeypatch.setattr(package, "MAX_BYTES", len(data) - 1)
    assert "bytes" in refused(data)
    with pytest.raises(Stop, match="larger than"):
        Archive.at(tmp_path / "x.zip")
    with pytest.raises(Stop, match="more than one zip takes"):
        packed(SMALL)
    monkeypatch.setattr(package, "MAX_BYTES", len(data))
    assert Archive.at(tmp_path / "x.zip").names() == list(SMALL)
    monkeypatch.setattr(package, "MAX_FILES", 2)
    assert "more than 2 files" in refused(data)
    with pytest.raises(Stop, match="more than one zip takes"):
        packed(SMALL)


# A bundle ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "run"
    rows = Rows().clean("u").attack("u", outcome="broken", candidate="candidates/000001.safetensors#0", linf=0.125,
        l2=0.125, l1=0.125, l0=1, distance=0.125).clean("v").attack("v")  # fmt: skip
    sealed(make_bundle(folder, plan([evaluation(attack())], [threat()]), rows.all))
    return folder


def test_every_command_takes_a_packed_bundle(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "x.zip"
    assert main(["pack", str(run), "--out", str(there)]) == 0
    assert main(["pack", str(run)]) == 0
    assert run.with_name("run.zip").read_bytes() == there.read_bytes()
    assert main(["pack", str(there), "--out", str(tmp_path / "again.zip")]) == 0
    assert (tmp_path / "again.zip").read_bytes() == there.read_bytes()
    capsys.readouterr()
    said = []
    for path in (run, there):
        assert main(["audit", str(path)]) == 0
        said.append(capsys.readouterr().out.replace(str(path), "IT"))
    assert said[0] == said[1]
    assert main(["diff", str(run), str(there)]) == 0
    assert main(["report", str(there), "--out", str(tmp_path), "--format", "md,tex"]) == 0
    assert main(["report", str(run), "--out", str(tmp_path / "folder"), "--format", "md,tex"]) == 0
    assert (tmp_path / "report.md").read_bytes() == (tmp_path / "folder" / "report.md").read_bytes()
    assert main(["cite", str(there)]) == 0
    assert tm.open(there).rows == tm.open(run).rows
    changed, original = tm.open(there).candidate(next(r for r in tm.open(there).rows if r.candidate))
    assert (changed - original).max() == 0.125
    assert tm.open(there).audit().faults == []


def test_a_pipe_is_no_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Stop, match="no folder and no packed bundle"):
        Bundle.open(tmp_path / "pipe")


def test_queries_need_files(run: Path, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(Bundle.open(run).packed())
    with pytest.raises(Stop, match="is packed, and the queries read the records as files"):
        main(["audit", str(tmp_path / "x.zip"), "--sql"])


def test_what_is_not_a_whole_bundle_is_not_packed(run: Path, tmp_path: Path) -> None:
    def fails(code: str, *arguments: str) -> None:
        with pytest.raises(Stop) as stopped:
            main(["pack", *arguments])
        assert stopped.value.diagnostics[0].code == code

    fails("TM824", str(run), "--out", str(run / "run.zip"))
    fails("TM824", str(run), "--out", str(tmp_path / "nowhere" / "run.zip"))
    fails("TM840", str(tmp_path / "nowhere"))
    shutil.copytree(run, tmp_path / "other")
    (tmp_path / "other" / "columns.json").write_text("{}")
    fails("TM841", str(tmp_path / "other"))
    assert not (tmp_path / "other.zip").exists()


def test_a_changed_file_in_a_zip_is_named(run: Path, tmp_path: Path) -> None:
    files = {name: (run / name).read_bytes() for name in (*Bundle.open(run).files(), "statement.json")}
    (tmp_path / "x.zip").write_bytes(packed(files | {"columns.json": b"{}"}))
    with pytest.raises(Stop, match=r"`columns.json` has changed"):
        Bundle.open(tmp_path / "x.zip")
    (tmp_path / "y.zip").write_bytes(packed({k: v for k, v in files.items() if k != "statement.json"}))
    with pytest.raises(Stop, match="never sealed"):
        Bundle.open(tmp_path / "y.zip")
