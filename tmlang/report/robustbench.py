"""An entry for the leaderboard RobustBench (Croce et al., NeurIPS 2021 Datasets and Benchmarks): their keys, threats,
and number of images; anything else is refused, with every reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tmlang.audit.bundle import Bundle
from tmlang.audit.columns import Column, Columns
from tmlang.audit.tally import tally_plan
from tmlang.diagnostics.stop import stop
from tmlang.meaning.threats import Ball, Subject, Threat
from tmlang.plan.ir import EvaluationPlan, Plan, Stage
from tmlang.plan.written import number
from tmlang.report.claims import statement_hash

_SUITE = {
    "apgd": {"steps": 100, "restarts": 1},
    "apgd_targeted": {"steps": 100, "restarts": 1, "targets": 9},
    "fab_targeted": {"steps": 100, "restarts": 1, "targets": 9},
    "square": {"queries": 5000, "restarts": 1, "schedule": 10_000},
}
"""The standard suite of AutoAttack as ``std.suites`` spells it out: a suite of the same name may be another one."""


@dataclass(frozen=True)
class Board:
    """One leaderboard: ``title`` finds its name in what `truth:` says of the labels."""

    dataset: str
    title: str
    norm: str
    radius: Fraction
    shape: tuple[int, ...]
    classes: int
    images: int


_CIFAR, _IMAGENET = (3, 32, 32), (3, 224, 224)
BOARDS = (
    Board("cifar10", r"cifar[- ]?10\b", "linf", Fraction(8, 255), _CIFAR, 10, 10_000),
    Board("cifar10", r"cifar[- ]?10\b", "l2", Fraction(1, 2), _CIFAR, 10, 10_000),
    Board("cifar100", r"cifar[- ]?100\b", "linf", Fraction(8, 255), _CIFAR, 100, 10_000),
    Board("imagenet", r"imagenet\b", "linf", Fraction(4, 255), _IMAGENET, 1000, 5_000),
)
_TO_FILL = ("link", "name", "authors", "venue", "architecture", "additional_data", "number_forward_passes", "reported")
"""What no run can know: ``null``, to be filled in by the author."""


def entries(bundle: Bundle) -> bytes:
    """Evaluation -> entry, as JSON to be filled in. Raises a ``Stop`` (TM884) when no evaluation is one of theirs."""
    plan = bundle.plan()
    columns = tally_plan(plan, bundle.records())
    found, notes = {}, []
    for evaluation in plan.evaluations:
        subject = plan.subject(evaluation.subject)
        board = _board(plan, subject)
        reasons = [*_other_threat(plan, subject, board), *_other_run(evaluation, columns[evaluation.name], board)]
        notes += [f"{evaluation.name}: {reason}" for reason in reasons]
        if board is not None and not reasons:
            found[evaluation.name] = _entry(board, columns[evaluation.name], statement_hash(bundle))
    if not found:
        help = "docs/papers.md says what RobustBench lists; claims.json holds what this bundle says (--format claims)"
        raise stop("TM884", "no evaluation is of a kind that RobustBench lists", notes=tuple(notes), help=help)
    return (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _board(plan: Plan, subject: Subject) -> Board | None:
    """The leaderboard of the same data and norm, if any."""
    if not isinstance(subject, Threat) or not isinstance(subject.allow, Ball):
        return None
    told = plan.data_set(subject.data).truth.text or ""
    norm = subject.allow.norm
    return next((b for b in BOARDS if norm == b.norm and re.search(b.title, told, re.IGNORECASE)), None)


def _other_threat(plan: Plan, subject: Subject, board: Board | None) -> Iterator[str]:
    """What makes the threat another one than theirs."""
    if board is None:
        yield "no leaderboard has this norm and these labels (`truth: published` names CIFAR-10, CIFAR-100 or ImageNet)"
        return
    assert isinstance(subject, Threat)
    assert isinstance(subject.allow, Ball)
    model = plan.model(subject.model)
    space = plan.space(model.space)
    ball = subject.allow
    if ball.radius != board.radius or ball.tolerance or ball.per is not None:
        yield f"theirs is the ball of radius {number(board.radius)} in {board.norm}, without a tolerance"
    unit = {(c.kind, c.low, c.high) for c in space.cells} == {("real", Fraction(0), Fraction(1))}
    if space.shape != board.shape or not unit or space.relations or space.delivery is not None:
        yield f"their inputs are all pictures of {' × '.join(map(str, board.shape))} real values from 0 to 1"
    if len(model.classes) != board.classes:
        yield f"their data has {board.classes} classes"
    if subject.mutable.kind != "all" or subject.perturbation != "per_example" or subject.nature is not None:
        yield "theirs changes every coordinate, for each example on its own"
    if subject.goal.kind != "untargeted" or subject.access.level != "white_box" or subject.access.queries is not None:
        yield "theirs is untargeted, white box, without a limit on queries"
    if subject.clean_errors != "fail":
        yield "theirs counts clean errors as failures"
    if model.reject or model.random.kind != "never":
        yield "theirs is a deterministic object that never rejects"


def _other_run(evaluation: EvaluationPlan, columns: Columns, board: Board | None) -> Iterator[str]:
    """What makes the number another one than theirs."""
    searched = [s for s in evaluation.stages if s.role == "attack"]
    if len(searched) != len(_SUITE) or {s.method for s in searched if _published(s)} != _SUITE.keys():
        yield "their number is that of AutoAttack: `suite: autoattack_standard(…)` of std.suites, and no other attack"
    if any(s.role in ("decide_exactly", "enumerate") for s in evaluation.stages):
        yield "a solver or an enumeration breaks more than AutoAttack does"
    if board is not None and columns.counts.denominator != board.images:
        yield f"they count {board.images} images, and this run counted {columns.counts.denominator}"
    for name in ("clean_accuracy", "survival"):
        column = columns.get(name)
        if column is None or column.low is None or column.low != column.high:
            yield f"{name.replace('_', ' ')} is no single number: something did not finish"


def _published(stage: Stage) -> bool:
    """Whether a stage is one of the suite's, with the published settings."""
    arguments = dict(stage.arguments)
    wanted = _SUITE.get(stage.method, {}) if stage.backend == "native" else {}
    return bool(wanted) and all(arguments.get(name) == value for name, value in wanted.items())


def _entry(board: Board, columns: Columns, statement: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(_TO_FILL),
        "dataset": board.dataset,
        "eps": number(board.radius),
        "clean_acc": _percent(columns.get("clean_accuracy")),
        "autoattack_acc": _percent(columns.get("survival")),
        "footnote": f"Measured by tmlang's own implementation of the four attacks; evidence sha256 {statement}.",
        "unreliable": None,
    }


def _percent(column: Column | None) -> str:
    """As they write it: two digits behind the point."""
    assert column is not None
    assert column.low is not None
    return f"{round(Fraction(column.low) * 10_000) / 100:.2f}"
