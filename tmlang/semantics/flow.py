"""What is known of an input on its way through steps: shape, range and the map from the external space, exactly.

A flow starts at a space (or at what a reader hands over) and takes one step after another; each step says what does
not fit. Numbers are per channel or feature, or one for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import cast

from tmlang.base.frozen import dataclass
from tmlang.base.source import Span
from tmlang.diagnostics.model import Label
from tmlang.meaning.spaces import Space
from tmlang.meaning.values import Symbol, Value
from tmlang.semantics.builtins import RGB_MEANS
from tmlang.semantics.scope import World
from tmlang.semantics.steps import Written
from tmlang.semantics.values import show
from tmlang.syntax import ast

Interval = tuple[Fraction, Fraction]
Affine = tuple[Fraction, Fraction]
"""(a, b) of ``a * external + b``."""


@dataclass(frozen=True, slots=True)
class Flow:
    """``ranges`` and ``affine`` have one entry, or one per channel (feature); ``None`` where not known.

    ``categories`` gives the choices of each feature (0 for a number). ``normalized`` is the last ``normalize`` that
    nothing has undone, ``scaled`` the last ``scale``.
    """

    owner: str
    shape: tuple[int, ...] | None = None
    axis: int | None = None
    features: tuple[str, ...] = ()
    categories: tuple[int, ...] = ()
    order: str | None = None
    ranges: tuple[Interval, ...] | None = None
    affine: tuple[Affine, ...] | None = None
    normalized: Span | None = None
    scaled: Span | None = None

    @property
    def width(self) -> int | None:
        """Entries of a vector along the channels or features; ``None`` when there are none or nobody knows."""
        return None if self.shape is None or self.axis is None else self.shape[self.axis]

    @property
    def noun(self) -> str:
        return "features" if self.features or (self.shape is not None and len(self.shape) == 1) else "channels"


def of_space(space: Space) -> Flow:
    """The flow that starts at an external space."""
    ranges = tuple((c.low, c.high) for c in space.cells)
    axis = 0 if len(space.shape) == 1 else space.channel_axis
    categories = tuple(len(c.categories) for c in space.cells) if space.features else ()
    return Flow(
        space.name,
        space.shape,
        axis,
        space.features,
        categories,
        space.order,
        ranges,
        tuple((Fraction(1), Fraction(0)) for _ in ranges),
    )


def through(world: World, flow: Flow, written: Written) -> Flow:
    """The flow behind one step; what does not fit is reported and then left as it was."""
    rule = _RULES.get(written.step.name)
    return rule(world, flow, written) if rule else flow


def pieces(v: Value) -> tuple[Fraction, ...]:
    """A number or tuple of numbers as a tuple."""
    return cast("tuple[Fraction, ...]", v) if isinstance(v, tuple) else (cast(Fraction, v),)


def _fits(world: World, flow: Flow, written: Written, name: str) -> tuple[Fraction, ...] | None:
    """A vector argument if its length is that of the channels or features."""
    got = pieces(written.get(name))
    if len(got) == 1 or flow.shape is None or len(got) == flow.width:
        return got
    has = f"{flow.width} {flow.noun}" if flow.width is not None else f"no channels, its shape is {flow.shape}"
    world.report("TM303", f"{flow.owner} has {has}, this {name} has {len(got)}", written.nodes[name])
    return None


def _mapped(flow: Flow, factor: tuple[Fraction, ...], offset: tuple[Fraction, ...]) -> Flow:
    """``x * factor + offset``."""
    n = max(len(factor), len(offset), len(flow.ranges or ()), len(flow.affine or ()))
    at: Callable[[tuple[Fraction, ...], int], Fraction] = lambda v, i: v[i] if len(v) > 1 else v[0]  # noqa: E731
    ranges = None
    if flow.ranges:
        pairs = [flow.ranges[i if len(flow.ranges) > 1 else 0] for i in range(n)]
        ends = [[at(factor, i) * end + at(offset, i) for end in pair] for i, pair in enumerate(pairs)]
        ranges = tuple((min(e), max(e)) for e in ends)
    affine = None
    if flow.affine:
        maps = [flow.affine[i if len(flow.affine) > 1 else 0] for i in range(n)]
        affine = tuple((a * at(factor, i), b * at(factor, i) + at(offset, i)) for i, (a, b) in enumerate(maps))
    return replace(flow, ranges=ranges, affine=affine)


def _one(v: Fraction) -> tuple[Fraction, ...]:
    return (v,)


def _highest(flow: Flow) -> Fraction | None:
    return max(high for _, high in flow.ranges) if flow.ranges else None


def _scale(world: World, flow: Flow, w: Written) -> Flow:
    factor = cast(Fraction, w.get("factor"))
    high = _highest(flow)
    if 0 < factor <= Fraction(1, 100) and high is not None and 0 < high <= 1 and not flow.features:
        labels = (Label(flow.scaled, "it is scaled here already"),) if flow.scaled else ()
        world.report(
            "TM305",
            f"the values reach only {show(high)} here, and scale({show(factor)}) makes {show(high * factor)} of them",
            w.call,
            labels=labels,
            help="leave it out: it is for values up to 255",
        )
        return flow
    return replace(_mapped(flow, _one(factor), _one(Fraction(0))), scaled=w.call.span)


def _shift(sign: int) -> Callable[[World, Flow, Written], Flow]:
    def rule(_: World, flow: Flow, w: Written) -> Flow:
        return _mapped(flow, _one(Fraction(1)), _one(sign * cast(Fraction, w.get("by"))))

    return rule


def _clip(world: World, flow: Flow, w: Written) -> Flow:
    low, high = cast(Fraction, w.get("low")), cast(Fraction, w.get("high"))
    if low >= high:
        world.report("TM212", f"nothing lies between {show(low)} and {show(high)}", w.call)
        return flow
    ranges = flow.ranges and tuple((max(a, low), min(b, high)) for a, b in flow.ranges)
    return replace(flow, ranges=ranges, affine=None)


def _normalize(world: World, flow: Flow, w: Written) -> Flow:
    if flow.normalized is not None:
        labels = (Label(flow.normalized, "the first time"),)
        world.report("TM304", "the input is normalized here for the second time", w.call, labels=labels)
        return flow
    mean, std = _fits(world, flow, w, "mean"), _fits(world, flow, w, "std")
    if mean is None or std is None or _no_spread(world, std, w) or _unlike(mean, std):
        return replace(flow, ranges=None, affine=None, normalized=w.call.span)
    if not flow.features:
        _plausible(world, flow, mean, w)
        _in_order(world, flow, mean, w)
    n = max(len(mean), len(std))
    pairs = [(mean[i if len(mean) > 1 else 0], std[i if len(std) > 1 else 0]) for i in range(n)]
    mapped = _mapped(flow, tuple(1 / s for _, s in pairs), tuple(-m / s for m, s in pairs))
    return replace(mapped, normalized=w.call.span)


def _unlike(mean: tuple[Fraction, ...], std: tuple[Fraction, ...]) -> bool:
    """Of different lengths, which was said already, or nothing is known about what they are for."""
    return len(mean) != len(std) and min(len(mean), len(std)) > 1


def _no_spread(world: World, std: tuple[Fraction, ...], w: Written) -> bool:
    if all(s > 0 for s in std):
        return False
    world.report("TM308", "a standard deviation is greater than zero", w.nodes["std"])
    return True


def _plausible(world: World, flow: Flow, mean: tuple[Fraction, ...], w: Written) -> None:
    """Means between 0 and 1 are of pictures between 0 and 1, means of dozens are of bytes."""
    high = _highest(flow)
    if high is None:
        return
    if high >= 64 and all(0 < m < 1 for m in mean):
        help = "insert step: scale(1/255) before it"
        world.report(
            "TM305", f"the values reach {show(high)} here, and these means are of values up to 1", w.call, help=help
        )
    elif high <= 1 and all(m > 32 for m in mean):
        help = "divide mean and std by 255"
        world.report("TM305", f"the values reach {show(high)} here, and these means are of bytes", w.call, help=help)


def _in_order(world: World, flow: Flow, mean: tuple[Fraction, ...], w: Written) -> None:
    """Well-known means in the other order than the picture's channels, or channels whose order nobody knows."""
    if (
        flow.order is None
        and flow.shape is not None
        and len(flow.shape) == 3
        and flow.width == 3
        and len(set(mean)) > 1
    ):
        world.report(
            "TM321",
            f"the channels of {flow.owner} have means of their own here, and nothing says in which order they come",
            w.nodes["mean"],
            help="write order rgb (or bgr) behind the space",
        )
    known = [tuple(map(Fraction, m)) for m in RGB_MEANS]
    written = "rgb" if mean in known else "bgr" if mean[::-1] in known else None
    if written and flow.order and written != flow.order:
        first = {"rgb": "red", "bgr": "blue"}
        world.report(
            "TM306",
            f"these means begin with {first[written]}, and the picture with {first[flow.order]}",
            w.nodes["mean"],
            help=f"insert step: channels({written}) before it, or turn the means round",
        )


