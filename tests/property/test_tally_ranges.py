"""Ranges hold every completion of what is unknown, and no more: by brute force on small runs."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from audit_support import Rows, attack, certifier, evaluation, threat
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tmlang.audit.tally import tally

ATTACKS = ("a", "b")
UNIT = st.fixed_dictionaries(
    {
        "clean": st.sampled_from(["cc", "cc", "cc", "cw", "cr", "cu"]),
        "a": st.sampled_from(["broken", "none", "timeout"]),
        "b": st.sampled_from(["broken", "none", "unstable"]),
        "proof": st.sampled_from(["certified", "unknown", "error"]),
    }
)
RUN = st.lists(UNIT, min_size=1, max_size=5)
POLICY = st.sampled_from(["fail", "excluded"])


def records(run):
    rows = Rows()
    for i, unit in enumerate(run):
        rows.clean(f"u{i}", unit["clean"])
        if unit["clean"] == "cc":
            for label in ATTACKS:
                rows.attack(f"u{i}", label, unit[label])
            rows.proof(f"u{i}", "c", unit["proof"] if "broken" not in (unit["a"], unit["b"]) else "unknown")
    return rows.all


def columns(run, policy):
    stages = [attack(label) for label in ATTACKS]
    e = evaluation(*stages, certifier(), attribution="full")
    return tally(e, threat(clean_errors=policy), records(run))


def completions(unit):
    """Every way in which what is unknown about the unit could have come out: at most six, as attacks start only
    from a correct answer, so that five open units have 7,776 completions and all of them can be looked at."""
    if unit["clean"] in ("cw", "cr"):
        return [dict(unit)]
    open_ = unit["clean"] == "cu"
    a = ["broken", "none"] if open_ or unit["a"] == "timeout" else [unit["a"]]
    b = ["broken", "none"] if open_ or unit["b"] == "unstable" else [unit["b"]]
    outcomes = [{**unit, "clean": "cc", "a": x, "b": y} for x, y in product(a, b)]
    return outcomes + ([{**unit, "clean": clean} for clean in ("cw", "cr")] if open_ else [])


def survival(run, policy):
    """By the definition, of a run in which everything is known; ``None`` of nothing."""
    correct = [u for u in run if u["clean"] == "cc"]
    base = len(run) if policy == "fail" else len(correct)
    stand = sum("broken" not in (u["a"], u["b"]) for u in correct)
    return Fraction(stand, base) if base else None


def clean_accuracy(run):
    return Fraction(sum(u["clean"] == "cc" for u in run), len(run))


def attack_success(run, label):
    correct = [u for u in run if u["clean"] == "cc"]
    return Fraction(sum(u[label] == "broken" for u in correct), len(correct)) if correct else None


def found_alone(run, label):
    correct = [u for u in run if u["clean"] == "cc"]
    (other,) = set(ATTACKS) - {label}
    alone = sum(u[label] == "broken" and u[other] != "broken" for u in correct)
    return Fraction(alone, len(correct)) if correct else None


ALL_OPEN = [{"clean": "cu", "a": "broken", "b": "broken", "proof": "certified"}] * 5


@given(RUN, POLICY)
@example(ALL_OPEN, "fail")
@example(ALL_OPEN, "excluded")
@settings(max_examples=150, deadline=None)
def test_every_completion_lies_in_the_range_and_its_ends_are_reached(run, policy):
    k = columns(run, policy)
    complete = list(product(*(completions(u) for u in run)))
    values = [v for c in complete if (v := survival(c, policy)) is not None]
    column = k.get("survival")
    if column.low is None:
        assert not values
    else:
        assert (column.low, column.high) == (min(values), max(values))
    cleans = [clean_accuracy(c) for c in complete]
    assert (k.get("clean_accuracy").low, k.get("clean_accuracy").high) == (min(cleans), max(cleans))


@given(RUN)
@settings(max_examples=100, deadline=None)
def test_attack_success_holds_every_completion(run):
    complete = list(product(*(completions(u) for u in run)))
    k = columns(run, "fail")
    for told, number in ((k.attacks, attack_success), (k.alone, found_alone)):
        assert [label for label, _ in told] == list(ATTACKS)
        for label, column in told:
            values = [v for c in complete if (v := number(c, label)) is not None]
            assert all(column.low <= v <= column.high for v in values)


@given(RUN, POLICY)
@settings(max_examples=100, deadline=None)
def test_certified_holds_every_completion_of_the_failed_certifiers(run, policy):
    k = columns(run, policy)
    correct = [u for u in run if u["clean"] == "cc"]
    base = len(run) if policy == "fail" else sum(u["clean"] in ("cc", "cu") for u in run)
    sure = sum(u["proof"] == "certified" and "broken" not in (u["a"], u["b"]) for u in correct)
    open_ = sum(u["proof"] == "error" and "broken" not in (u["a"], u["b"]) for u in correct)
    if base:
        assert k.get("certified").low == Fraction(sure, base)
        assert k.get("certified").high == Fraction(sure + open_, base)
        assert k.get("certified").low <= k.get("upper").high


@given(RUN, POLICY)
@settings(max_examples=100, deadline=None)
def test_columns_keep_their_order(run, policy):
    """Certified units survive, survival within any access is above R's bound, and every share lies in [0, 1]."""
    k = columns(run, policy)
    for column in k.columns:
        if column.low is not None:
            assert 0 <= column.low <= column.high <= 1, column
    if k.counts.denominator:
        assert k.get("survival").high == k.get("upper").high
        assert k.get("coverage").low <= k.get("attack_coverage").low


@given(RUN, POLICY, st.integers(0, 4), st.sampled_from(ATTACKS))
@settings(max_examples=150, deadline=None)
def test_finishing_a_stage_only_narrows_and_a_witness_only_lowers(run, policy, index, label):
    unit = run[index % len(run)]
    before = columns(run, policy).get("survival")
    if before.low is None or unit["clean"] != "cc":
        return

    def after(outcome):
        changed = [dict(u) for u in run]
        changed[index % len(run)][label] = outcome
        return columns(changed, policy).get("survival")

    if unit[label] in ("timeout", "unstable"):
        for outcome in ("none", "broken"):
            assert before.low <= after(outcome).low <= after(outcome).high <= before.high
    assert after("broken").low <= before.low
    assert after("broken").high <= before.high


@given(RUN, POLICY, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_rows_does_not_matter(run, policy, random):
    rows = records(run)
    shuffled = list(rows)
    random.shuffle(shuffled)
    e = evaluation(*(attack(label) for label in ATTACKS), certifier())
    assert tally(e, threat(clean_errors=policy), rows) == tally(e, threat(clean_errors=policy), shuffled)
