"""The result of a run on a terminal: the numbers of the report, in plain lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tmlang.audit.claims import Judgement, formula
from tmlang.audit.columns import Columns
from tmlang.audit.masking import Sign
from tmlang.audit.show import DASH
from tmlang.report.numbers import MARKS, NAMES, bounds, headline, number_view, short

_SHOWN = (
    "clean_accuracy",
    "corrupted_accuracy",
    "survival",
    "certified",
    "attack_coverage",
    "certificate_coverage",
    "denied",
)


def result_lines(
    columns: Mapping[str, Columns], judgements: Sequence[Judgement], signs: Sequence[Sign] = ()
) -> Iterator[str]:
    """A table of the evaluations, what follows for each, the signs that gradients are masked, and the claims."""
    shown = [name for name in _SHOWN if any(c.get(name) for c in columns.values())]
    if shown:
        heads = ["", *(NAMES[name][0] for name in shown), "R"]
        rows = [[name, *(short(c, n) for n in shown), bounds(c).text or DASH] for name, c in columns.items()]
        yield from _aligned([heads, *rows])
        yield ""
    for name, c in columns.items():
        yield f"{name}: {c.subject}"
        yield from (f"  {line}" for line in headline(c))
        yield from (f"  {number_view(k).heading} of {label}: {number_view(k).value}" for label, k in c.attacks)
        median = c.get("median_distance")
        if median is not None:
            yield f"  median distance: {number_view(median).value} of {median.denominator}"
    if signs:
        yield ""
    yield from (f"! {s.code} {s.evaluation}: {s.name}: {s.evidence}" for s in signs)
    if judgements:
        yield ""
    for j in judgements:
        yield f"{MARKS[j.status]} {j.status.replace('_', ' '):<13} {j.claim.text}: {formula(j.claim)}"
        yield f"  {'':<13} {j.reason}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest entry; the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        others = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *others])
