"""``native.replay``: which row of the file belongs to which unit, and what is said where none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from backend_support import unit_box
from safetensors.numpy import save

from tmlang.backends.contract import BackendRefusal, Job
from tmlang.backends.native.replay import Replay
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.threats import Access, Ball, Goal, Mutable, Threat
from tmlang.meaning.values import Artifact
from tmlang.plan.capability import Capabilities

F = Fraction
THREAT = Threat(
    "t", "net", "rows", Ball("linf", "px", F(1, 4)), None, Mutable("all"), Goal("untargeted"), Access("nothing"), "fail"
)  # fmt: skip


def adapter() -> Replay:
    method = next(m for m in Capabilities().methods() if m.path == "native.replay")
    assert method.status == "available"
    return Replay(method)


def job(ids: Sequence[str], data: bytes) -> Job:
    originals = np.full((len(ids), 2), 0.5, np.float32)
    sets = ThreatSet.build(unit_box(2), THREAT, originals, ids=ids)
    x = torch.from_numpy(originals)
    y = torch.zeros(len(ids), dtype=torch.int64)
    arguments = {"file": Artifact("submitted.safetensors")}
    oracle = None  # a replay asks the model nothing
    return Job(oracle, sets, THREAT, x, y, None, arguments, (0,) * len(ids), read=lambda _: data)  # type: ignore[arg-type]


def saved(**candidates: Sequence[float]) -> bytes:
    arrays: Mapping[str, np.ndarray] = {k: np.array(v, np.float32) for k, v in candidates.items()}
    return bytes(save(dict(arrays)))


def test_rows_are_matched_by_name_and_not_by_place() -> None:
    found = adapter().search(job(["b", "a"], saved(a=[0.25, 0.5], b=[0.5, 0.75], other=[0, 0])))
    assert found.x.tolist() == [[0.5, 0.75], [0.25, 0.5]]
    assert found.offered.tolist() == [True, True]
    assert found.errors == (None, None)


def test_a_unit_without_a_candidate_of_its_shape_is_unfinished() -> None:
    found = adapter().search(job(["a", "b", "c"], saved(a=[0.25, 0.5], c=[0.25, 0.5, 0.75])))
    assert found.offered.tolist() == [True, False, False]
    assert found.errors[0] is None
    assert found.errors[1] == "the file has no candidate named b"
    assert found.errors[2] == "the candidate c has shape (3,), and (2,) is needed"


@pytest.mark.parametrize("data", [b"", b"no tensors", saved(a=[1.0])[:-1]])
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(BackendRefusal, match="is no safetensors file"):
        adapter().search(job(["a"], data))


def test_without_a_way_to_files_nothing_is_replayed() -> None:
    with pytest.raises(BackendRefusal, match="no file to replay"):
        adapter().search(replace(job(["a"], b""), read=None))
