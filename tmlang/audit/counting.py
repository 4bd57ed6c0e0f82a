"""Units into counts, and counts into columns: what every kind of number is made by (EVIDENCE.md section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from tmlang.audit.columns import Column, Counts, Gap
from tmlang.audit.record import Record
from tmlang.audit.units import Unit, join_targets
from tmlang.meaning.threats import Threat


def counted(threat: Threat, clean: Sequence[Record], pairs: Sequence[Unit]) -> tuple[Sequence[Unit], int, int]:
    """The counted units, how many were selected, and how many of them are not applicable (target = label).

    For ``targeted each any`` and ``each all`` an example is one unit: broken when any, or all, of its targets are.
    """
    if threat.goal.each in (None, "apart"):
        return pairs, len(clean), sum(r.label >= 0 and r.target == r.label for r in clean)
    by_example: dict[str, list[Unit]] = {}
    for unit in pairs:
        by_example.setdefault(unit.example, []).append(unit)
    joined = [join_targets(units, any_target=threat.goal.each == "any") for units in by_example.values()]
    return joined, len({r.example for r in clean}), 0


def counts_of(threat: Threat, clean: Sequence[Record], pairs: Sequence[Unit]) -> tuple[Sequence[Unit], Counts]:
    """The counted units of ``pairs``, and how many of each kind; ``clean``: the rows of all originals."""
    units, selected, not_applicable = counted(threat, clean, pairs)

    def count(holds: Callable[[Unit], bool]) -> int:
        return sum(1 for u in units if holds(u))

    cc, cu = count(lambda u: u.clean == "cc"), count(lambda u: u.clean == "cu")
    base = len(units)
    return units, Counts(
        selected=selected,
        unusable=selected - not_applicable - base,
        not_applicable=not_applicable,
        base=base,
        denominator=base if threat.clean_errors == "fail" else cc + cu,
        cc=cc,
        cw=count(lambda u: u.clean == "cw"),
        cr=count(lambda u: u.clean == "cr"),
        cu=cu,
        broken=count(lambda u: u.broken),
        broken_any_access=count(lambda u: u.broken_any),
        unfinished=count(lambda u: u.open),
        certified=count(lambda u: u.certified),
        certified_assumed=count(lambda u: u.certified and u.rests_on_a_gap(trusting=False)),
        certified_trusting=count(lambda u: u.trusting),
        trusting_assumed=count(lambda u: u.trusting and u.rests_on_a_gap(trusting=True)),
        certifier_failed=count(lambda u: u.certifier_failed),
        trusting_failed=count(lambda u: u.trusting_failed),
        denied=count(lambda u: u.denied),
        undecided=count(lambda u: u.undecided),
        open=count(lambda u: u.open and not u.broken_any and not u.trusting),
        exempt=sum(r.within_scope is False for r in clean),
    )


def column(
    name: str, low: int, high: int, denominator: int, *gaps: Gap, at_least: bool = False, note: str = ""
) -> Column:
    """``[low, high] / denominator``; undefined where the denominator is empty. Gaps of no unit are left out."""
    kept = tuple(g for g in gaps if g.units)
    if denominator == 0:
        return Column(name, low, 0, None, None, kept, at_least, note)
    return Column(name, low, denominator, Fraction(low, denominator), Fraction(high, denominator), kept, at_least, note)


def unknown(k: Counts) -> Gap:
    return Gap("clean decision unknown", k.cu)


def clean_columns(k: Counts) -> Iterator[Column]:
    yield column("clean_accuracy", k.cc, k.cc + k.cu, k.base, unknown(k))
    yield column("clean_answered", k.cc + k.cw, k.cc + k.cw + k.cu, k.base, unknown(k))
