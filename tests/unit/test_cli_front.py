"""``tmc check``, ``plan``, ``new``, ``freeze``, ``backends`` on small specs: what is printed, and with which code."""

from __future__ import annotations

import hashlib
import io
import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from tmlang.cli.main import main

SPEC = """\
tm 1

space px: tensor(2) of real[0, 1] stored as float32
param eps = 1/8 in [1/16, 1/4]

model net: px -> {no, yes} {
  network:  linear(weights: [[1, 1]], bias: [-1])
  decide:   threshold score >= 0 then yes else no
  random:   never
}

data two: px {
  read:   npz("two.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "worked by hand"
}

threat near on net over two {
  allow:         linf <= eps in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate search of near {
  attack:  pgd = torchattacks.PGD(steps: 40)
  seed:    0
}

claim "survives": survival(search) >= 50 %
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "two.npz", x=np.array([[0.2, 0.2], [0.9, 0.9]], np.float32), y=np.array([0, 1]))
    path = tmp_path / "s.tm"
    path.write_text(SPEC, encoding="utf-8")
    return path


def changed(spec: Path, old: str, new: str) -> None:
    text = spec.read_text(encoding="utf-8")
    assert old in text
    spec.write_text(text.replace(old, new), encoding="utf-8")


# ---- check ----


@pytest.mark.usefixtures("spec")
def test_a_spec_that_means_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "s.tm"]) == 0
    assert capsys.readouterr().out == "s.tm: means one thing: 1 evaluation, 1 claim\n"


def test_diagnostics_of_checker_and_matcher(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(spec, "steps: 40", "steps: 40, eps: 1/8")
    assert main(["check", "s.tm"]) == 1
    out = capsys.readouterr().out
    assert "error[TM505]: " in out
    assert "  --> s.tm:27:" in out
    assert "means one thing" not in out


def test_every_format_tells_the_same(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(spec, "torchattacks.PGD", "torchattack.PGD")
    assert main(["check", "s.tm", "--format", "concise"]) == 1
    concise = capsys.readouterr().out
    assert re.fullmatch(r"s\.tm:27:18: TM501 .*\n", concise)
    assert main(["check", "s.tm", "--format", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["code"], found["span"]["start"]["line"], found["span"]["start"]["column"]) == ("TM501", 27, 18)
    assert main(["check", "s.tm", "--format", "sarif"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["ruleId"] == "TM501"


@pytest.mark.usefixtures("spec")
def test_machine_formats_are_whole_also_without_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "s.tm", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["check", "s.tm", "--format", "sarif"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"] == []


def test_warnings_do_not_fail(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(spec, "steps: 40", "steps: 2, alpha: 1/100 in px")
    assert main(["check", "s.tm"]) == 0
    assert "warning[TM515]" in capsys.readouterr().out


@pytest.mark.usefixtures("spec")
def test_several_files_and_one_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "s.tm", "nowhere.tm"]) == 1
    out = capsys.readouterr().out
    assert "nowhere.tm" in out
    assert "s.tm: means one thing" in out


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"tm 1\n" + b"{" * 5000, b"\0" * 100, b"tm 99\n"])
def test_any_bytes_end_in_diagnostics(spec: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_bytes(data)
    assert main(["check", "s.tm", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("style", ["text", "concise"])
def test_a_spec_cannot_steer_the_terminal(spec: Path, style: str, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_bytes('tm 1\nspace \x1b[31mred\u202e: "\x07\x9b2J"\n'.encode())
    assert main(["check", "s.tm", "no\x1b[2J.tm", "--format", style]) == 1
    out = capsys.readouterr().out
    assert "\ufffd" in out
    assert not [c for c in out if c != "\n" and (unicodedata.category(c) == "Cc" or c == "\u202e")]


@pytest.mark.usefixtures("spec")
def test_settings_change_a_param_within_its_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "s.tm", "--set", "eps=1/5"]) == 0
    assert main(["check", "s.tm", "--set", "eps=1/2"]) == 1
    assert main(["check", "s.tm", "--set", "epsilon=1/5"]) == 1
    assert "TM108" in capsys.readouterr().out
    with pytest.raises(SystemExit) as usage:
        main(["check", "s.tm", "--set", "eps"])
    assert usage.value.code == 2


def test_fix_applies_what_has_one_meaning(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(spec, "tm 1\n", "")
    spec.chmod(0o640)
    assert main(["check", "s.tm", "--fix"]) == 0
    assert "1 fixed" in capsys.readouterr().err
    assert spec.read_text(encoding="utf-8").startswith("tm 1")
    assert spec.stat().st_mode & 0o777 == 0o640
    before = spec.read_bytes()
    assert main(["check", "s.tm", "--fix"]) == 0
    assert spec.read_bytes() == before
    assert sorted(p.name for p in spec.parent.iterdir()) == ["s.tm", "two.npz"]


def test_fix_counts_characters_and_not_translated_lines(spec: Path) -> None:
    text = SPEC.replace("tm 1\n", "tm 1 # Zürich\n").replace("steps: 40", "step: 40").replace("\n", "\r\n")
    spec.write_bytes(text.encode("utf-8"))
    main(["check", "s.tm", "--fix"])
    assert spec.read_bytes() in (text.encode("utf-8"), text.replace("step: 40", "steps: 40").encode("utf-8"))


# ---- fmt ----


def test_fmt_lays_out_in_place_once(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(spec, "goal:          untargeted", "goal: untargeted  # any wrong answer")
    assert main(["fmt", "s.tm", "--check"]) == 1
    assert capsys.readouterr().out == "s.tm: would change\n"
    assert main(["fmt", "s.tm", "--diff"]) == 1
    diff = capsys.readouterr().out
    assert "-  goal: untargeted  # any wrong answer" in diff
    assert main(["fmt", "s.tm"]) == 0
    laid_out = spec.read_text(encoding="utf-8")
    assert "# any wrong answer" in laid_out
    assert main(["fmt", "s.tm", "--check"]) == 0
    assert main(["fmt", "s.tm"]) == 0
    assert spec.read_text(encoding="utf-8") == laid_out
    assert main(["check", "s.tm"]) == 0


def test_fmt_touches_nothing_that_it_cannot_read(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(spec, "goal:          untargeted", "goal:")
    before = spec.read_bytes()
    assert main(["fmt", "s.tm"]) == 1
    assert spec.read_bytes() == before
    assert "TM0" in capsys.readouterr().err


def test_fmt_from_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"tm    1\n"), encoding="utf-8"))
    assert main(["fmt", "-"]) == 0
    assert capsys.readouterr().out == "tm 1\n"


def test_fix_leaves_what_it_cannot_mend(spec: Path) -> None:
    changed(spec, "goal:          untargeted\n", "")
    before = spec.read_bytes()
    assert main(["check", "s.tm", "--fix"]) == 1
    assert spec.read_bytes() == before


def test_artifacts_are_opened_only_when_asked_for(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spec.parent / "two.npz").unlink()
    assert main(["check", "s.tm"]) == 0
    assert main(["check", "s.tm", "--artifacts"]) == 1
    assert "TM710" in capsys.readouterr().out


@pytest.mark.usefixtures("spec")
def test_artifacts_that_fit() -> None:
    assert main(["check", "s.tm", "--artifacts"]) == 0


# ---- plan ----


@pytest.mark.usefixtures("spec")
def test_the_plan_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "s.tm"]) == 0
    out = capsys.readouterr().out
    assert "pgd: torchattacks.PGD as search  (s.tm:27)" in out
    assert "steps = 40" in out
    assert "alpha = 2/255 in px" in out
    assert "lowering exact, evidence witness, access white_box" in out
    assert "per unit 40 forward passes and 40 backward passes" in out


@pytest.mark.usefixtures("spec")
def test_the_plan_as_json_and_as_stored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "s.tm", "--format", "canonical"]) == 0
    stored = capsys.readouterr().out
    assert main(["plan", "s.tm", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["plan"] == json.loads(stored)
    bare = json.dumps({**shown["plan"], "modules": []}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert shown["sha256"] == hashlib.sha256(bare.encode()).hexdigest()
    assert shown["where"] == {"search/pgd": "s.tm:27:12"}


def test_layout_and_comments_change_no_hash(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown() -> str:
        main(["plan", "s.tm", "--format", "json"])
        return str(json.loads(capsys.readouterr().out)["sha256"])

    before = shown()
    changed(spec, "tm 1\n", "tm 1\n# a note\n\n\n")
    changed(spec, "linf <= eps in px", "linf   <=\n  eps in px")
    assert shown() == before
    changed(spec, "seed:    0", "seed:    1")
    assert shown() != before


def test_a_plan_of_a_refused_spec_is_none(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(spec, "linf <= eps", "l2 <= eps")
    assert main(["plan", "s.tm"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "TM508" in err


def test_what_is_not_built_is_told_with_the_plan(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(spec, "  seed:    0\n", "  decide_exactly:  s = marabou.query(timeout: 60 's')\n  seed:    0\n")
    changed(spec, "network:  linear(weights: [[1, 1]], bias: [-1])", 'network:  onnx("n.onnx")')
    main(["plan", "s.tm"])
    out, _ = capsys.readouterr()
    assert "s: marabou.query as decision" in out
    assert "evidence trusted: the word of marabou 2.0.0, which hands out no proof" in out


def test_the_schema_is_printed_without_a_spec(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "tmlang plan"
    with pytest.raises(SystemExit) as usage:
        main(["plan"])
    assert usage.value.code == 2


# ---- new ----

IN_DEGREES = ["--radius", "2 'degC'", "--mutable", "temp"]
NEW = (
    ("tensor", []),
    ("bytes and l2", ["--shape", "3,32,32", "--norm", "l2", "--radius", "1/2"]),
    ("torch", ["--model", "net.py:make", "--weights", "w.safetensors", "--data", "d.csv"]),
    ("scores", ["--access", "scores"]),
    ("scores, l2", ["--access", "scores", "--norm", "l2"]),
    ("scores, l1", ["--access", "scores", "--norm", "l1", "--radius", "10"]),
    ("decisions", ["--access", "decisions"]),
    ("decisions, l2", ["--access", "decisions", "--norm", "l2"]),
    ("l1", ["--norm", "l1", "--radius", "10"]),
    ("features", ["--features", "temp:-40:85:degC load:0:2:kN", "--classes", "ok,alarm", *IN_DEGREES]),
)


@pytest.mark.parametrize(("kind", "flags"), NEW)
def test_a_new_spec_checks(
    kind: str, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "n.tm", "--yes", *flags]) == 0, (kind, capsys.readouterr().out)
    assert main(["check", "n.tm"]) == 0
    assert main(["fmt", "n.tm", "--check"]) == 0
    text = (tmp_path / "n.tm").read_text(encoding="utf-8")
    assert text.count("#") >= 6, "it has comments"


def test_new_replaces_nothing_unasked(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "s.tm", "--yes"]) == 2
    assert spec.read_text(encoding="utf-8") == SPEC
    assert "--force" in capsys.readouterr().err
    assert main(["new", "s.tm", "--yes", "--force"]) == 0
    assert main(["new", "no/such/folder/n.tm", "--yes"]) == 2


def test_new_writes_nothing_that_does_not_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "n.tm", "--yes", "--radius", "800"]) == 1
    assert main(["new", "n.tm", "--yes", "--norm", "l7"]) == 1
    assert list(tmp_path.iterdir()) == []
    assert main(["new", "n.tm", "--yes", "--model", 'a "quoted" \\ name.onnx']) == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_new_asks_at_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", Terminal("1,8,8\n\n\nno,yes\nnet.py:make\n\n\nl2\n1/2\n\n\n"))
    assert main(["new", "n.tm"]) == 0
    text = (tmp_path / "n.tm").read_text(encoding="utf-8")
    for part in ("tensor(1, 8, 8)", "{no, yes}", 'torch("net.py:make", weights: "weights.safetensors")', "l2 <= 1/2"):
        assert part in text
    asked = capsys.readouterr().err
    assert asked.count("]: ") == 11
    # What a flag says is not asked, and features leave the questions about a tensor out.
    monkeypatch.setattr("sys.stdin", Terminal("\n" * 20))
    main(["new", "m.tm", "--features", "a:0:1", "--norm", "l2", "--model", "m.onnx"])
    asked = capsys.readouterr().err
    assert "norm of the ball" not in asked
    assert "shape of one input" not in asked
    assert "weights of torch" not in asked


def test_new_writes_the_hash_of_a_file_that_is_there(spec: Path) -> None:
    assert main(["new", "n.tm", "--yes", "--data", "two.npz"]) == 0
    digest = hashlib.sha256((spec.parent / "two.npz").read_bytes()).hexdigest()
    assert digest in (spec.parent / "n.tm").read_text(encoding="utf-8")


# ---- freeze ----


def test_a_lock_holds_until_something_changes(spec: Path) -> None:
    from tmlang.diagnostics.stop import Stop

    with pytest.raises(Stop, match="cannot be read"):
        main(["freeze", "s.tm", "--check"])
    assert main(["freeze", "s.tm"]) == 0
    lock = json.loads((spec.parent / "s.tm.lock").read_bytes())
    digest = hashlib.sha256((spec.parent / "two.npz").read_bytes()).hexdigest()
    assert lock["plan"]["data"][0]["file"] == {"path": "two.npz", "sha256": digest}
    assert {name for name, _ in lock["libraries"]} == {"numpy", "torch", "torchattacks"}
    assert main(["freeze", "s.tm", "--check"]) == 0
    changed(spec, "tm 1\n", "tm 1 # a comment does not matter\n")
    assert main(["freeze", "s.tm", "--check"]) == 0
    changed(spec, "param eps = 1/8", "param eps = 1/7")
    with pytest.raises(Stop) as refused:
        main(["freeze", "s.tm", "--check"])
    (found,) = refused.value.diagnostics
    assert found.code == "TM862"
    assert any("1/8" in note and "1/7" in note for note in found.notes)


def test_a_lock_holds_the_targets_that_only_the_model_tells(spec: Path) -> None:
    from tmlang.diagnostics.stop import Stop

    changed(spec, "{no, yes}", "{a, b, c}")
    changed(
        spec, "linear(weights: [[1, 1]], bias: [-1])", "linear(weights: [[1, 0], [0, 1], [-1, -1]], bias: [0, 0, 0])"
    )
    changed(spec, "threshold score >= 0 then yes else no", "argmax ties lowest")
    changed(spec, "goal:          untargeted", "goal:          targeted runner_up")
    np.savez("two.npz", x=np.array([[0.2, 0.1], [0.3, 0.9]], np.float32), y=np.array([0, 1]))
    assert main(["freeze", "s.tm"]) == 0
    lock = spec.parent / "s.tm.lock"
    read = json.loads(lock.read_bytes())
    # Scores (0.2, 0.1, -0.3) and (0.3, 0.9, -1.2): the runners-up are b and a.
    assert [target for _, target in read["targets"][0][1]] == ["b", "a"]
    assert main(["run", "s.tm", "--locked", "--quiet", "--out", "kept"]) in (0, 3, 4)
    read["targets"][0][1][0][1] = "c"
    lock.write_text(json.dumps(read), encoding="utf-8")
    with pytest.raises(Stop, match="not those that were locked"):
        main(["run", "s.tm", "--locked", "--quiet", "--out", "other"])
    assert not (spec.parent / "other").exists()


# ---- backends, explain ----


def test_backends_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends"]) == 0
    assert "torchattacks.PGD " in capsys.readouterr().out
    assert main(["backends", "torchattacks.PGD"]) == 0
    out = capsys.readouterr().out
    assert "Madry" in out
    assert "steps: int = 10: gradient steps" in out
    assert "refuses l2" in out
    assert main(["backends", "torchattacks", "--format", "json"]) == 0
    (backend,) = json.loads(capsys.readouterr().out)
    assert backend["methods"]["PGD"]["arguments"]["steps"]["default"] == "10"
    assert main(["backends", "torchatack"]) == 2
    assert "torchattacks" in capsys.readouterr().err
    assert main(["backends", "torchattacks.PGDD"]) == 2


def test_explain_lists_every_code_and_knows_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    from tmlang.diagnostics.registry import all_rules

    assert main(["explain"]) == 0
    listed = capsys.readouterr().out
    assert all(f"{rule.code}  {rule.title}" in listed for rule in all_rules())
    assert main(["explain", "TM5O5"]) == 2
    assert "TM505" in capsys.readouterr().err


def test_a_library_of_another_version_is_told_by_every_command_and_refused_under_a_lock(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """3.2.6 stands for torchattacks 3.5.1, which is what the manifest names; the lock is made with it, and no help."""
    from tmlang.diagnostics.stop import Stop
    from tmlang.plan import lock

    real = lock.metadata.version
    monkeypatch.setattr(lock.metadata, "version", lambda name: "3.2.6" if name == "torchattacks" else real(name))
    said = "[TM527]: torchattacks is 3.2.6 here, and 3.5.1 was measured"
    commands = (["check", "s.tm", "--artifacts"], ["plan", "s.tm"], ["run", "s.tm", "--out", "out"])
    for command in commands:
        assert main(command) in (0, 3, 4)
        out = capsys.readouterr()
        assert said in out.out + out.err, command
    warnings = json.loads((spec.parent / "out" / "environment.json").read_bytes())["warnings"]
    assert "TM527" in [w["code"] for w in warnings]
    assert main(["freeze", "s.tm"]) == 0
    with pytest.raises(Stop) as refused:
        main(["run", "s.tm", "--locked", "--quiet", "--out", "locked"])
    assert [d.code for d in refused.value.diagnostics] == ["TM863"]
    assert not (spec.parent / "locked").exists()
