"""Candidates that somebody submitted: nothing is searched, every one is judged (EVIDENCE.md section 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tmlang.audit import tensorfile
from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.meaning.values import Artifact

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from tmlang.plan.capability import Method


class Replay:
    """``native.replay``: a safetensors file with one array (*shape) per unit, named by the unit's id, in the space's
    values. A unit without one is unfinished (its own original says "nothing found"); so is one of another shape."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        submitted = _submitted(job)
        x = job.x.clone()
        errors: list[str | None] = [None] * len(x)
        for row, unit in enumerate(job.sets.ids):
            candidate = submitted.get(unit)
            if candidate is None:
                errors[row] = f"the file has no candidate named {unit}"
            elif candidate.shape != x.shape[1:]:
                errors[row] = f"the candidate {unit} has shape {candidate.shape}, and {tuple(x.shape[1:])} is needed"
            else:
                x[row] = torch.from_numpy(candidate.copy()).to(x.dtype)
        return Candidates(x, torch.tensor([e is None for e in errors]), tuple(errors))


def _submitted(job: Job) -> Mapping[str, np.ndarray]:
    """The arrays of the file by name."""
    file = job.arguments["file"]
    if not isinstance(file, Artifact) or job.read is None:
        raise BackendRefusal("there is no file to replay")
    try:
        return tensorfile.read(job.read(file)).tensors
    except tensorfile.TensorFileError as fault:
        raise BackendRefusal(f'"{file.path}" is no safetensors file: {fault}') from fault
