"""Everything that a report shows, once, as typed text: the page and the Markdown file print the same view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import STATUS_WORDS, ClaimStatus, Judgement, formula, judge_plan
from tmlang.audit.columns import Column, Columns
from tmlang.audit.curves import Sweep, after_each_attack, sweeps
from tmlang.audit.masking import SIGNS, Sign, signs
from tmlang.audit.record import Record
from tmlang.audit.show import exact, interval
from tmlang.audit.tally import tally_plan, voided_methods
from tmlang.audit.units import is_estimate, is_share
from tmlang.meaning.threats import Property, Shift, Subject, Threat
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import EvaluationPlan, Plan
from tmlang.plan.text import plan_hash
from tmlang.plan.written import allowed, written
from tmlang.report.corruptions import CorruptionTable, corruption_table
from tmlang.report.drawing import Drawing
from tmlang.report.examples import Example, examples
from tmlang.report.failures import FailureView, Look, failure_views, look_first
from tmlang.report.limits import limits, untested
from tmlang.report.numbers import (
    NAMES,
    SUMMARY,
    Bounds,
    NumberView,
    Segment,
    bar,
    bounds,
    headline,
    number_view,
    rests_on,
    short,
)
from tmlang.report.stages import StageView, stage_views
from tmlang.report.symbols import symbol_lines
from tmlang.report.words import Sentence, sentences

_OVERVIEW = (*SUMMARY, "reviewed")
_PROVES = {
    "survival": "a search, from above",
    "certified": "certificates, from below",
    "certified_trusting": "certificates and solvers that are trusted, from below",
    "robust_accuracy": "certificates from below, witnesses from above",
    "robust_rate": "certificates from below, witnesses from above",
    "upper": "witnesses, from above",
    "corrupted_accuracy": "an average",
    "mce": "a ratio of averages",
    "relative_mce": "a ratio of averages",
    "holds": "a proof, or a witness",
    "attack_success": "a search",
    "median_distance": "a search, from above",
    "denied": "a search, from below",
}


@dataclass(frozen=True, slots=True)
class ClaimView:
    """``proves``: the direction of the evidence behind the claimed quantity."""

    text: str
    formula: str
    status: ClaimStatus
    reason: str
    proves: str
    rests_on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """Survival behind one attack: shares in [0, 1], and as text."""

    label: str
    low: float
    high: float
    text: str


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One value of a sweep; ``own`` and ``closed`` are (survival, certified) as text, ``ends`` as shares."""

    value: str
    own: tuple[str, str]
    closed: tuple[str, str]
    at: float
    ends: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class SweepView:
    evaluation: str
    parameter: str
    rows: tuple[SweepRow, ...]
    contradicted: bool
    rests_on: str = ""
    """What certificates of its points rest on, where anything."""


@dataclass(frozen=True, slots=True)
class EvaluationView:
    name: str
    subject: str
    kind: str
    doc: str
    summary: tuple[str, ...]
    headline: tuple[str, ...]
    bounds: Bounds
    bar: tuple[Segment, ...]
    overview: tuple[tuple[str, str], ...]
    sentences: tuple[Sentence, ...]
    symbols: tuple[str, ...]
    asked: str
    done: str
    stages: tuple[StageView, ...]
    order: tuple[Point, ...]
    proved: float | None
    rests_on: str
    numbers: tuple[NumberView, ...]
    attacks: tuple[tuple[str, NumberView], ...]
    alone: tuple[tuple[str, NumberView], ...]
    repeats: tuple[tuple[str, NumberView], ...]
    look: Look | None
    failures: tuple[FailureView, ...]
    failed: int
    contradictions: tuple[str, ...]
    limits: tuple[str, ...]
    seed: str
    examples: tuple[Example, ...] = ()
    corrupted: CorruptionTable | None = None


@dataclass(frozen=True, slots=True)
class View:
    """``legend``: what the columns of the overview count. ``signs``: that gradients are masked, read from the records.
    ``facts``: (heading, (name, value) pairs) of versions, files and machine."""

    title: str
    claims: tuple[ClaimView, ...]
    evaluations: tuple[EvaluationView, ...]
    sweeps: tuple[SweepView, ...]
    overview_columns: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]
    signs: tuple[Sign, ...]
    warnings: tuple[str, ...]
    untested: tuple[str, ...]
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    spec: tuple[tuple[str, str], ...]
    drawings: tuple[Drawing, ...] = ()


