"""From rows of a file to originals: what ``prepare:`` and ``undo:`` do, in front of the attacker.

Everything is computed in the space's dtype (``undo`` in float64, then rounded once); pictures are decoded, resized and
cropped by Pillow as long as they are pictures, and become arrays at the first other step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tmlang.backends.deployed import ReadFile, build_steps
from tmlang.backends.domain import Domain
from tmlang.backends.steps import Layout, vector
from tmlang.diagnostics.stop import stop
from tmlang.meaning.models import Data, Step
from tmlang.meaning.spaces import Space
from tmlang.meaning.values import Symbol

PIXELS = 1 << 26
"""Greatest number of pixels of one picture."""
_ON_PICTURES = ("decode", "resize", "center_crop", "crop")
_SNAP = Fraction(1, 10**6)
"""``undo`` lands next to a value of the space; what it misses by less than this share of the range is put onto it."""


def prepared(data: Data, space: Space, rows: np.ndarray | Sequence[Path], read: ReadFile) -> np.ndarray:
    """Originals (N, *shape) in the space's dtype. Raises TM712 (a picture) or TM727 (the shape does not fit)."""
    steps = data.prepare
    if not isinstance(rows, np.ndarray):
        pictures = [s for s in steps if s.name in _ON_PICTURES]
        on_pictures = steps[: next((i for i, s in enumerate(steps) if s.name not in _ON_PICTURES), len(steps))]
        if len(on_pictures) < len(pictures):
            raise stop("TM729", f"`{pictures[-1].name}` stands behind a step that makes numbers", data.origin)
        rows = np.stack([_picture(place, on_pictures, space, data) for place in rows])
        steps = steps[len(on_pictures) :]
    x = torch.from_numpy(np.ascontiguousarray(rows)).to(getattr(torch, space.dtype))
    layout = Layout(tuple(x.shape[1:]), _axis(data, space, x.ndim - 1), space.features)
    modules, _ = build_steps(steps, layout, space, read)
    for module in modules:
        x = module.to(x.dtype)(x)
    out = x.contiguous().numpy()
    _check_shape(out.shape[1:], space, data)
    return _undone(out, data, space) if data.undo else out


def _axis(data: Data, space: Space, rank: int) -> int | None:
    """Along which axis of a raw row a vector of numbers lies."""
    if space.features or rank != 3:
        return 0
    permute = next((s for s in data.prepare if s.name == "permute"), None)
    if permute is None:
        return space.channel_axis or 0
    source = dict(permute.args)["source"]
    return str(source.name if isinstance(source, Symbol) else source).index("c")


def _check_shape(found: tuple[int, ...], space: Space, data: Data) -> None:
    if found == space.shape:
        return
    help = "prepare: { … } brings the rows of the file to the shape of the space"
    if len(found) == 3 and (found[2], *found[:2]) == space.shape:
        help = "the channels come last: write prepare: { permute(hwc, chw) }"
    elif len(found) == 3 and (*found[1:], found[0]) == space.shape:
        help = "the channels come first: write prepare: { permute(chw, hwc) }"
    elif (1, *found) == space.shape or int(np.prod(found)) == space.size:
        help = f"store the inputs with shape (N, {', '.join(str(d) for d in space.shape)})"
    raise stop("TM727", f"a row has shape {found}, and {space.name} is {space.shape}", data.read.origin, help=help)


def _undone(x: np.ndarray, data: Data, space: Space) -> np.ndarray:
    """The inverse of ``undo:``'s steps, put onto values of the space where rounding alone missed them."""
    layout = Layout(space.shape, _axis(replace(data, prepare=()), space, len(space.shape)), space.features)
    values = torch.from_numpy(x.astype(np.float64))
    for step in reversed(data.undo):
        args: dict[str, Any] = dict(step.args)
        if step.name == "normalize":
            values = values * vector(_list(args["std"]), layout) + vector(_list(args["mean"]), layout)
        elif step.name == "scale":
            values = values / float(args["factor"])
        else:
            raise stop("TM729", f"`undo: {step.name}` has no inverse here", step.origin)
    return _snapped(values.numpy(), space)


def _list(value: Any) -> Fraction | list[Fraction]:
    return list(value) if isinstance(value, tuple) else value


def _snapped(values: np.ndarray, space: Space) -> np.ndarray:
    domain = Domain(space)
    flat = values.reshape(len(values), -1)
    out = flat.astype(space.dtype)
    for columns, lattice, cell in domain.groups:
        near = float(_SNAP * (cell.high - cell.low))
        part = flat[:, columns]
        if lattice is not None:
            k, _ = lattice.index(part.astype(space.dtype))
            target = lattice.value(k)
        else:
            target = np.clip(out[:, columns], domain.low[columns], domain.high[columns])
        out[:, columns] = np.where(np.abs(part - target) <= near, target, out[:, columns])
    return out.reshape(values.shape)


# --- pictures -----------------------------------------------------------------------------------------------------


def picture_shape(place: Path) -> tuple[int, ...] | None:
    """Height and width of a picture, by its head alone; ``None`` where it is none."""
    from PIL import Image

    try:
        with Image.open(place) as opened:
            return opened.height, opened.width
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None


def _picture(place: Path, steps: Sequence[Step], space: Space, data: Data) -> np.ndarray:
    """One picture as (h, w, c) bytes, with the steps that Pillow does."""
    from PIL import Image

    channels = 3 if 3 in (space.shape[0], space.shape[-1]) else 1
    try:
        with Image.open(place) as opened:
            if opened.width * opened.height > PIXELS:
                raise stop("TM725", f"{place.name} has more than {PIXELS:,} pixels", data.file.origin)
            image: Any = opened.convert("RGB" if channels == 3 else "L")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as e:
        raise stop("TM712", f"{place.name} is no picture that Pillow reads: {e}", data.file.origin) from e
    for step in steps:
        image = _on_picture(step, image)
    return np.asarray(image).reshape(image.height, image.width, channels)


def _on_picture(step: Step, image: Any) -> Any:
    args: dict[str, Any] = dict(step.args)
    if step.name == "decode":
        return image
    if step.name == "resize":
        from PIL import Image

        width, height = image.size
        if "shorter" in args:
            shorter = int(args["shorter"])
            long = int(shorter * max(image.size) / min(image.size))
            size = (shorter, long) if width <= height else (long, shorter)
        else:
            size = (int(args["width"]), int(args["height"]))
        word = args["filter"].name if isinstance(args["filter"], Symbol) else str(args["filter"])
        return image.resize(size, getattr(Image.Resampling, word.upper()))
    height, width = int(args["height"]), int(args["width"])
    if step.name == "center_crop":
        left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    else:
        top, left = int(args["top"]), int(args["left"])
    return image.crop((left, top, left + width, top + height))
