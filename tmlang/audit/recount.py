"""The numbers of a run a second time, by another road: sets of units instead of facts per unit.

The auditor's own reading of EVIDENCE.md section 2. It takes the plan as plain JSON and the rows as they are, and
imports nothing of the code that made the numbers it checks. A number is ``(numerator, denominator, low, high)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from tmlang.audit.record import Record

Json = Mapping[str, Any]
Units = frozenset[str]
Number = tuple[int, int, Fraction | float | None, Fraction | float | None]
Belief = tuple[bool, str]
"""Which certificates count: those of trusted solvers too or not, and which gaps (``proved``, ``stated``, ``any``)."""
OWN: Belief = (False, "any")
PROOF_COUNTS = (
    "certified",
    "certified_assumed",
    "certified_trusting",
    "trusting_assumed",
    "certifier_failed",
    "trusting_failed",
)
INFINITE = float("inf")
_UNFINISHED = ("error", "timeout", "crashed", "oom", "unstable")


@dataclass(frozen=True)
class Only:
    """What is counted: rows of one branch, within a radius or a number of queries, of one repeat, with whose proofs."""

    part: str | None = None
    radius: Fraction | None = None
    queries: int | None = None
    repeat: int | None = None
    belief: Belief = OWN


class Recount:
    """One evaluation read as sets. ``stages`` and ``subject`` are the plan's JSON objects."""

    def __init__(self, evaluation: Json, subject: Json, rows: Iterable[Record], void: Units, only: Only) -> None:
        self.evaluation, self.subject, self.void, self.only = evaluation, subject, void, only
        prefix = evaluation["name"] + "/"
        mine = [(r.stage.removeprefix(prefix), r) for r in rows if r.evaluation == evaluation["name"]]
        self.start = {r.unit: r for stage, r in mine if stage == "clean"}
        self.counted = {u: r for u, r in self.start.items() if r.label >= 0 and r.label != r.target}
        repeats = range(evaluation["repeats"]) if only.repeat is None else [only.repeat]
        self.repeats = list(repeats)
        self.rows: dict[str, list[Record]] = {s["label"]: [] for s in evaluation["stages"]}
        for stage, r in mine:
            if stage in self.rows and r.unit in self.counted and r.repeat in self.repeats:
                self.rows[stage].append(r)
        self.correct = self.status("cc")

    def status(self, *clean: str) -> Units:
        return frozenset(u for u, r in self.counted.items() if r.clean in clean)

    def stages(self, *roles: str) -> list[Json]:
        return [s for s in self.evaluation["stages"] if s["role"] in roles]

    @property
    def searches(self) -> list[Json]:
        able = self.stages("attack") or self.stages("decide_exactly", "enumerate")
        return [s for s in able if self.only.part not in s["left_out"]]

    @property
    def proofs(self) -> list[Json]:
        able = self.stages("certify", "decide_exactly", "enumerate")
        kinds = ("bound", "complete", "probabilistic", "trusted")
        return [s for s in able if s["evidence"] in kinds and s["lowering"] != "inner"]

    @property
    def everybody(self) -> Belief:
        """With trusted solvers where it is the table that is counted; claims say themselves whom they believe."""
        return (True, "any") if self.only.belief == OWN else self.only.belief

    # Candidates ------------------------------------------------------------------------------------------------------

    def own_radius(self) -> Fraction | None:
        allow = self.subject.get("allow")
        radius = allow.get("radius") if allow and allow["is"] == "Ball" else None
        return None if radius is None else Fraction(radius)

    def too_far(self) -> bool:
        own = self.own_radius()
        return self.only.radius is not None and own is not None and self.only.radius > own

    def inside_part(self, row: Record) -> bool:
        return self.only.part is None or self.only.part in (row.branch or "").split(" ")

    def counts(self, row: Record, before: int) -> bool:
        """Whether an admissible candidate also meets the restriction; ``before``: queries of earlier stages."""
        only = self.only
        queries = only.queries is None or before + row.queries <= only.queries
        near = only.radius in (None, self.own_radius()) or (
            row.distance is not None and row.distance <= float(only.radius or 0) * (1 + 2.0**-50)
        )
        return row.status == "valid" and row.within_scope is True and self.inside_part(row) and queries and near

    def candidates(self, label: str, meaning: Callable[[Record], bool]) -> Units:
        """The correct units with a counted candidate of this stage that ``meaning`` holds of."""
        found = set()
        for row in self.rows[label]:
            before = 0
            if self.only.queries is not None and self.subject["access"]["queries_per"] == "example":
                before = self.spent(row.unit, row.repeat, label)
            if row.unit in self.correct and self.counts(row, before) and meaning(row):
                found.add(row.unit)
        return frozenset(found)

    def spent(self, unit: str, repeat: int, label: str) -> int:
        """Queries of a unit before this stage of this repeat: all of earlier repeats, and the stages written before."""
        order = [s["label"] for s in self.evaluation["stages"]]
        most: dict[tuple[int, int], int] = {}
        for place, name in enumerate(order):
            for r in self.rows[name]:
                if r.unit == unit and (r.repeat, place) < (repeat, order.index(label)):
                    most[r.repeat, place] = max(most.get((r.repeat, place), 0), r.queries)
        return sum(most.values())

    def over(self, stages: Iterable[Json], meaning: Callable[[Record], bool]) -> Units:
        return frozenset().union(*(self.candidates(s["label"], meaning) for s in stages))

    def finished(self, stage: Json) -> Units:
        """The units that every repeat of a search finished."""
        if self.too_far():
            return frozenset()
        done: set[str] = set(self.correct)
        for repeat in self.repeats:
            rows = [r for r in self.rows[stage["label"]] if r.repeat == repeat]
            failed = {r.unit for r in rows if r.status in _UNFINISHED}
            if stage["role"] != "attack":
                failed |= {r.unit for r in rows if r.verdict in ("error", "timeout", "unknown")}
            ends = [r for r in rows if r.status == "none" or (r.status == "valid" and self.inside_part(r))]
            done &= {r.unit for r in ends} - failed
        return frozenset(done)

    # Certificates ----------------------------------------------------------------------------------------------------

    def proved(self, row: Record) -> bool:
        radius = self.only.radius
        if radius is not None and row.radius is not None:
            return row.verdict in ("certified", "unknown") and Fraction(row.radius) >= radius
        above = row.gap is None or row.margin is None or row.margin > row.gap
        return row.verdict == "certified" and above and not self.too_far()

    def certified(self, belief: Belief) -> Units:
        """The units whose set certificates of this belief cover."""
        parts: dict[str | None, set[str]] = {}
        for stage in self.proofs:
            if f"{stage['backend']}.{stage['method']}" in self.void:
                continue
            for r in self.rows[stage["label"]]:
                if r.verdict is not None and self.proved(r) and believed(belief, stage, r):
                    for part in [None] if r.branch is None else r.branch.split(" "):
                        parts.setdefault(part, set()).add(r.unit)
        names = [self.only.part] if self.only.part else self.branches()
        everywhere = {u for u in self.correct if names and all(u in parts.get(name, ()) for name in names)}
        return self.correct & (parts.get(None, set()) | everywhere)

    def failing(self, broken: Units, *, trusting: bool) -> Units:
        """Units of which some certifier failed, was void, or never ran."""
        failed: set[str] = set()
        for stage in self.proofs:
            if stage["evidence"] == "trusted" and not trusting:
                continue
            rows = [r for r in self.rows[stage["label"]] if r.verdict is not None]
            failed |= {r.unit for r in rows if r.verdict in ("error", "timeout")}
            failed |= self.correct - broken - {r.unit for r in rows}
            if f"{stage['backend']}.{stage['method']}" in self.void:
                failed |= {r.unit for r in rows if self.proved(r)}
        return self.correct & failed

    def branches(self) -> list[str]:
        allow = self.subject.get("allow")
        if not allow or allow["is"] != "Either":
            return []
        names = allow["names"] or [""] * len(allow["parts"])
        return [name or str(i + 1) for i, name in enumerate(names)]

    # Examples out of pairs -------------------------------------------------------------------------------------------

    def lift(self, units: Units, any_target: bool | None = None) -> Units:
        """Pairs to examples: those with any, or with every, pair in ``units``; pairs counted apart stay as they are."""
        each = self.subject["goal"]["each"] if self.subject["goal"]["kind"] == "each" else "apart"
        if each == "apart":
            return units
        examples: dict[str, list[bool]] = {}
        for u, r in self.counted.items():
            examples.setdefault(r.example, []).append(u in units)
        chosen = any if (each == "any" if any_target is None else any_target) else all
        return frozenset(x for x, inside in examples.items() if chosen(inside))

    def colift(self, units: Units) -> Units:
        """The other quantifier: a certificate of an example needs every target where a witness needs any."""
        return self.lift(units, any_target=self.subject["goal"]["each"] != "any")


