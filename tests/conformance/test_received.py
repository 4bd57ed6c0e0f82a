"""What stages are handed: failures of an attack before them, a pool, a training set."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from backend_support import Case, colours, digits, model, search, threat, unit_box
from conformance_support import CASES, same, watched, world
from torch import nn

from tmlang.backends.contract import Job, Received
from tmlang.meaning.threats import Access
from tmlang.meaning.values import Distance, Value

STARTED = ["BoundaryAttack", "HopSkipJumpAttack", "PointwiseAttack"]
COMPILED = [f"{norm}BrendelBethgeAttack" for norm in ("L0", "L1", "L2", "Linfinity")]
NORM = {"L0BrendelBethgeAttack": "l0", "L1BrendelBethgeAttack": "l1", "LinfinityBrendelBethgeAttack": "linf"}


def failing(case: Case, units: list[int]) -> Received:
    """For each of ``units`` the nearest other input of the case that is decided otherwise, as an attack would hand it
    on."""
    decided = case.decisions(torch.from_numpy(case.x))
    chosen = []
    for unit in units:
        others = [i for i in range(len(case.x)) if decided[i] != case.y[unit]]
        chosen.append(min(others, key=lambda i: float(np.linalg.norm(case.x[i] - case.x[unit]))))
    return Received(torch.from_numpy(case.x[chosen]), case.y[units], torch.tensor(units))


def nearest_job(case: Case, given: Received, norm: str = "l2", **changes: object) -> Job:
    least = threat(allow=None, minimize=(norm, "px"))
    return case.job(least, rows=slice(4), received={"starting_points": given}, **changes)


@pytest.mark.parametrize("name", ["digits", "colours"])
@pytest.mark.parametrize(
    "attack", [*STARTED, *(pytest.param(n, marks=[pytest.mark.nightly, pytest.mark.timeout(900)]) for n in COMPILED)]
)
def test_walks_start_where_an_attack_before_them_ended(attack: str, name: str) -> None:
    """No noise is blended, which no query pays for; what is found is no farther than the start and still fails."""
    case = CASES[name]()
    given, norm = failing(case, [0, 1, 2, 3]), NORM.get(attack, "l2")
    job = nearest_job(case, given, norm)
    arguments = {} if attack == "PointwiseAttack" else {"steps": Fraction(2)}
    # A start by noise would ask for 1000 directions and blends before it gave up.
    found = search(f"foolbox.{attack}", case, job, start_directions=Fraction(1), start_steps=Fraction(1), **arguments)
    assert found.errors == (None,) * 4
    assert (case.decisions(found.x) != job.y).all()
    before, after = (np.array(job.sets.distances(x.numpy())[norm]) for x in (given.x, found.x))
    assert (after <= before * (1 + 1e-6)).all()
    assert (after < before).any()


def test_a_unit_that_is_handed_nothing_starts_from_noise() -> None:
    case = digits()
    job = nearest_job(case, failing(case, [2]))
    found = search("foolbox.PointwiseAttack", case, job, start_directions=Fraction(50), l2_binary_search=False)
    assert (case.decisions(found.x) != job.y).all()


def test_what_does_not_fail_is_no_start() -> None:
    """The originals themselves: a walk from them would end the library's whole batch."""
    case = digits()
    job = nearest_job(case, Received(torch.from_numpy(case.x[:4]), case.y[:4], torch.arange(4)))
    found = search("foolbox.HopSkipJumpAttack", case, job, steps=Fraction(1))
    assert found.errors == (None,) * 4
    assert not found.offered.any()


def cut(case: Case) -> Case:
    """The case with a model that cuts every value in the middle of the domain."""
    network = nn.Sequential(_Cut(float(case.space.cells[0].high) / 2), case.deployed.network)
    made = Case(network, case.space, model(len(case.spec.classes)), case.x, case.y.tolist())
    made.y = made.decisions(torch.from_numpy(case.x))
    return made


class _Cut(nn.Module):
    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x >= self.threshold).to(x.dtype)


@pytest.mark.parametrize("name", ["digits", "colours"])
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_binarization_refines_failures_of_models_that_cut(name: str, norm: str) -> None:
    """Every value goes back to the original where both are on one side, and else just across the middle."""
    case = cut(CASES[name]())
    given = failing(case, [0, 1, 3])
    job = nearest_job(case, given, norm)
    before = world(case)
    found = search("foolbox.BinarizationRefinementAttack", case, job)
    assert same(before, world(case))
    assert found.errors == (None,) * 4
    assert found.offered.tolist() == [True, True, False, True]
    assert (case.decisions(found.x) != job.y)[[0, 1, 3]].all()
    middle = float(case.space.cells[0].high) / 2
    x, start, end = (a.numpy() for a in (job.x[[0, 1, 3]], given.x, found.x[[0, 1, 3]]))
    kept = (x < middle) == (start < middle)
    assert np.allclose(end[kept], x[kept], atol=middle * 1e-6)
    assert np.allclose(end[~kept], middle, atol=middle * 1e-6)
    assert (job.oracle.queries == torch.tensor([2, 2, 0, 2])).all()


