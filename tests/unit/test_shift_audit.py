"""The auditor's second road to the numbers of shifts: counts, corruption errors and intervals against the first."""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from audit_support import Rows, attack, evaluation, make_bundle, plan, sealed
from hypothesis import given
from hypothesis import strategies as st

from tmlang.audit.claims import judge
from tmlang.audit.recorrupt import shift_counts
from tmlang.audit.recount import Only, Recount
from tmlang.audit.rejudge import status
from tmlang.audit.tally import tally
from tmlang.audit.verify import audit
from tmlang.base import canonical
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.threats import Shift
from tmlang.meaning.values import Call, Symbol
from tmlang.plan.text import plan_json

F = Fraction
FOG = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "wilson", F(95, 100))
STAGE = attack(
    "apply",
    role="corrupt",
    backend="imagecorruptions",
    method="fog",
    evidence="estimate",
    arguments=(("severity", F(3)),),
)
BY_FOG: Any = {"corruption": "fog", "severity": 3}


def told(name: str, *answers: str) -> Rows:
    """``right``, ``wrong`` or ``error`` of u0, u1, …"""
    rows = Rows(name)
    for i, answer in enumerate(answers):
        outcome = {"right": {"decision": 0}, "wrong": {"decision": 1}}.get(answer)
        rows.clean(f"u{i}")
        if outcome is None:
            rows.attack(f"u{i}", "apply", answer, **BY_FOG)
        else:
            rows.attack(f"u{i}", "apply", status="valid", within_scope=True, **outcome, **BY_FOG)
    return rows


@pytest.mark.parametrize(
    ("own", "base", "ends"),
    [
        # 1/4 over 1/2; an error between 1/4 and 2/4; a baseline between 1/4 and 2/4; one without any; one that may be.
        (("right", "right", "right", "wrong"), ("right", "right", "wrong", "wrong"), (F(1, 2), F(1, 2))),
        (("right", "right", "error", "wrong"), ("right", "right", "wrong", "wrong"), (F(1, 2), F(1))),
        (("right", "right", "right", "wrong"), ("right", "right", "error", "wrong"), (F(1, 2), F(1))),
        (("right", "right", "right", "wrong"), ("right", "right", "right", "right"), None),
        (("right", "right", "right", "wrong"), ("right", "right", "right", "error"), None),
    ],
)
def test_corruption_errors_are_divided_twice(own: Any, base: Any, ends: Any) -> None:
    claim = Claim("c", Measured("mce", "e", (("baseline", Symbol("b")),)), "<=", F(3, 4))
    whole = plan([evaluation(STAGE), evaluation(STAGE, name="b")], [FOG], claims=(claim,))
    rows = told("e", *own).all + told("b", *base).all
    raw = canonical.loads(plan_json(whole))
    found = status(raw, raw["claims"][0], rows, frozenset())
    judged = judge(claim, whole, rows)
    assert found == (judged.status, ends)
    assert (judged.low, judged.high) == (ends or (None, None))


ANSWERS = st.lists(st.sampled_from(["right", "wrong", "error", "timeout", "invalid", "unstable", "none"]), max_size=6)


@given(ANSWERS, st.integers(1, 2), st.lists(st.sampled_from(["cc", "cw", "cr", "cu"]), min_size=6, max_size=6))
def test_counts_agree(answers: list[str], repeats: int, clean: list[Any]) -> None:
    rows = [replace(r, clean=clean[int(r.unit[1:])]) for r in told("e", *answers).all]
    rows += [replace(r, repeat=1) for r in rows if r.stage == "apply"] if repeats == 2 else []
    made = evaluation(STAGE, repeats=repeats)
    whole = plan([made], [FOG])
    raw = canonical.loads(plan_json(whole))
    recounted = Recount(raw["evaluations"][0], raw["subjects"][0], rows, frozenset(), Only())
    ours = {k: v for k, v in asdict(tally(made, FOG, rows).counts).items() if k in shift_counts(recounted)}
    assert shift_counts(recounted) == ours


def spoiled(key: str, value: Any) -> Any:
    def change(numbers: dict[str, Any]) -> None:
        numbers["evaluations"]["e"]["counts"][key] = value

    return change


def test_a_count_that_is_told_otherwise_is_seen(tmp_path: Path) -> None:
    from tmlang.audit.shift_rows import seed_of

    raw = canonical.loads(plan_json(plan([evaluation(STAGE)], [FOG])))["evaluations"][0]
    rows = [
        r if r.stage == "clean" else replace(r, within_access=None, observed_failure=None)
        for r in told("e", "right", "wrong").all
    ]
    rows = [r if r.stage == "clean" else replace(r, seed=seed_of(0, r, raw["stages"][0])) for r in rows]
    whole = plan([evaluation(STAGE)], [FOG])
    sealed(make_bundle(tmp_path / "fine", whole, rows))
    assert [f.text for f in audit(tmp_path / "fine").faults if "count" in f.text] == []
    sealed(make_bundle(tmp_path / "told", whole, rows, told=spoiled("unfinished", 1)))
    assert [f.text for f in audit(tmp_path / "told").faults if "count" in f.text] == [
        "e: the count unfinished 1 for 0 is told"
    ]
