"""A property as an object to attack: the model it is about, with ``holds`` and ``violated`` as its two classes.

``given`` narrows the space to a box (:func:`box_of`), ``always`` becomes a score that is positive iff it is violated
(:class:`Asserted`). Membership, search, replay and proof then are those of any other threat: anything within the box,
and the label is ``holds``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import torch
from torch import nn

from tmlang.backends.decision import Decision, class_head, compare
from tmlang.backends.deployed import Deployed
from tmlang.backends.steps import value_of
from tmlang.base.exact import round_down
from tmlang.diagnostics.stop import stop
from tmlang.meaning.held import ends, narrowed
from tmlang.meaning.models import Decide, Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Access, Anything, Goal, Mutable, Property, Threat
from tmlang.meaning.values import Symbol

Tensor = torch.Tensor
Literal = tuple[tuple[tuple[int, int], ...], str, Fraction]
"""``sum of sign * output op number``, of (output, sign) pairs: one comparison of outputs (two at most)."""

HOLDS, VIOLATED = 0, 1


def box_of(subject: Property, space: Space) -> Space:
    """``space`` narrowed to what ``given`` allows. A strict bound on a real feature begins at the next float. Raises
    TM212 where nothing is left."""
    cells = list(space.cells)
    for name, op, value in subject.given:
        at = space.features.index(name)
        cells[at] = narrowed(cells[at], op, value, space.dtype)
        if ends(cells[at], space) is None:
            raise stop(
                "TM212", f"no input of {space.name} has {name} {op} {value} beside the other bounds", subject.origin
            )
    return replace(space, cells=tuple(cells), originals="exempt")


def threat_of(subject: Property) -> Threat:
    """Anything within the box, by whoever sees everything."""
    return Threat(
        subject.name, subject.model, "", Anything(), None, Mutable("all"), Goal("untargeted"), Access("white_box"),
        "fail", doc=subject.doc, origin=subject.origin,
    )  # fmt: skip


def asserted_model(model: Model) -> Model:
    """``model`` as it is asked about a property: two classes, and the greater score is decided."""
    return replace(model, classes=("holds", "violated"), decide=Decide("argmax", ties="lowest"), reject=())


class Asserted(nn.Module):
    """External values (n, *shape) to (n, 2): zero, and a score that is positive iff the property is violated.

    The sign follows from exact comparisons of the outputs as the model gives them, never from rounded differences; the
    size (and gradient) is the least slack of the alternatives. NaN where an output is not finite.
    """

    def __init__(self, deployed: Deployed, decision: Decision, subject: Property) -> None:
        super().__init__()
        if decision.model.decide.rule == "threshold":
            raise stop("TM415", f"`{decision.model.name}` has one score, and no output per class to speak of",
                       subject.origin)  # fmt: skip
        self.deployed, self.decision = deployed, decision
        self.classes = decision.model.classes
        self.dtype = deployed.dtype
        self.alternatives = tuple(
            _violation(self.classes.index(name), op, value, self.classes) for name, op, value in subject.always
        )
        """Per alternative how it is violated: any of several, each all of its literals."""
        self.eval()

    @property
    def gradient_stops(self) -> tuple[str, ...]:
        return self.deployed.gradient_stops

    def reseed(self, seed: int) -> None:
        self.deployed.reseed(seed)

    def raw(self, x: Tensor) -> Tensor:
        """(n, K) what the outputs of the classes are, before any decision reads them."""
        raw = self.deployed.raw(x)
        start, width = class_head(self.decision.model) or (0, raw.shape[1])
        return raw[:, start : start + width]

    def forward(self, x: Tensor) -> Tensor:
        raw = self.raw(x)
        violated = _every([_any([_every([_true(t, raw) for t in p]) for p in a]) for a in self.alternatives])
        each = [
            torch.stack([torch.stack([_size(t, raw) for t in part]).amin(0) for part in a]).amax(0)
            for a in self.alternatives
        ]
        size = torch.stack(each).amin(0)
        tiny = torch.finfo(raw.dtype).tiny
        signed = torch.where(violated, size.clamp(min=tiny), size.clamp(max=0)).detach()
        score = torch.where(raw.isfinite().all(dim=1), signed, math.nan)
        if size.requires_grad:
            score = value_of(size, score)
        return torch.stack([torch.zeros_like(score), score], dim=1)

    def violations(self) -> list[list[tuple[Tensor, Tensor]]]:
        """The closed polyhedra that hold all violating outputs: each a list of (row (K,), offset), float64, meaning
        ``row @ outputs + offset >= 0``."""
        made = []
        for choice in product(*self.alternatives):
            literals = [literal for part in choice for literal in part]
            made.append([_row(literal, len(self.classes)) for literal in literals])
        return made


def _violation(c: int, op: str, value: object, classes: Sequence[str]) -> tuple[tuple[Literal, ...], ...]:
    others = [j for j in range(len(classes)) if j != c]
    if op in ("is_not_min", "is_not_max"):
        below = "<=" if op == "is_not_min" else ">="
        return (tuple((((c, 1), (j, -1)), below, Fraction(0)) for j in others),)
    if op in ("is_min", "is_max"):
        beyond = ">" if op == "is_min" else "<"
        return tuple(((((c, 1), (j, -1)), beyond, Fraction(0)),) for j in others)
    left: tuple[tuple[int, int], ...]
    if isinstance(value, Symbol):
        left, edge = ((c, 1), (classes.index(value.name), -1)), Fraction(0)
    else:
        assert isinstance(value, Fraction)
        left, edge = ((c, 1),), value
    opposite = {"<=": (">",), ">=": ("<",), "<": (">=",), ">": ("<=",), "==": ("<", ">")}[op]
    return tuple(((left, o, edge),) for o in opposite)


def _true(literal: Literal, raw: Tensor) -> Tensor:
    terms, op, edge = literal
    if len(terms) == 1:
        return compare(raw[:, terms[0][0]], op, edge)
    a, b = (raw[:, c] for c, _ in terms)
    return {"<=": a <= b, "<": a < b, ">=": a >= b, ">": a > b}[op]


def _size(literal: Literal, raw: Tensor) -> Tensor:
    terms, op, edge = literal
    left = sum((sign * raw[:, c] for c, sign in terms), -float(edge) * torch.ones_like(raw[:, 0]))
    return left if op in (">", ">=") else -left


def _row(literal: Literal, classes: int) -> tuple[Tensor, Tensor]:
    terms, op, edge = literal
    sign = 1 if op in (">", ">=") else -1
    row = torch.zeros(classes, dtype=torch.float64)
    for c, own in terms:
        row[c] += sign * own
    # Rounded up: the closed polyhedron may only grow.
    return row, torch.tensor(-round_down(sign * edge, "float64"), dtype=torch.float64)


def _every(flags: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(flags)).all(dim=0)


def _any(flags: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(flags)).any(dim=0)
