"""How many examples somebody would have to forge to turn a claim, and how likely a random part misses all of them.

A unit moves the ends of a share by one part of its denominator at most, in whatever way its rows are forged: left out
of the denominator, it moves them by less. So the ends are moved until another status comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb
from random import Random
from typing import Any

from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.recount import Number, Units
from tmlang.audit.rejudge import NotRejudged, Range, evaluation_of, number, of_no_population, ranges, status

Json = Mapping[str, Any]
_NO_SHARES = frozenset({"median_distance", "mce"})
"""One example may move them by any amount."""


def draw(examples: Sequence[str], count: int, seed: int) -> frozenset[str]:
    """``count`` of the examples, each as likely as any other; the same for the same seed."""
    return frozenset(Random(seed).sample(list(dict.fromkeys(examples)), count))


def missed(examples: int, forged: int, chosen: int) -> Fraction:
    """The chance that ``chosen`` of ``examples``, drawn without putting back, hold none of ``forged`` ones."""
    if chosen > examples - forged:
        return Fraction(0)
    return Fraction(comb(examples - forged, chosen), comb(examples, chosen))


def held(forged: int, together: Sequence[int]) -> int:
    """How many examples, at least, are run again as soon as one of ``forged`` ones is: these lie in groups of so many
    that are run again ``together``, and whoever forges takes the groups that hold least."""
    ordered = sorted(together)
    if len(set(ordered[1:])) > 1 or not ordered:
        return max([forged, *ordered[:1]])
    short, size = ordered[0], ordered[-1]
    rest = max(0, forged - short)
    ways = [short + -(-rest // size) * size] if rest <= size * (len(ordered) - 1) else []
    ways += [-(-forged // size) * size] if forged <= size * (len(ordered) - 1) else []
    return min(ways, default=sum(ordered))


def least_examples(plan: Json, claim: Json, rows: Sequence[Record], void: Units) -> int | None:
    """The least number of examples whose rows must be forged to give ``claim`` another status; ``None`` where no
    number of them does, or where it is judged of nothing."""
    if any(p["changed"] for p in plan["parameters"]):
        return None
    if claim["op"] == "holds" or claim["left"]["quantity"] in _NO_SHARES:
        return 1
    try:
        units = _least_units(plan, claim, rows, void)
    except NotRejudged:
        return 1
    if units is None:
        return None
    if not _compares(claim) and _goal(plan, claim).get("each") in ("any", "all"):
        return units  # what is counted are examples
    sides = [claim["left"], *([claim["right"]] if _compares(claim) else [])]
    evaluations = [evaluation_of(plan, side)["name"] for side in sides]
    return _holding(units, Counter(r.example for r in rows if r.evaluation in evaluations and _is_clean(r)))


def _compares(claim: Json) -> bool:
    return isinstance(claim["right"], dict) and claim["right"]["is"] == "Measured"


def _is_clean(row: Record) -> bool:
    return row.stage.rpartition("/")[2] == CLEAN_STAGE


def _holding(units: int, of_example: Counter[str]) -> int:
    """How few examples hold so many units."""
    left = units
    for count, (_, held) in enumerate(of_example.most_common(), 1):
        left -= held
        if left <= 0:
            return count
    return max(1, len(of_example))


def _least_units(plan: Json, claim: Json, rows: Sequence[Record], void: Units) -> int | None:
    told = number(plan, claim["left"], rows, void)
    if told is None or told[2] is None or told[3] is None or not told[1]:
        return 1
    if claim["population"] is not None and of_no_population(plan, claim):
        return None
    if _hangs_on_a_method(plan, claim, rows, void):
        return 1
    weight, at = _weight(plan, claim), ranges(plan, claim["left"], rows, void)
    if at is None:
        return 1
    now = _status(plan, claim, rows, void, told, at, 0, 0)

    def turns(units: int) -> bool:
        moves = range(-units * weight, units * weight + 1, max(1, units * weight))
        return any(_status(plan, claim, rows, void, told, at, a, b) != now for a, b in product(moves, moves))

    least, most = 0, -(-2 * told[1] // weight)
    if not turns(most):
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if turns(middle) else (middle, most)
    return most


def _weight(plan: Json, claim: Json) -> int:
    """Parts of the denominator that one unit is: its draws, where these are counted."""
    success = _subject(plan, claim).get("success") or {}
    return int(success["draws"]) if success.get("kind") == "single_draw" else 1


def _subject(plan: Json, claim: Json) -> Json:
    name = evaluation_of(plan, claim["left"])["subject"]
    subject: Json = next(s for s in plan["subjects"] if s["name"] == name)
    return subject


def _goal(plan: Json, claim: Json) -> Json:
    return _subject(plan, claim).get("goal") or {}


def _hangs_on_a_method(plan: Json, claim: Json, rows: Sequence[Record], void: Units) -> bool:
    """Whether a single witness that contradicts a certificate, and was forged away, would turn the claim: it voids
    every certificate of its method."""
    evaluation = evaluation_of(plan, claim["left"])
    methods = {f"{s['backend']}.{s['method']}" for s in evaluation["stages"] if s["role"] != "attack"} - void
    try:
        now = status(plan, claim, rows, void)[0]
        return any(status(plan, claim, rows, void | {method})[0] != now for method in methods)
    except NotRejudged:
        now_told = number(plan, claim["left"], rows, void)
        return any(number(plan, claim["left"], rows, void | {method}) != now_told for method in methods)


def _status(
    plan: Json, claim: Json, rows: Sequence[Record], void: Units, told: Number, at: Sequence[Range], down: int, up: int
) -> str:
    """What becomes of the claim with the ends of its ranges moved by so many parts; what is no range leaves it."""
    moved: list[Range] = []
    for ends in at:
        low, high = (
            min(Fraction(1), max(Fraction(0), Fraction(end) + Fraction(by, told[1])))
            for end, by in zip(ends, (down, up), strict=True)
        )
        moved.append((low, high) if low <= high else ends)
    return status(plan, claim, rows, void, moved)[0]


@dataclass(frozen=True)
class Drawn:
    """Of one evaluation: so many examples were drawn, each as likely as any other, and examples are run again in groups
    of so many ``together``."""

    count: int
    together: Sequence[int]


def chances(
    plan: Json, rows: Sequence[Record], void: Units, drawn: Mapping[str, Drawn]
) -> Iterator[tuple[str, int | None, Fraction | None]]:
    """Per claim its text, the least number of examples to forge, and the chance that none of them is run again."""
    for claim in plan["claims"]:
        least = least_examples(plan, claim, rows, void)
        try:
            of = drawn[evaluation_of(plan, claim["left"])["name"]]
        except NotRejudged:
            yield claim["text"], least, None
            continue
        total = sum(of.together)
        chance = None if least is None else missed(total, held(min(least, total), of.together), of.count)
        yield claim["text"], least, chance
