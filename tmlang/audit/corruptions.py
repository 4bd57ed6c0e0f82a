"""Errors by corruption and severity, and the corruption errors that are made of them.

Hendrycks and Dietterich, Benchmarking neural network robustness to common corruptions and perturbations (ICLR 2019),
section 4.2: with E the error rate of a model under corruption c at severity s,

* CE(c) = sum over s of E(s, c) / sum over s of the baseline's E(s, c), and mCE is the mean of CE over the corruptions;
* relative CE(c) = sum over s of (E(s, c) - E(clean)) / the same sum of the baseline, and its mean likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tmlang.audit.columns import Column, Gap
from tmlang.audit.counting import column
from tmlang.audit.record import CLEAN_STAGE, CorruptionCell, Record
from tmlang.audit.units import Rows
from tmlang.plan.ir import EvaluationPlan, Stage

QUANTITIES = ("mce", "relative_mce")
Range = tuple[Fraction, Fraction]


class Undefined(Exception):
    """The ratio has no value, for the reason given."""


def published(stage: Stage) -> bool:
    """Whether a stage takes a corrupted set as it is."""
    return (stage.backend, stage.method) == ("native", "as_published")


def stage_cell(stage: Stage) -> CorruptionCell | None:
    """Which corruption at which severity a stage applies; ``None`` of one that has no severity."""
    severity = dict(stage.arguments).get("severity")
    if not isinstance(severity, Fraction) or severity.denominator != 1:
        return None
    return stage.method, int(severity)


def cell(stage: Stage, clean: Record) -> CorruptionCell | None:
    """The corruption and severity of what a stage decides of a unit: the stage's, or those of the example itself."""
    own = stage_cell(stage)
    if own is not None or not published(stage) or clean.corruption is None or clean.severity is None:
        return own
    return clean.corruption, clean.severity


def corrupted_columns(
    evaluation: EvaluationPlan, usable: Sequence[Rows], repeats: int
) -> tuple[tuple[CorruptionCell, Column], ...]:
    """``corrupted_accuracy`` of each corruption at each severity, in order; empty where they are not known of all."""
    counted: dict[CorruptionCell, list[int]] = {}
    for rows in usable:
        for stage in evaluation.stages:
            at = cell(stage, rows[CLEAN_STAGE][0])
            if at is None:
                return ()
            answers = [r for r in rows.get(stage.label, ()) if r.status == "valid"]
            tally = counted.setdefault(at, [0, 0, 0])
            tally[0] += sum(r.decision == r.label for r in answers)
            tally[1] += repeats - len(answers)
            tally[2] += repeats
    return tuple(
        (at, column("corrupted_accuracy", right, right + open_, total, Gap("not evaluated", open_)))
        for at, (right, open_, total) in sorted(counted.items())
    )


@dataclass(frozen=True, slots=True)
class Errors:
    """What one evaluation says: the error rate of every cell, before any change (``clean``), and all together."""

    cells: Mapping[CorruptionCell, Range]
    clean: Range | None
    pooled: Column

    @classmethod
    def of(cls, corrupted: Sequence[tuple[CorruptionCell, Column]], clean: Column | None, pooled: Column) -> Errors:
        return cls({at: error for at, c in corrupted if (error := _error(c))}, _error(clean), pooled)

    def summed(self, corruption: str, *, relative: bool) -> Range:
        """The sum over the severities of a corruption, of the error or of what it is more than the clean one."""
        low, high = Fraction(0), Fraction(0)
        for (name, _), (least, most) in self.cells.items():
            if name == corruption:
                low, high = low + least, high + most
                if relative:
                    assert self.clean is not None
                    low, high = low - self.clean[1], high - self.clean[0]
        return low, high


def _error(accuracy: Column | None) -> Range | None:
    if accuracy is None or accuracy.low is None or accuracy.high is None:
        return None
    return 1 - Fraction(accuracy.high), 1 - Fraction(accuracy.low)


def corruption_error(name: str, own: Errors, baseline: Errors) -> Column:
    """``mce`` or ``relative_mce`` with its range; raises :class:`Undefined`.

    Every error lies in its own interval, so a ratio is least at the ends that make it least; the mean of the ratios
    lies between the means of their ends.
    """
    relative = name == "relative_mce"
    if not own.cells or own.cells.keys() != baseline.cells.keys():
        raise Undefined("the two do not say the same corruptions and severities")
    if relative and None in (own.clean, baseline.clean):
        raise Undefined("nothing is known of the originals before any change")
    names = sorted({corruption for corruption, _ in own.cells})
    of_each = [_ratio(corruption, own, baseline, relative=relative) for corruption in names]
    low, high = (sum((r[end] for r in of_each), Fraction(0)) / len(of_each) for end in (0, 1))
    pooled = own.pooled
    return Column(name, pooled.numerator, pooled.denominator, low, high, tuple(_gaps(own, baseline)), note=_note(own))


def ratios(name: str, own: Errors, baseline: Errors) -> dict[str, Range]:
    """The ratio of each corruption that both have at the same severities, where it is defined."""
    relative = name == "relative_mce"
    found = {}
    for corruption in {c for c, _ in own.cells}:
        strengths = [{s for c, s in side.cells if c == corruption} for side in (own, baseline)]
        if strengths[0] == strengths[1] and not (relative and None in (own.clean, baseline.clean)):
            try:
                found[corruption] = _ratio(corruption, own, baseline, relative=relative)
            except Undefined:
                continue
    return found


def _ratio(corruption: str, own: Errors, baseline: Errors, *, relative: bool) -> Range:
    above, below = (e.summed(corruption, relative=relative) for e in (own, baseline))
    if below[0] <= 0:
        may = "may have" if below[1] > 0 else "has"
        no = "no more errors than before any change" if relative else "no error"
        raise Undefined(f"the baseline {may} {no} under {corruption}, so the ratio is undefined")
    return min(above[0] / end for end in below), max(above[1] / end for end in below)


def _gaps(own: Errors, baseline: Errors) -> Iterator[Gap]:
    yield from own.pooled.gaps
    yield from (Gap(f"{g.reason}, of the baseline", g.units) for g in baseline.pooled.gaps)


def _note(own: Errors) -> str:
    """How much of the benchmark it is."""
    names = {corruption for corruption, _ in own.cells}
    strengths = sorted({severity for _, severity in own.cells})
    of = f"{len(names)} corruption{'s' * (len(names) != 1)}"
    if len(own.cells) == len(names) * len(strengths):
        return f"the mean over {of}, at severit{'ies' if len(strengths) > 1 else 'y'} {', '.join(map(str, strengths))}"
    return f"the mean over {of}, not all at the same severities"
