"""The audit of a whole bundle: what follows from its spec, what its reports say, and what cannot be told."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from audit_support import forged, sealed

import tmlang as tm
from tmlang.api import auditing
from tmlang.api.auditing import audit
from tmlang.audit import verify
from tmlang.audit.bundle import Bundle
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.threats import Ball, Threat
from tmlang.plan.ir import Plan
from tmlang.report.claims import judged
from tmlang.report.paper import paper_macros
from tmlang.report.write import tools, write_descriptions

CRATE = "ro-crate-metadata.json"
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("whole_audit")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``specs/sensor``, whose review table comes without a hash, run as it is in ``run``."""
    folder = tmp_path_factory.mktemp("whole") / "sensor"
    shutil.copytree(ROOT / "specs" / "sensor", folder)
    tm.run(folder / "sensor.tm", out=folder / "run")
    return folder


def test_a_claim_has_one_identity_with_a_lock_and_without(folder: Path) -> None:
    bundle = Bundle.open(folder / "run")
    told = [c["identity"] for c in bundle.statement()["predicate"]["claims"]]
    assert told == [c["id"] for c in judged(bundle)["claims"]]
    printed = re.findall(r"/claim/\d/id\}\{\\texttt\{(.*)\}\}", paper_macros(bundle))
    assert [p.replace(r"\allowbreak ", "") for p in printed] == told
    assert main(["freeze", str(folder / "sensor.tm")]) == 0
    lock = json.loads((folder / "sensor.tm.lock").read_bytes())
    assert [identity for _, identity in lock["claims"]] == told
    assert lock["sha256"] == bundle.statement()["predicate"]["plan"]


# What the spec and the rest of the bundle say -----------------------------------------------------------------------


def codes(path: Path) -> set[str]:
    try:
        return {fault.code for fault in audit(path).faults}
    except Stop as stopped:
        return {d.code for d in stopped.diagnostics}


def changed(folder: Path, path: Path, change: Callable[[Path], object]) -> Path:
    """A copy of the run in ``folder`` with a change, and a statement that fits."""
    shutil.copytree(folder / "run", path)
    change(path)
    sealed(Bundle(path, writable=True), Bundle(path, writable=False).statement()["predicate"])
    return path


def text_in(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        text = (path / name).read_text()
        assert old in text
        (path / name).write_text(text.replace(old, new))

    return change


def json_in(name: str, **fields: object) -> Callable[[Path], object]:
    return lambda path: (path / name).write_text(json.dumps(json.loads((path / name).read_text()) | fields))


def test_the_plan_and_the_reports_are_made_again(folder: Path) -> None:
    found = audit(folder / "run")
    assert found.faults == []
    assert [text for text in found.checked if "made again" in text or "to the byte" in text] == [
        "that the plan is what its spec asks for: made again from the spec in the bundle",
        "that croissant.json, report.html, report.md, ro-crate-metadata.json are what is made of the rest now, to the "
        "byte",
    ]


def test_a_spec_that_uses_the_library_and_is_run_in_its_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle holds the spec's own text, and not that of `std`, which is part of tmlang."""
    shutil.copytree(folder, tmp_path / "own", ignore=shutil.ignore_patterns("run", "*.lock"))
    monkeypatch.chdir(tmp_path / "own")
    spec = Path("sensor.tm")
    spec.write_text(spec.read_text().replace("tm 1\n", "tm 1\nuse std.suites (fast)\n", 1))
    tm.run(spec, out="run")
    assert [n for n in Bundle.open("run").files() if n.startswith("spec/")] == ["spec/sensor.tm"]
    assert audit(Path("run")).faults == []


def test_another_radius_with_all_that_follows_from_it_is_told(folder: Path, tmp_path: Path) -> None:
    def narrower(plan: Plan) -> Plan:
        (threat,) = plan.subjects
        assert isinstance(threat, Threat)
        assert isinstance(threat.allow, Ball)
        return replace(plan, subjects=(replace(threat, allow=replace(threat.allow, radius=Fraction(1, 4))),))

    path = forged(folder / "run", tmp_path / "run", plan=narrower)
    assert verify.audit(path).faults == []  # nothing within the bundle contradicts it
    (fault,) = audit(path).faults
    assert fault.code == "TM850"
    told = 'subjects[first_only].allow.radius: in the spec "1/8", in plan.json "1/4"'
    assert fault.text == f"plan.json is not what the spec asks for: {told}"


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("TM851", text_in("report.html", "50 %", "99 %")),
        ("TM851", text_in("report.md", "50 %", "99 %")),
        ("TM851", text_in("ro-crate-metadata.json", "no licence is stated", "CC BY 4.0")),
        ("TM851", text_in("ro-crate-metadata.json", "supported", "refuted")),
        ("TM851", lambda p: (p / "ro-crate-metadata.json").unlink()),
        ("TM851", text_in("croissant.json", "unwanted", "ordinary")),
        ("TM851", lambda p: (p / "croissant.json").unlink()),
        ("TM842", json_in("environment.json", date="yesterday")),
        ("TM851", json_in("environment.json", date="2020-01-01")),
        ("TM851", lambda p: (p / "notes.html").write_text("all is well")),
        ("TM851", lambda p: (p / "candidates" / "000002.safetensors").write_bytes(b"")),
        ("TM850", lambda p: (p / "spec" / "more.tm").write_text("tm 1\n")),
        ("TM850", text_in("spec/sensor.tm", "0.125", "0.25")),
        ("TM850", text_in("spec/sensor.tm", "tm 1", "tm 1 # the same, and another text")),
        ("TM850", text_in("spec/sensor.tm", "allow:", "alow:")),
        ("TM850", lambda p: (p / "spec" / "sensor.tm").unlink()),
        ("TM850", json_in("environment.json", unfrozen=[])),
        ("TM842", json_in("environment.json", unfrozen="none")),
        ("TM842", json_in("environment.json", warnings=[{"code": "TM728"}])),
        ("TM842", json_in("environment.json", tools={"zlib": 1})),
        ("TM842", json_in("environment.json", more=1)),
        ("TM842", lambda p: (p / "environment.json").write_text("[]")),
        ("TM842", lambda p: (p / "environment.json").unlink()),
    ],
)
def test_what_does_not_follow_is_told(
    folder: Path, tmp_path: Path, code: str, change: Callable[[Path], object]
) -> None:
    path = changed(folder, tmp_path / "run", change)
    assert codes(path) == {code}
    with pytest.raises(Stop):
        main(["report", str(path), "--out", str(tmp_path)])


