"""Bounds of a property's outputs: what Marabou proves of them, and what contradicts them in a bundle."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tmlang.audit import tensorfile
from tmlang.audit.bundle import Bundle
from tmlang.audit.outputs import OutputBounds, as_tensors
from tmlang.audit.property_outputs import excluded
from tmlang.audit.verify import audit
from tmlang.cli.front import read_spec
from tmlang.execute.replay import replay_all, world_of
from tmlang.execute.runner import RunOptions, run

# y0 = a + b, y1 = a - b, y2 = 1/2; on a in [0, 1], b in [0.1, 1/2] within [0.1, 3/2], [-1/2, 0.9], and a half.
SPEC = """tm 1
space inputs { a: real[-1, 1]  b: real[-1, 1] } stored as float32
model net: inputs -> {sum, difference, half} {
  network:  linear(weights: ((1, 1), (1, -1), (0, 0)), bias: (0, 0, 1/2))
  decide:   %s ties lowest
  random:   never
}
property phi on net { given: a >= 0, b >= 0.1, b <= 1/2  always: %s }
evaluate e of phi { decide_exactly: solver = marabou.query(timeout: 20 's', outputs: 1/100)  seed: 0 }
claim "phi": holds(e)
"""
ENDS = np.array([[0.1, -0.5, 0.5], [1.5, 0.9, 0.5]])


def ran(folder: Path, always: str, rule: str = "argmax") -> Bundle:
    path = folder / "spec.tm"
    path.write_text(SPEC % (rule, always))
    front = read_spec(str(path), {})
    assert front.plan is not None, front.diagnostics
    run(front.plan, RunOptions(out=folder / "out"))
    return Bundle.open(folder / "out")


def bounds_in(bundle: Bundle) -> OutputBounds:
    (reference,) = [r.outputs for r in bundle.records() if r.outputs]
    return bundle.outputs(reference)


@pytest.mark.parametrize("rule", ["argmax", "argmin"])
def test_the_solver_encloses_what_the_property_speaks_of(tmp_path: Path, rule: str) -> None:
    bundle = ran(tmp_path, "sum <= 1.51 or difference < half", rule)
    found = bounds_in(bundle)
    # The ends of the box are floats: 0.1 is rounded into it for inputs, and out of it for proofs.
    for far, near, end in ((found.lower, found.least, ENDS[0]), (found.upper, found.greatest, ENDS[1])):
        assert near == pytest.approx(end, abs=1e-6)
        assert (np.abs(far - end) <= 0.01 + 1e-6).all()
    assert (found.lower <= ENDS[0]).all()
    assert (found.upper >= ENDS[1]).all()
    assert audit(bundle.path).faults == []
    assert replay_all(bundle, world_of(bundle, tmp_path, trust_code=False)).faults == []


def forged(bundle: Bundle, low: Any, high: Any) -> list[Any]:
    """What an audit says of other bounds, all hashes made anew."""
    bounds = OutputBounds(*(np.array(end, dtype=float) for end in (low, low, high, high)))
    (bundle.path / "outputs/000001.safetensors").write_bytes(tensorfile.write(as_tensors([bounds]), {}))
    predicate = json.loads((bundle.path / "statement.json").read_bytes())["predicate"]
    Bundle(bundle.path, writable=True).seal(predicate)
    return audit(bundle.path).faults


def test_forged_bounds_of_a_property_that_holds_are_found(tmp_path: Path) -> None:
    bundle = ran(tmp_path, "sum <= 1.51")
    assert forged(bundle, *ENDS) == []
    (fault,) = forged(bundle, ENDS[0], ENDS[1] + [0.125, 0, 0])
    assert fault.text == "e, box, solver: it is proved to hold, and inputs give sum from 0.1 to 1.625"
    found = forged(bundle, ENDS[0] + [1.5, 0, 0], ENDS[1] + [1.5, 0, 0])
    assert "e, box, solver: it is proved to hold, and the bounds of its outputs exclude that" in [f.text for f in found]
    # These the records alone allow; the model does not.
    assert forged(bundle, ENDS[0] + [0, 1, 0], ENDS[1] + [0, 1, 0]) == []
    (fault,) = replay_all(Bundle.open(bundle.path), world_of(bundle, tmp_path, trust_code=False)).faults
    assert fault == "e, box: output difference of an input of the set lies outside the bounds that solver proved"


def test_bounds_that_exclude_a_witness_are_found(tmp_path: Path) -> None:
    bundle = ran(tmp_path, "sum <= 1.4")
    assert [r.verdict for r in bundle.records()] == [None, "broken"]
    assert forged(bundle, *ENDS) == []
    (fault,) = forged(bundle, ENDS[0], ENDS[1] - [0.25, 0, 0])
    assert fault.text == "e, box, solver: decided 1, which the bounds of `solver` exclude"


CLASSES = ("x", "y", "z")
Y: dict[str, Any] = {"is": "Symbol", "name": "y"}
RELATIONS = [
    ["x", "<=", "1"], ["x", "<", "1"], ["x", ">=", "1"], ["x", ">", "1"], ["x", "==", "1"], ["x", "<=", Y],
    ["x", "<", Y], ["x", ">=", Y], ["x", ">", Y], ["x", "is_min", None], ["x", "is_not_min", None],
    ["x", "is_max", None], ["x", "is_not_max", None],
]  # fmt: skip


def true(relation: list[Any], point: tuple[int, ...]) -> bool:
    """Of whole outputs, from the words of the language: the least (greatest) may share its place."""
    name, op, value = relation
    v = point[CLASSES.index(name)]
    if value is None:
        extreme = min(point) if op.endswith("min") else max(point)
        return (v == extreme) is not op.startswith("is_not")
    other = F(value) if isinstance(value, str) else F(point[CLASSES.index(value["name"])])
    return {"<=": v <= other, "<": v < other, ">=": v >= other, ">": v > other, "==": v == other}[op]


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda r: f"{r[1]} {r[2]}")
def test_exclusion_is_what_all_points_of_a_box_say(relation: list[Any]) -> None:
    """All boxes of whole corners in {0, 1, 2}: a decision is excluded only where no whole point has it, and a box that
    stays clear of every edge excludes it."""
    subject = {"always": [relation]}
    seen = set()
    for low in itertools.product(range(3), repeat=3):
        for high in itertools.product(*(range(v, 3) for v in low)):
            bounds = OutputBounds(*(np.array(end, dtype=float) for end in (low, low, high, high)))
            points = list(itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))))
            answers = {true(relation, p) for p in points}
            for decision, answer in ((0, True), (1, False)):
                gone = excluded(subject, CLASSES, bounds, 0.0, decision)
                assert not (gone and answer in answers), (low, high)
                seen.add((decision, gone))
    exact = relation[1] in ("==", "is_min", "is_max"), relation[1].startswith("is_not")
    assert {(0, True), (1, True)} - seen <= ({(1, True)} if exact[0] else {(0, True)} if exact[1] else set())


def test_alternatives_and_the_gap() -> None:
    bounds = OutputBounds(*np.array([[0.0, 2, 0], [0.0, 2, 0], [0.5, 3, 9], [0.5, 3, 9]]))
    either = {"always": [["x", ">=", "1"], ["y", "<=", "1"]]}
    assert [excluded(either, CLASSES, bounds, gap, 0) for gap in (0.0, 0.4, 0.6)] == [True, True, False]
    assert not excluded(either, CLASSES, bounds, 0.0, 1)
    other = replace(bounds, lower=np.array([1.5, 2, 0]), least=np.array([1.5, 2, 0]), greatest=np.array([2.0, 3, 9]),
                    upper=np.array([2.0, 3, 9]))  # fmt: skip
    assert excluded(either, CLASSES, other, 0.4, 1)
    assert not excluded(either, CLASSES, other, 0.6, 1)