@pytest.mark.parametrize("name", ["digits", "colours"])
def test_binarization_says_where_the_model_cuts_nothing(name: str) -> None:
    case = CASES[name]()
    given = failing(case, [0, 1, 2, 3])
    found = search("foolbox.BinarizationRefinementAttack", case, nearest_job(case, given), threshold=Fraction(1, 1000))
    complained = [e is not None and "does not match what is done by the model" in e for e in found.errors]
    fails = case.decisions(found.x) != case.y[:4]
    assert any(complained)
    assert all(c or f for c, f in zip(complained, fails.tolist(), strict=True))


def test_the_library_tries_no_more_of_its_pool_than_the_batch_has_rows() -> None:
    """The trap: of ten inputs of which all but the first two fail, foolbox 3.3.4 tries one for each of two units."""
    import foolbox

    network = nn.Linear(1, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[0.0], [1.0]]))
        network.bias.copy_(torch.tensor([0.5, 0.0]))
    case = Case(network, unit_box(1), model(2), np.array([[0.1], [0.2]], np.float32), [0, 0])
    pool = torch.tensor([[0.1], [0.2], *([0.9],) * 8])
    library = foolbox.attacks.DatasetAttack(distance=foolbox.distances.l2)
    asked = foolbox.PyTorchModel(case.deployed, bounds=(0, 1))
    library.feed(asked, pool)
    alone = library.run(asked, torch.from_numpy(case.x), foolbox.Misclassification(torch.tensor([0, 0])))
    assert (alone < 0.5).all()
    job = case.job(threat(allow=None, minimize=("l2", "px")), received={"pool": Received(pool, torch.zeros(10), None)})
    found = search("foolbox.DatasetAttack", case, job)
    assert found.x.flatten().tolist() == pytest.approx([0.9, 0.9])
    # Each of the ten and the unit's own input.
    assert job.oracle.queries.tolist() == [11, 11]


def test_a_pool_is_tried_as_far_as_the_queries_reach() -> None:
    case = digits()
    few = threat(allow=None, minimize=("l2", "px"), access=Access("decisions", queries=3))
    others = failing(case, [0, 1, 2, 3])
    job = case.job(few, rows=slice(4), received={"pool": Received(others.x[:1], others.y[:1], None)})
    found = search("foolbox.DatasetAttack", case, job)
    assert (job.oracle.queries == 2).all()
    assert found.errors == (None,) * 4
    assert (case.decisions(found.x)[found.offered] != job.y[found.offered]).all()
    assert found.offered[0]


def test_lgv_trains_copies_alone() -> None:
    case = colours()
    weights = {n: p.clone() for n, p in case.deployed.state_dict().items()}
    found = watched("torchattacks.LGV", case, threat("linf", 40))
    assert all(torch.equal(p, weights[n]) for n, p in case.deployed.state_dict().items())
    assert not any(p.requires_grad for p in case.deployed.parameters())
    assert (found.job.oracle.queries == 0).all()
    assert (case.decisions(found.candidates.x) != found.job.y).any()


def test_lgv_without_a_batch_for_every_model_is_an_error() -> None:
    """The library would train on none, and attack copies of the network as it is."""
    case = digits()
    job = case.job(
        threat("linf"), rows=slice(2), received={"trainloader": Received(torch.from_numpy(case.x), case.y, None)}
    )
    found = search("torchattacks.LGV", case, job, nb_models_epoch=Fraction(4))
    assert found.errors == ("LGV failed: ValueError: 24 examples are 1 batches, and no 4 parts of an epoch",) * 2


def test_several_attacks_of_torchattacks_in_one_are_the_stages_of_a_suite() -> None:
    """MultiAttack gives each input to the next attack that the ones before did not break: so does an evaluation, and
    both break the same."""
    import torchattacks

    case = digits()
    x, y = torch.from_numpy(case.x), case.y
    network = case.deployed
    parts = [torchattacks.FGSM(network, eps=0.1), torchattacks.BIM(network, eps=0.1, alpha=0.02, steps=10)]
    together = torchattacks.MultiAttack(parts)(x, y)
    left, broken = torch.ones(len(x), dtype=torch.bool), torch.zeros(len(x), dtype=torch.bool)
    steps: dict[str, Value] = {"alpha": Distance(Fraction(1, 50), "px"), "steps": Fraction(10)}
    stages: list[tuple[str, dict[str, Value]]] = [("torchattacks.FGSM", {}), ("torchattacks.BIM", steps)]
    for path, arguments in stages:
        found = search(path, case, case.job(threat("linf", Fraction(1, 10))), **arguments)
        broken |= left & (case.decisions(found.x) != y)
        left = ~broken
    assert torch.equal(broken, case.decisions(together) != y)
    assert broken.any()
    assert left.any()
