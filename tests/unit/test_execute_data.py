"""Data: what is read, selected and labelled, and what is said when numbers do not lie where the spec says."""

from __future__ import annotations

import io
import os
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_support import unit_box

from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.stop import Stop
from tmlang.execute.sources.data import UNUSABLE, LoadedData, load_data
from tmlang.execute.sources.files import Files, folder_hash
from tmlang.meaning.models import Data, Step, Take, Truth
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.values import Artifact, Call, Symbol, Value

F = Fraction
CLASSES = ("0", "1", "2")
READING = Space(
    "reading",
    (3,),
    (
        Cell("real", F(-40), F(85), unit="degC"),
        Cell("lattice", F(0), F(1), F(1, 1024)),
        Cell("category", F(0), F(1), F(1), categories=("open", "closed")),
    ),
    layout="each",
    features=("temp", "first", "door"),
)


def data(kind: str, path: str, takes: tuple[Take, ...] = (), sha: str | None = None, **more: Any) -> Data:
    args: dict[str, Value] = {k: v for k, v in more.items() if k not in ("truth", "prepare", "undo")}
    return Data(
        "test",
        "px",
        Call((kind,), (("", Artifact(path, sha)), *args.items())),
        Artifact(path, sha),
        takes,
        more.get("truth", Truth("published", "somewhere")),
        more.get("prepare", ()),
        more.get("undo", ()),
    )


def nobody(name: str, x: np.ndarray) -> np.ndarray:
    raise AssertionError(f"{name} was asked about {len(x)} inputs")


def load(folder: Path, spec: Data, space: Space, classes: tuple[str, ...] = CLASSES, **more: Any) -> LoadedData:
    return load_data(spec, space, classes, Files(folder), more.pop("decide", nobody), **more)


def refused(folder: Path, spec: Data, space: Space, classes: tuple[str, ...] = CLASSES, **more: Any) -> Diagnostic:
    with pytest.raises(Stop) as stopped:
        load(folder, spec, space, classes, **more)
    (found,) = stopped.value.diagnostics
    return found


def text(found: Diagnostic) -> str:
    return " | ".join((found.message, *found.notes, found.help or ""))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "d.npz", x=rng.random((9, 4), dtype=np.float32), y=np.arange(9) % 3, i=[f"a{k}" for k in range(9)]
    )
    return tmp_path


def npz(*takes: Take, **more: Any) -> Data:
    return data("npz", "d.npz", takes, inputs="x", labels="y", **more)


PX = unit_box(4)

# --- selection ----------------------------------------------------------------------------------------------------


def test_takes_compose_in_order_and_ids_are_row_numbers(folder: Path) -> None:
    assert load(folder, npz(), PX).ids == tuple(str(k) for k in range(9))
    assert load(folder, npz(Take("every", 2), Take("first", 3)), PX).ids == ("0", "2", "4")
    assert load(folder, npz(Take("first", 3), Take("every", 2)), PX).ids == ("0", "2")
    assert load(folder, npz(Take("where_label", label="1")), PX).ids == ("1", "4", "7")
    own = load(folder, npz(Take("first", 2), ids="i"), PX)
    assert own.ids == ("a0", "a1")
    assert own.rows.tolist() == [0, 1]
    assert own.total == 9


def test_a_sample_depends_on_its_seed_alone(folder: Path) -> None:
    first = load(folder, npz(Take("sample", 4, seed=1)), PX).ids
    assert first == load(folder, npz(Take("sample", 4, seed=1)), PX).ids
    assert first != load(folder, npz(Take("sample", 4, seed=2)), PX).ids
    assert len(set(first)) == 4


def test_listed_ids_come_in_the_order_of_their_file(folder: Path) -> None:
    (folder / "ids.txt").write_text("7\n2\n\n5\n")
    listed = Take("ids", file=Artifact("ids.txt"))
    got = load(folder, npz(listed), PX)
    assert got.ids == ("7", "2", "5")
    assert got.labels.tolist() == [1, 2, 2]
    (folder / "ids.txt").write_text("7\n99\n")
    assert "99" in text(refused(folder, npz(listed), PX))
    (folder / "ids.txt").write_text("7\n7\n")
    assert refused(folder, npz(listed), PX).code == "TM724"


