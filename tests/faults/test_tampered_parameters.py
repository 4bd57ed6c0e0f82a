"""Bundles about transforms whose parameters or pictures somebody changed, sealed anew: the audit finds each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from audit_support import forged

from tmlang.api.auditing import audit
from tmlang.api.reading import check
from tmlang.api.running import prepared
from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.diagnostics.stop import Stop
from tmlang.execute import runner

SPEC = """\
tm 1

space picture: tensor(1, 3, 3) of real[0, 1] stored as float32

model dot: picture -> {middle, elsewhere} {
  network:  linear(weights: [[0, 0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0]], bias: [0, 1/2])
  decide:   argmax ties lowest
  random:   never
}

data dots: picture {
  read:   npz("dots.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}

threat shaken on dot over dots {
  allow:         transform { translate <= 1 'px' step 1/4 'px' rotate <= 30 'deg' } interpolate bilinear fill 0
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate e of shaken {
  attack:  grid = native.transform_grid(values: 9)
  seed:    0
}
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A dot in the middle of two pictures, a little paler in the second, which a shift moves away."""
    x = np.zeros((2, 1, 3, 3), np.float32)
    x[0, 0, 1, 1], x[1, 0, 1, 1] = 1.0, 0.875
    np.savez(tmp_path / "dots.npz", x=x, y=np.zeros(2, np.int64))
    (tmp_path / "s.tm").write_text(SPEC)
    made, options = prepared(check(tmp_path / "s.tm"), locked=False)
    runner.run(made, replace(options, out=tmp_path / "out"))
    return tmp_path / "out"


Arrays = dict[str, np.ndarray]


def turned(arrays: Arrays) -> None:
    arrays["theta"][0, 2] += 1.0


def beyond(arrays: Arrays) -> None:
    arrays["theta"][0, 2] = np.nextafter(30.0, 31.0)


def off_the_grid(arrays: Arrays) -> None:
    arrays["theta"][1, 0] = 0.3


def no_number(arrays: Arrays) -> None:
    arrays["theta"][1, 1] = np.nan


def one_bit(arrays: Arrays) -> None:
    arrays["x"][0, 0, 1, 1] = np.nextafter(arrays["x"][0, 0, 1, 1], np.float32(0))


def another_original(arrays: Arrays) -> None:
    arrays["original"][1, 0, 1, 1] = 1.0


def without(arrays: Arrays) -> None:
    del arrays["theta"]


def too_few(arrays: Arrays) -> None:
    arrays["theta"] = arrays["theta"][:, :2].copy()


def of_one_alone(arrays: Arrays) -> None:
    arrays["theta"] = arrays["theta"][:1].copy()


def single(arrays: Arrays) -> None:
    arrays["theta"] = arrays["theta"].astype(np.float32)


def swapped(arrays: Arrays) -> None:
    arrays["theta"] = arrays["theta"][::-1].copy()


TAMPERS = [
    turned, beyond, off_the_grid, no_number, one_bit, another_original, without, too_few, of_one_alone, single, swapped,
]  # fmt: skip


def changed(path: Path, change: Callable[[Arrays], None]) -> None:
    bundle = Bundle(path, writable=True)
    name = next(n for n in bundle.files() if n.startswith("candidates/"))
    file = bundle.candidates(name)
    arrays = {k: v.copy() for k, v in file.tensors.items()}
    change(arrays)
    (path / name).unlink()
    bundle.add_candidates(arrays.pop("x"), arrays.pop("original"), space="picture", **arrays)
    bundle.seal(bundle.statement()["predicate"])


def test_the_honest_bundle_holds(bundle: Path) -> None:
    assert audit(bundle).faults == []
    rows = [r for r in Bundle.open(bundle).records() if r.stage == "grid"]
    assert [r.observed_failure for r in rows] == [True, True]
    # Half of the dot must go: (1 - |down|)(1 - |right|) < 1/2 of a whole one, and of 7/8 the shift of a quarter twice.
    first, second = (Bundle.open(bundle).parameters(r.candidate) for r in rows)
    assert max(map(abs, first[:2])) == 0.5
    assert sorted(map(abs, second[:2])) == [0.25, 0.25]


@pytest.mark.parametrize("change", TAMPERS)
def test_a_changed_one_does_not(bundle: Path, change: Callable[[Arrays], None]) -> None:
    changed(bundle, change)
    try:
        found = [fault.code for fault in audit(bundle).faults]
    except Stop as stopped:
        found = [d.code for d in stopped.diagnostics]
    assert set(found) & {"TM842", "TM846"}


# --- a union of two transforms and a ball ----------------------------------------------------------------------------

UNION = """\
  allow:         shaken: (transform { translate <= 1 'px' step 1/4 'px' } interpolate bilinear fill 0
                          and linf <= 3/4 in picture)
                 or turned: transform { rotate <= 30 'deg' } interpolate bilinear fill 0
                 or smudged: linf <= 7/16 in picture
"""
SEARCHES = """\
  attack:  grid = native.transform_grid(values: 9)
  attack:  greys = native.apgd(loss: margin, steps: 20)
  attribution: full
"""


@pytest.fixture
def union(tmp_path: Path) -> Path:
    """Only the paler dot is smudged away; both are shaken away, the paler one by so little that it could be smudged;
    turning leaves the middle where it is."""
    x = np.zeros((2, 1, 3, 3), np.float32)
    x[0, 0, 1, 1], x[1, 0, 1, 1] = 1.0, 0.875
    np.savez(tmp_path / "dots.npz", x=x, y=np.zeros(2, np.int64))
    lines = SPEC.splitlines(keepends=True)
    allow = next(i for i, line in enumerate(lines) if "allow:" in line)
    attack = next(i for i, line in enumerate(lines) if "attack:" in line)
    text = "".join([*lines[:allow], UNION, *lines[allow + 1 : attack], SEARCHES, *lines[attack + 1 :]])
    (tmp_path / "s.tm").write_text(text)
    made, options = prepared(check(tmp_path / "s.tm"), locked=False)
    runner.run(made, replace(options, out=tmp_path / "out"))
    return tmp_path / "out"


def as_turned(arrays: Arrays) -> None:
    """The parameters of one transform in the place of another's."""
    arrays["theta"] = np.array([[np.nan, np.nan, row[0] * 40] for row in arrays["theta"]])


def of_nobody(arrays: Arrays) -> None:
    arrays["theta"][:] = np.nan


def shaken_out_of_the_ball(arrays: Arrays) -> None:
    """A picture that its parameters do make, by a shift that changes the middle by a whole dot."""
    arrays["x"] = np.roll(arrays["original"], (1, 1), axis=(2, 3))
    arrays["theta"][:, :2] = 1.0


def beside_the_grid(arrays: Arrays) -> None:
    arrays["theta"][0, 0] += 1 / 8


def of_two_alone(arrays: Arrays) -> None:
    arrays["theta"] = arrays["theta"][:, :2].copy()


def test_the_honest_union_holds(union: Path) -> None:
    assert audit(union).faults == []
    bundle = Bundle.open(union)
    rows = {(r.stage, r.unit): r for r in bundle.records() if r.stage in ("grid", "greys")}
    assert {key: r.branch for key, r in rows.items() if r.observed_failure} == {
        ("grid", "0"): "shaken", ("grid", "1"): "shaken smudged", ("greys", "1"): "smudged",
    }  # fmt: skip
    first = bundle.parameters(rows["grid", "0"].candidate)
    assert first is not None
    assert np.isnan(first[2])
    assert (1 - abs(first[0])) * (1 - abs(first[1])) < 1 / 2
    assert bundle.parameters(rows["greys", "1"].candidate) is None


@pytest.mark.parametrize("change", [as_turned, of_nobody, shaken_out_of_the_ball, beside_the_grid, of_two_alone])
def test_a_picture_of_another_branch_is_told(union: Path, change: Callable[[Arrays], None]) -> None:
    changed(union, change)
    assert "TM846" in {fault.code for fault in audit(union).faults}


@pytest.mark.parametrize("told", ["smudged", "turned", "shaken smudged", None])
def test_a_branch_that_does_not_hold_the_picture_is_told(union: Path, tmp_path: Path, told: str | None) -> None:
    def other(rows: list[Record]) -> list[Record]:
        return [replace(r, branch=told) if r.branch == "shaken" else r for r in rows]

    faults = audit(forged(union, tmp_path / "forged", rows=other)).faults
    assert [f.code for f in faults] == ["TM846"]
    assert "it lies in ['shaken']" in faults[0].text
