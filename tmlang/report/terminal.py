"""The result of a run on a terminal: the numbers of the report, in plain lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from tmlang.audit.claims import STATUS_WORDS, Judgement, formula
from tmlang.audit.columns import Columns
from tmlang.audit.masking import Sign
from tmlang.audit.show import DASH
from tmlang.report.corruptions import extremes
from tmlang.report.numbers import MARKS, NAMES, SUMMARY, bounds, headline, number_view, short

_SHOWN = (*SUMMARY, "denied")
_CLAIM = 16
_ROOMY = 60


def result_lines(
    columns: Mapping[str, Columns],
    judgements: Sequence[Judgement],
    signs: Sequence[Sign] = (),
    *,
    width: int | None = None,
) -> Iterator[str]:
    """A table of the evaluations, what follows for each, the signs that gradients are masked, and the claims.

    ``width``: of the terminal, in characters; what is longer is broken at spaces, and a table that does not fit is
    turned into lines. ``None`` (a log, a file) breaks nothing.
    """
    for line in _lines(columns, judgements, signs, width):
        yield from _broken(line, width) if width and len(line) > width else [line]


def _broken(line: str, width: int) -> Sequence[str]:
    """``line`` over several, indented by two more, or to where the text of a claim begins. A number keeps its ``%``."""
    plain = len(line) - len(line.lstrip()) + 2
    indent = " " * (_CLAIM if line[0] in MARKS.values() else plain)
    whole = line.replace(" %", "\N{NO-BREAK SPACE}%")
    broken = wrap(whole, max(width, 24), subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False)
    return [part.replace("\N{NO-BREAK SPACE}", " ") for part in broken]


def _lines(
    columns: Mapping[str, Columns], judgements: Sequence[Judgement], signs: Sequence[Sign], width: int | None
) -> Iterator[str]:
    shown = [name for name in _SHOWN if any(c.get(name) for c in columns.values())]
    if shown:
        heads = ["", *(NAMES[name][0] for name in shown), "R"]
        rows = [[name, *(short(c, n) for n in shown), bounds(c).text or DASH] for name, c in columns.items()]
        table = list(_aligned([heads, *rows]))
        fits = width is None or all(len(line) <= width for line in table)
        yield from table if fits else _listed(heads, rows)
        yield ""
    for name, c in columns.items():
        yield f"{name}: {c.subject}"
        yield from (f"  {line}" for line in headline(c))
        yield from (
            f"  {number_view(k).heading} of {label}: {number_view(k).value}" for label, k in c.attacks + c.alone
        )
        if (ends := extremes(c)) is not None:
            yield f"  {ends}"
        median = c.get("median_distance")
        if median is not None:
            yield f"  median distance: {number_view(median).value} of {median.denominator}"
    if signs:
        yield ""
    yield from (f"! {s.code} {s.evaluation}: {s.name}: {s.evidence}" for s in signs)
    if judgements:
        yield ""
    for j in judgements:
        status, text = f"{MARKS[j.status]} {STATUS_WORDS[j.status]}", f"{j.claim.text}: {formula(j.claim)}"
        if width is not None and width < _ROOMY:
            yield from (status, f"  {text}", f"  {j.reason}")
        elif len(status) >= _CLAIM:
            yield from (status, f"{'':<{_CLAIM}}{text}", f"{'':<{_CLAIM}}{j.reason}")
        else:
            yield from (f"{status:<{_CLAIM}}{text}", f"{'':<{_CLAIM}}{j.reason}")


def _listed(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The table where it does not fit: one line per number under the name of its row."""
    longest = max(len(head) for head in heads)
    for row in rows:
        yield row[0]
        yield from (f"  {head:<{longest}}  {value}" for head, value in zip(heads[1:], row[1:], strict=True))


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest entry; the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        others = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *others])
