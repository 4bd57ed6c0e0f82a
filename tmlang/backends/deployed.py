"""The attacked object as one torch module: every step in front of the network, the network, what stands behind it.

``Deployed`` maps external values (n, *shape), as the space's floats (bytes come as 0..255), to class scores (n, K): the
greater the score, the closer the class is to being decided, whatever the rule (``argmin`` is negated, one score is
lifted to two). Heads beyond the classes (a detector's distance) follow as further columns. ``backends.decision`` reads
classes off these columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, cast

import torch
from torch import nn

from tmlang.backends import steps as s
from tmlang.backends.decision import class_head, exact_edge
from tmlang.backends.steps import Layout, Tensor, vector
from tmlang.diagnostics.stop import stop
from tmlang.meaning.models import Model, Step
from tmlang.meaning.spaces import Space
from tmlang.meaning.values import Artifact, Quantity, Symbol

ReadFile = Callable[[Artifact], bytes]
"""Gives the verified bytes of a file that a step names."""


def _number(value: object) -> Fraction:
    return value.value if isinstance(value, Quantity) else cast(Fraction, value)


def _word(value: object) -> str:
    return value.name if isinstance(value, Symbol) else str(value)


def _numbers(value: object, layout: Layout) -> Fraction | list[Fraction]:
    """A number, a tuple along the channels or features, or (feature, number) pairs of which the unnamed are zero."""
    if not isinstance(value, tuple):
        return _number(value)
    if value and isinstance(value[0], tuple):
        given = {_word(name): _number(number) for name, number in cast(tuple[tuple[Any, Any], ...], value)}
        return [given.get(name, Fraction(0)) for name in layout.names]
    return [_number(v) for v in value]


def external_layout(space: Space, steps: Sequence[Step]) -> Layout:
    """The layout at the door: features lie along axis 0; channels of a picture where the first ``permute`` says, or
    else in front, as torch has them."""
    if space.features:
        return Layout(space.shape, 0, space.features)
    if space.channel_axis is not None:
        return Layout(space.shape, space.channel_axis)
    permute = next((step for step in steps if step.name == "permute"), None)
    source = _word(dict(permute.args)["source"]) if permute else "chw"
    return Layout(space.shape, source.index("c") if len(space.shape) == 3 else 0)


def _minmax(args: dict[str, Any], layout: Layout, read: ReadFile, step: Step) -> s.Step:
    """``(x - low) / (high - low)``; the file is JSON ``{"feature": [low, high], …}`` and names every column that is not
    one of a ``one_hot``."""
    if "file" not in args:
        low, high = (_numbers(args[k], layout) for k in ("low", "high"))
    else:
        table = _scaler(read(args["file"]), layout, step)
        low, high = [table[n][0] for n in layout.names], [table[n][1] for n in layout.names]
    width = cast(int, layout.width)
    lows = low if isinstance(low, list) else [low] * width
    highs = high if isinstance(high, list) else [high] * width
    spans = [h - a for a, h in zip(lows, highs, strict=True)]
    return s.Affine(subtract=vector(lows, layout), divide=vector(spans, layout))


def _scaler(data: bytes, layout: Layout, step: Step) -> dict[str, tuple[Fraction, Fraction]]:
    """The ranges of a ``minmax`` file by column; one-hot columns keep [0, 1]."""
    try:
        raw = json.loads(data, parse_float=Fraction, parse_int=Fraction)
        table = {str(name): (Fraction(pair[0]), Fraction(pair[1])) for name, pair in raw.items()}
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as e:
        raise stop(
            "TM712",
            "the file of `minmax` is no table of ranges",
            step.origin,
            notes=(f"reading it failed: {e}",),
            help='write JSON of the form {"temp": [-40, 85], "load": [0, 2]}',
        ) from e
    plain = [n for n in layout.names if "=" not in n]
    if missing := [n for n in plain if n not in table]:
        raise stop("TM721", f"the file of `minmax` has no range for {', '.join(missing)}", step.origin)
    if extra := [n for n in table if n not in layout.names]:
        raise stop("TM721", f"the file of `minmax` has ranges for {', '.join(extra)}, which is not here", step.origin)
    if flat := [n for n in table if table[n][0] >= table[n][1]]:
        raise stop("TM712", f"the file of `minmax` gives {', '.join(flat)} an empty range", step.origin)
    return {n: table.get(n, (Fraction(0), Fraction(1))) for n in layout.names}


def _one_hot(args: dict[str, Any], layout: Layout, space: Space) -> list[s.Step]:
    built: list[s.Step] = []
    for value in args["features"]:
        feature = _word(value)
        cell = space.cell(space.features.index(feature))
        step = s.OneHot(layout.names.index(feature), cell.categories, feature)
        layout = step.out(layout)
        built.append(step)
    return built


def _resize(args: dict[str, Any], layout: Layout) -> s.Step:
    height, width = layout.shape[-2:]
    if "shorter" in args:
        shorter = int(_number(args["shorter"]))
        ratio = Fraction(shorter, min(height, width))
        # The longer side is cut, not rounded, as torchvision does it.
        height, width = int(height * ratio), int(width * ratio)
    else:
        height, width = int(_number(args["height"])), int(_number(args["width"]))
    return s.Resize(height, width, _word(args["filter"]))


def _center_crop(args: dict[str, Any], layout: Layout) -> s.Step:
    height, width = int(_number(args["height"])), int(_number(args["width"]))
    top, left = (layout.shape[-2] - height) // 2, (layout.shape[-1] - width) // 2
    return s.Crop(top, left, height, width)


def _jpeg(args: dict[str, Any], step: Step) -> s.Step:
    import PIL

    wanted = str(args["encoder"])
    installed = f"pillow {PIL.__version__}"
    if not (installed + ".").startswith(wanted.lower() + "."):
        raise stop(
            "TM729",
            f"the spec encodes with {wanted}, and {installed} is installed",
            step.origin,
            notes=("another encoder gives other pixels, so it is another object",),
            help=f'install {wanted}, or write encoder: "{installed}" if that is what is deployed',
        )
    return s.Jpeg(int(_number(args["quality"])), str(args["subsampling"]))


def build_step(step: Step, layout: Layout, space: Space, read: ReadFile, seed: int | None = None) -> list[s.Step]:
    """The module(s) of one step whose input has ``layout``; numbers are float64 until the object is cast.

    Raises :class:`~tmlang.diagnostics.stop.Stop` where a file or an installed encoder does not suit.
    """
    args: dict[str, Any] = dict(step.args)

    def whole(name: str) -> int:
        return int(_number(args[name]))

    def along(name: str) -> Tensor:
        return vector(_numbers(args[name], layout), layout)

    table: dict[str, Callable[[], s.Step]] = {
        "scale": lambda: s.scale(_number(args["factor"])),
        "subtract": lambda: s.Affine(subtract=along("by")),
        "add": lambda: s.Affine(add=along("by")),
        "clip": lambda: s.Clip(_number(args["low"]), _number(args["high"])),
        "normalize": lambda: s.Affine(subtract=along("mean"), divide=along("std")),
        "denormalize": lambda: s.Affine(multiply=along("std"), add=along("mean")),
        "permute": lambda: s.Permute(_word(args["source"]), _word(args["target"])),
        "channels": lambda: s.ReverseChannels(cast(int, layout.axis)),
        "resize": lambda: _resize(args, layout),
        "crop": lambda: s.Crop(whole("top"), whole("left"), whole("height"), whole("width")),
        "center_crop": lambda: _center_crop(args, layout),
        "pad": lambda: s.Pad(whole("by"), _number(args["fill"])),
        "quantize": lambda: s.Quantize(whole("levels")),
        "jpeg": lambda: _jpeg(args, step),
        "mean_filter": lambda: s.MeanFilter(whole("size")),
        "median_filter": lambda: s.MedianFilter(whole("size")),
        "noise": lambda: s.Noise(_word(args["kind"]), along("sigma"), seed),
        "minmax": lambda: _minmax(args, layout, read, step),
        "softmax": s.Softmax,
    }
    if step.name == "one_hot":
        return _one_hot(args, layout, space)
    if step.name not in table:
        raise stop("TM826", f"the step `{step.name}` is not built as part of a model", step.origin)
    return [table[step.name]()]


def build_steps(
    steps: Sequence[Step], layout: Layout, space: Space, read: ReadFile, seed: int | None = None
) -> tuple[list[s.Step], Layout]:
    """The modules of a chain of steps, and the layout behind the last."""
    built: list[s.Step] = []
    for step in steps:
        for module in build_step(step, layout, space, read, seed):
            built.append(module)
            layout = module.out(layout)
    return built, layout


class Lift(nn.Module):
    """Raw outputs to class scores, other heads behind them. ``argmin`` is negated; one score ``s`` under
    ``threshold s >= v then P else N`` becomes ``s - v`` for P and 0 for N, so P is decided iff its score is positive
    (or zero, where the rule's equality says so). ``v`` is the float next to the exact threshold on the side that keeps
    every comparison exact.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.decide, self.classes = model.decide, model.classes
        self.head = class_head(model)

    def forward(self, raw: Tensor) -> Tensor:
        start, width = self.head or (0, raw.shape[1])
        scores = self._scores(raw[:, start : start + width])
        if width == raw.shape[1]:
            return scores
        return torch.cat([scores, raw[:, :start], raw[:, start + width :]], dim=1)

    def _scores(self, raw: Tensor) -> Tensor:
        if self.decide.rule == "argmin":
            return -raw
        if self.decide.rule != "threshold":
            return raw
        op, value, positive = self.decide.op, self.decide.value, self.decide.positive
        assert op is not None and value is not None and positive is not None  # noqa: PT018
        edge = exact_edge(value, raw.dtype, up=op in (">=", "<"))
        lifted = raw - edge if op in (">=", ">") else edge - raw
        columns = [torch.zeros_like(lifted), lifted]
        return torch.cat(columns if self.classes.index(positive) == 1 else columns[::-1], dim=1)


class Deployed(nn.Module):
    """The attacked object of ``model`` around ``network``, in evaluation mode, cast to the network's dtype.

    ``dtype``: in which it computes; external values of another dtype are cast at the door. ``straight_through``
    replaces every step without a gradient by its own values and its surrogate's gradient.
    """

    def __init__(
        self, model: Model, space: Space, network: nn.Module, read: ReadFile, *, straight_through: bool = False
    ) -> None:
        super().__init__()
        self.dtype = next((p.dtype for p in network.state_dict().values() if p.is_floating_point()), torch.float32)
        seed = model.random.seed if model.random.kind == "seeded" else None
        front, _ = build_steps(model.steps, external_layout(space, model.steps), space, read, seed)
        width = sum(n for _, n in model.network.outputs) or len(model.classes)
        back, _ = build_steps(model.post_steps, Layout((width,), 0), space, read, seed)
        through = s.StraightThrough if straight_through else None
        self.steps = nn.ModuleList(through(f) if through and not f.differentiable else f for f in front)
        self.network = network
        self.post_steps = nn.ModuleList(back)
        self.lift = Lift(model)
        self.to(self.dtype)
        self.eval()

    def raw(self, x: Tensor) -> Tensor:
        """What stands behind ``network:`` and its steps, before the decision's reading: (n, H)."""
        x = x.to(self.dtype)
        for step in self.steps:
            x = step(x)
        # A network that normalizes in place writes to its own copy, never to the originals.
        out = joined(self.network(x.clone()))
        for step in self.post_steps:
            out = step(out)
        return out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.lift(self.raw(x))
        return out

    @property
    def gradient_stops(self) -> tuple[str, ...]:
        """The steps through which no gradient passes, by class name."""
        return tuple(type(f).__name__ for f in self.steps if not cast(s.Step, f).differentiable)

    def reseed(self, seed: int) -> None:
        """Start every stream of noise anew (steps with a written seed start anew at each request anyway)."""
        for i, module in enumerate(m for m in self.modules() if isinstance(m, s.Noise)):
            module.reseed(seed + i)


class Expectation(nn.Module):
    """The object as ``through expectation(draws: n)`` sees it: the mean of the outputs of ``draws`` forward passes
    (expectation over transformation; Athalye et al., ICML 2018). One row of input costs ``rows`` rows of queries.
    ``answer``: what each pass shows of its outputs, where that is not all."""

    def __init__(self, deployed: nn.Module, draws: int, answer: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.deployed, self.rows, self.answer = deployed, draws, answer

    def forward(self, x: Tensor) -> Tensor:
        passes = [self.deployed(x) for _ in range(self.rows)]
        return torch.stack(passes if self.answer is None else [self.answer(out) for out in passes]).mean(dim=0)


class Ensemble(nn.Module):
    """Several networks behind the same input, joined as ``rule`` says: ``mean of logits``, ``mean of probabilities``
    (softmax first, unless a member gives probabilities: ``shares``), or ``majority of classes`` (shares of the votes by
    argmax, ties to the lowest; no gradient)."""

    def __init__(self, members: Sequence[nn.Module], rule: str, shares: Sequence[bool]) -> None:
        super().__init__()
        self.members, self.rule, self.shares = nn.ModuleList(members), rule, tuple(shares)

    def forward(self, x: Tensor) -> Tensor:
        outputs = [joined(member(x.clone())) for member in self.members]
        if self.rule == "mean of probabilities":
            pairs = zip(outputs, self.shares, strict=True)
            outputs = [out if done else out.softmax(dim=1) for out, done in pairs]
        if self.rule == "majority of classes":
            outputs = [_vote(out) for out in outputs]
        return torch.stack(outputs).mean(dim=0)


def _vote(outputs: Tensor) -> Tensor:
    """One-hot of the greatest output, the lowest of equals."""
    columns = torch.arange(outputs.shape[1])
    top = outputs == outputs.amax(dim=1, keepdim=True)
    lowest = torch.where(top, columns, outputs.shape[1]).amin(dim=1)
    return torch.nn.functional.one_hot(lowest, outputs.shape[1]).to(outputs.dtype)


def joined(outputs: Any) -> Tensor:
    """Several heads (a tuple, or a mapping in its own order) side by side as columns; a vector of scores as one."""
    if isinstance(outputs, dict):
        outputs = tuple(outputs.values())
    if isinstance(outputs, (tuple, list)):
        return torch.cat([joined(o) for o in outputs], dim=1)
    tensor: Tensor = outputs
    return tensor[:, None] if tensor.ndim == 1 else tensor
