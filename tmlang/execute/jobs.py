"""What an adapter is given for a batch: the granted view of an object, the sets, the seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import nn

from tmlang.audit.units import is_estimate, is_share
from tmlang.backends.best import Best
from tmlang.backends.contract import Fit, Job, Received
from tmlang.backends.deployed import Expectation
from tmlang.backends.disclosed import Disclosed
from tmlang.backends.drawn import DrawnOracle
from tmlang.backends.failure import Failure
from tmlang.backends.nature import Scene
from tmlang.backends.oracle import Oracle
from tmlang.backends.undecided import Undecided
from tmlang.base.seeds import derive
from tmlang.execute.arena import Arena
from tmlang.execute.received import of_units
from tmlang.execute.world import Attacked
from tmlang.meaning.threats import (
    Allowed,
    Anything,
    Both,
    Either,
    Transform,
    branch_names,
    transforms,
    without_pictures,
)
from tmlang.meaning.values import Artifact
from tmlang.plan.ir import AccessLevel, Stage


@dataclass(frozen=True)
class Searched:
    """An object that a stage searches on, and the job that says so. ``own``: it is the attacked object itself; a
    surrogate costs no queries. ``branch``: of a union, the one that is to be proved."""

    attacked: Attacked
    job: Job
    own: bool
    branch: str | None = None


@dataclass(frozen=True)
class JobMaker:
    """Makes the jobs of one stage and repeat. ``read``: see :class:`~tmlang.backends.contract.Job`; ``listen`` hears of
    every count of rows. ``received``: what the stage is handed, by units of the arena. ``pictures``: the method knows
    of transforms."""

    arena: Arena
    stage: Stage
    repeat: int
    deadline: float | None
    read: Callable[[Artifact], bytes] | None
    listen: Callable[[int], None] | None = None
    received: Mapping[str, Received] = field(default_factory=dict)
    pictures: bool = False

    def jobs(self, at: Sequence[int], used: Sequence[int]) -> list[Searched]:
        """One job on the attacked object, or one on each surrogate under ``transfer``, or one for each branch of a
        union that is to be proved: it holds where every branch does, and the hull of all is far more to prove."""
        if self.stage.access == "transfer":
            return [self._on_surrogate(s, at) for s in self.arena.surrogates]
        seeds = tuple(self.seed(i) for i in at)
        own, allow = self.arena.attacked, self.arena.threat.allow
        if self.stage.role in ("certify", "decide_exactly") and isinstance(allow, Either):
            named = zip(branch_names(allow), allow.parts, strict=True)
            return [
                Searched(own, _on_branch(self._job(own, at, self._oracle(len(at), used), seeds), part), True, name)
                for name, part in named
            ]
        return [Searched(own, self._job(own, at, self._oracle(len(at), used), seeds), True)]

    def seed(self, unit: int) -> int:
        return derive(self.arena.seed, self.arena.units[unit].id, self.stage.label, self.repeat)

    def _on_surrogate(self, attacked: Attacked, at: Sequence[int]) -> Searched:
        """A surrogate is the attacker's own: everything is granted and nothing is limited."""
        oracle = Oracle(
            attacked.deployed,
            attacked.decision,
            classes=len(attacked.model.classes),
            level="white_box",
            units=len(at),
            view=self._view(attacked),
            listen=self.listen,
        )
        seeds = tuple(derive(self.seed(i), attacked.model.name) for i in at)
        return Searched(attacked, self._job(attacked, at, oracle, seeds), False)

    def _job(self, attacked: Attacked, at: Sequence[int], oracle: Oracle, seeds: tuple[int, ...]) -> Job:
        arena, through = self.arena, self.stage.through
        index = torch.tensor(list(at))
        job = Job(
            oracle=oracle,
            sets=arena.sets.rows(list(at)),
            threat=arena.threat,
            x=arena.x[index],
            y=arena.y[index],
            target=None if arena.target is None else arena.target[index],
            arguments=dict(self.stage.arguments),
            seeds=seeds,
            deadline=self.deadline,
            through=None if through is None else (through.name, dict(through.args)),
            read=self.read,
            fit=self._fit(attacked),
            received=of_units(self.received, at),
        )
        job = replace(job, oracle=self._around(job, seeds))
        if not self.pictures and transforms(arena.threat.allow):
            job = _of_pixels(job, proves=self.stage.role != "attack")
        job.oracle.undecided = Undecided(job.sets)
        if self.stage.role == "attack" and is_estimate(arena.threat):
            failure = Failure.of(job.sets, job.y, job.target)
            job.oracle.best = Best(job.x, failure, always=is_share(arena.threat))
        return job

    def _fit(self, attacked: Attacked) -> Fit | None:
        """What a universal perturbation is fitted on. About each fitting example the attacked object answers as often
        as about one example under the threat; a surrogate is the attacker's own."""
        arena, own = self.arena, attacked is self.arena.attacked
        if arena.fitting is None or self.stage.role != "attack":
            return None
        given = arena.fitting
        oracle = Oracle(
            attacked.deployed,
            attacked.decision,
            classes=len(attacked.model.classes),
            level=self.stage.access if own else "white_box",
            units=len(given.x),
            limit=arena.threat.access.queries if own else None,
            view=self._view(attacked),
            disclosed=self._disclosed if own and not self._averaged else None,
        )
        seed = derive(arena.seed, "universal", self.stage.label, self.repeat)
        seeds = [derive(seed, i) for i in range(len(given.x))]
        fit = Fit(oracle, given.sets, given.x, given.y, given.target, seed)
        return replace(fit, oracle=self._around(fit, seeds))

    def _oracle(self, units: int, used: Sequence[int]) -> Oracle:
        attacked, access = self.arena.attacked, self.arena.threat.access
        proves = self.stage.role != "attack"
        level: AccessLevel = "white_box" if proves else self.stage.access
        limited = not proves and access.queries is not None
        return Oracle(
            attacked.deployed,
            attacked.decision,
            classes=len(attacked.model.classes),
            level=level,
            units=units,
            limit=access.queries if limited else None,
            used=used if limited and access.queries_per == "example" else None,
            view=self._view(attacked),
            disclosed=None if proves or self._averaged else self._disclosed,
            listen=self.listen,
        )

    @property
    def _disclosed(self) -> Disclosed | None:
        """What an answer of the attacked object shows."""
        return Disclosed.of(self.arena.threat.access, len(self.arena.attacked.model.classes))

    @property
    def _averaged(self) -> bool:
        """Whether a row of scores is a mean over answers."""
        through = self.stage.through
        return through is not None and through.name == "expectation" and self._scene is None

    @property
    def _scene(self) -> Scene | None:
        confirmation = self.arena.confirmation
        return None if confirmation is None else confirmation.scene

    def _around(self, of: Job | Fit, seeds: Sequence[int]) -> Oracle:
        """The door to the object behind what nature draws around these units; of ``expectation`` as many draws as it
        takes."""
        if self._scene is None or self.stage.role != "attack":
            return of.oracle
        through = self.stage.through
        draws = int(cast(Any, dict(through.args)["draws"])) if through and through.name == "expectation" else 1
        failure = Failure.of(of.sets, of.y, of.target)
        return DrawnOracle(of.oracle, self._scene, of.x, failure, [derive(s, "search") for s in seeds], draws)

    def _view(self, attacked: Attacked) -> nn.Module | None:
        """The object as this stage's gradients and scores see it."""
        through = self.stage.through
        if through is None:
            return None
        if not self._averaged:
            return attacked.straight_through
        granted = self.stage.access == "scores"
        answer = self._disclosed if granted else None
        return Expectation(attacked.straight_through, int(cast(Any, dict(through.args)["draws"])), answer)


def _of_pixels(job: Job, *, proves: bool) -> Job:
    """For a method that knows of no transforms: a search has the alternatives that none makes, a proof has a larger
    set, in which it does not matter what made a picture."""
    allow = job.threat.allow
    part = _unmade(allow) if proves and allow is not None else without_pictures(allow)
    assert part is not None, "the matcher leaves something to search"
    return _on_branch(job, part)


def _unmade(allow: Allowed) -> Allowed:
    """``allow`` with anything in place of the pictures of a transform."""
    if isinstance(allow, (Both, Either)):
        return replace(allow, parts=tuple(map(_unmade, allow.parts)))
    return Anything() if isinstance(allow, Transform) else allow


def _on_branch(job: Job, part: Allowed) -> Job:
    """The same units with one branch of their union as the whole set."""
    fit = job.fit and replace(job.fit, sets=job.fit.sets.allowing(part))
    return replace(job, sets=job.sets.allowing(part), threat=replace(job.threat, allow=part), fit=fit)
