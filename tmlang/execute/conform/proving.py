"""The rules that a certifier, a solver and an enumeration keep."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import torch

from tmlang.backends.contract import BackendRefusal, Certifier, Job, Verdicts
from tmlang.backends.decision import Decision
from tmlang.backends.loading import load
from tmlang.execute.conform.bench import COUNTS, RADII, UNITS, Bench, Broken, bench
from tmlang.execute.conform.searching import proper
from tmlang.execute.guard import guarded
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Anything, Ball, Patch, Transform
from tmlang.meaning.values import Quantity
from tmlang.plan.capability import Capabilities

_SWITCHES = Space("px", (1, 2, 3), (Cell("integer", Fraction(0), Fraction(1), Fraction(1)),))
"""Six coordinates of two values each: 64 inputs, all of which can be listed without asking anybody."""
_SMALL = {
    "linf": Fraction(1),
    "l2": Fraction(3, 2),
    "l2_rms": Fraction(3, 5),
    "l1": Fraction(2),
    "l0": Fraction(2),
    "pixels_changed": Fraction(2),
}
"""Radii over them that leave some inputs out."""


def _certify(bench: Bench, job: Job) -> Verdicts:
    with guarded(bench.deployed, bench.row.path):
        verdicts = cast(Certifier, bench.adapter).certify(job)
    if len(verdicts.verdict) != len(job.x) or len(verdicts.margin) != len(job.x):
        raise Broken("a verdict and a margin for every unit are needed")
    return verdicts


def _sound(bench: Bench) -> str | None:
    """Nothing certified may fall to a search of ours at any radius."""
    native = Capabilities().backend("native")
    assert native is not None
    rival = replace(bench, row=native.methods["pgd"], adapter=load("native", "pgd"), given={})
    said: list[str] = []
    for norm in (n for n in (*RADII, *COUNTS) if n in bench.row.norms):
        for times in (Fraction(1, 100), Fraction(1), Fraction(4)):
            verdicts = _certify(bench, bench.job(norm, times=times))
            found = rival.search(rival.job(norm, times=times)).x
            fails = Decision(bench.spec)(bench.deployed(found)) != bench.y
            wrong = [i for i, v in enumerate(verdicts.verdict) if v == "certified" and fails[i]]
            if wrong:
                raise Broken(f"it certified a unit in {norm} that native.pgd breaks there")
            said += verdicts.verdict
    return None if "certified" in said else "it certified nothing here, so nothing could be wrong"


def _verdict(bench: Bench) -> str | None:
    verdicts = _certify(bench, bench.job(bench.kinds[0]))
    if "error" in verdicts.verdict:
        raise Broken(f"it gave up: {next((m for m in verdicts.messages if m), 'without a word')}")
    return None


def _repeats(bench: Bench) -> str | None:
    job = bench.job(bench.kinds[0])
    _same(bench, job)
    if not torch.equal(job.x, torch.from_numpy(job.sets.originals)):
        raise Broken("it changed the originals")
    return None


def _same(bench: Bench, job: Job) -> None:
    adapter = cast(Certifier, bench.adapter)
    first, second = (bench.watched(lambda: adapter.certify(job)) for _ in range(2))
    if first.verdict != second.verdict or first.sizes != second.sizes:
        raise Broken("asked twice, it gave different verdicts")


@dataclass(frozen=True)
class _Listed:
    """A job whose sets are finite, and of every unit all members, worked out here: inputs (n, *shape) and which of them
    fail, each decided alone (n,)."""

    job: Job
    bench: Bench
    members: tuple[tuple[np.ndarray, np.ndarray], ...]


def _listed(given: Bench) -> Iterator[_Listed]:
    """One for each kind of finite set that the method enumerates."""
    small = bench(given.row, given.adapter, _SWITCHES, given.given, balanced=False)  # so that some sets hold no failure
    for kind in given.kinds:
        if kind == "transform":
            yield _pictures(given)
            continue
        allow = {"patch": Patch("rectangle", 1, 2), "anything": Anything()}.get(kind)
        ball = allow or Ball(kind, "px", _SMALL[kind])  # type: ignore[arg-type]
        job = small.job(kind, allow=ball)
        every = np.array(list(product((0.0, 1.0), repeat=6)), np.float32).reshape(-1, 1, 2, 3)
        members = []
        for unit in range(UNITS):
            one = job.sets.rows([unit] * len(every))
            inside = every[one.inside(every.astype(job.sets.domain.dtype))]
            members.append((inside, small.fails(inside, [unit] * len(inside))))
        yield _Listed(job, small, tuple(members))


def _pictures(given: Bench) -> _Listed:
    """Shifts by whole pixels: nine pictures of each input, by slices."""
    shift = Transform((("translate", Quantity(Fraction(1), "px")),), "nearest", Fraction(0), (Fraction(1),))
    job = given.job("transform", allow=shift)
    height, width = given.space.shape[-2:]
    wider = np.pad(given.x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    shifted = [wider[:, :, r : r + height, c : c + width] for r in range(3) for c in range(3)]
    members = []
    for unit in range(UNITS):
        made = np.unique(np.stack([x[unit] for x in shifted]), axis=0)
        members.append((made, given.fails(made, [unit] * len(made))))
    return _Listed(job, given, tuple(members))


def _answers(given: Bench) -> str | None:
    """The truth is worked out without the method: each input of the space, asked whether it is a member and decided."""
    said: set[str] = set()
    for listed in _listed(given):
        verdicts = _certify(listed.bench, listed.job)
        for unit, (members, fails) in enumerate(listed.members):
            word = verdicts.verdict[unit]
            said.add(word)
            if word in ("certified", "broken") and (word == "broken") != bool(fails.any()):
                raise Broken(f"of {len(members)} inputs {int(fails.sum())} fail, and it says `{word}`")
            size = verdicts.sizes[unit] if verdicts.sizes else 0  # nought where boxes were proved instead of listed
            if size not in (0, len(members)):
                raise Broken(f"a set has {len(members)} inputs, and `sizes` says {size}")
    if not said & {"certified", "broken"}:
        return "it decided nothing here, so nothing could be wrong"
    return None


def _shown(given: Bench) -> str | None:
    """What is broken comes with an input of the set that fails."""
    some = False
    for listed in _listed(given):
        verdicts = _certify(listed.bench, listed.job)
        broken = [i for i, word in enumerate(verdicts.verdict) if word == "broken"]
        if not broken:
            continue
        some, found = True, verdicts.candidates
        if found is None or not all(bool(found.offered[i]) for i in broken):
            raise Broken("it says `broken` of a unit, and offers no input in `candidates`")
        proper(found, listed.job)
        if not listed.bench.fails(found.x.numpy()[broken], broken).all():
            raise Broken("the input that it offers of a broken unit does not fail")
    return None if some else "nothing was broken here"


def _endless(given: Bench) -> str | None:
    """A set of real numbers is not to be listed."""
    kind = next((k for k in given.kinds if k in RADII or k == "anything"), None)
    if kind is None or given.space.cells[0].step is not None:
        return "the sets that it enumerates are finite here"
    try:
        verdicts = _certify(given, given.job(kind))
    except BackendRefusal:
        return None
    if "certified" in verdicts.verdict:
        raise Broken("it certified a set of real numbers, which nobody can list")
    return None


def _twice(given: Bench) -> str | None:
    listed = next(_listed(given))
    _same(listed.bench, listed.job)
    return None


def _late(given: Bench) -> str | None:
    listed = next(_listed(given))
    verdicts = _certify(listed.bench, replace(listed.job, deadline=time.monotonic() - 1))
    if "certified" in verdicts.verdict:
        raise Broken("it certified behind its deadline, before it could look at an input")
    return None


_TWICE = "asked twice it says the same, and random states and flags stay as they are"
CERTIFIER_RULES = (
    ("nothing that it certifies is broken by a search", _sound),
    ("it reaches a verdict on every unit", _verdict),
    (_TWICE, _repeats),
)
ENUMERATION_RULES = (
    ("its verdict is that of every input of the set, each decided alone", _answers),
    ("what it calls broken it shows", _shown),
    ("what cannot be listed is not certified", _endless),
    (_TWICE, _twice),
    ("behind the deadline nothing is certified", _late),
)
