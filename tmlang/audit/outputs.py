"""What a certificate proves of every output of one unit, as a bundle keeps it (docs/bundle.md, "Outputs")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmlang.audit.tensorfile import TensorFile, TensorFileError

Array = NDArray[np.float64]

ENDS = ("lower", "least", "greatest", "upper")
"""The arrays of a file, in the order in which they may not fall."""
MARGINS = "margins"
"""The array that may stand beside them."""


@dataclass(frozen=True, eq=False)
class OutputBounds:
    """Of the scores of all K classes over the set of one unit, (K,) float64 each, in real arithmetic.

    Every score lies in ``[lower, upper]``: that is proved. ``least`` and ``greatest`` were taken by inputs of the set,
    so the true ends lie in ``[lower, least]`` and ``[greatest, upper]``. ``margins``: the label's score less that of
    each class is no less (0 at the label), where the method bounds these differences themselves: mostly far more than
    the bounds of both scores leave.
    """

    lower: Array
    least: Array
    greatest: Array
    upper: Array
    margins: Array | None = None

    def fault(self, classes: int) -> str | None:
        """Why these are no bounds of ``classes`` outputs, if so."""
        return fault({name: array[None] for name, array in self.arrays().items()}, classes)

    def arrays(self) -> dict[str, Array]:
        """The arrays by their names in a file."""
        named = {name: getattr(self, name) for name in (*ENDS, MARGINS)}
        return {name: array for name, array in named.items() if array is not None}


def fault(arrays: Mapping[str, NDArray[Any]], classes: int | None = None) -> str | None:
    """What is wrong with the arrays (N, K) of a file."""
    shapes = {a.shape for a in arrays.values()}
    if arrays.keys() - {MARGINS} != set(ENDS) or len(shapes) > 1:
        return f"{', '.join(ENDS)} of one shape are needed, {MARGINS} may stand beside them, and nothing else"
    (shape,) = shapes
    if len(shape) != 2 or 0 in shape or shape[1] != (classes or shape[1]) or arrays[ENDS[0]].dtype != np.float64:
        return "there is no pair of bounds for every output"
    if not all(np.isfinite(a).all() and a.dtype == np.float64 for a in arrays.values()):
        return "a bound is no number"
    rising = np.diff(np.stack([arrays[name] for name in ENDS]), axis=0)
    return None if bool((rising >= 0).all()) else "a lower bound lies above what it bounds"


def as_tensors(bounds: Sequence[OutputBounds]) -> dict[str, Array]:
    """The arrays (N, K) of a file; all bounds or none have margins."""
    each = [b.arrays() for b in bounds]
    if any(a.keys() != each[0].keys() for a in each):
        raise ValueError("some bounds have margins and some have none")
    return {name: np.stack([a[name] for a in each]) for name in each[0]}


def checked(file: TensorFile) -> TensorFile:
    """``file``, if it holds bounds; raises :class:`TensorFileError` otherwise."""
    if (wrong := fault(file.tensors)) is not None:
        raise TensorFileError(wrong)
    if file.metadata:
        raise TensorFileError("bounds of outputs have no metadata")
    return file
