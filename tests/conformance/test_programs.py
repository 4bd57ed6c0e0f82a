"""TorchScript and exported programs are proved as the modules that they were made of, or refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from backend_support import Case, certify, digits, model, threat, unit_box
from torch import nn

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.programs import as_modules
from tmlang.meaning.values import Quantity


def scripted(network: nn.Module, x: torch.Tensor) -> nn.Module:
    del x
    return saved_script(torch.jit.script(network.eval()))


def traced(network: nn.Module, x: torch.Tensor) -> nn.Module:
    return saved_script(torch.jit.trace(network.eval(), x))


def frozen(network: nn.Module, x: torch.Tensor) -> nn.Module:
    return saved_script(torch.jit.freeze(torch.jit.trace(network.eval(), x)))


def saved_script(program: torch.jit.ScriptModule) -> nn.Module:
    """As it comes back from a file."""
    file = io.BytesIO()
    torch.jit.save(program, file)
    file.seek(0)
    return torch.jit.load(file)


def exported(network: nn.Module, x: torch.Tensor) -> nn.Module:
    program = torch.export.export(network, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    module = torch.export.load(file).module()
    module.eval = lambda: module  # as the reader of models leaves it
    module.train = lambda mode=True: module  # noqa: ARG005
    return module


KINDS = [scripted, traced, frozen, exported]
Program = Callable[[nn.Module, torch.Tensor], nn.Module]


def batch_normalized() -> nn.Module:
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Dropout(), nn.Flatten(),
        nn.Linear(48, 10),
    ).eval()  # fmt: skip
    network[1].running_mean.uniform_(-1, 1)
    network[1].running_var.uniform_(0.5, 2)
    return network


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("build", [lambda: digits().deployed.network, batch_normalized], ids=["cnn", "normalized"])
def test_bounds_of_a_program_are_those_of_its_network(make: Program, build: Callable[[], nn.Module]) -> None:
    plain = digits()
    network, x, y = build(), plain.x[:6], plain.y[:6].tolist()
    found = []
    for one in (network, make(network, torch.from_numpy(x[:2]))):
        case = Case(one, plain.space, plain.spec, x, y)
        found.append(certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(1, 50)))))
    assert found[0].verdict == found[1].verdict
    # Who freezes a network has its normalization folded in float32: another network, by its rounding.
    near = 1e-6 if make is frozen else 1e-9
    assert found[1].margin.tolist() == pytest.approx(found[0].margin.tolist(), abs=near)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("path", ["auto_lirpa.split", "marabou.query"])
def test_complete_answers_about_a_program(path: str, make: Program) -> None:
    """A linear network of two features: its verdicts follow from the worst corner."""
    network = nn.Sequential(nn.Linear(2, 2))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        network[0].bias.zero_()
    x = np.array([[0.75, 0.25], [0.5, 0.375]], np.float32)  # margins 1/2 and 1/8; the worst corner takes 1/5
    case = Case(make(network, torch.from_numpy(x)), unit_box(2), model(2), x, [0, 0])
    job = case.job(threat("linf", Fraction(1, 10)))
    said = certify(path, case, job, timeout=Quantity(Fraction(10), "s"))
    assert said.verdict == ("certified", "broken")


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if bool(x.sum() > 3) else -x


def test_a_program_that_decides_by_its_input_is_refused() -> None:
    program = torch.jit.script(Branching()).eval()
    with pytest.raises(BackendRefusal, match=r"prim::If"):
        as_modules(program, torch.ones(2, 2))


def test_a_reading_that_answers_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tmlang.backends import programs

    program = torch.jit.trace(nn.Linear(2, 2).eval(), torch.ones(2, 2))
    monkeypatch.setattr(programs, "_of_script", lambda _: nn.Linear(2, 2))
    with pytest.raises(BackendRefusal, match="answers otherwise"):
        as_modules(program, torch.ones(2, 2))


def test_plain_modules_stay_as_they_are() -> None:
    network = nn.Linear(2, 2)
    assert as_modules(network, torch.ones(1, 2)) is network
