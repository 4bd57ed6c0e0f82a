"""Threats, properties, shifts (LANGUAGE.md section 6)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, Union

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import NOWHERE, Span
from tmlang.meaning.values import Artifact, Call, Distance, Quantity, Value

Norm = Literal["linf", "l2", "l2_rms", "l1", "l0", "pixels_changed", "metric"]


@dataclass(frozen=True, slots=True)
class Ball:
    """``norm <= radius in space``, the radius in the space's units (levels already multiplied by the step).

    ``radii`` replaces ``radius`` for per-channel or per-feature balls (``per``); with ``per == "feature"`` a feature
    that is not named has radius 0. ``metric`` names a metric of the space (then ``norm`` is ``"metric"``).
    ``tolerance`` enlarges the set and is part of it.
    """

    norm: Norm
    space: str
    radius: Fraction | None = None
    radii: tuple[tuple[str, Fraction], ...] = ()
    per: Literal["channel", "feature"] | None = None
    metric: str | None = None
    tolerance: Fraction = Fraction(0)
    unit: str | None = None
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Patch:
    """A region that may hold anything: a rectangle or a disc, at any place (an existential) or at one."""

    shape: Literal["rectangle", "disc"]
    height: int
    width: int
    at: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Transform:
    """Parameters in the order of composition: (``rotate`` | ``translate`` | ``scale`` …, greatest magnitude).

    ``steps``: per part the step of its grid around 0, in the unit of its bound, ``None`` where every value in between
    is allowed; ``()`` where all are. What a parameter does is said in ``backends.resampling``.
    """

    parts: tuple[tuple[str, Quantity], ...]
    interpolate: str
    fill: Fraction
    steps: tuple[Fraction | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Anything:
    """No ball: all of the domain within the mask."""


@dataclass(frozen=True, slots=True)
class Both:
    """Intersection (``and``)."""

    parts: tuple[Allowed, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Union (``or``); the names of its branches, ``""`` where unnamed."""

    parts: tuple[Allowed, ...]
    names: tuple[str, ...] = ()


Allowed = Union[Ball, Patch, Transform, Anything, Both, Either]


def branch_names(allow: Allowed | None) -> tuple[str, ...]:
    """The branches of a union that a certificate must cover, in order, unnamed ones by position (``"1"``, …)."""
    if not isinstance(allow, Either):
        return ()
    names = allow.names or ("",) * len(allow.parts)
    return tuple(name or str(i) for i, name in enumerate(names, 1))


def transforms(allow: Allowed | None) -> tuple[Transform, ...]:
    """Every transform of an allowed set, each once, in the order written. A candidate keeps the parameters of all of
    them side by side, NaN where one had no part in it."""
    if isinstance(allow, (Both, Either)):
        return tuple(dict.fromkeys(found for part in allow.parts for found in transforms(part)))
    return (allow,) if isinstance(allow, Transform) else ()


def without_pictures(allow: Allowed | None) -> Allowed | None:
    """What is left of an allowed set without the alternatives that a transform makes; ``None`` for nothing."""
    if isinstance(allow, Both):
        rest = [without_pictures(part) for part in allow.parts]
        return None if None in rest else Both(tuple(part for part in rest if part is not None))
    if isinstance(allow, Either):
        kept = [part for part in map(without_pictures, allow.parts) if part is not None]
        return (kept[0] if len(kept) == 1 else Either(tuple(kept))) if kept else None
    return None if isinstance(allow, Transform) else allow