def test_correct_under_asks_the_model_about_the_prepared_rows(folder: Path) -> None:
    asked = []

    def decide(name: str, x: np.ndarray) -> np.ndarray:
        asked.append((name, x.shape))
        return np.array([0, 0, 0, 0, 1])

    got = load(folder, npz(Take("first", 5), Take("correct_under", model="m")), PX, decide=decide)
    assert asked == [("m", (5, 4))]
    assert got.ids == ("0", "3", "4")


def test_predicted_labels_and_their_gaps(folder: Path) -> None:
    truth = Truth("predicted", model="m")
    got = load(folder, npz(Take("first", 3), truth=truth), PX, decide=lambda _, x: np.array([2, -1, 0])[: len(x)])
    assert got.labels.tolist() == [2, UNUSABLE, 0]


def test_a_review_decides_labels_and_is_counted(folder: Path) -> None:
    (folder / "review.csv").write_text("id,label\n4,2\n1,1\n")
    got = load(folder, npz(truth=Truth("reviewed", file=Artifact("review.csv"))), PX)
    assert got.labels[4] == 2
    assert got.reviewed.nonzero()[0].tolist() == [1, 4]
    (folder / "review.csv").write_text("id,label\n77,2\n")
    assert refused(folder, npz(truth=Truth("reviewed", file=Artifact("review.csv"))), PX).code == "TM724"


def test_selections_that_leave_nothing_or_ask_for_too_much(folder: Path) -> None:
    assert refused(folder, npz(Take("first", 10)), PX).code == "TM704"
    assert refused(folder, npz(Take("first", 1), Take("where_label", label="2")), PX).code == "TM704"


# --- labels -------------------------------------------------------------------------------------------------------


def test_labels_are_classes_by_index_or_name(tmp_path: Path) -> None:
    x = np.zeros((3, 4), np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=np.array(["ok", "alarm", ""]))
    assert load(tmp_path, npz(), PX, ("ok", "alarm")).labels.tolist() == [0, 1, UNUSABLE]
    assert "okk" in text(refused(tmp_path, npz(), PX, ("okk", "alarm")))
    np.savez(tmp_path / "d.npz", x=x, y=np.array([0, -1, 3]))
    assert refused(tmp_path, npz(), PX).code == "TM723"
    for below in (np.array([0, -1, 1]), np.array([0.0, np.inf, 1.0])):
        np.savez(tmp_path / "d.npz", x=x, y=below)
        assert refused(tmp_path, npz(), PX).code == "TM723"
    np.savez(tmp_path / "d.npz", x=x, y=np.eye(3))
    assert "not one-hot" in text(refused(tmp_path, npz(), PX))
    np.savez(tmp_path / "d.npz", x=x, y=np.array([0.0, np.nan, 2.0]))
    assert load(tmp_path, npz(), PX).labels.tolist() == [0, UNUSABLE, 2]


# --- files --------------------------------------------------------------------------------------------------------


def test_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.array([{}], dtype=object), y=np.zeros(1))
    assert refused(tmp_path, npz(), PX).code == "TM714"
    np.savez(tmp_path / "d.npz", inputs=np.zeros((1, 4)), y=np.zeros(1))
    assert "inputs" in text(refused(tmp_path, npz(), PX))
    (tmp_path / "d.npz").write_bytes(b"PK not a zip")
    assert refused(tmp_path, npz(), PX).code == "TM712"
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 4)), y=np.zeros(3))
    assert refused(tmp_path, npz(), PX).code == "TM727"
    assert refused(tmp_path, data("huggingface", "d.npz"), PX).code == "TM726"


def test_an_archive_that_can_be_read_in_two_ways(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 4), np.float32), y=np.zeros(2, np.int64))
    with zipfile.ZipFile(tmp_path / "d.npz") as whole:
        labels = whole.read("y.npy")
    with zipfile.ZipFile(tmp_path / "d.npz", "a") as again:
        again.writestr("y.npy", labels)
    assert "twice" in text(refused(tmp_path, npz(), PX))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "d.npz")
    assert refused(tmp_path, npz(), PX).code == "TM712"


