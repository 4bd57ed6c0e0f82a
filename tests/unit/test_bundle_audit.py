"""The audit finds every lie: one row, one number, one claim, one input at a time, each in a bundle sealed anew."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from audit_support import BROKEN, Rows, attack, certifier, evaluation, make_bundle, plan, run_of, sealed, threat

from tmlang.audit.trials import seed_of, upper_tail
from tmlang.audit.verify import audit
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.evaluations import Claim, Measured, RoundsTo
from tmlang.meaning.models import Data, Randomness, Take, Truth
from tmlang.meaning.threats import Goal, Success
from tmlang.meaning.values import Artifact, Call
from tmlang.plan.text import plan_hash

CLAIMS = (
    Claim("survives", Measured("survival", "e"), ">=", Fraction(1, 2)),
    Claim("digits", Measured("certified", "e"), "rounds_to", RoundsTo(Fraction(1, 3), 0, percent=True)),
    Claim("of the population", Measured("robust_accuracy", "e"), "<=", Fraction(1), population=Fraction(95, 100)),
)
SAMPLE = Data(
    "test", "px", Call(("npz",)), Artifact("test.npz", "ab" * 32), (Take("sample", 3, 1),), Truth("published", "x")
)
PLAN = plan([evaluation(attack(), certifier())], [threat()], claims=CLAIMS, data=(SAMPLE,))


def rows():
    made = Rows()
    made.clean("u").attack("u", outcome="broken", candidate="candidates/000001.safetensors#0", **BROKEN)
    made.clean("v").attack("v").proof("v", margin=1.0, gap=0.0, gap_kind="proved")
    made.clean("w", "cw")
    return made.all


def honest(path, *, p=PLAN, records=None, told=None, x=None, edit=None):
    """A sealed bundle. ``told``: changes ``columns.json``; ``edit``: a function of the records kept apart from it."""
    bundle = make_bundle(path, p, records or rows(), told=told, candidates=x, edit=edit)
    sealed(bundle)
    return bundle.path


def faults(path):
    return [(f.code, f.text) for f in audit(path).faults]


def test_an_honest_bundle_holds(tmp_path):
    found = audit(honest(tmp_path / "run"))
    assert found.faults == []
    assert any("1 saved inputs" in text for text in found.checked)
    assert any("does not hold the model" in text for text in found.unchecked)


def in_real_arithmetic(records):
    return [replace(r, gap=None, gap_kind=None) if r.verdict == "certified" else r for r in records]


def test_a_claim_that_rests_on_real_arithmetic_is_found(tmp_path):
    """An honest bundle tells it undecided; one whose claim is told as supported does not follow from its records."""
    proved = Claim("proved", Measured("certified", "e"), ">=", Fraction(1, 3))
    p = plan([evaluation(attack(), certifier())], [threat()], claims=(proved,), data=(SAMPLE,))
    for name, change, status in (("gap", list, "supported"), ("real", in_real_arithmetic, "undecided")):
        path = honest(tmp_path / name, p=p, records=change(rows()))
        assert json.loads((path / "columns.json").read_text())["claims"][0]["status"] == status
        assert faults(path) == []
    lie = honest(
        tmp_path / "lie",
        p=p,
        records=in_real_arithmetic(rows()),
        told=lambda t: t["claims"][0].update(status="supported"),
    )
    assert any("proved" in text and "undecided" in text for _, text in faults(lie))


def test_a_file_that_was_changed_later_is_named(tmp_path):
    path = honest(tmp_path / "run")
    (path / "columns.json").write_bytes((path / "columns.json").read_bytes().replace(b'"supported"', b'"undecided"'))
    codes = {code for code, _ in faults(path)}
    assert codes == {"TM841", "TM845"}


def column(name, **changes):
    return lambda told: told["evaluations"]["e"]["columns"][name].update(changes)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (column("survival", low="1"), "survival"),
        (column("certified", numerator=2), "certified"),
        (column("clean_accuracy", denominator=2), "clean_accuracy"),
        (lambda t: t["evaluations"]["e"]["columns"].pop("upper"), "upper"),
        (lambda t: t["evaluations"]["e"]["columns"].update(extra=t["evaluations"]["e"]["columns"]["upper"]), "extra"),
        (lambda t: t["evaluations"]["e"]["counts"].update(broken=0), "broken"),
        (lambda t: t["claims"][0].update(status="supported"), "survives"),
        (lambda t: t["claims"][1].update(low="1/2"), "digits"),
        (lambda t: t["claims"][2].update(high="1/2"), "tail"),
        (lambda t: t["claims"].pop(), "other claims"),
        (lambda t: t["evaluations"].clear(), "other evaluations"),
        (column("survival", low="1/0"), "survival"),
    ],
)
def test_a_number_that_does_not_follow_is_found(tmp_path, told, words):
    found = faults(honest(tmp_path / "run", told=told))
    assert found
    assert any(words in text for _, text in found)
    assert {code for code, _ in found} == {"TM845"}


@pytest.mark.parametrize(
    "told",
    [
        lambda t: t["claims"][0].pop("status"),
        lambda t: t["evaluations"].update(e=3),
        lambda t: t["evaluations"]["e"].update(repeats=""),
        lambda t: t["evaluations"]["e"]["counts"].update(cc=True),
        column("survival", numerator="1"),
        column("survival", more=1),
    ],
)
def test_columns_of_another_form_are_refused(tmp_path, told):
    with pytest.raises(Stop, match=r"columns\.json"):
        audit(honest(tmp_path / "run", told=told))


def one(of_stage, **changes):
    def edit(records):
        index = next(i for i, r in enumerate(records) if r.stage == of_stage)
        return [replace(r, **changes) if i == index else r for i, r in enumerate(records)]

    return edit


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (one("clean", clean="cw"), "TM844"),
        (one("clean", clean_decision=2), "TM844"),
        (one("a", label=1), "TM844"),
        (one("a", evaluation="other"), "TM844"),
        (one("a", stage="b"), "TM844"),
        (one("a", decision=0), "TM844"),
        (one("a", observed_failure=False), "TM844"),
        (one("a", repeat=3), "TM844"),
        (one("a", verdict="certified"), "TM844"),
        (one("a", within_scope=False), "TM844"),
        (one("a", status="invalid"), "TM844"),
        (one("a", candidate=None), "TM846"),
        (one("a", candidate="candidates/000001.safetensors#5"), "TM846"),
        (one("a", candidate="candidates/000009.safetensors#0"), "TM846"),
        (one("a", linf=0.1), "TM846"),
        (one("a", l2=0.1), "TM846"),
        (one("a", l0=2), "TM846"),
        (one("a", distance=0.1), "TM846"),
        (lambda records: records[1:], "TM844"),
        (lambda records: [*records, records[0]], "TM844"),
    ],
)
def test_a_row_that_does_not_fit_is_found(tmp_path, edit, code):
    assert code in {c for c, _ in faults(honest(tmp_path / "run", edit=edit))}


def test_an_example_that_was_left_out_is_found(tmp_path):
    """Every number follows from the rows that are left, and the plan takes one more."""
    path = honest(tmp_path / "run", records=[r for r in rows() if r.example != "u"])
    assert faults(path) == [("TM844", "e: there are rows of 2 examples, and the plan takes 3")]


@pytest.mark.parametrize(
    "take", [Take("all"), Take("ids", file=Artifact("ids.txt", "cd" * 32)), Take("where_label", label="0")]
)
@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (["v", "w"], "`u` is in one alone"),
        (["u", "v", "w", "x"], "`x` is in one alone"),
        (["v", "u", "w"], "another order than in the data, from `u` on"),
    ],
)
def test_rows_are_of_the_examples_that_the_data_gave(tmp_path, take, kept, words):
    """Numbers, claims and statement follow from the rows that are told; only the list of the data's ids does not."""
    whole = replace(PLAN, data=(replace(SAMPLE, takes=(take,)),))
    mine = [*rows(), *Rows().clean("x").attack("x").all]
    told = [r for name in kept for r in mine if r.example == name]
    bundle = make_bundle(tmp_path / "run", whole, told)
    bundle.add_json("run.json", run_of(whole, rows()))
    assert [c for c, _ in faults(sealed(bundle).path)] == ["TM844"]
    assert words in faults(bundle.path)[0][1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"plan": "00" * 32}, "another plan"),
        ({"lock": "00" * 32}, "lock.json is not there"),
        ({"artifacts": {"test.npz": "00" * 32}}, "another file"),
        ({"examples": {}}, "other evaluations"),
        ({"tmlang": "9"}, "statement"),
    ],
)
def test_files_that_speak_of_other_runs_are_found(tmp_path, change, words):
    bundle = make_bundle(tmp_path / "run", PLAN, rows())
    statement = {"tmlang": "0", "plan": plan_hash(PLAN), "lock": None, "claims": []}
    claims = json.loads((sealed(make_bundle(tmp_path / "other", PLAN, rows())).path / "statement.json").read_bytes())
    bundle.add_json("run.json", run_of(PLAN, rows()) | change)
    sealed(bundle, statement | {"claims": claims["predicate"]["claims"]})
    assert any(words in text for _, text in faults(bundle.path))


