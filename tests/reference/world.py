"""What a spec is about, in plain numbers: nothing here comes from ``tmlang``.

Every number of a space is a whole number over one denominator ``World.over``, so that sets are worked out in integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction as F

import numpy as np

Ints = np.ndarray
"""int64 arrays of values times ``World.over``."""

REJECTS, NOTHING = -1, -2
"""What is decided where no class is: an abstention, and no decision at all."""


@dataclass(frozen=True)
class Cell:
    """One coordinate: ``low + k * step`` for ``k < count``; of a category the words; ``step`` 0 for a real one."""

    low: F
    step: F
    count: int
    words: tuple[str, ...] = ()
    whole: bool = False

    @property
    def high(self) -> F:
        return self.low + (self.count - 1) * (self.step or F(1))

    @property
    def values(self) -> list[F]:
        return [self.low + k * self.step for k in range(self.count)]


@dataclass(frozen=True)
class Relation:
    """``text`` as in a spec; ``holds(v, over)``: where rows (n, size) obey."""

    text: str
    holds: Callable[[Ints, int], np.ndarray]


@dataclass(frozen=True)
class Space:
    shape: tuple[int, ...]
    cells: tuple[Cell, ...]
    names: tuple[str, ...] = ()
    channels: int | None = None
    dtype: str | None = "float32"
    relations: tuple[Relation, ...] = ()
    weights: tuple[tuple[str, F], ...] = ()
    """Of the metric ``m``."""

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def cell(self, j: int) -> Cell:
        return self.cells[j] if len(self.cells) > 1 else self.cells[0]

    @property
    def picture(self) -> bool:
        return len(self.shape) > 1


@dataclass(frozen=True)
class Ball:
    """``norm`` is a word of the language, or ``anything``; ``radii`` per feature or per channel."""

    norm: str
    radius: F = F(0)
    radii: tuple[tuple[str, F], ...] = ()
    tolerance: F = F(0)


@dataclass(frozen=True)
class Patch:
    height: int
    width: int
    place: tuple[int, int] | None = None


@dataclass(frozen=True)
class Transform:
    """``parts``: (name, most, step); every parameter takes the whole multiples of its step."""

    parts: tuple[tuple[str, F, F], ...]
    interpolate: str
    fill: F


@dataclass(frozen=True)
class Join:
    """``or`` of named branches where ``names``, else ``and``."""

    parts: tuple[Allow, ...]
    names: tuple[str, ...] = ()


Allow = Ball | Patch | Transform | Join


@dataclass(frozen=True)
class Threat:
    name: str
    allow: Allow
    mutable: str
    up: np.ndarray
    """Where a coordinate may rise, (1 or N, size)."""
    down: np.ndarray
    mask: np.ndarray | None
    goal: str
    clean_errors: str
    rejected: str | None = None
    within: Ball | None = None

    @property
    def kind(self) -> str:
        """Of the goal: its first words."""
        return " ".join(self.goal.split()[:2]).split("(")[0]


@dataclass(frozen=True)
class Net:
    """``kind``: how it is written. ``layers``: (weights, bias), ReLU between them. ``steps``: texts, with the affine
    map (factor, shift) of each on every coordinate. ``head``: the last output is no score but ``distance``."""

    kind: str
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    steps: tuple[tuple[str, np.ndarray, np.ndarray], ...] = ()
    head: bool = False
    hot: bool = False
    """Categories are spread by ``one_hot`` in front of the network."""


@dataclass(frozen=True)
class Rule:
    """``rule``: ``argmax``, ``argmin``, or the comparison of a threshold with ``value``."""

    rule: str
    ties: str = "lowest"
    value: F = F(0)
    rejects: tuple[tuple[str, str, F], ...] = ()


@dataclass(frozen=True)
class Evaluation:
    name: str
    threat: Threat
    stages: tuple[tuple[str, str, str], ...]
    """(role, label, call)"""
    full: bool = False
    repeats: int = 1


@dataclass(frozen=True)
class World:
    seed: int
    space: Space
    net: Net
    rule: Rule
    classes: tuple[str, ...]
    over: int
    x: Ints
    """Originals (N, size)."""
    labels: tuple[int | None, ...]
    threats: tuple[Threat, ...]
    evaluations: tuple[Evaluation, ...]
    table: bool = False
    """Data in a CSV, not an npz."""
    targets: tuple[int, ...] = ()
    """Of ``targeted column``."""
    claims: tuple[tuple[str, str, str], ...] = field(default=())
    """(name, formula, status)"""
