"""One shift for all examples from a spec to the audit: fitted on other data, under a query limit, on a surrogate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tmlang.api.auditing import audit
from tmlang.api.reading import check
from tmlang.api.running import prepared
from tmlang.audit.bundle import Bundle
from tmlang.execute import runner

SPEC = """\
tm 1

space strip: tensor(1, 1, 5) of real[0, 1] stored as float32

model fourth: strip -> {dark, bright} {
  network:  linear(weights: [[0, 0, 0, 0, 0], [0, 0, 0, 1, 0]], bias: [1/2, 0])
  decide:   argmax ties lowest
  random:   never
}

## It looks for a dot one pixel too far to the right.
model fifth: strip -> {dark, bright} {
  network:  linear(weights: [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1]], bias: [1/2, 0])
  decide:   argmax ties lowest
  random:   never
}

data judged: strip {
  read:   npz("judged.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}

data fit: strip {
  read:   npz("fit.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}

threat moved on fourth over judged {
  allow:         transform { translate <= 2 'px' step 1 'px' } interpolate nearest fill 0
  mutable:       all
  perturbation:  universal fitted on fit
  goal:          untargeted
  access:        ACCESS
  clean_errors:  fail
}

evaluate e of moved {
  attack:  grid = native.transform_grid(values: 5)
  seed:    0
}

claim "half": survival(e) >= 1/2
"""
JUDGED = (2, 2, 1, 4)
FIT = (2, 2, 2, 1)


def strips(folder: Path, name: str, places: tuple[int, ...]) -> None:
    x = np.zeros((len(places), 1, 1, 5), np.float32)
    x[range(len(places)), 0, 0, places] = 1
    np.savez(folder / name, x=x, y=np.zeros(len(places), np.int64))


def ran(folder: Path, access: str) -> Bundle:
    strips(folder, "judged.npz", JUDGED)
    strips(folder, "fit.npz", FIT)
    (folder / "s.tm").write_text(SPEC.replace("ACCESS", access))
    made, options = prepared(check(folder / "s.tm"), locked=False)
    runner.run(made, replace(options, out=folder / "out"))
    return Bundle.open(folder / "out")


def broken(bundle: Bundle) -> set[str]:
    return {r.unit for r in bundle.records() if r.stage == "grid" and r.observed_failure}


@pytest.mark.parametrize(
    ("access", "expected", "queries"),
    [
        # Two fitting dots and more go one pixel to the right.
        ("decisions", {"0", "1"}, 0),
        ("decisions, queries <= 25 per example", {"0", "1"}, 25),
        ("decisions, queries <= 9 per example", {"0", "1"}, 9),
        # The surrogate wants its dots at the end: two pixels, which takes a dot from the second place to the fourth.
        ("transfer from [fifth]", {"2"}, 0),
    ],
)
def test_one_shift_for_all(tmp_path: Path, access: str, expected: set[str], queries: int) -> None:
    bundle = ran(tmp_path, access)
    assert broken(bundle) == expected
    kept = [r for r in bundle.records() if r.candidate is not None]
    assert len({bundle.parameters(r.candidate) for r in kept}) == 1
    assert {r.queries for r in bundle.records() if r.stage == "grid"} == {queries}
    assert audit(tmp_path / "out").faults == []
    report = (tmp_path / "out" / "report.md").read_text()
    assert "One vector of parameters is chosen once, on `fit`, and is then the same for every example." in report


def test_another_vector_for_one_example_is_told(tmp_path: Path) -> None:
    """Beside that it does not make the picture."""
    ran(tmp_path, "decisions")
    bundle = Bundle(tmp_path / "out", writable=True)
    name = next(n for n in bundle.files() if n.startswith("candidates/"))
    arrays = {k: v.copy() for k, v in bundle.candidates(name).tensors.items()}
    arrays["theta"][0] = [0.0, 0.0]
    (tmp_path / "out" / name).unlink()
    bundle.add_candidates(arrays.pop("x"), arrays.pop("original"), space="strip", **arrays)
    bundle.seal(bundle.statement()["predicate"])
    texts = [fault.text for fault in audit(tmp_path / "out").faults]
    assert any("told to be made of one perturbation, and they are not" in text for text in texts)


def test_two_surrogates_give_two_perturbations(tmp_path: Path) -> None:
    strips(tmp_path, "judged.npz", JUDGED)
    strips(tmp_path, "fit.npz", FIT)
    other = SPEC.replace("model fifth", "model first", 1).replace("0, 0, 0, 0, 1", "1, 0, 0, 0, 0")
    first = other[other.index("model first") : other.index("data judged")]
    text = SPEC.replace("data judged", first + "data judged", 1).replace("ACCESS", "transfer from [fifth, first]")
    (tmp_path / "s.tm").write_text(text)
    (told,) = check(tmp_path / "s.tm").diagnostics
    assert told.code == "TM520"
    assert "2 surrogates give as many perturbations" in told.message


def test_one_change_of_the_other_branch_is_fitted_on_that_branch_alone(tmp_path: Path) -> None:
    """Every dot but the one in the fourth place is lit there by a change of 9/16 of one coordinate, and dark below."""
    strips(tmp_path, "judged.npz", (2, 1, 4))
    strips(tmp_path, "fit.npz", FIT)
    line = next(line for line in SPEC.splitlines() if "allow:" in line)
    text = SPEC.replace(line, line.replace("allow: ", "allow:  moved:") + "\n  or lit: linf <= 9/16 in strip")
    text = text.replace("ACCESS", "white_box").replace("native.transform_grid(values: 5)", "native.pgd(steps: 10)")
    (tmp_path / "s.tm").write_text(text)
    made, options = prepared(check(tmp_path / "s.tm"), locked=False)
    runner.run(made, replace(options, out=tmp_path / "out"))
    bundle = Bundle.open(tmp_path / "out")
    rows = [r for r in bundle.records() if r.stage == "grid"]
    assert {(r.unit, r.branch) for r in rows if r.observed_failure} == {(i, "lit") for i in "012"}
    assert all(bundle.parameters(r.candidate) is None for r in rows)
    assert audit(tmp_path / "out").faults == []
    report = (tmp_path / "out" / "report.md").read_text()
    assert "One change, or one vector of parameters, is chosen once, on `fit`" in report
