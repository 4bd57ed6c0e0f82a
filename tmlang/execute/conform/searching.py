"""The rules that an attack keeps."""

from __future__ import annotations

import random
import time
from typing import cast

import numpy as np
import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job, Search
from tmlang.backends.oracle import AccessDenied
from tmlang.execute.conform.bench import COUNTS, RADII, SECONDS, Bench, Broken, Unfinished
from tmlang.execute.guard import guarded
from tmlang.meaning.threats import Mutable
from tmlang.plan.capability import ACCESS
from tmlang.plan.written import allowed


def _members(bench: Bench) -> str | None:
    offered = False
    for kind in bench.kinds:
        job = bench.job(kind, target=bench.targets)
        found = bench.search(job)
        proper(found, job)
        offered = offered or bool(found.offered.any())
    return None if offered else "it offered nothing here, so nothing could be wrong"


def proper(found: Candidates, job: Job) -> None:
    """Raises :class:`Broken` unless ``found`` has the form that it must have, and lies in the set, and
    :class:`Unfinished` behind the deadline."""
    if found.x.shape != job.x.shape or found.x.dtype != job.x.dtype:
        raise Broken(f"candidates are {found.x.dtype} {tuple(found.x.shape)}, not {job.x.dtype} {tuple(job.x.shape)}")
    if len(found.offered) != len(job.x) or len(found.errors) != len(job.x):
        raise Broken("`offered` and `errors` have an entry for every unit")
    if set(found.errors) <= {None, "timeout"} and "timeout" in found.errors:
        raise Unfinished(f"it was not done within {SECONDS} seconds")
    if any(found.errors):
        raise Broken(f"it gave up: {next(e for e in found.errors if e)}")
    if not torch.isfinite(found.x).all():
        raise Broken("a candidate is not finite")
    moved = (found.x != job.x).flatten(1).any(dim=1)
    if (found.offered & ~moved).any():
        raise Broken("an original is offered as a candidate")
    if (moved & ~found.offered).any():
        raise Broken("`x` of a unit that has no candidate is its original")
    theta = _parameters(found, job)
    at = np.flatnonzero(found.offered)
    x = found.x.detach().numpy()[at]
    for member in job.sets.rows(at).member(x, None if theta is None else theta[at]):
        if not member.inside:
            assert job.threat.allow is not None
            made = "; the picture is not what its parameters `theta` make, or these are too great" * (theta is not None)
            raise Broken(f"a candidate is not in {allowed(job.threat.allow)}: {member.rule}{made}")


def _parameters(found: Candidates, job: Job) -> np.ndarray | None:
    """The parameters that pictures are said to be made by; ``None`` where no transform makes any."""
    count = job.sets.parameters
    if not count:
        return None
    if found.theta is None:
        raise Broken("candidates under a transform come with `theta`, the parameters that make each")
    if found.theta.shape != (len(job.x), count) or found.theta.dtype != torch.float64:
        shape = f"{found.theta.dtype} {tuple(found.theta.shape)}"
        raise Broken(f"`theta` is {shape}, not torch.float64 ({len(job.x)}, {count})")
    theta: np.ndarray = found.theta.numpy()
    return theta


def _frozen(bench: Bench) -> str | None:
    kinds = [kind for kind in bench.kinds if kind != "transform"]
    if not kinds:
        return "no threat has a transform beside a mask"
    if "mask" in bench.row.refused or not bench.row.carried("mask", kinds):
        return "it refuses masks"
    for kind in kinds:
        job = bench.job(kind, target=bench.targets, mutable=Mutable("rows", ranges=((0, 2),)))
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
            found.append(bench.search(bench.job(bench.kinds[0], seed=5, target=bench.targets)))
    first, second = found
    parameters = [torch.nan_to_num(torch.empty(0) if f.theta is None else f.theta[f.offered]) for f in found]
    if not torch.equal(first.x, second.x) or not torch.equal(*parameters):
        raise Broken("equal seeds gave different candidates: draws must come from `job.seeds` alone")
    return None


def _states(bench: Bench) -> str | None:
    job = bench.job(bench.kinds[0], target=bench.targets)
    bench.watched(lambda: cast(Search, bench.adapter).search(job))
    if not torch.equal(job.x, torch.from_numpy(job.sets.originals)):
        raise Broken("it changed the originals")
    return None


def _access(bench: Bench) -> str | None:
    level = bench.row.access
    if level == "nothing":
        return "it asks the model nothing"
    below = ACCESS[ACCESS.index(level) - 1]
    try:
        bench.search(bench.job(bench.kinds[0], level=below, target=bench.targets))
    except AccessDenied:
        return None
    raise Broken(f"its manifest says {level}, and it worked with {below}")


def _queries(bench: Bench) -> str | None:
    job = bench.job(bench.kinds[0], limit=5, target=bench.targets)
    found = bench.search(job)
    if (job.oracle.queries > 5).any():
        raise Broken("it went beyond the limit of queries")
    proper(found, job)
    return None


def _deadline(bench: Bench) -> str | None:
    if bench.row.access == "nothing":
        return "it asks the model nothing"
    found = bench.search(bench.job(bench.kinds[0], deadline=time.monotonic() - 1, target=bench.targets))
    if not all(e == "timeout" or o for e, o in zip(found.errors, found.offered.tolist(), strict=True)):
        raise Broken("behind its deadline a unit without a candidate has the error `timeout`")
    return None


def _refusals(bench: Bench) -> str | None:
    refused = [n for n in (*RADII, *COUNTS) if n in bench.row.refused]
    for kind in refused:
        try:
            bench.search(bench.job(kind, target=bench.targets))
        except BackendRefusal:
            continue
        raise Broken(f"its manifest refuses {kind}, and it searched there: raise BackendRefusal, and say why")
    return None if refused else "its manifest refuses no kind of ball"


def _targeted(bench: Bench) -> str | None:
    target = (bench.y + 1) % len(bench.spec.classes)
    if "targeted" in bench.row.goals:
        job = bench.job(bench.kinds[0], target=target)
        proper(bench.search(job), job)
        return None
    try:
        bench.search(bench.job(bench.kinds[0], target=target))
    except BackendRefusal:
        return None
    raise Broken("its manifest knows no target, and it searched on: raise BackendRefusal where `job.target` is given")


RULES = (
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
