"""Whether candidates are made of one perturbation: what a universal threat asks, and no backend is believed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.threatset import ThreatSet

Values = NDArray[Any]


def is_shared(sets: ThreatSet, x: Values, theta: NDArray[np.float64] | None = None) -> bool:
    """Whether some content, or some change, makes every ``x`` (N, *shape) of its original; or a transform with the same
    parameters ``theta`` (N, p), of which NaN alone are none.

    A coordinate at an end of its own range would stand there under anything beyond as well; elsewhere the sum of the
    original and the change is rounded once, so the change is known to two units in the last place.
    """
    if theta is not None and not np.isnan(theta).all():
        return len(np.unique(theta, axis=0)) == 1
    originals = sets.originals.reshape(len(sets), -1).astype(np.float64)
    moved = x.reshape(originals.shape).astype(np.float64)
    lower, upper = (end.reshape(originals.shape).astype(np.float64) for end in (sets.lower, sets.upper))
    least = np.where(moved <= lower, -np.inf, 0.0)
    most = np.where(moved >= upper, np.inf, 0.0)
    grid = np.maximum(np.abs(moved), np.abs(originals)).astype(sets.domain.grid)
    slack = 2 * np.spacing(grid).astype(np.float64)
    change = moved - originals
    if _meet(change - slack + least, change + slack + most):
        return True
    touched = (moved != originals).any(axis=0)
    return _meet(np.where(touched, moved + least, -np.inf), np.where(touched, moved + most, np.inf))


def _meet(low: Values, high: Values) -> bool:
    return bool((low.max(axis=0) <= high.min(axis=0)).all())
