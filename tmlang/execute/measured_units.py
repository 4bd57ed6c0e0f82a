"""In what units data are, by their own numbers: standardized pictures give themselves away."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from tmlang.diagnostics.model import Diagnostic
from tmlang.meaning.models import Data, Model
from tmlang.meaning.pictures import STANDARDIZED, measured, measures
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Threat
from tmlang.plan.written import number

ROWS = 32
_SLACK = 0.01
"""How far beyond [0, 1] a value may lie that was standardized, stored and taken back."""
_SPAN = 0.75
"""How much of [0, 1] pictures use: numbers of [-1, 1], taken back by any of the deviations here, use less."""
_LEVEL = 0.02
"""How far from a whole number of 255ths, in 255ths: what rounding to float32 and back leaves is a hundredth of it."""
_MOST = 4
"""Deviations that standardized pictures keep within."""

Candidate = tuple[str, np.ndarray, np.ndarray]


def probe_units(threat: Threat, data: Data, space: Space, model: Model, x: np.ndarray) -> list[Diagnostic]:
    """What the originals ``x`` (N, *shape) say of the units in which ``threat`` measures: an error where every value is
    a whole number of 255ths under known means and deviations, a warning where they lie in the image of [0, 1] under
    them, or look standardized; ``units:`` silences the warning."""
    axis = space.picture_axis if len(space.shape) == 3 and not space.features else None
    real = all(c.kind == "real" and c.unit is None for c in space.cells)
    if axis is None or not real or not measures(threat) or not len(x) or not float(x.min()) < 0:
        return []
    some = np.moveaxis(x[:ROWS], axis + 1, -1).astype(np.float64)
    fits = [(c, whole) for c in _candidates(model, some.shape[-1]) for whole in [_fit(some, c)] if whole is not None]
    sure = next((c for c, whole in fits if whole), None)
    if sure is None and threat.units is not None:
        return []
    known = sure or next((c for c, _ in fits), None)
    if known is None and not _standardized(some):
        return []
    radius = next((b.radius for b in measured(threat.allow) if b.radius is not None), None)
    notes = [_range(some, data)]
    if known is not None:
        notes += _readings(known, radius, space)
        whole = "whole numbers of 255ths" if sure else "values between 0 and 1"
        what = f"{whole} under the mean and deviation of {known[0]}"
    else:
        what = f"standardized numbers (mean {some.mean():.2f}, deviation {some.std():.2f})"
    if known is not None and known[0] == model.name:
        notes.append(f"{model.name} normalizes them a second time")
    help = f"write undo: normalize(…) in {data.name}, let {space.name} be what it was before, and normalize in a step:"
    if sure is None:
        help += '; or write units: external because "…"'
    code = "TM233" if sure is None else "TM232"
    text = f"{data.name} holds {what}, and {threat.name} measures in them"
    return [Diagnostic(code, text, threat.origin, notes=tuple(notes), help=help)]


def _candidates(model: Model, channels: int) -> Iterator[Candidate]:
    """What the model normalizes with, and what networks are usually trained with, of that many channels."""
    for step in model.steps:
        if step.name == "normalize":
            args = dict(step.args)
            mean, std = (np.array([float(v) for v in _list(args[k])]) for k in ("mean", "std"))
            if {len(mean), len(std)} <= {1, channels}:
                yield model.name, mean, std
    for name, means, stds in STANDARDIZED:
        if len(means) in (1, channels):
            yield name, np.array(means, np.float64), np.array(stds, np.float64)


def _list(value: object) -> list[Fraction]:
    return list(value) if isinstance(value, tuple) else [value]  # type: ignore[list-item]


def _fit(x: np.ndarray, candidate: Candidate) -> bool | None:
    """Whether all values are whole numbers of 255ths once the normalization is taken back; ``None`` where some lie
    beyond [0, 1] then, or all in a small part of it."""
    _, mean, std = candidate
    before = x * std + mean
    if before.min() < -_SLACK or before.max() > 1 + _SLACK or before.max() - before.min() < _SPAN:
        return None
    levels = before * 255
    several = len(np.unique(np.rint(levels))) > 2
    return bool(several and np.abs(levels - np.rint(levels)).max() <= _LEVEL)


def _standardized(x: np.ndarray) -> bool:
    centred, spread = abs(float(x.mean())) < 0.5, 0.5 < float(x.std()) < 2
    return centred and spread and 1 < float(np.abs(x).max()) <= _MOST


def _range(x: np.ndarray, data: Data) -> str:
    """The range of every channel."""
    flat = x.reshape(-1, x.shape[-1])
    ranges = ", ".join(f"[{low:.4g}, {high:.4g}]" for low, high in zip(flat.min(0), flat.max(0), strict=True))
    return f"the values of {data.name} lie in {ranges}"


def _readings(known: Candidate, radius: Fraction | None, space: Space) -> list[str]:
    if radius is None:
        return []
    r, std = float(radius), known[2]
    inside, outside = (", ".join(f"{v:.4g}" for v in values) for values in (r / std, r * std))
    return [
        f"{number(radius)} in {space.name} is {outside} of pictures in [0, 1]",
        f"{number(radius)} of these is {inside} in {space.name}",
    ]


def probe_sizes(data: Data, raw: tuple[int, ...] | None) -> list[Diagnostic]:
    """Warn of a ``resize`` or crop in ``prepare:`` to the height and width that the rows ``raw`` have already."""
    step = next((s for s in data.prepare if s.name not in ("decode", "scale", "subtract", "add", "channels")), None)
    if raw is None or step is None or step.name not in ("resize", "center_crop", "crop"):
        return []
    args = dict(step.args)
    height, width = args.get("height"), args.get("width")
    sides = [d for d in raw if d > 4][:2] if len(raw) == 3 else list(raw)
    if [height, width] != sides and not (len(sides) == 2 and args.get("shorter") == min(sides)):
        return []
    text = f"`{step.name}` makes rows of {data.name} {sides[0]} by {sides[1]}, which they are already"
    return [Diagnostic("TM320", text, step.origin)]
