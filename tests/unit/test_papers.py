"""A spec and its evidence inside a PDF and out again: a small PDF made by pikepdf, read back by pikepdf and by hand."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pikepdf
import pytest
from audit_support import refused

import tmlang as tm
from tmlang.api.papers import attach_to, extract_from
from tmlang.audit.bundle import Bundle
from tmlang.audit.package import packed, unpack
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.report import attachments
from tmlang.report.attachments import attach, attached

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("papers")


def blank() -> bytes:
    document = pikepdf.new()
    document.add_blank_page(page_size=(200, 200))
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``specs/sensor`` with its lock, its evidence in ``run`` and a paper."""
    folder = tmp_path_factory.mktemp("paper") / "sensor"
    shutil.copytree(ROOT / "specs" / "sensor", folder)
    assert main(["freeze", str(folder / "sensor.tm")]) == 0
    tm.run(folder / "sensor.tm", out=folder / "run", locked=True)
    (folder / "paper.pdf").write_bytes(blank())
    attach_to(folder / "paper.pdf", folder / "sensor.tm", folder / "run", folder / "full.pdf")
    return folder


def test_what_is_attached_comes_back_and_holds(folder: Path, tmp_path: Path) -> None:
    (found,) = extract_from(folder / "full.pdf", tmp_path / "out")
    assert found.faults == []
    assert (found.name, found.folder) == ("sensor", tmp_path / "out" / "sensor")
    for name in ("sensor.tm", "sensor.tm.lock"):
        assert (found.folder / name).read_bytes() == (folder / name).read_bytes()
    again = tm.open(found.folder / "bundle")
    assert again.columns == tm.open(folder / "run").columns
    (claim, _) = json.loads((found.folder / "sensor.claims.json").read_text())["claims"]
    assert (claim["result"]["status"], claim["result"]["low"]) == ("supported", "1/2")
    assert any("claims" in text for text in found.checked)


def test_the_files_are_associated_with_the_document(folder: Path) -> None:
    with pikepdf.open(folder / "full.pdf") as document:
        told = {str(f.UF): str(f.AFRelationship) for f in document.Root.AF}
        assert len(document.pages) == 1
        assert document.attachments["sensor.tm"].get_file().read_bytes() == (folder / "sensor.tm").read_bytes()
    assert told == {
        "sensor.tm": "/Source",
        "sensor.tm.lock": "/Supplement",
        "sensor.claims.json": "/Supplement",
        "sensor.bundle.zip": "/Data",
    }