@pytest.mark.parametrize("name", ["", "..", "a/..", "nul\0l.tm", "/etc/passwd", "x" * 5000])
def test_a_module_may_be_called_anything_and_leads_nowhere(folder: Path, tmp_path: Path, name: str) -> None:
    def renamed(plan: Plan) -> Plan:
        return replace(plan, modules=(replace(plan.modules[0], name=name),))

    assert codes(forged(folder / "run", tmp_path / "run", plan=renamed)) == {"TM850"}

    def another(plan: Plan) -> Plan:
        return replace(plan, modules=(*plan.modules, replace(plan.modules[0], name=name)))

    assert codes(forged(folder / "run", tmp_path / "more", plan=another)) == {"TM850"}


def entity(kind: str, **fields: object) -> Callable[[Any], object]:
    """Changes the first entity of a kind in an RO-Crate."""
    return lambda told: next(e for e in told["@graph"] if e["@type"] == kind).update(fields)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (CRATE, lambda t: t["@graph"].remove(next(e for e in t["@graph"] if e["@id"] == "run.json")), "in one alone"),
        (CRATE, entity("File", **{"@id": "more.txt"}), "in one alone"),
        (CRATE, entity("File", contentSize="1"), "another size"),
        (CRATE, entity("Dataset", hasPart=[]), "the parts"),
        (CRATE, entity("Claim", name="all is well"), "not those of the statement"),
        (CRATE, entity("Claim", identifier="sha256:00"), "not those of the statement"),
        (CRATE, entity("SoftwareApplication", softwareVersion="9.9"), "another version"),
        (CRATE, lambda t: next(e for e in t["@graph"] if "#input" in e["@id"]).update(identifier="sha256:0"), "read"),
        (CRATE, lambda t: t.update({"@graph": None}), "another form"),
        ("croissant.json", lambda t: t["recordSet"][0]["data"].reverse(), "examples and their labels"),
        ("croissant.json", lambda t: t["recordSet"][0]["data"].pop(), "examples and their labels"),
        ("croissant.json", lambda t: t["distribution"][0].update(sha256="ab" * 32), "another hash"),
        ("croissant.json", lambda t: t.update(distribution=[]), "is not told"),
        ("croissant.json", lambda t: t.pop("recordSet"), "another form"),
    ],
)
def test_a_description_of_any_version_is_held_to_the_files(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: Callable[[Any], object],
    words: str,
) -> None:
    monkeypatch.setattr(auditing, "__version__", "9.9")

    def edit(path: Path) -> None:
        told = json.loads((path / name).read_text())
        change(told)
        (path / name).write_text(json.dumps(told))

    found = [f for f in audit(changed(folder, tmp_path / "run", edit)).faults if name in f.text and words in f.text]
    assert [f.code for f in found][:1] == ["TM851"]


# What cannot be told -------------------------------------------------------------------------------------------------