def _denormalize(world: World, flow: Flow, w: Written) -> Flow:
    mean, std = _fits(world, flow, w, "mean"), _fits(world, flow, w, "std")
    if mean is None or std is None or _no_spread(world, std, w) or _unlike(mean, std):
        return replace(flow, ranges=None, affine=None, normalized=None)
    return replace(_mapped(flow, std, mean), normalized=None)


def _permute(world: World, flow: Flow, w: Written) -> Flow:
    source, target = cast(Symbol, w.get("source")).name, cast(Symbol, w.get("target")).name
    if flow.shape is None:
        return flow
    if len(flow.shape) != 3:
        world.report("TM316", f"{flow.owner} has the shape {flow.shape}, and only pictures are permuted", w.call)
        return flow
    if flow.axis is not None and source.index("c") != flow.axis:
        is_now = "chw" if flow.axis == 0 else "hwc"
        world.report(
            "TM316", f"the picture is {flow.shape} here, which is {is_now} and not {source}", w.nodes["source"]
        )
        return flow
    return replace(flow, shape=tuple(flow.shape[source.index(c)] for c in target), axis=target.index("c"))


def _channels(world: World, flow: Flow, w: Written) -> Flow:
    order = cast(Symbol, w.get("order")).name
    if flow.shape is not None and flow.width != 3:
        world.report("TM306", f"{flow.owner} has no three channels to turn round", w.call)
        return flow
    if flow.order is None:
        help = "write order rgb (or bgr) behind the space"
        world.report("TM306", f"nothing says in which order the channels of {flow.owner} come", w.call, help=help)
    elif flow.order == order:
        world.report("TM306", f"the channels are {order} here already", w.call)
    turn: Callable[[tuple[Interval, ...] | None], tuple[Interval, ...] | None] = lambda v: v and v[::-1]  # noqa: E731
    return replace(flow, order=order, ranges=turn(flow.ranges), affine=turn(flow.affine))


