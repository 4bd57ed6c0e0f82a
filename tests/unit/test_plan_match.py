"""Matching stages against manifests: every refusal at its token, and the lowering with its reasons."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from plan_support import BYTES, LINF, NET, PX, THREAT, at, call, evaluation, manifests, program, stage

from tmlang.diagnostics.model import Diagnostic
from tmlang.meaning.evaluations import Program
from tmlang.meaning.models import Decide, Network, Randomness, RejectWhen, Step
from tmlang.meaning.spaces import Ref, Relation, Space
from tmlang.meaning.threats import (
    Access,
    Anything,
    Ball,
    Both,
    Either,
    Goal,
    Mutable,
    Property,
    Shift,
    Threat,
    Transform,
)
from tmlang.meaning.values import Call, Distance, Quantity, Symbol
from tmlang.plan import Capabilities, lower
from tmlang.plan.asked import misfits
from tmlang.plan.capability import InputForm
from tmlang.plan.ir import Plan, Stage


def lowered(program: Program, folder: Path) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    return lower(program, Capabilities(manifests(folder)))


def refused(program: Program, folder: Path) -> Diagnostic:
    plan, found = lowered(program, folder)
    assert plan is None
    errors = [d for d in found if d.is_error]
    assert len(errors) == 1, errors
    return errors[0]


def only_stage(program: Program, folder: Path) -> Stage:
    plan, found = lowered(program, folder)
    assert plan is not None, found
    assert not [d for d in found if d.is_error]
    (evaluation,) = plan.evaluations
    (stage,) = evaluation.stages
    return stage


def attacked(subject: Any = THREAT, made: Call | None = None, **changes: Any) -> Program:
    return program(stage(made or call()), subjects=(subject,), **changes)


# ---- the call itself ----


@pytest.mark.parametrize(
    ("method", "code", "says"),
    [
        ("tois.walk", "TM501", "toy"),
        ("nothing_like_it.walk", "TM501", "there are toy"),
        ("toy.walks", "TM502", "walk"),
        ("toy.zzz", "TM502", "guess"),
        ("toy.box", "TM512", "certify:"),
    ],
)
def test_an_unknown_or_misplaced_method_is_named_with_what_there_is(
    tmp_path: Path, method: str, code: str, says: str
) -> None:
    made = call(method)
    found = refused(attacked(made=made), tmp_path)
    assert (found.code, found.span.column, found.span.end_column) == (code, 11, 11 + len(method))
    assert says in (found.help or "")


def test_what_a_library_has_and_tmlang_does_not_offer_is_refused_with_the_reason(tmp_path: Path) -> None:
    found = refused(attacked(made=call("toy.crawl")), tmp_path)
    assert (found.code, found.message) == ("TM502", "toy.crawl is not offered: it returns the original")


@pytest.mark.parametrize(
    ("argument", "value", "code", "on_name", "says"),
    [
        ("eps", Fraction(1, 10), "TM505", True, "`allow:`"),
        ("epsilons", Fraction(1, 10), "TM505", True, "`allow:`"),
        ("targeted", True, "TM505", True, "`goal:`"),
        ("n_classes", Fraction(10), "TM505", True, "the model"),
        ("seed", Fraction(1), "TM503", True, "`seed:`"),
        ("step", Fraction(1), "TM503", True, "steps"),
        ("steps", Fraction(0), "TM504", False, "1 or more"),
        ("steps", Fraction(5, 2), "TM504", False, "whole"),
        ("steps", "ten", "TM504", False, "whole"),
        ("restarts", Fraction(10), "TM504", False, "from 1 to 9"),
        ("step_size", Fraction(1, 100), "TM504", False, "0.01 in px"),
        ("step_size", Distance(Fraction(1, 100), "other"), "TM504", False, "px"),
        ("loss", Symbol("cee"), "TM504", False, "ce"),
        ("loss", "ce", "TM504", False, "without quotes"),
        ("start", Fraction(1), "TM504", False, "true or false"),
    ],
)
def test_a_wrong_argument_is_refused_at_its_token(
    tmp_path: Path, argument: str, value: Any, code: str, on_name: bool, says: str
) -> None:
    found = refused(attacked(made=call(**{argument: value})), tmp_path)
    assert found.code == code
    assert found.span == at(20, 100 if on_name else 105)
    assert says in " ".join([found.message, *found.notes, found.help or ""])


def test_a_restated_budget_points_at_the_threat(tmp_path: Path) -> None:
    ball = replace(LINF, origin=at(7, 20, 4))
    found = refused(attacked(replace(THREAT, allow=ball), call(eps=Fraction(1, 10))), tmp_path)
    assert [label.span for label in found.labels] == [at(7, 20, 4)]


def test_a_required_argument_is_asked_for(tmp_path: Path) -> None:
    found = refused(attacked(made=call("toy.guess")), tmp_path)
    assert found.code == "TM503"
    assert "`n`" in found.message


def test_several_mistakes_are_told_in_one_run(tmp_path: Path) -> None:
    made = call(eps=Fraction(1), steps=Fraction(0), loss=Symbol("x"))
    plan, found = lowered(program(stage(made), stage(call("toy.nope", 30), label="b")), tmp_path)
    assert plan is None
    assert [d.code for d in found] == ["TM505", "TM504", "TM504", "TM502"]


def test_arguments_are_resolved_in_the_order_of_the_manifest(tmp_path: Path) -> None:
    made = call(loss=Symbol("dlr"), steps=Fraction(7))
    assert only_stage(attacked(made=made), tmp_path).arguments == (
        ("steps", Fraction(7)),
        ("restarts", Fraction(2)),
        ("step_size", Distance(Fraction(1, 10), "px")),
        ("loss", Symbol("dlr")),
        ("start", True),
    )


def test_a_default_length_is_a_share_of_the_width_of_the_domain(tmp_path: Path) -> None:
    ball = Ball("linf", "px", Fraction(20))
    arguments = dict(only_stage(attacked(replace(THREAT, allow=ball), spaces=(BYTES,)), tmp_path).arguments)
    assert arguments["step_size"] == Distance(Fraction(51, 2), "px")


def test_a_default_length_in_radii_follows_the_ball_or_is_recorded_as_a_share(tmp_path: Path) -> None:
    def step(threat: Threat) -> Any:
        text = (manifests(tmp_path) / "toy.toml").read_text(encoding="utf-8")
        text = text.replace(
            'type = "distance", default = "1/10"', 'type = "distance", default = "5/2 * radius / steps"'
        )
        (tmp_path / "toy.toml").write_text(text, encoding="utf-8")
        plan, found = lower(attacked(threat, call(steps=Fraction(5))), Capabilities(tmp_path))
        assert plan is not None, found
        return dict(plan.evaluations[0].stages[0].arguments)["step_size"]

    assert step(THREAT) == Distance(Fraction(1, 20), "px")  # 5/2 * 1/10 / 5
    both = Either((LINF, Ball("l2", "px", Fraction(1))))
    assert step(replace(THREAT, allow=both)) == Quantity(Fraction(1, 2), "radii")


def test_an_alias_is_the_method_itself(tmp_path: Path) -> None:
    assert only_stage(attacked(made=call("toy.stroll")), tmp_path).method == "walk"


def test_durations_have_one_form(tmp_path: Path) -> None:
    for amount in (Quantity(Fraction(2), "min"), Quantity(Fraction(120), "s")):
        made = program(stage(call("toy.solve", timeout=amount), "decide_exactly"))
        assert only_stage(made, tmp_path).arguments == (("timeout", Quantity(Fraction(120), "s")),)
    wrong = program(stage(call("toy.solve", timeout=Fraction(2)), "decide_exactly"))
    assert refused(wrong, tmp_path).code == "TM504"


# ---- the set, the goal, the object ----


def test_a_norm_that_the_method_does_not_search(tmp_path: Path) -> None:
    threat = replace(THREAT, allow=Ball("l1", "px", Fraction(1)))
    found = refused(attacked(threat), tmp_path)
    assert (found.code, found.span.column) == ("TM508", 11)
    assert any("the library cannot: it has no l1 step" in note for note in found.notes)
    # Decisions are allowed under white box access too, but nothing here searches l1.
    assert found.help is None


def test_who_could_is_named(tmp_path: Path) -> None:
    threat = replace(THREAT, allow=Ball("linf", "px", Fraction(1, 10)))
    found = refused(attacked(threat, call("toy.nearest")), tmp_path)
    assert found.help == "these can: toy.guess and toy.walk"


def test_certificates_need_a_verifier_of_the_norm(tmp_path: Path) -> None:
    threat = replace(THREAT, allow=Ball("l2", "px", Fraction(1)))
    for method, role in (("toy.box", "certify"), ("toy.solve", "decide_exactly")):
        found = refused(program(stage(call(method), role), subjects=(threat,)), tmp_path)
        assert found.code == "TM508"


def test_a_part_of_the_set_certifies_nothing(tmp_path: Path) -> None:
    related = replace(PX, relations=(Relation(Ref("a"), "<=", Ref("b")),))
    certified = program(stage(call("toy.box"), "certify"), spaces=(related,))
    assert "a part proves nothing" in refused(certified, tmp_path).message
    searched = only_stage(attacked(spaces=(related,)), tmp_path)
    assert searched.lowering == "inner"
    assert any("relations" in reason for reason in searched.reasons)


def test_a_larger_set_certifies_and_no_longer_decides(tmp_path: Path) -> None:
    threat = replace(THREAT, allow=Ball("linf", "px", Fraction(2)))
    box = only_stage(program(stage(call("toy.box"), "certify"), spaces=(BYTES,), subjects=(threat,)), tmp_path)
    solve = program(stage(call("toy.solve"), "decide_exactly"), spaces=(BYTES,), subjects=(threat,))
    assert (box.lowering, box.evidence) == ("outer", "bound")
    assert (only_stage(solve, tmp_path).lowering, only_stage(solve, tmp_path).evidence) == ("outer", "bound")
    exact = only_stage(program(stage(call("toy.solve"), "decide_exactly")), tmp_path)
    assert (exact.lowering, exact.evidence) == ("exact", "complete")


def test_an_intersection_is_searched_through_one_of_its_parts(tmp_path: Path) -> None:
    both = Both((LINF, Ball("l1", "px", Fraction(1))))
    found = only_stage(attacked(replace(THREAT, allow=both)), tmp_path)
    assert found.lowering == "outer"
    assert any("l1 <= 1 in px is left out" in reason for reason in found.reasons)


def test_a_union_needs_every_branch_for_a_certificate_and_one_for_a_search(tmp_path: Path) -> None:
    union = replace(THREAT, allow=Either((LINF, Ball("l1", "px", Fraction(1))), ("a", "b")))
    assert only_stage(attacked(union), tmp_path).lowering == "inner"
    assert refused(program(stage(call("toy.box"), "certify"), subjects=(union,)), tmp_path).code == "TM508"
    carried = replace(THREAT, allow=Either((LINF, replace(LINF, radius=Fraction(1, 5)))))
    assert only_stage(attacked(carried), tmp_path).lowering == "exact"


def test_anything_beside_the_tables_is_not_built(tmp_path: Path) -> None:
    up = replace(THREAT, mutable=Mutable("features", (("f", "up"),)))
    for threat in (up, replace(THREAT, allow=Anything()), replace(THREAT, perturbation="universal", fitted_on="test")):
        assert "nobody has built this" in refused(attacked(threat), tmp_path).message


def test_minimizing_and_searching_at_a_radius_are_two_things(tmp_path: Path) -> None:
    nearest = replace(THREAT, allow=None, minimize=("l2", "px"))
    assert only_stage(attacked(nearest, call("toy.nearest")), tmp_path).lowering == "exact"
    assert refused(attacked(nearest), tmp_path).code == "TM508"
    fixed = replace(THREAT, allow=Ball("l2", "px", Fraction(1, 2)))
    assert only_stage(attacked(fixed, call("toy.nearest")), tmp_path).lowering == "outer"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"random": Randomness("per_request")}, "TM603"),
        ({"decide": Decide("most_likely")}, "TM603"),
        ({"network": Network("onnx")}, "TM514"),
        ({"reject": (RejectWhen("max_softmax", "<", Fraction(1, 2)),)}, "TM508"),
        ({"decide": Decide("argmax", "reject")}, "TM508"),
    ],
)
def test_a_certificate_is_of_one_kind_of_object(tmp_path: Path, changes: dict[str, Any], code: str) -> None:
    made = program(stage(call("toy.box"), "certify"), models=(replace(NET, **changes),))
    assert refused(made, tmp_path).code == code


def test_an_attack_that_does_not_know_of_the_rejection_needs_none(tmp_path: Path) -> None:
    models = (replace(NET, reject=(RejectWhen("max_softmax", "<", Fraction(1, 2)),)),)
    unaware = replace(THREAT, access=Access("white_box", unaware_of=("reject",)))
    assert refused(attacked(models=models), tmp_path).code == "TM508"
    assert only_stage(attacked(unaware, models=models), tmp_path).lowering == "exact"


def test_classes_that_a_choice_needs(tmp_path: Path) -> None:
    def with_classes(count: int, goal: Goal) -> Program:
        made = call(loss=Symbol("dlr"))
        return attacked(replace(THREAT, goal=goal), made, models=(replace(NET, classes=tuple("abcdef")[:count]),))

    assert refused(with_classes(2, Goal("untargeted")), tmp_path).code == "TM511"
    assert refused(with_classes(3, Goal("class", "a")), tmp_path).span == at(20, 105)
    assert only_stage(with_classes(3, Goal("untargeted")), tmp_path).method == "walk"
    assert only_stage(with_classes(4, Goal("class", "a")), tmp_path).method == "walk"


# ---- access and gradients ----


@pytest.mark.parametrize("level", ["scores", "decisions", "nothing"])
def test_gradients_are_not_granted_below_white_box(tmp_path: Path, level: Any) -> None:
    found = refused(attacked(replace(THREAT, access=Access(level))), tmp_path)
    assert (found.code, found.span.column) == ("TM506", 11)
    assert ("toy.guess" in (found.help or "")) == (level != "nothing")


def test_a_stage_is_granted_no_more_than_it_needs(tmp_path: Path) -> None:
    made = call("toy.guess", n=Fraction(5))
    assert only_stage(attacked(made=made), tmp_path).access == "decisions"
    other = replace(NET, name="copy")
    transfer = replace(THREAT, access=Access("transfer", surrogates=("copy",), queries=0))
    found = only_stage(attacked(transfer, models=(NET, other)), tmp_path)
    assert (found.access, found.cost.forward) == ("transfer", 21)


def test_a_step_without_a_gradient_needs_a_way_through(tmp_path: Path) -> None:
    models = (replace(NET, steps=(Step("jpeg", differentiable=False), Step("scale"))),)
    found = refused(attacked(models=models), tmp_path)
    assert (found.code, found.span.column) == ("TM507", 11)
    assert "`jpeg`" in found.message
    through = program(stage(call(), through=Call(("straight_through",))), models=models)
    assert only_stage(through, tmp_path).through == Call(("straight_through",))
    # Decisions need no gradient.
    assert only_stage(attacked(made=call("toy.guess", n=Fraction(1)), models=models), tmp_path).method == "guess"
    # Under transfer the surrogates count, not the victim.
    transfer = replace(THREAT, access=Access("transfer", surrogates=("copy",)))
    assert only_stage(attacked(transfer, models=(*models, replace(NET, name="copy"))), tmp_path).method == "walk"


def test_a_way_through_that_the_method_does_not_know(tmp_path: Path) -> None:
    made = program(stage(call(), through=Call(("expectation",), (("draws", Fraction(3)),))))
    assert refused(made, tmp_path).code == "TM507"


def test_a_remote_network_has_no_gradient(tmp_path: Path) -> None:
    assert refused(attacked(models=(replace(NET, network=Network("remote")),)), tmp_path).code == "TM507"


def test_steps_that_cannot_cross_the_ball_are_warned_of(tmp_path: Path) -> None:
    def found(steps: int) -> list[str]:
        made = call(steps=Fraction(steps), step_size=Distance(Fraction(1, 100), "px"))
        plan, diagnostics = lowered(attacked(made=made), tmp_path)
        assert plan is not None
        assert [code for code, _ in plan.warnings] == [d.code for d in diagnostics]
        return [d.code for d in diagnostics]

    assert found(9) == ["TM515"]
    assert found(10) == []  # 10 * 1/100 is the radius, exactly


# ---- other subjects, curves, cost ----


def test_a_property_needs_a_method_that_says_so(tmp_path: Path) -> None:
    phi = Property("phi", "net", (), ())
    solve = program(stage(call("toy.solve"), "decide_exactly"), subjects=(phi,), evaluations=())
    solve = replace(solve, evaluations=(evaluation(stage(call("toy.solve"), "decide_exactly"), subject="phi"),))
    assert only_stage(solve, tmp_path).evidence == "complete"
    box = replace(solve, evaluations=(evaluation(stage(call("toy.box"), "certify"), subject="phi"),))
    assert refused(box, tmp_path).code == "TM508"


def test_a_shift_is_one_corruption(tmp_path: Path) -> None:
    def shifted(severity: int) -> Program:
        made = call("toy.fog", severity=Fraction(severity))
        fog = Shift("t", "net", "test", (made,), "wilson", Fraction(95, 100))
        return replace(program(), subjects=(fog,))

    stage = only_stage(shifted(5), tmp_path)
    assert (stage.id, stage.role, stage.evidence) == ("e/apply", "corrupt", "estimate")
    found = refused(shifted(6), tmp_path)
    assert (found.code, found.span) == ("TM504", at(20, 105))


def test_cost_is_the_manifest_formula_cut_by_the_query_limit(tmp_path: Path) -> None:
    made = call(steps=Fraction(100), restarts=Fraction(5))
    free = only_stage(attacked(made=made), tmp_path)
    assert (free.cost.forward, free.cost.backward) == (501, 500)
    limited = replace(THREAT, access=Access("white_box", queries=50))
    assert only_stage(attacked(limited, made), tmp_path).cost.forward == 50


def test_every_threat_of_a_curve_is_planned(tmp_path: Path) -> None:
    from tmlang.meaning.evaluations import Claim, Curve, Measured

    wide = replace(THREAT, name="t@eps=0.2", allow=replace(LINF, radius=Fraction(1, 5)))
    curve = Curve("eps", (Fraction(1, 10), Fraction(1, 5)), ("t", "t@eps=0.2"))
    claim = Claim("c", Measured("survival", "e", (("eps", Fraction(1, 5)),)), ">=", Fraction(1, 2))
    made = program(subjects=(THREAT, wide), evaluations=(evaluation(stage(call()), curves=(curve,)),), claims=(claim,))
    plan, _ = lowered(made, tmp_path)
    assert plan is not None
    assert [(e.name, e.subject, e.at) for e in plan.evaluations] == [
        ("e@eps=0.1", "t", (("eps", Fraction(1, 10)),)),
        ("e@eps=0.2", "t@eps=0.2", (("eps", Fraction(1, 5)),)),
    ]
    assert [s.id for e in plan.evaluations for s in e.stages] == ["e@eps=0.1/a", "e@eps=0.2/a"]


def test_the_threat_is_what_the_plan_carries(tmp_path: Path) -> None:
    plan, _ = lowered(attacked(), tmp_path)
    assert plan is not None
    assert plan.threat("t") == THREAT
    assert isinstance(plan.subject("t"), Threat)


@pytest.mark.parametrize(
    ("form", "space", "says"),
    [
        (InputForm(bytes=True), PX, "bytes"),
        (InputForm(bytes=True), replace(BYTES, cells=(replace(BYTES.cells[0], high=Fraction(15)),)), "bytes"),
        (InputForm(bytes=True), BYTES, ""),
        (InputForm(picture=True), replace(PX, shape=(7,)), "1 axes"),
        (InputForm(channels=(1, 3)), replace(PX, shape=(2, 8, 8)), "1 or 3 channels"),
        (InputForm(channels=(1, 3)), replace(PX, shape=(8, 8, 3)), ""),
        (InputForm(square=True), replace(PX, shape=(1, 8, 9)), "8 by 9"),
        (InputForm(square=True), replace(PX, shape=(9, 8, 3)), "9 by 8"),
        (InputForm(min_side=32), replace(PX, shape=(32, 31, 3)), "32 pixels"),
        (InputForm(min_side=32), replace(PX, shape=(3, 32, 32)), ""),
        (InputForm(), replace(PX, shape=(7,)), ""),
    ],
)
def test_the_form_of_inputs(form: InputForm, space: Space, says: str) -> None:
    found = misfits(form, space)
    assert (says in found[0]) if says else not found


def test_a_method_that_needs_another_form_is_refused(tmp_path: Path) -> None:
    text = (manifests(tmp_path) / "toy.toml").read_text(encoding="utf-8")
    (tmp_path / "toy.toml").write_text(
        text.replace("[method.walk]\n", "[method.walk]\ninput = { min_side = 3 }\n"), encoding="utf-8"
    )
    plan, found = lower(attacked(), Capabilities(tmp_path))
    assert plan is None
    assert [d.code for d in found] == ["TM516"]


def test_a_ball_of_another_norm_may_be_carried_otherwise(tmp_path: Path) -> None:
    text = (manifests(tmp_path) / "toy.toml").read_text(encoding="utf-8")
    text = text.replace('norms = ["linf"]\nnetworks', 'norms = ["linf", "l2"]\nnetworks')
    text = text.replace('domain = "exact"', 'domain = "exact"\nl2 = { domain = "outer" }', 1)
    (tmp_path / "toy.toml").write_text(text, encoding="utf-8")

    def lowering(norm: Any) -> Stage:
        threat = replace(THREAT, allow=replace(LINF, norm=norm))
        plan, found = lower(program(stage(call("toy.box"), "certify"), subjects=(threat,)), Capabilities(tmp_path))
        assert plan is not None, found
        return plan.evaluations[0].stages[0]

    assert lowering("linf").lowering == "exact"
    assert lowering("l2").lowering == "outer"
    assert "within the range of `px`" in lowering("l2").reasons[0]


def test_the_box_is_no_part_of_a_bound_over_an_l2_ball() -> None:
    """auto-LiRPA bounds the whole ball: sound, and of a larger set than the threat's."""
    for norm, lowering in (("linf", "exact"), ("l2", "outer"), ("l1", "outer")):
        threat = replace(THREAT, allow=Ball(norm, "px", Fraction(1, 10)))  # type: ignore[arg-type]
        plan, found = lower(program(stage(call("auto_lirpa.crown"), "certify"), subjects=(threat,)), Capabilities())
        assert plan is not None, found
        assert plan.evaluations[0].stages[0].lowering == lowering


