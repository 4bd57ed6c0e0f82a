"""Evidence has a direction: every set of stages against every quantity and comparison (LANGUAGE.md section 7)."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import found

STAGES = {
    "attack": "attack:  a = native.apgd()",
    "certify": "certify:  c = auto_lirpa.crown()",
    "decide_exactly": "decide_exactly:  d = marabou.query(timeout: 60 's')",
    "enumerate": "enumerate:  e = native.enumerate(at_most: 10)",
}
ROLES = [set(c) for n in range(1, 5) for c in itertools.combinations(STAGES, n)]
COMPARISONS = (">= 40 %", "> 40 %", "<= 40 %", "< 40 %", "== 40 %", "rounds to 40.0 %")


def evaluation(roles: set[str], *, of: str = "linf8", name: str = "aa") -> str:
    stages = "".join(f"  {STAGES[r]}\n" for r in STAGES if r in roles)
    return f"evaluate {name} of {of} {{\n{stages}  attribution:  full\n  seed:  0\n}}\n"


def wanted(roles: set[str], quantity: str, comparison: str) -> str | None:
    """A witness proves R <= …, a bound R >= …, a complete method both."""
    complete = bool(roles & {"decide_exactly", "enumerate"})
    bounds_below, bounds_above = complete or "certify" in roles, complete or "attack" in roles
    if quantity == "certified":
        return None if bounds_below else "TM602"
    if quantity == "survival":
        return None if bounds_above else "TM619"
    if quantity == "coverage":
        return None
    if not comparison.startswith("<") and not bounds_below:
        return "TM601"
    if not comparison.startswith(">") and not bounds_above:
        return "TM614"
    return None


@pytest.mark.parametrize("roles", ROLES, ids=lambda r: "+".join(sorted(r)))
@pytest.mark.parametrize("quantity", ["robust_accuracy", "robust_rate", "certified", "survival", "coverage"])
def test_a_claim_needs_evidence_of_its_direction(roles: set[str], quantity: str) -> None:
    for comparison in COMPARISONS:
        text = evaluation(roles) + f'claim "survival": {quantity}(aa) {comparison}\n'
        code = wanted(roles, quantity, comparison)
        assert found(text) == ([(code, quantity)] if code else []), comparison


OTHER = """
model hardened: px -> classes(10) {
  network:  torch("victims.py:resnet18", weights: "hardened.safetensors")
  decide:   argmax ties lowest
  random:   never
}

data half: px {
  read:   npz("test.npz", inputs: "x", labels: "y")
  take:   first 500
  truth:  published "CIFAR-10 test labels"
}

"""
THREAT = {
    "allow": "linf <= 8/255 in px",
    "mutable": "all",
    "goal": "untargeted",
    "access": "white_box",
    "clean_errors": "fail",
}


def threat(over: str = "test", **changed: str) -> str:
    clauses = "".join(f"  {k}:  {v}\n" for k, v in {**THREAT, **changed}.items())
    return f"threat other on hardened over {over} {{\n{clauses}}}\n"


@pytest.mark.parametrize(
    ("second", "same"),
    [
        (threat(), True),
        (threat(allow="linf <= 16/510 in px"), True),
        (threat(allow="linf <= 4/255 in px"), False),
        (threat(allow="l2 <= 8/255 in px"), False),
        (threat(allow="linf <= 8/255 in px tolerance 1e-4"), False),
        (threat(mutable="rows 0..3"), False),
        (threat(clean_errors="excluded"), False),
        (threat(goal="targeted class 3"), False),
        (threat(over="half"), False),
    ],
)
def test_numbers_compare_if_only_the_model_differs(second: str, same: bool) -> None:
    both = evaluation({"attack", "certify"}, of="other", name="bb") + evaluation({"attack", "certify"})
    text = OTHER + second + both + 'claim "survival": certified(bb) >= survival(aa)\n'
    assert found(text) == ([] if same else [("TM605", "survival(aa)")])


@pytest.mark.parametrize(
    ("greater", "smaller", "code"),
    [
        ({"attack", "certify"}, {"attack"}, None),
        ({"certify"}, {"attack"}, None),
        ({"attack"}, {"attack"}, ("TM601", "robust_accuracy")),
        ({"certify"}, {"certify"}, ("TM614", "robust_accuracy")),
        ({"enumerate"}, {"enumerate"}, None),
    ],
)
def test_more_robust_needs_a_bound_on_one_side_and_a_witness_on_the_other(
    greater: set[str], smaller: set[str], code: tuple[str, str] | None
) -> None:
    text = OTHER + threat() + evaluation(greater, of="other", name="bb") + evaluation(smaller)
    for claim in ("robust_accuracy(bb) >= robust_accuracy(aa)", "robust_accuracy(aa) <= robust_accuracy(bb)"):
        assert found(text + f'claim "survival": {claim}\n') == ([code] if code else [])


@pytest.mark.parametrize(
    ("right", "code"),
    [
        ("45", ("TM615", "45")),
        (">= 0 %", ("TM615", "0 %")),
        ("<= 100 %", ("TM615", "100 %")),
        ("> 100 %", ("TM615", "100 %")),
        ("< 0 %", ("TM615", "0 %")),
        ("<= 0 %", None),
        (">= 100 %", None),
        ("rounds to 145 %", ("TM615", "145 %")),
        ("rounds to 1/3", ("TM221", "1/3")),
        ("rounds to 0.45", None),
    ],
)
def test_a_claim_says_something(right: str, code: tuple[str, str] | None) -> None:
    comparison = right if not right[0].isdigit() else f">= {right}"
    assert found(f'claim "survival": survival(aa) {comparison}\n') == ([code] if code else [])


SAMPLED = """data test: px {
  read:   npz("test.npz", inputs: "x", labels: "y")
  take:   sample 500 seed 0
  truth:  published "CIFAR-10 test labels"
}

"""


@pytest.mark.parametrize(
    ("claimed", "code"),
    [
        *((f"{q}(aa) >= 40 %", None) for q in ("survival", "certified", "robust_accuracy", "robust_rate")),
        *((f"{q}(aa) >= 40 %", None) for q in ("clean_accuracy", "clean_answered")),
        *((f"{q}(aa) >= 40 %", "TM623") for q in ("coverage", "attack_coverage", "certificate_coverage", "reviewed")),
        ("attack_success(aa, attack: a) <= 40 %", "TM623"),
        ("certified(aa) >= survival(aa)", "TM623"),
        ("survival(aa) rounds to 40.0 %", None),
    ],
)
def test_only_shares_of_all_examples_speak_of_the_population(claimed: str, code: str | None) -> None:
    text = SAMPLED + evaluation({"attack", "certify"}) + f'claim "survival": {claimed} population at 95 %\n'
    assert found(text) == ([(code, "95 %")] if code else [])


@pytest.mark.parametrize("changed", [{"clean_errors": "excluded"}, {"goal": "targeted each apart"}])
def test_a_population_has_one_unit_an_example_and_counts_clean_errors(changed: dict[str, str]) -> None:
    text = OTHER + SAMPLED + threat(**changed) + evaluation({"attack", "certify"}, of="other", name="bb")
    claim = 'claim "survival": certified(bb) >= 40 %'
    assert found(text + claim + " population at 95 %\n") == [("TM623", "95 %")]
    assert found(text + claim + "\n") == []
