"""What probabilistic certificates are worth, by hand and by scipy: their radius, and how sure they are together."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from audit_support import Rows, attack, certifier, evaluation
from scipy.stats import beta, norm

from tmlang.audit.confidence import Confidence, confidence
from tmlang.audit.draws import confidence_note, draw_faults
from tmlang.plan import codec
from tmlang.plan.ir import EvaluationPlan

N, ALPHA, SIGMA = 1000, F(1, 1000), F(1, 2)
SMOOTH = certifier("c", evidence="probabilistic", arguments=(("alpha", ALPHA), ("n", F(N))))
OTHER = certifier("d", evidence="probabilistic", arguments=(("alpha", F(1, 100)), ("n", F(N))))
SURE = certifier("p")


def radius(hits, n=N, alpha=ALPHA):
    """sigma Phi^-1(p), p the lower Clopper-Pearson limit of hits of n at 1 - alpha."""
    return float(SIGMA) * norm.ppf(beta.ppf(float(alpha), hits, n - hits + 1))


def raw(e):
    return codec.encode(e, EvaluationPlan)


def plan(*stages, allow=None):
    """(plan, evaluation) as plain JSON, as far as the auditor reads them."""
    e = raw(evaluation(attack("a"), *stages))
    ball = {"is": "Ball", "norm": "l2", "radius": "1/2", "tolerance": "0"}
    step = {"args": [["sigma", "1/2"]]}
    whole = {
        "subjects": [{"name": "u", "allow": {"is": "Anything"}}, {"name": "t", "model": "net", "allow": allow or ball}],
        "models": [{"name": "other", "steps": []}, {"name": "net", "space": "px", "steps": [step]}],
        "spaces": [{"name": "tiny", "shape": [2]}, {"name": "px", "shape": [1, 8, 8]}],
    }
    return whole, e


def drawn(hits, verdict="certified", n=N, stage="c", **changes):
    rows = Rows().clean("u")
    rows.proof("u", stage, verdict, draws=n, errors=n - hits, **changes)
    return rows.all


def faults(rows, *stages, allow=None):
    return list(draw_faults(*plan(*(stages or (SMOOTH,)), allow=allow), rows))


def least(wanted, n=N):
    """The fewest hits whose radius is beyond ``wanted``."""
    return next(h for h in range(n // 2, n) if radius(h, n) > wanted)


def test_a_certificate_needs_draws_that_prove_its_radius():
    enough = least(0.5)
    assert faults(drawn(enough)) == []
    (fault,) = faults(drawn(enough - 1))
    assert fault.startswith("e, u: `c` claims more than")
    assert f"{enough - 1} of {N} draws" in fault
    assert f"a radius of {radius(enough - 1):.6g}" in fault


def test_the_rows_own_radius_counts_too():
    hits = least(0.5) + 40
    proved = radius(hits)
    assert faults(drawn(hits, radius=proved * (1 - 1e-7))) == []
    assert len(faults(drawn(hits, radius=proved * (1 + 1e-7)))) == 1
    assert faults(drawn(hits, "unknown", radius=proved * (1 - 1e-7))) == []
    assert len(faults(drawn(hits, "unknown", radius=proved * (1 + 1e-7)))) == 1
    # Both sides' own roundings are no fault.
    assert faults(drawn(hits, "unknown", radius=proved * (1 + 5e-9))) == []
    assert faults(drawn(least(0.25), "unknown", radius=0.25)) == []


def test_who_claims_nothing_needs_no_draws():
    assert faults(drawn(10, "unknown")) == []
    (fault,) = faults(drawn(10, "unknown", radius=0.125))
    assert fault.endswith("draws prove, a radius of 0")
    assert len(faults(drawn(10, "unknown", radius=0.0))) == 1
    assert len(faults(drawn(N // 2))) == 1


def test_only_rows_with_draws_of_probabilistic_stages_of_this_evaluation_are_looked_at():
    rows = Rows().clean("u")
    rows.proof("u", "p", "certified", draws=N, errors=N).proof("u", "c", "certified")
    rows.attack("u", "a", draws=N, errors=0)
    rows.proof("u", "c", "certified", draws=N, errors=N, evaluation="elsewhere")
    assert faults(rows.all, SURE, SMOOTH) == []
    full = Rows().clean("u").proof("u", "e/c", "certified", draws=N, errors=N).all
    assert len(faults(full, SURE, SMOOTH)) == 1
    assert len(faults(drawn(0, stage="c") + drawn(0, stage="d"), SMOOTH, OTHER)) == 2


def test_a_certificate_rests_on_all_its_draws():
    few = drawn(least(0.5, N + 1) + 20, n=N + 1)
    assert faults(few) == ["e, u: `c` certifies on 1001 of 1000 draws"]
    assert faults(drawn(least(0.125), "unknown", n=N - 1, radius=0.125)) == []
    assert [f.split("` ")[1][:6] for f in faults(drawn(200, n=200))] == ["certif"]


def test_no_errors_told_are_none():
    rows = Rows().clean("u").proof("u", "c", "certified", draws=N).all
    assert faults(rows) == []


def test_what_a_certificate_must_cover_is_in_the_norm_of_its_threat():
    rms = {"is": "Ball", "norm": "l2_rms", "radius": "1/16", "tolerance": "1/64"}
    enough = least(8 * (1 / 16 + 1 / 64))
    assert faults(drawn(enough), allow=rms) == []
    assert len(faults(drawn(enough - 1), allow=rms)) == 1
    wider = {"is": "Ball", "norm": "l2", "radius": "1/2", "tolerance": "1/8"}
    assert faults(drawn(least(0.625)), allow=wider) == []
    assert len(faults(drawn(least(0.625) - 1), allow=wider)) == 1
    # Of 64 pixels a change of 1/16 in each is 8/16 long in l2, and one of 1/16 in all together at most 1/16.
    linf = {"is": "Ball", "norm": "linf", "radius": "1/16", "tolerance": "0"}
    assert faults(drawn(least(1 / 2)), allow=linf) == []
    assert len(faults(drawn(least(1 / 2) - 1), allow=linf)) == 1
    l1 = linf | {"norm": "l1"}
    assert faults(drawn(least(1 / 16)), allow=l1) == []
    assert len(faults(drawn(least(1 / 16) - 1), allow=l1)) == 1
    assert len(faults(drawn(N), allow=linf | {"norm": "l0"})) == 1
    assert len(faults(drawn(N), allow={"is": "Anything"})) == 1


def test_of_several_balls_the_least_one_is_enough():
    small = {"is": "Ball", "norm": "l2", "radius": "1/4", "tolerance": "0"}
    linf = {"is": "Ball", "norm": "linf", "radius": "1/4", "tolerance": "0"}
    ball = {"is": "Ball", "norm": "l2", "radius": "1/2", "tolerance": "0"}
    both = {"is": "Both", "parts": [ball, {"is": "Anything"}, linf, small]}
    assert faults(drawn(least(0.25)), allow=both) == []
    assert len(faults(drawn(least(0.25) - 1), allow=both)) == 1
    assert len(faults(drawn(N), allow={"is": "Both", "parts": [{"is": "Anything"}]})) == 1


# How sure they are together ------------------------------------------------------------------------------------------


def several():
    """u is drawn for by both stages, v and w by the first alone; w proves nothing."""
    rows = Rows().clean("u").clean("v").clean("w")
    for unit, stage, margin in (("u", "c", 0.5), ("u", "d", None), ("v", "c", 0.25), ("w", "c", None)):
        rows.proof(unit, stage, "certified" if margin else "unknown", draws=N, errors=0, margin=margin)
    rows.proof("w", "p", "certified", margin=1.0)
    rows.proof("v", "c", "certified", draws=N, margin=0.5, evaluation="elsewhere")
    rows.attack("w", "a", margin=0.5)
    return rows.all


BOTH = evaluation(attack("a"), SURE, SMOOTH, OTHER)


def test_errors_add_up_over_units_and_within_each():
    told = confidence(BOTH, several())
    assert told == Confidence(1 - F(11, 1000), 1 - F(13, 1000), 3, 1)
    assert told.words == "each at 98.9 %, all 3 jointly at 98.7 %; 1 abstained"
    assert confidence_note(raw(BOTH), several()) == told.words


def test_errors_that_add_up_to_one_leave_nothing_joint():
    wild = evaluation(certifier("c", evidence="probabilistic", arguments=(("alpha", F(1, 2)), ("n", F(N)))))
    rows = Rows().clean("u").clean("v")
    rows.proof("u", "c", draws=N, margin=0.5)
    assert confidence(wild, rows.all) == Confidence(F(1, 2), F(1, 2), 1, 0)
    rows.proof("v", "c", draws=N, margin=0.5)
    assert confidence(wild, rows.all) == Confidence(F(1, 2), None, 2, 0)
    assert confidence(wild, rows.all).words == "each at 50 %, jointly at none; 0 abstained"
    assert confidence_note(raw(wild), rows.all) == "each at 50 %, jointly at none; 0 abstained"


def test_a_confidence_is_told_to_six_places():
    thirds = evaluation(certifier("c", evidence="probabilistic", arguments=(("alpha", F(1, 30_000)), ("n", F(N)))))
    rows = Rows().clean("u").clean("v").proof("u", "c", draws=N, margin=0.5).proof("v", "c", draws=N, margin=0.5).all
    words = "each at 99.996667 %, all 2 jointly at 99.993333 %; 0 abstained"
    assert confidence(thirds, rows).words == confidence_note(raw(thirds), rows) == words


def test_without_a_probabilistic_stage_there_is_nothing_to_say():
    plain = evaluation(attack("a"), SURE)
    assert confidence(plain, several()) is None
    assert confidence_note(raw(plain), several()) == ""


def test_a_stage_that_drew_nothing_is_sure():
    rows = Rows().clean("u").proof("u", "c", "error").all
    only = evaluation(SMOOTH)
    assert confidence(only, rows) == Confidence(F(1), F(1), 0, 0)
    assert confidence_note(raw(only), rows) == "each at 100 %, all 0 jointly at 100 %; 0 abstained"


@pytest.mark.parametrize("hits", [600, 900, 999, 1000])
def test_the_radius_is_scipys(hits):
    (fault,) = faults(drawn(hits), allow={"is": "Ball", "norm": "linf", "radius": "1", "tolerance": "0"})
    assert float(fault.rsplit(" ", 1)[1]) == pytest.approx(radius(hits), rel=1e-5)
