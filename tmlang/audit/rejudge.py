"""The claims of a run a second time: from the auditor's own numbers, by trying the ends of their ranges."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor, sqrt
from statistics import NormalDist
from typing import Any

from tmlang.audit import redraw
from tmlang.audit.record import Record
from tmlang.audit.recorrupt import corruption_error
from tmlang.audit.recount import Belief, Number, Only, Recount, Units, believed
from tmlang.audit.trials import upper_tail
from tmlang.audit.unspoken import of_property
from tmlang.meaning.evaluations import CONFIDENCE, OF_DRAWS, OF_POPULATIONS

Json = Mapping[str, Any]
Range = tuple[Fraction | float, Fraction | float]
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}


class NotRejudged(Exception):
    """A claim that the auditor does not work out; the argument says why."""


def numbers(plan: Json, evaluation: Json, rows: Sequence[Record], void: Units, only: Only) -> dict[str, Number]:
    """The auditor's columns of one evaluation."""
    return redraw.numbers(recount(plan, evaluation, rows, void, only))


def recount(plan: Json, evaluation: Json, rows: Sequence[Record], void: Units, only: Only) -> Recount:
    subject = next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])
    return Recount(evaluation, subject, rows, void, only)


def holds(plan: Json, evaluation: Json, rows: Sequence[Record], void: Units, belief: Belief = (True, "any")) -> str:
    """``holds``, ``violated``, ``undecided`` or ``vacuous`` of a property, as far as its certificates are believed."""
    if of_property(plan, next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])):
        return "vacuous"
    mine = [r for r in rows if r.evaluation == evaluation["name"]]
    if any(r.status == "valid" and r.within_scope is True and r.observed_failure is True for r in mine):
        return "violated"
    return "holds" if any(believed(belief, stage, r) for stage, r in _proofs(evaluation, mine, void)) else "undecided"


def _proofs(evaluation: Json, mine: Iterable[Record], void: Units) -> Iterator[tuple[Json, Record]]:
    """The certificates of a property above their gaps, with their stages."""
    provers = {
        f"{evaluation['name']}/{s['label']}": s
        for s in evaluation["stages"]
        if s["role"] != "attack" and s["lowering"] != "inner" and f"{s['backend']}.{s['method']}" not in void
    }
    for r in mine:
        stage = provers.get(r.stage if "/" in r.stage else f"{r.evaluation}/{r.stage}")
        if stage and r.verdict == "certified" and (r.gap is None or r.margin is None or r.margin > r.gap):
            yield stage, r


def holding_on(evaluation: Json, rows: Sequence[Record], void: Units) -> str:
    """What a property that holds rests on, from nothing to what says nothing of the object."""
    mine = [r for r in rows if r.evaluation == evaluation["name"]]
    given = list(_proofs(evaluation, mine, void))
    solvers = dict.fromkeys(s["trusts"] for s, _ in given if s["evidence"] == "trusted")
    trust = f"trusting {' and '.join(solvers)}"
    for belief, words in (
        ((False, "proved"), ""),
        ((False, "stated"), "assumed"),
        ((True, "proved"), trust),
        ((True, "stated"), f"{trust}; assumed"),
        ((False, "any"), "real arithmetic"),
    ):
        if any(believed(belief, s, r) for s, r in given):
            return words
    return f"{trust}; real arithmetic"


SURE: Belief = (False, "proved")
BELIEFS: tuple[Belief, ...] = (SURE, (True, "stated"), (True, "any"))
"""A claim is judged on what is sure, with all that is assumed, and with what holds in real arithmetic alone."""