def witness(row: Record) -> bool:
    return row.observed_failure is True


def believed(belief: Belief, stage: Json, row: Record) -> bool:
    """Whether a certificate counts: by who gave it, and by what it says of its gap to the object's arithmetic."""
    trusting, gaps = belief
    told = "none" if row.gap is None else row.gap_kind or "assumed"
    kinds = {"any": ("proved", "assumed", "none"), "stated": ("proved", "assumed"), "proved": ("proved",)}[gaps]
    return (trusting or stage["evidence"] != "trusted") and told in kinds


def in_access(row: Record) -> bool:
    return witness(row) and row.within_access is True


def denial(row: Record) -> bool:
    return row.rejected is True


def share(low: int, high: int, base: int) -> Number:
    return (low, base, Fraction(low, base), Fraction(high, base)) if base else (low, 0, None, None)


@dataclass(frozen=True)
class Lifted:
    """The counted sets of a threat, as examples (or as pairs where those are counted apart)."""

    broken: Units
    broken_any: Units
    unfinished: Units
    certified: Units
    assumed: Units
    trusting: Units
    trusting_assumed: Units
    failed: Units
    trusting_failed: Units
    undecided: Units
    clean: Mapping[str, int]


def lifted(r: Recount) -> Lifted:
    stages, belief = r.evaluation["stages"], r.only.belief
    broken, broken_any = r.over(stages, in_access), r.over(stages, witness)
    open_ = r.correct - _searched(r)
    certified, trusting = r.certified(belief), r.certified(r.everybody)
    failed = r.failing(broken_any, trusting=belief[0]) - certified
    every = r.failing(broken_any, trusting=True) - trusting
    by = {b: r.colift(r.certified(b)) for b in product((False, True), ("proved", "stated"))}
    return Lifted(
        r.lift(broken),
        r.lift(broken_any),
        r.lift(broken | open_) - r.lift(broken),
        r.colift(certified),
        r.colift(certified) & by[False, "stated"] - by[False, "proved"],
        r.colift(trusting),
        r.colift(trusting) & by[True, "stated"] - by[True, "proved"],
        r.colift(certified | failed) - r.colift(certified),
        r.colift(trusting | every) - r.colift(trusting),
        r.lift((open_ - broken) | every, any_target=True),
        {s: len(r.lift(r.status(s), any_target=True)) for s in ("cc", "cw", "cr", "cu")},
    )