def _sized(world: World, flow: Flow, w: Written, grow: bool) -> Flow:
    """A new height and width, at most the old ones unless ``grow``."""
    height, width = w.get("height"), w.get("width")
    flow = replace(flow, affine=flow.affine if w.step.name.endswith("crop") else None)
    if height is None or width is None:
        return replace(flow, shape=None)
    if flow.shape is None:
        return flow
    if len(flow.shape) != 3 or flow.axis is None:
        world.report("TM308", f"{flow.owner} has the shape {flow.shape}, and this step is for pictures", w.call)
        return flow
    new = [int(cast(Fraction, height)), int(cast(Fraction, width))]
    old = [d for i, d in enumerate(flow.shape) if i != flow.axis]
    offset = [int(cast(Fraction, w.get(k) or Fraction(0))) for k in ("top", "left")]
    if not grow and any(o + n > d for o, n, d in zip(offset, new, old, strict=True)):
        world.report("TM308", f"{new[0]} by {new[1]} does not fit into {old[0]} by {old[1]}", w.call)
        return flow
    if new == old:
        world.report("TM320", f"{new[0]} by {new[1]} is the size that the picture has already", w.call)
    new.insert(flow.axis, flow.shape[flow.axis])
    return replace(flow, shape=tuple(new))


def _crop(world: World, flow: Flow, w: Written) -> Flow:
    return _sized(world, flow, w, grow=False)


def _resize(world: World, flow: Flow, w: Written) -> Flow:
    return _sized(world, flow, w, grow=True)


def _pad(world: World, flow: Flow, w: Written) -> Flow:
    fill, by = cast(Fraction, w.get("fill")), int(cast(Fraction, w.get("by")))
    ranges = flow.ranges and tuple((min(a, fill), max(b, fill)) for a, b in flow.ranges)
    if flow.shape is None:
        return replace(flow, ranges=ranges)
    if len(flow.shape) != 3 or flow.axis is None:
        world.report("TM308", f"{flow.owner} has the shape {flow.shape}, and this step is for pictures", w.call)
        return flow
    shape = tuple(d if i == flow.axis else d + 2 * by for i, d in enumerate(flow.shape))
    return replace(flow, shape=shape, ranges=ranges, affine=None)