def test_attaching_again_replaces_and_other_specs_stay(folder: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.pdf"
    attach_to(folder / "full.pdf", folder / "sensor.tm", folder / "run", twice)
    with pikepdf.open(twice) as document:
        assert len(document.attachments) == len(document.Root.AF) == 4
    shutil.copytree(folder, tmp_path / "other")
    for ending in (".tm", ".tm.lock"):
        (tmp_path / "other" / f"sensor{ending}").rename(tmp_path / "other" / f"second{ending}")
    done = attach_to(twice, tmp_path / "other" / "second.tm", None, twice)
    assert set(done.files) == {"second.tm", "second.tm.lock", "second.claims.json"}
    assert [c["result"] for c in done.claims["claims"]] == [None, None]
    found = extract_from(twice, tmp_path / "out")
    assert [(f.name, f.faults) for f in found] == [("second", []), ("sensor", [])]
    assert "any result: no bundle is attached" in found[0].unchecked


def test_the_commands(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper = tmp_path / "p.pdf"
    paper.write_bytes(blank())
    assert main(["attach", str(paper), str(folder / "sensor.tm"), str(folder / "run")]) == 0
    said = capsys.readouterr().out
    planned = tm.plan_of(folder / "sensor.tm")
    assert "robust_rate(exact) rounds to 50 %: supported" in said
    assert main(["extract", str(paper), "--out", str(tmp_path / "out")]) == 0
    assert "what was checked holds" in capsys.readouterr().out
    assert main(["extract", str(paper), "--out", str(tmp_path / "bundle")]) == 0
    assert main(["cite", str(folder / "run"), "--author", "A", "--year", "2026"]) == 0
    entry = capsys.readouterr().out.split("@misc")[1]
    (identity,) = [i for i in (c["id"] for c in _claims(folder)) if i in entry]
    assert identity in said
    assert "year = {2026}" in entry
    assert r"title = {{half of them stand}: {robust\_rate(exact) rounds to 50\,\%}}" in entry
    assert main(["cite", str(folder / "sensor.tm.lock")]) == 0
    assert "not judged yet" in capsys.readouterr().out
    assert len(planned.claims) == 2


def _claims(folder: Path) -> list[dict[str, object]]:
    files = attached((folder / "full.pdf").read_bytes(), (".claims.json",))
    found: list[dict[str, object]] = json.loads(files["sensor.claims.json"])["claims"]
    return found


def test_local_modules_travel_too(folder: Path, tmp_path: Path) -> None:
    text = (folder / "sensor.tm").read_text()
    there = tmp_path / "spec"
    shutil.copytree(folder, there)
    (there / "parts").mkdir()
    (there / "parts" / "limits.tm").write_text("tm 1\n\nlet reach = 1/8\n")
    text = text.replace("tm 1\n", 'tm 1\n\nuse "parts/limits.tm" (reach)\n', 1).replace("<= 0.125", "<= reach")
    (there / "sensor.tm").write_text(text)
    assert main(["freeze", str(there / "sensor.tm")]) == 0
    done = attach_to(there / "paper.pdf", there / "sensor.tm", folder / "run", there / "paper.pdf")
    assert "sensor.modules.zip" in done.files
    (found,) = extract_from(there / "paper.pdf", tmp_path / "out")
    assert found.faults == []
    assert (found.folder / "parts" / "limits.tm").read_text() == "tm 1\n\nlet reach = 1/8\n"


# What does not belong together --------------------------------------------------------------------------------------


def test_parts_that_do_not_belong_together_are_not_attached(folder: Path, tmp_path: Path) -> None:
    there = tmp_path / "spec"
    shutil.copytree(folder, there)
    text = (there / "sensor.tm").read_text()
    spec, paper, run = there / "sensor.tm", there / "paper.pdf", folder / "run"
    spec.write_text(text.replace("<= 0.125", "<= 0.25"))
    assert "locked" in refused("TM862", lambda: attach_to(paper, spec, run, paper))
    assert main(["freeze", str(spec)]) == 0
    assert "not the evidence of this spec" in refused("TM883", lambda: attach_to(paper, spec, run, paper))
    (there / "sensor.tm.lock").unlink()
    refused("TM860", lambda: attach_to(paper, spec, run, paper))
    spec.rename(there / "no name.tm")
    refused("TM883", lambda: attach_to(paper, there / "no name.tm", None, paper))
    assert paper.read_bytes() == (folder / "paper.pdf").read_bytes()


def tampered(folder: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None]) -> list[str]:
    """The faults that extracting tells after ``change`` was made to the attached files."""
    files = attached((folder / "full.pdf").read_bytes(), (".tm", ".lock", ".json", ".zip"))
    change(files)
    paper = tmp_path / "tampered.pdf"
    paper.write_bytes(attach(blank(), files))
    (found,) = extract_from(paper, tmp_path / "out")
    return found.faults


def test_a_better_number_in_the_claims_is_told(folder: Path, tmp_path: Path) -> None:
    def better(files: dict[str, bytes]) -> None:
        files["sensor.claims.json"] = files["sensor.claims.json"].replace(b'"low":"1/2"', b'"low":"1/1"')

    assert [f.partition(":")[0] for f in tampered(folder, tmp_path, better)] == ["TM883"]


def test_another_radius_in_the_spec_is_told(folder: Path, tmp_path: Path) -> None:
    def wider(files: dict[str, bytes]) -> None:
        files["sensor.tm"] = files["sensor.tm"].replace(b"<= 0.125", b"<= 0.5")

    assert [f.partition(":")[0] for f in tampered(folder, tmp_path, wider)] == ["TM862"]


def test_a_changed_bundle_is_told(folder: Path, tmp_path: Path) -> None:
    def changed(files: dict[str, bytes]) -> None:
        bundle = Bundle.open(folder / "run")
        names = [*bundle.files(), "statement.json"]
        inside = {name: (folder / "run" / name).read_bytes() for name in names}
        inside["columns.json"] = inside["columns.json"].replace(b'"1/2"', b'"1/1"')
        files["sensor.bundle.zip"] = packed(inside)

    assert [f.partition(":")[0] for f in tampered(folder, tmp_path, changed)] == ["TM841"]


# What comes from a stranger -----------------------------------------------------------------------------------------


def zipped(*entries: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "a/../../b", "C:\\x", "a\\b", ".hidden", "a/./b", "ü"])
def test_a_packed_name_does_not_leave_its_folder(name: str, tmp_path: Path) -> None:
    refused("TM843", lambda: unpack(zipped(("good.txt", b""), (name, b"x")), tmp_path / "in"))
    assert list(tmp_path.rglob("*")) == []


