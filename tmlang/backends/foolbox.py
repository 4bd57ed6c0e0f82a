"""Attacks of foolbox: ``run`` alone is called, since its success flags, clipping and epsilons decide nothing here.

``run`` of a fixed-radius attack gives the point of its last step; of a minimizing one the nearest failure it found,
whatever the radius. Both are projected onto the threat's set behind it and decided again by ``recheck``.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.library import Best, Door, LibraryAttack, Search, isolated
from tmlang.backends.native.arguments import whole
from tmlang.backends.native.transform_hunt import TransformHunt, walk
from tmlang.backends.transforms import Parameters

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

_POOLED = 256
"""Inputs of a pool that are asked about together."""


def _library(name: str = "foolbox") -> Any:
    """The library, loaded when first used. ``Any``: it does not export what it documents, as type checkers see it."""
    return import_module(name)


def _model(search: Search) -> Any:
    return _library().PyTorchModel(search.door, bounds=(0, 1), device=search.z.device)


def _criterion(search: Search) -> Any:
    if search.door.decisions:
        return _failure(search.door)
    if search.door.targeted:
        return _library().TargetedMisclassification(search.labels)
    return _library().Misclassification(search.labels)


class FixedRadius(LibraryAttack):
    """An attack that looks for a failure within a radius."""

    def run(self, search: Search) -> torch.Tensor:
        attack = getattr(_library().attacks, self.row.symbol)(**search.arguments)
        found: torch.Tensor = attack.run(_model(search), search.z, _criterion(search), epsilon=search.frame.radius)
        return found


class Minimal(LibraryAttack):
    """An attack that looks for the nearest failure."""

    def run(self, search: Search) -> torch.Tensor:
        found: torch.Tensor = self._attack(search, search.arguments).run(_model(search), search.z, _criterion(search))
        return found

    def _attack(self, search: Search, arguments: dict[str, Any]) -> Any:
        if self.row.norm_argument:
            arguments = {**arguments, self.row.norm_argument: self.row.norm_names[search.frame.norm]}
        return getattr(_library().attacks, self.row.symbol)(**arguments)


class Remembered(Minimal):
    """A minimizing attack that loses what it has found: where its last point is no number, since it divides by a
    gradient that has underflowed, the nearest failure counts that the model was shown."""

    def run(self, search: Search) -> torch.Tensor:
        door, held = search.door, search.frame
        best = door.best = door.best or Best(held.values(search.z.reshape(-1, *door.shape)))
        found = super().run(search)
        kept = held.inverse(best.x).reshape(found.shape)
        lost = ~torch.isfinite(found).flatten(1).all(dim=1)
        return torch.where(lost.reshape(-1, 1, 1, 1), kept, found)


class Started(Minimal):
    """A minimizing attack that walks from a failure: the one that an earlier stage found where it is handed any, else
    where uniform noise, blended in, first fails. Units that fail already or have no such start sit the walk out, since
    one of them would end it for the whole batch."""

    def run(self, search: Search) -> torch.Tensor:
        door, model, criterion = search.door, _model(search), _criterion(search)
        arguments = dict(search.arguments)
        blend = _library().attacks.LinearSearchBlendedUniformNoiseAttack(
            distance=_library().distances.l2,
            directions=arguments.pop("start_directions"),
            steps=arguments.pop("start_steps"),
        )
        already = door.fails(search.z, door(search.z))
        start, handed = search.handed("starting_points")
        if not handed.all():
            noise = blend.run(model, search.z, criterion)
            start = torch.where(handed[:, None, None, None], start, noise)
        walking = (door.fails(start, door(start)) & ~already).nonzero()[:, 0]
        found = search.z.clone()
        if len(walking):
            door.only(walking)
            those = _criterion(replace(search, labels=search.labels[walking]))
            found[walking] = self._attack(search, arguments).run(
                model, search.z[walking], those, starting_points=start[walking]
            )
        return found


class Pool(LibraryAttack):
    """DatasetAttack, which tries the inputs of a pool in random order. It takes as many of them as its batch has rows,
    and for no row the one at its own place: so one unit at a time stands in front of a batch as long as the pool, whose
    other rows are done from the start. Every input that is tried is a query, at a limit no more than are left."""

    apart = True

    def run(self, search: Search) -> torch.Tensor:
        door, z = search.door, search.z
        pool = search.frame.inverse(search.received["pool"].x).reshape(-1, *z.shape[1:])
        left = door.oracle.remaining()
        if left is not None:
            # One query is the unit's own input.
            pool = pool[: max(0, int(left[0]) - 1)]
        if not len(pool):
            door(z)
            return z
        attack = _library().attacks.DatasetAttack(distance=_library().distances.l2)
        attack.raw_inputs = [_library("eagerpy").astensor(torch.cat([z, pool]))]
        known = torch.cat([door(part) for part in (z, *torch.split(pool, _POOLED))])
        attack.raw_outputs = [_library("eagerpy").astensor(known)]
        model = _library().PyTorchModel(_Known(known[:1]), bounds=(0, 1), device=z.device)
        found: torch.Tensor = attack.run(model, z.repeat(len(pool) + 1, 1, 1, 1), _failure(door, first=True))
        return found[:1]


class _Known(torch.nn.Module):
    """The outputs of one input that has been asked already, for every row of a batch."""

    def __init__(self, outputs: torch.Tensor) -> None:
        super().__init__()
        self.outputs = outputs
        self.eval()

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.outputs.expand(len(z), -1)


class Refined(LibraryAttack):
    """An attack that moves every coordinate of a failure as near to the original as its side of a threshold allows. It
    complains of a whole batch where the model decides otherwise about one of them, so units come one by one."""

    apart = True

    def run(self, search: Search) -> torch.Tensor:
        start, handed = search.handed("starting_points")
        if not handed.all():
            return search.z
        attack = getattr(_library().attacks, self.row.symbol)(distance=_library().distances.l2, **search.arguments)
        found: torch.Tensor = attack.run(_model(search), search.z, _criterion(search), starting_points=start)
        return found


class Spatial:
    """SpatialAttack: the library chooses angles and shifts, and T(x; theta) is what the model is shown for them.

    Its own pictures lie in no threat: of n pixels a shift by s moves s (n - 1) / n, edges are black, and numbers are
    float32. So its ``run`` is called with our rendering in the place of its ``rotate_and_shift``, and goes on until
    every unit is done: has failed, cannot pay for another picture, or is behind its deadline.
    """

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        if all(branch.transform is None for branch in job.sets.branches):
            raise BackendRefusal(f"{self.row.path} turns and shifts pictures, and {job.threat.name} has no transform")
        hunt = TransformHunt(job)
        arguments = {n: v if isinstance(v, bool) else whole(v) for n, v in job.arguments.items()}
        with isolated(job.seeds):
            for transform in hunt.each():
                if {part for part, _ in transform.how.slots} <= set(self.row.parts or ()):
                    _turned_and_shifted(_Pictures(hunt), arguments)
        return hunt.result()


def _turned_and_shifted(pictures: _Pictures, arguments: dict[str, Any]) -> None:
    """One call of SpatialAttack. Of what the threat does not vary its grid has one value, 0."""
    most = pictures.most
    fixed = {n: 1 for part, n in (("rotate", "num_rotations"), ("translate", "num_translations")) if part not in most}
    attack = _library().attacks.SpatialAttack(
        max_rotation=most.get("rotate", 0.0), max_translation=most.get("translate", 0.0), **{**arguments, **fixed}
    )
    run = type(attack).run
    ours = FunctionType(run.__code__, {**run.__globals__, "rotate_and_shift": pictures.rotate_and_shift})
    ours(attack, _library().PyTorchModel(pictures, bounds=(0, 1), device="cpu"), pictures.tokens, _done())


class _Pictures(torch.nn.Module):
    """What SpatialAttack sees of the units: a token (n, 1) for the picture of each, and as the model's only output
    whether it is done. ``most``: the bound of every part of the transform."""

    def __init__(self, hunt: TransformHunt) -> None:
        super().__init__()
        self.hunt, self.transform = hunt, hunt.transform
        self.slots = dict(self.transform.how.slots)
        self.most = {part: float(self.transform.most[at]) for part, at in self.slots.items()}
        self.tokens = torch.zeros(len(hunt.x), 1)
        self.theta: Parameters | None = None
        self.eval()

    def rotate_and_shift(self, tokens: Any, translation: tuple[float, float], rotation: float) -> Any:
        """Of the library: a pixel shows what lies at its place, turned clockwise by ``rotation`` and then moved to the
        right and down by ``translation``; so the picture moves left and up, and turns counterclockwise."""
        right, down = translation
        theta = np.zeros((1, len(self.transform.most)))
        if "rotate" in self.slots:
            theta[0, self.slots["rotate"]] = rotation
        if "translate" in self.slots:
            at = self.slots["translate"]
            theta[0, at : at + 2] = -down, -right
        self.theta = self.transform.nearest(theta)
        return tokens

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.theta is not None:  # the library asks about the originals first
            walk(self.hunt, self.theta)
        return ~self.hunt.going(torch.arange(len(tokens)))[:, None]


def _done() -> Any:
    """What :class:`_Pictures` says, as a criterion of foolbox."""

    class Done(_library().criteria.Criterion):  # type: ignore[misc]
        def __repr__(self) -> str:
            return "Done()"

        def __call__(self, perturbed: Any, outputs: Any) -> Any:  # noqa: ARG002
            return _library("eagerpy").astensor(outputs)[:, 0]

    return Done()


def _failure(door: Door, *, first: bool = False) -> Any:
    """Our failure predicate, rejection included, as a criterion of foolbox. ``first``: of the first row alone,
    where the others count as done."""
    astensor = _library("eagerpy").astensor

    class Failure(_library().criteria.Criterion):  # type: ignore[misc]
        def __repr__(self) -> str:
            return "Failure()"

        def __call__(self, perturbed: Any, outputs: Any) -> Any:
            z, given = astensor(perturbed).raw, astensor(outputs).raw
            if not first:
                return astensor(door.fails(z, given))
            done = torch.ones(len(z), dtype=torch.bool)
            done[:1] = door.fails(z[:1], given[:1])
            return astensor(done)

    return Failure()
