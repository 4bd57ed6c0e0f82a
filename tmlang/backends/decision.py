"""How outputs become a class: the decision rule, its ties, and the rejection rule (LANGUAGE.md section 4).

All comparisons with numbers of the spec are exact: against the neighbouring float on the right side, never against a
rounded constant.
"""

from __future__ import annotations

from fractions import Fraction
from math import log

import torch

from tmlang.audit.record import REJECTED, UNDECIDED
from tmlang.meaning.models import Model, RejectWhen

Tensor = torch.Tensor

NO_DECISION, TIED, NON_FINITE, NON_FINITE_FAILS, RAISED, UNSTABLE = range(-2, -8, -1)
"""No class and no rejection, for one of the reasons of :data:`WHY`; all below ``REJECTED``. Only ``NON_FINITE_FAILS``
is an answer: it fails for every label (``non_finite fail``)."""

WHY = dict(zip(range(-2, -8, -1), UNDECIDED, strict=True))
"""The word of ``audit.record.UNDECIDED`` for each code."""


def why(decision: int) -> str | None:
    """Why there is no decision, as a row tells it; ``None`` for a class or a rejection."""
    return UNDECIDED[WHY[decision]] if decision in WHY else None


def is_open(decisions: Tensor) -> Tensor:
    """Where nothing is known: no class, no rejection, and no answer that fails for every label."""
    return (decisions < REJECTED) & (decisions != NON_FINITE_FAILS)


def exact_edge(value: Fraction, dtype: torch.dtype, *, up: bool) -> float:
    """The least float of ``dtype`` that is at least ``value`` (``up``) or the greatest that is at most ``value``.

    ``s >= value`` iff ``s >= edge(up)``, ``s > value`` iff ``s > edge(down)``, and so for ``<`` (up) and ``<=`` (down).
    """
    near = torch.tensor(float(value), dtype=torch.float64).to(dtype)
    infinity = torch.tensor(float("inf"), dtype=dtype)
    if up and Fraction(near.item()) < value:
        near = torch.nextafter(near, infinity)
    if not up and Fraction(near.item()) > value:
        near = torch.nextafter(near, -infinity)
    return float(near)


def compare(values: Tensor, op: str, value: Fraction) -> Tensor:
    """``values op value`` for every entry, exactly."""
    edge = exact_edge(value, values.dtype, up=op in (">=", "<"))
    if op == ">=":
        return values >= edge
    if op == ">":
        return values > edge
    if op == "<":
        return values < edge
    if op == "<=":
        return values <= edge
    return (values == edge) if Fraction(edge) == value else torch.zeros_like(values, dtype=torch.bool)


