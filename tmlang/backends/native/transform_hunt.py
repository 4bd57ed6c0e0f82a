"""A hunt among the pictures that transforms make: what is shown to the model, and what is kept with its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from tmlang.audit.record import REJECTED
from tmlang.backends.contract import Candidates, Job
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.resampling import doubles, resample
from tmlang.backends.transforms import Parameters, TransformSet

Tensor = torch.Tensor

ROWS = 512
"""Pictures that are asked about in one pass."""
FIRST_STEP = 0.5
"""Of the bounds; the steps of a search by slopes grow shorter down to nothing."""


class TransformHunt(Hunt):
    """A hunt among the pictures that a transform makes: what is kept is kept with its parameters ``theta`` (N, kept).

    ``branch``: the branch of the set that it is in, the first that is made by a transform to begin with; ``transform``:
    what makes its pictures.
    """

    transform: TransformSet

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.theta = torch.full((len(job.x), job.sets.parameters), torch.nan, dtype=torch.float64)
        self._flat = job.sets.originals.reshape(len(job.x), -1)
        next(self.each())

    def enter(self, branch: int) -> None:
        """Go over to another branch that is made by a transform."""
        transform = self.job.sets.branches[branch].transform
        assert transform is not None
        self.branch, self.transform = branch, transform

    def each(self) -> Iterator[TransformSet]:
        """The transform of every branch that is made by one, in turn; the hunt is then in that branch."""
        for branch, own in enumerate(self.job.sets.branches):
            if own.transform is not None:
                self.enter(branch)
                yield self.transform

    def originals(self, units: Tensor) -> Tensor:
        """The numbers that the originals of ``units`` stand for (n, size), float64."""
        domain, flat = self.job.sets.domain, self._flat[units.numpy()]
        return doubles(domain, flat, domain.indices(flat)[0])

    def made(self, theta: Parameters, units: Tensor) -> Tensor:
        """T(x; theta) of the originals of ``units`` (n, *shape), exactly."""
        x = self.transform.made(self._flat[units.numpy()], theta)
        return torch.from_numpy(x.reshape(-1, *self.job.sets.space.shape)).to(self.job.x.dtype)

    @property
    def alone(self) -> bool:
        """Whether there is no ball beside the transform."""
        own = self.job.sets.branches[self.branch]
        return own.limits.unlimited and not own.balls

    def held(self, x: Tensor, units: Tensor) -> Tensor:
        """Which pictures (n, *shape) the balls beside the transform hold: (n,) bool."""
        if self.alone:
            return torch.ones(len(x), dtype=torch.bool)
        return torch.from_numpy(self.job.sets.rows(units.numpy()).beside(self.branch, x.numpy()))

    def payable(self, units: Tensor) -> int:
        """The rows that each of ``units`` can pay for."""
        left = self.job.oracle.remaining()
        return ROWS if left is None else int(left[units].min()) // self.job.oracle.rows

    def keep(self, x: Tensor, theta: Parameters, units: Tensor, decisions: Tensor) -> None:
        """Keep the first failing picture ``x`` (n, *shape) of every unit that has one in its set, by what was decided;
        the original is none. The door to the object knows of no parameters, so it is told of pictures that have no
        decision."""
        lost = decisions < REJECTED
        if self.job.oracle.undecided is not None and bool(lost.any()):
            among = torch.from_numpy(self.transform.among(theta[lost.numpy()]))
            self.job.oracle.undecided.note(x[lost], units[lost], among)
        fails = self.failure.rows(units)(decisions, x)
        moved = (x != self.job.x[units]).flatten(1).any(dim=1)
        at = torch.nonzero(fails & moved & ~self.failed[units]).flatten()
        rows = at[self.held(x[at], units[at])].numpy()
        if len(rows):
            _, first = np.unique(units.numpy()[rows], return_index=True)
            rows = rows[first]
            at = torch.from_numpy(rows)
            self.note(x[at], units[at], torch.ones(len(at), dtype=torch.bool))
            self.theta[units[at]] = torch.from_numpy(self.transform.among(theta[rows]))

    def result(self) -> Candidates:
        """What failed, with its parameters."""
        return replace(super().result(), theta=self.theta)

    def _settle(self, at: Tensor) -> None:
        """A picture that T made, and that the balls beside it hold, is inside."""


def walk(hunt: TransformHunt, points: Parameters) -> None:
    """Ask about the pictures of ``points`` (K, p) in order, of every unit that is still open."""
    start = 0
    while start < len(points):
        units = hunt.open()
        if not len(units):
            return
        together = max(1, min(ROWS // len(units), len(points) - start, hunt.payable(units)))
        of = units.repeat_interleave(together)
        theta = np.tile(points[start : start + together], (len(units), 1))
        x = hunt.made(theta, of)
        held = hunt.held(x, of)
        if bool(held.any()):
            x, theta, of = x[held], theta[held.numpy()], of[held]
            hunt.keep(x, theta, of, hunt.job.oracle.decisions(x, of))
        start += together


def shown(hunt: TransformHunt, theta: Parameters, units: Tensor) -> tuple[Tensor, Tensor]:
    """The exact pictures (n, *shape), with the slope of their interpolation in ``leaf`` (n, p)."""
    exact = hunt.made(theta, units)
    leaf = torch.from_numpy(theta).clone().requires_grad_(True)
    with torch.enable_grad():
        near, _ = resample(hunt.transform.how, hunt.originals(units), leaf)
        near = near.reshape(exact.shape).to(exact.dtype)
        return exact + (near - near.detach()), leaf
