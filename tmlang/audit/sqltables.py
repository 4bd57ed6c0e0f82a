"""One evaluation as DuckDB tables: rows, what was found of each unit, counts, table (EVIDENCE.md section 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tmlang.audit.recount import OWN, Belief, Only, Recount, rate_name
from tmlang.audit.sqltext import create, double, name, text, texts
from tmlang.base.exact import round_up

Json = Mapping[str, Any]
PROVED = "verdict = 'certified' AND (gap IS NULL OR margin IS NULL OR margin > gap)"
"""A certificate above its gap."""
EVERYTHING = Only()
BELIEFS: tuple[Belief, ...] = tuple((t, gaps) for t in (False, True) for gaps in ("proved", "stated", "any"))
_WITNESS = "inside AND observed_failure"
_UNFINISHED = "('error', 'timeout', 'crashed', 'oom', 'unstable')"


def reading(plan: Json, evaluation: Json, only: Only = EVERYTHING) -> Recount:
    """What the plan alone says of an evaluation: stages, repeats, branches, radius."""
    subject = next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])
    return Recount(evaluation, subject, (), frozenset(), only)


def believed(belief: Belief) -> str:
    """When a row of a stage that is ``trusted`` or not counts as a certificate that it is."""
    trusting, gaps = belief
    stated = "gap IS NOT NULL AND coalesce(gap_kind, 'assumed') <> 'none'"
    kind = {"any": "true", "stated": stated, "proved": f"{stated} AND gap_kind = 'proved'"}[gaps]
    return f"coalesce({kind}, false)" if trusting else f"(NOT trusted AND coalesce({kind}, false))"


def flag(belief: Belief) -> str:
    """The column that holds whether a unit is certified so far."""
    return f"{'trusting' if belief[0] else 'own'}_{belief[1]}"


def method(stage: Json) -> str:
    return f"{stage['backend']}.{stage['method']}"


@dataclass(frozen=True)
class Tables:
    """The tables of one evaluation under one restriction; ``called`` is what their names begin with."""

    called: str
    plan: Recount

    @classmethod
    def of(cls, plan: Json, evaluation: Json, only: Only = EVERYTHING) -> Tables:
        said = {"part": only.part, "radius": only.radius, "queries": only.queries, "repeat": only.repeat}
        under = [f"{k} {v}" for k, v in said.items() if v is not None]
        under += [f"certificates {flag(only.belief)}"] * (only.belief != OWN)
        return cls(", ".join([evaluation["name"], *under]), reading(plan, evaluation, only))

    @property
    def kind(self) -> str:
        """``Threat``, ``Shift`` or ``Property``."""
        return str(self.plan.subject["is"])

    def name(self, what: str) -> str:
        """The quoted name of one of the tables."""
        return name(f"{self.called}: {what}")

    def _create(self, what: str, query: str) -> str:
        return create(f"{self.called}: {what}", query)

    def clean(self, *, usable: bool = True) -> str:
        """FROM and WHERE of the units' own rows."""
        rows = f"FROM records WHERE evaluation = {text(self.plan.evaluation['name'])} AND stage = 'clean'"
        return f"{rows} AND label >= 0 AND label IS DISTINCT FROM target" if usable else rows

    def all(self) -> Iterator[str]:
        """Every table, each after those that it reads."""
        if self.kind == "Threat":
            yield self._rows("u.clean = 'cc'")
            yield self._ended()
            yield self._proofs()
            yield self._units()
            yield self._counts()
            if self._is_full():
                yield self._tried()
        else:
            yield self._rows("true")
        table = self._table() if self.kind == "Threat" else self._property()
        yield self._create("table", "\nUNION ALL ".join(table))

    def repeats(self, plan: Json) -> list[Tables]:
        """Each repeat alone, where there are several."""
        count = self.plan.evaluation["repeats"] if self.kind != "Property" else 1
        return [type(self).of(plan, self.plan.evaluation, Only(repeat=k)) for k in range(count)] if count > 1 else []

    # --- rows and units -----------------------------------------------------------------------------------------------

    def _rows(self, of: str) -> str:
        """The stages' rows; ``inside``: a candidate that lies in the set and meets the restriction."""
        stages = self.plan.evaluation["stages"]
        told = [f"{text(s['label'])}, {i}, {text(s['role'])}, {text(method(s))}" for i, s in enumerate(stages)]
        listed = ",\n  ".join(f"({one})" for one in told or ["NULL, NULL, NULL, NULL"])
        repeats = ", ".join(map(str, self.plan.repeats))
        query = (
            f"WITH stages(stage, place, role, method) AS (VALUES\n  {listed}),\n"
            f"own AS (SELECT r.*, place, role, method FROM records r JOIN stages USING (stage) JOIN\n"
            f"  (SELECT unit, clean {self.clean()}) u USING (unit)\n"
            f"  WHERE r.evaluation = {text(self.plan.evaluation['name'])} AND {of} AND r.repeat IN ({repeats}))"
        )
        inside = " AND ".join(["status = 'valid'", "within_scope IS TRUE", *self._restriction()])
        if self._adds_up():
            query += (
                ",\nmost AS (SELECT unit, repeat, place, max(queries) AS q FROM own GROUP BY ALL),\n"
                "before AS (SELECT unit, repeat, place, coalesce(sum(q) OVER earlier, 0) AS spent FROM most\n"
                "  WINDOW earlier AS (PARTITION BY unit ORDER BY repeat, place ROWS BETWEEN UNBOUNDED PRECEDING"
                " AND 1 PRECEDING))\n"
                f"SELECT own.*, {inside} AS inside FROM own JOIN before USING (unit, repeat, place)"
            )
        else:
            query += f"\nSELECT *, {inside} AS inside FROM own"
        return self._create("rows", query)

    def _adds_up(self) -> bool:
        """Whether a limit of queries is shared by a unit's stages (EVIDENCE.md section 4)."""
        return self.plan.only.queries is not None and self.plan.subject["access"]["queries_per"] == "example"

    def _in_part(self) -> Iterator[str]:
        if self.plan.only.part is not None:
            yield f"list_contains(string_split(coalesce(branch, ''), ' '), {text(self.plan.only.part)})"

    def _restriction(self) -> Iterator[str]:
        only = self.plan.only
        yield from self._in_part()
        if only.queries is not None:
            yield f"queries + {'spent' if self._adds_up() else '0'} <= {only.queries}"
        if only.radius not in (None, self.plan.own_radius()):
            # Recorded distances are float64, an ulp or two from exact.
            most = float(only.radius or 0) * (1 + 2.0**-50)
            yield f"coalesce(distance <= {double(most)}, false)"

    def _ended(self) -> str:
        """(unit, stage) that every repeat of a search finished."""
        silent = "role <> 'attack' AND coalesce(verdict IN ('error', 'timeout', 'unknown'), false)"
        failed = f"status IN {_UNFINISHED} OR ({silent})"
        stages = texts(s["label"] for s in self.plan.searches)
        ends = " AND ".join(["status = 'valid'", *self._in_part()])
        ends = f"status = 'none' OR ({ends})"
        each = (
            f"SELECT unit, stage, bool_or({ends}) AND NOT bool_or({failed}) AS good\n"
            f"  FROM {self.name('rows')} WHERE stage IN {stages} GROUP BY unit, stage, repeat"
        )
        count = f"count(*) FILTER (WHERE good) = {len(self.plan.repeats)}"
        never = " AND false" if self.plan.too_far() else ""
        return self._create("ended", f"SELECT unit, stage FROM ({each})\nGROUP BY unit, stage HAVING {count}{never}")

    def _proofs(self) -> str:
        """Per unit and belief: ``whole`` and ``covered`` (branches) by certificates that are not void; ``failed`` and
        ``asked``, also of stages alone whose word is not merely trusted (``own``)."""
        radius, proved = self.plan.only.radius, f"({PROVED})"
        if self.plan.too_far():
            proved = "false"
        if radius is not None:
            reached = f"radius >= {double(round_up(radius, 'float64'))}"
            told = f"verdict IN ('certified', 'unknown') AND {reached}"
            proved = f"CASE WHEN radius IS NOT NULL THEN {told} ELSE {proved} END"
        stages = texts(s["label"] for s in self.plan.proofs)
        trusted = texts(s["label"] for s in self.plan.proofs if s["evidence"] == "trusted")
        rows = (
            f"SELECT unit, stage, verdict, branch, gap, gap_kind, {proved} AS proved, method IN (FROM void) AS void,\n"
            f"    stage IN {trusted} IS TRUE AS trusted\n"
            f"  FROM {self.name('rows')} WHERE verdict IS NOT NULL AND stage IN {stages}"
        )
        failing = "(proved AND void) OR (NOT proved AND verdict IN ('error', 'timeout'))"
        parts = ["SELECT unit"]
        for belief in BELIEFS:
            good = f"proved AND NOT void AND {believed(belief)}"
            parts.append(f"bool_or({good} AND branch IS NULL) AS whole_{flag(belief)}")
            some = f"FILTER (WHERE {good} AND branch IS NOT NULL)"
            parts.append(f"coalesce(flatten(list(string_split(branch, ' ')) {some}), []) AS covered_{flag(belief)}")
        parts.append(f"coalesce(bool_or({failing}) FILTER (WHERE NOT trusted), false) AS own_failed")
        parts.append(f"bool_or({failing}) AS failed")
        parts.append("count(DISTINCT stage) FILTER (WHERE NOT trusted) AS own_asked")
        return self._create(
            "proofs",
            ",\n  ".join(parts) + f",\n  count(DISTINCT stage) AS asked\nFROM ({rows}) GROUP BY unit",
        )

    def _units(self) -> str:
        """One row per counted unit: what was found of it."""
        wanted = [self.plan.only.part] if self.plan.only.part else self.plan.branches()
        own, every = self.plan.only.belief, self.plan.everybody
        untrusted = sum(s["evidence"] != "trusted" for s in self.plan.proofs)

        def certified(belief: Belief) -> str:
            listed = f"[{', '.join(map(text, wanted))}]"
            covers = f"list_has_all(covered_{flag(belief)}, {listed})" if wanted else "false"
            return f"coalesce(p.whole_{flag(belief)} OR {covers}, false) AS {flag(belief)}"

        def failed(name: str, asked: str, count: int) -> str:
            silent = f"coalesce(p.{asked}, 0) < {count} AND NOT coalesce(f.broken_any, false)"
            return f"coalesce(p.{name}, false) OR {silent} AS {name}"

        found = (
            f"SELECT unit, bool_or({_WITNESS}) AS broken_any, bool_or({_WITNESS} AND within_access) AS broken,\n"
            "    bool_or(inside AND rejected) AS denied,\n"
            "    bool_or(inside AND rejected AND within_access) AS denied_within,\n"
            f"    bool_or(label_kept) FILTER (WHERE {_WITNESS}) AS kept,\n"
            f"    min(distance) FILTER (WHERE {_WITNESS} AND within_access) AS distance\n"
            f"  FROM {self.name('rows')} GROUP BY unit"
        )
        facts = (
            "SELECT u.unit, u.example, u.clean, u.clean = 'cc' AS correct, coalesce(f.broken, false) AS broken,\n"
            "    coalesce(f.broken_any, false) AS broken_any, coalesce(f.denied, false) AS denied,\n"
            "    coalesce(f.denied_within, false) AS denied_within, f.kept, f.distance,\n"
            f"    coalesce(e.ended, 0) = {len(self.plan.searches)} AS searched,\n"
            f"    {', '.join(map(certified, BELIEFS))},\n"
            f"    {failed('own_failed', 'own_asked', untrusted)},\n"
            f"    {failed('failed', 'asked', len(self.plan.proofs))}\n"
            f"  FROM (SELECT unit, example, clean {self.clean()}) u\n"
            f"  LEFT JOIN ({found}) f USING (unit)\n"
            f"  LEFT JOIN (SELECT unit, count(*) AS ended FROM {self.name('ended')} GROUP BY unit) e USING (unit)\n"
            f"  LEFT JOIN {self.name('proofs')} p USING (unit)"
        )
        open_ = "correct AND NOT broken AND NOT searched"
        alone = "failed" if own[0] else "own_failed"
        waits = f"correct AND {alone} AND NOT {flag(own)}"
        waits_any = f"correct AND failed AND NOT {flag(every)}"
        levels = ", ".join(f"correct AND {flag(b)} AS {flag(b)}" for b in BELIEFS)
        pairs = (
            f"WITH facts AS ({facts}),\n"
            "pairs AS (SELECT unit, example, clean, correct AND broken AS broken,\n"
            "  correct AND broken_any AS broken_any,\n"
            f"  correct AND denied AS denied, {open_} AS open, {open_} AND NOT denied_within AS open_any,\n"
            f"  {levels},\n"
            f"  {waits} AS failed, {waits_any} AS trusting_failed, ({open_}) OR ({waits_any}) AS undecided,\n"
            "  kept, distance, searched FROM facts)\n"
        )
        return self._create("units", pairs + self._lifted("pairs"))

    @property
    def each(self) -> str:
        """How pairs of one example count: ``any``, ``all``, or ``apart`` like everything that is no pair."""
        goal = self.plan.subject["goal"]
        return str(goal["each"]) if goal["kind"] == "each" else "apart"

    def _lifted(self, pairs: str) -> str:
        if self.each == "apart":
            return f"SELECT * FROM {pairs}"
        here, there = ("or", "and") if self.each == "any" else ("and", "or")
        own, every = self.plan.only.belief, self.plan.everybody
        return (
            f"SELECT example AS unit, example, min(clean) AS clean, bool_{here}(broken) AS broken,\n"
            f"  bool_{here}(broken_any) AS broken_any, bool_or(denied) AS denied,\n"
            f"  {open_part(here, 'broken', 'open')} AS open,\n"
            f"  {open_part(here, 'broken OR denied', 'open_any')} AS open_any,\n"
            f"  {', '.join(f'bool_{there}({flag(b)}) AS {flag(b)}' for b in BELIEFS)},\n"
            f"  {open_part(there, flag(own), 'failed')} AS failed,\n"
            f"  {open_part(there, flag(every), 'trusting_failed')} AS trusting_failed,\n"
            "  bool_or(undecided) AS undecided, bool_or(kept) AS kept, min(distance) AS distance,\n"
            f"  bool_and(searched) AS searched FROM {pairs} GROUP BY example"
        )

    # --- counts and columns -------------------------------------------------------------------------------------------

    def _counts(self) -> str:
        apart = self.each == "apart"
        selected = "count(*)" if apart else "count(DISTINCT example)"
        skipped = "count(*) FILTER (WHERE label >= 0 AND label = target)" if apart else "0"
        start = (
            f"SELECT {selected} AS selected, {skipped} AS not_applicable,\n"
            f"    count(*) FILTER (WHERE within_scope IS FALSE) AS exempt {self.clean(usable=False)}"
        )
        status = ", ".join(f"count(*) FILTER (WHERE clean = '{s}') AS {s}" for s in ("cc", "cw", "cr", "cu"))
        flags = {"broken": "broken", "broken_any": "broken_any_access", "open": "unfinished"}
        flags |= self._proof_flags()
        flags |= {"denied": "denied", "undecided": "undecided"}
        sums = ", ".join(f"count(*) FILTER (WHERE {f}) AS {called}" for f, called in flags.items())
        nobody = f"count(*) FILTER (WHERE open AND NOT broken_any AND NOT {self._everybody()})"
        base = "base" if self.plan.subject["clean_errors"] == "fail" else "cc + cu"
        return self._create(
            "counts",
            f"SELECT selected, selected - not_applicable - base AS unusable, not_applicable, exempt, base,\n"
            f"  {base} AS denominator, * EXCLUDE (selected, not_applicable, exempt, base)\nFROM ({start}),\n"
            f"  (SELECT count(*) AS base, {status},\n    {sums},\n    {nobody} AS open FROM {self.name('units')})",
        )

    def _everybody(self) -> str:
        """The flag of a unit that certificates prove once trusted solvers count."""
        return flag(self.plan.everybody)

    def _proof_flags(self) -> dict[str, str]:
        """What is counted of certificates -> what the count is called."""
        own, every = flag(self.plan.only.belief), self._everybody()
        return {
            own: "certified",
            f"{own} AND own_stated AND NOT own_proved": "certified_assumed",
            f"{every} AND true": "certified_trusting",
            f"{every} AND trusting_stated AND NOT trusting_proved": "trusting_assumed",
            "failed": "certifier_failed",
            "trusting_failed": "trusting_failed",
        }

    def _share(self, quantity: str, low: str, high: str, base: str, source: str = "", where: str = "") -> str:
        """A line of the table: ``[low, high]`` of ``denominator`` units."""
        rows = f"FROM {source or self.name('counts')}{f' WHERE {where}' if where else ''}"
        return f"SELECT {text(quantity)} AS quantity, {low} AS low, {high} AS high, {base} AS denominator {rows}"

    def _table(self) -> Iterator[str]:
        """Every column of a threat (EVIDENCE.md section 2)."""
        d, r = "denominator", self.plan
        yield self._share("clean_accuracy", "cc", "cc + cu", "base")
        yield self._share("clean_answered", "cc + cw", "cc + cw + cu", "base")
        decided = "denominator - undecided - cu"
        yield self._share("coverage", decided, decided, d)
        if r.searches:
            low, done = "cc - broken - unfinished", "denominator - unfinished - cu"
            yield self._share("survival", low, "cc + cu - broken", d)
            yield self._share("survival_completed", low, low, done)
            yield self._share("attack_coverage", done, done, d)
        own = [s for s in r.proofs if s["evidence"] != "trusted"]
        if own or (r.proofs and r.only.belief != OWN):
            yield self._share("certified", "certified", "certified + certifier_failed", d)
        if len(own) < len(r.proofs):
            most = "certified_trusting + trusting_failed"
            yield self._share("certified_trusting", "certified_trusting", most, d)
        if r.proofs:
            yield self._share("certificate_coverage", "cc - trusting_failed", "cc - trusting_failed", "cc + cu")
        if r.subject["nature"] is None:
            top = "cc + cu - broken_any_access"
            yield self._share("upper", top, top, d)
            yield self._share(rate_name(r.subject), "certified", top, d)
        yield from self._denied()
        yield from self._reviews()
        yield from self._attacks()
        if r.subject["minimize"] is not None:
            yield self._median()

    def _denied(self) -> Iterator[str]:
        if (self.plan.subject["rejected"] or {}).get("kind") == "denied":
            yield self._share("denied", "denied", "cc + cu", "cc + cu")
            fallen = f"(SELECT count(*) FROM {self.name('units')} WHERE broken OR denied)"
            open_ = f"(SELECT count(*) FROM {self.name('units')} WHERE open_any AND NOT denied)"
            yield self._share("survival_any", f"cc - {fallen} - {open_}", f"cc + cu - {fallen}", "denominator")

    def _reviews(self) -> Iterator[str]:
        asked = "count(*) FILTER (WHERE {0}) AS k, count({0}) AS told, count(*) AS n"
        looked = f"(SELECT {asked.format('label_reviewed')} {self.clean(usable=False)})"
        yield self._share("reviewed", "k", "k", "n", looked, "told > 0")
        judged = f"(SELECT {asked.format('kept')} FROM {self.name('units')} WHERE broken)"
        yield self._share("semantic_validity", "k", "k + n - told", "n", judged, "told > 0")
        yield self._share("witnesses_judged", "told", "told", "n", judged, "told > 0")

    def _tried(self) -> str:
        """Per attack and counted unit, whether it broke the unit, or is not finished with it."""
        stages = texts(s["label"] for s in self.plan.searches)
        fell = (
            f"SELECT DISTINCT unit, stage, true AS fell FROM {self.name('rows')}"
            f" WHERE stage IN {stages} AND {_WITNESS} AND within_access"
        )
        listed = ", ".join(f"({text(s['label'])})" for s in self.plan.searches)
        pairs = (
            "SELECT unit, example, stage, clean = 'cc' AND coalesce(fell, false) AS broken,\n"
            "    clean = 'cc' AND fell IS NULL AND ended IS NULL AS open\n"
            f"    FROM (SELECT unit, example, clean {self.clean()}) CROSS JOIN (VALUES {listed}) AS s(stage)\n"
            f"    LEFT JOIN ({fell}) USING (unit, stage)\n"
            f"    LEFT JOIN (SELECT *, true AS ended FROM {self.name('ended')}) USING (unit, stage)"
        )
        if self.each != "apart":
            how = "or" if self.each == "any" else "and"
            joined = f"bool_{how}(broken) AS broken, {open_part(how, 'broken', 'open')} AS open"
            pairs = f"SELECT example AS unit, stage, {joined}\nFROM ({pairs}) GROUP BY example, stage"
        return self._create("tried", pairs)

    def _attacks(self) -> Iterator[str]:
        """``attack_success`` and ``found_alone`` of each attack."""
        if not self._is_full():
            return
        asked = "count(*) FILTER (WHERE {0}) AS w, count(*) FILTER (WHERE {1}) AS i"
        for stage in self.plan.searches:
            label, tried = text(stage["label"]), self.name("tried")
            alone = f"(SELECT {asked.format('broken', 'open')} FROM {tried} WHERE stage = {label})"
            both = f"{alone}, {self.name('counts')}"
            yield self._share(f"attack_success:{stage['label']}", "w", "w + i + cu", "cc + cu", both)
            if len(self.plan.searches) > 1:
                units = (
                    f"(SELECT bool_or(stage = {label} AND broken) AS own, bool_or(stage = {label} AND open) AS waits,\n"
                    f"    bool_or(stage <> {label} AND broken) AS others, bool_or(stage <> {label} AND open) AS more\n"
                    f"    FROM {tried} GROUP BY unit)"
                )
                counted = asked.format("own AND NOT others AND NOT more", "(own OR waits) AND NOT others")
                both = f"(SELECT {counted} FROM {units}), {self.name('counts')}"
                yield self._share(f"found_alone:{stage['label']}", "w", "i + cu", "cc + cu", both)

    def _is_full(self) -> bool:
        return self.plan.evaluation["attribution"] == "full" and bool(self.plan.searches)

    def _median(self) -> str:
        """The median distance, in float64, over ``denominator`` units."""
        clean = "" if self.plan.subject["clean_errors"] == "fail" else " WHERE clean IN ('cc', 'cu')"
        far = "coalesce(distance, 'inf'::DOUBLE)"
        low = f"CASE WHEN clean = 'cc' AND searched THEN {far} ELSE 0 END"
        high = f"CASE clean WHEN 'cc' THEN {far} WHEN 'cu' THEN 'inf'::DOUBLE ELSE 0 END"
        units = f"{self.name('units')}{clean}"
        sorted_ = f"(SELECT list_sort(list({low})) AS a, list_sort(list({high})) AS b, count(*) AS n FROM {units})"
        least, most = (f"({side}[(n + 1) // 2] + {side}[n // 2 + 1]) / 2" for side in "ab")
        return self._share("median_distance", least, most, "n", sorted_)

    def _property(self) -> Iterator[str]:
        """1 of 1: it holds, it is violated, it was settled."""
        e = text(self.plan.evaluation["name"])
        seen = f"FROM records WHERE evaluation = {e}"
        stages = texts(s["label"] for s in self.plan.proofs)
        violated = f"EXISTS ({seen} AND status = 'valid' AND within_scope AND observed_failure)"
        trusted = texts(s["label"] for s in self.plan.proofs if s["evidence"] == "trusted")
        sound = f"({PROVED}) AND method NOT IN (FROM void) AND {believed(self.plan.everybody)}"
        rows = f"(SELECT *, stage IN {trusted} IS TRUE AS trusted FROM {self.name('rows')})"
        proved = f"EXISTS (FROM {rows} WHERE stage IN {stages} AND {sound})"
        open_ = f"status IN {_UNFINISHED} OR coalesce(verdict IN ('error', 'timeout'), false)"
        ended = f"EXISTS ({seen} AND stage <> 'clean') AND NOT EXISTS ({seen} AND stage <> 'clean' AND ({open_}))"
        vacuous = "true" if self.plan.subject["empty"] else "false"
        facts = f"(SELECT {violated} AS violated, {proved} AS proved, {ended} AS ended, {vacuous} AS vacuous)"
        for quantity, fact in (
            ("violated", "violated AND NOT vacuous"),
            ("holds", "proved AND NOT violated AND NOT vacuous"),
            ("vacuous", "vacuous"),
            ("coverage", "violated OR proved OR ended OR vacuous"),
        ):
            yield self._share(quantity, f"({fact})::BIGINT", f"({fact})::BIGINT", "1", facts)


def count_of(status: str) -> str:
    return f"count(*) FILTER (WHERE clean = '{status}') AS {status}"


def open_part(how: str, true: str, unknown: str) -> str:
    """Three-valued "any" (``or``) or "all" (``and``) of a flag that may be unknown: whether it is unknown."""
    maybe = f"bool_or({unknown})" if how == "or" else f"bool_and({true} OR {unknown})"
    return f"NOT bool_{how}({true}) AND {maybe}"
