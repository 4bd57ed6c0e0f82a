"""``mutable:`` as arrays: which coordinates may rise and which may fall."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmlang.diagnostics.stop import stop
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Mutable

Flags = NDArray[np.bool_]


def image_axes(space: Space) -> tuple[int, int, int | None]:
    """The axes of rows, columns and channels of one input (channels ``None`` for a flat picture)."""
    if len(space.shape) == 2:
        return 0, 1, None
    if len(space.shape) != 3:
        raise stop("TM409", f"`{space.name}` has {len(space.shape)} axes, so it has no rows and columns", space.origin)
    channel = space.channel_axis
    if channel is None:
        channel = 2 if space.shape[2] in (1, 3, 4) and space.shape[0] not in (1, 3, 4) else 0
    rows, columns = (axis for axis in range(3) if axis != channel)
    return rows, columns, channel


def freedom(space: Space, mutable: Mutable, examples: int, mask: NDArray[Any] | None) -> tuple[Flags, Flags]:
    """``(up, down)``: where a coordinate may rise and fall, each (1, size), or (N, size) for a mask per example."""
    if mutable.kind == "all":
        free = np.ones((1, space.size), np.bool_)
        return free, free
    if mutable.kind == "mask":
        free = _from_file(space, mutable, examples, mask)
        return free, free
    if mutable.kind == "features":
        return _features(space, mutable)
    rows, columns, channels = image_axes(space)
    axis = {"rows": rows, "columns": columns, "channels": channels}[mutable.kind]
    if axis is None:
        raise stop("TM409", f"`{space.name}` has no channels", mutable.origin)
    named = np.zeros(space.shape[axis], np.bool_)
    for low, high in mutable.ranges:
        if not 0 <= low <= high < len(named):
            raise stop(
                "TM409", f"{mutable.kind} {low}..{high} do not lie in 0..{len(named) - 1}", mutable.origin,
                help="ranges are inclusive and count from 0",
            )  # fmt: skip
        named[low : high + 1] = True
    along = [1] * len(space.shape)
    along[axis] = -1
    free = np.broadcast_to((named ^ mutable.except_).reshape(along), space.shape).reshape(1, -1)
    return free, free


def _features(space: Space, mutable: Mutable) -> tuple[Flags, Flags]:
    up = np.full((1, space.size), mutable.except_)
    down = up.copy()
    for name, direction in mutable.names:
        if name not in space.features:
            raise stop("TM409", f"`{space.name}` has no feature `{name}`", mutable.origin)
        at = space.features.index(name)
        up[0, at] = direction != "down" and not mutable.except_
        down[0, at] = direction != "up" and not mutable.except_
    return up, down


def _from_file(space: Space, mutable: Mutable, examples: int, mask: NDArray[Any] | None) -> Flags:
    if mask is None:
        raise stop("TM710", "the array of the mask was not read", mutable.origin)
    array = np.asarray(mask)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise stop("TM712", "a mask holds true and false (or 1 and 0) and nothing else", mutable.origin)
    expected = (examples, *space.shape) if mutable.per_example else space.shape
    if array.shape != expected:
        raise stop(
            "TM727", f"the mask has the shape {array.shape}, and {expected} is needed", mutable.origin,
            help="a mask `per example` has one more axis, in front, with one entry per selected example",
        )  # fmt: skip
    return array.astype(np.bool_).reshape(-1, space.size)
