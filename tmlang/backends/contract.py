"""What a backend is given and what it gives back. A backend never decides whether it succeeded.

A backend module has one class per role, found through its manifest (``<backend>.toml``: ``[method.NAME]`` tables);
``backends.loading`` makes it with its row, ``Class(method)``. The runner builds a :class:`Job` per batch of units,
calls ``search`` or ``certify``, and hands every candidate to ``backends.recheck``; a library's own success flag,
distance or "verified" never leaves the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from tmlang.audit.outputs import OutputBounds
    from tmlang.backends.domain import Domain
    from tmlang.backends.oracle import Oracle
    from tmlang.backends.threatset import ThreatSet
    from tmlang.meaning.threats import Threat
    from tmlang.meaning.values import Artifact


class BackendMissing(Exception):
    """The library behind a backend is not installed. ``args[0]`` is the extra to install (TM5xx at check time)."""


class BackendRefusal(Exception):
    """The adapter cannot carry this job after all (found at run time); the stage becomes ``error`` with this reason."""


@dataclass(frozen=True)
class Fit:
    """The units of the data that a universal perturbation is ``fitted on``, as a :class:`Job` has its own. ``seed`` is
    the stage's."""

    oracle: Oracle
    sets: ThreatSet
    x: torch.Tensor
    y: torch.Tensor
    target: torch.Tensor | None
    seed: int


@dataclass(frozen=True)
class Received:
    """What an argument hands to a stage: ``x`` (M, *shape) values and ``y`` (M,) labels (below 0: none that is usable).

    ``unit``: (M,) the unit of the job that each failure of an earlier stage belongs to; ``None`` for the examples of a
    data set, which are for all units. Nothing is said of whether a row lies in a unit's set, or still fails.
    """

    x: torch.Tensor
    y: torch.Tensor
    unit: torch.Tensor | None

    def only(self, index: int) -> Received:
        """What one unit is handed, in a job of its own."""
        if self.unit is None:
            return self
        own = self.unit == index
        return Received(self.x[own], self.y[own], self.unit[own] - index)


@dataclass(frozen=True)
class Job:
    """A batch of units for one stage. All tensors are on the CPU unless the oracle's device says otherwise.

    ``x``: (N, *shape) originals as the space's values (not indices), in the oracle's dtype. ``y``: (N,) labels (int64).
    ``target``: (N,) or ``None``. ``sets``: the exact allowed set of every unit, row-aligned. ``seeds``: one per unit,
    derived from (run, unit, stage, restart): a backend that draws must draw from these and from nothing else.
    ``oracle``: the only way to the model; it grants what the access level allows and counts rows.
    ``deadline``: ``time.monotonic()`` value after which the backend returns what it has, or ``None``.
    ``read`` gives the bytes of a file that an argument names, their hash checked. ``fit``: the examples that a
    universal perturbation is fitted on; every candidate must then be made of one perturbation. ``received``: what the
    arguments hand over that name a data set or an earlier stage.
    """

    oracle: Oracle
    sets: ThreatSet
    threat: Threat
    x: torch.Tensor
    y: torch.Tensor
    target: torch.Tensor | None
    arguments: Mapping[str, Any]
    seeds: tuple[int, ...]
    deadline: float | None = None
    through: tuple[str, Mapping[str, Any]] | None = None
    read: Callable[[Artifact], bytes] | None = None
    fit: Fit | None = None
    received: Mapping[str, Received] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidates:
    """What a search offers: ``x`` (N, *shape), one per unit, in the space's values; the original itself means "none".

    ``offered``: (N,) bool, ``False`` where the search has nothing to offer or failed; ``errors``: per unit a message or
    ``None`` (a failed unit is unfinished, not survived). ``progressed``: (N,) bool, whether any step came beyond the
    point where it began, from a search that knows; it decides nothing, and is shown where gradients look masked.
    ``theta``: (N, p) float64, the parameters that make each ``x`` under a transform, else ``None``.
    """

    x: torch.Tensor
    offered: torch.Tensor
    errors: tuple[str | None, ...]
    progressed: torch.Tensor | None = None
    theta: torch.Tensor | None = None


@dataclass(frozen=True)
class Trial:
    """``errors`` of ``draws`` were not the label. ``radius``: what follows, in the units of the threat's own ball and
    rounded down; ``None`` where nothing does (the certificate abstains)."""

    draws: int
    errors: int
    radius: float | None


@dataclass(frozen=True)
class Verdicts:
    """Per unit: ``certified``, ``unknown``, ``broken`` (with a candidate row), ``error`` or ``timeout``.

    ``margin``: the proved lower bound of the worst margin in real arithmetic (NaN where none). ``gap``: the bound on
    the difference to the evaluator's arithmetic that ``margin`` must exceed, or ``None`` when nothing is claimed: one
    for all units, or one for each.
    ``gap_kind``: ``proved``, ``assumed`` or ``none``. ``certified`` here is the backend's claim; the runner withdraws
    it when a valid witness contradicts it. ``sizes``: |S| for an enumeration, else empty. ``trials``: what a
    probabilistic certificate rests on, else empty. ``outputs``: proved bounds of every output, where the
    stage was asked for them: per unit or ``None``, else empty.
    """

    verdict: tuple[Literal["certified", "broken", "unknown", "error", "timeout"], ...]
    margin: torch.Tensor
    gap: float | tuple[float | None, ...] | None
    gap_kind: Literal["proved", "assumed", "none"]
    candidates: Candidates | None = None
    messages: tuple[str | None, ...] = ()
    sizes: tuple[int, ...] = ()
    trials: tuple[Trial | None, ...] = ()
    outputs: tuple[OutputBounds | None, ...] = ()

    def gap_of(self, unit: int) -> float | None:
        return self.gap[unit] if isinstance(self.gap, tuple) else self.gap


class Search(Protocol):
    """An attack. Must not change the model, global random states or ``torch`` flags (recheck verifies and stops)."""

    def search(self, job: Job) -> Candidates: ...


class Certifier(Protocol):
    """A verifier, solver or enumeration."""

    def certify(self, job: Job) -> Verdicts: ...


class Corruption(Protocol):
    """A change of the world, which asks the model nothing."""

    def change(self, x: NDArray[Any], domain: Domain, arguments: Mapping[str, Any], seed: int) -> NDArray[Any]:
        """One changed input (*shape) of the values ``x`` (*shape) of the domain's space. Every draw comes from the
        seed: equal seeds give equal inputs. Raises :class:`BackendRefusal`."""
        ...
