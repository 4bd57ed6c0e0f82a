"""What nature drew, and what it made of an input, a second time (what it does: ``backends.nature``).

The auditor's own reading: draws from hashes, pictures pixel by pixel in rationals. No value is rounded: a stored one is
asked whether any of its neighbours lies nearer to the exact one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from hashlib import sha256

import numpy as np

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.audit.remeasure import exact_values, under
from tmlang.audit.retransform import Point, backward, is_nearest, taps
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Nature, Patch, Threat

_TWO = {"place": ("row", "column"), "translate": ("down", "right")}
_STILL = ("brightness", "contrast", "row", "column")


def numbers_of(nature: Nature) -> list[tuple[str, str]]:
    """(part, number) in the order in which a draw holds them."""
    return [(part, number) for part, *_ in nature.parts for number in _TWO.get(part, [part])]


def drawn(nature: Nature, seed: int) -> list[list[float]]:
    """Every draw that a seed gives."""
    ranges = {part: (low, high) for part, low, high, _ in nature.parts}
    found = []
    for k in range(nature.draws):
        numbers = []
        for part, number in numbers_of(nature):
            words = "\x1f".join((f"int:{seed}", "str:nature", f"int:{k}", f"str:{number}"))
            share = Fraction(int(sha256(words.encode()).hexdigest()[:16], 16) // 2, 2**63)
            low, high = ranges[part]
            if part == "place":
                value = low + (share * (high + 1 - low)).__floor__()
            else:
                value = low + share * (high - low) - (part in ("scale", "contrast"))
            numbers.append(value.numerator / value.denominator)
        found.append(numbers)
    return found


def nature_faults(
    bundle: Bundle, space: Space, subject: Threat, row: Record, original: Point, point: Point
) -> Iterator[str]:
    """What nature is told to have drawn around a saved input, or made of it, otherwise than from the seed of its draws.
    The picture is that of the first failing draw, or of the first where none fails."""
    if subject.nature is None or row.outcomes is None or row.draw_seed is None:
        return
    assert row.candidate is not None
    found = bundle.nature(row.candidate)
    if found is None:
        yield "draws of nature are judged, and not told"
        return
    draws, picture = found
    mine = drawn(subject.nature, row.draw_seed)
    if draws.tolist() != mine:
        yield "what nature is told to have drawn is not what comes of the seed of the draws"
        return
    indices = bundle.candidate(row.candidate)[2]
    try:
        shown = exact_values(space, picture, indices=indices)
    except ValueError as fault:
        yield f"the picture of a draw is told, and {fault}"
        return
    at = max(0, row.outcomes.find("1"))
    if not makes(space, subject, original, point, mine[at], shown):
        yield f"the picture of draw {at + 1} is not what nature makes of the input there"


def makes(space: Space, threat: Threat, original: Point, point: Point, theta: Sequence[float], picture: Point) -> bool:
    """Whether a draw makes this picture of the input ``point``, which was handed in for ``original``."""
    assert threat.nature is not None
    nature, patch = threat.nature, threat.allow if isinstance(threat.allow, Patch) else None
    named = [(n, Fraction(value)) for (_, n), value in zip(numbers_of(nature), theta, strict=True)]
    rows, columns = (axis for axis in range(3) if axis != space.channel_axis)
    frame = space.shape[rows], space.shape[columns]
    back = backward([(n, v) for n, v in named if n not in _STILL], *_centres(patch, dict(named), frame))
    corner = (patch.at if patch else None) or (0, 0)
    for i, stored in enumerate(picture):
        place = [int(p) for p in np.unravel_index(i, space.shape)]
        cell = space.cell(i)
        middle = (cell.low + cell.high) / 2
        exact = Fraction(0)
        for row, column, weight in taps(nature.interpolate or "nearest", back, (place[rows], place[columns])):
            inside = 0 <= row < frame[0] and 0 <= column < frame[1]
            if patch is not None and not under(patch, row - corner[0], column - corner[1]):
                exact += weight * original[i]
                continue
            pixel = nature.fill or Fraction(0)
            if inside:
                place[rows], place[columns] = row, column
                pixel = point[int(np.ravel_multi_index(tuple(place), space.shape))]
            exact += weight * _lit(named, pixel, middle)
        if not is_nearest(space, cell, stored, exact):
            return False
    return True


def _centres(
    patch: Patch | None, named: dict[str, Fraction], frame: tuple[int, int]
) -> Iterator[tuple[Fraction, Fraction]]:
    """The middle of what moves: where it was handed in, and where it is drawn."""
    if patch is None:
        middle = Fraction(frame[0] - 1, 2), Fraction(frame[1] - 1, 2)
        yield from (middle, middle)
        return
    half = Fraction(patch.height - 1, 2), Fraction(patch.width - 1, 2)
    corner = patch.at or (0, 0)
    yield corner[0] + half[0], corner[1] + half[1]
    yield named.get("row", corner[0]) + half[0], named.get("column", corner[1]) + half[1]


def _lit(named: Sequence[tuple[str, Fraction]], pixel: Fraction, middle: Fraction) -> Fraction:
    """A pixel brightened and contrasted, in the order written: both keep a weighted mean of pixels a mean of theirs."""
    for number, value in named:
        if number == "brightness":
            pixel += value
        elif number == "contrast":
            pixel += value * (pixel - middle)
    return pixel
