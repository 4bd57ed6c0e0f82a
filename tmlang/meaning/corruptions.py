"""The common corruptions (Hendrycks and Dietterich, ICLR 2019), and how corrupted sets are laid out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal

from tmlang.meaning.values import Call, Symbol, Value

COMMON: tuple[str, ...] = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
"""The fifteen of the benchmark, in the order of its tables."""
EXTRA: tuple[str, ...] = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The four that its authors keep for choosing methods."""
SEVERITIES = 5
"""Of every corruption, one after the other in the arrays of the CIFAR-10-C layout."""

Layout = Literal["npz", "csv", "arrays", "folders"]


def layout(path: str, labels: Value | None) -> Layout | None:
    """How a corrupted set lies there: one file with a row per input (``npz``, ``csv``), ``arrays``: a folder of
    ``<corruption>.npy`` and ``labels.npy`` (CIFAR-10-C), ``folders``: ``<corruption>/<severity>/<class>/<file>``
    (ImageNet-C). ``None`` where ``labels`` says neither of the two."""
    if path.endswith(".npz"):
        return "npz"
    if path.endswith(".csv"):
        return "csv"
    if isinstance(labels, Symbol):
        return "folders" if labels.name in ("names", "sorted") else None
    return "arrays" if isinstance(labels, str) and labels.endswith(".npy") else None


def chosen(written: Value) -> tuple[str, ...] | None:
    """The corruptions that ``common``, ``extra``, ``all`` or a list of names stand for: of ``all`` none are named, and
    those that are there are meant."""
    if isinstance(written, Symbol):
        return {"common": COMMON, "extra": EXTRA, "all": ()}.get(written.name, (written.name,))
    if isinstance(written, tuple) and all(isinstance(item, Symbol) for item in written):
        return tuple(item.name for item in written if isinstance(item, Symbol))
    return None


def spelled_out(call: Call) -> tuple[Call, ...]:
    """One change for each of the severities that are listed; the call itself where none are."""
    listed = dict(call.args).get("severity")
    if not isinstance(listed, tuple):
        return (call,)
    found = []
    for severity in listed:
        args = tuple((name, severity if name == "severity" else value) for name, value in call.args)
        found.append(replace(call, args=args))
    return tuple(found)


def called(call: Call) -> str:
    """What a change is called among several: ``fog_3``."""
    severity = dict(call.args).get("severity")
    return f"{call.path[-1]}_{severity}" if isinstance(severity, Fraction) else call.path[-1]
