"""Plans as canonical JSON: exact round trips, a stable hash, a strict reader, a schema from the types."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_support import LINF, NET, PX, TEST, THREAT, call, evaluation, manifests, program, stage

from tmlang.meaning.evaluations import Claim, Measured, Module, RoundsTo
from tmlang.meaning.spaces import Metric, Num, Op, Ref, Relation
from tmlang.meaning.threats import Allowed, Anything, Ball, Both, Either, Patch, Property, Shift
from tmlang.meaning.values import Artifact, Call, Distance, Quantity, Symbol, Value
from tmlang.plan import Capabilities, lower
from tmlang.plan.codec import FormError, decode, encode
from tmlang.plan.ir import Plan
from tmlang.plan.text import claim_identity, plan_from_json, plan_hash, plan_json, plan_schema

RELATION = Relation(Op("+", Ref("a"), Num(Fraction(1, 3))), "<=", Op("*", Ref("b"), Ref("a")))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    union = replace(THREAT, name="u", allow=Either((LINF, Both((LINF, replace(LINF, norm="l2")))), ("x", "")))
    made = replace(
        program(stage(call("toy.walk", loss=Symbol("ce"))), stage(call("toy.box"), "certify", "b")),
        spaces=(replace(PX, metrics=(Metric("m", (("a", Fraction(1, 7)),)),), derived=(("d", RELATION.left),)),),
        subjects=(THREAT, union, Property("phi", "net", (("a", "<=", Fraction(1)),), (("a", "<", "b"),))),
    )
    fog = Shift("fog", "net", "test", (call("toy.fog", severity=Fraction(3)),), "wilson", Fraction(95, 100))
    foggy = evaluation(name="f", subject="fog")
    made = replace(made, subjects=(*made.subjects, fog), evaluations=(*made.evaluations, foggy))
    claims = (*made.claims, Claim("two", Measured("survival", "e"), "rounds_to", RoundsTo(Fraction(1, 2), 1, True)))
    result, found = lower(replace(made, claims=claims), Capabilities(manifests(tmp_path)), root="somewhere")
    assert result is not None, found
    return result


def test_a_plan_comes_back_as_it_was(plan: Plan) -> None:
    data = plan_json(plan)
    again = plan_from_json(data, root="elsewhere")
    assert again == plan
    assert again.root == "elsewhere"
    assert plan_json(again) == data


def test_fractions_are_exact_and_positions_are_left_out(plan: Plan) -> None:
    read = json.loads(plan_json(plan))
    assert read["subjects"][0]["allow"] == {
        "is": "Ball",
        "norm": "linf",
        "space": "px",
        "radius": "1/10",
        "radii": [],
        "per": None,
        "metric": None,
        "tolerance": "0",
        "unit": None,
    }
    assert read["subjects"][2]["always"] == [["a", "<", {"is": "text", "text": "b"}]]
    assert b'"origin"' not in plan_json(plan)
    assert b"somewhere" not in plan_json(plan)


def test_the_schema_accepts_the_plan_and_nothing_beside_it(plan: Plan) -> None:
    schema = plan_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    read = json.loads(plan_json(plan))
    validator.validate(read)
    for path, value in MUTATIONS:
        assert not validator.is_valid(mutated(read, path, value)), (path, value)


def mutated(read: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(read))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


MUTATIONS: tuple[tuple[tuple[Any, ...], Any], ...] = (
    (("edition",), "1"),
    (("edition",), True),
    (("edition",), 1.0 / 3),
    (("more",), 1),
    (("spaces",), None),
    (("spaces", 0, "cells", 0, "low"), 0),
    (("spaces", 0, "cells", 0, "low"), "0.5"),
    (("spaces", 0, "cells", 0, "low"), "1/0"),
    (("spaces", 0, "cells", 0, "kind"), "imaginary"),
    (("subjects", 0, "is"), "Model"),
    (("subjects", 0, "is"), None),
    (("subjects", 0, "allow", "is"), "Threat"),
    (("subjects", 0, "allow"), "linf"),
    (("subjects", 2, "always", 0), ["a", "<"]),
    (("subjects", 2, "always", 0, 2), "b"),
    (("evaluations", 0, "seed"), "0"),
    (("evaluations", 0, "seed"), False),
    (("evaluations", 0, "stages", 0, "lowering"), "approximate"),
    (("evaluations", 0, "stages", 0, "arguments", 0, 1), 10),
    (("evaluations", 0, "stages", 0, "cost"), 3),
)


@pytest.mark.parametrize(("path", "value"), MUTATIONS)
def test_the_reader_refuses_any_other_form_and_says_where(plan: Plan, path: tuple[Any, ...], value: Any) -> None:
    read = mutated(json.loads(plan_json(plan)), path, value)
    with pytest.raises(FormError, match=r"plan|number"):
        plan_from_json(json.dumps(read).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff", b"null", b'{"edition":NaN}', b"[" * 100_000, b'{"a":1,"a":2}', b"1e999"],
)
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    with pytest.raises(FormError):
        plan_from_json(data)


def test_a_fraction_has_one_form(plan: Plan) -> None:
    read = mutated(json.loads(plan_json(plan)), ("spaces", 0, "cells", 0, "high"), "2/2")
    with pytest.raises(FormError, match="lowest terms"):
        plan_from_json(json.dumps(read).encode())


def test_a_plan_that_breaks_an_invariant_is_refused(plan: Plan) -> None:
    read = mutated(json.loads(plan_json(plan)), ("evaluations", 0, "stages", 1, "lowering"), "inner")
    with pytest.raises(FormError, match="evidence has a direction"):
        plan_from_json(json.dumps(read).encode())


values: st.SearchStrategy[Value] = st.recursive(
    st.none()
    | st.booleans()
    | st.fractions()
    | st.text()
    | st.builds(Symbol, st.text())
    | st.builds(Quantity, st.fractions(), st.none() | st.text())
    | st.builds(Distance, st.fractions(), st.text())
    | st.builds(Artifact, st.text(), st.none() | st.text()),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.builds(
            Call,
            st.lists(st.text(), max_size=2).map(tuple),
            st.lists(st.tuples(st.text(), inner), max_size=2).map(tuple),
        )
    ),
    max_leaves=8,
)
balls = st.builds(Ball, st.sampled_from(["linf", "l2", "metric"]), st.text(), st.none() | st.fractions())
sets: st.SearchStrategy[Allowed] = st.recursive(
    balls
    | st.builds(Anything)
    | st.builds(Patch, st.sampled_from(["rectangle", "disc"]), st.integers(), st.integers()),
    lambda inner: (
        st.builds(Both, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Either, st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(values)
def test_every_value_comes_back(value: Value) -> None:
    assert decode(json.loads(json.dumps(encode(value, Value))), Value, "v") == value


@settings(max_examples=100, deadline=None)
@given(sets)
def test_every_allowed_set_comes_back(part: Allowed) -> None:
    assert decode(json.loads(json.dumps(encode(part, Allowed))), Allowed, "s") == part


# ---- identity ----

WIDER = replace(THREAT, allow=replace(LINF, radius=Fraction(1, 9)))
OTHER_NET = replace(NET, network=replace(NET.network, weights=Artifact("w", "0" * 64)))
OTHER: tuple[tuple[str, Callable[[Plan], Plan]], ...] = (
    ("a radius", lambda p: replace(p, subjects=(WIDER, *p.subjects[1:]))),
    ("a weight file", lambda p: replace(p, models=(OTHER_NET,))),
    ("a seed", lambda p: replace(p, evaluations=(replace(p.evaluations[0], seed=1), *p.evaluations[1:]))),
    ("how many", lambda p: replace(p, data=(replace(TEST, takes=()),))),
    ("a range", lambda p: replace(p, spaces=(replace(p.spaces[0], dtype="float64"),))),
)


@pytest.mark.parametrize(("what", "change"), OTHER)
def test_another_meaning_is_another_claim(plan: Plan, what: str, change: Callable[[Plan], Plan]) -> None:
    changed = change(plan)
    assert claim_identity(changed, plan.claims[0]) != claim_identity(plan, plan.claims[0]), what
    assert plan_hash(changed) != plan_hash(plan)


def test_the_threshold_and_the_evaluator_are_part_of_a_claim(plan: Plan) -> None:
    claim = plan.claims[0]
    mine = claim_identity(plan, claim)
    assert claim_identity(plan, replace(claim, right=Fraction(51, 100))) != mine
    assert claim_identity(plan, claim, {"device": "cpu"}) != mine
    assert claim_identity(plan, claim, {"device": "cpu"}) == claim_identity(plan, claim, {"device": "cpu"})


def test_words_and_layout_are_no_part_of_a_claim(plan: Plan) -> None:
    claim = plan.claims[0]
    told = replace(
        plan,
        modules=(Module("s.tm", "1" * 64),),
        models=(replace(NET, doc="a story"),),
        warnings=(("TM515", "weak"),),
        claims=(),
        subjects=tuple(s for s in plan.subjects if s.name in ("t", "fog")),
    )
    assert claim_identity(told, replace(claim, text="another title")) == claim_identity(plan, claim)
    assert plan_hash(replace(plan, modules=(Module("s.tm", "1" * 64),))) == plan_hash(plan)