def _searched(r: Recount) -> Units:
    return frozenset.intersection(r.correct, *(r.finished(s) for s in r.searches))


def threat_counts(r: Recount) -> dict[str, int]:
    """The letters of EVIDENCE.md section 2 by the names that ``columns.json`` gives them."""
    s, apart = lifted(r), r.subject["goal"]["kind"] != "each" or r.subject["goal"]["each"] == "apart"
    base = sum(s.clean.values())
    skipped = sum(row.label >= 0 and row.label == row.target for row in r.start.values()) if apart else 0
    selected = len(r.start) if apart else len({row.example for row in r.start.values()})
    cc, cu = s.clean["cc"], s.clean["cu"]
    return {
        "selected": selected,
        "not_applicable": skipped,
        "unusable": selected - skipped - base,
        "exempt": sum(row.within_scope is False for row in r.start.values()),
        "base": base,
        "denominator": base if r.subject["clean_errors"] == "fail" else cc + cu,
        **s.clean,
        "broken": len(s.broken),
        "broken_any_access": len(s.broken_any),
        "unfinished": len(s.unfinished),
        "certified": len(s.certified),
        "certified_assumed": len(s.assumed),
        "certified_trusting": len(s.trusting),
        "trusting_assumed": len(s.trusting_assumed),
        "certifier_failed": len(s.failed),
        "trusting_failed": len(s.trusting_failed),
        "denied": len(r.lift(r.over(r.evaluation["stages"], denial), any_target=True)),
        "undecided": len(s.undecided),
        "open": len(s.unfinished - s.broken_any - s.trusting),
    }


def threat_numbers(r: Recount) -> dict[str, Number]:
    """Every column of a threat; attacks as ``attack_success:<label>`` and ``found_alone:<label>``."""
    s = lifted(r)
    w, i, c, t = len(s.broken), len(s.unfinished), len(s.certified), len(s.failed)
    cc, cw, cu = s.clean["cc"], s.clean["cw"], s.clean["cu"]
    a = sum(s.clean.values())
    d = a if r.subject["clean_errors"] == "fail" else cc + cu
    decided = d - len(s.undecided) - cu
    found = {
        "clean_accuracy": share(cc, cc + cu, a),
        "clean_answered": share(cc + cw, cc + cw + cu, a),
        "coverage": share(decided, decided, d),
    }
    if r.searches:
        found["survival"] = share(cc - w - i, cc + cu - w, d)
        found["survival_completed"] = share(cc - w - i, cc - w - i, d - i - cu)
        found["attack_coverage"] = share(d - i - cu, d - i - cu, d)
    own = [stage for stage in r.proofs if stage["evidence"] != "trusted"]
    if own or (r.proofs and r.only.belief != OWN):
        found["certified"] = share(c, c + t, d)
    if len(own) < len(r.proofs):
        found["certified_trusting"] = share(len(s.trusting), len(s.trusting) + len(s.trusting_failed), d)
    if r.proofs:
        given = cc - len(s.trusting_failed)
        found["certificate_coverage"] = share(given, given, cc + cu)
    if r.subject["nature"] is None:
        top = cc + cu - len(s.broken_any)
        found["upper"] = share(top, top, d)
        found[rate_name(r.subject)] = share(c, top, d)
    return found | _denied(r, cc, cu, d) | _reviews(r, s.broken) | _attacks(r, cc, cu) | _distance(r)


