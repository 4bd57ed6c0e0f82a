"""Shares of single draws as DuckDB tables: one row per unit and draw instead of one per unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tmlang.audit.recount import Only
from tmlang.audit.redraw import of_draws
from tmlang.audit.sqlcorruptions import ShiftTables
from tmlang.audit.sqltables import BELIEFS, EVERYTHING, Tables, flag, open_part
from tmlang.audit.sqltext import text

Json = Mapping[str, Any]
_ALL = "''"
"""Stands for all attacks together among the stages' labels, none of which is empty."""


def tables_of(plan: Json, evaluation: Json, only: Only = EVERYTHING) -> Tables:
    """The tables of an evaluation: of changed inputs, of single draws, or of units."""
    subject = next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])
    if subject["is"] == "Shift":
        return ShiftTables.of(plan, evaluation, only)
    return (DrawTables if of_draws(subject) else Tables).of(plan, evaluation, only)


class DrawTables(Tables):
    """The tables of a threat whose success is a single draw."""

    @property
    def many(self) -> int:
        return int(self.plan.subject["success"]["draws"])

    def all(self) -> Iterator[str]:
        yield self._rows("u.clean = 'cc'")
        yield self._ended()
        yield self._cells()
        yield self._units()
        yield self._counts()
        yield self._create("table", "\nUNION ALL ".join(self._table()))

    def _cells(self) -> str:
        """Per right unit, attack and draw: whether it fails, or whether that is open. A unit without attacks has its
        draws too."""
        draws = f"(SELECT unnest(generate_series(1, {self.many})) AS k)"
        listed = ", ".join(f"({text(s['label'])})" for s in self.plan.searches) or "(NULL)"
        units = f"(SELECT unit, example {self.clean()} AND clean = 'cc')"
        fell = (
            f"SELECT unit, stage, k, bool_or(substr(outcomes, k, 1) = '1') AS fell FROM {self.name('rows')}, {draws}\n"
            "    WHERE inside AND within_access AND outcomes IS NOT NULL GROUP BY ALL"
        )
        nowhere = self.plan.only.part is not None and not self.plan.searches
        waits = "true" if nowhere else "stage IS NOT NULL AND ended IS NULL"
        each = (
            "SELECT unit, example, stage, k, coalesce(fell, false) AS fell,\n"
            f"    {waits} AS waits\n"
            f"  FROM {units} CROSS JOIN (VALUES {listed}) AS s(stage) CROSS JOIN {draws}\n"
            f"  LEFT JOIN ({fell}) USING (unit, stage, k)\n"
            f"  LEFT JOIN (SELECT *, true AS ended FROM {self.name('ended')}) USING (unit, stage)"
        )
        joined = f"SELECT unit, example, {_ALL}, k, bool_or(fell), bool_or(waits) FROM each GROUP BY unit, example, k"
        pairs = "SELECT unit, example, stage, k, fell, NOT fell AND waits AS open FROM together"
        if self.each != "apart":
            how = "or" if self.each == "any" else "and"
            pairs = (
                f"SELECT example AS unit, example, stage, k, bool_{how}(fell) AS fell,\n"
                f"  {open_part(how, 'fell', 'open')} AS open FROM ({pairs}) GROUP BY example, stage, k"
            )
        with_all = f"SELECT * FROM each WHERE stage IS NOT NULL UNION ALL {joined}"
        return self._create("cells", f"WITH each AS ({each}),\ntogether AS ({with_all})\n{pairs}")

    def _units(self) -> str:
        of = "unit" if self.each == "apart" else "example"
        units = f"SELECT {of} AS unit, min(example) AS example, min(clean) AS clean {self.clean()} GROUP BY {of}"
        waits = f"SELECT unit, bool_or(open) AS open FROM {self.name('cells')} WHERE stage = {_ALL} GROUP BY unit"
        flags = ("broken", "broken_any", *map(flag, BELIEFS), "failed", "trusting_failed", "denied")
        never = ", ".join(f"false AS {one}" for one in flags)
        return self._create(
            "units",
            f"SELECT unit, clean, {never}, coalesce(open, false) AS open, coalesce(open, false) AS undecided\n"
            f"FROM ({units}) LEFT JOIN ({waits}) USING (unit)",
        )

    def _table(self) -> Iterator[str]:
        n = self.many
        done = "denominator - unfinished - cu"
        yield self._share("clean_accuracy", "cc", "cc + cu", "base")
        yield self._share("clean_answered", "cc + cw", "cc + cw + cu", "base")
        yield self._before()
        high = f"{n} * (cc + cu) - w"
        yield self._share("survival", f"{n} * cc - w - i", high, f"{n} * denominator", self._fallen(_ALL))
        yield self._share("attack_coverage", done, done, "denominator")
        yield self._share("coverage", done, done, "denominator")
        for stage in self.plan.searches if self._is_full() else ():
            called, source = f"attack_success:{stage['label']}", self._fallen(text(stage["label"]))
            yield self._share(called, "w", f"w + i + {n} * cu", f"{n} * (cc + cu)", source)

    def _fallen(self, stage: str) -> str:
        cells = (
            "SELECT count(*) FILTER (WHERE fell) AS w, count(*) FILTER (WHERE open) AS i"
            f" FROM {self.name('cells')} WHERE stage = {stage}"
        )
        return f"({cells}), {self.name('counts')}"

    def _before(self) -> str:
        of = "unit" if self.each == "apart" else "example"
        right = f"{self.clean()} AND clean = 'cc' GROUP BY {of}"
        clean = f"SELECT any_value(errors) AS errors, any_value(draws) AS draws {right}"
        source = f"(SELECT sum(errors) AS k, sum(draws) AS n FROM ({clean}) WHERE draws IS NOT NULL)"
        return self._share("draws_failing_before", "k", "k", "n", source, "n IS NOT NULL")
