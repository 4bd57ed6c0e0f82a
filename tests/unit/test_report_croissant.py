"""``croissant.json``: read by MLCommons' own library, and compared with the data itself."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from audit_support import Rows, attack, evaluation, make_bundle, plan, threat
from mlcommons import mlcroissant

import tmlang as tm
from tmlang.meaning.models import Data, Take, Truth
from tmlang.meaning.values import Artifact, Call
from tmlang.report.croissant import croissant

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("crate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``specs/sensor``, with a run in ``run``."""
    folder = tmp_path_factory.mktemp("croissant") / "sensor"
    shutil.copytree(ROOT / "specs" / "sensor", folder)
    tm.run(folder / "sensor.tm", out=folder / "run")
    return folder


def test_another_library_reads_the_examples_in_order(folder: Path) -> None:
    with (folder / "observations.csv").open() as file:
        expected = [(row["id"], row["class"]) for row in csv.DictReader(file)]
    dataset = mlcroissant.Dataset(folder / "run" / "croissant.json")
    assert not dataset.metadata.issues.errors
    (records,) = dataset.metadata.record_sets
    name = "observations_examples"
    found = [(r[f"{name}/example"], r[f"{name}/label"]) for r in dataset.records(records.uuid)]
    assert found == expected
    assert len(found) == 7


def test_the_files_are_told_by_their_hashes(folder: Path) -> None:
    told = json.loads((folder / "run" / "croissant.json").read_text())
    files = {f["contentUrl"]: f["sha256"] for f in told["distribution"]}
    assert files.keys() == {"observations.csv", "observations_review.csv"}
    assert all(sha256((folder / name).read_bytes()).hexdigest() == digest for name, digest in files.items())
    assert told["url"] == f"urn:sha256:{files['observations.csv']}"


PICTURES = Data(
    "test",
    "px",
    Call(("folder",), (("labels", Artifact("labels.csv", "cd" * 32)),)),
    Artifact("pictures", "ab" * 32),
    (Take("ids", file=Artifact("ids.txt", "ef" * 32)),),
    Truth("published", "by hand"),
)


def described(path: Path, **changes: Any) -> Path:
    rows = Rows().clean("u").attack("u").clean("v", "cu", label=-1)
    bundle = make_bundle(path / "run", plan([evaluation(attack())], [threat()], **changes), rows.all)
    (path / "croissant.json").write_bytes(croissant(bundle))
    return path / "croissant.json"


def test_a_folder_of_pictures_and_side_files(tmp_path: Path) -> None:
    path = described(tmp_path, data=(PICTURES,))
    dataset = mlcroissant.Dataset(path)
    assert not dataset.metadata.issues.errors
    kinds = {f["name"]: f["@type"] for f in json.loads(path.read_text())["distribution"]}
    assert kinds == {"pictures": "cr:FileSet", "labels.csv": "cr:FileObject", "ids.txt": "cr:FileObject"}
    rows = list(dataset.records("test_examples"))
    assert [(r["test_examples/example"], r["test_examples/label"]) for r in rows] == [("u", "0"), ("v", "")]


def test_the_other_library_would_find_something(tmp_path: Path) -> None:
    path = described(tmp_path, data=(replace(PICTURES, name="test"),))
    told = json.loads(path.read_text())
    del told["recordSet"][0]["field"][0]["dataType"]
    del next(f for f in told["distribution"] if f["name"] == "ids.txt")["contentUrl"]
    path.write_text(json.dumps(told))
    with pytest.raises(mlcroissant.ValidationError, match="contentUrl"):
        mlcroissant.Dataset(path)
