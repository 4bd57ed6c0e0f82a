"""The words that the language itself knows: steps, kinds of network, readers, quantities. Rows, no behaviour."""

from __future__ import annotations

from typing import Literal

from tmlang.base.frozen import dataclass
from tmlang.meaning.corruptions import Layout

Type = Literal["number", "numbers", "whole", "word", "text", "file", "names", "sigma", "flag", "name", "matrix"]


Place = Literal["before", "behind", "prepare"]
"""Of a step: in the model in front of the network, behind it, or in ``prepare:``."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: its name, what it holds, whether it may be left out, and its words if it is one of a list.

    ``position`` says that it may be written without its name, in the order of the row.
    """

    name: str
    type: Type
    position: bool = False
    optional: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepRow:
    arguments: tuple[Argument, ...]
    where: frozenset[Place]
    differentiable: bool = True
    random: bool = False


_INSIDE = frozenset[Place]({"before", "prepare"})
_BEFORE = frozenset[Place]({"before"})
_ALL = frozenset[Place]({"before", "behind", "prepare"})
_LAYOUTS = ("hwc", "chw")
_FILTERS = ("nearest", "bilinear", "bicubic", "box", "lanczos")


def _number(name: str, position: bool = True) -> Argument:
    return Argument(name, "number", position)


_MEAN_STD = (Argument("mean", "numbers", True), Argument("std", "numbers", True))
_SIZE = (Argument("height", "whole", True), Argument("width", "whole", True, optional=True))

STEPS: dict[str, StepRow] = {
    "scale": StepRow((_number("factor"),), _ALL),
    "subtract": StepRow((_number("by"),), _ALL),
    "add": StepRow((_number("by"),), _ALL),
    "clip": StepRow((_number("low"), _number("high")), _INSIDE),
    "permute": StepRow(
        (Argument("source", "word", True, words=_LAYOUTS), Argument("target", "word", True, words=_LAYOUTS)), _INSIDE
    ),
    "channels": StepRow((Argument("order", "word", True, words=("rgb", "bgr")),), _INSIDE),
    "normalize": StepRow(_MEAN_STD, _INSIDE),
    "denormalize": StepRow(_MEAN_STD, _ALL),
    "resize": StepRow(
        (
            Argument("height", "whole", True, optional=True),
            Argument("width", "whole", True, optional=True),
            Argument("shorter", "whole", optional=True),
            Argument("filter", "word", words=_FILTERS),
            Argument("antialias", "flag", optional=True),
        ),
        _INSIDE,
    ),
    "center_crop": StepRow(_SIZE, _INSIDE),
    "crop": StepRow(
        (Argument("top", "whole"), Argument("left", "whole"), Argument("height", "whole"), Argument("width", "whole")),
        _INSIDE,
    ),
    "pad": StepRow((Argument("by", "whole", True), Argument("fill", "number")), _INSIDE),
    "quantize": StepRow((Argument("levels", "whole", True),), _INSIDE, differentiable=False),
    "jpeg": StepRow(
        (
            Argument("quality", "whole", True),
            Argument("subsampling", "word", words=("4:4:4", "4:2:2", "4:2:0")),
            Argument("encoder", "text"),
        ),
        _BEFORE,
        differentiable=False,
    ),
    "mean_filter": StepRow((Argument("size", "whole", True),), _BEFORE),
    "median_filter": StepRow((Argument("size", "whole", True),), _BEFORE),
    "noise": StepRow(
        (Argument("kind", "word", True, words=("gaussian", "uniform")), Argument("sigma", "sigma", True)),
        _BEFORE,
        random=True,
    ),
    "one_hot": StepRow((Argument("features", "names", True),), _INSIDE),
    "minmax": StepRow(
        (
            Argument("file", "file", True, optional=True),
            Argument("sha256", "text", optional=True),
            Argument("low", "numbers", optional=True),
            Argument("high", "numbers", optional=True),
        ),
        _INSIDE,
    ),
    "softmax": StepRow((), frozenset[Place]({"behind"})),
    "decode": StepRow((Argument("library", "word", True, words=("pillow",)),), frozenset[Place]({"prepare"})),
}


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """A kind of network: its named arguments (the source comes first, by position)."""

    source: Literal["factory", "file", "url", "none"]
    arguments: tuple[Argument, ...]
    open: bool = False
    """Whether further named arguments go to the factory."""


_HASH = Argument("sha256", "text", optional=True)
_STATED_ORDER = Argument("order", "word", optional=True, words=("rgb", "bgr"))

NETWORKS: dict[str, NetworkRow] = {
    "torch": NetworkRow("factory", (Argument("weights", "file"), _HASH, _STATED_ORDER), open=True),
    "torchscript": NetworkRow("file", (_HASH, _STATED_ORDER)),
    "exported": NetworkRow("file", (_HASH, _STATED_ORDER)),
    "onnx": NetworkRow("file", (_HASH, _STATED_ORDER)),
    "sklearn": NetworkRow("file", (_HASH,)),
    "linear": NetworkRow("none", (Argument("weights", "matrix"), Argument("bias", "numbers"))),
    "remote": NetworkRow("url", (Argument("observed", "text"), Argument("probes", "file"))),
}

OUTPUT_KINDS = ("logits", "probabilities", "score")