@dataclass(frozen=True, slots=True)
class Mutable:
    """Which coordinates the attacker may move.

    ``all``; ``features`` (``names``, each with ``up``, ``down`` or ``any``); ``rows``/``columns`` (inclusive
    ``ranges``); ``channels`` (indices in ``ranges``); ``mask`` (a boolean array in ``file``, ``per_example`` with one
    more axis).
    ``except_`` turns ``features``/``rows``/``columns``/``channels`` into "all but these".
    """

    kind: Literal["all", "features", "rows", "columns", "channels", "mask"]
    names: tuple[tuple[str, Literal["any", "up", "down"]], ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    file: Artifact | None = None
    per_example: bool = False
    except_: bool = False
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Goal:
    """``untargeted``; ``class`` with ``target``; ``each`` with ``any``/``all``/``apart``; or a rule that names one
    target per example (``runner_up``, ``least_likely``, ``next``, ``random`` with ``seed``, ``column``)."""

    kind: Literal["untargeted", "class", "each", "runner_up", "least_likely", "next", "random", "column"]
    target: str | None = None
    each: Literal["any", "all", "apart"] | None = None
    seed: int | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Access:
    level: Literal["white_box", "scores", "decisions", "transfer", "nothing"]
    top: int | None = None
    rounded: int | None = None
    surrogates: tuple[str, ...] = ()
    queries: int | None = None
    """Per example (unit), total over stages; ``None``: unlimited."""
    queries_per: Literal["example", "attack"] = "example"
    randomness: Literal["known", "unknown"] | None = None
    requests: Literal["independent", "share_state"] | None = None
    unaware_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """``fail``, ``safe``, ``denied``, or ``fail`` within a ball and ``safe`` beyond it."""

    kind: Literal["fail", "safe", "denied", "fail_within"]
    within: Ball | None = None


@dataclass(frozen=True, slots=True)
class Success:
    """``error_probability > threshold at confidence on draws fresh draws`` or ``single draw judged on draws``."""

    kind: Literal["error_probability", "single_draw"]
    threshold: Fraction | None = None
    confidence: Fraction | None = None
    draws: int | None = None


@dataclass(frozen=True, slots=True)
class Nature:
    """What the world draws: (``place``/``rotate``/``scale`` …, low, high, unit) and how often.

    It acts on the patch where the threat allows one, and on the whole picture that the attacker hands in otherwise.
    ``scale`` and ``contrast`` are factors. ``interpolate`` and ``fill`` as in a :class:`Transform`; beyond a patch
    stands the picture, so nothing is filled there. What is drawn from a seed is said in ``backends.nature``.
    """

    parts: tuple[tuple[str, Fraction, Fraction, str | None], ...]
    draws: int
    interpolate: str | None = None
    fill: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Assumption:
    text: str
    evidence: Artifact | None = None
    reviewed: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Threat:
    name: str
    model: str
    data: str
    allow: Allowed | None
    """``None`` for a threat that minimizes."""
    minimize: tuple[Norm, str] | None
    """(norm, space): success against distance, no radius. ``("metric", space)`` has its name in ``minimize_metric``."""
    mutable: Mutable
    goal: Goal
    access: Access
    clean_errors: Literal["fail", "excluded"]
    rejected: Rejected | None = None
    success: Success | None = None
    perturbation: Literal["per_example", "universal"] = "per_example"
    fitted_on: str | None = None
    nature: Nature | None = None
    assumptions: tuple[Assumption, ...] = ()
    minimize_metric: str | None = None
    units: str | None = None
    """Why distances are in units that somebody outside would recognize, where that was written."""
    doc: str = ""
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Property:
    """Input box and output relation without data or labels. ``given``: (feature, op, value);
    ``always``: a list of alternatives, any of which must hold: (class, op, value) with op ``is_min``/``is_not_min``/
    ``is_max``/``is_not_max`` (value ``None``) or a comparison with a number or another class. ``empty``: the first
    feature of which ``given`` leaves no number that an input may hold; the verdict then is ``vacuous``."""

    name: str
    model: str
    given: tuple[tuple[str, str, Fraction], ...]
    always: tuple[tuple[str, str, Value], ...]
    empty: str | None = None
    doc: str = ""
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Shift:
    """An average over named changes of the world, each by itself; never adversarial. A list of severities is spelled
    out into a change for each."""

    name: str
    model: str
    data: str
    apply: tuple[Call, ...]
    interval: Literal["wilson", "clopper_pearson"]
    confidence: Fraction
    doc: str = ""
    origin: Span = field(default=NOWHERE, compare=False)


Subject = Union[Threat, Property, Shift]
StepSize = Distance
