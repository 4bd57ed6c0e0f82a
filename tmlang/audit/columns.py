"""The columns that a tally makes: exact numbers with their denominators, ranges and gaps (EVIDENCE.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Union

from tmlang.audit.levels import SHOWN, Level
from tmlang.audit.record import CorruptionCell

Extent = Union[Fraction, float]
"""An exact number; the only ``float`` that occurs is ``math.inf`` (a distance that was never found)."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Units that keep a column from being one number, and why."""

    reason: str
    units: int


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of a share: its ends in [0, 1], its level (19/20), and how it was made."""

    low: float
    high: float
    level: Fraction
    method: Literal["wilson", "clopper_pearson"]

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Column:
    """One labelled number of an evaluation.

    ``numerator`` of ``denominator`` units are counted for certain; every completion of what is unknown lies in
    ``[low, high]``. Both are ``None`` where the denominator is empty: the column is then undefined, never 0.
    ``at_least``: nothing sought this failure, so ``high`` is what the denominator allows.
    ``note`` qualifies the heading (``"real arithmetic"``).
    """

    name: str
    numerator: int
    denominator: int
    low: Extent | None
    high: Extent | None
    gaps: tuple[Gap, ...] = ()
    at_least: bool = False
    note: str = ""
    interval: Interval | None = None
    """The confidence interval of an estimate, over what was completed."""
    drawn: int | None = None
    """Of shares of single draws: how many of the denominator were drawn; the rest fails for certain."""

    @property
    def defined(self) -> bool:
        return self.low is not None


@dataclass(frozen=True, slots=True)
class Counts:
    """The letters of EVIDENCE.md section 2, in units (or in examples for ``targeted each any`` and ``each all``).

    ``base`` is A, ``denominator`` is D. ``cc``, ``cw``, ``cr``, ``cu``: clean correct, wrong, rejected, unknown.
    ``broken``: W within the declared access; ``broken_any_access``: W by any access. ``unfinished``: I.
    ``certified``: c; ``certified_assumed``: those of them that rest on an assumed gap; ``certified_trusting``: c once
    the word of trusted solvers counts, ``trusting_assumed`` likewise. ``certifier_failed``: T; ``trusting_failed``: T
    over every stage that proves, trusted solvers too; ``denied``: V. ``exempt``: originals outside the declared space
    that the spec exempts (they stay in A). ``undecided``: units that some stage of any role did not finish. ``open``:
    clean and correct units, neither broken by any access nor certified (nor by a trusted solver), that some attack did
    not finish.
    """

    selected: int = 0
    unusable: int = 0
    not_applicable: int = 0
    exempt: int = 0
    base: int = 0
    denominator: int = 0
    cc: int = 0
    cw: int = 0
    cr: int = 0
    cu: int = 0
    broken: int = 0
    broken_any_access: int = 0
    unfinished: int = 0
    certified: int = 0
    certified_assumed: int = 0
    certified_trusting: int = 0
    trusting_assumed: int = 0
    certifier_failed: int = 0
    trusting_failed: int = 0
    denied: int = 0
    undecided: int = 0
    open: int = 0

    @property
    def standing(self) -> int:
        """Clean and correct, searched to the end, neither broken nor proved: what nobody knows more about."""
        return self.cc - self.broken_any_access - self.certified_trusting - self.open


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A unit that a certificate and a replayed witness both claim (EVIDENCE.md section 6).

    ``within_gap``: the certificate's margin did not exceed its stated gap, so it never entered ``certified`` and voids
    nothing. Otherwise every certificate of ``method`` in the run is void and the run ends with a nonzero exit.
    """

    evaluation: str
    unit: str
    certifier: str
    method: str
    witness: str
    within_gap: bool


@dataclass(frozen=True, slots=True)
class Restriction:
    """What a number is restricted to. ``part``: a named branch of the allowed set; ``radius``: a point of a radius
    curve, in the space's units; ``queries``: a point of a query curve; ``repeat``: one repeat alone; ``level``: which
    certificates count."""

    part: str | None = None
    radius: Fraction | None = None
    queries: int | None = None
    repeat: int | None = None
    level: Level = SHOWN


@dataclass(frozen=True, slots=True)
class Columns:
    """All numbers of one evaluation. ``columns`` is ordered; a quantity that nothing measured is absent (shown "—").

    Names: ``clean_accuracy clean_answered certified certified_trusting upper survival survival_completed survival_any
    coverage attack_coverage certificate_coverage robust_accuracy`` or ``robust_rate``, ``denied reviewed
    semantic_validity witnesses_judged corrupted_accuracy median_distance``. ``attacks``: ``attack_success`` per stage
    label, and ``alone``: ``found_alone`` where there are several, both only under ``attribution: full``. ``repeats``:
    the spread of survival over repeats (their least low and greatest high, each repeat alone), the union being the
    headline. ``corrupted``: ``corrupted_accuracy`` of each corruption at each severity, where every example has them.
    ``units``: what is counted. ``draws``: of each unit, where shares of single draws are counted and not units;
    ``draws_failing_before``, ``survival`` and ``attack_success`` are then estimates with an interval. ``note``: what a
    property that ``holds`` rests on (``"assumed"``, ``"trusting marabou 2.0.0"``). ``unused``: what the searches left
    unused of the declared access, as a sentence (:mod:`audit.granted`). ``unknown`` and ``met``: units without a clean
    decision, and those of which a stage met an allowed input without one, by the reason that their rows tell; no column
    reads them.
    """

    evaluation: str
    subject: str
    units: Literal["examples", "pairs", "properties"]
    clean_errors: Literal["fail", "excluded"] | None
    counts: Counts
    columns: tuple[Column, ...]
    attacks: tuple[tuple[str, Column], ...] = ()
    alone: tuple[tuple[str, Column], ...] = ()
    repeats: tuple[Column, ...] = ()
    corrupted: tuple[tuple[CorruptionCell, Column], ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    holds: Literal["holds", "violated", "undecided", "vacuous"] | None = None
    note: str = ""
    draws: int | None = None
    unused: str = ""
    unknown: tuple[tuple[str, int], ...] = ()
    met: tuple[tuple[str, int], ...] = ()
    restriction: Restriction = field(default_factory=Restriction)

    def get(self, name: str) -> Column | None:
        """The column of that name, ``None`` where nothing measured it."""
        return next((c for c in self.columns if c.name == name), None)
