"""Shifts: every usable example is changed once per repeat, by nature and from its own seed, and decided."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.audit.corruptions import stage_cell
from tmlang.audit.record import REJECTED
from tmlang.audit.units import is_turned
from tmlang.backends.contract import BackendRefusal, Corruption
from tmlang.backends.decision import NON_FINITE_FAILS, why
from tmlang.backends.recheck import Facts
from tmlang.base.seeds import derive
from tmlang.diagnostics.stop import Stop
from tmlang.execute.guard import check_steady, guarded
from tmlang.execute.isolation import Batch, Fault, Kept, Piece, fault_of
from tmlang.execute.rows import Effort, shift_row
from tmlang.execute.stages import StageRun


@dataclass(frozen=True)
class ShiftRun(StageRun):
    """A change of the world over batches of units: the same decisions whatever the batches are."""

    def seed(self, unit: int) -> int:
        """The seed of a unit's change: from its id, the method and the repeat. Strengths of one method share their
        draws, and so do models."""
        return derive(
            self.arena.seed, self.arena.units[unit].id, f"{self.stage.backend}.{self.stage.method}", self.repeat
        )

    def ask(self, piece: Piece) -> Batch | Fault:
        """Rows of the units; a change that fails is a row of its own unit. Raises :class:`Stop` (TM822)."""
        began = time.perf_counter()
        try:
            facts = [self._facts(i) for i in piece.at]
        except Stop:
            raise
        except Exception as error:
            return fault_of("the object, asked about a changed input,", error)
        seconds = time.perf_counter() - began
        self.arena.searching += seconds
        check_steady(self.arena.attacked.evaluator.steady(), self.stage.id)
        return self._batch(piece, facts, seconds / len(piece.at))

    def failed(self, piece: Piece, fault: Fault) -> Batch:
        """The rows of units of which nothing came."""
        return self._batch(piece, [Facts(fault.status, fault.message)] * len(piece.at), 0.0)

    def _batch(self, piece: Piece, facts: Sequence[Facts], seconds: float) -> Batch:
        name, label, units = self.arena.evaluation.name, self.stage.label, self.arena.units
        by = stage_cell(self.stage)
        rows = [
            shift_row(name, label, units[i], self.repeat, fact, Effort(seconds=seconds, seed=self.seed(i)), by)
            for i, fact in zip(piece.at, facts, strict=True)
        ]
        # What the change turned is kept, to be looked at and asked about again.
        turned = (f.x if is_turned(row) else None for f, row in zip(facts, rows, strict=True))
        return Batch(tuple(rows), tuple(Kept(i, x) for i, x in zip(piece.at, turned, strict=True)))

    def _facts(self, unit: int) -> Facts:
        """What became of a unit: the evaluator's decision of the changed input, if that is an input of the space."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return Facts("timeout")
        changed = self._change(unit)
        if isinstance(changed, str):
            return Facts("error", changed)
        member = self.arena.sets.rows([unit]).member(changed[None])[0]
        if not member.inside:
            return Facts("invalid", rule=member.rule)
        given = changed.astype(self.arena.sets.domain.dtype)
        decisions = self._decisions(unit, torch.from_numpy(given)[None])
        if len(decisions) > 1:
            return Facts("unstable", "the replays of this input disagree")
        decision = decisions.pop()
        if decision < REJECTED:
            return Facts("valid" if decision == NON_FINITE_FAILS else "error", why(decision), x=given)
        return Facts("valid", x=given, decision=decision, rejected=decision == REJECTED)

    def _change(self, unit: int) -> NDArray[Any] | str:
        """The changed input (*shape), or why there is none."""
        x, sets = self.arena.x[unit].numpy(), self.arena.sets
        adapter = cast(Corruption, self.adapter)
        try:
            with guarded(self.arena.attacked.deployed, self.stage.id):
                changed = adapter.change(x.copy(), sets.domain, dict(self.stage.arguments), self.seed(unit))
        except Stop:
            raise
        except BackendRefusal as refusal:
            return str(refusal)
        except Exception as fault:
            return f"{self.stage.backend}.{self.stage.method} failed: {type(fault).__name__}: {fault}"
        if not isinstance(cast(object, changed), np.ndarray) or changed.dtype == object:
            return f"{self.stage.backend}.{self.stage.method} made no array of numbers"
        if changed.shape != x.shape:
            return f"{self.stage.backend}.{self.stage.method} made an input of shape {changed.shape} of {x.shape}"
        return changed

    def _decisions(self, unit: int, x: torch.Tensor) -> set[int]:
        """The decisions of all replays of one input; of a random object its answer to one request, which is drawn as
        the change was: from the unit's seed."""
        attacked = self.arena.attacked
        evaluator = attacked.evaluator
        if attacked.model.random.kind != "per_request":
            return {int(evaluator.decide(x)) for _ in range(evaluator.replays)}
        seed = derive(self.seed(unit), "request")
        with guarded(attacked.deployed, self.stage.id):
            attacked.deployed.reseed(seed)
            torch.manual_seed(seed)
            return {int(evaluator.decide(x))}
