"""Averages: of changed inputs, and of the fresh draws that a single draw is judged on. They prove nothing of R."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from tmlang.audit.columns import Column, Columns, Counts, Gap, Interval, Restriction
from tmlang.audit.corruptions import corrupted_columns, published
from tmlang.audit.counting import clean_columns, column, counts_of
from tmlang.audit.intervals import population_interval, wilson
from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.units import Reader, Rows, Unit, group
from tmlang.meaning.evaluations import CONFIDENCE
from tmlang.meaning.threats import Shift, Threat
from tmlang.plan.ir import EvaluationPlan

NOTE = "estimate, interval at 95 %"

# Shifts --------------------------------------------------------------------------------------------------------------


def _interval(subject: Shift, correct: int, answers: int, units: set[str]) -> Interval | None:
    """The shift's interval over what was answered. Repeats of an example are no further examples: n counts examples."""
    if not answers:
        return None
    share, n = Fraction(correct, answers), len(units)
    if subject.interval == "wilson":
        return Interval(*wilson(share, n, subject.confidence), subject.confidence, "wilson")
    limits = population_interval(math.floor(share * n), math.ceil(share * n), n, subject.confidence)
    return Interval(*limits, subject.confidence, "clopper_pearson")


def tally_shift(
    evaluation: EvaluationPlan, subject: Shift, records: Sequence[Record], restriction: Restriction
) -> Columns:
    """``corrupted_accuracy``: correct answers over units, changes and repeats; what did not finish is open both ways.
    Of a set that was published corrupted, nothing is known before the change."""
    grouped: dict[str, Rows] = dict(group(evaluation, records, restriction.repeat))
    repeats = evaluation.repeats if restriction.repeat is None else 1
    clean = [rows[CLEAN_STAGE][0] for rows in grouped.values()]
    usable = [rows for rows in grouped.values() if rows[CLEAN_STAGE][0].label >= 0]
    answers = [r for rows in usable for s in evaluation.stages for r in rows.get(s.label, ()) if r.status == "valid"]
    correct = sum(r.decision == r.label for r in answers)
    total = len(usable) * len(evaluation.stages) * repeats
    missing = total - len(answers)
    status = [rows[CLEAN_STAGE][0].clean for rows in usable]
    counts = Counts(
        selected=len(clean),
        unusable=len(clean) - len(usable),
        base=len(usable),
        denominator=len(usable),
        cc=status.count("cc"),
        cw=status.count("cw"),
        cr=status.count("cr"),
        cu=status.count("cu"),
        unfinished=missing,
    )
    gap = Gap("not evaluated", missing)
    columns = (
        *(() if any(published(s) for s in evaluation.stages) else clean_columns(counts)),
        replace(
            column("corrupted_accuracy", correct, correct + missing, total, gap),
            interval=_interval(subject, correct, len(answers), {r.unit for r in answers}),
        ),
        column("coverage", len(answers), len(answers), total, gap),
    )
    cells = corrupted_columns(evaluation, usable, repeats)
    return Columns(
        evaluation.name, subject.name, "examples", None, counts, columns, corrupted=cells, restriction=restriction
    )


# Single draws --------------------------------------------------------------------------------------------------------

Draws = Sequence[bool | None]
"""Per fresh draw of one counted unit: whether it fails, ``None`` where an unfinished attack leaves that open."""


def tally_draws(
    evaluation: EvaluationPlan, threat: Threat, records: Sequence[Record], restriction: Restriction
) -> Columns:
    """Shares of single draws: of the k-th draw of a unit fail those in which any of its candidates does."""
    grouped = group(evaluation, records, restriction.repeat)
    reader = Reader(evaluation, threat, restriction, frozenset())
    clean = [rows[CLEAN_STAGE][0] for rows in grouped.values()]
    usable = [rows for rows in grouped.values() if _usable(rows[CLEAN_STAGE][0])]
    judged = _joined(threat, usable, [reader.draws(rows) for rows in usable])
    open_ = [rows[CLEAN_STAGE][0].clean == "cc" and None in draws for rows, draws in judged]
    units = [_unit(rows[CLEAN_STAGE][0], o) for (rows, _), o in zip(judged, open_, strict=True)]
    _, counts = counts_of(threat, clean, units)
    right = [rows for rows, _ in judged if rows[CLEAN_STAGE][0].clean == "cc"]
    every = [draws for rows, draws in judged if rows[CLEAN_STAGE][0].clean == "cc"]
    columns = (
        *clean_columns(counts),
        *_before(right),
        _share("survival", every, counts, threat, surviving=True),
        *_coverage(counts),
    )
    attacks = []
    for stage in reader.attacks if evaluation.attribution == "full" else ():
        of_one = _joined(threat, usable, [reader.draws(rows, stage.label) for rows in usable])
        fallen = [draws for rows, draws in of_one if rows[CLEAN_STAGE][0].clean == "cc"]
        attacks.append((stage.label, _share("attack_success", fallen, counts, threat)))
    return Columns(
        evaluation.name,
        threat.name,
        "pairs" if threat.goal.each == "apart" else "examples",
        threat.clean_errors,
        counts,
        columns,
        attacks=tuple(attacks),
        restriction=restriction,
        draws=threat.success.draws if threat.success else None,
    )


