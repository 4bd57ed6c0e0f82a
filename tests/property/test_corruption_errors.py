"""Corruption errors by all three roads, against the definition tried on every completion of what is open."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from audit_support import Rows, attack, evaluation, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sql import agrees

from tmlang.audit.claims import judge
from tmlang.audit.rejudge import status
from tmlang.base import canonical
from tmlang.meaning.evaluations import Claim, Measured, RoundsTo
from tmlang.meaning.threats import Shift
from tmlang.meaning.values import Call, Symbol
from tmlang.plan.text import plan_json

F = Fraction
PUBLISHED = attack("apply", role="corrupt", method="as_published", evidence="estimate")
SET = Shift("t", "net", "test", (Call(("native", "as_published")),), "wilson", F(95, 100))
THREE_QUARTERS = F(3, 4)
Said = tuple[str, int, str]
"""Corruption, severity, and ``right``, ``wrong`` or ``open`` of one example."""


def change(corruption: str, severity: int) -> Any:
    label = f"{corruption}_{severity}"
    return attack(label, role="corrupt", method=corruption, evidence="estimate", arguments=(("severity", F(severity)),))


def answer(rows: Rows, unit: str, stage: str, said: Said) -> None:
    corruption, severity, outcome = said
    by: dict[str, Any] = {"corruption": corruption, "severity": severity}
    if outcome == "open":
        rows.attack(unit, stage, "timeout", **by)
    else:
        rows.attack(unit, stage, status="valid", within_scope=True, decision=int(outcome == "wrong"), **by)


def published(name: str, said: list[Said]) -> list[Any]:
    rows = Rows(name)
    for i, of_one in enumerate(said):
        rows.clean(f"u{i}", corruption=of_one[0], severity=of_one[1])
        answer(rows, f"u{i}", "apply", of_one)
    return rows.all


def changed(name: str, clean: list[str], said: dict[tuple[str, int], list[str]]) -> list[Any]:
    rows = Rows(name)
    for i, before in enumerate(clean):
        rows.clean(f"u{i}", before)
        for (corruption, severity), outcomes in said.items():
            answer(rows, f"u{i}", f"{corruption}_{severity}", (corruption, severity, outcomes[i]))
    return rows.all


def claim(quantity: str = "mce", op: Any = "<=", right: Any = THREE_QUARTERS) -> Claim:
    return Claim(f"{quantity} {op} {right}", Measured(quantity, "e", (("baseline", Symbol("b")),)), op, right)


def by_all_roads(whole: Any, rows: list[Any]) -> tuple[Any, Any, str]:
    """The range and the reason, the same by the tally and by the auditor's second reading."""
    (one,) = whole.claims
    judged = judge(one, whole, rows)
    raw = canonical.loads(plan_json(whole))
    found, ends = status(raw, raw["claims"][0], rows, frozenset())
    assert (found, ends) == (judged.status, None if judged.low is None else (judged.low, judged.high))
    return judged.low, judged.high, judged.reason


def of_published(own: list[Said], base: list[Said], one: Claim) -> tuple[Any, list[Any]]:
    sides = [evaluation(PUBLISHED), evaluation(PUBLISHED, name="b")]
    return plan(sides, [SET], claims=(one,)), published("e", own) + published("b", base)


def test_it_is_a_mean_of_ratios_and_no_ratio_of_pooled_errors() -> None:
    """By hand: fog 5 of 10 against 10 of 10 is 1/2, blur 1 of 10 against 1 of 10 is 1, their mean 3/4; pooled 6/11."""
    own = [("fog", 1, "wrong" if i < 5 else "right") for i in range(10)]
    base = [("fog", 1, "wrong")] * 10
    blur = [("blur", 1, "wrong" if i < 1 else "right") for i in range(10)]
    low, high, reason = by_all_roads(*of_published(own + blur, base + blur, claim()))
    assert (low, high) == (F(3, 4), F(3, 4))
    assert "the mean over 2 corruptions, at severity 1" in reason
    assert agrees(*of_published(own + blur, base + blur, claim("mce", "rounds_to", RoundsTo(F(3, 4), 2, False)))) == {
        "supported"
    }


