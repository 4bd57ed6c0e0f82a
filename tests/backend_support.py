"""A model, a space, a threat and a batch of units, put together as the runner puts them: for tests of backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tmlang.backends.asserted import Asserted
from tmlang.backends.contract import Candidates, Job, Verdicts
from tmlang.backends.decision import Decision
from tmlang.backends.deployed import Deployed
from tmlang.backends.loading import load
from tmlang.backends.oracle import Oracle
from tmlang.backends.rounding import computed
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.models import Data, Decide, Model, Network, Randomness, Step, Truth
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Ball, Goal, Mutable, Patch, Threat, Transform
from tmlang.meaning.values import Artifact, Call, Quantity, Symbol, Value
from tmlang.plan.arguments import Resolution
from tmlang.plan.capability import Capabilities, Method

ROOT = Path(__file__).resolve().parent.parent


def unit_box(*shape: int, **changes: Any) -> Space:
    return replace(Space("px", shape, (Cell("real", Fraction(0), Fraction(1)),)), **changes)


def model(classes: int, steps: Sequence[Step] = (), **changes: Any) -> Model:
    plain = Model(
        name="net",
        space="px",
        classes=tuple(str(k) for k in range(classes)),
        steps=tuple(steps),
        network=Network("torch"),
        decide=Decide("argmax", ties="lowest"),
        random=Randomness("never"),
    )
    return replace(plain, **changes)


def threat(norm: str = "linf", radius: Fraction | str = Fraction(1, 20), **changes: Any) -> Threat:
    """Untargeted, white box, everything mutable, clean errors fail. A ``patch`` has the side ``radius`` (8 at most), a
    ``transform`` shifts by a pixel and turns by ``radius`` degrees."""
    ball = Ball(norm, "px", Fraction(radius))  # type: ignore[arg-type]
    side = min(int(Fraction(radius)), 8)
    parts = (("translate", Quantity(Fraction(1), "px")), ("rotate", Quantity(Fraction(radius), "deg")))
    turned = Transform(parts, "bilinear", Fraction(0))
    allow = {"patch": Patch("rectangle", side, side), "transform": turned}.get(norm, ball)
    plain = Threat("t", "net", "test", allow, None, Mutable("all"), Goal("untargeted"), Access("white_box"), "fail")
    return replace(plain, **changes)


class Case:
    """Units of one model. ``x`` (N, *shape) float originals, ``y`` labels."""

    def __init__(self, network: nn.Module, space: Space, spec: Model, x: np.ndarray, y: Sequence[int]) -> None:
        network.eval()
        for parameter in network.parameters():  # programs take no `requires_grad_` of their own
            parameter.requires_grad_(False)
        self.space, self.spec = space, spec
        self.deployed = Deployed(spec, space, network, read=lambda _: b"")
        self.decide = Decision(spec)
        self.x, self.y = x, torch.tensor(list(y))

    def job(
        self,
        threat: Threat,
        *,
        rows: slice = slice(None),
        seeds: int = 0,
        target: Sequence[int] | None = None,
        mask: np.ndarray | None = None,
        **changes: Any,
    ) -> Job:
        """``mask``: of a threat whose mutable part is one. ``limit`` and ``level`` go to the oracle, the rest to the
        job."""
        x, y = self.x[rows], self.y[rows]
        sets = ThreatSet.build(self.space, threat, x, ids=[f"u{i}" for i in range(len(x))], mask=mask)
        oracle = Oracle(
            self.deployed,
            self.decide,
            classes=len(self.spec.classes),
            level=changes.pop("level", threat.access.level),
            units=len(x),
            limit=changes.pop("limit", threat.access.queries),
        )
        plain = Job(
            oracle=oracle,
            sets=sets,
            threat=threat,
            x=torch.from_numpy(sets.originals.copy()),
            y=y,
            target=None if target is None else torch.tensor(list(target)),
            arguments={},
            seeds=tuple(seeds + i for i in range(len(x))),
        )
        return replace(plain, **changes)

    def decisions(self, x: torch.Tensor) -> torch.Tensor:
        """Row by row, as the reference evaluator does it."""
        with torch.no_grad():
            return torch.cat([self.decide(self.deployed(row[None])) for row in x])


def greatest_gap(network: nn.Module, low: torch.Tensor, high: torch.Tensor) -> float:
    """What a computed difference of any two scores may be off by in the boxes ``[low, high]``."""
    with torch.no_grad():
        found = computed(network, low, high, torch.float32)
    k = len((network.deployed if isinstance(network, Asserted) else network).lift.classes)  # type: ignore[union-attr, arg-type]
    unit = torch.eye(k, dtype=torch.float64)
    rows = torch.stack([unit[i] - unit[j] for i in range(k) for j in range(i)])
    return float(found.gaps(rows.expand(len(low), -1, -1)).max())


def method(path: str) -> Method:
    backend, name = path.split(".")
    found = Capabilities().backend(backend)
    assert found is not None
    row = found.method(name)
    assert row is not None
    return row


def resolved(path: str, job: Job, spec: Model, **given: Value) -> Mapping[str, Value]:
    """The arguments of a row as a plan resolves them: defaults where nothing is given, and what the job receives under
    the argument's own name."""
    given |= {name: Symbol(name) for name in job.received}
    call = Call(tuple(path.split(".")), tuple(given.items()))
    file = Artifact("data.npz")
    data = [Data(n, job.sets.space.name, Call(("npz",)), file, (), Truth("published")) for n in job.received]
    resolution = Resolution(method(path), call, job.threat, spec, job.sets.space, data, list(job.received))
    arguments = dict(resolution.resolve())
    assert not resolution.diagnostics, resolution.diagnostics
    return arguments


