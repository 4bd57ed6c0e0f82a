"""Attacks of torchattacks: a fresh object per call, the radius and the norm from the threat, nothing else of its own.

The library's traps (measured on 3.5.1): fixed-radius attacks overshoot by an ulp (we project), APGD and Square reset
the global seed (we restore it and pass ours), the norm hangs on an argument (set from the threat), the normalization
switch double-normalizes (never used), the training flag is set on what it is given (a door), and JSMA without a target
aims at label + 1 modulo ten (it is always given one).
"""

from __future__ import annotations

from contextlib import redirect_stderr
from copy import deepcopy
from io import StringIO
from math import ceil, isqrt
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tmlang.backends.library import Door, LibraryAttack, Search, in_time


class Attack(LibraryAttack):
    """An attack within a radius, or (a row without a ``radius_argument``) one that looks for the nearest failure."""

    def run(self, search: Search) -> torch.Tensor:
        return self.aimed(search, search.labels, targeted=search.door.targeted)

    def aimed(self, search: Search, labels: torch.Tensor, *, targeted: bool) -> torch.Tensor:
        """The library's attack away from ``labels`` (n,), or towards them."""
        import torchattacks

        row = self.row
        ours = self.budget(search)
        if row.norm_argument:
            ours[row.norm_argument] = row.norm_names[search.frame.norm]
        if row.seed_argument:
            ours[row.seed_argument] = search.seed
        if "n_classes" in row.run_arguments:
            ours["n_classes"] = search.door.oracle.classes
        attack = getattr(torchattacks, row.symbol)(search.door, **search.arguments, **ours)
        if targeted:
            attack.set_mode_targeted_by_label(quiet=True)
        found: torch.Tensor = attack(search.z, labels)
        return found

    def budget(self, search: Search) -> dict[str, Any]:
        """The threat's radius as the library takes it."""
        return {self.row.radius_argument: search.frame.radius} if self.row.radius_argument else {}


class Saliency(Attack):
    """JSMA, which needs a target: without one in the threat, the likeliest of the wrong classes."""

    def run(self, search: Search) -> torch.Tensor:
        if search.door.targeted:
            return super().run(search)
        return self.aimed(search, search.likeliest_wrong(), targeted=True)

    def budget(self, search: Search) -> dict[str, Any]:
        # It changes two features in each of ceil(size * gamma / 2) steps: half a step below keeps the ceiling exact.
        steps = ceil(_count(search) / 2)
        return {"gamma": (2 * steps - 1) / search.z[0].numel()}


class Pixels(Attack):
    """OnePixel, which takes the number of pixels."""

    def budget(self, search: Search) -> dict[str, Any]:
        return {"pixels": _count(search)}


class Rearranged(Attack):
    """Pixle, which copies the pixels of a patch: one no larger than the ball allows pixels to change."""

    def budget(self, search: Search) -> dict[str, Any]:
        sides = (1, isqrt(_count(search)))
        return {"x_dimensions": sides, "y_dimensions": sides}


class Vicinity(Attack):
    """LGV, which goes on training a copy of the object on the examples that it is handed, and attacks what it was
    on the way: the object itself is asked nothing. Every part of an epoch gives one model, and with fewer batches than
    parts the library trains on none."""

    def run(self, search: Search) -> torch.Tensor:
        import torchattacks

        door, arguments, given = search.door, dict(search.arguments), search.received["trainloader"]
        usable = given.y >= 0
        examples = TensorDataset(given.x[usable], given.y[usable])
        loader = DataLoader(examples, batch_size=arguments.pop("batch_size"), shuffle=True)
        parts = arguments["nb_models_epoch"]
        if len(loader) < parts:
            raise ValueError(f"{len(examples)} examples are {len(loader)} batches, and no {parts} parts of an epoch")
        network = deepcopy(door.oracle.opened()[0]).requires_grad_(True)
        copy = _Copy(network, door.oracle.classes, door.deadline)
        attack = torchattacks.LGV(copy, loader, verbose=False, **arguments, **self.budget(search))
        with redirect_stderr(StringIO()):  # its progress
            attack.collect_models()
        attack.load_models([_Seen(trained, door) for trained in attack.list_models])
        found: torch.Tensor = attack(search.z, search.labels)
        return found


class _Copy(nn.Module):
    """A copy of the object: values (m, *shape) to scores (m, K), until the deadline."""

    def __init__(self, network: nn.Module, classes: int, deadline: float | None) -> None:
        super().__init__()
        self.network, self.classes, self.deadline = network, classes, deadline

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        in_time(self.deadline)
        scores: torch.Tensor = self.network(x)[:, : self.classes]
        return scores


class _Seen(nn.Module):
    """A copy in the library's coordinates of a whole batch."""

    def __init__(self, copy: nn.Module, door: Door) -> None:
        super().__init__()
        self.copy, self.frame, self.shape = copy.eval(), door.frame, door.shape

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.copy(self.frame.values(z.reshape(-1, *self.shape)))
        return scores


def _count(search: Search) -> int:
    """The radius of a ball that counts; the library knows no ball without any change."""
    assert search.frame.radius is not None
    return max(1, int(search.frame.radius))
