"""Attacks of adv-lib: functions of a model, inputs in [0, 1] and labels, which give inputs that fail, or the originals.

Its image distances ask for torchvision and its plots for visdom, neither of which an attack calls: while it is
imported, empty modules stand for what is not installed. It spells some arguments in Greek letters, which specs spell
out.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import torch

from tmlang.backends.library import LibraryAttack, Search

_GREEK = dict(zip(("alpha", "beta", "gamma", "eta", "mu", "rho", "sigma", "tau", "eps"), "αβγημρστε", strict=True))


@contextmanager
def _without(*names: str) -> Iterator[None]:
    """Empty modules for what is not there, taken away behind."""
    stood_in = [name for name in names if name not in sys.modules and not _installed(name)]
    for name in stood_in:
        sys.modules[name] = ModuleType(name)
        # `from torchvision import models` asks for an attribute.
        sys.modules[name].__dict__["models"] = None
    try:
        yield
    finally:
        for name in stood_in:
            del sys.modules[name]


def _installed(name: str) -> bool:
    try:
        import_module(name)
    except Exception:  # a wheel that does not suit this torch raises whatever its loader does
        return False
    return True


def library() -> Any:
    """``adv_lib.attacks``. ``Any``: what stands in for its imports says nothing of types."""
    if "adv_lib.attacks" not in sys.modules:
        with _without("torchvision", "visdom"):
            import adv_lib.attacks  # noqa: F401
    return sys.modules["adv_lib.attacks"]


def their_name(attack: Callable[..., Any], name: str) -> str:
    """An argument as the library spells it: ``gamma_init`` is its ``γ_init``."""
    known = inspect.signature(attack).parameters
    if name in known:
        return name
    first, dash, rest = name.partition("_")
    return f"{_GREEK.get(first, first)}{dash}{rest}"


class Attack(LibraryAttack):
    """An attack within a radius, or one that looks for the nearest failure."""

    def run(self, search: Search) -> torch.Tensor:
        row = self.row
        attack = getattr(library(), row.symbol)
        arguments = {their_name(attack, name): value for name, value in search.arguments.items()}
        if row.radius_argument and search.frame.radius is not None:
            arguments[row.radius_argument] = search.frame.radius
        if row.norm_argument:
            word = row.norm_names[search.frame.norm]
            arguments[row.norm_argument] = word if row.norm_argument == "distance" else float(word)
        if "levels" in row.run_arguments:
            arguments["levels"] = None
        found: torch.Tensor = attack(
            search.door, search.z.clone(), search.labels, targeted=search.door.targeted, **arguments
        )
        return found.detach()
