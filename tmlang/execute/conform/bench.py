"""What a method is put to the test on: a small network with weights from a fixed seed, inputs, sets, arguments."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import nn

from tmlang.backends.contract import Candidates, Job, Search
from tmlang.backends.decision import Decision
from tmlang.backends.deployed import Deployed
from tmlang.backends.oracle import Oracle
from tmlang.backends.threatset import ThreatSet
from tmlang.execute.guard import guarded, random_states
from tmlang.meaning.models import Decide, Model, Network, Randomness
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Allowed, Anything, Ball, Goal, Mutable, Patch, Threat, Transform
from tmlang.meaning.values import Call, Distance, Quantity, Symbol, Value
from tmlang.plan.arguments import Resolution
from tmlang.plan.asked import misfits
from tmlang.plan.capability import RECEIVED, Argument, Method

UNITS = 4
_DRAWN = 64
"""Inputs that they are chosen from."""
SECONDS = 60
"""How long one call may take."""
RADII = {norm: Fraction(r) for norm, r in {"linf": "1/10", "l2": "1/2", "l2_rms": "1/10", "l1": "1"}.items()}
COUNTS = {"l0": Fraction(3), "pixels_changed": Fraction(3)}
"""Radii of the balls that are tried, in widths of the domain and in changes."""
KINDS = (*RADII, *COUNTS, "patch", "transform", "anything")
"""The sets that are tried."""
_SIDE = 2
"""Of a patch."""
_NOBODYS = 0x7D1A5EED
"""A seed that no method happens to set: setting another one must show."""
_PARTS = {
    "rotate": (Fraction(60), "deg"),
    "translate": (Fraction(2), "px"),
    "scale": (Fraction(1, 5), None),
    "shear": (Fraction(10), "deg"),
    "brightness": (Fraction(1, 10), None),
    "contrast": (Fraction(1, 5), None),
}
"""How much of a transform is tried; where a manifest does not say which parts it searches, the first two."""
_SHAPES = ((1, 6, 6), (3, 6, 6), (3, 32, 32))

Given = TypeVar("Given")


class Broken(Exception):
    """A rule is broken; the message says how."""


class Unfinished(Exception):
    """The method was not done in time, so the rule says nothing about it; the message says so."""


@dataclass(frozen=True)
class Bench:
    """A model and units for one method. ``width``: of the domain, which radii are multiplied by. ``given``: arguments
    that are set, in the place of defaults."""

    row: Method
    adapter: Any
    space: Space
    spec: Model
    deployed: Deployed
    x: np.ndarray
    y: torch.Tensor
    width: Fraction
    given: Mapping[str, Value]

    def job(self, kind: str, *, seed: int = 0, times: Fraction | int = 1, **changes: Any) -> Job:
        """A job in a set of ``kind``, ``times`` the usual radius. ``changes`` go to the threat, but ``level``,
        ``limit``, ``deadline`` and ``target``."""
        goal = Goal("class", target="1") if changes.get("target") is not None else Goal("untargeted")
        level, limit = changes.pop("level", "white_box"), changes.pop("limit", None)
        deadline, target = changes.pop("deadline", time.monotonic() + SECONDS), changes.pop("target", None)
        allow = self._allowed(kind, times)
        plain = Threat("t", "net", "units", allow, None, Mutable("all"), goal, Access(level), "fail")
        threat = replace(plain, **changes)
        sets = ThreatSet.build(self.space, threat, self.x, ids=[f"u{i}" for i in range(len(self.x))])
        decide = Decision(self.spec)
        oracle = Oracle(
            self.deployed, decide, classes=len(self.spec.classes), level=level, units=len(self.x), limit=limit
        )
        seeds = tuple(seed + i for i in range(len(self.x)))
        x = torch.from_numpy(sets.originals.copy())
        job = Job(oracle, sets, threat, x, self.y, target, {}, seeds, deadline)
        return replace(job, arguments=self.arguments(threat))

    def _allowed(self, kind: str, times: Fraction | int) -> Allowed:
        if kind == "patch":
            return Patch("rectangle", _SIDE, _SIDE)
        if kind == "transform":
            known = [part for part in self.row.parts or tuple(_PARTS)[:2] if part in _PARTS]
            bounds = tuple((part, Quantity(*_PARTS[part])) for part in known)
            return Transform(bounds, "bilinear", Fraction(0))
        if kind == "anything":
            return Anything()
        radius = (RADII[kind] * self.width if kind in RADII else COUNTS[kind]) * times
        return Ball(kind, self.space.name, radius)  # type: ignore[arg-type]

    def arguments(self, subject: Any, **given: Value) -> dict[str, Value]:
        """What a plan would hand over: defaults, and something for whatever has none."""
        some = {a.name: _some(a, self.space) for a in self.row.arguments.values() if _required(a)}
        call = Call((self.row.backend, self.row.name), tuple({**some, **self.given, **given}.items()))
        resolution = Resolution(self.row, call, subject, self.spec, self.space)
        arguments = dict(resolution.resolve())
        if resolution.diagnostics:
            raise Broken(f"its own defaults are refused: {resolution.diagnostics[0].message}")
        return arguments

    def search(self, job: Job) -> Candidates:
        with guarded(self.deployed, self.row.path):
            return cast(Search, self.adapter).search(job)

    def watched(self, call: Callable[[], Given]) -> Given:
        """What ``call`` gives back. Raises :class:`Broken` where it leaves a random state or a flag otherwise, which
        the guard would put back behind a stage."""
        with guarded(self.deployed, self.row.path):
            random.seed(_NOBODYS)
            np.random.seed(_NOBODYS)
            torch.manual_seed(_NOBODYS)
            before = random_states(), torch.is_grad_enabled()
            found = call()
            after = random_states(), torch.is_grad_enabled()
        if before != after:
            raise Broken("it left a global random state or a flag of torch otherwise than it was")
        return found

    @property
    def targets(self) -> torch.Tensor | None:
        """What a method is aimed at that cannot do without: the next class."""
        return None if "untargeted" in self.row.goals else (self.y + 1) % len(self.spec.classes)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The sets that the method says it searches, of those that are tried."""
        return tuple(kind for kind in KINDS if kind in self.row.norms)

    def fails(self, x: np.ndarray, units: Sequence[int]) -> np.ndarray:
        """Which inputs (n, *shape) of ``units`` are decided otherwise than labelled, each alone: (n,) bool."""
        alone = [int(Decision(self.spec)(self.deployed(torch.from_numpy(row[None])))) for row in x]
        wrong: np.ndarray = np.array(alone, dtype=np.int64) != self.y.numpy()[list(units)]
        return wrong


