"""Unions are proved branch by branch: certified iff every branch is. Against every input of small lattices."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction as F
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from execute_support import MODEL, THREAT, data, plan, stage

from tmlang.audit.bundle import Bundle
from tmlang.audit.columns import Restriction
from tmlang.audit.tally import tally
from tmlang.audit.verify import audit
from tmlang.execute.runner import RunOptions, RunResult, run
from tmlang.meaning.models import Decide, Network, Take
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Allowed, Ball, Both, Either
from tmlang.meaning.values import Quantity
from tmlang.plan.ir import Plan
from tmlang.plan.support import support

pytestmark = pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")

LEVELS = 16
PAIR = Space("pair", (2,), (Cell("lattice", F(0), F(1), F(1, LEVELS)),), features=("a", "b"))
# a + b < 1 is "lo".
LINE = replace(
    MODEL,
    network=Network("linear", args=(("weights", ((F(-1), F(-1)), (F(1), F(1)))), ("bias", (F(1), F(-1) - F(1, 32))))),
    decide=Decide("argmax", "lowest"),
)


def only(feature: str, r: F) -> Ball:
    return Ball("linf", "pair", radii=((feature, r),), per="feature")


def union(r: F, names: tuple[str, ...] = ("flat", "steep")) -> Either:
    """Either number may move by ``r``, not both."""
    return Either((only("a", r), only("b", r)), names)


def made(folder: Path, allow: Allowed, backend: str = "auto_lirpa", method: str = "crown") -> tuple[Plan, np.ndarray]:
    """Every third point of the lattice; for the slow methods sixteen points 0 to 10 levels from the line."""
    grid = np.array(list(itertools.product(range(LEVELS + 1), repeat=2)))[::3]
    if method != "crown":
        grid = np.array([(8 + d, 8 + k) for d in range(-4, 4) for k in (-2, 2)])
    labels = (grid.sum(axis=1) > LEVELS).astype(int)
    role = "certify" if method == "crown" else "decide_exactly"
    limits = (("timeout", Quantity(F(60), "s")), ("memory", F(2048)))
    given = {"crown": (), "split": limits[:1], "query": limits}[method]
    rows = replace(data(folder, (grid / LEVELS).tolist(), labels.tolist()), takes=(Take("all"),))
    one = stage(method, role, backend=backend, arguments=given)
    return plan(folder, rows, [one], space=PAIR, model=LINE, threat=replace(THREAT, allow=allow), claims=()), grid


def robust(grid: np.ndarray, steps: int, *axes: int) -> list[bool]:
    """Whether no move by up to ``steps`` levels along one of ``axes`` crosses the line, in whole numbers."""
    found = []
    for point in grid:
        side = point.sum() > LEVELS
        moved = [
            np.clip(point + step * np.eye(2, dtype=int)[axis], 0, LEVELS)
            for axis in axes
            for step in range(-steps, steps + 1)
        ]
        found.append(all((m.sum() > LEVELS) == side for m in moved))
    return found


def ran(folder: Path, plan_: Plan) -> RunResult:
    return run(plan_, RunOptions(out=folder / "out"))


@pytest.mark.parametrize(
    ("backend", "method"), [("auto_lirpa", "crown"), ("auto_lirpa", "split"), ("marabou", "query")]
)
def test_certified_iff_every_branch_is(backend: str, method: str, tmp_path: Path) -> None:
    if backend == "marabou" and find_spec("maraboupy") is None:
        pytest.skip("Marabou is not installed")
    plan_, grid = made(tmp_path, union(F(3, LEVELS)), backend, method)
    result = ran(tmp_path, plan_)
    rows = Bundle.open(tmp_path / "out").records()
    expected = robust(grid, 3, 0, 1)
    columns = result.columns["e"]
    assert columns.counts.certified == sum(expected)
    assert 0 < sum(expected) < len(expected)
    for part, axis in (("flat", 0), ("steep", 1)):
        only_part = Restriction(part=part)
        column = tally(plan_.evaluations[0], plan_.subjects[0], rows, restriction=only_part).get("certified")
        assert column is not None
        assert column.numerator == sum(robust(grid, 3, axis))
    assert {r.branch for r in rows if r.stage == method and r.verdict == "certified"} == {"flat", "steep"}
    assert not audit(tmp_path / "out").faults


def test_the_hull_would_prove_less(tmp_path: Path) -> None:
    """Both numbers may move in the hull, so a distance of 4 levels falls to 3 + 3, and to neither alone."""
    hull = Ball("linf", "pair", F(3, LEVELS))
    plan_, grid = made(tmp_path, hull)
    assert ran(tmp_path, plan_).columns["e"].counts.certified < sum(robust(grid, 3, 0, 1))


def test_a_witness_of_one_branch_contradicts_no_certificate_of_the_other(tmp_path: Path) -> None:
    uneven = Either((only("a", F(1, LEVELS)), only("b", F(5, LEVELS))), ("", ""))
    plan_, grid = made(tmp_path, uneven, method="split")
    columns = ran(tmp_path, plan_).columns["e"]
    assert columns.contradictions == ()
    expected = [a and b for a, b in zip(robust(grid, 1, 0), robust(grid, 5, 1), strict=True)]
    assert columns.counts.certified == sum(expected)
    assert columns.counts.broken_any_access == len(expected) - sum(expected)


def test_a_union_within_an_intersection_is_proved_by_its_hull_and_says_so() -> None:
    from backend_support import method

    inner = Both((Ball("linf", "pair", F(1, 2)), union(F(1, 4))))
    for path in ("auto_lirpa.crown", "auto_lirpa.split"):
        nested = support(method(path), replace(THREAT, allow=inner), LINE, PAIR)
        assert nested.lowering == "outer"
        assert any("union" in reason for reason in nested.reasons)
        real = replace(PAIR, cells=(Cell("real", F(0), F(1)),))
        assert support(method(path), replace(THREAT, allow=union(F(1, 4))), LINE, real).lowering == "exact"
