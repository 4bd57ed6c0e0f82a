"""Random noise of a stated law: every coordinate draws for itself, and the result is brought into the space.

Beyond the range a coordinate stays at its end; between two levels of a lattice it goes to the nearest. Both are part of
what is measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.native.arguments import number
from tmlang.meaning.values import Distance

if TYPE_CHECKING:
    from tmlang.backends.domain import Domain
    from tmlang.plan.capability import Method

Array = NDArray[Any]
Draws = NDArray[np.float64]


class _Noise(ABC):
    """Noise that is added in float64."""

    def __init__(self, row: Method) -> None:
        self.row = row

    @abstractmethod
    def draw(self, generator: np.random.Generator, amount: float, size: int) -> Draws:
        """(size,) independent draws of the law."""

    def change(self, x: Array, domain: Domain, arguments: Mapping[str, Any], seed: int) -> Array:
        _check_numbers(domain, self.row)
        amount = next(iter(arguments.values()))
        assert isinstance(amount, Distance)
        noise = self.draw(np.random.default_rng(seed), float(amount.value), domain.size)
        return inside(x.reshape(-1).astype(np.float64) + noise, domain).reshape(x.shape)


class Gaussian(_Noise):
    """``native.gaussian_noise``: normal with mean 0 and standard deviation ``sd``."""

    def draw(self, generator: np.random.Generator, amount: float, size: int) -> Draws:
        return generator.normal(0.0, amount, size)


class Uniform(_Noise):
    """``native.uniform_noise``: uniform between ``-width`` and ``width``."""

    def draw(self, generator: np.random.Generator, amount: float, size: int) -> Draws:
        return generator.uniform(-amount, amount, size)


class SaltAndPepper:
    """``native.salt_and_pepper``: with probability ``share`` a coordinate goes to one of its ends, both as likely."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def change(self, x: Array, domain: Domain, arguments: Mapping[str, Any], seed: int) -> Array:
        _check_numbers(domain, self.row)
        generator = np.random.default_rng(seed)
        hit = generator.random(domain.size) < float(number(arguments["share"]))
        ends = np.where(generator.random(domain.size) < 0.5, domain.low, domain.high)
        return np.where(hit, ends, x.reshape(-1)).reshape(x.shape)


def _check_numbers(domain: Domain, row: Method) -> None:
    if domain.categorical.any():
        raise BackendRefusal(f"{row.path} adds numbers, and `{domain.space.name}` has a category")


def inside(x: Draws, domain: Domain) -> Array:
    """The nearest values (size,) of the space's box and grid, in its dtype."""
    values = np.clip(x, domain.low, domain.high).astype(domain.grid).astype(domain.dtype)
    values = np.clip(values, domain.low, domain.high)
    for columns, lattice, _ in domain.groups:
        if lattice is not None:
            values[columns] = lattice.value(lattice.index(x[columns])[0])
    return values
