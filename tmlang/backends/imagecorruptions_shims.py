"""What imagecorruptions 1.1.2 needs beside current numpy and scikit-image: stand-ins, each with its reason.

They stand in the library's own module and touch nothing that other code imports.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class _Numpy:
    """``fog`` makes its map of ``np.float_``, a name that numpy 2.0 took away; it was ``float64``."""

    float_ = np.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _gaussian(filter_: Callable[..., Array]) -> Callable[..., Array]:
    """``glass_blur`` and ``gaussian_blur`` say ``multichannel=True``, which scikit-image 0.23 replaced by the axis of
    the channels. A grey picture has none and is blurred along both of its axes."""

    def gaussian(image: Array, sigma: Any, *, multichannel: bool = False, **others: Any) -> Array:
        return filter_(image, sigma, channel_axis=-1 if multichannel and image.ndim == 3 else None, **others)

    return gaussian


def _random_noise(noise: Callable[..., Array]) -> Callable[..., Array]:
    """``impulse_noise`` takes scikit-image's generator, which is seeded by the system since 0.21. It is seeded from
    numpy's global state again, which all other corruptions draw from."""

    def random_noise(image: Array, mode: str, amount: float) -> Array:
        return noise(
            image, mode=mode, amount=amount, rng=np.random.default_rng(np.random.randint(2**32, dtype=np.uint32))
        )

    return random_noise


def _motion_blur(blur: Callable[..., Array]) -> Callable[..., Array]:
    """``motion_blur`` looks up a third axis of a grey picture, which has two. It treats every channel alike, so the
    first of three equal ones is its result."""

    def motion_blur(picture: Any, severity: int) -> Array:
        if picture.mode != "L":
            return blur(picture, severity)
        return np.asarray(blur(picture.convert("RGB"), severity))[..., 0]

    return motion_blur


@cache
def corruptions() -> dict[str, Callable[..., Any]]:
    """The nineteen functions by name: (PIL picture of mode ``RGB`` or ``L``, severity) to numbers from 0 to 255."""
    with warnings.catch_warnings():
        # It imports names that scipy and setuptools have moved, and which still are there.
        warnings.simplefilter("ignore")
        import imagecorruptions
        from imagecorruptions import corruptions as module
    module.np = _Numpy()
    module.gaussian = _gaussian(module.gaussian)
    module.sk = SimpleNamespace(
        color=module.sk.color, util=SimpleNamespace(random_noise=_random_noise(module.sk.util.random_noise))
    )
    return {**imagecorruptions.corruption_dict, "motion_blur": _motion_blur(module.motion_blur)}