def _unit_range(world: World, flow: Flow, w: Written) -> Flow:
    """Steps that are defined on values between 0 and 1."""
    if flow.ranges and any(a < 0 or b > 1 for a, b in flow.ranges):
        low, high = min(a for a, _ in flow.ranges), max(b for _, b in flow.ranges)
        world.report(
            "TM305", f"{w.step.name} takes values in [0, 1], and they lie in [{show(low)}, {show(high)}]", w.call
        )
    if w.step.name == "quantize" and cast(Fraction, w.get("levels")) < 2:
        world.report("TM308", "one level is a constant: there are at least 2", w.nodes["levels"])
    if w.step.name == "jpeg" and cast(Fraction, w.get("quality")) > 100:
        world.report("TM308", "the quality of JPEG runs from 1 to 100", w.nodes["quality"])
    return replace(flow, affine=None)


def _picture_filter(world: World, flow: Flow, w: Written) -> Flow:
    if flow.shape is not None and len(flow.shape) != 3:
        world.report("TM308", f"{flow.owner} has the shape {flow.shape}, and this step is for pictures", w.call)
    elif cast(Fraction, w.get("size")) % 2 == 0 and w.step.name == "mean_filter":
        world.report("TM308", "a window with a middle has an odd size", w.nodes["size"])
    return replace(flow, affine=None)


def _noise(_: World, flow: Flow, __: Written) -> Flow:
    return replace(flow, ranges=None)


def _one_hot(world: World, flow: Flow, w: Written) -> Flow:
    """Each named category feature becomes one column per choice, in place."""
    names = cast("tuple[str, ...]", w.get("features"))
    if flow.shape is None:  # of a space with errors of its own nobody knows what it has
        return flow
    if not flow.features:
        world.report("TM308", f"{flow.owner} has no features to spread", w.call)
        return flow
    for name, node in zip(names, cast(ast.List, w.nodes["features"]).items, strict=True):
        if name not in flow.features:
            world.unknown("TM110", cast(ast.Name, node), "feature", list(flow.features), flow.owner)
            return flow
        if not flow.categories[flow.features.index(name)]:
            world.report("TM308", f"{name} is no choice", node)
            return flow
    columns: list[tuple[str, int, Interval, Affine | None]] = []
    for i, name in enumerate(flow.features):
        n = flow.categories[i]
        affine = flow.affine[i] if flow.affine else None
        interval = flow.ranges[i] if flow.ranges else (Fraction(0), Fraction(1))
        if name in names:
            columns += [(f"{name}={k}", 0, (Fraction(0), Fraction(1)), affine) for k in range(n)]
        else:
            columns.append((name, n, interval, affine))
    return replace(
        flow,
        shape=(len(columns),),
        features=tuple(c[0] for c in columns),
        categories=tuple(c[1] for c in columns),
        ranges=tuple(c[2] for c in columns) if flow.ranges else None,
        affine=tuple(cast(Affine, c[3]) for c in columns) if flow.affine else None,
    )


def _minmax(world: World, flow: Flow, w: Written) -> Flow:
    if flow.normalized is not None:
        labels = (Label(flow.normalized, "the first time"),)
        world.report("TM304", "the input is normalized here for the second time", w.call, labels=labels)
    if w.get("low") is None or w.get("high") is None:
        return replace(flow, ranges=None, affine=None, normalized=w.call.span)
    low, high = _fits(world, flow, w, "low"), _fits(world, flow, w, "high")
    if low is None or high is None:
        return replace(flow, ranges=None, affine=None, normalized=w.call.span)
    n = max(len(low), len(high))
    pairs = [(low[i if len(low) > 1 else 0], high[i if len(high) > 1 else 0]) for i in range(n)]
    if any(a >= b for a, b in pairs):
        world.report("TM212", "every low end lies below its high end", w.call)
        return replace(flow, ranges=None, affine=None, normalized=w.call.span)
    mapped = _mapped(flow, tuple(1 / (b - a) for a, b in pairs), tuple(-a / (b - a) for a, b in pairs))
    return replace(mapped, normalized=w.call.span)


_RULES: dict[str, Callable[[World, Flow, Written], Flow]] = {
    "scale": _scale,
    "subtract": _shift(-1),
    "add": _shift(1),
    "clip": _clip,
    "normalize": _normalize,
    "denormalize": _denormalize,
    "permute": _permute,
    "channels": _channels,
    "resize": _resize,
    "center_crop": _crop,
    "crop": _crop,
    "pad": _pad,
    "quantize": _unit_range,
    "jpeg": _unit_range,
    "mean_filter": _picture_filter,
    "median_filter": _picture_filter,
    "noise": _noise,
    "one_hot": _one_hot,
    "minmax": _minmax,
}