def rate_name(subject: Json) -> str:
    """What the range of R is called."""
    special = [subject["goal"]["kind"] != "untargeted", subject["clean_errors"] != "fail"]
    special += [subject["success"] is not None]
    return "robust_rate" if any(special) else "robust_accuracy"


def _denied(r: Recount, cc: int, cu: int, d: int) -> dict[str, Number]:
    if (r.subject["rejected"] or {}).get("kind") != "denied":
        return {}
    stages = r.evaluation["stages"]
    broken, denied, searched = r.over(stages, in_access), r.over(stages, denial), _searched(r)
    every = r.lift(denied, any_target=True)
    fallen = r.lift(broken) | every
    open_ = r.lift(broken | denied | (r.correct - searched)) - fallen
    low, high = cc - len(fallen) - len(open_), cc + cu - len(fallen)
    return {"denied": share(len(every), cc + cu, cc + cu), "survival_any": share(low, high, d)}


def _reviews(r: Recount, w: Units) -> dict[str, Number]:
    found: dict[str, Number] = {}
    reviewed = [row.label_reviewed for row in r.start.values() if row.label_reviewed is not None]
    if reviewed:
        found["reviewed"] = share(sum(reviewed), sum(reviewed), len(r.start))
    stages = r.evaluation["stages"]
    kept = r.lift(r.over(stages, lambda row: witness(row) and row.label_kept is True), any_target=True) & w
    judged = r.lift(r.over(stages, lambda row: witness(row) and row.label_kept is not None), any_target=True) & w
    if judged:
        found["semantic_validity"] = share(len(kept), len(kept) + len(w - judged), len(w))
        found["witnesses_judged"] = share(len(judged), len(judged), len(w))
    return found


def _attacks(r: Recount, cc: int, cu: int) -> dict[str, Number]:
    if r.evaluation["attribution"] != "full":
        return {}
    fell: dict[str, Units] = {}
    waits: dict[str, Units] = {}
    for stage in r.searches:
        pairs = r.candidates(stage["label"], in_access)
        fell[stage["label"]] = r.lift(pairs)
        waits[stage["label"]] = r.lift(pairs | (r.correct - r.finished(stage))) - fell[stage["label"]]
    found = {}
    for label, w in fell.items():
        found[f"attack_success:{label}"] = share(len(w), len(w) + len(waits[label]) + cu, cc + cu)
        others = [other for other in fell if other != label]
        broken, open_ = (frozenset().union(*(sets[o] for o in others)) for sets in (fell, waits))
        if others:
            most = len((w | waits[label]) - broken) + cu
            found[f"found_alone:{label}"] = share(len(w - broken - open_), most, cc + cu)
    return found


def _distance(r: Recount) -> dict[str, Number]:
    """Medians of plain units (a threat that minimizes has no targets to join but ``apart``)."""
    if r.subject["minimize"] is None:
        return {}
    nearest: dict[str, Fraction] = {}
    for stage in r.evaluation["stages"]:
        fell = r.candidates(stage["label"], in_access)
        for row in r.rows[stage["label"]]:
            if row.unit in fell and in_access(row) and row.distance is not None and r.counts(row, 0):
                nearest[row.unit] = min(nearest.get(row.unit, Fraction(row.distance)), Fraction(row.distance))
    done = _searched(r)
    high: list[Fraction | float] = [nearest.get(u, INFINITE) for u in r.correct]
    low: list[Fraction | float] = [nearest.get(u, INFINITE) if u in done else Fraction(0) for u in r.correct]
    unknown = len(r.status("cu"))
    wrong = len(r.status("cw", "cr")) if r.subject["clean_errors"] == "fail" else 0
    low += [Fraction(0)] * (unknown + wrong)
    high += [INFINITE] * unknown + [Fraction(0)] * wrong
    return {"median_distance": (len(nearest), len(low), _middle(low), _middle(high))}


def _middle(values: list[Fraction | float]) -> Fraction | float | None:
    if not values:
        return None
    values = sorted(values)
    while len(values) > 2:
        values = values[1:-1]
    return INFINITE if INFINITE in values else sum((Fraction(v) for v in values), Fraction(0)) / len(values)