def described(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """The change, and descriptions that tell of it."""

    def both(path: Path) -> None:
        change(path)
        write_descriptions(Bundle(path, writable=True))

    return both


def test_what_another_version_made_is_not_checked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "__version__", "9.9")
    found = audit(changed(folder, tmp_path / "run", described(text_in("report.md", "50 %", "99 %"))))
    assert found.faults == []
    assert "report.md: it was made by tmlang 0.1.0, and this is 9.9" in found.unchecked
    found = audit(changed(folder, tmp_path / "other", described(text_in("spec/sensor.tm", "0.125", "0.25"))))
    assert found.faults == []
    (told,) = [text for text in found.unchecked if "what its spec asks for" in text]
    assert "it was made by tmlang 0.1.0" in told
    assert 'in the spec "1/4", in plan.json "1/8"' in told


def test_a_page_that_cannot_be_made_here_is_not_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tmlang.report.page", None)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    found = audit(folder / "run")
    assert found.faults == []
    assert any(text.startswith("report.html: report.html needs") for text in found.unchecked)
    assert any("that croissant.json, report.md, ro-crate" in text for text in found.checked)


PIXEL = "data:image/png;base64,"


def test_pictures_of_other_tools_are_not_checked_and_words_are(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = auditing.rendered
    monkeypatch.setattr(
        auditing,
        "rendered",
        lambda b, f: {n: d.replace(b"</body>", PIXEL.encode() + b"AAAA</body>") for n, d in real(b, f).items()},
    )
    path = changed(folder, tmp_path / "same", text_in("report.html", "</body>", f"{PIXEL}BBBB</body>"))
    assert codes(path) == {"TM851"}
    old = {**tools(), "zlib": "1.0"}

    def drawn_with_an_old_zlib(path: Path) -> None:
        text_in("report.html", "</body>", f"{PIXEL}BBBB</body>")(path)
        json_in("environment.json", tools=old)(path)
        write_descriptions(Bundle(path, writable=True))

    found = audit(changed(folder, tmp_path / "other", drawn_with_an_old_zlib))
    assert found.faults == []
    assert any(f"drawn with zlib 1.0, and here is {tools()['zlib']}" in text for text in found.unchecked)

    def and_says_something_else(path: Path) -> None:
        drawn_with_an_old_zlib(path)
        text_in("report.html", "50 %", "99 %")(path)

    assert codes(changed(folder, tmp_path / "words", and_says_something_else)) == {"TM851"}


# Settings, modules, locks --------------------------------------------------------------------------------------------


def test_settings_and_modules_are_taken_from_the_bundle(folder: Path, tmp_path: Path) -> None:
    there = tmp_path / "spec"
    shutil.copytree(folder, there, ignore=shutil.ignore_patterns("run"))
    (there / "parts").mkdir()
    (there / "parts" / "limits.tm").write_text('tm 1\n\nuse "more.tm" (most)\n\nlet reach = most\n')
    (there / "parts" / "more.tm").write_text("tm 1\n\nlet most = 1/8\n")
    text = (there / "sensor.tm").read_text().replace("<= 0.125", "<= reach * part")
    text = text.replace("tm 1\n", 'tm 1\n\nuse "parts/limits.tm" (reach)\nparam part = 1 in [0, 1]\n', 1)
    (there / "sensor.tm").write_text(text)
    tm.run(there / "sensor.tm", out=there / "run", settings={"part": "5e-1"})
    found = audit(there / "run")
    assert found.faults == []
    assert any("made again" in text for text in found.checked)
    assert {n for n in Bundle.open(there / "run").files() if n.startswith("spec/")} == {
        "spec/sensor.tm", "spec/parts/limits.tm", "spec/parts/more.tm",
    }  # fmt: skip
    other = changed(there, tmp_path / "other", text_in("spec/parts/more.tm", "1/8", "1/9"))
    assert codes(other) == {"TM850"}


def test_a_locked_run_holds_its_lock(folder: Path, tmp_path: Path) -> None:
    there = tmp_path / "spec"
    shutil.copytree(folder, there, ignore=shutil.ignore_patterns("run"))
    assert main(["freeze", str(there / "sensor.tm")]) == 0
    tm.run(there / "sensor.tm", out=there / "run", locked=True)
    assert audit(there / "run").faults == []
    lock = (there / "run" / "lock.json").read_bytes()
    assert lock == (there / "sensor.tm.lock").read_bytes()
    assert (there / "run" / "plan.json").read_bytes() == (folder / "run" / "plan.json").read_bytes().replace(
        str(folder).encode(), str(there).encode()
    )

    def without(path: Path) -> None:
        (path / "lock.json").unlink()

    assert "TM845" in codes(changed(there, tmp_path / "without", without))
    assert "TM861" in codes(changed(there, tmp_path / "odd", text_in("lock.json", '"format":1', '"format":2')))
    numpy = re.search(r'\["numpy","[^"]*"\]', lock.decode())
    assert numpy
    assert "TM845" in codes(changed(there, tmp_path / "numpy", text_in("lock.json", numpy[0], '["numpy","0"]')))
    extra = changed(folder, tmp_path / "extra", lambda p: (p / "lock.json").write_bytes(lock))
    assert "TM845" in codes(extra)
