"""Questions put to model and data before anything is searched (``tmc check --artifacts``, and first in ``tmc run``).

Each probe gives diagnostics: an error where the run would measure something else than the spec says, a warning where a
search is likely to find nothing for the wrong reason.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Literal

import numpy as np
import torch

from tmlang.backends.decision import class_head
from tmlang.diagnostics.model import Diagnostic
from tmlang.execute.evaluator import Evaluator, modules_in_training
from tmlang.meaning.models import Data, Model
from tmlang.meaning.spaces import Space

ROWS = 32
"""Originals that the probes look at."""
_SUM = 1e-3
"""How far from 1 the sum of a row of probabilities may be."""
_BATCH = 1e-3
"""Relative difference between one by one and in a batch that rounding explains."""

OutputKind = Literal["logits", "probabilities", "score"]


def output_kind(raw: torch.Tensor, model: Model) -> OutputKind:
    """What the outputs (n, H) look like: one score under a threshold, rows of probabilities, or logits."""
    if model.decide.rule == "threshold":
        return "score"
    start, width = class_head(model) or (0, raw.shape[1])
    scores = raw[:, start : start + width]
    sums = (scores.sum(dim=1) - 1).abs().max() <= _SUM
    return "probabilities" if bool(sums) and bool((scores >= 0).all()) else "logits"


def probe_outputs(model: Model, raw: torch.Tensor) -> list[Diagnostic]:
    """Number of outputs against classes, and stated against measured kind."""
    expected = 1 if model.decide.rule == "threshold" else len(model.classes)
    head = class_head(model)
    width = head[1] if head else raw.shape[1]
    declared = sum(n for _, n in model.network.outputs) or width
    found: list[Diagnostic] = []
    if (model.network.outputs and raw.shape[1] != declared) or width not in (expected, expected + 1):
        what = "one score" if expected == 1 else f"{expected} classes"
        found.append(
            Diagnostic(
                "TM718",
                f"{model.name} gives {raw.shape[1]} numbers, and {what} are declared",
                model.origin,
                notes=(f"the classes are {', '.join(model.classes[:8])}{' …' if len(model.classes) > 8 else ''}",),
                help="declare as many classes as there are outputs, or name the heads: outputs logits: 10, distance: 1",
            )
        )
        return found
    measured, stated = output_kind(raw, model), model.network.output_kind
    if stated is not None and measured != stated and "score" not in (measured, stated):
        found.append(
            Diagnostic(
                "TM730",
                f"{model.name} is said to give {stated}, and its outputs are {measured}",
                model.origin,
                notes=(f"the rows sum to {float(raw.sum(dim=1).min()):.3g} … {float(raw.sum(dim=1).max()):.3g}",),
            )
        )
    if measured == "probabilities" and stated is None:
        found.append(
            Diagnostic(
                "TM734",
                f"{model.name} gives probabilities, on which losses for logits have vanishing gradients",
                model.origin,
                help="take the softmax off the network (decisions stay the same), or state that it belongs there",
            )
        )
    return found


def probe_mode(model: Model, evaluator: Evaluator) -> list[Diagnostic]:
    """Submodules that stay in training mode although they were told."""
    names = modules_in_training(evaluator.deployed)
    if not names:
        return []
    return [
        Diagnostic(
            "TM719",
            f"{model.name} keeps {', '.join(names[:4])} in training mode",
            model.origin,
            help="a module whose train() ignores its argument cannot be evaluated",
        )
    ]


def probe_randomness(model: Model, evaluator: Evaluator, x: torch.Tensor) -> list[Diagnostic]:
    """A model that is random while ``random: never`` stops the run; rounding between batch sizes is no randomness."""
    if evaluator.probe(x) or model.random.kind == "per_request":
        return []
    if model.decide.rule == "most_likely":
        return []
    first, second = evaluator.outputs(x[:4]), evaluator.outputs(x[:4])
    apart, does = _apart(first, second), "answers the same input differently"
    note = f"the same {len(first)} originals, one at a time, differ by up to {apart:.3g}"
    if not apart:
        does = "draws random numbers when it answers" if evaluator.draws else f"{does} at times"
        note = "four originals gave equal answers just now: what is drawn seldom tells"
    return [
        Diagnostic(
            "TM731",
            f"{model.name} {does}, and says random: {model.random.kind}",
            model.origin,
            notes=(note,),
            help="write random: per request and a success: rule, or take the randomness out (dropout left on?)",
        )
    ]


def _apart(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first - second).abs().max())


def probe_batch(model: Model, evaluator: Evaluator, x: torch.Tensor) -> list[Diagnostic]:
    """An answer that depends on the company in the batch (batch statistics), beyond rounding."""
    drawn = model.random.kind == "per_request" or model.decide.rule == "most_likely"
    if evaluator.decision.draws > 1 or drawn or len(x) < 2:
        return []
    alone = evaluator.outputs(x)
    with torch.no_grad():
        together = evaluator.deployed(x)
    finite = (alone.isfinite() & together.isfinite()).all(dim=1)
    alone, together = alone[finite], together[finite]
    if not len(alone):
        return []
    apart = _apart(alone, together) / max(1.0, float(alone.abs().max()))
    if apart <= _BATCH:
        return []
    flips = int((evaluator.decision(alone) != evaluator.decision(together)).sum())
    return [
        Diagnostic(
            "TM732",
            f"{model.name} answers differently in a batch than alone",
            model.origin,
            notes=(
                f"{len(alone)} originals alone and together differ by {apart:.2g} of the greatest output; "
                f"{flips} decisions change",
            ),
            help="statistics of the batch are part of the answer: searches in batches will look in the wrong place",
        )
    ]


def probe_gradient(model: Model, evaluator: Evaluator, x: torch.Tensor, labels: torch.Tensor) -> list[Diagnostic]:
    """Originals on which the margin has no gradient: a search by gradients finds nothing there for the wrong reason."""
    leaf = x.clone().requires_grad_(True)
    scores = evaluator.deployed(leaf)[:, : len(model.classes)]
    if not scores.requires_grad:
        share = 1.0
    else:
        top = scores.topk(min(2, scores.shape[1]), dim=1).values
        own = scores.gather(1, labels.clamp(min=0)[:, None])[:, 0]
        other = torch.where(top[:, 0] == own, top[:, -1], top[:, 0])
        (gradient,) = torch.autograd.grad((own - other).sum(), leaf, allow_unused=True)
        share = 1.0 if gradient is None else float((gradient.flatten(1).abs().amax(dim=1) == 0).float().mean())
    if share == 0:
        return []
    stops = evaluator.deployed.gradient_stops
    return [
        Diagnostic(
            "TM733",
            f"{model.name} has no gradient on {share:.0%} of {len(x)} originals",
            model.origin,
            notes=(f"no gradient passes {', '.join(stops)}",) if stops else (),
            help="search with `through straight_through`, or with scores (native.square); "
            "survival of gradient attacks says little here",
        )
    ]


_ENGINE = (torch.autograd.grad.__code__, torch.autograd.backward.__code__)
"""Whatever differentiates from Python comes through one of these."""


def probe_optimization(model: Model, evaluator: Evaluator, x: torch.Tensor) -> list[Diagnostic]:
    """A model that differentiates in order to answer: static attacks see its steps as far as it lets them."""
    taken = 0

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal taken
        taken += event == "call" and frame.f_code in _ENGINE

    outer = sys.getprofile()
    try:
        sys.setprofile(watch)
        with torch.no_grad():
            evaluator.deployed(x)
    finally:
        sys.setprofile(outer)
    if not taken:
        return []
    return [
        Diagnostic(
            "TM737",
            f"{model.name} optimizes when it answers: it takes {taken} gradient{'s' * (taken != 1)} of its own",
            model.origin,
            help="add native.square or native.decision_search, which need no gradient; survival of gradient attacks "
            "says little unless they go through these steps",
        )
    ]


def probe_range(data: Data, space: Space, x: np.ndarray) -> list[Diagnostic]:
    """Data that uses next to nothing of its space (bytes declared, shares stored)."""
    cells = {space.cell(i) for i in range(0, space.size, max(1, space.size // 64))} if not space.features else set()
    if len(cells) != 1 or not len(x):
        return []
    (cell,) = cells
    spread = float(x.max()) - float(x.min())
    width = float(cell.high - cell.low)
    if spread >= width / 64:
        return []
    return [
        Diagnostic(
            "TM735",
            f"{data.name} lies between {float(x.min()):.4g} and {float(x.max()):.4g}, "
            f"and {space.name} goes from {float(cell.low):g} to {float(cell.high):g}",
            data.origin,
            help="is the data scaled twice, or the space in other units?",
        )
    ]


def probe_all(
    model: Model, evaluator: Evaluator, x: torch.Tensor, labels: torch.Tensor, *, gradients: bool
) -> list[Diagnostic]:
    """Every probe of a model, on at most :data:`ROWS` originals. ``gradients``: some stage needs them."""
    some, own = x[:ROWS], labels[:ROWS]
    with torch.no_grad():
        raw = evaluator.deployed.raw(some)
    found = probe_outputs(model, raw)
    if any(d.is_error for d in found):
        return found
    found += probe_mode(model, evaluator)
    found += probe_randomness(model, evaluator, some)
    if any(d.is_error for d in found):
        return found
    found += probe_batch(model, evaluator, some)
    found += probe_optimization(model, evaluator, some[:2])
    if gradients:
        found += probe_gradient(model, evaluator, some, own)
    return found