@pytest.mark.parametrize(
    "changes",
    [
        {"left": Measured("median_distance", "e")},
        {"data": replace(SAMPLE, takes=(Take("first", 3),))},
        {"threat": {"clean_errors": "excluded"}},
        {"threat": {"goal": Goal("each")}},
    ],
)
def test_what_says_nothing_of_a_population_has_no_limits_in_it(tmp_path, changes):
    """A plan by hand may claim what the checker would refuse; limits told for it do not follow from anything."""
    left = changes.get("left", Measured("robust_accuracy", "e"))
    claim = Claim("c", left, "<=", Fraction(1), population=Fraction(95, 100))
    whole = plan(
        [evaluation(attack(), certifier())],
        [threat(**changes.get("threat", {}))],
        claims=(claim,),
        data=(changes.get("data", SAMPLE),),
    )

    for status in ("supported", "undecided"):

        def tell(told, status=status):
            told["claims"][0] |= {"status": status, "low": "0", "high": "1"}

        found = [text for code, text in faults(honest(tmp_path / status, p=whole, told=tell)) if code == "TM845"]
        assert "the claim “c” is told to range over [0, 1]" in found


def test_a_claim_that_the_statement_alone_supports_is_found(tmp_path):
    good = sealed(make_bundle(tmp_path / "good", PLAN, rows())).statement()["predicate"]
    better = [{**c, "status": "supported"} for c in good["claims"]]
    assert better != good["claims"]
    found = faults(sealed(make_bundle(tmp_path / "run", PLAN, rows()), {**good, "claims": better}).path)
    assert found == [("TM845", "the statement says something else than the files: claims")]