def test_errors_are_summed_over_severities_before_they_are_divided() -> None:
    """By hand: fog 1/4 + 3/4 over 2/4 + 4/4 is 2/3; the ratios of the severities, 1/2 and 3/4, have the mean 5/8. A
    severity with more examples than another weighs the same: errors are rates."""
    own = [("fog", 1, o) for o in ("wrong", "right", "right", "right")]
    own += [("fog", 2, o) for o in ("wrong", "wrong", "wrong", "right") * 2]
    base = [("fog", 1, o) for o in ("wrong", "wrong", "right", "right")] + [("fog", 2, "wrong")] * 8
    whole, rows = of_published(own, base, claim())
    assert by_all_roads(whole, rows)[:2] == (F(2, 3), F(2, 3))
    assert agrees(whole, rows) == {"supported"}


def test_a_relative_error_is_of_what_is_lost() -> None:
    """By hand, clean error 1/4 of both: fog (2/4 - 1/4) + (3/4 - 1/4) over (3/4 - 1/4) + (4/4 - 1/4) is 3/5, snow
    (1/4 - 1/4) over (2/4 - 1/4) is 0; the mean is 3/10."""
    clean = ["cc", "cc", "cc", "cw"]
    cells = [("fog", 1), ("fog", 2), ("snow", 1)]
    errors = {"e": (2, 3, 1), "b": (3, 4, 2)}
    rows = []
    for name, wrong in errors.items():
        told = {c: ["wrong"] * k + ["right"] * (4 - k) for c, k in zip(cells, wrong, strict=True)}
        rows += changed(name, clean, told)
    stages = [change(*c) for c in cells]
    whole = plan([evaluation(*stages), evaluation(*stages, name="b")], [SET], claims=(claim("relative_mce"),))
    assert by_all_roads(whole, rows)[:2] == (F(3, 10), F(3, 10))
    assert agrees(whole, rows) == {"supported"}


def test_less_error_than_before_any_change_is_a_negative_loss() -> None:
    """By hand: fog mends an example: (0/2 - 1/2) over (2/2 - 1/2) is -1."""
    stages = [change("fog", 1)]
    rows = changed("e", ["cc", "cw"], {("fog", 1): ["right", "right"]})
    rows += changed("b", ["cc", "cw"], {("fog", 1): ["wrong", "wrong"]})
    whole = plan([evaluation(*stages), evaluation(*stages, name="b")], [SET], claims=(claim("relative_mce"),))
    assert by_all_roads(whole, rows)[:2] == (-1, -1)
    assert agrees(whole, rows) == {"supported"}


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("right", "the baseline has no error under fog"),
        ("open", "the baseline may have no error under fog"),
    ],
)
def test_without_an_error_of_the_baseline_there_is_no_ratio(base: str, said: str) -> None:
    whole, rows = of_published(
        [("fog", 1, "wrong"), ("snow", 1, "wrong")], [("fog", 1, base), ("snow", 1, "wrong")], claim()
    )
    low, high, reason = by_all_roads(whole, rows)
    assert (low, high) == (None, None)
    assert said in reason
    assert agrees(whole, rows) == {"undecided"}


def test_other_corruptions_are_no_baseline() -> None:
    whole, rows = of_published([("fog", 1, "wrong")], [("fog", 2, "wrong")], claim())
    assert "the two do not say the same corruptions" in by_all_roads(whole, rows)[2]
    assert agrees(whole, rows) == {"undecided"}


def test_a_set_of_corrupted_inputs_has_nothing_before_the_change() -> None:
    whole, rows = of_published([("fog", 1, "wrong")], [("fog", 1, "wrong")], claim("relative_mce"))
    assert "nothing is known of the originals" in by_all_roads(whole, rows)[2]
    assert agrees(whole, rows) == {"undecided"}


