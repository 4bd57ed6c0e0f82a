"""What a certificate proves of every output of one unit, as a bundle keeps it (docs/bundle.md, "Outputs")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tmlang.audit.tensorfile import TensorFile, TensorFileError

Array = NDArray[np.float64]

ENDS = ("lower", "least", "greatest", "upper")
"""The arrays of a file, in the order in which they may not fall."""


@dataclass(frozen=True, eq=False)
class OutputBounds:
    """Of the scores of all K classes over the set of one unit, (K,) float64 each, in real arithmetic.

    Every score lies in ``[lower, upper]``: that is proved. ``least`` and ``greatest`` were taken by inputs of the set,
    so the true ends lie in ``[lower, least]`` and ``[greatest, upper]``.
    """

    lower: Array
    least: Array
    greatest: Array
    upper: Array

    def fault(self, classes: int) -> str | None:
        """Why these are no bounds of ``classes`` outputs, if so."""
        return fault(np.array([[getattr(self, name)] for name in ENDS]), classes)


def fault(ends: Array, classes: int | None = None) -> str | None:
    """What is wrong with ends (4, N, K) in the order of :data:`ENDS`."""
    wanted = ends.shape[2:] if classes is None else (classes,)
    if ends.ndim != 3 or not ends.size or ends.dtype != np.float64 or ends.shape[2:] != wanted:
        return "there is no pair of bounds for every output"
    if not np.isfinite(ends).all():
        return "a bound is no number"
    return None if bool((np.diff(ends, axis=0) >= 0).all()) else "a lower bound lies above what it bounds"


def as_tensors(bounds: Sequence[OutputBounds]) -> dict[str, Array]:
    """The arrays (N, K) of a file."""
    return {name: np.stack([getattr(b, name) for b in bounds]) for name in ENDS}


def checked(file: TensorFile) -> TensorFile:
    """``file``, if it holds bounds; raises :class:`TensorFileError` otherwise."""
    arrays = [file.tensors[name] for name in ENDS if name in file.tensors]
    if file.tensors.keys() != set(ENDS) or len({a.shape for a in arrays}) > 1 or file.metadata:
        raise TensorFileError(f"{', '.join(ENDS)} of one shape are needed and nothing else")
    if (wrong := fault(np.stack(arrays))) is not None:
        raise TensorFileError(wrong)
    return file
