"""Shifts as DuckDB tables, and the corruption errors that are made of two of them (EVIDENCE.md section 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tmlang.audit.record import Record
from tmlang.audit.recorrupt import of_stage, taken_as_it_is
from tmlang.audit.sqltables import Tables, count_of
from tmlang.audit.sqltext import text

Json = Mapping[str, Any]
_NOBODY = Record("", "", "", "", 0, "cu", None, "none")


class ShiftTables(Tables):
    """The tables of a shift: rows, cells (a corruption at a severity), and its numbers."""

    def all(self) -> Iterator[str]:
        yield self._rows("true")
        yield self._cells()
        yield self._create("table", "\nUNION ALL ".join(self._shift()))

    def _shift(self) -> Iterator[str]:
        start = f"(SELECT count(*) AS base, {', '.join(count_of(s) for s in ('cc', 'cw', 'cu'))} {self.clean()})"
        if not any(map(taken_as_it_is, self.plan.evaluation["stages"])):
            yield self._share("clean_accuracy", "cc", "cc + cu", "base", start)
            yield self._share("clean_answered", "cc + cw", "cc + cw + cu", "base", start)
        many = len(self.plan.repeats) * len(self.plan.evaluation["stages"])
        answers = (
            "(SELECT count(*) FILTER (WHERE status = 'valid') AS n, count(*) FILTER (WHERE status = 'valid' AND"
            f" decision = label) AS k FROM {self.name('rows')}), (SELECT count(*) * {many} AS total"
            f" {self.clean()})"
        )
        yield self._share("corrupted_accuracy", "k", "k + total - n", "total", answers)
        yield self._share("coverage", "n", "n", "total", answers)
        yield (
            "SELECT 'corrupted_accuracy:' || corruption || ' ' || severity AS quantity, k AS low,"
            f" k + total - n AS high, total AS denominator FROM {self.name('cells')}"
        )

    def _cells(self) -> str:
        """Per corruption and severity: k right of n answers of total. Empty where an input's are not known."""
        listed = ", ".join(f"({text(s['label'])}, {self._said(s)})" for s in self.plan.evaluation["stages"])
        query = (
            f"WITH stages(stage, published, corruption, severity) AS (VALUES {listed}),\n"
            "should AS (SELECT CASE WHEN published THEN u.corruption ELSE s.corruption END AS corruption,\n"
            "    CASE WHEN published THEN u.severity ELSE s.severity END AS severity,"
            f" count(*) * {len(self.plan.repeats)} AS total\n"
            f"  FROM (SELECT corruption, severity {self.clean()}) u, stages s GROUP BY ALL),\n"
            "found AS (SELECT corruption, severity, count(*) AS n, count(*) FILTER (WHERE decision = label) AS k\n"
            f"  FROM {self.name('rows')} WHERE status = 'valid' GROUP BY ALL)\n"
            "SELECT corruption, severity, coalesce(k, 0) AS k, coalesce(n, 0) AS n, total\n"
            "FROM should LEFT JOIN found USING (corruption, severity)\n"
            "WHERE NOT EXISTS (FROM should WHERE corruption IS NULL OR severity IS NULL)"
        )
        return self._create("cells", query)

    def _said(self, stage: Json) -> str:
        """(published, corruption, severity) of a stage."""
        name, severity = of_stage(stage, _NOBODY)
        published = "severity" not in dict(stage["arguments"]) and taken_as_it_is(stage)
        known = f"{text(name)}, {severity}::BIGINT" if name is not None else "NULL::VARCHAR, NULL::BIGINT"
        return f"{str(published).lower()}, {known}"

    def errors(self, *, relative: bool) -> str:
        """Per corruption the least and the greatest sum of its errors, ``low`` and ``high``, in float64."""
        before = f"(SELECT count(*) AS base, {', '.join(count_of(s) for s in ('cw', 'cr', 'cu'))} {self.clean()})"
        less = ("(cw + cr + cu) / base", "(cw + cr) / base") if relative else ("0", "0")
        return (
            f"SELECT corruption, sum((total - k - (total - n)) / total - {less[0]}) AS low,\n"
            f"  sum((total - k) / total - {less[1]}) AS high\nFROM {self.name('cells')}, {before} GROUP BY corruption"
        )


def error_rows(own: ShiftTables, base: ShiftTables, *, relative: bool) -> str:
    """``low`` and ``high`` of the mean of ratios, in float64 over 1; no row where it is undefined."""
    known = not relative or not any(taken_as_it_is(s) for t in (own, base) for s in t.plan.evaluation["stages"])
    cells = [f"SELECT corruption, severity FROM {t.name('cells')}" for t in (own, base)]
    same = " AND ".join(f"NOT EXISTS ({a} EXCEPT {b})" for a, b in (cells, cells[::-1]))
    return (
        "SELECT avg(least(o.low / b.low, o.low / b.high)) AS low, avg(greatest(o.high / b.low, o.high / b.high)) AS"
        " high, 1 AS denominator\n"
        f"FROM ({own.errors(relative=relative)}) o JOIN ({base.errors(relative=relative)}) b USING (corruption)\n"
        f"WHERE {known} AND {same} HAVING count(*) > 0 AND min(b.low) > 1e-12"
    )
