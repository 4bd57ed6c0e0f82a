"""What nature makes of what an attacker hands in: its draws from a seed, and the picture for each of them.

The k-th draw of a part is uniform in the part's range: with h the first 63 bits of the SHA-256 over the seed,
``nature``, k and the part's name (``base.seeds.derive``), the number is ``low + (high - low) h / 2**63``, or for
``place`` the whole one ``low + floor((high - low + 1) h / 2**63)``. Each is kept as the nearest float64; of ``scale``
and ``contrast``, which are factors, what the factor exceeds 1 by. ``place`` has two numbers, ``row`` and ``column``,
and ``translate`` two, ``down`` and ``right``.

Without a patch the whole picture is transformed as ``backends.resampling`` says. A patch lies, as the attacker hands it
in, at its own place (without one, in the upper left corner); its parts are composed in the order written about the
patch's own centre, which then lies where the drawn place puts it. It is interpolated once, and wherever a pixel beyond
the patch would count stands the picture's own pixel at the place that is drawn: all exact, rounded once to the nearest
value of the space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import floor

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.allowed import stamped
from tmlang.backends.domain import Domain, Indices, Values
from tmlang.backends.resampling import VALUES, Exact, Resampling, doubles, resample, settled, transformed
from tmlang.base.seeds import derive
from tmlang.meaning.threats import Allowed, Both, Either, Nature, Patch, Threat, transforms

Tensor = torch.Tensor
Parameters = NDArray[np.float64]

_PAIRS = {"place": ("row", "column"), "translate": ("down", "right")}
_U = 2.0**-53
_ROWS = 128
"""Pictures that are made together."""


def laid(threat: Threat) -> Threat:
    """The threat with a patch that nature places in the upper left corner, where it is handed in."""
    if not _places(threat) or not isinstance(threat.allow, Patch):
        return threat
    return replace(threat, allow=replace(threat.allow, at=(0, 0)))


def not_drawn(threat: Threat) -> Iterator[tuple[str, bool]]:
    """What of nature is not followed, each with whether the threat asks for it."""
    nature, allow = threat.nature, threat.allow
    alone = isinstance(allow, Patch)
    roams = isinstance(allow, Patch) and allow.at is None and not _places(threat)
    yield "draws of nature around transforms", nature is not None and bool(transforms(allow))
    yield "draws of nature around a patch among other sets", nature is not None and not alone and _has_patch(allow)
    yield "draws of nature around a patch that the attacker places anywhere", nature is not None and roams
    yield "a patch that nature places where a part is frozen", _places(threat) and threat.mutable.kind != "all"
    yield "the nearest input under draws of nature", nature is not None and threat.minimize is not None
    yield "draws of nature around candidates of other models", nature is not None and threat.access.level == "transfer"


def _places(threat: Threat) -> bool:
    return threat.nature is not None and any(part == "place" for part, *_ in threat.nature.parts)


def _has_patch(allow: Allowed | None) -> bool:
    if isinstance(allow, (Both, Either)):
        return any(map(_has_patch, allow.parts))
    return isinstance(allow, Patch)


@dataclass(frozen=True, eq=False)
class Scene:
    """``nature`` over the pictures of ``domain``; ``patch``: what it acts on, ``None`` for the whole picture."""

    nature: Nature
    domain: Domain
    patch: Patch | None = None

    @classmethod
    def of(cls, threat: Threat, domain: Domain) -> Scene | None:
        """What nature does under a threat; ``None`` where it draws nothing."""
        patch = threat.allow if isinstance(threat.allow, Patch) else None
        return cls(threat.nature, domain, patch) if threat.nature is not None else None

    @cached_property
    def names(self) -> tuple[tuple[str, str], ...]:
        """(part, number) of every number of a draw, in order."""
        return tuple((part, n) for part, *_ in self.nature.parts for n in _PAIRS.get(part, (part,)))

    def draw(self, seed: int, first: int, count: int) -> Parameters:
        """Draws ``first`` to ``first + count - 1`` from a seed: (count, p)."""
        ends = {part: (low, high) for part, low, high, _ in self.nature.parts}
        return np.array(
            [[_number(part, *ends[part], derive(seed, "nature", k, n)) for part, n in self.names]
             for k in range(first, first + count)]
        ).reshape(count, len(self.names))  # fmt: skip

    def made(self, x: Values, originals: Values, theta: Parameters) -> Values:
        """The pictures (n, size) of what is handed in (n, size) in place of its originals, for draws (n, p)."""
        if self.patch is None:
            return transformed(self._whole, x, theta)
        return np.concatenate(
            [self._pasted(x[i : i + _ROWS], originals[i : i + _ROWS], theta[i : i + _ROWS])
             for i in range(0, len(x), _ROWS)]
        )  # fmt: skip

    def shown(self, x: Tensor, originals: Tensor, theta: Parameters) -> Tensor:
        """The same in the kind of ``x`` (n, size), not rounded to the space and differentiable in ``x``."""
        draws, exact = torch.from_numpy(theta), x.double()
        if self.patch is None:
            value, _ = resample(self._whole, exact, draws)
        else:
            value, _ = self._composed(exact, originals.double(), draws)
        low, high = (torch.from_numpy(end).double() for end in (self.domain.low, self.domain.high))
        return torch.minimum(torch.maximum(value, low), high).to(x.dtype)

    # Whole pictures --------------------------------------------------------------------------------------------------

    @cached_property
    def _whole(self) -> Resampling:
        parts = tuple(part for part, *_ in self.nature.parts)
        return Resampling(parts, self.nature.interpolate or "nearest", self.nature.fill or Fraction(0), self.domain)

    # Patches ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _moving(self) -> Resampling:
        """From where the patch lies to the middle, moved about it, and to where it is drawn."""
        moved = [part for part, *_ in self.nature.parts if part != "place" and part not in VALUES]
        parts = ("translate", *moved, "translate")
        return Resampling(parts, self.nature.interpolate or "nearest", Fraction(0), self.domain)

    @cached_property
    def stamp(self) -> NDArray[np.bool_]:
        """(size,): the coordinates under the patch as it is handed in."""
        assert self.patch is not None
        return stamped(self.domain.space, self.patch).region(self.patch.at or (0, 0)).reshape(-1).copy()

    @cached_property
    def _lit(self) -> tuple[tuple[str, int], ...]:
        """The parts that change values, each with its column in a draw."""
        return tuple((part, i) for i, (part, _) in enumerate(self.names) if part in VALUES)

    def _moves(self, theta: Tensor) -> Tensor:
        """The parameters of :attr:`_moving` for draws (n, p)."""
        assert self.patch is not None
        frame, size = self._moving.frame, (self.patch.height, self.patch.width)
        corner = self.patch.at or (0, 0)
        off = [corner[a] + (size[a] - 1) / 2 - (frame[a] - 1) / 2 for a in (0, 1)]
        named = {number: i for i, (part, number) in enumerate(self.names) if part == "place"}
        columns = [torch.full((len(theta),), -o, dtype=torch.float64) for o in off]
        moved = [i for i, (part, _) in enumerate(self.names) if part != "place" and part not in VALUES]
        columns += [theta[:, i] for i in moved]
        for axis, number in enumerate(("row", "column")):
            place = theta[:, named[number]] if named else torch.full_like(columns[0], corner[axis])
            columns.append(place + ((size[axis] - 1) / 2 - (frame[axis] - 1) / 2))
        return torch.stack(columns, dim=1)

    def _light(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The patch's values v become a v + b: (n, 1) and (n, size)."""
        middle = torch.tensor([float(m) for m in self._moving.middle], dtype=torch.float64)
        a, b = torch.ones(len(theta), 1, dtype=torch.float64), torch.zeros(len(theta), len(middle), dtype=torch.float64)
        for part, i in self._lit:
            t = theta[:, i, None]
            a, b = (a, b + t) if part == "brightness" else ((1 + t) * a, (1 + t) * b - t * middle)
        return a, b

    def _composed(self, x: Tensor, originals: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The pictures before they are rounded, and a bound of the error, infinite or no number where none is known."""
        stamp = torch.from_numpy(self.stamp)
        moves = self._moves(theta)
        patch, off = resample(self._moving, torch.where(stamp, x, 0.0), moves)
        cover, blurred = resample(self._moving, stamp.double().expand(len(x), -1), moves)
        a, b = self._light(theta)
        value = a * patch + b * cover + (1 - cover) * originals
        with torch.no_grad():
            size = a.abs() * patch.abs() + (b.abs() + originals.abs()) * (1 + cover.abs())
            bound = a.abs() * off + (b.abs() + originals.abs()) * blurred + 64 * _U * size
            plain = len(self._lit) == 0
            untouched = (cover == 0) & (blurred == 0)
            pasted = (cover == 1) & (blurred == 0) & (off == 0) & plain
            bound = torch.where(untouched | pasted, 0.0, bound)
        return value, bound

    def _pasted(self, x: Values, originals: Values, theta: Parameters) -> Values:
        k, k0 = self.domain.indices(x)[0], self.domain.indices(originals)[0]
        draws = torch.from_numpy(theta)
        with torch.no_grad():
            value, bound = self._composed(doubles(self.domain, x, k), doubles(self.domain, originals, k0), draws)
            moves = self._moves(draws).numpy()

        def exact(i: int) -> Callable[[int], Fraction]:
            of = Exact.of(self._moving, tuple(moves[i].tolist()))
            return lambda j: self._value(of, (x[i], k[i]), (originals[i], k0[i]), theta[i], j)

        return settled(self.domain, value.numpy(), bound.numpy(), exact)

    def _value(
        self, of: Exact, x: tuple[Values, Indices], original: tuple[Values, Indices], theta: Parameters, coordinate: int
    ) -> Fraction:
        """One coordinate of a picture before it is rounded."""
        shape, (rows, columns, _) = self.domain.space.shape, self._moving.axes
        place = list(map(int, np.unravel_index(coordinate, shape)))
        here = self.domain.exact(*original, coordinate)
        total, frame = Fraction(0), self._moving.frame
        down, across = (tuple(of.taps(axis, place[rows], place[columns])) for axis in (0, 1))
        for row, a in down:
            for column, b in across:
                value = here
                if 0 <= row < frame[0] and 0 <= column < frame[1]:
                    place[rows], place[columns] = row, column
                    at = int(np.ravel_multi_index(place, shape))
                    value = self._lighted(self.domain.exact(*x, at), coordinate, theta) if self.stamp[at] else here
                total += a * b * value
        return total

    def _lighted(self, value: Fraction, coordinate: int, theta: Parameters) -> Fraction:
        for part, i in self._lit:
            t, middle = Fraction(float(theta[i])), self._moving.middle[coordinate]
            value = value + t if part == "brightness" else middle + (1 + t) * (value - middle)
        return value


def _number(part: str, low: Fraction, high: Fraction, h: int) -> float:
    if part == "place":
        return float(low + floor((high - low + 1) * Fraction(h, 2**63)))
    return float(low + (high - low) * Fraction(h, 2**63) - (1 if part in ("scale", "contrast") else 0))
