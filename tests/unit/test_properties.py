"""Properties from text to verdict, on networks whose answer is plain."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tmlang.audit.bundle import Bundle
from tmlang.audit.verify import audit
from tmlang.backends.asserted import Asserted, box_of
from tmlang.backends.decision import Decision
from tmlang.cli.front import read_spec
from tmlang.execute.runner import RunOptions, RunResult, run
from tmlang.meaning.models import Decide, Model, Network, Randomness
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Property
from tmlang.meaning.values import Symbol

F = Fraction

# y0 = a + b, y1 = a - b, y2 = 1/2.
SPEC = """tm 1
space inputs { a: real[-1, 1]  b: real[-1, 1] } stored as float32
model net: inputs -> {sum, difference, half} {
  network:  linear(weights: ((1, 1), (1, -1), (0, 0)), bias: (0, 0, 1/2))
  decide:   %s ties lowest
  random:   never
}
property phi on net { given: %s  always: %s }
evaluate e of phi { %s  seed: 0 }
claim "phi": holds(e)
"""
SPLIT = "decide_exactly: split = auto_lirpa.split(timeout: 20 's')"
SOLVER = "decide_exactly: solver = marabou.query(timeout: 20 's')"
SEARCH = "attack: search = native.pgd(restarts: 2)"


def ran(folder: Path, given: str, always: str, stages: str, rule: str = "argmax") -> RunResult:
    path = folder / "spec.tm"
    path.write_text(SPEC % (rule, given, always, stages))
    front = read_spec(str(path), {})
    assert front.plan is not None, front.diagnostics
    return run(front.plan, RunOptions(out=folder / "out"))


TABLE = [
    # On a in [0, 1], b in [0, 1/2]: the sum is in [0, 3/2], the difference in [-1/2, 1].
    ("a >= 0, b >= 0, b <= 1/2", "sum <= 3/2 or half < 0", "undecided"),  # true, by nothing: equality at a corner
    ("a >= 0, b >= 0, b <= 1/2", "sum <= 1.51", "holds"),
    ("a >= 0, b >= 0, b <= 1/2", "sum <= 1.49", "violated"),
    ("a >= 0, b >= 0, b <= 1/2", "difference >= -0.51", "holds"),
    ("a >= 0, b >= 0, b <= 1/2", "sum > difference", "violated"),  # equal at b = 0
    ("a >= 0, b >= 0.1, b <= 1/2", "sum > difference", "holds"),
    ("a >= 0, b >= 0.1, b <= 1/2", "difference is not max", "holds"),
    ("a >= 0, b >= 0.1, b <= 1/2", "sum is max", "violated"),  # half is more for small a
    ("a >= 0, b >= 0.1, b <= 1/2", "sum is max or half >= sum", "undecided"),  # true, by a hair
    ("a > 1/2, b > 0.1", "sum > half", "holds"),
    ("a >= 0.9, b >= 0.9", "half is min or difference is min", "holds"),
]


@pytest.mark.parametrize("stages", [SPLIT, SOLVER], ids=["split", "marabou"])
@pytest.mark.parametrize(("given", "always", "answer"), TABLE)
def test_complete_methods_give_the_answer(tmp_path: Path, given: str, always: str, answer: str, stages: str) -> None:
    found = ran(tmp_path, given, always, stages)
    if answer == "undecided":
        assert found.columns["e"].holds in ("undecided", "holds")
    else:
        assert found.columns["e"].holds == answer


@pytest.mark.parametrize(("given", "always", "answer"), TABLE)
def test_a_search_finds_violations_and_proves_nothing(tmp_path: Path, given: str, always: str, answer: str) -> None:
    if "sum > difference" in always and answer == "violated":
        pytest.skip("only the edge b = 0 violates it")
    found = ran(tmp_path, given, always, SEARCH)
    assert found.columns["e"].holds == ("violated" if answer == "violated" else "undecided")


def test_outputs_are_as_the_network_gives_them_under_argmin(tmp_path: Path) -> None:
    assert ran(tmp_path, "a >= 0, b >= 0.1", "sum <= 2.01", SPLIT, "argmin").columns["e"].holds == "holds"


def test_the_middle_of_the_box_is_a_witness_itself(tmp_path: Path) -> None:
    found = ran(tmp_path, "a >= 0, b >= 0", "sum <= 0.9", SPLIT)
    assert found.columns["e"].holds == "violated"
    assert found.exit_code == 3
    (row,) = Bundle.open(tmp_path / "out").records()
    assert (row.stage, row.clean, row.observed_failure, row.decision) == ("clean", "cw", True, 1)
    assert row.candidate is not None
    stored, _, _ = Bundle.open(tmp_path / "out").candidate(row.candidate)
    assert stored.tolist() == [0.5, 0.5]
    assert not audit(tmp_path / "out").faults


def test_a_strict_bound_begins_at_the_next_float() -> None:
    space = Space("s", (2,), (Cell("real", F(0), F(1)), Cell("lattice", F(0), F(1), F(1, 4))), features=("a", "b"))
    phi = Property("p", "m", (("a", ">", F(1, 2)), ("b", "<", F(1, 2))), (("u", "<=", F(0)),))
    box = box_of(phi, space)
    assert box.cells[0].low == F(float(np.nextafter(np.float32(0.5), np.float32(1))))
    assert (box.cells[1].low, box.cells[1].high) == (F(0), F(1, 4))
    phi = Property("p", "m", (("b", ">", F(3, 10)), ("b", "<=", F(9, 10))), (("u", "<=", F(0)),))
    assert (box_of(phi, space).cells[1].low, box_of(phi, space).cells[1].high) == (F(1, 2), F(3, 4))


class Fixed(torch.nn.Module):
    """Stands for a deployed model that gives these outputs."""

    dtype = torch.float32

    def __init__(self, outputs: torch.Tensor) -> None:
        super().__init__()
        self.outputs = outputs

    def raw(self, _: torch.Tensor) -> torch.Tensor:
        return self.outputs


CLASSES = ("u", "v", "w")
NUMBERS = st.sampled_from([F(0), F(1, 10), F(-1, 3), F(1), F(0.1), F(float(np.float32(0.1)))])
ALTERNATIVE = st.one_of(
    st.tuples(st.sampled_from(CLASSES), st.sampled_from(["<=", "<", ">=", ">", "=="]), NUMBERS),
    st.tuples(
        st.sampled_from(CLASSES), st.sampled_from(["<=", "<", ">=", ">", "=="]), st.sampled_from(CLASSES).map(Symbol)
    ),
    st.tuples(st.sampled_from(CLASSES), st.sampled_from(["is_min", "is_not_min", "is_max", "is_not_max"]), st.none()),
)
OUTPUTS = st.lists(st.sampled_from([0.0, 0.1, -0.1, 1.0, -1 / 3, 1e-38, -0.0]), min_size=3, max_size=3)


def by_hand(alternative: tuple[str, str, object], exact: dict[str, Fraction]) -> bool:
    name, op, value = alternative
    left = exact[name]
    if value is None:
        edge = min(exact.values()) if op.endswith("min") else max(exact.values())
        return (left == edge) != ("not" in op)
    right = exact[value.name] if isinstance(value, Symbol) else value
    assert isinstance(right, Fraction)
    return {"<=": left <= right, "<": left < right, ">=": left >= right, ">": left > right, "==": left == right}[op]


@settings(max_examples=300, deadline=None)
@given(st.lists(ALTERNATIVE, min_size=1, max_size=3), OUTPUTS)
def test_a_property_is_decided_as_rationals_decide_it(
    always: list[tuple[str, str, object]], outputs: list[float]
) -> None:
    """... and every violating output lies in one of the closed polyhedra that verifiers are asked about."""
    if any(isinstance(v, Symbol) and v.name == n for n, _, v in always):
        return
    raw = torch.tensor([outputs], dtype=torch.float32)
    model = Model("m", "s", CLASSES, (), Network("onnx"), Decide("argmax", ties="lowest"), Randomness("never"))
    asserted = Asserted(Fixed(raw), Decision(model), Property("p", "m", (), tuple(always)))  # type: ignore[arg-type]
    exact = {name: F(float(v)) for name, v in zip(CLASSES, raw[0], strict=True)}
    holds = any(by_hand(a, exact) for a in always)
    score = asserted(raw)[0]
    assert (float(score[1]) > float(score[0])) == (not holds)
    if not holds:
        inside = [all((row @ raw[0].double()) + edge >= 0 for row, edge in part) for part in asserted.violations()]
        assert any(inside)
