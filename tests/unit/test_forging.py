"""How much must be forged to turn a claim, and how likely a random part misses it: every number by hand."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations
from typing import Any

import pytest
from audit_support import Rows, attack, certifier, evaluation, plan, threat, worked_example
from hypothesis import given
from hypothesis import strategies as st

from tmlang.audit.forging import Drawn, chances, draw, held, least_examples, missed
from tmlang.base import canonical
from tmlang.meaning.evaluations import Claim, Measured, RoundsTo
from tmlang.meaning.threats import Goal
from tmlang.plan.text import plan_json


def of(claim: Claim, rows: Any, **changes: Any) -> int | None:
    stages = changes.pop("stages", (attack(), certifier()))
    whole = plan([evaluation(*stages)], [threat(**changes)], claims=(claim,))
    raw = canonical.loads(plan_json(whole))
    return least_examples(raw, raw["claims"][0], rows, frozenset())


def test_the_chance_to_miss_by_hand() -> None:
    """C(8, 3) / C(10, 3) = 56 / 120 for 2 of 10 forged and 3 looked at; nothing is missed once 9 are looked at."""
    assert missed(10, 2, 3) == F(7, 15)
    assert missed(10, 2, 9) == 0
    assert missed(10, 0, 3) == 1
    assert missed(10, 2, 0) == 1


@given(st.integers(1, 7), st.data())
def test_the_chance_to_miss_by_counting_every_draw(examples: int, data: st.DataObject) -> None:
    forged, chosen = data.draw(st.integers(0, examples)), data.draw(st.integers(0, examples))
    draws = [set(d) for d in combinations(range(examples), chosen)]
    assert missed(examples, forged, chosen) == F(sum(d.isdisjoint(range(forged)) for d in draws), len(draws))


@pytest.mark.parametrize(
    ("forged", "together", "least"),
    [
        (1, [4, 4, 4], 4),  # whoever forges one of a group has all four of it looked at
        (5, [4, 4, 4], 8),
        (2, [4, 4, 2], 2),  # two fit into the short group
        (3, [4, 4, 2], 4),
        (5, [4, 4, 2], 6),
        (9, [4, 4, 2], 10),
        (3, [1, 1, 1, 1], 3),
        (3, [2, 3, 5], 3),  # unlike groups: no more than is sure
        (1, [2, 3, 5], 2),
        (4, [9], 9),
    ],
)
def test_what_is_looked_at_together(forged: int, together: list[int], least: int) -> None:
    assert held(forged, together) == least
    if len(set(sorted(together)[1:])) <= 1:  # against every choice of groups
        fits = [sum(g) for n in range(len(together) + 1) for g in combinations(together, n) if sum(g) >= forged]
        assert least == min(fits)


@pytest.mark.parametrize(
    ("quantity", "op", "right", "least"),
    [
        # The worked example: survival [40, 52] of 100, certified 20, R in [20, 52], clean accuracy [80, 82].
        ("survival", ">=", F(35, 100), 6),  # 40 -> 34
        ("survival", ">=", F(40, 100), 1),
        ("survival", ">=", F(53, 100), 1),  # refuted at 52: one more and it is open
        ("survival", ">=", F(60, 100), 8),
        ("survival", ">=", F(45, 100), 5),  # undecided: supported once 40 is 45, refuted once 52 is 44
        ("survival", "<=", F(60, 100), 9),
        ("survival", ">=", F(0), None),  # nothing makes a share negative
        ("clean_accuracy", ">", F(70, 100), 10),
        ("robust_accuracy", "<=", F(57, 100), 6),
    ],
)
def test_the_least_number_of_examples_by_hand(quantity: str, op: Any, right: F, least: int | None) -> None:
    claim = Claim("c", Measured(quantity, "e"), op, right)
    assert (
        of(claim, worked_example(), stages=(attack(),) if quantity == "survival" else (attack(), certifier())) == least
    )


def test_digits_that_are_told_turn_with_one_example() -> None:
    claim = Claim("c", Measured("clean_answered", "e"), "rounds_to", RoundsTo(F(93, 100), 0, percent=True))
    assert of(claim, worked_example()) == 1  # [92, 94] %, and 93 +- 1/2 is open: any end that moves


def test_one_witness_forged_away_may_hold_a_whole_method() -> None:
    """20 of 100 are certified; were one of them broken by a witness, the method would be void."""
    claim = Claim("c", Measured("certified", "e"), ">=", F(10, 100))
    assert of(claim, worked_example()) == 1


def test_pairs_of_one_example_are_forged_together() -> None:
    rows = Rows()
    for i in range(5):
        for target in (1, 2, 3):
            unit = f"u{i}->{target}"
            rows.clean(unit, target=target).attack(unit, "a", "none")
    claim = Claim("c", Measured("survival", "e"), ">=", F(11, 15))  # 15 of 15: five pairs, in two examples
    assert of(claim, rows.all, stages=(attack(),), goal=Goal("each", each="apart")) == 2
    claim = Claim("c", Measured("survival", "e"), ">=", F(4, 5))  # 5 of 5 examples: two of them
    assert of(claim, rows.all, stages=(attack(),), goal=Goal("each", each="any")) == 2


def test_what_is_drawn_is_drawn_again_from_its_seed() -> None:
    names = [str(i) for i in range(50)]
    assert draw(names, 5, 3) == draw(names, 5, 3) != draw(names, 5, 4)
    assert len(draw(names, 5, 3)) == 5
    assert draw(names, 50, 0) == set(names)


def test_claims_of_a_plan_with_their_chances() -> None:
    claim = Claim("c", Measured("survival", "e"), ">=", F(35, 100))
    raw = canonical.loads(plan_json(plan([evaluation(attack())], [threat()], claims=(claim,))))
    (found,) = chances(raw, worked_example(), frozenset(), {"e": Drawn(3, [1] * 100)})
    # C(94, 3) / C(100, 3)
    assert found == ("c", 6, F(94 * 93 * 92, 100 * 99 * 98))
