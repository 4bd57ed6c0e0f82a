"""Signs that gradients are masked, from records written by hand: who shows each, and who does not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from audit_support import Rows, attack, evaluation, plan, solver, threat

from tmlang.audit.masking import SIGNS, Sign, signs
from tmlang.audit.record import Record
from tmlang.meaning.evaluations import Curve
from tmlang.meaning.threats import Access, Ball
from tmlang.plan.capability import Capabilities
from tmlang.plan.ir import Cost, EvaluationPlan, Stage

F = Fraction
ONE_STEP = attack("fgsm", method="fgsm", cost=Cost(2, 1))
GRADIENTS = attack("pgd", method="pgd", cost=Cost(41, 40))
SQUARE = attack("square", method="square", access="scores", cost=Cost(100, 0))
BLIND = attack("blind", method="random", access="decisions", cost=Cost(100, 0))


def found(stages: list[Stage], rows: Rows, **changes: Any) -> list[tuple[str, tuple[str, ...]]]:
    told = signs(plan([evaluation(*stages, **changes)], [threat()]), rows.all)
    return [(s.code, s.units) for s in told]


def table(**outcomes: str) -> Rows:
    """One row per unit and stage: ``pgd="n b x"`` is none, broken, error of the units u0, u1, u2; ``.`` no row."""
    words = {"n": "none", "b": "broken", "x": "error", "i": "invalid", "t": "timeout", "u": "unstable", "v": "valid"}
    rows = Rows()
    for i in range(len(next(iter(outcomes.values())).split())):
        rows.clean(f"u{i}")
        for stage, told in outcomes.items():
            if (word := told.split()[i]) != ".":
                rows.attack(f"u{i}", stage, words[word])
    return rows


def test_what_gradients_left_standing_and_another_search_broke():
    """u0: both break it. u1: only the black box. u2: the gradients did not finish. u3: nobody ran gradients on it."""
    rows = table(pgd="b n x .", square="b b b b")
    assert found([GRADIENTS, SQUARE], rows) == [("TM870", ("u1",))]
    (sign,) = signs(plan([evaluation(GRADIENTS, SQUARE)], [threat()]), rows.all)
    assert sign.name == "a search without gradients beats them"
    assert sign.evidence == (
        "square (native.square) broke 1 of 4 units that pgd (native.pgd) searched to the end and left standing"
    )


def test_a_search_of_another_part_of_the_set_beats_nobody():
    """Of a union each search may look into one branch: that one finds what the other does not is no sign, of the same
    branch it is, and so it is where some search by gradients looked everywhere."""
    here, there = ("l1 <= 1 is left out",), ("linf <= 1 is left out",)
    rows = table(fgsm="b n", pgd="n n", square="n b")
    one, two, square = (
        replace(s, lowering="inner", reasons=r) for s, r in ((ONE_STEP, there), (GRADIENTS, here), (SQUARE, there))
    )
    assert found([two, square], rows) == []
    assert found([one, two], rows) == []
    assert found([two, replace(square, reasons=here)], rows) == [("TM870", ("u1",))]
    assert found([replace(one, reasons=here), two], rows) == [("TM874", ("u0",))]
    assert found([replace(one, lowering="exact"), two, square], rows) == [("TM870", ("u1",))]
    assert found([one, replace(two, lowering="outer"), square], rows) == [("TM870", ("u1",)), ("TM874", ("u0",))]


@pytest.mark.parametrize("word", ["x", "t", "u", "i"])
def test_a_search_that_did_not_finish_is_not_beaten(word: str):
    assert found([GRADIENTS, SQUARE], table(pgd=word, square="b")) == []


def test_every_search_by_gradients_must_have_missed_it():
    assert found([ONE_STEP, GRADIENTS, SQUARE], table(fgsm="n n", pgd="n b", square="b b")) == [("TM870", ("u0",))]


def test_what_drew_blindly_has_a_name_of_its_own():
    rows = table(pgd="n n", square="n b", blind="b .")
    assert found([GRADIENTS, SQUARE, BLIND], rows) == [("TM870", ("u1",)), ("TM871", ("u0",))]


def test_the_blind_methods_are_those_of_the_manifests():
    from tmlang.audit.masking import _RANDOM

    for path in _RANDOM:
        backend, _, method = path.partition(".")
        manifest = Capabilities().backend(backend)
        assert manifest is not None
        assert manifest.methods[method].access in ("nothing", "decisions")


def test_two_in_a_thousand_are_too_few():
    for units, raised in ((500, False), (499, True)):
        rows = table(pgd=" ".join("n" * units), square=" ".join("b" + "n" * (units - 1)))
        assert bool(found([GRADIENTS, SQUARE], rows)) is raised


def test_solvers_and_searches_alone_raise_nothing():
    rows = table(pgd="n n", s="b b")
    assert found([GRADIENTS, solver()], rows) == []
    assert found([SQUARE, BLIND], table(square="n", blind="b")) == []


def test_a_transfer_attack_of_its_own_evaluation_counts_where_the_set_is_the_same():
    mine = evaluation(GRADIENTS)
    transfer = attack("sent", access="transfer", method="apgd")
    rows = table(pgd="n b").all + [replace(r, evaluation="f") for r in table(sent="b b").all]
    theirs = threat(name="other", access=Access("transfer", surrogates=("s",)))

    def told(*subjects: Any) -> tuple[Sign, ...]:
        other = replace(evaluation(transfer, name="f"), subject="other")
        return signs(plan([mine, other], list(subjects)), rows)

    assert [(s.code, s.evaluation, s.units) for s in told(threat(), theirs)] == [("TM870", "e", ("u0",))]
    assert "sent (native.apgd) of f broke 1 of 2" in told(threat(), theirs)[0].evidence
    wider = replace(theirs, allow=Ball("linf", "px", F(1, 4)))
    assert told(threat(), wider) == ()


def counted(*told: tuple[str, int, int], progressed: tuple[bool | None, ...] = ()) -> Rows:
    """(outcome, gradients, zero gradients) of the units u0, u1, …"""
    rows = Rows()
    for i, (outcome, gradients, zero) in enumerate(told):
        far = progressed[i] if progressed else None
        rows.clean(f"u{i}").attack(f"u{i}", "pgd", outcome, gradients=gradients, zero_gradients=zero, progressed=far)
    return rows


def test_only_gradients_that_are_all_zero_count():
    rows = counted(("none", 40, 40), ("none", 40, 39), ("none", 0, 0), ("broken", 40, 40), ("error", 40, 40))
    assert found([GRADIENTS], rows) == [("TM872", ("u0",))]


def test_repeats_add_up():
    """The second repeat of u0 had slopes; u1 had none in either; u2 lacks its second repeat."""
    rows = Rows()
    for unit, zeros in (("u0", (5, 4)), ("u1", (5, 5)), ("u2", (5,))):
        rows.clean(unit)
        for repeat, zero in enumerate(zeros):
            rows.attack(unit, "pgd", "none", repeat=repeat, gradients=5, zero_gradients=zero)
    assert found([GRADIENTS], rows, repeats=2) == [("TM872", ("u1",))]


def test_a_loss_that_never_moved():
    rows = counted(*[("none", 9, 0)] * 3, ("broken", 9, 0), progressed=(False, True, None, False))
    assert found([GRADIENTS], rows) == [("TM873", ("u0",))]


@pytest.mark.parametrize(("steps", "raised"), [(9, False), (10, True), (None, False)])
def test_one_step_beats_ten_times_as_many(steps: int | None, raised: bool):
    long = replace(GRADIENTS, cost=Cost(None, steps))
    rows = table(fgsm="b n b", pgd="n n b")
    assert found([ONE_STEP, long], rows, attribution="full") == ([("TM874", ("u0",))] if raised else [])


# Sweeps --------------------------------------------------------------------------------------------------------------


def sweep(*points: tuple[Fraction, str]) -> tuple[list[EvaluationPlan], list[Any], list[Record]]:
    """One evaluation per radius, with the fate of its units."""
    evaluations, subjects, rows = [], [], []
    for radius, fates in points:
        name = f"e@eps={radius}"
        stage = replace(GRADIENTS, label="pgd")
        made = replace(evaluation(stage, name=name), subject=f"t@{radius}", at=(("eps", radius),))
        evaluations.append(replace(made, curves=(Curve("eps", tuple(r for r, _ in points)),)))
        subjects.append(threat(name=f"t@{radius}", allow=Ball("linf", "px", radius)))
        rows += [replace(r, evaluation=name) for r in table(pgd=fates).all]
    return evaluations, subjects, rows


@pytest.mark.parametrize(
    ("points", "said"),
    [
        # As many survive at twice the radius: 1 of 2.
        ([(F(1, 8), "b n"), (F(1, 4), "b n")], "survival stays at 50 % from a radius of 0.125 to one of 0.25"),
        # More survive farther out.
        ([(F(1, 8), "b b n n"), (F(1, 4), "n n n b")], "survival stays at 75 % from a radius of 0.125 to one of 0.25"),
        # Fewer survive; or none; or the radius is not twice as wide; or what did not finish may have fallen.
        ([(F(1, 8), "b n n"), (F(1, 4), "b b n")], None),
        ([(F(1, 8), "b b"), (F(1, 4), "b b")], None),
        ([(F(3, 16), "b n"), (F(1, 4), "b n")], None),
        ([(F(1, 8), "b n"), (F(1, 4), "b x")], None),
        ([(F(1, 8), "b n")], None),
    ],
)
def test_a_sweep_that_does_not_use_its_room(points: list[tuple[Fraction, str]], said: str | None):
    evaluations, subjects, rows = sweep(*points)
    told = signs(plan(evaluations, subjects), rows)
    assert [(s.code, s.evaluation, s.evidence) for s in told] == ([("TM875", "e", said)] if said else [])


def test_more_survive_than_any_object_could_let():
    """The space is [0, 1]: from a radius above 1/2 on, all sets share 1/2, and one decision suits one label only."""
    falls = [(F(1, 8), "n n n n"), (F(9, 16), "n n n b")]
    evaluations, subjects, rows = sweep(*falls)
    labels = {"u0": 0, "u1": 1, "u2": 1, "u3": 2}
    rows = [replace(r, label=labels[r.unit], clean_decision=labels[r.unit]) for r in rows]
    (sign,) = signs(plan(evaluations, subjects), rows)
    assert sign.evidence == (
        "3 units survive at 0.5625, where all allowed sets share an input and no object survives on more than 2"
    )
    half = sweep((F(1, 8), "n n n n"), (F(1, 2), "n n n b"))
    assert signs(plan(half[0], half[1]), [replace(r, label=labels[r.unit]) for r in half[2]]) == ()
    same = [replace(r, label=1) for r in rows]
    assert signs(plan(evaluations, subjects), same) == ()


def test_every_sign_has_a_page_that_names_its_bar():
    from tmlang.diagnostics.registry import page_source, rule

    for code in SIGNS:
        assert rule(code).severity == "warning"
        assert ("0.2 %" in page_source(code)) is (code != "TM875")
