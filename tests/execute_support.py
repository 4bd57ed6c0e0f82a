"""A tiny run by hand: two numbers in [0, 1], a linear score, and adapters that do what a test wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tmlang.audit.record import Record
from tmlang.backends.contract import Candidates, Job, Verdicts
from tmlang.execute import calls, runner
from tmlang.execute.runner import RunOptions, RunResult
from tmlang.execute.workers import Limits
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.models import Data, Decide, Model, Network, Randomness, Truth
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Ball, Goal, Mutable, Threat
from tmlang.meaning.values import Artifact, Call
from tmlang.plan.ir import EvaluationPlan, Plan, Stage
from tmlang.plan.passes import run_passes

F = Fraction
SPACE = Space("pair", (2,), (Cell("real", F(0), F(1)),))
LATTICE = replace(SPACE, cells=(Cell("lattice", F(0), F(1), F(1, 8)),))
# score = a + b; class "hi" from 1 on.
MODEL = Model(
    "sum",
    "pair",
    ("lo", "hi"),
    (),
    Network("linear", args=(("weights", (F(1), F(1))), ("bias", F(0)))),
    Decide("threshold", op=">=", value=F(1), positive="hi", negative="lo"),
    Randomness("never"),
)
# Three classes by the greatest of (a, b, 1/2).
THREE = replace(
    MODEL,
    classes=("a", "b", "half"),
    network=Network(
        "linear", args=(("weights", ((F(1), F(0)), (F(0), F(1)), (F(0), F(0)))), ("bias", (F(0), F(0), F(1, 2))))
    ),
    decide=Decide("argmax", "lowest"),
)
THREAT = Threat(
    "near", "sum", "rows", Ball("linf", "pair", F(1, 8)), None, Mutable("all"), Goal("untargeted"),
    Access("white_box"), "fail",
)  # fmt: skip


def stage(label: str, role: str = "attack", **changes: Any) -> Stage:
    evidence = "witness" if role == "attack" else "bound"
    made = Stage(f"e/{label}", label, role, "toy", label, evidence, "exact", "white_box", ())  # type: ignore[arg-type]
    return replace(made, **changes)


def data(folder: Path, x: Sequence[Sequence[float]], labels: Sequence[int]) -> Data:
    np.savez(folder / "rows.npz", x=np.array(x, np.float32), y=np.array(labels))
    read = Call(("npz",), (("", Artifact("rows.npz")), ("inputs", "x"), ("labels", "y")))
    return Data("rows", "pair", read, Artifact("rows.npz"), (), Truth("published", "by hand"))


def plan(folder: Path, rows: Data, stages: Sequence[Stage], **changes: Any) -> Plan:
    """``threat``, ``model``, ``space``, ``claims`` and fields of the evaluation can be replaced."""
    threat = changes.pop("threat", THREAT)
    model = changes.pop("model", MODEL)
    space = changes.pop("space", SPACE)
    claims = changes.pop("claims", (Claim("c", Measured("survival", "e"), ">=", F(1, 2)),))
    evaluation = EvaluationPlan("e", "near", tuple(stages), changes.pop("seed", 0), **changes)
    made = Plan(1, (), (space,), (model,), (rows,), (threat,), (evaluation,), claims, root=str(folder))
    return run_passes(made)


class Toy:
    """An attack or a prover that calls ``act`` on every job and keeps the jobs."""

    def __init__(self, act: Callable[[Job], Any]) -> None:
        self.act = act
        self.jobs: list[Job] = []

    def search(self, job: Job) -> Candidates:
        self.jobs.append(job)
        found: Candidates = self.act(job)
        return found

    def certify(self, job: Job) -> Verdicts:
        self.jobs.append(job)
        found: Verdicts = self.act(job)
        return found


def moved(by: Sequence[float]) -> Callable[[Job], Candidates]:
    """Every unit is offered its original plus ``by``."""

    def act(job: Job) -> Candidates:
        return offer(job.x + torch.tensor(list(by)))

    return act


def offer(x: torch.Tensor) -> Candidates:
    return Candidates(x, torch.ones(len(x), dtype=torch.bool), (None,) * len(x))


def verdicts(*said: str, margin: float = 1.0, candidates: Callable[[Job], Candidates] | None = None) -> Any:
    """The same verdict for every unit, or one each."""

    def act(job: Job) -> Verdicts:
        n = len(job.x)
        each = tuple(said) if len(said) == n else tuple(said[:1]) * n
        found = candidates(job) if candidates else None
        return Verdicts(each, torch.full((n,), margin), 0.0, "proved", found)  # type: ignore[arg-type]

    return act


UNITS = calls.UNITS


class Runs:
    """Runs plans with adapters given by stage label."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.toys: dict[str, Toy] = {}
        monkeypatch.setattr(runner, "load", lambda _, method, __: self.toys[method])

    def __call__(
        self,
        made: Plan,
        out: str = "out",
        options: RunOptions = RunOptions(),  # noqa: B008
        batch: int | None = None,
        limits: Limits = Limits(),  # noqa: B008
        **acts: Callable[[Job], Any],
    ) -> RunResult:
        """``batch``: units of a call."""
        self.toys |= {label: Toy(act) for label, act in acts.items()}
        self.monkeypatch.setattr(calls, "UNITS", batch or UNITS)
        return runner.run(made, replace(options, out=self.folder / out, limits=limits))

    def rows(self, out: str = "out") -> list[Record]:
        from tmlang.audit.bundle import Bundle

        return Bundle.open(self.folder / out, sealed=False).records()

    def row(self, unit: str, stage: str, out: str = "out") -> Record:
        """The last row of a unit in a stage."""
        return [r for r in self.rows(out) if (r.unit, r.stage) == (unit, stage)][-1]