def view_of(bundle: Bundle) -> View:
    """The view of a bundle, its numbers counted from its records."""
    plan, placed = bundle.plan(), tuple(bundle.placed_records())
    records = [record for _, record in placed]
    columns = tally_plan(plan, records)
    voided = voided_methods(plan, records)
    evaluations = tuple(_evaluation(bundle, plan, e, columns, placed, voided) for e in plan.evaluations)
    names = [m.name for m in plan.own_modules]
    overview = tuple(number for number in _OVERVIEW if any(columns[e.name].get(number) for e in plan.evaluations))
    return View(
        names[0].rpartition("/")[2] if names else "run",
        tuple(_claim(plan, j) for j in judge_plan(plan, records)),
        evaluations,
        tuple(_sweep(s) for s in sweeps(plan, records)),
        overview,
        tuple(NAMES[name] for name in (*overview, *["robust_rate"] * any(e.bounds.text for e in evaluations))),
        signs(plan, records),
        _warnings(bundle, plan),
        untested(plan, plan.evaluations),
        _facts(bundle, plan),
        tuple((n, bundle.text(n)) for n in bundle.files() if n.startswith("spec/")),
    )


def claims_line(view: View) -> str:
    """``2 evaluations; 4 claims: 2 supported, 1 refuted, 1 undecided.``"""
    n = len(view.evaluations)
    parts = [f"{n} evaluation{'s' * (n != 1)}"]
    if view.claims:
        found = Counter(c.status for c in view.claims)
        counts = ", ".join(f"{n} {words}" for s, words in STATUS_WORDS.items() if (n := found[s]))
        parts.append(f"{len(view.claims)} claim{'s' * (len(view.claims) != 1)}: {counts}")
    return "; ".join(parts) + "."


def _claim(plan: Plan, j: Judgement) -> ClaimView:
    left = j.claim.left
    proves = _PROVES.get(left.quantity, "a count of records")
    subject = next(plan.subject(e.subject) for e in plan.evaluations if left.evaluation in (e.name, declared_name(e)))
    if proves.startswith("a search") and isinstance(subject, Threat) and is_estimate(subject):
        proves = "an estimate: an average over draws" if is_share(subject) else "an estimate: a search, tested on draws"
    return ClaimView(j.claim.text, formula(j.claim), j.status, j.reason, proves, j.rests_on)


def _sweep(sweep: Sweep) -> SweepView:
    def pair(columns: Columns) -> tuple[str, str]:
        return short(columns, "survival"), short(columns, "certified")

    def end(column: Column | None, side: str) -> float | None:
        value = None if column is None else getattr(column, side)
        return None if value is None else float(value)

    rows = tuple(
        SweepRow(
            written(p.value),
            pair(p.own),
            pair(p.closed),
            float(p.value),
            (end(p.closed.get("survival"), "high"), end(p.closed.get("certified"), "low")),
        )
        for p in sweep.points
    )
    contradicted = any(c for p in sweep.points for c in p.closed.contradictions if not c.within_gap)
    words = {w for p in sweep.points for w in _GROUNDS if w in rests_on(p.closed.get("certified"))}
    return SweepView(
        sweep.evaluation, sweep.parameter, rows, contradicted, ", ".join(w for w in _GROUNDS if w in words)
    )


_GROUNDS = ("real arithmetic", "assumed")


def _evaluation(
    bundle: Bundle,
    plan: Plan,
    evaluation: EvaluationPlan,
    every: Mapping[str, Columns],
    placed: Sequence[tuple[str, Record]],
    voided: frozenset[str],
) -> EvaluationView:
    columns, records = every[evaluation.name], [record for _, record in placed]
    subject = plan.subject(evaluation.subject)
    model = plan.model(subject.model)
    classes = ("holds", "violated") if isinstance(subject, Property) else model.classes
    failures = failure_views(bundle, evaluation, subject, classes, plan.space(model.space), records)
    certified = columns.get("certified")
    curve = _curve(evaluation, subject, records)
    return EvaluationView(
        evaluation.name,
        subject.name,
        type(subject).__name__.lower(),
        " ".join(part for part in (subject.doc, evaluation.doc) if part),
        _summary(subject, evaluation),
        headline(columns),
        bounds(columns),
        bar(columns) if isinstance(subject, Threat) else (),
        tuple((name, short(columns, name)) for name in _OVERVIEW),
        sentences(plan, subject),
        symbol_lines(plan, subject),
        *_HEADS[type(subject)],
        stage_views(evaluation, records, dict(curve), breaks=_breaks(subject)),
        tuple(_point(label, c) for label, c in curve if c.defined),
        None if certified is None or certified.low is None else float(certified.low),
        rests_on(certified),
        tuple(number_view(c) for c in columns.columns),
        tuple((label, number_view(c)) for label, c in columns.attacks),
        tuple((label, number_view(c)) for label, c in columns.alone),
        tuple((f"repeat {i}", number_view(c)) for i, c in enumerate(columns.repeats, 1)),
        look_first(evaluation, subject, classes, records),
        *failures,
        tuple(_contradictions(columns)),
        limits(plan, evaluation, columns, records),
        "" if evaluation.seed is None else str(evaluation.seed),
        examples(evaluation, subject, classes, placed, voided),
        corruption_table(plan, evaluation, every),
    )


def _breaks(subject: Subject) -> bool:
    """Whether units are broken: a shift changes them by chance, and single draws are counted and not units."""
    return not isinstance(subject, Shift) and not (isinstance(subject, Threat) and is_share(subject))


