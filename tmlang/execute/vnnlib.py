"""Threats and properties as VNN-LIB files, each with the network that it is about, preprocessing included."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import nn

from tmlang.backends.asserted import Asserted
from tmlang.diagnostics.stop import Stop, stop
from tmlang.execute.arena import Arena, make_arena
from tmlang.execute.world import World
from tmlang.interchange.vnnlib_text import Row, Unsafe, text
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Anything, Ball, Property
from tmlang.plan.ir import EvaluationPlan

POINTS = 8
"""Inputs on which the written network is compared with the model."""


class _Outputs(nn.Module):
    """What a property speaks of: the outputs of the classes."""

    def __init__(self, asserted: Asserted) -> None:
        super().__init__()
        self.asserted = asserted

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.asserted.raw(x)


def files(evaluation: EvaluationPlan, world: World, version: int, spec: str) -> Iterator[tuple[str, bytes]]:
    """(file name, content): the network of an evaluation's subject, then one property per unit that is clean and
    correct. ``spec`` names the spec and its hash in comments.

    Raises :class:`Stop` with TM741 where the set is no box or decisions do not follow from comparing scores, and TM742
    where the model has no ONNX form.
    """
    arena, found = make_arena(evaluation, world)
    if arena is None:
        raise Stop(*found)
    subject = world.plan.subject(evaluation.subject)
    if isinstance(subject, Property) and subject.empty is not None:
        raise stop("TM741", f"{subject.name} speaks of no input: no box holds its {subject.empty}", subject.origin)
    name = _word(subject.name)
    whole: nn.Module = arena.attacked.deployed
    network = _Outputs(whole) if isinstance(whole, Asserted) else whole
    unsafe = _property_rows(whole) if isinstance(whole, Asserted) else _threat_rows(arena)
    classes = whole.classes if isinstance(whole, Asserted) else arena.attacked.model.classes
    yield f"{name}.onnx", _onnx(network, arena)
    low, high = (side.reshape(len(side), -1) for side in arena.sets.outward_box())
    called = _called(arena.sets.space)
    for i, unit in enumerate(arena.units):
        if not (arena.asserts or (unit.applicable and unit.clean == "cc")):
            continue
        box = [
            (Fraction(float(a)), Fraction(float(b)), called[k])
            for k, (a, b) in enumerate(zip(low[i], high[i], strict=True))
        ]
        comments = (spec, f"{subject.name} on {subject.model}, {unit.id}", f"network: {name}.onnx",
                    "sat: an input of the box fails (ties count); decimals are rounded outward")  # fmt: skip
        made = Unsafe(name, arena.sets.space.shape, classes, box, unsafe(i), comments)
        stem = name if arena.asserts else f"{name}-{_word(unit.id)}"
        yield f"{stem}.vnnlib", text(made, version).encode()


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name)


def _called(space: Space) -> list[str]:
    if not space.features:
        return [""] * space.size
    return [f"{n}{f' in {c.unit}' if c.unit else ''}" for n, c in zip(space.features, space.cells, strict=True)]


def _property_rows(asserted: Asserted) -> Callable[[int], list[list[Row]]]:
    rows = [
        [
            (
                tuple((j, int(v)) for j, v in enumerate(row.tolist()) if v),
                Fraction(float(edge)),
            )
            for row, edge in part
        ]
        for part in asserted.violations()
    ]
    return lambda _: rows


def _threat_rows(arena: Arena) -> Callable[[int], list[list[Row]]]:
    threat, model = arena.threat, arena.attacked.model
    rule = model.decide.rule
    box = isinstance(threat.allow, Anything) or (isinstance(threat.allow, Ball) and threat.allow.norm == "linf")
    for what, present in (
        ("its set is no box", not box),
        (f"`decide: {rule}` is no comparison of scores", rule in ("majority", "mean", "most_likely")),
        ("the model may reject", model.abstains),
        ("the model is random", model.random.kind == "per_request"),
    ):  # fmt: skip
        if present:
            raise stop("TM741", f"{threat.name} cannot be said in VNN-LIB: {what}", threat.origin)
    classes, zero = len(model.classes), Fraction(0)

    def rows(i: int) -> list[list[Row]]:
        label = int(arena.y[i])
        if arena.target is None:
            return [[(((j, 1), (label, -1)), zero)] for j in range(classes) if j != label]
        aim = int(arena.target[i])
        return [[(((aim, 1), (j, -1)), zero) for j in range(classes) if j != aim]]

    return rows


def _onnx(network: nn.Module, arena: Arena) -> bytes:
    """The ONNX form of ``network`` (1, *shape) to (1, K), compared with it under onnxruntime."""
    import onnxruntime

    held: Any = io.BytesIO()
    x = arena.x[:POINTS]
    model = arena.attacked.model
    # The exporter prints the graph that it could not write.
    with warnings.catch_warnings(), torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(network, (x[:1],), held, dynamo=False, input_names=["X"], output_names=["Y"])
            session = onnxruntime.InferenceSession(held.getvalue(), providers=["CPUExecutionProvider"])
            theirs = np.concatenate([session.run(None, {"X": row[None].numpy()})[0] for row in x])
        except Exception as fault:
            said = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
            raise stop("TM742", f"{model.name} has no ONNX form: {said}", model.origin) from fault
        ours = network(x).numpy()
    if not np.abs(ours - theirs).max() <= 1e-4 * (1 + np.abs(ours).max()):
        raise stop("TM742", f"the ONNX form of {model.name} differs by {np.abs(ours - theirs).max():.3g}", model.origin)
    return bytes(held.getvalue())
