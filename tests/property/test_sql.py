"""The printed queries, run by DuckDB: a third road to every number, on any rows that can be written."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from audit_rows import RESTRICTION, STAGES, THREAT, as_numbers, as_only, rows
from audit_support import Rows, attack, certifier, evaluation, plan, threat, worked_example
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from tmlang.audit import sql
from tmlang.audit.claims import judge_plan
from tmlang.audit.rejudge import status as rejudged
from tmlang.audit.schema import to_table
from tmlang.audit.sqldraws import tables_of
from tmlang.audit.tally import contradictions, tally, tally_plan
from tmlang.meaning.evaluations import Claim, Measured, RoundsTo
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Ball, Goal, Property, Shift, Success
from tmlang.meaning.values import Call, Symbol
from tmlang.plan.text import plan_json


class Duck:
    """DuckDB over the rows of one bundle, whose script has been run."""

    def __init__(self, whole, records) -> None:
        self.raw = json.loads(plan_json(whole))
        self.folder = tempfile.TemporaryDirectory()
        (Path(self.folder.name) / "records").mkdir()
        pq.write_table(to_table(records), Path(self.folder.name) / "records" / "000001.parquet")
        self.connection = duckdb.connect(config={"threads": 1})
        self.answers = []
        for statement in self.connection.extract_statements(sql.script(self.raw, self.folder.name)):
            result = self.connection.execute(statement)
            if statement.type == duckdb.StatementType.SELECT:
                self.answers.append(result.fetchall())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.folder.cleanup()

    def numbers(self, tables):
        """The table as (numerator, denominator, low, high); of a median its two ends."""
        for statement in tables.all():
            self.connection.execute(statement)
        found = self.connection.execute(f"FROM {tables.name('table')}").fetchall()
        return {quantity: as_shares(low, high, base) for quantity, low, high, base in found}


def as_shares(low, high, base):
    return (low, base, Fraction(int(low), base), Fraction(int(high), base)) if base else (low, 0, None, None)


def counts(duck, tables):
    result = duck.connection.execute(f"FROM {tables.name('counts')}")
    return dict(zip([d[0] for d in result.description], result.fetchone(), strict=True))


@given(st.data(), STAGES, THREAT, RESTRICTION, st.sampled_from(["first", "full"]))
@settings(max_examples=25, deadline=None)
def test_a_third_road_to_every_number(data, stages, t, restriction, attribution):
    e = evaluation(*stages, attribution=attribution, repeats=2)
    made = data.draw(rows(e, t))
    void = frozenset(c.method for c in contradictions(e, made) if not c.within_gap)
    event(f"void: {bool(void)}")
    columns = tally(e, t, made, restriction=restriction, voided=void)
    with Duck(plan([e], [t]), made) as duck:
        tables = tables_of(duck.raw, duck.raw["evaluations"][0], as_only(restriction))
        assert duck.numbers(tables) == as_numbers(columns)
        assert counts(duck, tables) == asdict(columns.counts)


@given(st.data(), STAGES, THREAT)
@settings(max_examples=15, deadline=None)
def test_medians_to_the_last_bit_of_a_float(data, stages, t):
    # Of single draws there is no nearest failure.
    t = replace(t, allow=None, minimize=("l2", "px"), goal=Goal("untargeted"), success=None, nature=None)
    e = evaluation(*stages, repeats=2)
    made = data.draw(rows(e, t))
    own = tally_plan(plan([e], [t]), made)["e"].get("median_distance")
    with Duck(plan([e], [t]), made) as duck:
        query = "FROM \"e: table\" WHERE quantity = 'median_distance'"
        _, low, high, base = duck.connection.execute(query).fetchone()
        # The distances that are drawn are sums of few powers of two: their means are exact.
        assert (low, high, base) == (own.low, own.high, own.denominator)


def claim(quantity, op, right, e="e", population=None, **args):
    values = {k: Symbol(v) if isinstance(v, str) else v for k, v in args.items()}
    return Claim(f"{quantity} {op} {right}", Measured(quantity, e, tuple(values.items())), op, right, None, population)


def agrees(whole, records):
    """Every claim by the queries and by the run: (status, low, high), without the limits of populations."""
    with Duck(whole, records) as duck:
        found = duck.answers[-1]
    told = judge_plan(whole, records)
    assert len(found) == len(told)
    for (said, status, low, high), j in zip(found, told, strict=True):
        assert (said, status) == (j.claim.text, j.status)
        of_draws = any(getattr(s, "success", None) for s in whole.subjects)  # the limits of draws are tails there
        if j.claim.population is None and j.claim.op != "holds" and not of_draws:
            ends = [None if end is None else Fraction(end) for end in (low, high)]
            if j.claim.left.quantity in ("mce", "relative_mce") and None not in ends:
                # A mean of ratios is worked out in float64, some ulp from exact.
                assert all(abs(a - b) <= Fraction(1, 10**12) for a, b in zip(ends, (j.low, j.high), strict=True)), said
            else:
                assert ends == [j.low, j.high], said
    return {status for _, status, _, _ in found}


@pytest.mark.parametrize("population", [None, Fraction(95, 100)])
def test_claims_at_every_threshold(population):
    """Survival lies in [40, 52] %, R in [20, 52] %, certified is 20 %, of 100 units."""
    sampled = plan([evaluation(attack(), certifier())], [threat()])
    data = replace(sampled.data[0], sampling="drawn one by one")
    claims = [
        claim(quantity, op, Fraction(percent, 100), population=population)
        for quantity in ("survival", "certified", "robust_accuracy", "clean_accuracy")[: 2 if population else 4]
        for op in (">=", ">", "<=", "<", *(() if population else ("==",)))
        for percent in ((0, 12, 13, 30, 62, 63, 100) if population else (0, 20, 30, 40, 43, 52, 100))
    ]
    claims += [
        claim("survival", "rounds_to", RoundsTo(Fraction(value, 100), decimals, True), population=population)
        for value in (40, 46, 70)
        for decimals in (0, 1)
    ]
    claims += [claim("denied", ">=", Fraction(1, 2)), claim("survival", ">=", Fraction(1, 2), e="f")]
    whole = replace(sampled, data=(data,), claims=tuple(claims))
    assert agrees(whole, worked_example()) == {"supported", "refuted", "undecided"}


@pytest.mark.parametrize("policy", ["fail", "excluded"])
def test_claims_on_draws_are_judged_by_their_whole_interval(policy):
    """Of 20 right units with 10 draws each 30 draws fail and 10 are open; 5 units are wrong. The limits are scipy's:
    of 200 draws at least 160 and at most 170 are survived, and under `fail` the draws of the wrong ones fail too."""
    gathered = Rows()
    for i in range(20):
        gathered.clean(f"u{i}")
        told = {"draws": 10, "errors": 3 * (i < 10), "outcomes": ("111" if i < 10 else "000") + "0" * 7}
        if i < 19:
            gathered.attack(f"u{i}", "a", "valid", observed_failure=None, **told)
        else:
            gathered.attack(f"u{i}", "a", "error")
    for i in range(5):
        gathered.clean(f"w{i}", "cw")
    scale = Fraction(200, 250 if policy == "fail" else 200)
    claims, wanted = [], []
    for level in (None, Fraction(99, 100)):
        half = (1 - float(level or Fraction(95, 100))) / 2
        low, high = beta.ppf(half, 160, 41) * float(scale), beta.ppf(1 - half, 171, 30) * float(scale)
        for op, percent in product((">=", ">", "<=", "<"), range(50, 100)):
            claims.append(
                replace(claim("survival", op, Fraction(percent, 100), population=level), text=f"{len(claims)}")
            )
            worst, best = (low, high) if op in (">=", ">") else (high, low)
            holds = [end >= percent / 100 if op in (">=", ">") else end <= percent / 100 for end in (worst, best)]
            wanted.append("supported" if holds[0] else "undecided" if holds[1] else "refuted")
    judged = threat(success=Success("single_draw", draws=10), clean_errors=policy)
    whole = plan([evaluation(attack())], [judged], claims=tuple(claims))
    assert [j.status for j in judge_plan(whole, gathered.all)] == wanted
    raw = json.loads(plan_json(whole))
    assert [rejudged(raw, c, gathered.all, frozenset())[0] for c in raw["claims"]] == wanted
    assert agrees(whole, gathered.all) == {"supported", "refuted", "undecided"}


def test_claims_that_set_two_evaluations_side_by_side():
    first, second = evaluation(attack(), certifier()), evaluation(attack(), certifier(), name="f")
    other = evaluation(attack(), name="g")
    rows = worked_example()
    rows += [replace(r, evaluation="f", status="none" if r.status == "timeout" else r.status) for r in rows]
    rows += [replace(r, evaluation="g") for r in worked_example() if r.unit != "u099"]
    claims = [
        claim(a, op, Measured(b, e))
        for a, b, e in (
            ("survival", "survival", "f"),
            ("certified", "certified", "f"),
            ("certified", "survival", "f"),
            ("survival", "survival", "g"),
        )
        for op in (">=", ">", "<=", "<", "==")
    ]
    whole = plan([first, second, other], [threat()], claims=tuple(claims))
    assert agrees(whole, rows) == {"supported", "refuted", "undecided"}


def test_shifts_and_the_mean_error_over_a_baselines():
    shift = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "wilson", Fraction(95, 100))
    fog = attack("fog", role="corrupt", evidence="estimate", method="fog", arguments=(("severity", Fraction(3)),))
    by_fog = {"corruption": "fog", "severity": 3}
    made = []
    for name, right in (("e", 5), ("b", 3)):
        rows = Rows(name)
        for i in range(10):
            rows.clean(f"x{i}", "cc" if i < 8 else "cw")
            for repeat in range(2):
                decision = 0 if i < right else 1
                answer = {"decision": decision, "within_scope": True} if i < 9 else {}
                rows._row(
                    f"x{i}", "fog", {"status": "valid" if i < 9 else "timeout", "repeat": repeat} | answer | by_fog
                )
        made += rows.all
    both = [evaluation(fog, name=n, repeats=2) for n in ("e", "b")]
    claims = [claim("mce", op, Fraction(k, 4), baseline="b") for op in ("<=", ">=", "<") for k in (2, 3, 4)]
    claims += [claim("corrupted_accuracy", ">=", Fraction(1, 2))]
    whole = plan(both, [shift], claims=tuple(claims))
    # 10 of 20 are right and 2 are unfinished; of the baseline 6, and 2: errors 8 to 10 over 12 to 14.
    assert agrees(whole, made) == {"supported", "refuted", "undecided"}
    with Duck(whole, made) as duck:
        assert ("e", "corrupted_accuracy", 10, 12, 20) in duck.answers[-2]
        assert ("e", "corrupted_accuracy, repeat 1", 5, 6, 10) in duck.answers[-2]
        for tables in (tables_of(duck.raw, e) for e in duck.raw["evaluations"]):
            own = tally_plan(whole, made)[tables.called]
            assert duck.numbers(tables) == as_numbers(own)


@pytest.mark.parametrize(
    ("outcome", "status"), [("broken", "refuted"), ("none", "supported"), ("timeout", "supported")]
)
def test_properties(outcome, status):
    subject = Property("t", "net", (), ())
    e = evaluation(attack(), certifier())
    rows = Rows().clean("t")
    rows.attack("t", "a", outcome).proof("t", "c", "unknown" if outcome == "broken" else "certified")
    whole = plan([e], [subject], claims=(Claim("holds", Measured("holds", "e"), "holds"),))
    assert agrees(whole, rows.all) == {status}


def test_a_property_about_nothing_is_vacuous():
    """Three roads say so: no float32 is 1/10."""
    space = Space("two", (1,), (Cell("real", Fraction(0), Fraction(1)),), features=("a",))
    subject = Property("t", "net", (("a", "==", Fraction(1, 10)),), (), "a")
    whole = plan([evaluation(attack(), certifier())], [subject], claims=(Claim("c", Measured("holds", "e"), "holds"),))
    whole = replace(whole, spaces=(space,), models=tuple(replace(m, space="two") for m in whole.models))
    assert agrees(whole, []) == {"undecided"}
    with Duck(whole, []) as duck:
        assert ("e", "vacuous", 1, 1, 1) in duck.answers[-2]
        assert ("e", "holds", 0, 0, 1) in duck.answers[-2]


def test_a_contradicted_method_is_void_everywhere():
    first, second = evaluation(attack(), certifier()), evaluation(certifier(), name="f")
    rows = Rows().clean("u").attack("u", outcome="broken").proof("u").all + Rows("f").clean("v").proof("v").all
    whole = plan([first, second], [threat()], claims=(claim("certified", "==", Fraction(0), e="f"),))
    assert agrees(whole, rows) == {"undecided"}
    with Duck(whole, rows) as duck:
        assert ("f", "certified", 0, 1, 1) in duck.answers[-2]


def test_names_out_of_a_bundle_stay_names():
    """A bundle may come from a stranger, and its queries may be run unread."""
    hostile = "e'); DROP TABLE records; --\n\"; DROP TABLE void; /*"
    e = evaluation(attack(hostile), name=hostile)
    rows = Rows(hostile).clean(hostile).attack(hostile, hostile, "broken").all
    allowed = Ball("linf", "px", Fraction(1, 8))
    text = claim("survival", "==", Fraction(0), e=hostile, part=hostile, attack=hostile)
    whole = plan([e], [threat(allow=allowed)], claims=(replace(text, text=hostile),))
    with Duck(whole, rows) as duck:
        assert [row[0] for row in duck.answers[1]] == [hostile] * len(duck.answers[1])
        assert (hostile, "survival", 0, 0, 1) in duck.answers[1]
        assert duck.connection.execute("SELECT count(*) FROM records, (SELECT count(*) FROM void)").fetchone() == (2,)
