"""Values of a checked spec: exact numbers with units, calls, artifacts."""

from __future__ import annotations

from fractions import Fraction
from typing import Union

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact number with a unit (``None``: a pure number; ``"%"`` is resolved to hundredths before it gets here).

    Time units are kept as written (``s``, ``min``, ``h``); a lattice distance may be in ``levels``.
    """

    value: Fraction
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Distance:
    """A length in a named external space: ``2/255 in px``, ``4 'levels' in photo``.

    ``value`` is in the space's own units; ``levels`` has been multiplied by the lattice step already and
    ``unit`` keeps what was written.
    """

    value: Fraction
    space: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A bare word used as a value, for instance the ``ce`` of ``loss: ce``."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call with named arguments, for instance ``native.apgd(loss: ce, steps: 100)``.

    ``path`` is ``("native", "apgd")``. Positional arguments have the name ``""``.
    """

    path: tuple[str, ...]
    args: tuple[tuple[str, Value], ...] = ()
    origin: Span = field(default=NOWHERE, compare=False)
    arg_origins: tuple[tuple[str, Span, Span], ...] = field(default=(), compare=False)
    """Per argument: its name, the span of the name, the span of the value."""

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file named by a spec, relative to the spec that names it. ``sha256`` is 64 lower-case hex digits or ``None``
    (then the lock or the run supplies it and the report says that it was not frozen)."""

    path: str
    sha256: str | None = None
    origin: Span = field(default=NOWHERE, compare=False)


Value = Union[None, bool, Fraction, str, Symbol, Quantity, Distance, Call, Artifact, "tuple[Value, ...]"]
