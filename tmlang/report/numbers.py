"""What each number is called, what it means, and what follows from all of them in two sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tmlang.audit.columns import Column, Columns, Counts, Interval
from tmlang.audit.estimates import NOTE
from tmlang.audit.show import DASH, exact, interval, percent

NAMES = {
    "clean_accuracy": ("clean accuracy", "right before any change"),
    "clean_answered": ("answered", "decided at all before any change: right or wrong, and not rejected"),
    "certified": ("certified", "right, and proved: no allowed input fails"),
    "certified_trusting": (
        "certified, trusting a solver",
        "right, and proved or held by a solver that hands out no proof: none fails, if that solver is right",
    ),
    "upper": ("not broken", "right, and no failing input is known, by whatever access it was found"),
    "robust_accuracy": ("R", "right, and no allowed input fails: at least what is proved, at most what is not broken"),
    "robust_rate": ("R", "right, and no allowed input fails: at least what is proved, at most what is not broken"),
    "survival": ("survival", "right, and broken by none of the attacks that ran, within the declared access"),
    "survival_completed": ("survival of completed", "the same among units whose attacks all finished; not claimable"),
    "survival_any": ("survival, rejections failing", "right, and neither broken nor driven into a rejection"),
    "attack_coverage": ("attack coverage", "every attack finished"),
    "certificate_coverage": ("certificate coverage", "of right ones: the certifier gave an answer"),
    "coverage": ("coverage", "every stage finished"),
    "denied": ("denied", "right, and driven into a rejection by an allowed input"),
    "reviewed": ("labels reviewed", "the label was reviewed"),
    "semantic_validity": ("semantic validity", "of failing inputs: a reviewer says that the label still holds"),
    "witnesses_judged": (
        "failing inputs judged",
        "of failing inputs: a reviewer looked at whether the label still holds",
    ),
    "corrupted_accuracy": ("accuracy after the change", "right on the changed input: an average, no worst case"),
    "draws_failing_before": ("failing before", "of the draws of right originals: failing before any change"),
    "median_distance": ("median distance", "of the nearest failing inputs found; not found counts as infinite"),
    "attack_success": ("success", "of right ones: broken by this attack, whatever the others broke"),
    "found_alone": ("sole success", "of right ones: broken by this attack and by no other"),
}
"""Column -> (heading, what is counted)."""


_OF_DRAWS = {
    "survival": (
        "draws survived",
        "of single draws: right before, and failing with none of the inputs that the attacks handed in",
    ),
    "attack_success": (
        "draws failing",
        "of single draws of right ones: failing with the input that this attack handed in",
    ),
}
"""Column -> (heading, what is counted) where single draws are counted, and not examples."""

SIGNS_SAY = (
    "What the records show when searches by gradients fail for the wrong reason. Survival of such searches says little "
    "here; a search without gradients may find more. None of these is a proof."
)
"""What stands above the signs of :mod:`tmlang.audit.masking`."""

SUMMARY = (
    "clean_accuracy",
    "corrupted_accuracy",
    "survival",
    "certified",
    "certified_trusting",
    "attack_coverage",
    "certificate_coverage",
)
"""Columns that a short table begins with."""

MARKS = {"supported": "✓", "assumed": "~", "refuted": "✗", "undecided": "?", "not_evaluated": "–"}
"""Of a claim's status, where colour alone would not do."""


@dataclass(frozen=True, slots=True)
class IntervalView:
    """A confidence interval of an average: its ends, its level (``"19/20"``), ``wilson`` or ``clopper_pearson``."""

    low: float
    high: float
    level: str
    method: str


@dataclass(frozen=True, slots=True)
class NumberView:
    """``value`` is the range as text, with the words of what it rests on (``note``), ``of`` its denominator, ``gaps``
    what keeps it from being one number; ``low`` and ``high`` its exact ends (``"13/25"``), ``None`` where it is
    undefined; ``interval``: of an estimate."""

    name: str
    heading: str
    meaning: str
    value: str
    of: str
    gaps: tuple[str, ...] = ()
    low: str | None = None
    high: str | None = None
    interval: IntervalView | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the bar: ``count`` of the denominator's units share one of the ``fates`` (``report.examples``)."""

    key: str
    label: str
    count: int
    share: float
    fates: tuple[str, ...] = ()


def qualified(text: str, column: Column | None) -> str:
    """A number of ``column`` as text, and beside it the words of what it rests on: the gap of certificates that is
    assumed, the solver that is trusted, real arithmetic. No number that needs them is printed without."""
    words = rests_on(column)
    return f"{text} ({words})" if words else text


def rests_on(column: Column | None) -> str:
    """The words that stand beside every number of a column: none where it rests on nothing."""
    return "" if column is None or column.note == NOTE else column.note