def search(path: str, case: Case, job: Job, **arguments: Value) -> Candidates:
    adapter: Any = load(*path.split("."))
    found: Candidates = adapter.search(replace(job, arguments=resolved(path, job, case.spec, **arguments)))
    return found


def certify(path: str, case: Case, job: Job, **arguments: Value) -> Verdicts:
    adapter: Any = load(*path.split("."))
    found: Verdicts = adapter.certify(replace(job, arguments=resolved(path, job, case.spec, **arguments)))
    return found


@lru_cache(maxsize=1)
def digits() -> Case:
    """The CNN of ``specs/digits`` on 24 of its test images."""
    import runpy

    from safetensors.torch import load_file

    folder = ROOT / "specs" / "digits"
    network = runpy.run_path(str(folder / "digits.py"))["small_cnn"]()
    network.load_state_dict(load_file(folder / "digits.safetensors"))
    with np.load(folder / "digits.npz") as data:
        images, labels = data["images"], data["labels"]
    ids = [int(line) for line in (folder / "test_ids.txt").read_text().split()][:24]
    x = (images[ids].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    return Case(network, unit_box(1, 8, 8), model(10), x, labels[ids].tolist())


@lru_cache(maxsize=2)
def colours(width: int = 6) -> Case:
    """A small network on 3x8x6 pictures in [0, 255], normalized per channel, with batch normalization and dropout; its
    labels are its own decisions."""
    torch.manual_seed(5)
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(6 * 8 * width, 5),
    )
    with torch.no_grad():
        network[1].running_mean.uniform_(-0.2, 0.2)
        network[1].running_var.uniform_(0.5, 2)
    means = tuple(Fraction(m) for m in ("120", "110", "100"))
    step = Step("normalize", (("mean", means), ("std", (Fraction(60), Fraction(61), Fraction(62)))))
    space = unit_box(3, 8, width, cells=(Cell("real", Fraction(0), Fraction(255)),))
    x = np.random.default_rng(3).uniform(0, 255, (10, 3, 8, width)).astype(np.float32)
    x[0, 0, 0, :2] = (0, 255)
    case = Case(network, space, model(5, [step]), x, [0] * 10)
    case.y = case.decisions(torch.from_numpy(x))
    return case