@pytest.mark.parametrize("value", [0.6251, 0.75, 1.5])
def test_an_input_outside_its_set_is_found(tmp_path, value):
    x = np.full((1, 1, 8, 8), 0.5, np.float32)
    x[0, 0, 0, 0] = value
    change = value - 0.5
    far = one("a", **dict.fromkeys(("linf", "l2", "l1"), float(np.float32(value)) - 0.5), distance=None)
    found = faults(honest(tmp_path / "run", x=x, edit=far))
    assert change > 0.125
    assert [code for code, _ in found] == ["TM846"]
    assert "within_scope True" in found[0][1]


def test_an_input_that_is_no_number_is_found(tmp_path):
    x = np.full((1, 1, 8, 8), np.nan, np.float32)
    assert any("finite" in text for _, text in faults(honest(tmp_path / "run", x=x)))


def test_queries_beyond_the_limit_are_found(tmp_path):
    from tmlang.meaning.threats import Access

    p = plan([evaluation(attack(access="scores"))], [threat(access=Access("scores", queries=10))])
    made = Rows().clean("u")
    made.attack("u", outcome="broken", candidate="candidates/000001.safetensors#0", queries=11, **BROKEN)
    assert any("11 of 10" in text for _, text in faults(honest(tmp_path / "run", p=p, records=made.all)))


