"""A smoothed half-plane from spec to audit: radii, abstentions, confidence, and what is refused before it runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from e2e_support import Evidence, tmc
from report_support import tells_every_number

from tmlang.audit.bundle import Bundle

DISTANCES = (0.35, 0.6, 0.9, 1.5, -0.7, 0.0)
SPEC = """tm 1
space plane: tensor(2) of real[-8, 8] stored as float32

model half: plane -> classes(2) {
  step:     noise(gaussian, sigma: 1/2)
  network:  linear(weights: [[3, 4], [-3, -4]], bias: [0, 0])
  decide:   most_likely draw
  random:   never
}

data points: plane {
  read:   npz("points.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "sign of 3a + 4b"
}

threat near on half over points {
  allow:         l2 <= 1/2 in plane
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate smooth of near {
  certify:  cohen = smoothing.gaussian(n0: 50, n: 2000, alpha: 1/1000)
  curve:    radius over [1/4, 1/2, 1]
  seed:     0
}

claim "near":  certified(smooth, radius: 1/4) >= 80 %
claim "half":  certified(smooth, radius: 1/2) >= 66 %
claim "far":   certified(smooth, radius: 1)   >= 16 %
claim "all":   certified(smooth, radius: 1/2) >= 67 %
"""


def write(folder: Path, text: str = SPEC) -> Path:
    d = np.array(DISTANCES)
    x = np.stack([0.6 * d, 0.8 * d], axis=1).astype(np.float32)
    np.savez(folder / "points.npz", x=x, y=(d < 0).astype(np.int64))
    path = folder / "smooth.tm"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    folder = tmp_path_factory.mktemp("smooth")
    said = tmc("run", write(folder), "--out", folder / "out", folder=folder)
    return folder, said.text, said.code


pytestmark = pytest.mark.xdist_group("smoothing")


def test_radii_follow_the_distances(run: tuple[Path, str, int]) -> None:
    folder, text, code = run
    rows = Evidence(folder / "out").rows("smooth", "cohen")
    # The point on the line has no class that draws can name, and is not certified.
    assert len(rows) == 5
    for row, distance in zip(rows, DISTANCES, strict=False):
        assert abs(distance) - 0.3 < row["radius"] <= abs(distance)
        assert row["draws"] == 2000
    evidence = Evidence(folder / "out")
    # 0.6, 0.9, 1.5 and 0.7 lie beyond 1/2, 1.5 beyond 1; of six examples, one of which is open.
    assert evidence.claims() == {"near": "assumed", "half": "assumed", "far": "assumed", "all": "refuted"}
    assert evidence.summary["evaluations"]["smooth"]["counts"]["certified"] == 4
    assert evidence.summary["evaluations"]["smooth"]["counts"]["cu"] == 1
    note = evidence.summary["evaluations"]["smooth"]["columns"]["certified"]["note"]
    assert note == "assumed; each at 99.9 %, all 5 jointly at 99.5 %; 0 abstained"
    assert "jointly at 99.5 %" in text
    assert code == 3
    stage = json.loads((folder / "out" / "plan.json").read_text())["evaluations"][0]["stages"][0]
    assert (stage["evidence"], stage["lowering"]) == ("probabilistic", "outer")


def test_the_report_says_what_is_certified(run: tuple[Path, str, int]) -> None:
    page = (run[0] / "out" / "report.html").read_text()
    assert "ideal vote over all noise" in " ".join(page.split())
    assert "at a stated confidence" in page
    tells_every_number(Bundle.open(run[0] / "out"))


def test_the_audit_works_the_radii_out_again(run: tuple[Path, str, int]) -> None:
    folder = run[0]
    said = tmc("audit", folder / "out", folder=folder)
    assert said.code == 0, said.text
    table = next(p for p in sorted((folder / "out" / "records").glob("*.parquet")) if _column(p, "radius"))
    rows = pq.read_table(table)
    longer = [None if r is None else r * 1.01 for r in rows["radius"].to_pylist()]
    where = rows.column_names.index("radius")
    kept = table.read_bytes()
    pq.write_table(rows.set_column(where, rows.schema.field(where), [longer]), table)
    said = tmc("audit", folder / "out", folder=folder)
    table.write_bytes(kept)
    assert said.code != 0
    assert "claims more than" in said.text


OTHER = SPEC.replace("  curve:    radius over [1/4, 1/2, 1]\n", "").partition("claim")[0]
KINDS = {
    # Of the distances 0.35, 0.6, 0.9, 1.5 and 0.7 (of another class) less is proved, by 0.05 to 0.3.
    "union": ("goal", "goal", "narrow: l2 <= 1/4 in plane or wide: linf <= 1/2 in plane", ("0.9", "1.5"), 10),
    "targeted": (
        "goal:          untargeted",
        "goal:          targeted class 1",
        "l2 <= 1/2 in plane",
        ("0.9", "1.5"),
        4,
    ),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_unions_and_targets_from_spec_to_audit(kind: str, tmp_path: Path) -> None:
    old, new, allow, sure, drawn = KINDS[kind]
    text = OTHER.replace(old, new, 1).replace("l2 <= 1/2 in plane", allow) + 'claim "c": certified(smooth) >= 1 %\n'
    said = tmc("run", write(tmp_path, text), "--out", tmp_path / "out", folder=tmp_path)
    evidence = Evidence(tmp_path / "out")
    rows = evidence.rows("smooth", "cohen")
    assert len(rows) == drawn, said.text
    certified = {}
    for row in rows:
        certified.setdefault(row["example"], []).append(row["verdict"] == "certified")
    proved = {str(abs(DISTANCES[int(example)])) for example, held in certified.items() if all(held)}
    assert set(sure) <= proved <= {*sure, "0.7", "0.6"}
    assert evidence.summary["evaluations"]["smooth"]["counts"]["certified"] == len(proved)
    said = tmc("audit", tmp_path / "out", "--model", tmp_path, folder=tmp_path)
    assert said.code == 0, said.text


def _column(path: Path, name: str) -> bool:
    return any(v is not None for v in pq.read_table(path)[name].to_pylist())


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"decide:   most_likely draw": "decide:   argmax ties lowest", "noise(gaussian, sigma: 1/2)": "scale(2)"},
         "TM603", "not about one network"),
        ({"decide:   most_likely draw": "decide:   majority of 10 draws ties reject", "random:   never":
          "random:   per request", "fail\n}": "fail\n  rejected: fail\n  success: error_probability > 1/2 at 99 % on "
          "99 fresh draws\n}"}, "TM603", "not about a request or a vote"),
        ({"step:     noise(gaussian, sigma: 1/2)": "step:     scale(2)\n  step:     noise(gaussian, sigma: 1/2)"},
         "TM603", "`scale` stands before it"),
        ({"noise(gaussian": "noise(uniform"}, "TM603", "this is uniform"),
        ({"network:": "step:     noise(gaussian, sigma: 1/8)\n  network:"}, "TM603", "a second step draws"),
        ({"l2 <= 1/2": "l0 <= 1"}, "TM508", "may move as far as their domain"),
        ({"l2 <= 1/2": "a: l2 <= 1/2 in plane or b: l0 <= 1"}, "TM508", "may move as far as their domain"),
        ({"n0: 50, n: 2000": "sigma: 1, n0: 50, n: 2000"}, "TM504", "adds noise of sigma 0.5"),
        ({"n: 2000": "n: 9"}, "TM624", "n: 19 is the least"),
        ({"n: 2000": "n: 100"}, "TM625", "a radius of 1"),
        ({"[1/4, 1/2, 1]": "[1/4, 1/2, 4]"}, "TM625", "no number of draws does: take more noise"),
    ],
)  # fmt: skip
def test_what_the_theorem_is_not_about(changes: dict[str, str], code: str, words: str, tmp_path: Path) -> None:
    text = SPEC
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    said = tmc("check", write(tmp_path, text), folder=tmp_path)
    assert code in said.text, said.text
    assert words in said.text, said.text


def test_sigma_may_be_said_again(tmp_path: Path) -> None:
    said = tmc("check", write(tmp_path, SPEC.replace("n0: 50", "sigma: 1/2, n0: 50")), folder=tmp_path)
    assert said.code == 0, said.text
