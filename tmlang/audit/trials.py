"""What must hold of rows that fresh draws were made for (EVIDENCE.md section 5): the auditor's own reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from hashlib import sha256
from math import comb
from typing import Any

from numpy.typing import NDArray

from tmlang.audit.record import Record
from tmlang.audit.remeasure import as_values
from tmlang.meaning.spaces import Space
from tmlang.plan.ir import Plan

Json = Mapping[str, Any]


def upper_tail(successes: int, trials: int, p: Fraction) -> Fraction:
    """P[Bin(trials, p) >= successes], exact."""
    a, b = p.numerator, p.denominator - p.numerator
    ways = sum(comb(trials, k) * a**k * b ** (trials - k) for k in range(successes, trials + 1))
    return Fraction(ways, p.denominator**trials)


def confirmed(success: Json | None, row: Record, base: int) -> bool:
    """The exact binomial test, shared out over all units as if each had one candidate: the least that is demanded."""
    if success is None or success["kind"] != "error_probability" or row.draws is None or row.errors is None:
        return False
    threshold, level = Fraction(success["threshold"]), (1 - Fraction(success["confidence"])) / base
    return upper_tail(row.errors, row.draws, threshold) <= level


def trial_faults(subject: Json, row: Record, *, clean: bool) -> Iterator[str]:
    """Draws that are not as many as the threat says, or not as many failures as are told; a share that is told as a
    failure; an original that is called right although half of its draws fail, or wrong although they do not."""
    success = subject["success"]
    if row.outcomes is None:
        if success is not None and (row.draws is not None or row.errors is not None):
            yield "draws are told, and not which of them failed"
        if row.draw_seed is not None:
            yield "a seed of draws is told, and no draw"
        return
    if success is None:
        yield "draws are told, and nothing is drawn"
        return
    if row.draw_seed is None or set(row.outcomes) - {"0", "1"}:
        yield "the outcomes of draws are 0 or 1, and have a seed"
    if not len(row.outcomes) == row.draws == success["draws"]:
        yield f"{len(row.outcomes)} draws are told as {row.draws}, and the threat says {success['draws']}"
    if row.outcomes.count("1") != row.errors:
        yield f"{row.outcomes.count('1')} of the draws failed, and {row.errors} are told"
    if success["kind"] == "single_draw":
        yield from _share_faults(row, clean=clean)


def _share_faults(row: Record, *, clean: bool) -> Iterator[str]:
    if not clean and (row.observed_failure is not None or row.counted_failure is not None):
        yield "a share of draws is told as a failure"
    right = 2 * (row.errors or 0) < (row.draws or 0)
    if clean and row.clean != "cu" and row.label >= 0 and right != (row.clean == "cc"):
        yield f"{row.errors} of {row.draws} draws fail before any change, and it is called {row.clean}"


def seed_faults(plan: Plan, space: Space, row: Record, stored: NDArray[Any], *, indices: bool) -> Iterator[str]:
    """The fresh draws of a saved input come from its own values, so nobody chose them."""
    if row.outcomes is None:
        return
    values = as_values(space, stored, indices=True) if indices else stored.astype(space.dtype)
    run = next(e.seed for e in plan.evaluations if e.name == row.evaluation) or 0
    wanted = seed_of(run, (values + values.dtype.type(0)).tobytes())
    if row.draw_seed != wanted:
        yield f"its draws are told to come from the seed {row.draw_seed}, and {wanted} is that of the input"


def seed_of(run: int, values: bytes) -> int:
    """The seed of the draws of an input: of the run's seed and the hash of its values."""
    parts = (f"int:{run}", "str:confirm", f"str:{sha256(values).hexdigest()}")
    return int(sha256("\x1f".join(parts).encode()).hexdigest()[:16], 16) >> 1
