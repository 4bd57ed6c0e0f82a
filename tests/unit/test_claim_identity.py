"""Which part of a plan a claim rests on: each is changed on its own, and the identity follows or does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction as F
from hashlib import sha256

import pytest
from audit_support import attack, evaluation, plan, threat

from tmlang.meaning.evaluations import Claim, Measured, Module, Parameter
from tmlang.meaning.models import RejectWhen, Take, Truth
from tmlang.meaning.threats import Access, Property
from tmlang.meaning.values import Call, Symbol
from tmlang.plan import codec
from tmlang.plan.codec import FormError
from tmlang.plan.ir import Cost, Plan
from tmlang.plan.text import claim_identity, claim_meaning, plan_from_json, plan_hash, plan_json, plan_schema

CLAIM = Claim("robust", Measured("survival", "e"), ">=", F(1, 2))


def whole() -> Plan:
    """``e`` attacks ``net``, an ensemble, on ``test``; everything else is needed by way of these, or not at all."""
    base = plan([], [])
    (space,), (model,), (data,) = base.spaces, base.models, base.data
    attacked = threat(access=Access("white_box", surrogates=("stand_in",)), fitted_on="fitting")
    other = threat(name="alone", model="unused_model", data="unused_data")
    phi = Property("phi", "for_property", (), ())

    def net(name, space="px", **more):
        return replace(model, name=name, space=space, **more)

    def rows(name, space="px", **more):
        return replace(data, name=name, space=space, takes=(Take("all"),), **more)

    rejecting = (
        RejectWhen("max_softmax", "<", F(1, 2)),
        RejectWhen("agreement", "<", F(1, 2), calibrated_on="calibration"),
    )
    members = (("first", "second"), "mean of logits")
    return replace(
        base,
        spaces=tuple(replace(space, name=n) for n in ("px", "own", "of_fitting", "unused_space")),
        models=(
            net("net", ensemble=members), net("first", "own", reject=rejecting), net("second"), net("stand_in"),
            net("chooser"), net("labeller"), net("unused_model", "unused_space"), net("for_property"),
        ),
        data=(
            replace(rows("test"), takes=(Take("correct_under", model="chooser"),)), rows("fitting", "of_fitting"),
            rows("calibration", truth=Truth("predicted", model="labeller")), rows("unused_data", "unused_space"),
        ),
        subjects=(attacked, other, phi),
        evaluations=(
            *(evaluation(attack(), name=f"e@r={r}", at=(("r", F(r)),)) for r in (1, 2)),
            evaluation(attack(), name="f", subject="alone"), evaluation(attack(), name="p", subject="phi"),
        ),
        claims=(CLAIM, Claim("more", Measured("survival", "f"), ">=", F(1))),
    )  # fmt: skip


WHOLE = whole()
MINE = claim_identity(WHOLE, CLAIM)


def changed(kind: str, name: str) -> Plan:
    """The plan with one named part changed in something that matters to it."""
    what = {
        "spaces": ("dtype", "float64"),
        "models": ("classes", ("0", "1")),
        "data": ("prepare", ()),
        "evaluations": ("seed", 7),
    }
    field, value = what.get(kind, ("mutable", None))
    if kind == "data":
        field, value = "truth", Truth("published", "another list")
    parts = [replace(p, **{field: value}) if p.name == name else p for p in getattr(WHOLE, kind)]
    assert parts != list(getattr(WHOLE, kind))
    return replace(WHOLE, **{kind: tuple(parts)})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("models", n) for n in ("net", "first", "second", "stand_in", "chooser", "labeller")),
        *(("data", n) for n in ("test", "fitting", "calibration")),
        *(("spaces", n) for n in ("px", "own", "of_fitting")),
        *(("evaluations", n) for n in ("e@r=1", "e@r=2")),
    ],
)
def test_what_a_claim_rests_on_is_part_of_it(kind, name):
    assert claim_identity(changed(kind, name), CLAIM) != MINE


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("models", "unused_model"), ("models", "for_property"), ("data", "unused_data"), ("spaces", "unused_space"),
        ("evaluations", "f"), ("evaluations", "p"),
    ],
)  # fmt: skip
def test_what_stands_beside_it_is_not(kind, name):
    assert claim_identity(changed(kind, name), CLAIM) == MINE


def estimated(stages):
    return tuple(replace(s, cost=Cost(1, 2), reasons=("why",)) for s in stages)


WORDS: list[Callable[[Plan], Plan]] = [
    lambda p: replace(p, modules=(Module("s.tm", "1" * 64),)),
    lambda p: replace(p, spaces=tuple(replace(s, doc="a story") for s in p.spaces)),
    lambda p: replace(p, models=tuple(replace(m, doc="a story") for m in p.models)),
    lambda p: replace(p, data=tuple(replace(d, doc="a story") for d in p.data)),
    lambda p: replace(p, subjects=tuple(replace(s, doc="a story") for s in p.subjects)),
    lambda p: replace(p, evaluations=tuple(replace(e, doc="a story", passes=("x",)) for e in p.evaluations)),
    lambda p: replace(p, claims=()),
    lambda p: replace(p, parameters=(Parameter("eps", F(1)),)),
    lambda p: replace(p, figures=(Call(("bar",)),)),
    lambda p: replace(p, warnings=(("TM515", "weak"),)),
    lambda p: replace(p, evaluations=tuple(replace(e, stages=estimated(e.stages)) for e in p.evaluations)),
]


@pytest.mark.parametrize("change", WORDS)
def test_words_and_what_follows_from_the_rest_are_not(change):
    assert change(WHOLE) != WHOLE
    assert claim_identity(change(WHOLE), CLAIM) == MINE
    assert claim_identity(change(WHOLE), replace(CLAIM, text="another title")) == MINE


def test_a_claim_on_a_property_needs_its_model_alone():
    phi = Claim("phi", Measured("verified", "p"), "==", F(1))
    mine = claim_identity(WHOLE, phi)
    assert claim_identity(changed("models", "for_property"), phi) != mine
    for kind, name in (("models", "net"), ("data", "test"), ("spaces", "unused_space"), ("evaluations", "e@r=1")):
        assert claim_identity(changed(kind, name), phi) == mine


def test_both_sides_and_a_baseline_are_read():
    compared = Claim("c", Measured("survival", "e"), ">=", Measured("survival", "f"))
    based = Claim("b", Measured("mce", "e", (("baseline", Symbol("f")), ("at", F(1)))), "<=", F(1))
    for claim in (compared, based):
        mine = claim_identity(WHOLE, claim)
        for kind, name in (("models", "unused_model"), ("evaluations", "f"), ("models", "net")):
            assert claim_identity(changed(kind, name), claim) != mine
        assert claim_identity(changed("models", "for_property"), claim) == mine
    number = replace(based, left=Measured("mce", "e", (("baseline", F(1)),)))
    assert claim_identity(changed("evaluations", "f"), number) == claim_identity(WHOLE, number)
    plain = replace(based, left=Measured("mce", "e", (("at", Symbol("f")),)))
    assert claim_identity(changed("evaluations", "f"), plain) == claim_identity(WHOLE, plain)


def test_an_identity_is_the_hash_of_the_meaning():
    meaning = claim_meaning(WHOLE, CLAIM, {"device": "cpu"})
    assert sorted(meaning) == ["claim", "evaluator", "plan"]
    assert meaning["evaluator"] == {"device": "cpu"}
    assert meaning["claim"]["text"] == ""
    assert [e["name"] for e in meaning["plan"]["evaluations"]] == ["e@r=1", "e@r=2"]
    assert meaning["plan"]["claims"] == []
    # All keys and numbers are plain here, so sorted JSON without spaces is the canonical one.
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert claim_identity(WHOLE, CLAIM, {"device": "cpu"}) == sha256(text.encode()).hexdigest()
    assert claim_identity(WHOLE, CLAIM, {}) == claim_identity(WHOLE, CLAIM) == MINE


def test_the_hash_of_a_plan_is_of_its_json_without_the_texts_of_its_modules():
    laid_out = replace(WHOLE, modules=(Module("s.tm", "1" * 64),))
    assert plan_hash(laid_out) == plan_hash(WHOLE) == sha256(plan_json(WHOLE)).hexdigest()
    assert plan_json(laid_out) != plan_json(WHOLE)
    assert plan_hash(changed("evaluations", "f")) != plan_hash(WHOLE)


def test_the_schema_has_a_title_and_a_plan_a_folder():
    assert plan_schema()["title"] == "tmlang plan"
    assert plan_from_json(plan_json(WHOLE)).root == "."


def test_reading_names_what_is_wrong():
    for data in (b"{", b'{"edition":1,"edition":1}', b"[" * 300 + b"]" * 300, b'{"x":' * 100 + b"1" + b"}" * 100):
        with pytest.raises(FormError):
            plan_from_json(data)
    twice = json.loads(plan_json(WHOLE))
    twice["evaluations"].append(twice["evaluations"][0])
    with pytest.raises(FormError, match=r"reading(?!\?)"):
        plan_from_json(json.dumps(twice).encode())
    other = json.loads(plan_json(WHOLE))
    other["edition"] = "one"
    with pytest.raises(FormError, match=r"plan\.edition"):
        plan_from_json(json.dumps(other).encode())


def test_a_plan_that_the_stack_does_not_hold_is_refused(monkeypatch):
    def deep(*_):
        raise RecursionError

    monkeypatch.setattr(codec, "decode", deep)
    with pytest.raises(FormError, match="nested too deeply"):
        plan_from_json(plan_json(WHOLE))