LOGIT_LOSSES = frozenset({"ce", "dlr", "dlr_targeted", "cw", "margin", "logit"})
"""Losses that are wrong, or much weaker, on probabilities."""


@dataclass(frozen=True, slots=True)
class ReaderRow:
    """A reader of data. What it hands over is known for named data sets: shape, range and classes, channels last.

    ``files`` are the arguments that name further files; each may have a hash (``labels_sha256``).
    """

    arguments: tuple[str, ...]
    required: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    bytes: bool = False
    classes: int | None = None
    picture: bool = False
    files: tuple[str, ...] = ()


_BITS32, _BITS28 = (32, 32, 3), (1, 28, 28)
_SPLIT = ("split", "sha256")

_CELL = ("corruption", "severity")

READERS: dict[str, ReaderRow] = {
    "npz": ReaderRow(("inputs", "labels", "ids", "sha256"), ("inputs", "labels")),
    "npy": ReaderRow(("labels", "ids", "sha256", "labels_sha256", "ids_sha256"), ("labels",), files=("labels", "ids")),
    "csv": ReaderRow(("label", "id", "sha256"), ("label",)),
    "parquet": ReaderRow(("label", "id", "inputs", "sha256"), ("label",)),
    "folder": ReaderRow(
        ("labels", "sha256", "labels_sha256"), ("labels",), bytes=True, picture=True, files=("labels",)
    ),
    "as_published": ReaderRow(("inputs", "labels", "ids", *_CELL, "sha256"), ("labels", *_CELL)),
    "torchvision.cifar10": ReaderRow(_SPLIT, ("split",), _BITS32, True, 10, True),
    "torchvision.cifar100": ReaderRow(_SPLIT, ("split",), _BITS32, True, 100, True),
    "torchvision.svhn": ReaderRow(_SPLIT, ("split",), _BITS32, True, 10, True),
    "torchvision.mnist": ReaderRow(_SPLIT, ("split",), _BITS28, True, 10, True),
    "torchvision.fashion_mnist": ReaderRow(_SPLIT, ("split",), _BITS28, True, 10, True),
    "torchvision.imagenet": ReaderRow(_SPLIT, ("split",), None, True, 1000, True),
    "huggingface": ReaderRow(("split", "inputs", "label", "sha256"), ("split", "label")),
}

PUBLISHED: dict[Layout, ReaderRow] = {
    "npz": ReaderRow(("inputs", "labels", "ids", *_CELL, "sha256"), ("inputs", "labels", *_CELL)),
    "csv": ReaderRow(("labels", "ids", *_CELL, "sha256"), ("labels", *_CELL)),
    "arrays": ReaderRow(("labels", *_CELL, "sha256"), ("labels", *_CELL), bytes=True, picture=True),
    "folders": ReaderRow(("labels", *_CELL, "sha256"), ("labels", *_CELL), bytes=True, picture=True),
}
"""The rows of ``as_published`` by the layout of the set."""

RGB_MEANS: tuple[tuple[str, ...], ...] = (
    ("0.485", "0.456", "0.406"),
    ("123.68", "116.779", "103.939"),
    ("123.675", "116.28", "103.53"),
    ("0.4914", "0.4822", "0.4465"),
    ("0.5071", "0.4865", "0.4409"),
)
"""Means of well-known picture sets, red first: one that stands the other way round is a sign of BGR."""

Subject = Literal["threat", "property", "shift"]
Direction = Literal["measured", "robust", "certified"]


@dataclass(frozen=True, slots=True)
class QuantityRow:
    """A quantity that a claim may bind.

    ``of``: the kinds of subject that have it. ``arguments`` beside those that name a point of a curve.
    ``share``: it lies between 0 and 1. ``everywhere``: it does not move along a curve.
    """

    of: frozenset[Subject]
    arguments: tuple[str, ...] = ()
    share: bool = True
    everywhere: bool = False


_THREAT = frozenset[Subject]({"threat"})
_DATA = frozenset[Subject]({"threat", "shift"})
_ANY = frozenset[Subject]({"threat", "shift", "property"})

QUANTITIES: dict[str, QuantityRow] = {
    "survival": QuantityRow(_THREAT, ("part",)),
    "certified": QuantityRow(_THREAT, ("part",)),
    "robust_accuracy": QuantityRow(_THREAT, ("part",)),
    "robust_rate": QuantityRow(_THREAT, ("part",)),
    "clean_accuracy": QuantityRow(_DATA, everywhere=True),
    "clean_answered": QuantityRow(_DATA, everywhere=True),
    "attack_success": QuantityRow(_THREAT, ("attack", "part")),
    "denied": QuantityRow(_THREAT),
    "coverage": QuantityRow(_ANY),
    "attack_coverage": QuantityRow(_THREAT),
    "certificate_coverage": QuantityRow(_THREAT),
    "reviewed": QuantityRow(_THREAT, everywhere=True),
    "corrupted_accuracy": QuantityRow(frozenset[Subject]({"shift"})),
    "median_distance": QuantityRow(_THREAT, ("attack",), share=False),
    "mce": QuantityRow(frozenset[Subject]({"shift"}), ("baseline",), share=False),
    "relative_mce": QuantityRow(frozenset[Subject]({"shift"}), ("baseline",), share=False),
    "holds": QuantityRow(frozenset[Subject]({"property"})),
}