def fitting(row: Method) -> Space | str:
    """Inputs that suit a method, or why it is not put to the test."""
    if row.status != "available":
        return "it is described, not built"
    strange = [a.name for a in row.arguments.values() if _required(a) and a.type in ("file", *RECEIVED)]
    if strange or "fixed" not in row.objects:
        return f"it needs {', '.join(strange) or 'an object that draws'}, and there is none here"
    if "torch" not in row.networks:
        return f"it needs a network that is {' or '.join(row.networks)}, and there is none here"
    if row.role != "corrupt" and not set(KINDS) & set(row.norms):
        return f"there are no checks for {', '.join(row.norms) or 'threats that minimize alone'}"
    spaces = [_space(shape, bytes=row.input.bytes) for shape in _SHAPES]
    found = [space for space in spaces if not misfits(row.input, space)]
    return found[0] if found else "no input here has the form that it asks for"


def _space(shape: tuple[int, ...], *, bytes: bool) -> Space:
    whole = Cell("integer", Fraction(0), Fraction(255), Fraction(1))
    return Space("px", shape, (whole if bytes else Cell("real", Fraction(0), Fraction(1)),))


def bench(row: Method, adapter: Any, space: Space, given: Mapping[str, Value], *, balanced: bool = True) -> Bench:
    """A network of two layers, made afresh, and inputs that it decides itself: of many the two that are decided most
    narrowly, which a weak search breaks as well, and the two that are decided most clearly. ``balanced``: no class is
    every input's."""
    count = max(4, row.min_classes)
    generator = torch.Generator().manual_seed(7)
    high = space.cells[0].high
    assert high is not None
    drawn = torch.rand((_DRAWN, *space.shape), generator=generator) * float(high)
    drawn = drawn.round() if space.cells[0].step else drawn
    network = nn.Sequential(nn.Flatten(), nn.Linear(space.size, 24), nn.ReLU(), nn.Linear(24, count))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / max(parameter.shape) ** 0.5)
        if balanced:
            cast(nn.Linear, network[-1]).bias.sub_(network(drawn).mean(dim=0))
    network.eval().requires_grad_(False)
    classes = tuple(str(k) for k in range(count))
    decide = Decide("argmax", ties="lowest")
    spec = Model("net", "px", classes, (), Network("torch"), decide=decide, random=Randomness("never"))
    deployed = Deployed(spec, space, network, read=lambda _: b"")
    best, second = deployed(drawn).topk(2, dim=1).values.unbind(dim=1)
    x = drawn[(best - second).argsort()[[0, 1, -2, -1]]]
    return Bench(row, adapter, space, spec, deployed, x.numpy(), Decision(spec)(deployed(x)), high, given)


def _required(argument: Argument) -> bool:
    return argument.default is None and not argument.optional


def _some(argument: Argument, space: Space) -> Value:
    """A value for an argument that must be given."""
    if argument.type == "symbol":
        return Symbol(argument.choices[0])
    if argument.type == "bool":
        return False
    if argument.type == "text":
        return "some"
    if argument.type == "distance":
        return Distance(Fraction(1, 20) * (space.cells[0].high or 1), space.name)
    if argument.low is not None and argument.high is not None:
        middle = (argument.low + argument.high) / 2
        return Fraction(floor(middle)) if argument.type == "int" else middle
    return max(argument.low or Fraction(0), Fraction(3)) if argument.high is None else argument.high
