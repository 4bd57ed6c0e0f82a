"""The rules that a corruption keeps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import cast

import numpy as np
import torch

from tmlang.backends.contract import Corruption
from tmlang.execute.conform.bench import Bench, Broken
from tmlang.execute.guard import guarded
from tmlang.meaning.threats import Shift
from tmlang.meaning.values import Call, Value
from tmlang.plan.written import written

_SEED = 5


def _strengths(bench: Bench) -> Iterator[dict[str, Value]]:
    """Its arguments as a plan hands them over, with each number that has two ends at both of them."""
    shift = Shift("s", "net", "units", (Call((bench.row.backend, bench.row.name)),), "wilson", Fraction(95, 100))
    ends = [a for a in bench.row.arguments.values() if a.low is not None and a.high is not None]
    yield bench.arguments(shift)
    for argument in ends:
        for end in (argument.low, argument.high):
            yield bench.arguments(shift, **{argument.name: end})


def _changed(bench: Bench, arguments: dict[str, Value], seed: int) -> np.ndarray:
    """Every unit, changed, from a seed of its own: (N, *shape)."""
    with guarded(bench.deployed, bench.row.path):
        return _change(bench, arguments, seed)


def _change(bench: Bench, arguments: dict[str, Value], seed: int) -> np.ndarray:
    domain = bench.job("anything").sets.domain
    rows = []
    for i, x in enumerate(bench.x.astype(domain.dtype)):
        given = x.copy()
        made = cast(Corruption, bench.adapter).change(given, domain, dict(arguments), seed + i)
        if not np.array_equal(given, x):
            raise Broken("it wrote into the input that it was given: make a copy")
        if not isinstance(made, np.ndarray) or made.shape != x.shape:
            shape = f"shape {made.shape}" if isinstance(made, np.ndarray) else type(made).__name__
            raise Broken(f"it made an input of {shape} of {x.shape}")
        if made.dtype != x.dtype:
            raise Broken(
                f"it made numbers of {made.dtype}, and the space has {x.dtype}: end with `.astype(x.dtype)`; "
                "numbers among `arguments` are Fractions, so begin with `float(…)`"
            )
        rows.append(made)
    return np.stack(rows)


def _inputs(bench: Bench) -> str | None:
    sets = bench.job("anything").sets
    moved = False
    for arguments in _strengths(bench):
        changed = _changed(bench, arguments, _SEED)
        for member in sets.member(changed):
            if not member.inside:
                raise Broken(f"what it makes with {_words(arguments)} is no input of the space: {member.rule}")
        moved = moved or not np.array_equal(changed, sets.originals)
    return None if moved else "it changed nothing here"


def _seeds(bench: Bench) -> str | None:
    arguments = next(_strengths(bench))
    found = []
    with guarded(bench.deployed, bench.row.path):
        for state in range(2):
            torch.manual_seed(state)
            np.random.seed(state)
            random.seed(state)
            found.append(_changed(bench, arguments, _SEED))
    first, second = found
    if not np.array_equal(first, second):
        raise Broken("equal seeds gave different inputs: draws must come from `seed` alone")
    if bench.row.draws == "none" and not np.array_equal(first, _changed(bench, arguments, _SEED + 100)):
        raise Broken("its manifest says that it draws nothing, and another seed gave another input")
    return None


def _states(bench: Bench) -> str | None:
    arguments = next(_strengths(bench))
    bench.watched(lambda: _change(bench, arguments, _SEED))
    return None


def _words(arguments: dict[str, Value]) -> str:
    return ", ".join(f"{name}: {written(value)}" for name, value in arguments.items()) or "no arguments"


RULES = (
    ("every changed input is an input of the space", _inputs),
    ("equal seeds give equal inputs", _seeds),
    ("random states, flags and originals stay as they are", _states),
)