def test_a_part_of_a_transform_that_a_method_does_not_know_is_refused() -> None:
    """foolbox turns and shifts pictures, and no more; the others are named that could."""
    spatial = stage(call("foolbox.SpatialAttack"))

    def asked(*parts: tuple[str, Fraction, str | None]) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
        named = tuple((name, Quantity(most, unit)) for name, most, unit in parts)
        allow = Transform(named, "bilinear", Fraction(0))
        return lower(program(spatial, subjects=(replace(THREAT, allow=allow),)), Capabilities())

    turn, shift, size = (
        ("rotate", Fraction(30), "deg"),
        ("translate", Fraction(1), "px"),
        ("scale", Fraction(1, 5), None),
    )
    for parts in ((turn, shift), (shift, turn), (turn,), (shift,)):
        plan, found = asked(*parts)
        assert plan is not None, found
        assert plan.evaluations[0].stages[0].lowering == "exact"
    for parts in ((size,), (turn, shift, size)):
        plan, found = asked(*parts)
        assert plan is None
        (error,) = found
        assert error.code == "TM508"
        assert "of a transform it knows rotate and translate, and no scale" in error.message
        assert error.help is not None
        assert "native.transform_grid" in error.help


def test_pictures_are_not_searched_by_who_leaves_their_parameters_out(tmp_path: Path) -> None:
    """A ball beside a transform could be searched alone, and nothing found there would ever be inside. A proof of the
    ball covers what of it a transform makes."""
    turned = Transform((("rotate", Quantity(Fraction(30), "deg")),), "bilinear", Fraction(0))
    either = Either((LINF, turned), ("near", "turned"))
    for allow in (turned, Both((LINF, turned)), Both((either, turned))):
        found = refused(attacked(replace(THREAT, allow=allow)), tmp_path)
        assert found.code == "TM508"
        assert "transform" in " ".join((found.message, *found.notes))
    within = replace(THREAT, allow=Both((LINF, turned)))
    proof = only_stage(program(stage(call("toy.box"), "certify"), subjects=(within,)), tmp_path)
    assert proof.lowering == "outer"