def number_view(column: Column) -> NumberView:
    heading, meaning = NAMES[column.name]
    if column.note == NOTE:
        heading, meaning = _OF_DRAWS.get(column.name, (heading, meaning))
    share = column.name != "median_distance"
    value = "undefined" if column.low is None else interval(column.low, column.high, share=share)
    if column.at_least and column.low is not None:
        value = f"at least {percent(column.low)}"
    if column.interval is not None:
        value += f", interval {interval_text(column.interval)}"
    gaps = tuple(f"{g.reason}: {g.units}" for g in column.gaps)
    return NumberView(
        column.name,
        heading + (f" ({NOTE})" if column.note == NOTE else ""),
        meaning,
        qualified(value, column),
        f"{column.denominator}",
        gaps,
        exact(column.low),
        exact(column.high),
        None if (of := column.interval) is None else IntervalView(of.low, of.high, str(of.level), of.method),
        column.note,
    )


def interval_text(told: Interval) -> str:
    """``[89 %, 93.7 %]``."""
    return interval(Fraction(told.low), Fraction(told.high))


def short(columns: Columns, name: str) -> str:
    """The value of a column for an overview: a dash where nothing measured it."""
    column = columns.get(name)
    if column is None:
        return DASH
    return number_view(column).value + (f" ({NOTE})" if column.note == NOTE else "")


@dataclass(frozen=True, slots=True)
class Bounds:
    """R as far as it is known: ``R in [82.4 %, 87.1 %]``, or ``R = 50 %`` where both sides meet. ``direction`` says
    what stands on either side; below stands a dash where no certificate ran."""

    relation: str = ""
    text: str = ""
    direction: str = ""


def bounds(columns: Columns) -> Bounds:
    """R between what is proved and what is not broken; empty where nothing was said of R."""
    upper, certified, trusting = (columns.get(name) for name in ("upper", "certified", "certified_trusting"))
    if upper is None or upper.high is None:
        return Bounds()
    more = f"; at least {qualified(percent(trusting.low), trusting)}" if trusting is not None else ""
    if certified is None:
        none = "no certificate ran: nothing bounds R from below"
        return Bounds("in", f"[{DASH}, {percent(upper.high)}]", none + more)
    of_r = next((c for c in columns.columns if c.name in ("robust_accuracy", "robust_rate")), certified)
    if certified.low == upper.high:
        both = qualified(percent(upper.high), of_r)
        return Bounds("=", both, "what is proved and what is not broken meet" + more)
    both = qualified(f"[{percent(certified.low)}, {percent(upper.high)}]", of_r)
    return Bounds("in", both, "from what is proved to what is not broken" + more)


def bar(columns: Columns) -> tuple[Segment, ...]:
    """The units of the denominator by their fate, from proved to lost; parts of no unit are left out. Where draws are
    counted no unit has one."""
    if columns.draws:
        return ()
    k = columns.counts
    certified, trusting = columns.get("certified"), columns.get("certified_trusting")
    standing = "not broken by this search" if certified is trusting is None else "not broken, not proved"
    real = " (real arithmetic)" if "real arithmetic" in rests_on(certified) else ""
    trusted = rests_on(trusting).partition(";")[0]
    parts = [
        ("proved", f"proved{real}", k.certified - k.certified_assumed, ("proved",)),
        ("assumed", "proved (gap to the object's arithmetic assumed)", k.certified_assumed, ("assumed",)),
        ("trusted", f"certified only {trusted}", k.certified_trusting - k.certified, ("trusted",)),
        ("standing", standing, k.standing, ("standing",)),
        ("open", "attack unfinished", k.open, ("open",)),
        ("broken", "broken", k.broken_any_access, ("broken", "beyond")),
        ("unknown", "clean decision unknown", k.cu, ("unknown",)),
    ]
    if columns.clean_errors == "fail":
        parts.append(("wrong", "wrong before any change", k.cw, ("wrong",)))
        parts.append(("wrong", "rejected before any change", k.cr, ("rejected",)))
    whole = sum(count for _, _, count, _ in parts)
    return tuple(Segment(key, label, count, count / whole, fates) for key, label, count, fates in parts if count)


def headline(columns: Columns) -> tuple[str, ...]:
    """What was found, in sentences that a reader can act on."""
    if columns.holds is not None:
        return (_property(columns),)
    corrupted = columns.get("corrupted_accuracy")
    if corrupted is not None:
        alone = (spread(columns),) if columns.repeats else ()
        of = f"{interval(corrupted.low, corrupted.high)} of {corrupted.denominator}"
        ends = f" (interval {interval_text(corrupted.interval)})" if corrupted.interval else ""
        return (f"{of} changed inputs are decided rightly{ends}.", *alone, "This is an average, and no worst case.")
    return (*_threat_headline(columns), *filter(None, [columns.unused]))


def _property(columns: Columns) -> str:
    if columns.holds == "holds" and columns.note:
        why = "a solver that hands out no proof says so" if "trusting" in columns.note else "it was proved"
        return f"The property holds ({columns.note}): {why} of every input that it speaks of."
    return _PROPERTY[columns.holds or "undecided"]


_PROPERTY = {
    "holds": "The property holds: it was proved for every input that it speaks of.",
    "violated": "The property is violated: an input was found and replayed.",
    "undecided": "The property is undecided: nothing was proved, and no violation was found.",
    "vacuous": "The property is vacuous: no input that can be stored obeys its bounds, so nothing was asked or shown.",
}


