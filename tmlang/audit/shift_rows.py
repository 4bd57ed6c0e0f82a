"""What must hold of the rows of a shift: nothing in them is a failure, and every draw has the seed that it must have.

The auditor's own reading; it makes the seeds again by the rule of docs/bundle.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from tmlang.audit.record import Record
from tmlang.audit.recorrupt import of_stage
from tmlang.audit.undecided_rows import UNFIT

Json = Mapping[str, Any]
_ADVERSARIAL = ("observed_failure", "verdict", "within_access", "label_kept", "target", "margin", "gap")
"""What only a search or a proof tells."""


def shift_faults(evaluation: Json, rows: Iterable[Record]) -> Iterator[str]:
    """What is wrong with rows of an ``evaluation`` of a shift: a failure is told, or a draw is not what it must be."""
    stages = {s["label"]: s for s in evaluation["stages"]}
    rows = list(rows)
    start = next((r for r in rows if r.stage.removeprefix(evaluation["name"] + "/") == "clean"), None)
    for row in rows:
        stage = stages.get(row.stage.removeprefix(evaluation["name"] + "/"))
        told = [name for name in _ADVERSARIAL if getattr(row, name) is not None]
        turned = stage is not None and row.clean == "cc" and row.status == "valid" and row.decision != row.label
        if stage is None and "margin" in told:
            told.remove("margin")  # of the original, measured
        if turned != (row.candidate is not None):
            yield "a changed input is saved iff it turned a correct decision"
        if told or row.counted_failure:
            yield f"a shift is no attack, and its row tells {told[0] if told else 'counted_failure'}"
        if stage is None:
            continue
        if (row.status == "valid") != (row.within_scope is True):
            yield f"status {row.status} with within_scope {row.within_scope}"
        wanted_cell = of_stage(stage, start) if start is not None else (None, None)
        if (row.corruption, row.severity) != wanted_cell:
            yield f"corrupted by {row.corruption} {row.severity}, and the stage and the example say {wanted_cell}"
        if row.status == "valid" and row.decision is None and row.message != UNFIT:
            yield "an answer without a decision"
        if row.seed != (wanted := seed_of(evaluation["seed"] or 0, row, stage)):
            yield f"drawn from the seed {row.seed}, and {wanted} is that of the example"


def seed_of(run: int, row: Record, stage: Json) -> int:
    """The first 63 bits of the SHA-256 over the run's seed, the unit, the method and the repeat."""
    parts = (f"int:{run}", f"str:{row.unit}", f"str:{stage['backend']}.{stage['method']}", f"int:{row.repeat}")
    return int(sha256("\x1f".join(parts).encode()).hexdigest()[:16], 16) >> 1
