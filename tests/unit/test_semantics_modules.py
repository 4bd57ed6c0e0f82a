"""Files of a program: what is found, what is refused, and which name stands for what."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import BASE, spec

from tmlang.base.resources import resource
from tmlang.base.source import Source
from tmlang.meaning.threats import Threat
from tmlang.semantics import Checked, check


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.tm").write_text(text, encoding="utf-8")
    return folder / "main.tm"


def said(result: Checked) -> list[tuple[str, str]]:
    return [(d.code, f"{Path(d.span.file).name}:{d.span.line}") for d in result.diagnostics]


def test_names_of_another_file_are_used_and_hashed(tmp_path: Path) -> None:
    main = written(
        tmp_path,
        main='tm 1\nuse "local.tm" (linf8)\n' + "evaluate mine of linf8 {\n  attack: a = native.apgd()\n  seed: 0\n}\n",
        local=BASE,
    )
    result = check(main)
    assert said(result) == []
    assert result.program is not None
    assert [s.name for s in result.program.subjects] == ["linf8"]
    assert [e.name for e in result.program.evaluations] == ["mine"]
    assert result.program.claims == ()
    hashes = {Path(m.name).name: m.sha256 for m in result.program.modules}
    assert hashes["local.tm"] == hashlib.sha256((tmp_path / "local.tm").read_bytes()).hexdigest()
    assert hashes["std.images"] == hashlib.sha256((resource("stdlib") / "images.tm").read_bytes()).hexdigest()


def test_equal_names_of_two_files_stay_apart(tmp_path: Path) -> None:
    """Both files have a ``px``; the threat of the other file keeps its own."""
    main = written(
        tmp_path,
        main='tm 1\nuse "local.tm" (linf8)\nspace px: tensor(3, 8, 8) of real[-1, 1] stored as float32\n'
        "evaluate mine of linf8 {\n  attack: a = native.apgd()\n  seed: 0\n}\n",
        local=BASE,
    )
    result = check(main)
    assert said(result) == []
    assert result.program is not None
    assert {s.name: s.shape for s in result.program.spaces} == {"px": (3, 8, 8), "local.px": (3, 32, 32)}
    (threat,) = result.program.subjects
    assert isinstance(threat, Threat)
    assert getattr(threat.allow, "space", None) == "local.px"


def test_a_fault_in_an_imported_file_is_told_there(tmp_path: Path) -> None:
    main = written(tmp_path, main='tm 1\nuse "local.tm" (px)\n', local=BASE.replace("8/255", "8"))
    assert said(check(main)) == [("TM201", "local.tm:20")]


def test_circles_end(tmp_path: Path) -> None:
    main = written(
        tmp_path,
        main='tm 1\nuse "a.tm" (x)\nlet y = 1\n',
        a='tm 1\nuse "b.tm" (z)\nlet x = 1\n',
        b='tm 1\nuse "main.tm" (y)\nlet z = 2\n',
    )
    assert said(check(main)) == [("TM106", "b.tm:2")]
    assert said(check(written(tmp_path, main='tm 1\nuse "main.tm" (y)\nlet y = 1\n'))) == [("TM106", "main.tm:2")]


@pytest.mark.parametrize("name", ["../secret.tm", "/etc/hosts", "sub/../../secret.tm", "", "a\\u0000b.tm"])
def test_nothing_outside_the_folder_is_read(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.tm").write_text("tm 1\nlet x = 1\n")
    main = written(inner, main=f'tm 1\nuse "{name}" (x)\n')
    codes = [c for c, _ in said(check(main))]
    assert codes
    assert set(codes) <= {"TM107", "TM013"}


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.tm").write_text("tm 1\nlet x = 1\n")
    (inner / "local.tm").symlink_to(tmp_path / "secret.tm")
    assert said(check(written(inner, main='tm 1\nuse "local.tm" (x)\n'))) == [("TM107", "main.tm:2")]


def test_a_folder_below_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub", local='tm 1\nuse "next.tm" (y)\nlet x = y\n', next="tm 1\nlet y = 1/3\n")
    assert said(check(written(tmp_path, main='tm 1\nuse "sub/local.tm" (x)\nlet z = x\n'))) == []


def test_names_that_are_not_there(tmp_path: Path) -> None:
    main = written(tmp_path, main='tm 1\nuse "local.tm" (linf9, cifar10_mean)\n', local=BASE)
    result = check(main)
    assert said(result) == [("TM105", "main.tm:2")] * 2
    assert "did you mean linf8" in result.diagnostics[0].message


def test_what_cannot_be_imported_is_told_once(tmp_path: Path) -> None:
    main = written(
        tmp_path, main='tm 1\nuse "gone.tm" (linf8)\nevaluate a of linf8 {\n  attack: a = native.apgd()\n  seed: 0\n}\n'
    )
    assert said(check(main)) == [("TM104", "main.tm:2")]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert [d.code for d in check(tmp_path / "none.tm").diagnostics] == ["TM104"]
    assert [d.code for d in check(tmp_path).diagnostics] == ["TM104"]
    (tmp_path / "latin.tm").write_bytes(b"tm 1\n# \xe9\n")
    assert [d.code for d in check(tmp_path / "latin.tm").diagnostics] == ["TM011"]


def test_every_module_of_the_standard_library_is_clean() -> None:
    for path in sorted(resource("stdlib").glob("*.tm")):
        assert check(path).diagnostics == ()


def test_long_chains_of_definitions_end() -> None:
    forward = "tm 1\n" + "".join(f"let a{i} = a{i + 1} + 1\n" for i in range(500)) + "let a500 = 1\n"
    assert "TM115" in {d.code for d in check(Source("spec.tm", forward)).diagnostics}
    backward = "tm 1\nlet a0 = 1\n" + "".join(f"let a{i + 1} = a{i} + 1\n" for i in range(500))
    assert check(Source("spec.tm", backward)).diagnostics == ()


def test_numbers_do_not_explode() -> None:
    """Squared again and again, a number has more digits than memory long before the last line."""
    text = "tm 1\nlet a0 = 10\n" + "".join(f"let a{i + 1} = a{i} * a{i}\n" for i in range(60))
    assert [d.code for d in check(Source("spec.tm", text)).diagnostics] == ["TM228"]


def test_the_base_spec_is_what_the_pages_stand_in() -> None:
    assert spec("") != BASE
    assert check(Source("base.tm", BASE)).diagnostics == ()
