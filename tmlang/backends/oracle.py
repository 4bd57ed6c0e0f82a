"""The attacker's door to the model: grants what the access level allows, counts what passes, stops at the limit.

EVIDENCE.md section 4: ``queries <= N`` is per unit; every row forwarded counts. The evaluator's own replays do not go
through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from tmlang.audit.record import REJECTED
from tmlang.backends.best import Best
from tmlang.backends.decision import NON_FINITE
from tmlang.backends.disclosed import Disclosed
from tmlang.backends.undecided import Undecided
from tmlang.plan.ir import AccessLevel


class AccessDenied(Exception):
    """A search asked for more than the threat grants (gradients without ``white_box``, scores under ``decisions``)."""


class QueryLimit(Exception):
    """A unit's queries are used up. The search returns its best candidate so far."""


class Seen(NamedTuple):
    """One pass: ``scores`` (n, K), ``decisions`` (n,) int64, and how far each row is from a rejection (below 0 it
    rejects; ``None`` for an object that never does)."""

    scores: torch.Tensor
    decisions: torch.Tensor
    slack: torch.Tensor | None


class Oracle:
    """A counted, access-checked view of the attacked object for the units of one batch.

    ``network`` maps external values (N, *shape) to outputs (N, H): class scores in the first ``classes`` columns
    (logits, or one score lifted to two columns so that the greater is the decision, ties apart), other heads behind
    them. ``decide`` maps those outputs to classes (int64, ``REJECTED`` = -1 where the object abstains, a code below
    where there is none); a decision that takes several draws says so by its ``draws`` and is given (draws, N, H).
    Both contain every step, the decision and the rejection rule of the deployed object, and the network is in
    evaluation mode. ``view``: the object as scores and gradients see it (``through``), where that is another module; it
    may cost several rows per row (``rows``). ``disclosed``: what an answer shows of its scores, where that is not all;
    the decision is part of every answer. ``listen`` hears of every count of rows, for progress. ``undecided``, where it
    is set, keeps what was shown and has no decision: whoever runs a search hands it in.

    Rows are attributed to units by ``units`` (indices into this batch) where the caller gives them. A library that
    forwards its own batches goes through :meth:`module`: a batch of k*N rows counts k per unit; any other size is
    shared out evenly (rounded up), so that nothing is undercounted in total. Under a query limit an adapter must run
    unit by unit (``self.unit(i)``), which makes the count exact.
    """

    def __init__(
        self,
        network: nn.Module,
        decide: Callable[[torch.Tensor], torch.Tensor],
        *,
        classes: int,
        level: AccessLevel,
        units: int,
        limit: int | None = None,
        used: Sequence[int] | None = None,
        view: nn.Module | None = None,
        disclosed: Disclosed | None = None,
        listen: Callable[[int], None] | None = None,
    ) -> None:
        self._listen = listen
        self._network = network
        self._view = network if view is None else view
        self._rows = int(getattr(self._view, "rows", 1))
        self._draws = int(getattr(decide, "draws", 1))
        self._disclosed = disclosed
        self._decide = decide
        self.classes = classes
        self.level: AccessLevel = level
        self.units = units
        self.limit = limit
        self.queries = torch.zeros(units, dtype=torch.int64)
        if used is not None:
            self.queries += torch.tensor(list(used), dtype=torch.int64)
        self._before = self.queries.clone()
        self.gradients = torch.zeros(units, dtype=torch.int64)
        self.zero_gradients = torch.zeros(units, dtype=torch.int64)
        self.undecided: Undecided | None = None
        self.best: Best | None = None

    @property
    def spent(self) -> torch.Tensor:
        """Rows forwarded per unit (int64) through this oracle: ``queries`` without what was ``used`` before it."""
        return self.queries - self._before

    @property
    def rows(self) -> int:
        """Rows of queries that one row of scores costs."""
        return self._rows

    def remaining(self) -> torch.Tensor | None:
        """Queries left per unit (int64), ``None`` without a limit."""
        return None if self.limit is None else (self.limit - self.queries).clamp(min=0)

    def logits(self, x: torch.Tensor, units: torch.Tensor | None = None) -> torch.Tensor:
        """Outputs (n, K) for rows ``x`` that belong to ``units``; differentiable in ``x`` only under ``white_box``.

        Raises :class:`AccessDenied` below ``scores``, and below ``white_box`` when ``x`` wants gradients;
        :class:`QueryLimit` when a unit's rows do not fit any more.
        """
        out = self._outputs(x, units)
        if self.undecided is not None:
            with torch.no_grad():
                self._note(x, units, self._decide(out.detach()))
        return self._answer(out)[:, : self.classes]

    def observe(self, x: torch.Tensor, units: torch.Tensor | None = None) -> Seen:
        """Like :meth:`logits`, and what an attacker reads off the same pass who knows the outputs and the rule. Where a
        decision takes several draws, or gradients go through another view, it is a guess from this one pass; the
        evaluator decides."""
        out = self._outputs(x, units)
        with torch.no_grad():
            decided = self._decide(out.detach())
        self._note(x, units, decided)
        slack, out = getattr(self._decide, "slack", None), self._answer(out)
        self._rank(x, units, decided, out[:, : self.classes])
        return Seen(out[:, : self.classes], decided, None if slack is None else slack(out))

    def _answer(self, outputs: torch.Tensor) -> torch.Tensor:
        """What an answer shows; whoever sees inside sees all of it."""
        if self._disclosed is None or self.level == "white_box":
            return outputs
        return self._disclosed(outputs)

    def _outputs(self, x: torch.Tensor, units: torch.Tensor | None) -> torch.Tensor:
        if self.level not in ("white_box", "scores", "transfer"):
            raise AccessDenied(f"scores asked under access `{self.level}`")
        if x.requires_grad and self.level != "white_box":
            raise AccessDenied(f"gradients asked under access `{self.level}`")
        counted = self._count(x.shape[0], units, self._rows)
        if self.level == "white_box" and x.requires_grad:
            # A view of this pass alone: a library may forward the same leaf again.
            shown = x.view_as(x)
            out: torch.Tensor = self._view(shown)
            if out.requires_grad:
                shown.register_hook(lambda g: self._count_gradients(g, units, counted))  # type: ignore[no-untyped-call]
            return out
        with torch.no_grad():
            result: torch.Tensor = self._view(x)
        return result

    def decisions(self, x: torch.Tensor, units: torch.Tensor | None = None, *, alone: bool = False) -> torch.Tensor:
        """Classes (n,) int64, ``-1`` where the object rejects. Allowed from ``decisions`` up. ``alone``: every row is
        forwarded by itself, as the reference evaluator does it."""
        if self.level == "nothing":
            raise AccessDenied("decisions asked under access `nothing`")
        self._count(x.shape[0], units)
        with torch.no_grad():
            rows = x.split(1) if alone else (x,)  # type: ignore[no-untyped-call]
            draws = [torch.cat([self._network(row) for row in rows]) for _ in range(self._draws)]
            decided = self._decide(draws[0] if self._draws == 1 else torch.stack(draws))
        self._note(x, units, decided)
        self._rank(x, units, decided, None)
        return decided

    @property
    def shows_slack(self) -> bool:
        """Whether a pass of scores tells how far the object is from a rejection."""
        return bool(getattr(self._decide, "has_slack", False))

    @property
    def unfit(self) -> int:
        """What the decision says of scores that are not finite."""
        return int(getattr(self._decide, "unfit", NON_FINITE))

    def _note(self, x: torch.Tensor, units: torch.Tensor | None, decided: torch.Tensor) -> None:
        """Remember rows that have no decision, or fail for it; and rejections, where that is what it counts as."""
        if self.undecided is None:
            return
        rows = decided <= REJECTED if self.unfit == REJECTED else decided < REJECTED
        if bool(rows.any()):
            aligned = units is None and len(x) == self.units
            if aligned:
                self.undecided.note(x[rows], torch.nonzero(rows).flatten())
            self.undecided.note(x[rows], None if units is None else units[rows])

    def _rank(
        self, x: torch.Tensor, units: torch.Tensor | None, decided: torch.Tensor, scores: torch.Tensor | None
    ) -> None:
        """Keep the best input of each unit, where single draws are judged."""
        if self.best is not None and (units is not None or len(x) == self.units):
            at = torch.arange(len(x)) if units is None else units
            self.best.note(x, at, self.best.failure.rows(at)(decided, x).float(), scores)

    def module(self) -> nn.Module:
        """A module for library code, external values to outputs, counted like :meth:`logits`.

        Under ``decisions`` its outputs are one-hot of the decision (a rejection is all zeros) and carry no gradient.
        """
        return _Door(self)

    def opened(self) -> tuple[nn.Module, Callable[[torch.Tensor], torch.Tensor]]:
        """The object itself, network and decision, for verifiers and solvers, and to be copied by a search that goes on
        training it. Nothing is counted, so a search has no other business here. Raises :class:`AccessDenied` below
        ``white_box``."""
        if self.level != "white_box":
            raise AccessDenied(f"the network itself asked under access `{self.level}`")
        return self._network, self._decide

    def unit(self, index: int) -> Oracle:
        """A view of one unit that counts into this oracle."""
        return _UnitView(self, index)

    def _count(self, rows: int, units: torch.Tensor | None, each: int = 1) -> torch.Tensor | int:
        """Count rows forwarded; gives what each unit is charged."""
        add = self._share(rows, units) * each
        if self.limit is not None and bool(torch.as_tensor((self.queries + add > self.limit) & (add > 0)).any()):
            raise QueryLimit(f"the limit of {self.limit} queries per example is reached")
        self.queries += add
        if self._listen is not None:
            self._listen(add * self.units if isinstance(add, int) else int(add.sum()))
        return add

    def _count_gradients(self, gradient: torch.Tensor, units: torch.Tensor | None, counted: torch.Tensor | int) -> None:
        """One backward pass over what was ``counted`` forward, and its rows without any slope."""
        self.gradients += counted
        flat = gradient.detach().flatten(1)
        # One number that is not zero tells most rows.
        if not bool((flat[:, flat.shape[1] // 2] == 0).any()):
            return
        self._count_zeros(flat.abs().amax(dim=1) == 0, units)

    def _count_zeros(self, zero: torch.Tensor, units: torch.Tensor | None) -> None:
        """Of rows that belong to nobody in particular only all together say something."""
        if units is not None:
            self.zero_gradients += torch.bincount(units[zero], minlength=self.units) * self._rows
        elif len(zero) == self.units:
            self.zero_gradients += zero * self._rows
        elif bool(zero.all()):
            self.zero_gradients += self._share(len(zero), None) * self._rows

    def _share(self, rows: int, units: torch.Tensor | None) -> torch.Tensor | int:
        """Rows of each unit; one number where every unit has as many."""
        return -(-rows // self.units) if units is None else torch.bincount(units, minlength=self.units)


class _UnitView(Oracle):
    """One unit of a batch oracle, with the parent's ledger."""

    def __init__(self, parent: Oracle, index: int) -> None:
        super().__init__(
            parent._network,
            parent._decide,
            classes=parent.classes,
            level=parent.level,
            units=1,
            limit=parent.limit,
            view=parent._view,
            disclosed=parent._disclosed,
            listen=parent._listen,
        )
        self.queries = parent.queries[index : index + 1]
        self._before = parent._before[index : index + 1]
        self.gradients = parent.gradients[index : index + 1]
        self.zero_gradients = parent.zero_gradients[index : index + 1]
        self.undecided = None if parent.undecided is None else parent.undecided.unit(index)
        self.best = None if parent.best is None else parent.best.unit(index)


class _Door(nn.Module):
    """The network as a library sees it."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__()
        # Kept out of the module tree: a library that walks, trains or hooks sub-modules finds none.
        self.__dict__["oracle"] = oracle
        self.eval()

    def forward(self, x: torch.Tensor) -> Any:
        oracle: Oracle = self.__dict__["oracle"]
        if oracle.level == "decisions":
            z = oracle.decisions(x)
            one_hot = torch.zeros(x.shape[0], oracle.classes, dtype=x.dtype)
            kept = z >= 0
            one_hot[kept, z[kept]] = 1
            return one_hot
        return oracle.logits(x)
