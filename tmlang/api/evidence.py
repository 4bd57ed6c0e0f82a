"""What a run left behind, as values and Arrow tables: ``tm.open``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from html import escape
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tmlang.api.auditing import audit, sign
from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import Judgement, judge_plan
from tmlang.audit.columns import Column, Columns, Extent
from tmlang.audit.masking import Sign, signs
from tmlang.audit.record import Record
from tmlang.audit.schema import to_table
from tmlang.audit.show import exact
from tmlang.audit.tally import tally_plan
from tmlang.audit.verify import Audit
from tmlang.plan.ir import Plan
from tmlang.report.numbers import rests_on
from tmlang.report.terminal import result_lines

_NUMBERS = pa.schema(
    [
        pa.field("evaluation", pa.string(), nullable=False),
        pa.field("number", pa.string(), nullable=False),
        pa.field("attack", pa.string()),
        pa.field("numerator", pa.int64(), nullable=False),
        pa.field("denominator", pa.int64(), nullable=False),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("low_exact", pa.string()),
        pa.field("high_exact", pa.string()),
        pa.field("rests_on", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Evidence:
    """A sealed bundle. ``rows`` are its records; ``columns`` the numbers of each evaluation, exact, and ``claims`` the
    judgements, both counted anew from these rows."""

    path: Path
    plan: Plan
    rows: tuple[Record, ...]
    columns: Mapping[str, Columns]
    claims: tuple[Judgement, ...]

    @classmethod
    def of(cls, path: str | Path) -> Evidence:
        """The evidence at ``path``; every hash is checked. Raises ``Stop`` for anything but a sealed bundle."""
        bundle = Bundle.open(path)
        plan, rows = bundle.plan(), bundle.records()
        return cls(bundle.path, plan, tuple(rows), tally_plan(plan, rows), judge_plan(plan, rows))

    @property
    def supported(self) -> bool:
        """Whether there are claims, all of them are supported, and no witness contradicts a certificate."""
        contradicted = any(not x.within_gap for c in self.columns.values() for x in c.contradictions)
        return bool(self.claims) and not contradicted and all(j.status == "supported" for j in self.claims)

    @cached_property
    def signs(self) -> tuple[Sign, ...]:
        """The signs that gradients are masked, each with its evidence (TM870 to TM875)."""
        return signs(self.plan, self.rows)

    @cached_property
    def records(self) -> pa.Table:
        """One row per unit and stage (docs/bundle.md)."""
        return to_table(self.rows)

    @cached_property
    def numbers(self) -> pa.Table:
        """One row per evaluation and headline number: shares in [0, 1] or distances, as floats and exactly as text;
        null where undefined. What nothing measured has no row."""
        rows = [_row(name, c, attack) for name, of in self.columns.items() for attack, c in _each(of)]
        return pa.Table.from_pylist(rows, schema=_NUMBERS)

    def number(self, evaluation: str, name: str) -> tuple[Extent, Extent] | None:
        """The range of one number, exact (a ``Fraction``, or ``inf`` for a distance that was never found); ``None``
        where it was not measured or is undefined."""
        column = self.columns[evaluation].get(name)
        return None if column is None or column.low is None or column.high is None else (column.low, column.high)

    def candidate(self, row: Mapping[str, object] | Record) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
        """(changed input, original) that a row kept, each of the space's shape; lattice inputs as indices.

        Raises ``ValueError`` for a row that kept none.
        """
        reference = row.candidate if isinstance(row, Record) else row["candidate"]
        if not isinstance(reference, str):
            raise ValueError("this row kept no input")
        changed, original, _ = Bundle.open(self.path, sealed=False).candidate(reference)
        return changed, original

    def audit(self, *, key: str | Path | None = None) -> Audit:
        """The bundle checked by code that did not write it, as ``tmc audit`` does; with a public ``key`` (PEM), also
        who signed it."""
        return audit(self.path, key=None if key is None else Path(key))

    def sign(self, key: str | Path) -> Path:
        """Sign the bundle with a private key (PEM), as ``tmc sign`` does; gives the path of the signature."""
        return sign(self.path, Path(key))

    def html(self) -> str:
        """The report as one page. Raises ``Stop`` (TM510) without the extra ``report``."""
        from tmlang.report.view import view_of
        from tmlang.report.write import html

        return html(view_of(Bundle.open(self.path)))

    def __str__(self) -> str:
        return "\n".join(result_lines(self.columns, self.claims, self.signs))

    def _repr_html_(self) -> str:
        title, style = escape(str(self.path)), "width:100%;height:40em;border:1px solid #8888"
        frame = f'<iframe sandbox="allow-scripts" title="report of {title}" style="{style}"'
        return f'{frame} srcdoc="{escape(self.html())}"></iframe>'


def open(path: str | Path) -> Evidence:
    """The evidence in the bundle at ``path``."""
    return Evidence.of(path)


def _each(columns: Columns) -> Iterable[tuple[str | None, Column]]:
    yield from ((None, c) for c in columns.columns)
    yield from columns.attacks + columns.alone


def _row(evaluation: str, column: Column, attack: str | None) -> dict[str, object]:
    return {
        "evaluation": evaluation,
        "number": column.name,
        "attack": attack,
        "numerator": column.numerator,
        "denominator": column.denominator,
        "low": _float(column.low),
        "high": _float(column.high),
        "low_exact": exact(column.low),
        "high_exact": exact(column.high),
        "rests_on": rests_on(column),
    }


def _float(value: Fraction | float | None) -> float | None:
    return None if value is None else float(value)
