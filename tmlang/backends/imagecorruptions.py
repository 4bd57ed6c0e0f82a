"""Corruptions of imagecorruptions: one picture at a time, each from its own seed.

The library's functions are called directly. Its front door ``corrupt`` gives a grey picture three channels and two of
them other noise; the functions keep it grey.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.imagecorruptions_shims import corruptions
from tmlang.backends.native.arguments import whole

if TYPE_CHECKING:
    from tmlang.backends.domain import Domain
    from tmlang.meaning.spaces import Space
    from tmlang.plan.capability import Method

Array = NDArray[Any]


class Corrupt:
    """One of the nineteen, at a ``severity`` from 1 to 5 (Hendrycks and Dietterich, ICLR 2019, section 4)."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def change(self, x: Array, domain: Domain, arguments: Mapping[str, Any], seed: int) -> Array:
        """The changed picture (*shape), in the space's values; the library cuts its result off to whole bytes."""
        from PIL import Image

        space = domain.space
        picture = _picture(domain.indices(x.reshape(1, -1))[0].reshape(x.shape).astype(np.uint8), space)
        with seeded(seed), redirect_stdout(io.StringIO()):
            changed = corruptions()[self.row.symbol](Image.fromarray(picture), whole(arguments["severity"]))
        levels = np.asarray(changed).astype(np.uint8)
        if levels.shape != picture.shape:
            raise BackendRefusal(f"{self.row.path} made a picture of shape {levels.shape} of {picture.shape}")
        return _values(_inputs(levels, space), domain).reshape(x.shape)


class seeded:
    """numpy's global state, which the library draws from, started from a seed and put back behind it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __enter__(self) -> None:
        self.before = np.random.get_state()
        np.random.set_state(np.random.RandomState(np.random.MT19937(self.seed)).get_state())

    def __exit__(self, *_: object) -> None:
        np.random.set_state(self.before)


def _picture(levels: Array, space: Space) -> Array:
    """(h, w, 3) in the order red, green, blue, or (h, w) of a grey picture."""
    hwc = np.moveaxis(levels, 0, 2) if space.channels_first else levels
    if hwc.shape[2] == 1:
        return np.ascontiguousarray(hwc[..., 0])
    return np.ascontiguousarray(hwc[..., ::-1] if space.order == "bgr" else hwc)


def _inputs(picture: Array, space: Space) -> Array:
    """The inverse of :func:`_picture`."""
    hwc = picture[..., None] if picture.ndim == 2 else picture[..., ::-1] if space.order == "bgr" else picture
    return np.moveaxis(hwc, 2, 0) if space.channels_first else hwc


def _values(levels: Array, domain: Domain) -> Array:
    """The values of lattice indices (*shape)."""
    flat = levels.reshape(-1).astype(np.int64)
    values = np.empty(domain.size, domain.dtype)
    for columns, lattice, _ in domain.groups:
        assert lattice is not None
        values[columns] = lattice.value(flat[columns])
    return values
