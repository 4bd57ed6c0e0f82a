"""Corrupted sets as they are published: one file, arrays, folders; what is refused; and a run over each."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_support import unit_box
from PIL import Image
from semantics_support import found
from test_execute_data import data, load, refused, text

from tmlang.audit.bundle import Bundle
from tmlang.cli.main import main
from tmlang.meaning.models import Data, Step, Take
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.values import Symbol, Value

F = Fraction
PX = unit_box(2)
ALL = Symbol("all")
PICTURE = Space("px", (2, 2, 3), (Cell("lattice", F(0), F(255), F(1)),), order="rgb")


# --- one file -----------------------------------------------------------------------------------------------------


def one_file(path: str, **more: Any) -> Data:
    return data("as_published", path, corruption="c", severity="s", **more)


@pytest.mark.parametrize("kind", [str, bytes])
def test_an_archive_says_it_of_every_input(tmp_path: Path, kind: type) -> None:
    names = np.array(["fog", "snow", "fog"]).astype("S4" if kind is bytes else "U4")
    np.savez(tmp_path / "c.npz", x=np.zeros((3, 2), np.float32), y=[0, 1, 2], c=names, s=np.array([1, 5, 2]))
    made = load(tmp_path, one_file("c.npz", inputs="x", labels="y"), PX)
    assert made.corruptions == (("fog", 1), ("snow", 5), ("fog", 2))
    some = load(
        tmp_path,
        data("as_published", "c.npz", (Take("every", 2),), inputs="x", labels="y", corruption="c", severity="s"),
        PX,
    )
    assert some.corruptions == (("fog", 1), ("fog", 2))


def test_a_table_says_it_in_columns_that_are_no_inputs(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("a,c,b,s,y,i\n0.25,fog,0.5,3,1,p\n0.75,ice cold,1,1,0,q\n")
    made = load(tmp_path, one_file("c.csv", labels="y", ids="i"), PX)
    assert made.corruptions == (("fog", 3), ("ice cold", 1))
    assert made.x.tolist() == [[0.25, 0.5], [0.75, 1]]
    assert (made.ids, made.labels.tolist()) == (("p", "q"), [1, 0])


@pytest.mark.parametrize("severity", [0, -1, 1.5, float("nan"), float("inf"), 2**40])
def test_a_severity_is_a_whole_number_from_one_on(tmp_path: Path, severity: float) -> None:
    np.savez(tmp_path / "c.npz", x=np.zeros((2, 2), np.float32), y=[0, 1], c=["fog", "fog"], s=np.array([1, severity]))
    why = refused(tmp_path, one_file("c.npz", inputs="x", labels="y"), PX)
    assert why.code == "TM743"
    assert "row 2" in why.message


@pytest.mark.parametrize(
    ("corruptions", "severities", "code"),
    [
        (["fog", ""], [1, 1], "TM743"),
        ([1, 2], [1, 1], "TM743"),
        (["fog"], [1, 1], "TM727"),
        (["fog", "fog"], [[1], [1]], "TM727"),
        (["fog", "fog"], ["one", "1"], "TM743"),
    ],
)
def test_what_says_no_corruption_is_refused(tmp_path: Path, corruptions: Any, severities: Any, code: str) -> None:
    np.savez(tmp_path / "c.npz", x=np.zeros((2, 2), np.float32), y=[0, 1], c=corruptions, s=severities)
    assert refused(tmp_path, one_file("c.npz", inputs="x", labels="y"), PX).code == code


# --- arrays by corruption -----------------------------------------------------------------------------------------


def arrays(*takes: Take, corruption: Value = ALL, severity: Value = ALL) -> Data:
    more: Any = {"prepare": (Step("scale", (("factor", F(1, 255)),)),)}
    return data("as_published", "set", takes, labels="labels.npy", corruption=corruption, severity=severity, **more)


@pytest.fixture
def cifar(tmp_path: Path) -> Path:
    """Two corruptions of three examples at five severities: the value of a row tells its place."""
    (tmp_path / "set").mkdir()
    for k, name in enumerate(("fog", "snow")):
        rows = np.arange(15, dtype=np.uint8)[:, None].repeat(2, 1) + 100 * np.uint8(k)
        np.save(tmp_path / "set" / f"{name}.npy", rows)
    np.save(tmp_path / "set" / "labels.npy", np.tile([2, 0, 1], 5))
    return tmp_path


def test_severities_stand_one_behind_the_other(cifar: Path) -> None:
    made = load(cifar, arrays(), PX)
    assert len(made.ids) == 30
    assert made.ids[:4] == ("fog/1/0", "fog/1/1", "fog/1/2", "fog/2/0")
    assert np.rint(made.x[:, 0] * 255).tolist() == [*range(15), *range(100, 115)]
    assert made.corruptions[13:17] == (("fog", 5), ("fog", 5), ("snow", 1), ("snow", 1))
    assert made.labels.tolist() == [2, 0, 1] * 10


def test_some_corruptions_and_severities_are_chosen(cifar: Path) -> None:
    made = load(cifar, arrays(corruption=Symbol("snow"), severity=(F(5), F(2))), PX)
    assert made.corruptions == (("snow", 5),) * 3 + (("snow", 2),) * 3
    assert np.rint(made.x[:, 0] * 255).tolist() == [112, 113, 114, 103, 104, 105]
    # The same example of every cell.
    third = load(cifar, arrays(Take("every", 3)), PX)
    assert [i.rpartition("/")[2] for i in third.ids] == ["0"] * 10


def test_arrays_that_are_laid_otherwise_are_refused(cifar: Path) -> None:
    def why(**more: Any) -> str:
        found = refused(cifar, arrays(**more), PX)
        assert found.code == "TM743"
        return text(found)

    assert "there is no corruption fogg" in why(corruption=Symbol("fogg"))
    assert "did you mean fog" in why(corruption=Symbol("fogg"))
    assert "gaussian_noise" in why(corruption=Symbol("common"))
    assert "no severity 6" in why(severity=F(6))
    np.save(cifar / "set" / "rain.npy", np.zeros((14, 2), np.uint8))
    assert "rain.npy has 14 rows" in why()
    np.save(cifar / "set" / "rain.npy", np.zeros((15, 3), np.uint8))
    assert "rows of shape (3,)" in why()
    np.save(cifar / "set" / "labels.npy", np.arange(15) % 3)
    assert load(cifar, arrays(corruption=Symbol("fog")), PX).labels.tolist() == [0, 1, 2] * 5
    for labels in (
        np.tile([2, 0, 1], 5)[:14],
        np.array([2, 0, 1]),
        np.arange(15) // 5,
        np.zeros((15, 1), int),
        np.array([]),
    ):
        np.save(cifar / "set" / "labels.npy", labels)
        assert "5 times the same" in why()
    (cifar / "set" / "labels.npy").unlink()
    assert "there is no labels.npy" in why()


def test_arrays_that_are_none_are_refused(cifar: Path) -> None:
    (cifar / "set" / "fog.npy").write_bytes(b"no array, and perhaps a pickle")
    assert refused(cifar, arrays(), PX).code == "TM714"
    (cifar / "set" / "fog.npy").write_bytes(b"\x93NUMPY\x01\x00")
    assert refused(cifar, arrays(), PX).code == "TM712"
    np.save(cifar / "set" / "fog.npy", np.array([{}] * 15, dtype=object), allow_pickle=True)
    assert refused(cifar, arrays(), PX).code == "TM714"
    np.save(cifar / "set" / "fog.npy", np.array(["a"] * 15))
    assert refused(cifar, arrays(), PX).code == "TM712"


# --- folders ------------------------------------------------------------------------------------------------------


def folders(labels: str, **more: Any) -> Data:
    chosen = {"corruption": Symbol("all"), "severity": Symbol("all")} | more
    return data(
        "as_published",
        "set",
        labels=Symbol(labels),
        prepare=(Step("decode", (("library", Symbol("pillow")),)),),
        **chosen,
    )


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """fog at 1 and 3, snow at 3; two classes, whose pictures tell their place by their grey."""
    grey = 0
    for cell in ("fog/1", "fog/3", "snow/3"):
        for kind in ("n02", "n01"):
            place = tmp_path / "set" / cell / kind
            place.mkdir(parents=True)
            grey += 10
            Image.new("RGB", (2, 2), (grey, grey, grey)).save(place / "a.png")
    return tmp_path


def test_folders_are_corruption_severity_class_and_file(imagenet: Path) -> None:
    made = load(imagenet, folders("sorted"), PICTURE, ("tench", "shark"))
    assert made.ids[:3] == ("fog/1/n01/a.png", "fog/1/n02/a.png", "fog/3/n01/a.png")
    assert made.corruptions == (("fog", 1), ("fog", 1), ("fog", 3), ("fog", 3), ("snow", 3), ("snow", 3))
    assert made.x[:, 0, 0, 0].tolist() == [20, 10, 40, 30, 60, 50]
    assert made.labels.tolist() == [0, 1] * 3
    named = load(imagenet, folders("names", severity=F(3)), PICTURE, ("n02", "n01"))
    assert named.labels.tolist() == [1, 0] * 2
    assert named.corruptions == (("fog", 3), ("fog", 3), ("snow", 3), ("snow", 3))


def test_folders_that_are_laid_otherwise_are_refused(imagenet: Path) -> None:
    def why(labels: str = "sorted", classes: tuple[str, ...] = ("a", "b"), code: str = "TM743", **more: Any) -> str:
        found = refused(imagenet, folders(labels, **more), PICTURE, classes)
        assert found.code == code
        return text(found)

    # The k-th of two folders is class k of two, not of a thousand.
    assert "has 2 classes, and the model 3" in why(classes=("a", "b", "c"))
    why(labels="names", code="TM723")
    assert "snow has no severity 1" in why(severity=F(1))
    assert "no corruption frost" in why(corruption=(Symbol("fog"), Symbol("frost")))
    (imagenet / "set" / "snow" / "3" / "n03").mkdir()
    assert "the classes of snow/3 are others: n03" in why()
    (imagenet / "set" / "fog" / "x").mkdir()
    assert "fog/x is no severity" in why()


# --- what is written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "blamed"),
    [
        ('"c.npz", inputs: "x", labels: "y", corruption: "c", severity: "s"', None),
        ('"c.npz", inputs: "x", labels: "y", corruption: fog, severity: "s"', ("TM744", "fog")),
        ('"c.npz", inputs: "x", labels: "y", corruption: "c"', ("TM706", "as_published")),
        ('"c.npz", labels: "y", corruption: "c", severity: "s"', ("TM706", "as_published")),
        ('"c.csv", labels: "y", corruption: "c", severity: 3', ("TM744", "3")),
        ('"d", labels: "labels.npy", corruption: all, severity: all', None),
        ('"d", labels: "labels.npy", corruption: (fog, frost), severity: (1, 5)', None),
        ('"d", labels: "labels.npy", corruption: (fog, fog), severity: 1', ("TM744", "(fog, fog)")),
        ('"d", labels: "labels.npy", corruption: all, severity: [1, 5]', ("TM744", "[1, 5]")),
        ('"d", labels: "labels.npy", corruption: all, severity: (1, 1)', ("TM744", "(1, 1)")),
        ('"d", labels: "labels.npy", corruption: all, severity: 0', ("TM744", "0")),
        ('"d", labels: "labels.npy", corruption: all, severity: strong', ("TM744", "strong")),
        ('"d", labels: "labels.npy", corruption: all', ("TM706", "as_published")),
        ('"d", labels: sorted, corruption: extra, severity: all', None),
        ('"d", labels: folders, corruption: extra, severity: all', ("TM744", "folders")),
        ('"d", labels: "labels.txt", corruption: extra, severity: all', ("TM744", '"labels.txt"')),
        ('"d", labels: sorted, inputs: "x", corruption: extra, severity: all', ("TM706", "inputs")),
    ],
)
def test_the_reader_is_checked_by_its_layout(written: str, blamed: tuple[str, str] | None) -> None:
    picture = "/" not in written and '"d"' in written
    prepare = "prepare: { permute(hwc, chw) scale(1/255) }" if picture else ""
    read = f"read: as_published({written})\n  {prepare}"
    said = found(f'data test: px {{\n  {read}\n  take: all\n  truth: published "by hand"\n}}\n')
    assert said == ([blamed] if blamed else [])


SHIFT = "shift s on victim over test {{\n  {}\n  interval: wilson at 95 %\n}}\nevaluate e of s {{ seed: 0 }}\n"


@pytest.mark.parametrize(
    ("applied", "blamed"),
    [
        ("apply: imagecorruptions.fog(severity: (1, 3))  apply: imagecorruptions.snow(severity: 2)", None),
        ("apply: imagecorruptions.fog(severity: [1, 3])", ("TM744", "[1, 3]")),
        ("apply: imagecorruptions.fog(severity: (1, 1))", ("TM744", "(1, 1)")),
        ("apply: imagecorruptions.fog(severity: (0, 1))", ("TM744", "(0, 1)")),
        ("apply: imagecorruptions.fog(severity: 1)  apply: imagecorruptions.fog(severity: (2, 1))",
         ("TM102", "imagecorruptions.fog(severity: (2, 1))")),
        ('apply: as_published(name: "C")  apply: imagecorruptions.fog(severity: 1)', ("TM744", "as_published")),
    ],
)  # fmt: skip
def test_the_changes_of_a_shift_are_different_ones(applied: str, blamed: tuple[str, str] | None) -> None:
    assert found(SHIFT.format(applied)) == ([blamed] if blamed else [])


def test_a_baseline_is_of_the_same_corruptions_and_another_model() -> None:
    text = (
        SHIFT.format("apply: imagecorruptions.fog(severity: (1, 3))")
        + "evaluate again of s { seed: 1 }\n"
        + SHIFT.replace("s on", "t on")
        .replace("evaluate e of s", "evaluate f of t")
        .format("apply: imagecorruptions.fog(severity: (1, 2))")
    )
    for baseline, code in (("e", "TM630"), ("again", "TM630"), ("f", "TM605"), ("aa", "TM607")):
        said = found(text + f'claim "survival": mce(e, baseline: {baseline}) <= 1\n')
        assert said == [(code, baseline)]
    # Another name for the same network is the same model.
    twin = (
        "model twin: px -> classes(10) {\n  step: normalize(mean: cifar10_mean, std: cifar10_std) as standardized\n"
        '  network: torch("victims.py:resnet18", weights: "resnet18.safetensors")\n  decide: argmax ties lowest\n'
        "  random: never\n}\n"
        + SHIFT.replace("s on victim", "u on twin")
        .replace("evaluate e of s", "evaluate g of u")
        .format("apply: imagecorruptions.fog(severity: (1, 3))")
    )
    assert found(text + twin + 'claim "survival": mce(e, baseline: g) <= 1\n') == [("TM630", "g")]


# --- a run --------------------------------------------------------------------------------------------------------

SPEC = """\
tm 1
space px: tensor(2) of real[0, 1] stored as float32
model own: px -> classes(2) {
  network:  linear(weights: [[-1, 0], [1, 0]], bias: [1/2, -1/2])
  decide:   argmax ties lowest
  random:   never
}
model base: px -> classes(2) {
  network:  linear(weights: [[0, -1], [0, 1]], bias: [1/2, -1/2])
  decide:   argmax ties lowest
  random:   never
}
data c: px {
  read:   READ
  take:   all
  truth:  published "two corruptions, ten inputs of each"
}
shift so on own over c {
  apply:     as_published(name: "toy-C")
  interval:  wilson at 95 %
}
shift sb on base over c {
  apply:     as_published(name: "toy-C")
  interval:  wilson at 95 %
}
evaluate eo of so { seed: 0 }
evaluate eb of sb { seed: 0 }
claim "a mean of ratios":  mce(eo, baseline: eb) == 0.75
claim "pooled, 6 of 11":   mce(eo, baseline: eb) rounds to 0.55
"""
ARCHIVE = 'as_published("c.npz", inputs: "x", labels: "y", corruption: "c", severity: "s")'
STACKED = 'as_published("set", labels: "labels.npy", corruption: all, severity: 2)\n  prepare: { scale(1/255) }'


def toy() -> tuple[np.ndarray, list[str]]:
    """Label 1 throughout. fog: own wrong on 5 of 10, the baseline on all; blur: each wrong on one of 10."""
    x = np.ones((20, 2), np.float32)
    x[:5, 0] = x[10, 0] = 0
    x[:10, 1] = x[10, 1] = 0
    return x, ["fog"] * 10 + ["blur"] * 10


@pytest.mark.parametrize("read", [ARCHIVE, STACKED])
def test_the_mean_corruption_error_of_a_published_set(
    read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: fog 5/10 over 10/10, blur 1/10 over 1/10, their mean 3/4 (pooled: 6 over 11). Sealed and audited."""
    monkeypatch.chdir(tmp_path)
    x, names = toy()
    np.savez("c.npz", x=x, y=[1] * 20, c=names, s=[2] * 20)
    Path("set").mkdir()
    for name in ("fog", "blur"):
        rows = x[[n == name for n in names]]
        np.save(f"set/{name}.npy", np.concatenate([rows * k for k in (0, 255, 0, 0, 0)]).astype(np.uint8))
    np.save("set/labels.npy", np.ones(50, int))
    Path("c.tm").write_text(SPEC.replace("READ", read), encoding="utf-8")
    assert main(["run", "c.tm", "--out", "b"]) == 3
    shown = capsys.readouterr().out
    assert "it is 0.75, the mean over 2 corruptions, at severity 2" in shown
    told = json.loads(Path("b/columns.json").read_text(encoding="utf-8"))
    assert [c["status"] for c in told["claims"]] == ["supported", "refuted"]
    assert told["claims"][0]["rests_on"] == ["eo/clean", "eo/apply", "eb/clean", "eb/apply"]
    assert {k: (v["numerator"], v["denominator"]) for k, v in told["evaluations"]["eo"]["corrupted"].items()} == {
        "blur 2": (9, 10),
        "fog 2": (5, 10),
    }
    # The table: accuracies, and the ratios of fog and blur that the claims' mean is of.
    written = Path("b/report.md").read_text(encoding="utf-8")
    assert (
        "| corruption | severity 2 | mean | CE against eb |\n|---|---|---|---|\n| fog | 50 % | 50 % | 0.5 |" in written
    )
    assert "| blur | 90 % | 90 % | 1 |" in written
    assert "counts every input of the published set as an example of its own" in written
    page = Path("b/report.html").read_text(encoding="utf-8")
    assert '<tr><th scope="row">fog</th><td class="number">50 %</td><td class="number">50 %</td>' in page
    assert "worst fog 2, 50 %; best blur 2, 90 %" in shown
    assert main(["report", "b", "--format", "json", "--out", "j"]) == 0
    (own, _) = json.loads(Path("j/report.json").read_text(encoding="utf-8"))["evaluations"]
    assert own["corrupted"]["rows"] == [["fog", "50 %", "50 %", "0.5"], ["blur", "90 %", "90 %", "1"]]
    assert {label: number["low"] for label, number in own["corrupted"]["numbers"]} == {"blur 2": "9/10", "fog 2": "1/2"}
    # What it answers to corrupted inputs is no clean accuracy.
    assert "clean_accuracy" not in told["evaluations"]["eo"]["columns"]
    rows = list(Bundle.open("b").records())
    assert {(r.corruption, r.severity) for r in rows} == {("fog", 2), ("blur", 2)}
    assert main(["audit", "b"]) == 0