class Decision:
    """Classes of a model from the outputs of its :class:`~tmlang.backends.deployed.Deployed` module.

    ``draws``: how many forward passes one decision takes. Call it with outputs (n, H), or (draws, n, H) for
    ``majority`` and ``mean``; gives int64 (n,): classes 0 to K-1, ``REJECTED``, or a code of :data:`WHY`.
    ``probabilities``: the outputs are probabilities already (matters to ``max_softmax`` only).
    """

    def __init__(self, model: Model, *, probabilities: bool = False) -> None:
        self.model = model
        self.draws = model.decide.draws or 1
        self.probabilities = probabilities
        self._heads = _other_heads(model)

    def __call__(self, outputs: Tensor) -> Tensor:
        rule = self.model.decide.rule
        if rule == "majority":
            return self._majority(outputs if outputs.ndim == 3 else outputs[None])
        if rule == "mean" and outputs.ndim == 3:
            outputs = outputs.mean(dim=0)
        decided = self._pick(outputs)
        for condition in self.model.reject:
            decided = torch.where((decided >= 0) & self._rejects(condition, outputs, decided), REJECTED, decided)
        if outputs.shape[1] - len(self._heads) > len(self.model.classes):
            # A reject column beside the classes that no condition names is no class either.
            decided = torch.where(decided >= len(self.model.classes), REJECTED, decided)
        return self._told(decided, self._unfit(outputs))

    @property
    def unfit(self) -> int:
        """What scores that are not finite count as."""
        return {"fail": NON_FINITE_FAILS, "reject": REJECTED, "error": NON_FINITE}[self.model.decide.non_finite]

    def _told(self, decided: Tensor, unfit: Tensor) -> Tensor:
        return torch.where(unfit, self.unfit, decided) if bool(unfit.any()) else decided

    def _unfit(self, outputs: Tensor) -> Tensor:
        """Outputs (n, H) that decide nothing: no finite greatest score, or a rejection rule that looks at NaN. A class
        that is masked out (minus infinity beside a finite greatest) is no fault; the one score of a threshold is no
        mask."""
        scores = self._scores(outputs)
        top = scores.abs() if self.model.decide.rule == "threshold" else scores
        unfit = ~top.amax(dim=1).isfinite()
        for condition in self.model.reject:
            if condition.quantity not in ("class", "agreement"):
                unfit = unfit | self._measured(condition, outputs).isnan()
        return unfit

    def margins(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The score of each label less the greatest of the other classes: (n,) float64, NaN for a label below 0, and
        where no comparison of scores makes the decision."""
        if self.model.decide.rule not in ("argmax", "argmin", "threshold"):
            return torch.full(labels.shape, torch.nan, dtype=torch.float64)
        scores = self._scores(outputs)[:, : len(self.model.classes)].double()
        own = torch.arange(scores.shape[1]) == labels[:, None]
        others = scores.masked_fill(own, -torch.inf).amax(dim=1)
        return torch.where(labels >= 0, scores.gather(1, labels.clamp(min=0)[:, None])[:, 0] - others, torch.nan)

    @property
    def has_slack(self) -> bool:
        """Whether a pass shows how far it is from a rejection (:meth:`slack`)."""
        return any(c.quantity != "agreement" for c in self.model.reject)

    def slack(self, outputs: Tensor) -> Tensor | None:
        """How far outputs (n, H) are from a rejection, by the nearest condition and in units of its value (a share of
        the softmax: in logarithms of odds, which keep a slope where a model is sure): (n,), below 0 where it rejects,
        differentiable. ``None`` for an object that never abstains, or by agreement only."""
        terms = [self._distance(c, outputs) for c in self.model.reject if c.quantity != "agreement"]
        return torch.stack(terms).amin(dim=0) if terms else None

    def _distance(self, condition: RejectWhen, outputs: Tensor) -> Tensor:
        value = float(condition.value)
        if condition.quantity == "class":
            scores = self._scores(outputs)
            others = torch.arange(scores.shape[1]) != int(value)
            return scores[:, others].amax(dim=1) - scores[:, int(value)]
        sign = 1.0 if condition.op in ("<", "<=") else -1.0
        if condition.quantity == "max_softmax" and not self.probabilities and 0 < value < 1:
            scores = self._scores(outputs).to(torch.float64)
            top, at = scores.max(dim=1, keepdim=True)
            odds = top[:, 0] - scores.scatter(1, at, -torch.inf).logsumexp(dim=1)
            return sign * (odds - log(value / (1 - value)))
        measured = self._measured(condition, outputs)
        return sign * (measured - value) / (abs(value) or 1.0)

    def _scores(self, outputs: Tensor) -> Tensor:
        return outputs[:, : outputs.shape[1] - len(self._heads)]

    def _pick(self, outputs: Tensor) -> Tensor:
        """The class of the greatest score before any rejection, ties by the rule."""
        scores = self._scores(outputs)
        if self.model.decide.rule == "threshold":
            return self._threshold(scores)
        if (self.model.decide.ties or "lowest") == "lowest":
            return scores.argmax(dim=1)  # the first of equals
        top = scores == scores.amax(dim=1, keepdim=True)
        return self._first(top, top.sum(dim=1) > 1)

    def _threshold(self, scores: Tensor) -> Tensor:
        decide, classes = self.model.decide, self.model.classes
        assert decide.positive is not None and decide.negative is not None  # noqa: PT018
        positive, negative = classes.index(decide.positive), classes.index(decide.negative)
        lifted = scores[:, positive]
        holds = lifted >= 0 if decide.op in (">=", "<=") else lifted > 0
        return torch.where(holds, positive, negative)

    def _first(self, top: Tensor, tied: Tensor) -> Tensor:
        """The lowest index of ``top`` (n, K); rows that are ``tied`` as ``ties`` says."""
        columns = torch.arange(top.shape[1])
        lowest = torch.where(top, columns, top.shape[1]).amin(dim=1)
        ties = self.model.decide.ties or "lowest"
        if ties == "lowest":
            return lowest
        special = {"reject": REJECTED, "error": TIED}
        value = special[ties] if ties in special else self.model.classes.index(ties)
        return torch.where(tied, value, lowest)

    def _majority(self, outputs: Tensor) -> Tensor:
        """The class with most votes of the draws (draws, n, H); a draw that abstains votes for nobody. ``agreement`` is
        the winner's votes over the number of draws."""
        draws, n, _ = outputs.shape
        votes = torch.stack([self._pick(draw) for draw in outputs])
        classes = len(self.model.classes)
        counts = torch.stack([(votes == c).sum(dim=0) for c in range(classes)], dim=1)
        best = counts.amax(dim=1, keepdim=True)
        top = counts == best
        decided = self._first(top, top.sum(dim=1) > 1)
        for condition in self.model.reject:
            if condition.quantity == "agreement":
                agrees = compare(best[:, 0].to(torch.float64), condition.op, condition.value * draws)
                decided = torch.where((decided >= 0) & agrees, REJECTED, decided)
        decided = torch.where((votes == TIED).any(dim=0), torch.full((n,), TIED), decided)
        return self._told(decided, torch.stack([self._unfit(draw) for draw in outputs]).any(dim=0))

    def _rejects(self, condition: RejectWhen, outputs: Tensor, decided: Tensor) -> Tensor:
        if condition.quantity == "class":
            return decided == int(condition.value)
        return compare(self._measured(condition, outputs), condition.op, condition.value)

    def _measured(self, condition: RejectWhen, outputs: Tensor) -> Tensor:
        """The quantity of a condition on one head, or the greatest share (float64)."""
        if condition.quantity == "max_softmax":
            scores = self._scores(outputs).to(torch.float64)
            return (scores if self.probabilities else scores.softmax(dim=1)).amax(dim=1)
        return outputs[:, outputs.shape[1] - len(self._heads) + self._heads.index(condition.quantity)]


def class_head(model: Model) -> tuple[int, int] | None:
    """(first column, width) of the head that the decision reads: the one that a threshold names, else the first whose
    width suits. ``None`` when the network has one head."""
    decide = model.decide
    wanted = (1,) if decide.rule == "threshold" else (len(model.classes), len(model.classes) + 1)
    start = 0
    for name, width in model.network.outputs:
        if width in wanted and (decide.quantity in ("score", name) or decide.rule != "threshold"):
            return start, width
        start += width
    return None


def _other_heads(model: Model) -> tuple[str, ...]:
    """Names of the columns behind the class scores, in order; a head of several columns appears once per column."""
    head = class_head(model)
    names: list[str] = []
    start = 0
    for name, width in model.network.outputs:
        if head is None or start != head[0]:
            names += [name] * width
        start += width
    return tuple(names)