def status(
    plan: Json, claim: Json, rows: Sequence[Record], void: Units, limits: Sequence[Range] | None = None
) -> tuple[str, Range | None]:
    """(status, range) of one claim, with ``limits`` as the ranges of its left side where given (:func:`ranges`); the
    range of a claim about a population is that of its sample. Raises :class:`NotRejudged`."""
    if any(p["changed"] for p in plan["parameters"]):
        return "not_evaluated", None
    if claim["op"] == "holds":
        evaluation = evaluation_of(plan, claim["left"])
        words = {"holds": "supported", "violated": "refuted"}
        at = [words.get(holds(plan, evaluation, rows, void, belief), "undecided") for belief in BELIEFS]
        return _together(at[0], at[1:]), None
    left = limits or ranges(plan, claim["left"], rows, void)
    right = claim["right"]
    if left is None:
        return "undecided", None
    whole = min(low for low, _ in left), max(high for _, high in left)
    if isinstance(right, dict) and right["is"] == "Measured":
        other = ranges(plan, right, rows, void)
        if other is None or not _same_units(plan, claim, rows):
            return "undecided", None
        both = min(low for low, _ in other), max(high for _, high in other)
        pairs = [_corners(x, y, claim["op"]) for x, y in product(left[1:], other[1:])]
        return _together(_corners(whole, both, claim["op"]), pairs), whole
    if (told := drawing(plan, claim, rows, void)) is not None:
        drawn, base, confidence = told
        tested = {**claim, "population": confidence}
        at = [
            _of_population(tested, int(x[0] * base), int(x[1] * base), drawn, base) if drawn else _of_number(claim, x)
            for x in (whole, *left[1:])
        ]
    elif claim["population"] is not None:
        if of_no_population(plan, claim):
            return "undecided", None
        base = (number(plan, claim["left"], rows, void) or (0, 0))[1]
        at = [_of_population(claim, int(x[0] * base), int(x[1] * base), base) for x in (whole, *left[1:])]
    else:
        at = [_of_number(claim, x) for x in (whole, *left[1:])]
    return _together(at[0], at[1:]), whole


def _together(whole: str, granted: Sequence[str]) -> str:
    """What holds throughout, whatever is believed, stands; what holds only where everything is granted is assumed."""
    if whole != "undecided":
        return whole
    return "assumed" if set(granted) == {"supported"} else "undecided"


def _of_number(claim: Json, x: Range) -> str:
    right = claim["right"]
    if isinstance(right, dict):
        least, most = _rounding_to(right)
        inside = [least <= end <= most for end in x]
        return "supported" if all(inside) else "refuted" if x[1] < least or x[0] > most else "undecided"
    return _corners(x, (Fraction(right), Fraction(right)), claim["op"])


def _rounding_to(right: Json) -> tuple[Fraction, Fraction]:
    half = Fraction(1, 2 * 10 ** right["decimals"]) / (100 if right["percent"] else 1)
    return Fraction(right["value"]) - half, Fraction(right["value"]) + half


def drawing(plan: Json, claim: Json, rows: Sequence[Record], void: Units) -> tuple[int, int, str] | None:
    """(how many draws were made, of how many counted ones, the confidence) of a claim on a share of single draws;
    ``None`` of every other claim."""
    quantity, right = claim["left"]["quantity"], claim["right"]
    if quantity not in OF_DRAWS or (isinstance(right, dict) and right["is"] == "Measured"):
        return None
    evaluation = evaluation_of(plan, claim["left"])
    again = recount(plan, evaluation, rows, void, Only())
    mine = number(plan, claim["left"], rows, void)
    if not redraw.of_draws(again.subject) or mine is None:
        return None
    return redraw.drawn(again), mine[1], claim["population"] or str(CONFIDENCE)


