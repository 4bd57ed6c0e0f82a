"""Models and data (LANGUAGE.md sections 4 and 5)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import NOWHERE, Span
from tmlang.meaning.values import Artifact, Call, Value


@dataclass(frozen=True, slots=True)
class Step:
    """One preprocessing step inside the attacked object, or one ``prepare:`` operation in front of the attacker.

    ``args`` are complete, exact and named: what the spec writes without a name stands under the name given here, and
    words are ``Symbol`` s. Numbers are in the space's own units.

    ========================================  =====================================================================
    ``scale(factor)``                         x * factor
    ``subtract(by)``, ``add(by)``             x - by, x + by
    ``clip(low, high)``                       componentwise
    ``permute(source, target)``               ``hwc`` to ``chw`` or back
    ``channels(order)``                       turns the channels into ``rgb`` or ``bgr``, from the other one
    ``normalize(mean, std)``                  (x - mean) / std; a number, or a tuple along the channels or features
    ``denormalize(mean, std)``                x * std + mean
    ``resize(height, width, filter)``         ``resize(n)`` has both n; or ``resize(shorter, filter)``, aspect kept
    ``center_crop(height, width)``
    ``crop(top, left, height, width)``
    ``pad(by, fill)``                         on all four sides
    ``quantize(levels)``                      of [0, 1]: round(x * (levels - 1)) / (levels - 1); no gradient
    ``jpeg(quality, subsampling, encoder)``   encode and decode; no gradient
    ``mean_filter(size)``                     box filter, odd size
    ``median_filter(size)``                   median of a window
    ``noise(kind, sigma)``                    ``gaussian`` or ``uniform`` (half width); a number, or (feature, number)
                                              pairs, unnamed features get none; random
    ``one_hot(features)``                     a tuple of names of category features, each spread in place
    ``minmax(file)``, ``minmax(low, high)``   (x - low) / (high - low) per feature
    ``softmax()``                             behind the network
    ``decode(library)``                       of picture files; only in ``prepare:``
    ========================================  =====================================================================
    """

    name: str
    args: tuple[tuple[str, Value], ...] = ()
    result: str | None = None
    """The derived space it names (``as standardized``)."""
    differentiable: bool = True
    random: bool = False
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Network:
    """``torch`` (``source`` is the factory's file, ``symbol`` the factory, ``weights`` its file), ``torchscript``,
    ``exported``, ``onnx``, ``sklearn`` (``source``), ``linear`` (``args`` weights, bias), ``remote`` (``args``).

    ``sha256`` of a torch network stands on ``weights``; of the others on ``source``.
    """

    kind: Literal["torch", "torchscript", "exported", "onnx", "sklearn", "linear", "remote"]
    source: Artifact | None = None
    symbol: str | None = None
    weights: Artifact | None = None
    args: tuple[tuple[str, Value], ...] = ()
    outputs: tuple[tuple[str, int], ...] = ()
    """Heads in order, e.g. ``(("logits", 10), ("distance", 1))``; empty when the network has one head."""
    output_kind: Literal["logits", "probabilities", "score"] | None = None
    """``None``: not stated, probed before the run."""


NonFinite = Literal["fail", "reject", "error"]
"""A failure of every label, an abstention, or no decision at all, which leaves the unit unfinished."""


@dataclass(frozen=True, slots=True)
class Decide:
    """How outputs become a class.

    ``threshold``: ``score op value then positive else negative`` (class names). ``majority``/``mean`` carry
    ``draws``; ``most_likely`` is the ideal smoothed classifier. ``ties`` is ``lowest``, ``reject``, ``error`` or a
    class name. ``non_finite``: what scores that decide nothing count as (EVIDENCE.md section 1).
    """

    rule: Literal["argmax", "argmin", "threshold", "majority", "mean", "most_likely"]
    ties: str | None = None
    draws: int | None = None
    op: Literal[">=", ">", "<=", "<"] | None = None
    value: Fraction | None = None
    positive: str | None = None
    negative: str | None = None
    quantity: str = "score"
    """What a threshold looks at: ``score``, or the name of a head."""
    non_finite: NonFinite = "error"
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RejectWhen:
    """One condition under which the model abstains: ``max_softmax < 1/2``, ``agreement < 8/10``, ``class 10``,
    ``distance > 1.2128``. ``quantity`` is ``max_softmax``, ``agreement``, ``class`` or the name of a head."""

    quantity: str
    op: Literal["<", "<=", ">", ">=", "=="]
    value: Fraction
    calibrated_on: str | None = None
    clean_rejection: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Randomness:
    kind: Literal["never", "per_request", "seeded"]
    seed: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    space: str
    classes: tuple[str, ...]
    """Class names in index order; ``classes(10)`` gives ``"0"`` to ``"9"``."""
    steps: tuple[Step, ...]
    network: Network
    decide: Decide
    random: Randomness
    reject: tuple[RejectWhen, ...] = ()
    """Any one holding rejects; empty: the model never abstains."""
    post_steps: tuple[Step, ...] = ()
    """Steps written behind ``network:`` (on its outputs), e.g. ``denormalize``."""
    ensemble: tuple[tuple[str, ...], str] | None = None
    """Member models by name (empty: the members are ``network`` and ``more_networks``, behind the same steps) and how
    they are joined: ``mean of probabilities``, ``mean of logits``, ``majority of classes``."""
    more_networks: tuple[Network, ...] = ()
    doc: str = ""
    origin: Span = field(default=NOWHERE, compare=False)

    @property
    def abstains(self) -> bool:
        """Whether it can reject: by a rule, on a tie, or where its scores decide nothing."""
        return bool(self.reject) or "reject" in (self.decide.ties, self.decide.non_finite)


@dataclass(frozen=True, slots=True)
class Take:
    """``all``, ``first N``, ``every N``, ``sample N seed s``, ``ids "file"``, ``where label == c``,
    ``correct under M``."""

    kind: Literal["all", "first", "every", "sample", "ids", "where_label", "correct_under"]
    count: int | None = None
    seed: int | None = None
    file: Artifact | None = None
    label: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """Where the labels come from. ``published`` carries a text, ``reviewed`` a file, ``predicted`` a model."""

    kind: Literal["published", "reviewed", "predicted"]
    text: str | None = None
    file: Artifact | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Data:
    name: str
    space: str
    read: Call
    file: Artifact
    """The first file (or folder) of ``read``, with its hash."""
    takes: tuple[Take, ...]
    truth: Truth
    prepare: tuple[Step, ...] = ()
    undo: tuple[Step, ...] = ()
    sampling: str | None = None
    doc: str = ""
    origin: Span = field(default=NOWHERE, compare=False)

    @property
    def population(self) -> str | None:
        """How the examples were drawn from a population: the written statement, or the draw of ``take: sample``;
        ``None`` where they were chosen, and nothing follows for others."""
        drawn = [i for i, t in enumerate(self.takes) if t.kind == "sample"]
        if self.sampling is not None or not drawn:
            return self.sampling
        left = " that the clauses before left" if drawn[0] else ""
        return f"drawn with seed {self.takes[drawn[0]].seed} from the examples of `{self.file.path}`{left}"
