"""What every method that proves says of needles and float traps, held to inputs that are known to fail."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import torch
from backend_support import method, resolved
from needles import Trap, Truth, trap, truth_of, wrong_ones

from tmlang.backends import probing, pruning, splitting
from tmlang.backends.asserted import Asserted, asserted_model, threat_of
from tmlang.backends.contract import BackendRefusal, Job, Verdicts
from tmlang.backends.decision import Decision
from tmlang.backends.loading import load
from tmlang.backends.oracle import Oracle
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball, Property
from tmlang.meaning.values import Quantity, Symbol

BOUNDS = tuple(
    f"auto_lirpa.{name}" for name in ("crown", "crown_ibp", "ibp", "forward", "forward_backward", "alpha_crown")
)
COMPLETE = ("auto_lirpa.split", "marabou.query")
FINITE = ("auto_lirpa.enumerate", "native.enumerate")
METHODS = (*BOUNDS, *COMPLETE, *FINITE)
PROPERTY = " on a property"
SECONDS = Fraction(5)
"""What a method that decides has for one unit, by a clock of its own (:class:`Ticks`) where boxes are split: how far
that comes must not hang on how busy the machine is."""
PIECES = 32
DRAWS, STARTS, STEPS = 8, 2, 2
"""Of the search in front of every proof: what it finds is never bounded, and here it is the bounds that are asked."""
SOLVED = 8
"""The solver is asked about one seed in so many: its word is taken, and proves nothing."""


@dataclass(frozen=True)
class Question:
    """A job, and what is known of its units: those with a failing input, and those that were looked at whole without
    one."""

    seed: int
    kind: str
    job: Job
    failing: set[int]
    safe: set[int]


@dataclass
class Row:
    """What one method came to: units that it was asked about, and those of them that fail; certificates, and those of
    units that fail; ``safe`` units, and those ``proved``; the same of certificates that do not enter ``certified``
    (``beside``); units that it refused, with the reasons; seconds of CPU."""

    units: int = 0
    failing: int = 0
    certified: int = 0
    false: int = 0
    safe: int = 0
    proved: int = 0
    beside: int = 0
    beside_false: int = 0
    refused: int = 0
    seconds: float = 0.0
    why: Counter[str] = field(default_factory=Counter)

    def add(self, asked: Question, certified: set[int], *, counts: bool) -> set[int]:
        """The units that are certified and fail, where certificates count."""
        false = certified & asked.failing
        if not counts:
            self.beside += len(certified)
            self.beside_false += len(false)
            return set()
        self.certified += len(certified)
        self.false += len(false)
        self.proved += len(certified & asked.safe)
        return false


def check(
    seed: int, rounding: str | None = None, rows: dict[str, Row] | None = None, paths: Sequence[str] = METHODS
) -> list[str]:
    """The false certificates of one seed, each in a line. ``rounding``: as a spec writes it, ``None`` for the default;
    ``rows``, by method, are added to."""
    found, told = trap(seed), {} if rows is None else rows
    truth, paths = truth_of(found), [path for path in paths if _applies(path, found)]
    whole = Question(seed, found.kind, found.job, set(truth.failing), truth.listed - set(truth.failing))
    faults = list(_asked(whole, paths, "", rounding, told))
    if seed % 3 == 0 and (about := _property(found, truth)) is not None:
        faults += _asked(about, [path for path in paths if path in COMPLETE], PROPERTY, rounding, told)
    return faults


def _asked(
    asked: Question, paths: Sequence[str], beside: str, rounding: str | None, rows: dict[str, Row]
) -> Iterator[str]:
    for path in paths:
        row, began = rows.setdefault(path + beside, Row()), time.process_time()
        units = len(asked.job.x)
        try:
            answer = _answer(path, asked.job, rounding)
        except BackendRefusal as refusal:
            row.refused += units
            row.why[str(refusal)] += 1
            certified, counts = set[int](), True
        else:
            certified, counts = {i for i, w in enumerate(answer.verdict) if w == "certified"}, _counts(path, answer)
        row.seconds += time.process_time() - began
        row.units += units
        row.failing += len(asked.failing)
        row.safe += len(asked.safe)
        for unit in sorted(row.add(asked, certified, counts=counts)):
            yield f"{path}{beside}: seed {asked.seed}, unit {unit}: {asked.kind}"


class Ticks:
    """A clock that goes on by a second whenever it is asked: a search has :data:`SECONDS` rounds."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic(self) -> int:
        self.now += 1
        return self.now