def test_packed_files_are_written_to_new_places_only(tmp_path: Path) -> None:
    refused("TM853", lambda: unpack(zipped(("a", b"1")), tmp_path / "compressed"))
    (tmp_path / "there").write_text("mine")
    refused("TM824", lambda: unpack(packed({"there": b"theirs"}), tmp_path))
    assert (tmp_path / "there").read_text() == "mine"


def test_a_packed_bundle_is_attached_as_its_folder_is(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run.zip").write_bytes(Bundle.open(folder / "run").packed())
    attach_to(folder / "paper.pdf", folder / "sensor.tm", tmp_path / "run.zip", tmp_path / "full.pdf")
    data = [attached(p.read_bytes(), (".zip",)) for p in (tmp_path / "full.pdf", folder / "full.pdf")]
    assert data[0] == data[1] == {"sensor.bundle.zip": (tmp_path / "run.zip").read_bytes()}


def embedded(data: bytes, **entries: object) -> bytes:
    """A PDF with one attached file ``x.tm`` whose stream is raw ``data``."""
    document = pikepdf.open(io.BytesIO(attach(blank(), {"x.tm": b"?"})))
    stream = document.attachments["x.tm"].obj.EF.F
    kinds = {k: pikepdf.Name(v) if isinstance(v, str) else v for k, v in entries.items()}
    stream.write(data, filter=kinds.get("Filter"), decode_parms=kinds.get("DecodeParms"))
    buffer = io.BytesIO()
    document.save(buffer, compress_streams=False, stream_decode_level=pikepdf.StreamDecodeLevel.none)
    return buffer.getvalue()


def test_an_attached_file_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attached(embedded(b"plain"), (".tm",)) == {"x.tm": b"plain"}
    squeezed = zlib.compress(bytes(10_000))
    assert attached(embedded(squeezed, Filter="/FlateDecode"), (".tm",)) == {"x.tm": bytes(10_000)}
    refused("TM882", lambda: attached(embedded(b"80,0>", Filter="/ASCIIHexDecode"), (".tm",)))
    refused("TM882", lambda: attached(embedded(b"no deflate", Filter="/FlateDecode"), (".tm",)))
    monkeypatch.setattr(attachments, "MAX_FILE", 5000)
    assert "larger" in refused("TM882", lambda: attached(embedded(squeezed, Filter="/FlateDecode"), (".tm",)))
    monkeypatch.setattr(attachments, "MAX_FILES", 0)
    refused("TM882", lambda: attached(embedded(b""), (".tm",)))


def test_a_pdf_that_cannot_carry_anything(folder: Path, tmp_path: Path) -> None:
    refused("TM880", lambda: attach(b"no pdf", {}))
    document = pikepdf.open(io.BytesIO(blank()))
    locked = io.BytesIO()
    document.save(locked, encryption=pikepdf.Encryption(owner="a", user="b"))
    assert "encrypted" in refused("TM880", lambda: attach(locked.getvalue(), {}))
    document.Root.AcroForm = pikepdf.Dictionary(SigFlags=3)
    signed = io.BytesIO()
    document.save(signed)
    assert "signed" in refused("TM880", lambda: attach(signed.getvalue(), {}))
    refused("TM881", lambda: extract_from(folder / "paper.pdf", tmp_path / "out"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    refused("TM824", lambda: extract_from(folder / "full.pdf", tmp_path / "full"))
    refused("TM882", lambda: extract_from(folder / "none.pdf", tmp_path / "out"))


def test_a_name_that_is_no_name_is_not_extracted(tmp_path: Path) -> None:
    paper = tmp_path / "p.pdf"
    paper.write_bytes(attach(blank(), {"../evil.tm": b"tm 1\n", "a/b.tm": b"tm 1\n"}))
    refused("TM881", lambda: extract_from(paper, tmp_path / "out"))
    assert not (tmp_path / "evil.tm").exists()


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pikepdf", None)
    with pytest.raises(Stop) as stopped:
        attach(b"", {})
    assert "tmlang[papers]" in (stopped.value.diagnostics[0].help or "")