def mean_of_ratios(own: list[Said], base: list[Said]) -> F | None:
    """Section 4.2 as it stands, of outcomes that are all known."""
    ratios = []
    for corruption in {c for c, _, _ in own}:
        sums = []
        for said in (own, base):
            strengths = {s for c, s, _ in said if c == corruption}
            rates = [[o == "wrong" for c, t, o in said if (c, t) == (corruption, s)] for s in strengths]
            sums.append(sum((F(sum(r), len(r)) for r in rates), F(0)))
        if not sums[1]:
            return None
        ratios.append(sums[0] / sums[1])
    return sum(ratios, F(0)) / len(ratios)


def completions(said: list[Said]) -> Any:
    """Every way in which what is open may turn out."""
    for chosen in product(*(("right", "wrong") if o == "open" else (o,) for _, _, o in said)):
        yield [(c, s, o) for (c, s, _), o in zip(said, chosen, strict=True)]


CELLS = st.lists(st.tuples(st.sampled_from(["fog", "snow", "blur"]), st.integers(1, 2)), min_size=1, max_size=5)


@given(st.data(), CELLS)
@settings(max_examples=120, deadline=None)
def test_the_range_is_that_of_all_completions(data: Any, cells: list[tuple[str, int]]) -> None:
    outcome = st.sampled_from(["right", "wrong", "wrong", "open"])
    own, base = ([(*cell, data.draw(outcome)) for cell in cells] for _ in range(2))
    low, high, _ = by_all_roads(*of_published(own, base, claim()))
    values = [mean_of_ratios(a, b) for a, b in product(completions(own), completions(base))]
    if None in values:
        assert (low, high) == (None, None)
    else:
        assert (low, high) == (min(values), max(values))  # type: ignore[type-var]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_relative_range_holds_all_completions(data: Any) -> None:
    """Clean decisions that are unknown stand in every sum at once, so the range may be wider than the completions."""
    cells = [("fog", 1), ("fog", 2), ("snow", 1)][: data.draw(st.integers(1, 3))]
    n = data.draw(st.integers(1, 3))
    outcome = st.sampled_from(["right", "wrong", "wrong", "open"])
    told = [({c: [data.draw(outcome) for _ in range(n)] for c in cells}) for _ in range(2)]
    clean = [[data.draw(st.sampled_from(["cc", "cc", "cw", "cu"])) for _ in range(n)] for _ in range(2)]
    stages = [change(*c) for c in cells]
    rows = changed("e", clean[0], told[0]) + changed("b", clean[1], told[1])
    whole = plan([evaluation(*stages), evaluation(*stages, name="b")], [SET], claims=(claim("relative_mce"),))
    low, high, _ = by_all_roads(whole, rows)
    if low is None:
        return
    sides = []
    for side in range(2):
        flat = [(c, s, o) for (c, s), outcomes in told[side].items() for o in outcomes]
        wrongs = [sum(e) for e in product(*((0, 1) if c == "cu" else (int(c != "cc"),) for c in clean[side]))]
        sides.append([(done, F(w, n)) for done in completions(flat) for w in set(wrongs)])
    for (mine, before), (theirs, base_before) in product(*sides):
        ratios = []
        for corruption in {c for c, _ in cells}:
            sums = []
            for said, clean_error in ((mine, before), (theirs, base_before)):
                strengths = [s for c, s in cells if c == corruption]
                wrong = [F(sum(o == "wrong" for c, t, o in said if (c, t) == (corruption, s)), n) for s in strengths]
                sums.append(sum((w - clean_error for w in wrong), F(0)))
            ratios.append(sums[0] / sums[1])
        assert low <= sum(ratios, F(0)) / len(ratios) <= high


def test_the_table_has_a_line_for_each_corruption_and_severity() -> None:
    from tmlang.audit.tally import tally_plan

    whole, rows = of_published([("fog", 1, "wrong"), ("fog", 2, "open"), ("blur", 1, "right")], [], claim())
    columns = tally_plan(replace(whole, evaluations=whole.evaluations[:1]), rows)["e"]
    assert [(at, c.low, c.high, c.denominator) for at, c in columns.corrupted] == [
        (("blur", 1), 1, 1, 1),
        (("fog", 1), 0, 0, 1),
        (("fog", 2), 0, 1, 1),
    ]
    assert columns.get("clean_accuracy") is None
