"""What stands in the clauses of threats, properties and shifts."""

from __future__ import annotations

from typing import Literal, Union

from tmlang.base.frozen import dataclass
from tmlang.syntax.ast.values import Arg, Call, Comparison, File, Name, Node, Number, Range, String, Tuple, Unit, Value


@dataclass(frozen=True, slots=True)
class Ball(Node):
    """``linf <= 8/255 in px``, ``linf <= (r1, r2, r3) per channel in px``, ``metric minmax <= 1/2 in loan``.

    ``norm`` is the word as written, ``metric`` for a metric, whose name is then in ``metric``. ``space`` is ``None``
    where ``in SPACE`` was left out.
    """

    norm: Name
    radius: Value
    space: Name | None
    metric: Name | None = None
    per: Literal["channel", "feature"] | None = None
    tolerance: Value | None = None


@dataclass(frozen=True, slots=True)
class AnyPlace(Node):
    """``at any place``."""


@dataclass(frozen=True, slots=True)
class Patch(Node):
    """``patch(5, 5) at any place``, ``patch(disc(diameter: 60))``, ``patch(5, 5) at (0, 0)``."""

    call: Call
    at: AnyPlace | Tuple | None = None


@dataclass(frozen=True, slots=True)
class TransformPart(Node):
    """``rotate <= 30 'deg'``, ``rotate <= 30 'deg' step 5 'deg'``."""

    name: Name
    bound: Value
    step: Value | None = None


@dataclass(frozen=True, slots=True)
class Transform(Node):
    """``transform { rotate <= 30 'deg' } interpolate bilinear fill 0``, composed in the order written."""

    parts: tuple[TransformPart, ...]
    interpolate: Name | None = None
    fill: Value | None = None


@dataclass(frozen=True, slots=True)
class Anything(Node):
    """``anything``: all of the domain within the mask."""


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """``flat: linf <= eps in px``; the name covers one ball or a group in parentheses."""

    name: Name
    allowed: Allowed


@dataclass(frozen=True, slots=True)
class Both(Node):
    """Sets joined by ``and``, which binds closer than ``or``."""

    parts: tuple[Allowed, ...]


@dataclass(frozen=True, slots=True)
class Either(Node):
    """Sets joined by ``or``."""

    parts: tuple[Allowed, ...]


Allowed = Union[Ball, Patch, Transform, Anything, Branch, Both, Either]


@dataclass(frozen=True, slots=True)
class Minimize(Node):
    """``l2 in px``, ``metric minmax in loan``."""

    norm: Name
    space: Name | None
    metric: Name | None = None


@dataclass(frozen=True, slots=True)
class FeaturePick(Node):
    """``annual_inc up only``: ``direction`` is ``up``, ``down`` or ``None`` for both."""

    name: Name
    direction: Literal["up", "down"] | None = None


@dataclass(frozen=True, slots=True)
class IndexPick(Node):
    """``rows 0..4``, ``columns 3``, ``channels 0..1``, both ends in; ``last`` is ``first`` when one index stands."""

    axis: Literal["rows", "columns", "channels"]
    first: Value
    last: Value


@dataclass(frozen=True, slots=True)
class MaskPick(Node):
    """``mask("m.npy")``, ``mask("m.npz") per example``."""

    call: Call
    per_example: bool = False


Pick = Union[FeaturePick, IndexPick, MaskPick]


@dataclass(frozen=True, slots=True)
class Mutable(Node):
    """``all`` (no picks), ``all except PICKS`` (``everything`` and picks), ``PICKS``."""

    everything: bool
    picks: tuple[Pick, ...] = ()


@dataclass(frozen=True, slots=True)
class Perturbation(Node):
    """``per example`` (no data) or ``universal fitted on D``."""

    fitted_on: Name | None = None


@dataclass(frozen=True, slots=True)
class NaturePart(Node):
    """``rotate uniform [-45, 45] 'deg'``."""

    name: Name
    distribution: Name
    range: Range
    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class Nature(Node):
    """``{ rotate uniform [-45, 45] 'deg' } draws 100 interpolate bilinear fill 0``."""

    parts: tuple[NaturePart, ...]
    draws: Value | None = None
    interpolate: Name | None = None
    fill: Value | None = None


@dataclass(frozen=True, slots=True)
class Goal(Node):
    """``untargeted``; ``class`` with ``target``; ``each`` with ``each``; ``column`` with ``column``; any other word
    (``runner_up``, ``least_likely``, ``next``) alone, or (``random``) with ``args``. ``word`` is that word."""

    kind: Literal["untargeted", "class", "each", "column", "rule"]
    word: Name
    target: Name | Number | None = None
    each: Name | None = None
    column: String | None = None
    args: tuple[Arg, ...] = ()


@dataclass(frozen=True, slots=True)
class Level(Node):
    """``white_box``, ``decisions``, ``nothing``, ``scores (top5, rounded 3)``: each detail a name and a number or
    none."""

    word: Name
    details: tuple[tuple[Name, Number | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TransferFrom(Node):
    """``transfer from [copy_a, copy_b]``."""

    models: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Queries(Node):
    """``queries <= 5000 per example``; ``per`` is ``example`` or ``attack``."""

    limit: Value
    per: Name


@dataclass(frozen=True, slots=True)
class RandomnessKnown(Node):
    """``randomness known`` or ``randomness unknown``."""

    word: Name


@dataclass(frozen=True, slots=True)
class Requests(Node):
    """``requests independent`` or ``requests share state`` (word ``share_state``)."""

    word: Literal["independent", "share_state"]


@dataclass(frozen=True, slots=True)
class UnawareOf(Node):
    """``unaware of [reject]``."""

    parts: tuple[Name, ...]


AccessItem = Union[Level, TransferFrom, Queries, RandomnessKnown, Requests, UnawareOf]


@dataclass(frozen=True, slots=True)
class Access(Node):
    items: tuple[AccessItem, ...]


@dataclass(frozen=True, slots=True)
class Rejected(Node):
    """``fail``, ``safe``, ``denied``; ``fail within BALL, safe beyond`` has ``within`` and ``beyond``."""

    policy: Name
    within: Ball | None = None
    beyond: Name | None = None


@dataclass(frozen=True, slots=True)
class ErrorProbability(Node):
    """``error_probability > 1/2 at 99 % on 500 fresh draws`` (``draws`` ``None`` when left out)."""

    threshold: Value
    confidence: Value
    draws: Value | None = None


@dataclass(frozen=True, slots=True)
class SingleDraw(Node):
    """``single draw judged on 100 fresh draws``."""

    draws: Value


@dataclass(frozen=True, slots=True)
class Assume(Node):
    """Text with ``evidence FILE``, ``reviewed N of M``, ``unreviewed``, or nothing."""

    text: String
    kind: Literal["evidence", "reviewed", "unreviewed"] | None = None
    file: File | None = None
    reviewed: Value | None = None
    total: Value | None = None


@dataclass(frozen=True, slots=True)
class ExternalUnits(Node):
    """``external because "…"``: a radius that looks like one in normalized numbers is none."""

    reason: String


@dataclass(frozen=True, slots=True)
class Given(Node):
    """The input box of a property: comparisons that hold together."""

    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Interval(Node):
    """``wilson at 95 %``."""

    method: Name
    confidence: Value
