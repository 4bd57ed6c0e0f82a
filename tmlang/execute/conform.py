"""What every method must hold to, whoever wrote it: the checks behind ``tmc backends test``.

Each method runs on a small network whose weights are drawn from a fixed seed, on inputs of the form that it asks for. A
check that fails is a defect; that none fails says that the method keeps the rules, not that it finds much.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from tmlang.backends.contract import BackendRefusal, Candidates, Certifier, Job, Search
from tmlang.backends.decision import Decision
from tmlang.backends.deployed import Deployed
from tmlang.backends.loading import load
from tmlang.backends.oracle import AccessDenied, Oracle
from tmlang.backends.threatset import ThreatSet
from tmlang.diagnostics.stop import Stop
from tmlang.execute.guard import guarded, random_states
from tmlang.meaning.models import Decide, Model, Network, Randomness
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Ball, Goal, Mutable, Threat
from tmlang.meaning.values import Call, Distance, Symbol, Value
from tmlang.plan.arguments import Resolution
from tmlang.plan.asked import misfits
from tmlang.plan.capability import ACCESS, RECEIVED, Argument, Capabilities, Method

UNITS = 4
SECONDS = 60
"""How long one call may take."""
RADII = {norm: Fraction(r) for norm, r in {"linf": "1/10", "l2": "1/2", "l2_rms": "1/10", "l1": "1"}.items()}
COUNTS = {"l0": Fraction(3), "pixels_changed": Fraction(3)}
"""Radii of the balls that are tried, in widths of the domain and in changes."""
_SHAPES = ((1, 6, 6), (3, 6, 6), (3, 32, 32))


@dataclass(frozen=True)
class Check:
    """One rule and one method: kept (``True``), broken (``False``), or not looked at (``None``) and why."""

    method: str
    rule: str
    kept: bool | None
    said: str = ""


class Broken(Exception):
    """A rule is broken; the message says how."""


@dataclass(frozen=True)
class Bench:
    """A model and units for one method. ``width``: of the domain, which radii are multiplied by."""

    row: Method
    adapter: Any
    space: Space
    spec: Model
    deployed: Deployed
    x: np.ndarray
    y: torch.Tensor
    width: Fraction

    def job(self, norm: str, *, seed: int = 0, times: Fraction | int = 1, **changes: Any) -> Job:
        """A job in a ball of ``norm``, ``times`` the usual radius. ``changes`` go to the threat, but ``level``,
        ``limit``, ``deadline`` and ``target``."""
        goal = Goal("class", target="1") if changes.get("target") is not None else Goal("untargeted")
        level, limit = changes.pop("level", "white_box"), changes.pop("limit", None)
        deadline, target = changes.pop("deadline", time.monotonic() + SECONDS), changes.pop("target", None)
        radius = (RADII[norm] * self.width if norm in RADII else COUNTS[norm]) * times
        ball = Ball(norm, self.space.name, radius)  # type: ignore[arg-type]
        plain = Threat("t", "net", "units", ball, None, Mutable("all"), goal, Access(level), "fail")
        threat = replace(plain, **changes)
        sets = ThreatSet.build(self.space, threat, self.x, ids=[f"u{i}" for i in range(len(self.x))])
        decide = Decision(self.spec)
        oracle = Oracle(
            self.deployed, decide, classes=len(self.spec.classes), level=level, units=len(self.x), limit=limit
        )
        seeds = tuple(seed + i for i in range(len(self.x)))
        x = torch.from_numpy(sets.originals.copy())
        job = Job(oracle, sets, threat, x, self.y, target, {}, seeds, deadline)
        return replace(job, arguments=self._arguments(threat))

    def _arguments(self, threat: Threat) -> dict[str, Value]:
        given = [(a.name, _some(a, self.space)) for a in self.row.arguments.values() if _required(a)]
        call = Call((self.row.backend, self.row.name), tuple(given))
        resolution = Resolution(self.row, call, threat, self.spec, self.space)
        arguments = dict(resolution.resolve())
        if resolution.diagnostics:
            raise Broken(f"its own defaults are refused: {resolution.diagnostics[0].message}")
        return arguments

    def search(self, job: Job) -> Candidates:
        with guarded(self.deployed, self.row.path):
            return cast(Search, self.adapter).search(job)

    @property
    def targets(self) -> torch.Tensor | None:
        """What a method is aimed at that cannot do without: the next class."""
        return None if "untargeted" in self.row.goals else (self.y + 1) % len(self.spec.classes)

    @property
    def norms(self) -> tuple[str, ...]:
        return tuple(n for n in (*RADII, *COUNTS) if n in self.row.norms)


def conform(row: Method, capabilities: Capabilities) -> Iterator[Check]:
    """Every check that suits ``row``, one after the other."""
    space = _fitting(row)
    if isinstance(space, str):
        yield Check(row.path, "runs", None, space)
        return
    try:
        adapter = load(row.backend, row.name, capabilities)
    except BackendRefusal as refusal:
        yield Check(row.path, "loads", False, str(refusal))
        return
    rules = _SEARCH if row.role == "attack" else _CERTIFY
    for rule, check in rules:
        try:
            told = check(_bench(row, adapter, space))
            yield Check(row.path, rule, None if told else True, told or "")
        except Broken as broken:
            yield Check(row.path, rule, False, str(broken))
        except Stop as stopped:
            yield Check(row.path, rule, False, stopped.diagnostics[0].message)
        except Exception as error:  # a method of others may raise whatever it likes, and the checks go on
            yield Check(row.path, rule, False, f"{type(error).__name__}: {error}")


def _fitting(row: Method) -> Space | str:
    """Inputs that suit a method, or why it is not put to the test."""
    if row.status != "available":
        return "it is described, not built"
    if row.role not in ("attack", "certify", "decide_exactly"):
        return f"there are no checks for methods behind `{row.role}:`"
    strange = [a.name for a in row.arguments.values() if _required(a) and a.type in ("file", "text", *RECEIVED)]
    if strange or "fixed" not in row.objects:
        return f"it needs {', '.join(strange) or 'an object that draws'}, and there is none here"
    if not {*RADII, *COUNTS} & set(row.norms):
        return f"there are no checks for {', '.join(row.norms)}"
    spaces = [_space(shape, bytes=row.input.bytes) for shape in _SHAPES]
    fitting = [space for space in spaces if not misfits(row.input, space)]
    return fitting[0] if fitting else "no input here has the form that it asks for"


def _space(shape: tuple[int, ...], *, bytes: bool) -> Space:
    whole = Cell("integer", Fraction(0), Fraction(255), Fraction(1))
    return Space("px", shape, (whole if bytes else Cell("real", Fraction(0), Fraction(1)),))


def _bench(row: Method, adapter: Any, space: Space) -> Bench:
    """A network of two layers, made afresh, and inputs that it decides itself."""
    count = max(4, row.min_classes)
    generator = torch.Generator().manual_seed(7)
    network = nn.Sequential(nn.Flatten(), nn.Linear(space.size, 24), nn.ReLU(), nn.Linear(24, count))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / max(parameter.shape) ** 0.5)
    network.eval().requires_grad_(False)
    classes = tuple(str(k) for k in range(count))
    decide = Decide("argmax", ties="lowest")
    spec = Model("net", "px", classes, (), Network("torch"), decide=decide, random=Randomness("never"))
    deployed = Deployed(spec, space, network, read=lambda _: b"")
    high = space.cells[0].high
    assert high is not None
    x = torch.rand((UNITS, *space.shape), generator=generator) * float(high)
    x = x.round() if high > 1 else x
    y = Decision(spec)(deployed(x))
    return Bench(row, adapter, space, spec, deployed, x.numpy(), y, high)


def _required(argument: Argument) -> bool:
    return argument.default is None and not argument.optional


def _some(argument: Argument, space: Space) -> Value:
    """A value for an argument that must be given."""
    if argument.type == "symbol":
        return Symbol(argument.choices[0])
    if argument.type == "bool":
        return False
    if argument.type == "distance":
        return Distance(Fraction(1, 20), space.name)
    return max(argument.low or Fraction(0), Fraction(3))


def _members(bench: Bench) -> str | None:
    for norm in bench.norms:
        job = bench.job(norm, target=bench.targets)
        _proper(bench.search(job), job)
    return None


def _proper(found: Candidates, job: Job) -> None:
    if found.x.shape != job.x.shape or found.x.dtype != job.x.dtype:
        raise Broken(f"candidates are {found.x.dtype} {tuple(found.x.shape)}, not {job.x.dtype} {tuple(job.x.shape)}")
    if len(found.offered) != len(job.x) or len(found.errors) != len(job.x):
        raise Broken("`offered` and `errors` have an entry for every unit")
    if any(found.errors):
        raise Broken(f"it gave up: {next(e for e in found.errors if e)}")
    if not torch.isfinite(found.x).all():
        raise Broken("a candidate is not finite")
    moved = (found.x != job.x).flatten(1).any(dim=1)
    if (found.offered & ~moved).any():
        raise Broken("an original is offered as a candidate")
    inside = job.sets.inside(found.x.detach().numpy())
    if not inside.all():
        outside = job.sets.member(found.x.detach().numpy())[int(np.flatnonzero(~inside)[0])]
        raise Broken(f"a candidate is not in {job.threat.allow.norm}: {outside.rule}")  # type: ignore[union-attr]


def _frozen(bench: Bench) -> str | None:
    if "mask" in bench.row.refused or not bench.row.carried("mask", bench.norms):
        return "it refuses masks"
    for norm in bench.norms:
        job = bench.job(norm, target=bench.targets, mutable=Mutable("rows", ranges=((0, 2),)))
        found = bench.search(job)
        if not torch.equal(found.x[..., 3:, :], job.x[..., 3:, :]):
            raise Broken("a coordinate moved that the threat does not let move")
    return None


def _seeds(bench: Bench) -> str | None:
    found = []
    with guarded(bench.deployed, bench.row.path):
        for state in range(2):
            torch.manual_seed(state)
            np.random.seed(state)
            random.seed(state)
            found.append(bench.search(bench.job(bench.norms[0], seed=5, target=bench.targets)).x)
    if not torch.equal(*found):
        raise Broken("equal seeds gave different candidates: draws must come from `job.seeds` alone")
    return None


def _states(bench: Bench) -> str | None:
    """The guard restores random states behind a stage, so they are compared within."""
    job = bench.job(bench.norms[0], target=bench.targets)
    before = random_states(), torch.is_grad_enabled()
    with guarded(bench.deployed, bench.row.path):
        cast(Search, bench.adapter).search(job)
        after = random_states(), torch.is_grad_enabled()
    if before != after:
        raise Broken("it left a global random state or a flag of torch otherwise than it was")
    if not torch.equal(job.x, torch.from_numpy(job.sets.originals)):
        raise Broken("it changed the originals")
    return None


def _access(bench: Bench) -> str | None:
    level = bench.row.access
    if level == "nothing":
        return "it asks the model nothing"
    below = ACCESS[ACCESS.index(level) - 1]
    try:
        bench.search(bench.job(bench.norms[0], level=below, target=bench.targets))
    except AccessDenied:
        return None
    raise Broken(f"its manifest says {level}, and it worked with {below}")


def _queries(bench: Bench) -> str | None:
    job = bench.job(bench.norms[0], limit=5, target=bench.targets)
    found = bench.search(job)
    if (job.oracle.queries > 5).any():
        raise Broken("it went beyond the limit of queries")
    _proper(found, job)
    return None


def _deadline(bench: Bench) -> str | None:
    if bench.row.access == "nothing":
        return "it asks the model nothing"
    found = bench.search(bench.job(bench.norms[0], deadline=time.monotonic() - 1, target=bench.targets))
    if not all(e == "timeout" or o for e, o in zip(found.errors, found.offered.tolist(), strict=True)):
        raise Broken("behind its deadline a unit without a candidate has the error `timeout`")
    return None


def _refusals(bench: Bench) -> str | None:
    refused = [n for n in (*RADII, *COUNTS) if n in bench.row.refused]
    for norm in refused:
        try:
            bench.search(bench.job(norm, target=bench.targets))
        except BackendRefusal:
            continue
        raise Broken(f"its manifest refuses {norm}, and it searched there")
    return None if refused else "its manifest refuses no kind of ball"


def _targeted(bench: Bench) -> str | None:
    target = (bench.y + 1) % len(bench.spec.classes)
    if "targeted" in bench.row.goals:
        job = bench.job(bench.norms[0], target=target)
        _proper(bench.search(job), job)
        return None
    try:
        bench.search(bench.job(bench.norms[0], target=target))
    except BackendRefusal:
        return None
    raise Broken("its manifest knows no target, and it went for one")


def _sound(bench: Bench) -> str | None:
    """Nothing certified may fall to a search of ours at any radius."""
    native = Capabilities().backend("native")
    assert native is not None
    rival = replace(bench, row=native.methods["pgd"], adapter=load("native", "pgd"))
    said: list[str] = []
    for norm in (n for n in bench.norms if n in rival.row.norms):
        for times in (Fraction(1, 100), Fraction(1), Fraction(4)):
            job = bench.job(norm, times=times)
            with guarded(bench.deployed, bench.row.path):
                verdicts = cast(Certifier, bench.adapter).certify(job)
            if len(verdicts.verdict) != UNITS:
                raise Broken("a verdict for every unit is needed")
            found = rival.search(rival.job(norm, times=times)).x
            fails = Decision(bench.spec)(bench.deployed(found)) != bench.y
            wrong = [i for i, v in enumerate(verdicts.verdict) if v == "certified" and fails[i]]
            if wrong:
                raise Broken(f"it certified a unit in {norm} that native.pgd breaks there")
            said += verdicts.verdict
    return None if "certified" in said else "it certified nothing here, so nothing could be wrong"


def _verdict(bench: Bench) -> str | None:
    with guarded(bench.deployed, bench.row.path):
        verdicts = cast(Certifier, bench.adapter).certify(bench.job(bench.norms[0]))
    if "error" in verdicts.verdict:
        raise Broken(f"it gave up: {next((m for m in verdicts.messages if m), 'without a word')}")
    return None


_Rules = Sequence[tuple[str, Callable[[Bench], str | None]]]
_SEARCH: _Rules = (
    ("every candidate is a member of its set", _members),
    ("what may not move does not move", _frozen),
    ("equal seeds give equal candidates", _seeds),
    ("random states, flags and originals stay as they are", _states),
    ("it needs the access that it says", _access),
    ("it keeps to a limit of queries", _queries),
    ("behind the deadline nothing counts as searched", _deadline),
    ("targets are gone for, or refused", _targeted),
    ("what the manifest refuses is refused", _refusals),
)
_CERTIFY: _Rules = (
    ("nothing that it certifies is broken by a search", _sound),
    ("it reaches a verdict on every unit", _verdict),
)