def _summary(subject: Subject, evaluation: EvaluationPlan) -> tuple[str, ...]:
    """The threat and the means on one line: ``linf <= 8/255 in px``, ``white box``, ``untargeted``, …"""
    if isinstance(subject, Shift):
        many = f"{len(subject.apply)} changes, each by itself"
        change = written(subject.apply[0]) if len(subject.apply) == 1 else many
        return (change, "an average, no attacker")
    if isinstance(subject, Property):
        return ("every input of its box",)
    limit = f"minimize {subject.minimize[0]}" if subject.minimize else ""
    moves = [] if subject.mutable.kind == "all" else ["a part may change"]
    queries = [f"at most {subject.access.queries} queries"] if subject.access.queries is not None else []
    roles = Counter(s.role for s in evaluation.stages)
    counted = [f"{n} {_ROLES[role][n != 1]}" for role, n in roles.items()]
    drawn = [part for part, *_ in subject.nature.parts] if subject.nature is not None else []
    what = allowed(subject.allow) if subject.allow is not None else limit
    return (
        what.removesuffix(" at any place") if "place" in drawn else what,
        *([f"nature draws {', '.join(drawn)}"] if drawn else []),
        *moves,
        "targeted" if subject.goal.kind != "untargeted" else "untargeted",
        subject.access.level.replace("_", " "),
        *queries,
        *counted,
    )


_HEADS: Mapping[type, tuple[str, str]] = {
    Threat: ("What was allowed", "What was searched"),
    Shift: ("What was measured", "What was changed"),
    Property: ("What was asked", "What was searched"),
}
_ROLES = {
    "attack": ("search", "searches"),
    "certify": ("certifier", "certifiers"),
    "decide_exactly": ("solver", "solvers"),
    "enumerate": ("enumeration", "enumerations"),
    "corrupt": ("corruption", "corruptions"),
}


def _curve(evaluation: EvaluationPlan, subject: Subject, records: Sequence[Record]) -> tuple[tuple[str, Column], ...]:
    return after_each_attack(evaluation, subject, records) if isinstance(subject, Threat) else ()


def _point(label: str, column: Column) -> Point:
    low, high = float(column.low or 0), float(column.high or 0)
    return Point(label, low, high, interval(column.low, column.high))


def _contradictions(columns: Columns) -> list[str]:
    found = []
    for c in columns.contradictions:
        if c.within_gap:
            found.append(
                f"{c.unit}: {c.certifier} is contradicted by {c.witness} within its stated gap; it did not count."
            )
        else:
            found.append(
                f"{c.unit}: {c.certifier} certified it, and {c.witness} found an allowed input that fails. "
                f"Every certificate of {c.method} in this run is void."
            )
    return found


# Where it comes from -------------------------------------------------------------------------------------------------


def _warnings(bundle: Bundle, plan: Plan) -> tuple[str, ...]:
    found = [f"{code}: {message}" for code, message in plan.warnings]
    told = _json(bundle, "environment.json").get("warnings", [])
    found += [f"{w['code']}: {w['message']}" for w in told if w["code"] not in SIGNS]
    return tuple(dict.fromkeys(found))


def _json(bundle: Bundle, name: str) -> Mapping[str, Any]:
    """A file of the bundle; empty where it is not there yet."""
    found = bundle.json(name) if name in set(bundle.files()) else {}
    return found if isinstance(found, dict) else {}


def _facts(bundle: Bundle, plan: Plan) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    run, machine = _json(bundle, "run.json"), _json(bundle, "environment.json")
    frozen = set(machine.get("unfrozen", []))
    files = [
        (name, f"{digest}{' (taken as it was, not frozen in the spec)' if name in frozen else ''}")
        for name, digest in run.get("artifacts", {}).items()
    ]
    evaluators = [
        (f"evaluator of {model}", ", ".join(f"{k} {_plain(v)}" for k, v in facts.items() if k != "object"))
        for model, facts in run.get("models", {}).items()
    ]
    objects = [(f"object {model}", str(facts.get("object", "—"))) for model, facts in run.get("models", {}).items()]
    where = [(k, str(machine[k])) for k in ("python", "platform", "processor") if k in machine]
    groups = [
        ("identity", [("plan", plan_hash(plan)), ("protocol", _protocol(run)), *objects]),
        ("files", files),
        ("modules of the spec", [(m.name, m.sha256) for m in plan.modules]),
        ("libraries", [(k, str(v)) for k, v in run.get("libraries", {}).items()]),
        ("reference evaluator", evaluators),
        ("machine", where),
    ]
    return tuple((heading, tuple(pairs)) for heading, pairs in groups if pairs)


def _protocol(run: Mapping[str, Any]) -> str:
    """Whether the protocol was fixed before its results were seen (``tmc freeze``, ``tmc run --locked``)."""
    lock = run.get("lock")
    return "not frozen before the run" if lock is None else f"frozen before the run, by the lock {lock}"


def _plain(value: Any) -> str:
    return exact(value) or "—" if isinstance(value, float) else str(value)
