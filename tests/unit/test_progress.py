"""Whether a search came beyond its start, as the door of a library reads it off successive passes."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
import torch
from backend_support import Case, digits, search, threat
from torch import nn

from tmlang.backends.progress import Progress


def scores(*margins: float) -> torch.Tensor:
    """Two classes, of which the first is the label: the second is ahead by these margins."""
    return torch.tensor([[0.0, m] for m in margins])


def test_a_pass_counts_against_the_first() -> None:
    told = Progress(torch.zeros(4, dtype=torch.int64), None)
    everyone = torch.arange(4)
    told.see(scores(-1, -1, -1, -1), everyone)
    assert told.told() is None  # one pass of each
    told.see(scores(-2, -1, -0.5, -2), everyone)
    told.see(scores(-2, -1, -3, -0.5), everyone)
    assert told.told().tolist() == [False, False, True, True]  # type: ignore[union-attr]


def test_of_some_units_first_and_of_others_later() -> None:
    told = Progress(torch.zeros(3, dtype=torch.int64), None)
    for units, margins in (([0, 1], (-1, -1)), ([1], (-2,)), ([0, 2], (0, -1))):
        told.see(scores(*margins), torch.tensor(units))
    assert told.told() is None  # one pass of the last
    told.see(scores(-1), torch.tensor([2]))
    assert told.told().tolist() == [True, False, False]  # type: ignore[union-attr]


def test_rows_that_belong_to_nobody_leave_it_open() -> None:
    told = Progress(torch.zeros(1, dtype=torch.int64), None)
    for _ in range(2):
        told.see(scores(-1), torch.tensor([0]))
    told.see(scores(3, 3), None)
    assert told.told() is None


def test_towards_a_target_its_own_margin_counts() -> None:
    """Class 2 leads ever more before the label, and ever less before class 1."""
    passes = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.0, 2.0, 2.0]])
    for target, further in ((1, True), (2, False)):
        told = Progress(torch.tensor([0]), torch.tensor([target]))
        for rows in passes:
            told.see(rows, torch.tensor([0]))
        assert told.told().tolist() == [further]  # type: ignore[union-attr]


class Coarse(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen: torch.Tensor = self.network(torch.round(4 * x) / 4)
        return seen


TELLING = {
    "native.apgd": "steps", "native.apgd_targeted": "steps", "native.pgd": "steps",
    "native.fab": "steps", "native.fab_targeted": "steps",
    "torchattacks.PGD": "steps", "torchattacks.APGD": "steps", "foolbox.LinfPGD": "steps", "adv_lib.pgd_linf": "steps",
    "art.ProjectedGradientDescent": "max_iter",
}  # fmt: skip


@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize("path", TELLING)
def test_of_what_rounds_its_input_no_step_helps(path: str, rounds: bool) -> None:
    """And without the rounding some step helps wherever the search went on."""
    plain = digits()
    network = plain.deployed.network
    case = Case(Coarse(network) if rounds else network, plain.space, plain.spec, plain.x[:6], [0] * 6)
    case.y = case.decisions(torch.from_numpy(case.x))
    found = search(path, case, case.job(threat("linf", F(1, 20))), **{TELLING[path]: F(8)})
    assert found.progressed is not None
    standing = case.decisions(found.x) == case.y
    assert standing.any()
    assert (found.progressed[standing] == (not rounds)).all()


@pytest.mark.parametrize("path", ["torchattacks.FGSM", "torchattacks.PGDRS", "torchattacks.CW"])
def test_what_the_door_cannot_tell_it_leaves_open(path: str) -> None:
    """One gradient; expanded rows; a search for the nearest failure."""
    case = digits()
    norm = "l2" if path.endswith("CW") else "linf"
    steps = {} if path.endswith("FGSM") else {"steps": F(3)}
    assert search(path, case, case.job(threat(norm, F(1, 20)), rows=slice(4)), **steps).progressed is None


def test_units_that_are_searched_one_by_one_tell_together() -> None:
    case = digits()
    limited = case.job(threat("linf", F(1, 20)), rows=slice(4), limit=100)
    found = search("torchattacks.PGD", case, limited, steps=F(4))
    assert found.progressed is not None
    assert found.progressed.shape == (4,)
