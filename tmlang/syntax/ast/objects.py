"""What stands in spaces, models and data."""

from __future__ import annotations

from typing import Literal, Union

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import Span
from tmlang.syntax.ast.values import (
    Arg,
    Call,
    Comparator,
    Comparison,
    File,
    Name,
    Node,
    Number,
    Range,
    String,
    Unit,
    Value,
)


@dataclass(frozen=True, slots=True)
class Cell(Node):
    """What one coordinate holds: ``real[0, 1] step 1/255 'V'``, ``int[0, 5]``, ``bytes``, ``{red, green}``.

    ``word`` spans the kind (for a choice, the braces); ``range`` is set for ``real`` and ``int`` and may hold tuples.
    """

    kind: Literal["real", "int", "bytes", "choice"]
    word: Span = field(compare=False)
    range: Range | None = None
    step: Value | None = None
    unit: Unit | None = None
    choices: tuple[Name | String, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorBody(Node):
    """``tensor(3, 32, 32) of CELL``."""

    shape: tuple[Value, ...]
    cell: Cell


@dataclass(frozen=True, slots=True)
class Feature(Node):
    """``temp: real[-40, 85] 'degC'``."""

    name: Name
    cell: Cell


@dataclass(frozen=True, slots=True)
class Derive(Node):
    """``derive ratio = loan_amnt / annual_inc``."""

    name: Name
    value: Value


@dataclass(frozen=True, slots=True)
class Where(Node):
    """``where p + q == 1 tolerance 1/100``, or a relation with a name of its own: ``where one_hot(a, b, c)``."""

    relation: Comparison | Call


@dataclass(frozen=True, slots=True)
class Metric(Node):
    """``metric minmax { a: 1/39500  h: mismatch }``; a weight ``mismatch`` is the :class:`Name` of that text."""

    name: Name
    weights: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class FeatureBody(Node):
    members: tuple[Feature | Derive | Where | Metric, ...]


@dataclass(frozen=True, slots=True)
class StoredAs(Node):
    dtype: Name


@dataclass(frozen=True, slots=True)
class Order(Node):
    """``order rgb``."""

    order: Name


@dataclass(frozen=True, slots=True)
class DeliveredAs(Node):
    """``delivered as png``, ``rounded(1/255)``: a name, or a call when arguments stand."""

    codec: Name | Call


@dataclass(frozen=True, slots=True)
class Originals(Node):
    """``originals must comply`` (word ``comply``) or ``originals exempt``."""

    word: Name


SpaceModifier = Union[StoredAs, Order, DeliveredAs, Originals]


@dataclass(frozen=True, slots=True)
class Step(Node):
    """``normalize(mean: m, std: s) as standardized``; also each operation of ``prepare:``, and ``undo:``."""

    call: Call
    result: Name | None = None


@dataclass(frozen=True, slots=True)
class Network(Node):
    """``torch(...)`` with ``outputs logits: 10, distance: 1`` as arguments in order (empty when not written)."""

    call: Call
    outputs: tuple[Arg, ...] = ()


@dataclass(frozen=True, slots=True)
class Ensemble(Node):
    """``mean of probabilities``, with ``over [a, b]`` when the members are models of this spec."""

    rule: Name
    of: Name
    members: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class Extreme(Node):
    """``argmax`` or ``argmin``."""

    word: Literal["argmax", "argmin"]


@dataclass(frozen=True, slots=True)
class Threshold(Node):
    """``threshold score >= 1 then attack else benign``."""

    quantity: Name
    op: Comparator
    value: Value
    positive: Name | Number
    negative: Name | Number


@dataclass(frozen=True, slots=True)
class Draws(Node):
    """``majority of 10 draws``, ``mean of 5 draws``."""

    word: Literal["majority", "mean"]
    count: Value


@dataclass(frozen=True, slots=True)
class MostLikely(Node):
    """``most_likely draw``."""


@dataclass(frozen=True, slots=True)
class Decide(Node):
    """``rule`` spans the rule alone (``majority of 10 draws``); ``ties`` is ``lowest``, ``reject``, ``error`` or a
    class; ``non_finite`` is ``fail``, ``reject`` or ``error``."""

    rule: Extreme | Threshold | Draws | MostLikely
    ties: Name | Number | None = None
    non_finite: Name | None = None


@dataclass(frozen=True, slots=True)
class Calibration(Node):
    """``calibrated on calib at 5 % clean rejection``; belongs to the condition before it."""

    data: Name
    rate: Value


@dataclass(frozen=True, slots=True)
class RejectIf(Node):
    """``max_softmax < 1/2``; ``class 10`` has the quantity ``class``, the op ``==`` and the class as value."""

    quantity: Name
    op: Comparator
    value: Value
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class Reject(Node):
    """``when A or B or C``: any one holding rejects."""

    conditions: tuple[RejectIf, ...]


@dataclass(frozen=True, slots=True)
class Random(Node):
    """``never``, ``per request`` (word ``per_request``), ``seeded 7 because "..."`` (word ``seeded``)."""

    word: Literal["never", "per_request", "seeded"]
    seed: Value | None = None
    reason: String | None = None


@dataclass(frozen=True, slots=True)
class ClassCount(Node):
    """``classes(10)``."""

    count: Value


@dataclass(frozen=True, slots=True)
class Prepare(Node):
    """``{ decode(pillow) scale(1/255) }``."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Take(Node):
    """``all``; ``first``/``every``/``sample`` with ``count`` (and ``seed``); ``ids`` with ``file``; ``where`` with
    ``label``; ``correct`` with ``model``."""

    kind: Literal["all", "first", "every", "sample", "ids", "where", "correct"]
    count: Value | None = None
    seed: Value | None = None
    file: File | None = None
    label: Name | Number | None = None
    model: Name | None = None


@dataclass(frozen=True, slots=True)
class Truth(Node):
    """``published "..."``, ``reviewed FILE``, ``predicted by M``."""

    kind: Literal["published", "reviewed", "predicted"]
    text: String | None = None
    file: File | None = None
    model: Name | None = None
