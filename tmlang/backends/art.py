"""Attacks of the Adversarial Robustness Toolbox, through its own classifier around the door to the model.

Its traps (measured on 1.20.1): it works in NumPy's float32; batches of its own are cut out of what it is given, so rows
come in no order; targets of saliency maps are drawn, and Pixel and Threshold attacks in the first of two strategies ask
for a package that it does not name; ZooAttack mixes up the rows of a batch; what it logs goes to the terminal.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from tmlang.backends.library import LibraryAttack, Search

logging.getLogger("art").addHandler(logging.NullHandler())


class Attack(LibraryAttack):
    """An attack within a radius, or one that knows none. ``shown``: what turns the model's outputs into what it wants;
    ``fixed``: arguments that it works with at all."""

    shown: type[nn.Module] = nn.Identity
    fixed: ClassVar[Mapping[str, Any]] = {}

    def run(self, search: Search) -> torch.Tensor:
        return self.aimed(search, search.labels, targeted=search.door.targeted)

    def aimed(self, search: Search, labels: torch.Tensor, *, targeted: bool) -> torch.Tensor:
        """The library's attack away from ``labels`` (n,), or towards them."""
        from art.attacks import evasion

        kind = getattr(evasion, self.row.symbol)
        classifier, classes = self._classifier(search)
        ours = {"verbose": False, "batch_size": len(search.z), "targeted": targeted, **self.fixed} | self.budget(search)
        if self.row.norm_argument:
            ours[self.row.norm_argument] = float(self.row.norm_names[search.frame.norm])
        known = inspect.signature(kind.__init__).parameters
        given = {their_name(name): value for name, value in search.arguments.items()}
        attack = kind(classifier, **{n: v for n, v in ours.items() if n in known}, **given)
        wanted = torch.nn.functional.one_hot(labels, classes).numpy()
        found: torch.Tensor = torch.from_numpy(np.array(attack.generate(search.z.numpy(), wanted)))
        return found

    def budget(self, search: Search) -> dict[str, Any]:
        """The threat's radius as the library takes it."""
        return {self.row.radius_argument: search.frame.radius} if self.row.radius_argument else {}

    def _classifier(self, search: Search) -> tuple[Any, int]:
        """The library's classifier, and its number of classes: a rejection and no decision have columns too."""
        from art.estimators.classification import PyTorchClassifier

        door = search.door
        classes = door.oracle.classes + 2 * door.decisions
        shape = tuple(search.z.shape[1:])
        model = nn.Sequential(door, self.shown()).eval()
        classifier = PyTorchClassifier(
            model, nn.CrossEntropyLoss(), shape, classes, clip_values=(0.0, 1.0), device_type="cpu"
        )
        return classifier, classes


class _Softmax(nn.Softmax):
    def __init__(self) -> None:
        super().__init__(dim=1)


class Probable(Attack):
    """An attack that wants probabilities."""

    shown = _Softmax


class Stepwise(Probable):
    """SimBA, which takes its inputs one by one."""

    fixed: ClassVar[Mapping[str, Any]] = {"batch_size": 1}


class ZerothOrder(Attack):
    """ZooAttack, which mixes up the rows of a batch, and whose search on small pictures is left out."""

    apart = True
    fixed: ClassVar[Mapping[str, Any]] = {"use_resize": False, "use_importance": False}


class Saliency(Attack):
    """SaliencyMapMethod, which is given a target where the threat has none: the likeliest of the wrong classes."""

    def run(self, search: Search) -> torch.Tensor:
        if search.door.targeted:
            return super().run(search)
        return self.aimed(search, search.likeliest_wrong(), targeted=True)

    def budget(self, search: Search) -> dict[str, Any]:
        # It goes on while no more than this share has changed, two features at a time.
        assert search.frame.radius is not None
        return {"gamma": max(1e-9, (search.frame.radius - 1.5) / search.z[0].numel())}


class Evolution(Attack):
    """PixelAttack and ThresholdAttack, by differential evolution: the other strategy needs the package cma."""

    def budget(self, search: Search) -> dict[str, Any]:
        radius = search.frame.radius
        assert radius is not None
        # A number of pixels; or a length in 255ths of the domain, rounded inward.
        return {"es": 1, "th": int(radius if search.frame.norm == "pixels_changed" else radius * 255)}


def their_name(name: str) -> str:
    """An argument as the library spells it: its ``epsilon`` is a step, where specs would take it for a budget."""
    return "epsilon" if name == "step" else name