def test_beside_pictures_what_is_none_is_searched_and_proves_nothing(tmp_path: Path) -> None:
    turned = Transform((("rotate", Quantity(Fraction(30), "deg")),), "bilinear", Fraction(0))
    for allow in (Either((LINF, turned)), Both((Either((LINF, turned)), LINF))):
        threat = replace(THREAT, allow=allow)
        found = only_stage(attacked(threat), tmp_path)
        assert found.lowering == "inner"
        assert "transform { rotate <= 30 'deg' } is left out" in " ".join(found.reasons)
    proof = program(stage(call("toy.box"), "certify"), subjects=(replace(THREAT, allow=Either((LINF, turned))),))
    assert refused(proof, tmp_path).code == "TM508"


def test_a_search_of_pictures_asks_whether_the_balls_beside_them_hold(tmp_path: Path) -> None:
    text = (manifests(tmp_path) / "toy.toml").read_text(encoding="utf-8")
    text = text.replace('norms = ["linf", "l2"]', 'norms = ["transform"]')
    text = text.replace('intersection = "outer"', 'intersection = "exact"')
    (tmp_path / "toy.toml").write_text(text, encoding="utf-8")
    turned = Transform((("rotate", Quantity(Fraction(30), "deg")),), "bilinear", Fraction(0))
    for allow, lowering in (
        (turned, "exact"),
        (Both((LINF, turned)), "exact"),
        (Either((LINF, turned)), "inner"),
        (Both((Either((turned, LINF)), Ball("l1", "px", Fraction(1)))), "inner"),
    ):
        plan, found = lower(attacked(replace(THREAT, allow=allow)), Capabilities(tmp_path))
        assert plan is not None, found
        assert plan.evaluations[0].stages[0].lowering == lowering, allow
    plan, _ = lower(attacked(), Capabilities(tmp_path))
    assert plan is None