def _answer(path: str, job: Job, rounding: str | None) -> Verdicts:
    adapter: Any = load(*path.split("."))
    less: dict[Any, dict[str, Any]] = {splitting: {"PIECES": PIECES, "time": Ticks()}, pruning: {"time": Ticks()}}
    less[probing] = {"DRAWS": DRAWS, "STARTS": STARTS, "STEPS": STEPS}
    with ExitStack() as held:
        for module, values in less.items():
            held.enter_context(mock.patch.multiple(module, **values))
        answer: Verdicts = adapter.certify(replace(job, arguments=_arguments(path, rounding)))
    return answer


def _applies(path: str, found: Trap) -> bool:
    """Whether a plan would ask the method about such sets."""
    if path == "marabou.query" and found.seed // 16 % SOLVED:
        return False
    if path in FINITE:
        return found.job.sets.space.is_lattice
    ball = found.job.threat.allow
    return path not in COMPLETE or not isinstance(ball, Ball) or ball.norm == "linf"


@cache
def _arguments(path: str, rounding: str | None) -> Mapping[str, Any]:
    """They are the same for all nets."""
    found = trap(0)
    given: dict[str, Any] = {} if rounding is None or path == "native.enumerate" else {"rounding": Symbol(rounding)}
    if path == "auto_lirpa.alpha_crown":
        given["iteration"] = Fraction(3)
    made = dict(resolved(path, found.job, found.case.spec, **given))
    return made | ({"timeout": Quantity(SECONDS, "s")} if "timeout" in made else {})


def _counts(path: str, answer: Verdicts) -> bool:
    """Whether certificates of this answer enter ``certified``, resting on nothing assumed and on no solver's word."""
    return answer.gap_kind == "proved" and method(path).evidence != "trusted"


def _property(found: Trap, truth: Truth) -> Question | None:
    """That the score of the label is the greater one on the box of the first unit; ``None`` behind a threshold, on a
    lattice, and where nothing moves."""
    case, job = found.case, found.job
    if case.spec.decide.rule != "argmax" or job.sets.space.is_lattice:
        return None
    low, high = (side[0].reshape(-1).tolist() for side in (job.sets.lower, job.sets.upper))
    if low == high:
        return None
    cells = tuple(Cell("real", Fraction(a), Fraction(b)) for a, b in zip(low, high, strict=True))
    space = replace(job.sets.space, cells=cells, layout="each", originals="exempt")
    label = int(job.y[0])
    subject = Property("p", "net", (), ((str(label), ">", Symbol(str(1 - label))),))  # type: ignore[arg-type]
    network, decide = Asserted(case.deployed, case.decide, subject), Decision(asserted_model(case.spec))
    x, y = job.x[:1], torch.zeros(1, dtype=torch.int64)
    threat = threat_of(subject)
    sets = ThreatSet.build(space, threat, x.numpy(), ids=("box",))
    oracle = Oracle(network, decide, classes=2, level="white_box", units=1)
    seen = torch.from_numpy(truth.seen[0])
    wrong = wrong_ones(network, decide, seen, y.expand(len(seen)), np.zeros(len(seen), np.int64))
    about = Job(oracle, sets, threat, x, y, None, {}, job.seeds[:1])
    # Of a ball in another norm the corners of the box were not looked at.
    whole = 0 in truth.listed and isinstance(job.threat.allow, Ball) and job.threat.allow.norm == "linf"
    return Question(found.seed, found.kind, about, {0} if wrong else set(), {0} if whole and not wrong else set())


HEAD = (
    "method", "units", "failing", "certified", "false", "of safe ones proved", "beside", "false", "refused", "ms a unit"
)  # fmt: skip


def table(rows: Mapping[str, Row]) -> str:
    """Markdown."""
    lines = [HEAD, ("---",) * len(HEAD)]
    for path, r in rows.items():
        share = f"{r.proved:,} of {r.safe:,}"
        counts = (r.units, r.failing, r.certified, r.false)
        rest = (f"{n:,}" for n in (r.beside, r.beside_false, r.refused))
        cost = f"{1000 * r.seconds / max(1, r.units):.1f}"
        lines.append((f"`{path}`", *(f"{n:,}" for n in counts), share, *rest, cost))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