def test_an_archive_that_unpacks_beyond_the_limit(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((5000, 4), np.float32), y=np.zeros(5000, np.int64))
    files = Files(tmp_path, limit=20_000)
    assert (tmp_path / "d.npz").stat().st_size < 20_000
    with pytest.raises(Stop) as stopped:
        load_data(npz(), PX, CLASSES, files, nobody)
    assert stopped.value.diagnostics[0].code == "TM725"


def test_npy_pairs(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((2, 4), 0.5))
    np.save(tmp_path / "y.npy", np.array([2, 1]))
    got = load(tmp_path, data("npy", "x.npy", labels=Artifact("y.npy")), PX)
    assert got.labels.tolist() == [2, 1]
    assert got.x.dtype == np.float32


def table(folder: Path, content: str, **more: Any) -> Data:
    (folder / "d.csv").write_text(content)
    return data("csv", "d.csv", label="class", **more)


ROWS = "door,class,temp,first\nclosed,1,21.5,0.375\nopen,0,-4e1,1\n"


def test_a_table_is_read_by_names_in_the_order_of_the_space(tmp_path: Path) -> None:
    got = load(tmp_path, table(tmp_path, ROWS), READING)
    assert got.x.tolist() == [[21.5, 0.375, 1.0], [-40.0, 1.0, 0.0]]
    assert got.labels.tolist() == [1, 0]
    with_id = table(tmp_path, "name," + ROWS.replace("\nc", "\nrow7,c").replace("\no", "\nrow9,o"), id="name")
    assert load(tmp_path, with_id, READING).ids == ("row7", "row9")


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (ROWS.replace("temp", "tmp"), "TM721", "missing: temp (did you mean tmp)"),
        ("door,class,temp,first,wind\nopen,0,1,1,9\n", "TM721", "not in reading: wind"),
        (ROWS.replace("21.5", "21,5"), "TM721", "5 cells"),
        (ROWS.replace("21.5", "nan"), "TM722", "row 1"),
        (ROWS.replace("21.5", "1_0"), "TM722", "'1_0' as temp"),
        (ROWS.replace("closed", "clsed"), "TM722", "did you mean closed"),
        (ROWS.replace("class,temp", "class,class"), "TM721", "more than once"),
        (ROWS.replace("closed,1", "closed,7"), "TM723", "7"),
        (ROWS.replace("0.375", "0.3751"), "TM720", "between the levels of step 1/1024"),
        (ROWS.replace("21.5", "99"), "TM720", "[-40, 85]"),
        ("", "TM712", "empty"),
        ('a,"b\n', "TM712", "CSV"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, content: str, code: str, said: str) -> None:
    found = refused(tmp_path, table(tmp_path, content), READING)
    assert found.code == code
    assert said in text(found)


def test_a_column_that_a_goal_names_is_kept(tmp_path: Path) -> None:
    content = ROWS.replace("first\n", "first,aim\n").replace("0.375\n", "0.375,2\n").replace(",1\n", ",1,0\n")
    got = load(tmp_path, table(tmp_path, content), READING, extra=frozenset({"aim"}))
    assert got.columns == {"aim": ("2", "0")}


def test_parquet_equals_csv(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"temp": [21.5, -40.0], "first": [0.375, 1.0], "door": ["closed", "open"], "class": ["1", "0"]}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    got = load(tmp_path, data("parquet", "d.parquet", label="class"), READING)
    assert np.array_equal(got.x, load(tmp_path, table(tmp_path, ROWS), READING).x)


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(1)
    (tmp_path / "img" / "sub").mkdir(parents=True)
    pictures = {name: rng.integers(0, 256, (6, 8, 3), dtype=np.uint8) for name in ("b.png", "sub/a.png")}
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(tmp_path / "img" / name)
    (tmp_path / "labels.csv").write_text("file,label\nsub/a.png,2\nb.png,0\n")
    prepare = (
        Step("decode", (("library", Symbol("pillow")),)),
        Step("center_crop", (("height", F(4)), ("width", F(4)))),
        Step("permute", (("source", Symbol("hwc")), ("target", Symbol("chw")))),
        Step("scale", (("factor", F(1, 255)),)),
    )
    spec = data("folder", "img", sha=folder_hash(tmp_path / "img"), labels=Artifact("labels.csv"), prepare=prepare)
    got = load(tmp_path, spec, unit_box(3, 4, 4))
    assert got.ids == ("sub/a.png", "b.png")
    assert got.labels.tolist() == [2, 0]
    expected = pictures["sub/a.png"][1:5, 2:6].transpose(2, 0, 1).astype(np.float32) / 255
    assert np.array_equal(got.x[0], expected)
    (tmp_path / "img" / "b.png").write_bytes(b"no picture")
    spec = data("folder", "img", labels=Artifact("labels.csv"), prepare=prepare)
    assert refused(tmp_path, spec, unit_box(3, 4, 4)).code == "TM712"
    (tmp_path / "labels.csv").write_text("file,label\n../labels.csv,2\n")
    assert refused(tmp_path, spec, unit_box(3, 4, 4)).code == "TM710"