def _usable(row: Record) -> bool:
    return row.label >= 0 and row.target != row.label


def _unit(row: Record, open_: bool) -> Unit:
    return Unit(row.unit, row.example, row.clean, open=open_, undecided=open_)


def _joined(threat: Threat, usable: Sequence[Rows], draws: Sequence[Draws]) -> list[tuple[Rows, Draws]]:
    """The counted units: pairs of one example joined draw by draw, where it fails with any or with all of them."""
    pairs = list(zip(usable, draws, strict=True))
    if threat.goal.each in (None, "apart"):
        return pairs
    wins = threat.goal.each == "any"
    by_example: dict[str, list[tuple[Rows, Draws]]] = {}
    for rows, of_pair in pairs:
        by_example.setdefault(rows[CLEAN_STAGE][0].example, []).append((rows, of_pair))

    def joined(alike: Sequence[bool | None]) -> bool | None:
        return wins if wins in alike else None if None in alike else not wins

    return [
        (group[0][0], [joined(alike) for alike in zip(*(d for _, d in group), strict=True)])
        for group in by_example.values()
    ]


def _before(right: Sequence[Rows]) -> Iterator[Column]:
    """How often right originals fail in a draw before any change."""
    told = [r for rows in right if (r := rows[CLEAN_STAGE][0]).draws is not None]
    if told:
        failing, total = sum(r.errors or 0 for r in told), sum(r.draws or 0 for r in told)
        before = column("draws_failing_before", failing, failing, total, note=NOTE)
        yield replace(before, interval=_of_draws(_limits(failing, total)))


def _share(name: str, right: Sequence[Draws], k: Counts, threat: Threat, *, surviving: bool = False) -> Column:
    """Failing draws of right units, or under ``surviving`` the others of all that are counted."""
    assert threat.success is not None
    draws = threat.success.draws or 0
    failing, open_ = (sum(sum(d is state for d in of_unit) for of_unit in right) for state in (True, None))
    unknown, drawn = k.cu * draws, (k.cc + k.cu) * draws
    gaps = Gap("draws that an unfinished attack leaves open", open_), Gap("draws without a clean decision", unknown)
    closed = [of_unit for of_unit in right if None not in of_unit]
    done = len(closed) * draws
    limits = _limits(sum(sum(map(bool, of_unit)) for of_unit in closed), done)
    if not surviving:
        found = column(name, failing, failing + open_ + unknown, drawn, *gaps, note=NOTE)
        return replace(found, interval=_of_draws(limits), drawn=drawn)
    lost = (k.cw + k.cr) * draws if threat.clean_errors == "fail" else 0
    if limits is not None:
        scale = done / (done + lost)
        limits = (1 - limits[1]) * scale, (1 - limits[0]) * scale
    low, high = len(right) * draws - open_ - failing, (k.cc + k.cu) * draws - failing
    found = column(name, low, high, k.denominator * draws, *gaps, note=NOTE)
    return replace(found, interval=_of_draws(limits), drawn=drawn)


def _limits(failing: int, draws: int) -> tuple[float, float] | None:
    """Clopper-Pearson limits of the mean probability. Draws of different units fail with different probabilities; their
    sum then spreads less than that of equal ones (Hoeffding, Annals of Mathematical Statistics 27, 1956, theorem 5)."""
    return population_interval(failing, failing, draws, CONFIDENCE) if draws else None


def _of_draws(limits: tuple[float, float] | None) -> Interval | None:
    return None if limits is None else Interval(*limits, CONFIDENCE, "clopper_pearson")


def _coverage(k: Counts) -> Iterator[Column]:
    done = k.denominator - k.unfinished - k.cu
    gaps = Gap("attack unfinished", k.unfinished), Gap("clean decision unknown", k.cu)
    yield column("attack_coverage", done, done, k.denominator, *gaps)
    yield column("coverage", done, done, k.denominator, *gaps)
