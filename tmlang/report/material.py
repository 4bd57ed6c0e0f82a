"""What a figure may draw: one evaluation of a bundle with its view, its numbers and its records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmlang.audit.bundle import Bundle
from tmlang.audit.columns import Columns
from tmlang.audit.record import Record
from tmlang.audit.remeasure import exact_values
from tmlang.audit.tally import tally_plan
from tmlang.audit.units import stage_label
from tmlang.meaning.figures import Shown, bounds_outputs, refusal
from tmlang.meaning.models import Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Subject
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import EvaluationPlan
from tmlang.report.failures import first_witnesses
from tmlang.report.view import EvaluationView, SweepView, View

Array = NDArray[np.float64]


class NothingToShow(Exception):
    """The records hold nothing that the figure could show; the text says what is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    bundle: Bundle
    evaluation: EvaluationPlan
    subject: Subject
    model: Model
    space: Space
    view: EvaluationView
    sweep: SweepView | None
    columns: Columns
    records: tuple[Record, ...]

    @property
    def declared(self) -> str:
        """The name in the spec, without the value of a curve's parameter."""
        return declared_name(self.evaluation)

    def refusal(self, name: str) -> str | None:
        """Why the figure cannot show this evaluation, as when the spec was checked."""
        roles = [s.role for s in self.evaluation.stages]
        bounded = any(bounds_outputs(s.arguments) for s in self.evaluation.stages)
        curved = self.sweep is not None
        return refusal(name, Shown(self.view.name, self.subject, self.model, self.space, roles, curved, bounded))

    def witnesses(self) -> list[Record]:
        """The first failing input of every broken unit, within the declared access where one is."""
        return first_witnesses(self.records)

    def fates(self) -> dict[str, str]:
        """What became of every unit; where targets of an example are counted together, the fate of the example."""
        told = {x.unit: x.fate for x in self.view.examples}
        return {r.unit: told.get(r.unit, told.get(r.example, "unknown")) for r in self.records}

    def of_stage(self, label: str) -> list[Record]:
        return [r for r in self.records if stage_label(self.evaluation, r) == label]

    def values(self, row: Record) -> tuple[Array, Array]:
        """(original, changed input) of a stored candidate, in the space's units and shape."""
        if row.candidate is None:
            raise NothingToShow(f"the input that breaks {row.unit} was not kept")
        stored, original, indices = self.bundle.candidate(row.candidate)
        before, after = (self._floats(a, indices) for a in (original, stored))
        return before, after

    def _floats(self, stored: NDArray[Any], indices: bool) -> Array:
        values = [float(v) for v in exact_values(self.space, stored, indices=indices)]
        return np.array(values).reshape(self.space.shape)


def materials(bundle: Bundle, view: View) -> Iterator[Material]:
    """The evaluations of a bundle in order."""
    plan, records = bundle.plan(), bundle.records()
    columns = tally_plan(plan, records)
    for e, shown in zip(plan.evaluations, view.evaluations, strict=True):
        subject = plan.subject(e.subject)
        model = plan.model(subject.model)
        sweep = next((s for s in view.sweeps if s.evaluation in (e.name, declared_name(e))), None)
        own = tuple(r for r in records if r.evaluation == e.name)
        yield Material(bundle, e, subject, model, plan.space(model.space), shown, sweep, columns[e.name], own)
