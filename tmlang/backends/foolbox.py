"""Attacks of foolbox: ``run`` alone is called, since its success flags, clipping and epsilons decide nothing here.

``run`` of a fixed-radius attack gives the point of its last step; of a minimizing one the nearest failure it found,
whatever the radius. Both are projected onto the threat's set behind it and decided again by ``recheck``.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import torch

from tmlang.backends.library import Best, Door, LibraryAttack, Search


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
    """A minimizing attack that walks from a failure. It starts where uniform noise, blended in, first fails; units that
    fail already or for which no noise does sit the walk out, since one of them would end it for the whole batch."""

    def run(self, search: Search) -> torch.Tensor:
        door, model, criterion = search.door, _model(search), _criterion(search)
        arguments = dict(search.arguments)
        blend = _library().attacks.LinearSearchBlendedUniformNoiseAttack(
            distance=_library().distances.l2,
            directions=arguments.pop("start_directions"),
            steps=arguments.pop("start_steps"),
        )
        already = door.fails(search.z, door(search.z))
        start = blend.run(model, search.z, criterion)
        walking = (door.fails(start, door(start)) & ~already).nonzero()[:, 0]
        found = search.z.clone()
        if len(walking):
            door.only(walking)
            those = _criterion(replace(search, labels=search.labels[walking]))
            found[walking] = self._attack(search, arguments).run(
                model, search.z[walking], those, starting_points=start[walking]
            )
        return found


def _failure(door: Door) -> Any:
    """Our failure predicate, rejection included, as a criterion of foolbox."""
    astensor = _library("eagerpy").astensor

    class Failure(_library().criteria.Criterion):  # type: ignore[misc]
        def __repr__(self) -> str:
            return "Failure()"

        def __call__(self, perturbed: Any, outputs: Any) -> Any:
            return astensor(door.fails(astensor(perturbed).raw, astensor(outputs).raw))

    return Failure()