def test_a_contradicted_certificate_that_is_not_told_is_found(tmp_path):
    one_row = replace(SAMPLE, takes=(Take("sample", 1, 1),))
    p = plan([evaluation(attack(), certifier())], [threat()], data=(one_row,))
    made = Rows().clean("u")
    made.attack("u", outcome="broken", candidate="candidates/000001.safetensors#0", **BROKEN).proof("u")

    def hide(told):
        told["evaluations"]["e"]["contradictions"] = []

    found = faults(honest(tmp_path / "run", p=p, records=made.all, told=hide))
    assert any("auto_lirpa.crown is contradicted" in text for _, text in found)
    assert faults(honest(tmp_path / "told", p=p, records=made.all)) == []


def test_a_changed_plan_is_another_plan(tmp_path):
    path = honest(tmp_path / "run")
    (path / "plan.json").write_bytes(b"{}")
    with pytest.raises(Stop, match=r"plan\.json"):
        audit(path)


@pytest.mark.parametrize(("errors", "holds"), [(11, False), (12, True)])
def test_a_random_object_is_broken_only_by_the_binomial_test(tmp_path, errors, holds):
    """P[Bin(12, 1/2) >= 12] = 1/4096 and P[>= 11] = 13/4096; the level 1/100 is shared by four units: 1/400."""
    model = replace(PLAN.models[0], random=Randomness("per_request"))
    success = Success("error_probability", Fraction(1, 2), Fraction(99, 100), 12)
    p = plan([evaluation(attack())], [threat(success=success)], models=(model,))
    right = {"draws": 12, "errors": 0, "outcomes": "0" * 12, "draw_seed": 1}
    made = Rows().clean("u", **right)
    for unit in "vwx":
        made.clean(unit, **right).attack(unit, **dict.fromkeys(right))
    moved = np.full((1, 8, 8), 0.5, np.float32)
    moved[0, 0, 0] += 0.125
    drawn = {"draws": 12, "errors": errors, "outcomes": "1" * errors + "0" * (12 - errors)}
    drawn["draw_seed"] = seed_of(0, moved.tobytes())
    made.attack("u", outcome="broken", candidate="candidates/000001.safetensors#0", **BROKEN, **drawn)
    found = faults(honest(tmp_path / "run", p=p, records=made.all))
    assert (found == []) == holds


def test_the_tail_of_a_binomial_by_hand():
    assert upper_tail(2, 3, Fraction(1, 2)) == Fraction(4, 8)
    assert upper_tail(3, 3, Fraction(1, 3)) == Fraction(1, 27)
    assert upper_tail(0, 5, Fraction(1, 7)) == 1


def test_the_command_line(tmp_path, capsys):
    path = honest(tmp_path / "run")
    assert main(["audit", str(path)]) == 0
    assert "not checked:" in capsys.readouterr().out
    lying = honest(tmp_path / "lie", told=column("survival", low="1"))
    assert main(["audit", str(lying), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["faults"][0]["code"] == "TM845"


@pytest.mark.parametrize("told", ["attacks", "alone", "repeats"])
def test_what_one_attack_or_repeat_found_is_counted_again(tmp_path, told):
    rows = Rows()
    for i in range(3):
        rows.clean(f"u{i}")
        for label, repeat in product("ab", range(2)):
            rows.attack(f"u{i}", label, repeat=repeat)
    whole = plan([evaluation(attack("a"), attack("b"), attribution="full", repeats=2)], [threat()])

    def edit(columns):
        own = columns["evaluations"]["e"][told]
        (own[0] if told == "repeats" else own["b"]).update(numerator=1, low="1/3", high="1/3")

    assert faults(sealed(make_bundle(tmp_path / "honest", whole, rows.all)).path) == []
    found = faults(sealed(make_bundle(tmp_path / "edited", whole, rows.all, told=edit)).path)
    named = {"attacks": "attack_success:b", "alone": "found_alone:b", "repeats": "repeat 0"}[told]
    assert [code for code, _ in found] == ["TM845"]
    assert named in found[0][1]
