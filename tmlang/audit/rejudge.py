"""The claims of a run a second time: from the auditor's own numbers, by trying the ends of their ranges."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil, floor, sqrt
from statistics import NormalDist
from typing import Any

from tmlang.audit import redraw
from tmlang.audit.record import Record
from tmlang.audit.recorrupt import corruption_error
from tmlang.audit.recount import Number, Only, Recount, Units
from tmlang.audit.trials import upper_tail
from tmlang.audit.unspoken import of_property
from tmlang.meaning.evaluations import OF_POPULATIONS

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


def holds(plan: Json, evaluation: Json, rows: Sequence[Record], void: Units) -> str:
    """``holds``, ``violated``, ``undecided`` or ``vacuous`` of a property."""
    if of_property(plan, next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])):
        return "vacuous"
    mine = [r for r in rows if r.evaluation == evaluation["name"]]
    if any(r.status == "valid" and r.within_scope is True and r.observed_failure is True for r in mine):
        return "violated"
    provers = {
        f"{evaluation['name']}/{s['label']}"
        for s in evaluation["stages"]
        if s["role"] != "attack" and s["lowering"] != "inner" and f"{s['backend']}.{s['method']}" not in void
    }
    stage_of = {r: r.stage if "/" in r.stage else f"{r.evaluation}/{r.stage}" for r in mine}
    sure = [r for r in mine if r.verdict == "certified" and (r.gap is None or r.margin is None or r.margin > r.gap)]
    return "holds" if any(stage_of[r] in provers for r in sure) else "undecided"


def status(
    plan: Json, claim: Json, rows: Sequence[Record], void: Units, limits: Range | None = None
) -> tuple[str, Range | None]:
    """(status, range) of one claim, of ``limits`` instead of its range where given; raises :class:`NotRejudged`."""
    if any(p["changed"] for p in plan["parameters"]):
        return "not_evaluated", None
    if claim["op"] == "holds":
        found = holds(plan, evaluation_of(plan, claim["left"]), _stating_a_gap(rows), void)
        return {"holds": "supported", "violated": "refuted"}.get(found, "undecided"), None
    left = limits or _range(plan, claim["left"], rows, void)
    right = claim["right"]
    if left is None:
        return "undecided", None
    if isinstance(right, dict) and right["is"] == "Measured":
        other = _range(plan, right, rows, void)
        if other is None or not _same_units(plan, claim, rows):
            return "undecided", None
        return _corners(left, other, claim["op"]), left
    if claim["population"] is not None:
        if of_no_population(plan, claim):
            return "undecided", None
        raise NotRejudged("a population interval is checked by its tails only")
    if isinstance(right, dict):
        half = Fraction(1, 2 * 10 ** right["decimals"]) / (100 if right["percent"] else 1)
        value = Fraction(right["value"])
        inside = [value - half <= x <= value + half for x in left]
        beyond = left[1] < value - half or left[0] > value + half
        return "supported" if all(inside) else "refuted" if beyond else "undecided", left
    return _corners(left, (Fraction(right), Fraction(right)), claim["op"]), left


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


def _range(plan: Json, measured: Json, rows: Sequence[Record], void: Units) -> Range | None:
    found = number(plan, measured, rows, void)
    return None if found is None or found[2] is None or found[3] is None else (found[2], found[3])


def _stating_a_gap(rows: Sequence[Record]) -> list[Record]:
    """Without a stated gap a proof is of real arithmetic, and of the object it says nothing (EVIDENCE.md section 6)."""
    mute = [r.verdict == "certified" and (r.gap_kind == "none" or r.gap is None) for r in rows]
    return [replace(r, verdict="unknown") if m else r for r, m in zip(rows, mute, strict=True)]


def number(plan: Json, measured: Json, rows: Sequence[Record], void: Units) -> Number | None:
    """The number that a claim names, its range with and without proofs of real arithmetic; ``None`` where nothing
    measured it."""
    found, sure = (_number(plan, measured, some, void) for some in (rows, _stating_a_gap(rows)))
    if found is None or sure is None or None in (*found[2:], *sure[2:]):
        return found
    ends = [end for told in (found, sure) for end in told[2:] if end is not None]
    return found[0], found[1], min(ends), max(ends)


def _number(plan: Json, measured: Json, rows: Sequence[Record], void: Units) -> Number | None:
    args = {name: plain(value) for name, value in measured["args"]}
    if measured["quantity"] in ("mce", "relative_mce"):
        sides = (measured, {**measured, "evaluation": args["baseline"]})
        own, base = (recount(plan, evaluation_of(plan, side), rows, void, Only()) for side in sides)
        return corruption_error(measured["quantity"], own, base)
    only = Only(args.get("part"), args.get("radius"), int(args["queries"]) if "queries" in args else None)
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