# --- the declared space -------------------------------------------------------------------------------------------


def arrays(folder: Path, x: np.ndarray, **more: Any) -> Data:
    np.savez(folder / "d.npz", x=x, y=np.zeros(len(x), np.int64))
    return npz(**more)


BYTES = Space("b", (4,), (Cell("integer", F(0), F(255), F(1)),))


@pytest.mark.parametrize(
    ("x", "space", "said"),
    [
        (np.array([[0, 7, 255, 3]]), PX, "scale(1/255)"),
        (np.array([[0, 7, 16, 3]]), PX, "scale(1/16)"),
        (np.array([[0.5, 0.25, 2.7, 1]]), PX, "or mend the space"),
        (np.array([[0.5, 0.25, 100.5, 1]]), PX, "scale(1/255)"),
        (np.array([[-1.9, 1.2, 0.3, 0.1]]), PX, "looks standardized"),
        (np.array([[-1, 1, 0.3, 0.1]]), PX, "add(1) scale(1/2)"),
        (np.array([[0.1, 0.2, 1, 0]]), BYTES, "looks like 0..1"),
        (np.array([[0, 1, np.nan, 0]]), PX, "not finite"),
        (np.array([[0, 1, np.nextafter(np.float32(1), np.float32(2)), 0]]), PX, "1.00000012"),
    ],
)
def test_numbers_outside_the_space_are_guessed_at(tmp_path: Path, x: np.ndarray, space: Space, said: str) -> None:
    found = refused(tmp_path, arrays(tmp_path, x.astype(np.float32)), space)
    assert found.code == "TM720"
    assert said in text(found)


def test_originals_that_are_exempt_do_not_stop(tmp_path: Path) -> None:
    from dataclasses import replace

    spec = arrays(tmp_path, np.array([[0, 7, 0, 0]], np.float32))
    assert load(tmp_path, spec, replace(PX, originals="exempt")).x[0, 1] == 7


def test_channels_on_the_other_end(tmp_path: Path) -> None:
    spec = arrays(tmp_path, np.zeros((2, 4, 5, 3), np.float32))
    assert "permute(hwc, chw)" in text(refused(tmp_path, spec, unit_box(3, 4, 5)))


def test_undo_gives_back_the_bytes(tmp_path: Path) -> None:
    """0..255 standardized in float32 and undone is the same bytes again, rounding put right."""
    levels = np.arange(256, dtype=np.float32).reshape(64, 4)
    mean, std = np.float32(125.3), np.float32(63.0)
    undo = (Step("normalize", (("mean", F("125.3")), ("std", F(63)))),)
    got = load(tmp_path, arrays(tmp_path, (levels - mean) / std, undo=undo), BYTES)
    assert np.array_equal(got.x, levels)
    off = (levels - mean) / std
    off[0, 0] += 0.01
    assert refused(tmp_path, arrays(tmp_path, off, undo=undo), BYTES).code == "TM720"


def test_no_text_reaches_numpy_as_a_pickle(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([print], dtype=object), allow_pickle=True)
    (tmp_path / "x.npy").write_bytes(buffer.getvalue())
    (tmp_path / "y.npy").write_bytes(buffer.getvalue())
    assert refused(tmp_path, data("npy", "x.npy", labels=Artifact("y.npy")), PX).code == "TM714"
