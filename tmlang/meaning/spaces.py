"""Spaces: what a person outside the system could hand in (LANGUAGE.md section 3)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, Union

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Cell:
    """What one coordinate may hold.

    * ``real``: every value of the space's dtype in ``[low, high]``; ``step`` is ``None``.
    * ``lattice``: ``low + k * step`` for whole ``k``, up to ``high``; stored as the index ``k``.
    * ``integer``: a lattice of step 1, ``low`` whole.
    * ``category``: one of ``categories``, stored as its position; ``low`` 0, ``high`` ``len(categories) - 1``, step 1.
    """

    kind: Literal["real", "lattice", "integer", "category"]
    low: Fraction
    high: Fraction
    step: Fraction | None = None
    unit: str | None = None
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Num:
    value: Fraction


@dataclass(frozen=True, slots=True)
class Ref:
    """A feature (or derived quantity) of the space by name."""

    feature: str


@dataclass(frozen=True, slots=True)
class Op:
    op: Literal["+", "-", "*", "/"]
    left: Arithmetic
    right: Arithmetic


Arithmetic = Union[Num, Ref, Op]


@dataclass(frozen=True, slots=True)
class Relation:
    """``left op right`` that every real input obeys; ``==`` may carry a ``tolerance``. Derived names are expanded."""

    left: Arithmetic
    op: Literal["<=", ">=", "==", "<", ">"]
    right: Arithmetic
    tolerance: Fraction = Fraction(0)
    text: str = ""
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Metric:
    """``sum_i weight_i * |x'_i - x_i|``; a category contributes ``weight`` when it differs (``mismatch`` is 1)."""

    name: str
    weights: tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, slots=True)
class Delivery:
    """``delivered as png | float16 | rounded(step)``: what reaches the model is decode(encode(x))."""

    codec: Literal["png", "float16", "rounded"]
    step: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Space:
    """An external space.

    ``shape`` is the shape of one input without the batch axis; a space of named features has shape ``(D,)``.
    ``cells`` holds one cell for all coordinates (``layout == "all"``), one per channel (``"channel"``, along
    ``channel_axis``), or one per coordinate in C order (``"each"``).
    ``dtype`` is the storage type of a real space; a space whose cells are all lattices stores indices.
    """

    name: str
    shape: tuple[int, ...]
    cells: tuple[Cell, ...]
    layout: Literal["all", "channel", "each"] = "all"
    channel_axis: int | None = None
    dtype: Literal["float32", "float64", "float16"] = "float32"
    features: tuple[str, ...] = ()
    order: Literal["rgb", "bgr"] | None = None
    relations: tuple[Relation, ...] = ()
    derived: tuple[tuple[str, Arithmetic], ...] = ()
    metrics: tuple[Metric, ...] = ()
    one_hot: tuple[tuple[str, ...], ...] = ()
    delivery: Delivery | None = None
    originals: Literal["comply", "exempt"] = "comply"
    doc: str = ""
    origin: Span = field(default=NOWHERE, compare=False)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def is_lattice(self) -> bool:
        return all(c.kind != "real" for c in self.cells)

    @property
    def picture_axis(self) -> int | None:
        """The axis of the channels of a picture of three axes, one or three of them; ``None`` where there is none."""
        axes = (self.channel_axis,) if self.channel_axis is not None else (0, 2)
        return next((a for a in axes if a in (0, 2) and self.shape[a] in (1, 3)), None)

    @property
    def is_picture(self) -> bool:
        """Whether an input can be shown as a picture: two axes, or a third of one or three channels."""
        if self.features or any(c.kind == "category" for c in self.cells):
            return False
        return len(self.shape) == 2 or (len(self.shape) == 3 and self.picture_axis is not None)

    @property
    def channels_first(self) -> bool:
        """Whether the channels of a picture (three axes) stand in front: as declared, else where the axis is short."""
        if self.channel_axis is not None:
            return self.channel_axis == 0
        return self.shape[0] <= self.shape[2]

    def cell(self, coordinate: int) -> Cell:
        """The cell of flat coordinate ``coordinate`` (C order)."""
        if self.layout == "all":
            return self.cells[0]
        if self.layout == "each":
            return self.cells[coordinate]
        assert self.channel_axis is not None
        stride = 1
        for d in self.shape[self.channel_axis + 1 :]:
            stride *= d
        return self.cells[coordinate // stride % self.shape[self.channel_axis]]