def _threat_headline(columns: Columns) -> Iterator[str]:
    k, units = columns.counts, columns.units
    if k.unusable:
        yield f"{k.unusable} of {k.selected} {units} have no usable label: left out of every count."
    if k.not_applicable:
        yield f"{k.not_applicable} of {k.selected} {units} show the target already: left out of every count."
    if k.denominator == 0:
        yield f"No {units} are left to count, so every share is undefined."
        return
    if columns.draws:
        yield from _draw_headline(columns)
        return
    certified, searched = columns.get("certified"), columns.get("survival") is not None
    yield from _proof_headline(columns, certified, columns.get("certified_trusting"))
    if k.broken_any_access:
        yield f"{_count(k.broken_any_access, units)} broken: an allowed input that fails was found and replayed."
    if k.standing and searched:
        rest = (
            "and no proof covers them: nobody knows"
            if certified is not None
            else "which proves nothing about other searches"
        )
        yield f"{_count(k.standing, units)} not broken by this search, {rest}."
    if k.open:
        yield f"{_count(k.open, units)} undecided because an attack did not finish."
    yield from _met_headline(columns)
    if columns.repeats:
        yield spread(columns)
    yield from _clean_headline(columns, k)


def _proof_headline(columns: Columns, certified: Column | None, trusting: Column | None) -> Iterator[str]:
    """What is proved, what is proved under an assumption, and what is the word of a solver."""
    k, units = columns.counts, columns.units
    if certified is not None:
        sure = k.certified - k.certified_assumed
        real = " (real arithmetic)" if "real arithmetic" in rests_on(certified) else ""
        are = "is" if sure == 1 else "are"
        yield f"{sure} of {k.denominator} {units} {are} proved{real}: no allowed input makes the object fail."
    if k.certified_assumed:
        more = f"{_count(k.certified_assumed, units)} proved under an assumption"
        yield f"{more}: the gap of the certificates to the object's arithmetic is assumed."
    if trusting is not None:
        only = k.certified_trusting - k.certified
        solver = rests_on(trusting).partition(";")[0]
        yield f"{_count(only, units)} certified only {solver}, which hands out no proof."


def _draw_headline(columns: Columns) -> Iterator[str]:
    """How often single draws fail, before any change and after."""
    k, survival, before = columns.counts, columns.get("survival"), columns.get("draws_failing_before")
    assert survival is not None
    made = f"{survival.denominator} draws, {columns.draws} of each of {k.denominator} {columns.units}"
    ends = f" (interval {interval_text(survival.interval)})" if survival.interval else ""
    yield f"Of {made}, {interval(survival.low, survival.high)} are survived{ends}."
    if before is not None and before.defined:
        yield f"Before any change {percent(before.low)} of the draws of right {columns.units} fail."
    yield "This is an average over draws, and no worst case."
    if k.unfinished:
        yield f"{_count(k.unfinished, columns.units)} undecided in some draws because an attack did not finish."
    yield from _met_headline(columns)
    if columns.repeats:
        yield spread(columns)
    yield from _clean_headline(columns, k)


def spread(columns: Columns) -> str:
    """The least and the greatest of the repeats, each alone, beside the number that they give together."""
    ends = [end for c in columns.repeats for end in (c.low, c.high) if end is not None]
    if not ends:
        return ""
    survival = columns.repeats[0].name == "survival"
    name, joined = ("survival", "union") if survival else ("accuracy", "mean")
    between = f"between {percent(min(ends))} and {percent(max(ends))}" if min(ends) < max(ends) else percent(ends[0])
    return f"Each of {len(columns.repeats)} repeats alone: {name} {between}; the number above is their {joined}."


def _clean_headline(columns: Columns, k: Counts) -> Iterator[str]:
    lost = [f"{k.cw} wrong"] * bool(k.cw) + [f"{k.cr} rejected"] * bool(k.cr)
    if lost:
        counted = "counted as failures" if columns.clean_errors == "fail" else "left out of the count"
        yield f"Before any change, {' and '.join(lost)}: {counted}."
    if k.cu:
        why = f" ({_reasons(columns.unknown)})" if columns.unknown else ""
        yield f"{_count(k.cu, columns.units)} without a clean decision{why}."


def _met_headline(columns: Columns) -> Iterator[str]:
    """What was met on allowed inputs and is no answer."""
    for text, n in columns.met:
        whose = f"{n} {columns.units.removesuffix('s') if n == 1 else columns.units}"
        reason = text.removeprefix("no decision: ")
        yield f"Of {whose} an allowed input has no decision ({reason}): it is kept, and counts as no survival."


def _reasons(found: Sequence[tuple[str, int]]) -> str:
    told = [(text.removeprefix("no decision: "), n) for text, n in found]
    return told[0][0] if len(told) == 1 else "; ".join(f"{n}: {text}" for text, n in told)


def _count(n: int, units: str) -> str:
    word = units.removesuffix("s") if n == 1 else units
    return f"{n} {word} {'is' if n == 1 else 'are'}"
