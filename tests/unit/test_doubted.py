"""What a stranger certifies is attacked: failing inputs stand beside the certificates that they contradict."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch
from backend_support import Case, method, model, threat, unit_box
from torch import nn

from tmlang.backends.contract import Candidates, Job, Verdicts
from tmlang.backends.doubted import Doubted

WORDS = ("certified", "certified", "unknown", "broken")


class Stranger:
    """Says the same whatever it is asked, and offers the original of its last unit."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    def certify(self, job: Job) -> Verdicts:
        offered = torch.tensor([word == "broken" for word in self.words])
        found = Candidates(job.x, offered, (None,) * len(job.x))
        return Verdicts(self.words, torch.ones(len(self.words)).double(), 0.0, "proved", found)  # type: ignore[arg-type]


def job() -> tuple[Case, Job]:
    """``a - b`` decides; the differences are 0.3, 0.1, 0.1 and 0.1, and an eighth in linf moves each by a quarter."""
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.copy_(torch.eye(2))
        network.bias.zero_()
    x = np.array([[0.65, 0.35], [0.55, 0.45], [0.55, 0.45], [0.55, 0.45]], dtype=np.float32)
    case = Case(network, unit_box(2), model(2), x, [0] * 4)
    return case, case.job(threat("linf", Fraction(1, 8)))


def test_false_certificates_are_contradicted_and_true_ones_are_not() -> None:
    case, asked = job()
    told = Doubted(Stranger(WORDS), method("auto_lirpa.crown")).certify(asked)
    assert told.verdict == WORDS
    assert told.candidates is not None
    assert told.candidates.offered.tolist() == [False, True, False, True]
    x = told.candidates.x
    assert torch.equal(x[[0, 2, 3]], asked.x[[0, 2, 3]])
    assert case.decisions(x[1:2]).tolist() == [1]
    assert asked.sets.rows([1]).inside(x[1:2].numpy()).tolist() == [True]


def test_what_certifies_nothing_is_left_as_it_is() -> None:
    _, asked = job()
    told = Doubted(Stranger(["unknown"] * 4), method("auto_lirpa.crown")).certify(asked)
    assert told.candidates is not None
    assert not bool(told.candidates.offered.any())
    assert int(asked.oracle.spent.sum()) == 0


@pytest.mark.parametrize("words", [("certified",) * 3, ()])
def test_too_few_verdicts_are_for_the_runner_to_refuse(words: tuple[str, ...]) -> None:
    _, asked = job()
    assert Doubted(Stranger(words), method("auto_lirpa.crown")).certify(asked).verdict == words