def _of_population(claim: Json, low: int, high: int, base: int, counted: int | None = None) -> str:
    """By exact binomial tails: Clopper and Pearson's limit lies beyond a value iff the tail there is within half the
    error (it grows with the value). ``counted``: of how many the claimed share is, where only ``base`` were drawn."""
    half, op, right = (1 - Fraction(claim["population"])) / 2, claim["op"], claim["right"]

    def above(value: Fraction, *, strict: bool) -> bool:
        """Whether the lower limit is."""
        tail = upper_tail(low, base, value) if 0 < value < 1 else Fraction(value >= 1)
        return (tail < half if strict else tail <= half) if low else (value < 0 if strict else value <= 0)

    def below(value: Fraction, *, strict: bool) -> bool:
        """Whether the upper limit is."""
        tail = 1 - upper_tail(high + 1, base, value) if 0 < value < 1 else Fraction(value <= 0)
        return (tail < half if strict else tail <= half) if high < base else (value > 1 if strict else value >= 1)

    least, most = _rounding_to(right) if isinstance(right, dict) else (Fraction(right), Fraction(right))
    least, most = (end * Fraction(counted or base, base) for end in (least, most))
    if op in (">=", ">"):
        whole, none = above(least, strict=op == ">"), below(least, strict=op == ">=")
    elif op in ("<=", "<"):
        whole, none = below(most, strict=op == "<"), above(most, strict=op == "<=")
    else:
        whole = above(least, strict=False) and below(most, strict=False)
        none = below(least, strict=True) or above(most, strict=True)
    return "supported" if whole else "refuted" if none else "undecided"


def _corners(left: Range, right: Range, op: str) -> str:
    """By the four pairs of ends: a comparison monotone in both sides holds for all pairs, or for none, iff there."""
    if op == "==" and (left[0] < right[1] or right[0] < left[1]):
        return "refuted" if left[1] < right[0] or right[1] < left[0] else "undecided"
    found = {_HOLDS[op](x, y) for x, y in product(left, right)}
    return "undecided" if len(found) == 2 else "supported" if found == {True} else "refuted"


def evaluation_of(plan: Json, measured: Json) -> Json:
    """The evaluation that a claim names, at its point of a curve; raises :class:`NotRejudged`."""
    args = {name: plain(value) for name, value in measured["args"]}
    found = [
        e
        for e in plan["evaluations"]
        if measured["evaluation"] in (e["name"], e["name"].split("@")[0])
        and all(name in args and args[name] == plain(value) for name, value in e["at"])
    ]
    if len(found) != 1:
        raise NotRejudged(f"{measured['evaluation']} has {len(found)} points there")
    evaluation: Json = found[0]
    return evaluation


def plain(value: Any) -> Any:
    """A number or a name out of the plan's JSON."""
    if isinstance(value, dict):
        return value.get("name") or value.get("text") or Fraction(value["value"])
    return Fraction(value)


def ranges(plan: Json, measured: Json, rows: Sequence[Record], void: Units) -> list[Range] | None:
    """The range of what a claim names at each belief; ``None`` where nothing measured it."""
    found = [_number(plan, measured, rows, void, belief) for belief in BELIEFS]
    ends = [(n[2], n[3]) for n in found if n is not None and n[2] is not None and n[3] is not None]
    return ends if len(ends) == len(BELIEFS) else None


def number(plan: Json, measured: Json, rows: Sequence[Record], void: Units) -> Number | None:
    """The number that a claim names, its range as wide as at every belief; ``None`` where nothing measured it."""
    ends = ranges(plan, measured, rows, void)
    found = _number(plan, measured, rows, void, SURE)
    if found is None or ends is None:
        return found
    return found[0], found[1], min(low for low, _ in ends), max(high for _, high in ends)


def _number(plan: Json, measured: Json, rows: Sequence[Record], void: Units, belief: Belief) -> Number | None:
    args = {name: plain(value) for name, value in measured["args"]}
    if measured["quantity"] in ("mce", "relative_mce"):
        sides = (measured, {**measured, "evaluation": args["baseline"]})
        own, base = (recount(plan, evaluation_of(plan, side), rows, void, Only()) for side in sides)
        return corruption_error(measured["quantity"], own, base)
    queries = int(args["queries"]) if "queries" in args else None
    only = Only(args.get("part"), args.get("radius"), queries, belief=belief)
    found = numbers(plan, evaluation_of(plan, measured), rows, void, only)
    name = measured["quantity"]
    if name == "attack_success":
        named = [k for k in found if k.startswith(name) and args.get("attack") in (None, k.partition(":")[2])]
        name = named[0] if len(named) == 1 else ""
    return found.get(name)


