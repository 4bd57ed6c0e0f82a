"""``tmc audit --sql``: the numbers of a run a third time, as DuckDB queries over ``records/*.parquet`` alone.

A script of tables that anyone can read and run, with nothing of tmlang: rows, units, counts, the table, the claims. The
plan decides which tables there are; no record is read to write them. Shares are whole numbers over a denominator; a
median is a float64. The last three statements show the counts, the table and the claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tmlang.audit.recount import OWN, Belief, Only
from tmlang.audit.rejudge import BELIEFS, SURE, NotRejudged, evaluation_of, of_no_population, of_one_kind, plain
from tmlang.audit.schema import COLUMNS
from tmlang.audit.sqlcorruptions import ShiftTables, error_rows
from tmlang.audit.sqldraws import DrawTables, tables_of
from tmlang.audit.sqltables import Tables, method, reading
from tmlang.audit.sqltext import create, double, name, text, texts
from tmlang.audit.void import smaller
from tmlang.base.exact import round_down, round_up
from tmlang.meaning.evaluations import CONFIDENCE, OF_DRAWS

Json = Mapping[str, Any]

_HEAD = """\
-- The numbers of columns.json from records/*.parquet alone, for DuckDB 1.2 or later:
--   tmc audit BUNDLE --sql | duckdb
-- Shares are whole numbers `low` and `high` of `denominator` units (0: undefined). Not worked out here: the confidence
-- intervals of shifts and of populations (claims about populations are judged, by binomial tails). Corruption errors
-- are float64, and equal a claim's number where they are within 1e-10 of it.
"""
_TAIL = """\
CREATE OR REPLACE TEMP MACRO tail(k, n, p) AS (
  SELECT CASE WHEN k <= 0 OR p >= 1 THEN 1 WHEN k > n OR p <= 0 THEN 0 ELSE (
    SELECT least(1, sum(exp(lgamma(n::DOUBLE + 1) - lgamma(i + 1) - lgamma(n::DOUBLE - i + 1)
      + i * ln(p) + (n::DOUBLE - i) * ln(1 - p))))
    FROM (SELECT unnest(generate_series(k::BIGINT, n::BIGINT))::DOUBLE AS i)) END);
"""
"""P[X >= k] of a binomial distribution."""
_NEAR = 1e-10
"""A mean of ratios of counts is no whole number over a small one. It is worked out in float64, far closer than this."""
_CLAIMS = "CREATE OR REPLACE TEMP TABLE claims (claim VARCHAR, status VARCHAR, low VARCHAR, high VARCHAR)"


def script(plan: Json, folder: str) -> str:
    """The statements for the bundle at ``folder``, whose ``plan.json`` is ``plan``; the last three of them give counts,
    table and claims (each only where there is any)."""
    parts = [_HEAD, _no_records() if _asks_nothing(plan) else _records(folder), _void(plan), _TAIL]
    own = [tables_of(plan, e) for e in plan["evaluations"]]
    claims = [_claim(plan, c) for c in plan["claims"]]
    made = {v.called: v for of_one in own for v in (of_one, *of_one.repeats(plan))}
    made |= {v.called: v for claim in claims for v in claim.reads}
    for tables in made.values():
        parts += tables.all()
    parts += [f"{_CLAIMS};\n", *(f"INSERT INTO claims\n{claim.query};\n" for claim in claims)]
    parts += [f"{query};\n" for query in (_counts(own), _table(plan, own), "FROM claims") if query]
    return "\n".join(parts)


def _asks_nothing(plan: Json) -> bool:
    """Whether every evaluation is about a property that speaks of no input: there are no files of records then."""
    empty = {s["name"] for s in plan["subjects"] if s["is"] == "Property" and s["empty"] is not None}
    return all(e["subject"] in empty for e in plan["evaluations"])


_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}


def _no_records() -> str:
    """The table ``records`` without a row."""
    columns = ", ".join(f"NULL::{_TYPES[c.kind]} AS {name(c.name)}" for c in COLUMNS)
    return create("records", f"SELECT {columns} WHERE false")


def _records(folder: str) -> str:
    """The table ``records``: every row, its stage without the evaluation's name in front."""
    pattern = "".join(f"[{c}]" if c in "*?[" else c for c in folder)
    short = "CASE WHEN starts_with(stage, evaluation || '/') THEN substr(stage, length(evaluation) + 2) ELSE stage END"
    source = text(f"{pattern}/records/*.parquet")
    return create("records", f"SELECT * REPLACE ({short} AS stage)\nFROM read_parquet({source})")


def _void(plan: Json) -> str:
    """The table ``void``: methods with a certificate above its gap on a unit that a witness breaks (EVIDENCE.md section
    6), of the evaluation itself or in the same set or a smaller one of another."""
    read = {e["name"]: reading(plan, e) for e in plan["evaluations"]}
    found = ["SELECT NULL::VARCHAR AS method WHERE false"]
    for evaluation, own in read.items():
        witnesses = " OR ".join(
            f"(w.evaluation = {text(other)} AND w.stage IN {texts(r.rows)} AND w.repeat < {len(r.repeats)})"
            for other, r in read.items()
            if other == evaluation or smaller(r, own)
        )
        for stage in own.proofs:
            found.append(
                f"SELECT {text(method(stage))} FROM records c JOIN records w USING (unit, label)\n"
                f"WHERE c.evaluation = {text(evaluation)} AND c.stage = {text(stage['label'])}"
                f" AND c.repeat < {len(own.repeats)}\n"
                "  AND c.label >= 0 AND c.label IS DISTINCT FROM c.target AND c.verdict = 'certified'\n"
                "  AND (c.gap IS NULL OR c.margin IS NULL OR c.margin > c.gap)\n"
                f"  AND ({witnesses}) AND w.status = 'valid' AND w.within_scope AND w.observed_failure\n"
                "  AND (c.branch IS NULL OR"
                " list_has_any(string_split(c.branch, ' '), string_split(coalesce(w.branch, ''), ' ')))"
            )
    return create("void", "\nUNION ".join(found))


# --- what is shown ----------------------------------------------------------------------------------------------------


def _counts(own: list[Tables]) -> str:
    """The letters of EVIDENCE.md section 2, a line for each threat."""
    threats = [v for v in own if v.kind == "Threat"]
    return "\nUNION ALL ".join(f"SELECT {text(v.called)} AS evaluation, * FROM {v.name('counts')}" for v in threats)


def _table(plan: Json, own: list[Tables]) -> str:
    """Every column of every evaluation, and the headline of each repeat alone."""
    lines = []
    for tables in own:
        lines.append(f"SELECT {text(tables.called)} AS evaluation, * FROM {tables.name('table')}")
        headline = "corrupted_accuracy" if tables.kind == "Shift" else "survival"
        for k, alone in enumerate(tables.repeats(plan)):
            called = text(f"{headline}, repeat {k}")
            lines.append(
                f"SELECT {text(tables.called)} AS evaluation, * REPLACE ({called} AS quantity)"
                f" FROM {alone.name('table')} WHERE quantity = {text(headline)}"
            )
    return "\nUNION ALL ".join(lines)


# --- claims -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claim:
    """``query`` gives claim, status, low and high; ``reads``: the tables that it needs."""

    query: str
    reads: tuple[Tables, ...] = ()


@dataclass(frozen=True)
class _Term:
    """A quantity: ``rows`` of ``low``, ``high`` and ``denominator``. ``whole``: whole numbers, else float64 over 1."""

    rows: str
    reads: tuple[Tables, ...]
    whole: bool = True
    near: float = 0.0
    """Within which a float64 counts as equal to another number."""
    drawn: bool = False
    """Of single draws: ``n`` of the denominator were drawn, and the rest fails for certain."""


def _claim(plan: Json, claim: Json) -> _Claim:
    said = text(claim["text"])
    if any(p["changed"] for p in plan["parameters"]):
        return _Claim(f"SELECT {said} AS claim, 'not_evaluated' AS status, NULL AS low, NULL AS high")
    try:
        if claim["population"] is not None and of_no_population(plan, claim):
            raise NotRejudged("a claim about no population")
        whole, *granted = [_at(plan, claim, *levels) for levels in _levels(plan, claim)]
    except NotRejudged:
        return _Claim(f"SELECT {said} AS claim, 'undecided' AS status, NULL AS low, NULL AS high")
    others = [f"(SELECT status AS s{i} FROM ({one.rows}))" for i, one in enumerate(granted)]
    every = " AND ".join(f"s{i} = 'supported'" for i in range(len(granted))) or "false"
    status = f"CASE WHEN status <> 'undecided' THEN status WHEN {every} THEN 'assumed' ELSE status END"
    shown = [f"{end} || '/' || denominator" if whole.whole else f"{end}::VARCHAR" for end in ("low", "high")]
    told = ["NULL", "NULL"] if claim["op"] == "holds" else shown
    query = (
        f"SELECT {said} AS claim, {status} AS status, {told[0]} AS low, {told[1]} AS high\n"
        f"FROM {', '.join([f'({whole.rows})', *others])}"
    )
    return _Claim(query, tuple(dict.fromkeys(v for one in (whole, *granted) for v in one.reads)))


@dataclass(frozen=True)
class _At:
    """A claim with its certificates believed in one way: ``rows`` is one row of ``status``, ``low``, ``high`` and
    ``denominator``."""

    rows: str
    reads: tuple[Tables, ...]
    whole: bool


Believing = tuple[Belief, ...]
"""The beliefs whose ranges are taken together."""


def _levels(plan: Json, claim: Json) -> list[tuple[Believing, Believing]]:
    """How certificates are believed on either side of a claim: in every way first, then with everything granted; in
    one way where nothing proves."""
    right = claim["right"]
    sides = [claim["left"], *([right] if isinstance(right, dict) and right["is"] == "Measured" else [])]
    proves = [bool(reading(plan, evaluation_of(plan, m)).proofs) for m in sides]
    if not any(proves):
        return [((OWN,), (OWN,))]
    ways = [(BELIEFS, *((b,) for b in BELIEFS if b != SURE)) if one else ((OWN,),) for one in proves]
    if claim["op"] == "holds":
        ways = [((SURE,), *ways[0][1:])]
    wholes, rests = [w[0] for w in ways], [w[1:] or w for w in ways]
    if len(ways) == 1:
        return [(way, way) for way in (wholes[0], *rests[0])]
    return [(wholes[0], wholes[1]), *((a, b) for a in rests[0] for b in rests[1])]


def _at(plan: Json, claim: Json, mine: Believing, theirs: Believing) -> _At:
    left = _hull([_term(plan, claim["left"], one) for one in mine])
    right = claim["right"]
    if claim["op"] == "holds":
        violated = f"{left.reads[0].name('table')} WHERE quantity = 'violated'"
        supported, refuted = "a.low = 1", f"(SELECT low = 1 FROM {violated})"
    elif isinstance(right, dict) and right["is"] == "Measured":
        supported, refuted = _comparison(claim["op"], left.near)
        left = _side_by_side(plan, claim, left, _hull([_term(plan, right, one) for one in theirs]))
    else:
        supported, refuted = _conditions(claim, left)
    status = (
        f"CASE WHEN coalesce({supported}, false) THEN 'supported'"
        f" WHEN coalesce({refuted}, false) THEN 'refuted' ELSE 'undecided' END"
    )
    rows = (
        f"SELECT {status} AS status, a.low AS low, a.high AS high, a.denominator AS denominator\n"
        f"FROM (SELECT 1) LEFT JOIN ({left.rows}) a ON true"
    )
    return _At(rows, left.reads, left.whole)


def _hull(terms: Sequence[_Term]) -> _Term:
    """The range that holds those of all terms: one row, or none where one of them is undefined."""
    if len(terms) == 1:
        return terms[0]
    of = {end: ", ".join(f"t{i}.{end}" for i in range(len(terms))) for end in ("low", "high")}
    rows = (
        f"SELECT least({of['low']}) AS low, greatest({of['high']}) AS high, t0.denominator AS denominator\n"
        f"FROM {', '.join(f'({t.rows}) t{i}' for i, t in enumerate(terms))}"
    )
    return _Term(rows, tuple(v for t in terms for v in t.reads), terms[0].whole)


def _term(plan: Json, measured: Json, belief: Belief = OWN) -> _Term:
    args = {k: plain(v) for k, v in measured["args"]}
    if measured["quantity"] in ("mce", "relative_mce"):
        return _corruption_error(plan, measured, args["baseline"])
    queries = int(args["queries"]) if "queries" in args else None
    only = Only(args.get("part"), args.get("radius"), queries, belief=belief)
    tables = tables_of(plan, evaluation_of(plan, measured), only)
    quantity = measured["quantity"]
    if quantity == "attack_success":
        labels = [s["label"] for s in tables.plan.searches if args.get("attack") in (None, s["label"])]
        quantity = f"attack_success:{labels[0]}" if len(labels) == 1 else ""
    whole = quantity != "median_distance"
    ends = "low::HUGEINT AS low, high::HUGEINT AS high, denominator::HUGEINT AS denominator"
    rows = (
        f"SELECT {ends if whole else 'low, high, 1 AS denominator'} FROM {tables.name('table')}"
        f" WHERE quantity = {text(quantity)} AND denominator > 0"
    )
    drawn = isinstance(tables, DrawTables) and measured["quantity"] in OF_DRAWS
    if isinstance(tables, DrawTables) and drawn:
        made = f"SELECT ({tables.many} * (cc + cu))::HUGEINT AS n FROM {tables.name('counts')}"
        rows = f"SELECT * FROM ({rows}), ({made})"
    return _Term(rows, (tables,), whole, drawn=drawn)


def _corruption_error(plan: Json, measured: Json, baseline: str) -> _Term:
    """The mean over corruptions of errors over the baseline's, in float64."""
    sides = (measured, {**measured, "evaluation": baseline})
    own, base = (tables_of(plan, evaluation_of(plan, side)) for side in sides)
    if not isinstance(own, ShiftTables) or not isinstance(base, ShiftTables):
        raise NotRejudged("an error of what is no shift")
    return _Term(
        error_rows(own, base, relative=measured["quantity"] == "relative_mce"), (own, base), whole=False, near=_NEAR
    )


def _conditions(claim: Json, left: _Term) -> tuple[str, str]:
    """When a claim about a number is supported, and when refuted: it holds throughout the range, or nowhere."""
    op, right = claim["op"], claim["right"]
    level = claim["population"] or (CONFIDENCE if left.drawn else None)
    ends = _Ends(left.whole, None if level is None else (1 - Fraction(level)) / 2, left.near, left.drawn)
    if isinstance(right, dict):
        half = Fraction(1, 2 * 10 ** right["decimals"]) / (100 if right["percent"] else 1)
        least, most = Fraction(right["value"]) - half, Fraction(right["value"]) + half
        within = f"{ends.is_('low', '>=', least)} AND {ends.is_('high', '<=', most)}"
        return within, f"{ends.is_('high', '<', least)} OR {ends.is_('low', '>', most)}"
    value = Fraction(right)
    if op == "==":
        exactly = f"{ends.is_('low', '>=', value)} AND {ends.is_('high', '<=', value)}"
        return exactly, f"{ends.is_('high', '<', value)} OR {ends.is_('low', '>', value)}"
    worst, best = ("low", "high") if op in (">=", ">") else ("high", "low")
    return ends.is_(worst, op, value), f"NOT ({ends.is_(best, op, value)})"


@dataclass(frozen=True)
class _Ends:
    """The ends of a claimed range against a number. ``half``: half the error of a claim about the population."""

    whole: bool
    half: Fraction | None = None
    near: float = 0.0
    drawn: bool = False

    def is_(self, end: str, op: str, value: Fraction) -> str:
        if self.half is not None:
            return self._limit(end, op, value)
        if self.whole:
            scaled = f"{value.numerator}::HUGEINT * a.denominator"
            return f"a.{end} * {value.denominator} {op} {scaled}"
        if self.near:
            return f"a.{end} {op} {double(float(value))} {_slack(op, self.near)}"
        # Between a float64 and a rational lies the rational rounded to the side that keeps the comparison.
        nearest = round_up(value, "float64") if op in (">=", "<") else round_down(value, "float64")
        return f"a.{end} {op} {double(nearest)}"

    def _limit(self, end: str, op: str, value: Fraction) -> str:
        """Clopper and Pearson's limit lies beyond ``value`` iff the binomial tail there, growing with it, is within
        half the error."""
        p, half, strict = double(float(value)), double(float(self.half or 0)), op in (">", "<=")
        n = "a.n" if self.drawn else "a.denominator"
        p = f"({p} * a.denominator / nullif(a.n, 0))" if self.drawn else p
        if end == "low":
            beyond = f"a.low > 0 AND tail(a.low, {n}, {p}) <= {half}"
            beyond += "" if strict else f" OR {p} <= 0"
        else:
            beyond = f"a.high < {n} AND 1 - tail(a.high + 1, {n}, {p}) >= {half}"
            beyond += f" OR a.high = {n} AND {p} < 1" if strict else f" OR a.high = {n}"
        known = f"({beyond})" if op in (">=", ">") else f"NOT ({beyond})"
        if not self.drawn:
            return known
        # Where nothing was drawn the number is what it is.
        plain = _Ends(self.whole).is_(end, op, value)
        return f"CASE WHEN a.n > 0 THEN {known} ELSE {plain} END"


def _side_by_side(plan: Json, claim: Json, left: _Term, right: _Term) -> _Term:
    """The range of the left, beside that of the right: one row, or none where the two count other units."""
    sides = [evaluation_of(plan, claim[side]) for side in ("left", "right")]
    about = [next(s for s in plan["subjects"] if s["name"] == e["subject"]) for e in sides]
    if not of_one_kind(*about):
        raise NotRejudged("two sets, failures or denominators")
    units = [
        f"(SELECT DISTINCT unit, label, target FROM records WHERE evaluation = {text(e['name'])} AND stage = 'clean')"
        for e in sides
    ]
    differ = [f"EXISTS (SELECT * FROM {one} EXCEPT SELECT * FROM {two})" for one, two in (units, units[::-1])]
    rows = (
        "SELECT a.*, b.low AS other_low, b.high AS other_high, b.denominator AS other_denominator\n"
        f"FROM ({left.rows}) a, ({right.rows}) b\nWHERE NOT ({' OR '.join(differ)})"
    )
    return _Term(rows, (*left.reads, *right.reads), left.whole, left.near)


def _slack(op: str, near: float) -> str:
    """What makes numbers within ``near`` of each other equal to ``op``."""
    return f"{'-' if op in ('>=', '<') else '+'} {double(near)}"


def _comparison(op: str, near: float) -> tuple[str, str]:
    """One range against another: by the worst pair of ends, and by the best."""

    def is_(mine: str, op: str, theirs: str) -> str:
        if near and op != "=":
            return f"a.{mine} {op} a.other_{theirs} {_slack(op, near)}"
        if near:
            return f"abs(a.{mine} - a.other_{theirs}) <= {double(near)}"
        return f"a.{mine} * a.other_denominator {op} a.other_{theirs} * a.denominator"

    if op == "==":
        apart = f"{is_('high', '<', 'low')} OR {is_('low', '>', 'high')}"
        return f"{is_('low', '=', 'high')} AND {is_('high', '=', 'low')}", apart
    mine, theirs = ("low", "high") if op in (">=", ">") else ("high", "low")
    return is_(mine, op, theirs), f"NOT ({is_(theirs, op, mine)})"
