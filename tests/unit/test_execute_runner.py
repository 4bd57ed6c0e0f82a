"""Runs worked by hand: what is attacked, what is recorded, what is counted, and with which exit code it ends."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from execute_support import LATTICE, MODEL, SPACE, THREAT, THREE, F, Runs, data, moved, offer, plan, stage, verdicts

from tmlang.backends.contract import Candidates, Job
from tmlang.base.seeds import derive
from tmlang.diagnostics.stop import Stop
from tmlang.execute.confirm import least_draws, least_failures
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.models import Decide, Network, Randomness, RejectWhen, Step
from tmlang.meaning.threats import Access, Goal, Rejected, Success
from tmlang.meaning.values import Symbol


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


# By score a + b against 1: 0.5 lo, 0.95 lo, 1.05 hi, and a clean error (0.5 is lo, labelled hi).
X = [[0.25, 0.25], [0.5, 0.45], [0.5, 0.55], [0.25, 0.25]]
Y = [0, 0, 1, 1]


def column(result: Any, name: str) -> tuple[Fraction, Fraction]:
    found = result.columns["e"].get(name)
    return found.low, found.high


def test_a_run_counts_what_replays_inside_the_set(runs: Runs) -> None:
    """linf 1/8: up by 1/8 breaks the second example only (0.95 + 0.25); down breaks the third (1.05 - 0.25)."""
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up"), stage("down")])
    result = runs(made, up=moved((0.125, 0.125)), down=moved((-0.125, -0.125)))
    assert result.exit_code == 3
    assert column(result, "clean_accuracy") == (F(3, 4), F(3, 4))
    assert column(result, "survival") == (F(1, 4), F(1, 4))
    assert column(result, "upper") == (F(1, 4), F(1, 4))
    assert [j.status for j in result.judgements] == ["refuted"]
    assert runs.row("3", "clean").clean == "cw"
    assert runs.row("3", "clean").counted_failure is True
    broken = runs.row("1", "up")
    assert (broken.status, broken.decision, broken.observed_failure) == ("valid", 1, True)
    assert broken.linf == 0.125
    # Only clean and correct units are attacked, and a broken one is left alone under `attribution: first`.
    assert len(runs.toys["up"].jobs[0].x) == 3
    assert {r.unit for r in runs.rows() if r.stage == "down"} == {"0", "2"}


def test_full_attribution_attacks_broken_units_too(runs: Runs) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up"), stage("down")], attribution="full")
    result = runs(made, up=moved((0.125, 0.125)), down=moved((0.125, 0.125)))
    assert {r.unit for r in runs.rows() if r.stage == "down"} == {"0", "1", "2"}
    assert [(label, c.low) for label, c in result.columns["e"].attacks] == [("up", F(1, 3)), ("down", F(1, 3))]


def test_a_candidate_outside_is_recorded_and_its_projection_counts(runs: Runs) -> None:
    """A shift of 1/2 is outside; projected to 1/8 the second example breaks, the first does not."""
    made = plan(runs.folder, data(runs.folder, X[:2], Y[:2]), [stage("far")])
    result = runs(made, far=moved((0.5, 0.5)))
    rows = [r for r in runs.rows() if r.stage == "far"]
    assert [(r.unit, r.status, r.projected, r.rule, r.observed_failure) for r in rows] == [
        ("0", "invalid", False, "linf", None),
        ("0", "valid", True, None, False),
        ("1", "invalid", False, "linf", None),
        ("1", "valid", True, None, True),
    ]
    assert rows[0].within_scope is False
    assert column(result, "survival") == (F(1, 2), F(1, 2))


def test_a_candidate_can_be_replayed_from_the_bundle(runs: Runs) -> None:
    from tmlang.audit.bundle import Bundle

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up")])
    runs(made, up=moved((0.125, 0.125)))
    reference = runs.row("1", "up").candidate
    assert reference is not None
    x, original, indices = Bundle.open(runs.folder / "out").candidate(reference)
    assert not indices
    assert np.array_equal(original, np.array(X[1], np.float32))
    assert x.sum() >= 1


def test_a_lattice_is_stored_as_indices(runs: Runs) -> None:
    from tmlang.audit.bundle import Bundle

    rows = data(runs.folder, [[0.5, 0.375]], [0])
    runs(plan(runs.folder, rows, [stage("up")], space=LATTICE), up=moved((0.125, 0.0)))
    reference = runs.row("0", "up").candidate
    assert reference is not None
    x, original, indices = Bundle.open(runs.folder / "out").candidate(reference)
    assert indices
    assert (x.tolist(), original.tolist()) == ([5, 3], [4, 3])


def test_certificates_and_witnesses_make_a_sandwich(runs: Runs) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up"), stage("proof", "certify")])
    result = runs(made, up=moved((0.125, 0.125)), proof=verdicts("certified", "unknown"))
    assert column(result, "certified") == (F(1, 4), F(1, 4))
    assert column(result, "robust_accuracy") == (F(1, 4), F(1, 2))
    assert runs.row("0", "proof").margin == 1.0


def test_a_contradicted_certificate_voids_its_method_and_names_the_input(runs: Runs) -> None:
    made = plan(
        runs.folder,
        data(runs.folder, X, Y),
        [stage("proof", "certify"), stage("up")],
        claims=(Claim("c", Measured("certified", "e"), ">=", F(1, 10)),),
    )
    result = runs(made, proof=verdicts("certified"), up=moved((0.125, 0.125)))
    assert result.exit_code == 5
    (said,) = [d for d in result.diagnostics if d.code == "TM823"]
    assert "toy.proof certified 1" in said.message
    assert column(result, "certified")[0] == 0
    assert [j.status for j in result.judgements] == ["undecided"]


def test_a_counterexample_that_does_not_replay_is_unknown(runs: Runs) -> None:
    made = plan(runs.folder, data(runs.folder, X[:1], Y[:1]), [stage("solver", "decide_exactly", evidence="complete")])
    runs(made, solver=verdicts("broken", candidates=moved((0.0625, 0.0))))
    row = runs.row("0", "solver")
    assert (row.verdict, row.observed_failure) == ("unknown", False)
    assert "does not replay" in (row.message or "")


def test_a_solvers_witness_replays_and_breaks(runs: Runs) -> None:
    made = plan(
        runs.folder, data(runs.folder, X[1:2], Y[1:2]), [stage("solver", "decide_exactly", evidence="complete")]
    )
    result = runs(made, solver=verdicts("unknown", candidates=moved((0.125, 0.125))))
    assert runs.row("0", "solver").verdict == "broken"
    assert column(result, "survival") == (0, 0)


def test_exit_codes_of_claims(runs: Runs) -> None:
    def claims(low: Fraction, quantity: str = "survival") -> tuple[Claim, ...]:
        return (Claim("c", Measured(quantity, "e"), ">=", low),)

    rows = data(runs.folder, X, Y)
    for k, (claim, code) in enumerate(
        ((claims(F(1, 4)), 0), (claims(F(1, 2)), 3), (claims(F(1, 2), "robust_accuracy"), 4))
    ):
        stages = [stage("up"), stage("down")] if k < 2 else [stage("up"), stage("proof", "certify")]
        made = plan(runs.folder, rows, stages, claims=claim)
        acts = {"up": moved((0.125, 0.125)), "down": moved((-0.125, -0.125)), "proof": verdicts("unknown")}
        assert runs(made, out=f"o{k}", **acts).exit_code == code


# --- units --------------------------------------------------------------------------------------------------------


def three(runs: Runs, goal: Goal, **changes: Any) -> Any:
    """(0.75, 0.5) is a, (0.5625, 0.75) is b, (0.25, 0.125) is half."""
    rows = data(runs.folder, [[0.75, 0.5], [0.5625, 0.75], [0.25, 0.125]], [0, 1, 2])
    threat = replace(THREAT, goal=goal, **changes)
    return plan(runs.folder, rows, [stage("up")], threat=threat, model=THREE)


def units(runs: Runs, out: str = "out") -> list[tuple[str, int | None]]:
    return [(r.unit, r.target) for r in runs.rows(out) if r.stage == "clean"]


def test_targets_of_every_goal(runs: Runs) -> None:
    goals: dict[str, tuple[Goal, list[tuple[str, int | None]]]] = {
        "class": (Goal("class", target="b"), [("0->b", 1), ("1->b", 1), ("2->b", 1)]),
        "next": (Goal("next"), [("0->b", 1), ("1->half", 2), ("2->a", 0)]),
        "runner_up": (Goal("runner_up"), [("0->b", 1), ("1->a", 0), ("2->a", 0)]),
        "least_likely": (Goal("least_likely"), [("0->b", 1), ("1->half", 2), ("2->b", 1)]),
        "each": (
            Goal("each", each="apart"),
            [("0->b", 1), ("0->half", 2), ("1->a", 0), ("1->half", 2), ("2->a", 0), ("2->b", 1)],
        ),
    }
    for name, (goal, expected) in goals.items():
        result = runs(three(runs, goal), out=name, up=moved((0.0625, 0.0)))
        assert units(runs, name) == expected, name
        assert result.columns["e"].counts.not_applicable == (1 if name == "class" else 0)


def test_random_targets_depend_on_seed_and_id_alone(runs: Runs) -> None:
    runs(three(runs, Goal("random", seed=3)), up=moved((0.0, 0.0)))
    drawn = units(runs)
    for (unit, target), label in zip(drawn, (0, 1, 2), strict=True):
        example = unit.split("->")[0]
        others = [c for c in range(3) if c != label]
        assert target == others[derive(3, "target", example) % 2]


def test_a_target_that_is_not_reached_is_no_failure(runs: Runs) -> None:
    """(0.75, 0.5) moved by (-1/8, 1/8) is the tie (0.625, 0.625), which goes to a; the third example stays `half`."""
    runs(three(runs, Goal("class", target="b")), up=moved((-0.125, 0.125)))
    row = runs.row("0->b", "up")
    assert (row.decision, row.observed_failure) == (0, False)
    assert runs.row("2->b", "up").decision == 2


def test_rejections_count_as_their_policy_says(runs: Runs) -> None:
    """Rejected when the greatest share is below 0.4: at (0.5, 0.5, 1/2) all three are 1/3."""
    model = replace(THREE, reject=(RejectWhen("max_softmax", "<", F("0.36")),))
    rows = data(runs.folder, [[0.9, 0.5], [0.5, 0.5]], [0, 0])

    def run(kind: str) -> Any:
        threat = replace(THREAT, rejected=Rejected(kind), allow=replace(THREAT.allow, radius=F(1, 2)))  # type: ignore
        made = plan(runs.folder, rows, [stage("up")], threat=threat, model=model)
        return runs(made, out=kind, up=lambda job: offer(torch.full_like(job.x, 0.5)))

    for kind, survival in (("fail", 0), ("safe", F(1, 2)), ("denied", F(1, 2))):
        result = run(kind)
        assert column(result, "survival") == (survival, survival), kind
        assert runs.row("1", "clean", kind).clean == "cr"
        row = runs.row("0", "up", kind)
        assert (row.rejected, row.decision) == (True, -1)
    assert column(result, "denied")[0] == 1


def test_outputs_that_are_not_finite_leave_the_unit_open(runs: Runs) -> None:
    huge = replace(
        THREE,
        network=Network(
            "linear", args=(("weights", ((F(10**39), F(0)), (F(0), F(1)), (F(0), F(0)))), ("bias", (F(0),) * 3))
        ),
    )
    made = plan(runs.folder, data(runs.folder, [[0.0, 0.5], [0.5, 0.5]], [1, 1]), [stage("up")], model=huge)
    result = runs(made, up=moved((0.125, 0.0)))
    assert [runs.row(u, "clean").clean for u in ("0", "1")] == ["cu", "cu"]
    assert column(result, "survival") == (0, 1)


# --- mechanics ----------------------------------------------------------------------------------------------------


def test_seeds_and_results_do_not_depend_on_the_batch(runs: Runs) -> None:
    def drawn(job: Job) -> Candidates:
        steps = [torch.rand(2, generator=torch.Generator().manual_seed(s)) for s in job.seeds]
        return offer(job.x + (torch.stack(steps) - 0.5) / 4)

    made = plan(runs.folder, data(runs.folder, X, Y), [stage("dice")])
    runs(made, out="one", batch=1, dice=drawn)
    runs(made, out="all", batch=9, dice=drawn)

    def facts(out: str) -> list[Any]:
        return [(r.unit, r.stage, r.seed, r.decision, r.linf) for r in runs.rows(out)]

    assert facts("one") == facts("all")
    assert len({r.seed for r in runs.rows("one") if r.stage == "dice"}) == 3


def test_repeats_draw_anew_and_proofs_do_not(runs: Runs) -> None:
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up"), stage("proof", "certify")], repeats=3)
    runs(made, up=moved((0.0625, 0.0625)), proof=verdicts("unknown"))
    seeds = {(r.repeat, r.seed) for r in runs.rows() if r.stage == "up" and r.unit == "0"}
    assert len({s for _, s in seeds}) == 3
    assert {r.repeat for r in runs.rows() if r.stage == "proof"} == {0}


def test_the_query_limit_is_shared_by_the_stages(runs: Runs) -> None:
    seen = []

    def ask(job: Job) -> Candidates:
        remaining = job.oracle.remaining()
        assert remaining is not None
        seen.append(remaining.tolist())
        for _ in range(2):
            job.oracle.decisions(job.x, torch.arange(len(job.x)))
        return offer(job.x)

    threat = replace(THREAT, access=Access("decisions", queries=5))
    made = plan(
        runs.folder,
        data(runs.folder, X[:2], Y[:2]),
        [stage(n, access="decisions") for n in ("one", "two", "three")],
        threat=threat,
    )
    runs(made, one=ask, two=ask, three=ask)
    # What fails together is asked again one by one.
    assert seen == [[5, 5], [3, 3], [1, 1], [1], [1]]
    assert runs.row("0", "two").queries == 2
    # The third stage ran into the limit and offered nothing of its own: QueryLimit is the adapter's to catch.
    assert runs.row("0", "three").status == "error"


def test_per_attack_limits_start_anew(runs: Runs) -> None:
    seen = []

    def ask(job: Job) -> Candidates:
        seen.append(int(job.oracle.queries[0]))
        job.oracle.decisions(job.x, torch.arange(len(job.x)))
        return offer(job.x)

    threat = replace(THREAT, access=Access("decisions", queries=1, queries_per="attack"))
    stages = [stage(n, access="decisions") for n in ("one", "two")]
    runs(plan(runs.folder, data(runs.folder, X[:1], Y[:1]), stages, threat=threat), one=ask, two=ask)
    assert seen == [0, 0]
    assert runs.row("0", "two").status == "none"


def test_a_proofs_witness_is_within_access_only_if_the_threat_grants_as_much(runs: Runs) -> None:
    threat = replace(THREAT, access=Access("decisions", queries=100))
    stages = [stage("up", access="decisions"), stage("solver", "decide_exactly")]
    made = plan(runs.folder, data(runs.folder, X[1:2], Y[1:2]), stages, threat=threat)
    result = runs(made, up=moved((0.0, 0.0)), solver=verdicts("broken", candidates=moved((0.125, 0.125))))
    assert runs.row("0", "solver").within_access is False
    assert column(result, "survival") == (1, 1)
    assert column(result, "upper") == (0, 0)


@pytest.mark.parametrize("changes", [{"allow": None, "minimize": ("l2", "px")}, {"rejected": Rejected("denied")}])
def test_what_cannot_be_run_yet_says_so(runs: Runs, changes: dict[str, Any]) -> None:
    threat = replace(THREAT, success=Success("single_draw", draws=3), **changes)
    made = plan(runs.folder, data(runs.folder, X, Y), [stage("up")], threat=threat)
    with pytest.raises(Stop) as stopped:
        runs(made, up=moved((0.0, 0.0)))
    assert stopped.value.diagnostics[0].code == "TM826"
    assert not (runs.folder / "out").exists()


def test_transfer_searches_on_the_surrogates_and_counts_in_the_object(runs: Runs) -> None:
    """Each surrogate offers its own candidate; what breaks the attacked object is a witness, and no query is spent."""
    weights = {"first": (F(1), F(0)), "second": (F(1, 2), F(2))}
    others = tuple(
        replace(MODEL, name=n, network=Network("linear", args=(("weights", w), ("bias", F(0)))))
        for n, w in weights.items()
    )
    access = Access("transfer", surrogates=("first", "second"), queries=0)
    made = plan(
        runs.folder,
        data(runs.folder, [[0.5, 0.45]], [0]),
        [stage("up", access="transfer")],
        threat=replace(THREAT, access=access),
    )
    made = replace(made, models=(*made.models, *others))

    def along_gradient(job: Job) -> Candidates:
        leaf = job.x.clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(job.oracle.logits(leaf)[:, 1].sum(), leaf)
        return offer(job.x + 0.125 * gradient / gradient.abs().amax())

    result = runs(made, up=along_gradient)
    rows = [r for r in runs.rows() if r.stage == "up"]
    # Along (1, 0) the sum grows by 0.125, along (1/4, 1) by 0.15625; both reach 1.
    assert [(r.decision, r.queries, r.gradients) for r in rows] == [(1, 0, 2), (1, 0, 2)]
    assert len({r.linf for r in rows}) == 1
    assert column(result, "survival") == (0, 0)


# --- random objects -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("draws", "threshold"), [(1, F(1, 2)), (20, F(1, 2)), (50, F(1, 10)), (200, F(9, 10))])
@pytest.mark.parametrize("level", [F(1, 100), F(1, 10**6), F(1, 3)])
def test_the_least_number_of_failures_is_that_of_scipy(draws: int, threshold: Fraction, level: Fraction) -> None:
    from scipy.stats import binom

    tails = [binom.sf(k - 1, draws, float(threshold)) for k in range(draws + 1)]
    expected = next((k for k, tail in enumerate(tails) if tail <= float(level)), None)
    assert least_failures(draws, threshold, level) == expected
    enough = least_draws(threshold, level)
    assert threshold**enough <= level < threshold ** (enough - 1)


def noisy() -> Any:
    step = Step("noise", (("kind", Symbol("gaussian")), ("sigma", F(1, 10))), random=True, differentiable=True)
    return replace(MODEL, steps=(step,), random=Randomness("per_request"))


def judged(draws: int = 200) -> Any:
    return replace(THREAT, success=Success("error_probability", F(1, 2), F(99, 100), draws))


def test_a_random_object_is_broken_where_fresh_draws_confirm_it(runs: Runs) -> None:
    """The sum has noise of deviation 0.1 sqrt(2). At 1.2 it fails with probability 0.92, at 1.0 with 1/2: 200 draws
    confirm the first beyond doubt (0.92 of 200 is 25 deviations of the test away), and hardly ever the second."""
    rows = data(runs.folder, [[0.5, 0.5 - 0.05], [0.375, 0.375], [0.25, 0.25]], [0, 0, 0])
    made = plan(runs.folder, rows, [stage("up")], model=noisy(), threat=judged())
    result = runs(made, up=moved((0.125, 0.125)))
    assert [runs.row(u, "clean").clean for u in "012"] == ["cc"] * 3
    strong, even, weak = (runs.row(u, "up") for u in "012")
    assert (strong.draws, strong.observed_failure) == (200, True)
    assert strong.errors is not None
    assert strong.errors > 160
    assert even.errors is not None
    assert 60 < even.errors < 140
    assert even.observed_failure is False
    # 0.75 is 1.8 deviations below 1: about 8 of 200.
    assert weak.errors is not None
    assert weak.errors < 40
    assert column(result, "survival") == (F(2, 3), F(2, 3))


def test_fresh_draws_depend_on_the_candidate_alone(runs: Runs) -> None:
    rows = data(runs.folder, [[0.5, 0.45], [0.375, 0.375]], [0, 0])
    made = plan(runs.folder, rows, [stage("up")], model=noisy(), threat=judged())
    for out, batch in (("a", 1), ("b", 9)):
        runs(made, out=out, batch=batch, up=moved((0.125, 0.125)))
    counts = [[(r.unit, r.stage, r.errors) for r in runs.rows(out)] for out in "ab"]
    assert counts[0] == counts[1]


def test_a_clean_input_that_mostly_fails_is_wrong(runs: Runs) -> None:
    rows = data(runs.folder, [[0.75, 0.75], [0.25, 0.25]], [0, 0])
    runs(plan(runs.folder, rows, [stage("up")], model=noisy(), threat=judged()), up=moved((0.0, 0.0)))
    clean = runs.row("0", "clean")
    assert (clean.clean, clean.clean_decision, clean.draws) == ("cw", 1, 200)


def test_too_few_draws_are_refused_with_the_least_number(runs: Runs) -> None:
    """2 examples, a clean test and one candidate each: 4 tests share 1/100, and 2**-9 <= 1/400 < 2**-8."""
    rows = data(runs.folder, X[:2], Y[:2])
    with pytest.raises(Stop) as stopped:
        runs(plan(runs.folder, rows, [stage("up")], model=noisy(), threat=judged(8)), up=moved((0.0, 0.0)))
    (said,) = stopped.value.diagnostics
    assert said.code == "TM827"
    assert "at least 9 fresh draws" in (said.help or "")
    runs(plan(runs.folder, rows, [stage("up")], model=noisy(), threat=judged(9)), up=moved((0.0, 0.0)))


def test_ties_on_the_threshold_are_the_rules(runs: Runs) -> None:
    """0.5 + 0.375 + 1/8 is exactly 1: `hi` by >=, `lo` by >."""
    for op, survives in ((">=", 0), (">", 1)):
        model = replace(MODEL, decide=Decide("threshold", op=op, value=F(1), positive="hi", negative="lo"))  # type: ignore
        made = plan(runs.folder, data(runs.folder, [[0.5, 0.375]], [0]), [stage("up")], model=model)
        result = runs(made, out=f"o{survives}", up=moved((0.125, 0.0)))
        assert column(result, "survival") == (survives, survives)


def test_an_original_outside_its_own_set_stops_before_anything(runs: Runs) -> None:
    rows = data(runs.folder, [[0.5, 1.5]], [0])
    with pytest.raises(Stop) as stopped:
        runs(plan(runs.folder, rows, [stage("up")]), up=moved((0.0, 0.0)))
    assert stopped.value.diagnostics[0].code == "TM720"
    assert SPACE.originals == "comply"


def test_a_universal_perturbation_is_one_for_all(runs: Runs) -> None:
    """The same change for every unit counts; a change for each is an error of the stage, on every unit."""
    rows, threat = data(runs.folder, X, Y), replace(THREAT, perturbation="universal", fitted_on="rows")
    fitted: list[int] = []

    def apart(job: Job) -> Candidates:
        assert job.fit is not None
        fitted.append(len(job.fit.x))
        return offer(job.x + torch.arange(1, len(job.x) + 1).reshape(-1, 1) / 64)

    made = plan(runs.folder, rows, [stage("up")], threat=threat)
    one = runs(made, batch=1, up=moved((0.125, 0.125)))
    assert runs.row("1", "up").counted_failure
    assert column(one, "survival") == (Fraction(1, 2), Fraction(1, 2))
    made = plan(runs.folder, rows, [stage("two")], threat=threat)
    result = runs(made, "out2", two=apart)
    searched = [r for r in runs.rows("out2") if r.stage == "two"]
    assert {(r.status, r.message) for r in searched} == {("error", searched[0].message)}
    assert "one perturbation" in (searched[0].message or "")
    assert column(result, "survival") == (0, Fraction(3, 4))
    assert fitted == [len(X)]