def _same_units(plan: Json, claim: Json, rows: Sequence[Record]) -> bool:
    """Whether both sides count the same (unit, label) and their threats say the same but for the model."""
    sides = [evaluation_of(plan, claim["left"]), evaluation_of(plan, claim["right"])]
    units = [
        {(r.unit, r.label, r.target) for r in rows if r.evaluation == e["name"] and r.stage.split("/")[-1] == "clean"}
        for e in sides
    ]
    about = (next(s for s in plan["subjects"] if s["name"] == e["subject"]) for e in sides)
    return units[0] == units[1] and of_one_kind(*about)


def of_one_kind(one: Json, other: Json) -> bool:
    """Whether two subjects say the same but for the model: what is compared is one set, failure and denominator."""
    same = (
        "is",
        "allow",
        "minimize",
        "mutable",
        "perturbation",
        "nature",
        "goal",
        "rejected",
        "clean_errors",
        "success",
    )
    return all(one.get(c) == other.get(c) for c in same)


def of_no_population(plan: Json, claim: Json) -> bool:
    """Whether the claim is of no share of all examples that were drawn one by one (EVIDENCE.md section 8)."""
    evaluation = evaluation_of(plan, claim["left"])
    subject = next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])
    if redraw.of_draws(subject) and claim["left"]["quantity"] in OF_DRAWS:
        return False  # the draws are the sample
    if subject["is"] != "Threat" or (isinstance(claim["right"], dict) and claim["right"]["is"] == "Measured"):
        return True
    data = next(d for d in plan["data"] if d["name"] == subject["data"])
    drawn = data["sampling"] is not None or any(t["kind"] == "sample" for t in data["takes"])
    counted = subject["clean_errors"] == "fail" and subject["goal"]["kind"] != "each"
    return not (drawn and counted and claim["left"]["quantity"] in OF_POPULATIONS)


def population_fault(low: Fraction, high: Fraction, base: int, limits: Range, confidence: Fraction) -> str | None:
    """Whether ``limits`` are the Clopper-Pearson limits of ``[low, high]``: by the exact binomial tails at them."""
    half = (1 - confidence) / 2
    down, up = Fraction(limits[0]), Fraction(limits[1])
    k, m = int(low * base), int(high * base)
    close = Fraction(1, 10**6)
    if k and abs(upper_tail(k, base, down) / half - 1) > close:
        return "the lower limit is not where the tail is half the error"
    if m < base and abs((1 - upper_tail(m + 1, base, up)) / half - 1) > close:
        return "the upper limit is not where the tail is half the error"
    return None if (k or down == 0) and (m < base or up == 1) else "a limit at the end of the range is not the end"


def interval_fault(shift: Json, rows: Iterable[Record], told: Json | None) -> str | None:
    """Whether ``told`` is the shift's interval over its answers.

    Wilson's ends w solve ``|p - w| = z sqrt(w(1 - w) / n)``; those of Clopper and Pearson are checked by their tails.
    """
    limits = redraw.limits_of(told, Fraction(shift["confidence"]), shift["interval"])
    if isinstance(limits, str):
        return limits
    answers = [r for r in rows if r.status == "valid" and r.stage.split("/")[-1] != "clean"]
    n = len({r.unit for r in answers})
    if limits is None or not n:
        return None if limits is None and not n else "an interval is told without answers, or the other way round"
    share = Fraction(sum(r.decision == r.label for r in answers), len(answers))
    confidence = Fraction(shift["confidence"])
    if shift["interval"] == "clopper_pearson":
        low, high = Fraction(floor(share * n), n), Fraction(ceil(share * n), n)
        return population_fault(low, high, n, (limits[0], limits[1]), confidence)
    z = NormalDist().inv_cdf(float(1 + confidence) / 2)
    off = [abs(abs(float(share) - w) - z * sqrt(w * (1 - w) / n)) for w in limits]
    ends = all(d < 1e-9 or w in (0.0, 1.0) for d, w in zip(off, limits, strict=True))
    return None if ends and limits[0] <= share <= limits[1] else "the interval's ends are not Wilson's"
