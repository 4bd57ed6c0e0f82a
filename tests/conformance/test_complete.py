"""Complete methods: on linear networks the exact answer, on others never against what a point shows."""

from __future__ import annotations

import itertools
import os
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from backend_support import Case, certify, model, threat, unit_box
from torch import nn

from tmlang.backends import marabou_process
from tmlang.backends.contract import BackendRefusal
from tmlang.backends.marabou_onnx import export
from tmlang.backends.marabou_process import Dead, Marabou
from tmlang.meaning.threats import Mutable
from tmlang.meaning.values import Quantity

COMPLETE = ["marabou.query", "auto_lirpa.split"]


def spread(n: int, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.2, 0.8, (n, size)).astype(np.float32)


def random_case(seed: int, units: int, last: nn.Module | None = None, sizes: tuple[int, ...] = (2, 8, 8, 3)) -> Case:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), last or nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    for p in network.parameters():
        p.data.mul_(3)
    case = Case(network, unit_box(sizes[0]), model(sizes[-1]), spread(units, sizes[0], seed), [0] * units)
    case.y = case.decisions(torch.from_numpy(case.x))
    return case


def fails_on_grid(case: Case, unit: int, radius: float, steps: int = 120) -> bool:
    """Whether some point of a fine grid over the box of a two-dimensional unit is decided otherwise."""
    low = np.maximum(case.x[unit] - np.float32(radius), 0)
    high = np.minimum(case.x[unit] + np.float32(radius), 1)
    axes = [np.linspace(a, b, steps, dtype=np.float32)[1:-1] for a, b in zip(low, high, strict=True)]
    points = torch.from_numpy(np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2))
    with torch.no_grad():
        return bool((case.decide(case.deployed(points)) != case.y[unit]).any())


@pytest.mark.parametrize("path", COMPLETE)
def test_linear_networks_are_decided_exactly(path: str) -> None:
    """The worst margin of a linear network over a box is a sum over coordinates, and here never near zero."""
    network = nn.Linear(4, 3)
    generator = torch.Generator().manual_seed(5)
    network.weight.data = torch.randn(3, 4, generator=generator)
    network.bias.data = torch.randn(3, generator=generator) / 4
    case = Case(network, unit_box(4), model(3), spread(8, 4, 5), [0] * 8)
    case.y = case.decisions(torch.from_numpy(case.x))
    said = certify(path, case, case.job(threat(radius=Fraction(3, 25))))
    w, b = network.weight.double().numpy(), network.bias.double().numpy()
    seen = set()
    for i, x in enumerate(case.x.astype(np.float64)):
        y = int(case.y[i])
        low, high = np.clip(x - 0.12, 0, 1), np.clip(x + 0.12, 0, 1)
        margins = [np.minimum((w[y] - w[j]) * low, (w[y] - w[j]) * high).sum() + b[y] - b[j] for j in {0, 1, 2} - {y}]
        assert abs(min(margins)) > 1e-3
        assert said.verdict[i] == ("certified" if min(margins) > 0 else "broken")
        seen.add(said.verdict[i])
    assert seen == {"certified", "broken"}


@pytest.mark.parametrize(("path", "nets"), [("marabou.query", 6), ("auto_lirpa.split", 12)])
def test_no_verdict_is_against_a_grid(path: str, nets: int) -> None:
    words = []
    for seed in range(nets):
        case = random_case(seed, 3)
        job = case.job(threat(radius=Fraction(1, 8)))
        said = certify(path, case, job)
        for i, word in enumerate(said.verdict):
            words.append(word)
            grid = fails_on_grid(case, i, 0.125)
            assert word in ("certified", "broken"), said.messages[i]
            if word == "broken":
                assert said.candidates is not None
                x = said.candidates.x[i : i + 1]
                assert job.sets.rows([i]).inside(x.numpy())[0]
                assert case.decisions(x)[0] != case.y[i]
            else:
                assert not grid
                gap = said.gap_of(i)
                assert gap is not None
                assert float(said.margin[i]) > gap
    assert {"certified", "broken"} <= set(words)


@pytest.mark.parametrize(("path", "nets"), [("marabou.query", 4), ("auto_lirpa.split", 10)])
def test_a_planted_counterexample_is_never_certified(path: str, nets: int) -> None:
    """A bump of one neuron, as wide as a hundredth of the box, at a corner of the set, wins there and nowhere else."""
    for seed in range(nets):
        corner = spread(1, 2, 100 + seed)[0]
        network = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2))
        edge = float(corner.sum()) + 0.2 - 0.002
        network[0].weight.data = torch.ones(1, 2)
        network[0].bias.data = torch.tensor([-edge])
        network[2].weight.data = torch.tensor([[0.0], [1000.0]])
        network[2].bias.data = torch.tensor([1.0, 0.0])
        case = Case(network, unit_box(2), model(2), corner[None], [0])
        # Within 0.1 of the corner the sum reaches 0.2 more, and from 0.199 on the second class wins.
        assert certify(path, case, case.job(threat(radius=Fraction(1, 10)))).verdict[0] == "broken"
        assert certify(path, case, case.job(threat(radius=Fraction(9, 100)))).verdict[0] == "certified"


@pytest.mark.parametrize("path", COMPLETE)
def test_frozen_coordinates_stay(path: str) -> None:
    network = nn.Linear(2, 2)
    network.weight.data = torch.tensor([[0.0, 0.0], [0.0, 4.0]])
    network.bias.data = torch.tensor([1.0, -1.1])
    still = threat(radius=Fraction(1, 5), mutable=Mutable("columns", ranges=((0, 0),)))
    flat = Case(
        nn.Sequential(nn.Flatten(), network), unit_box(1, 2), model(2), np.full((1, 1, 2), 0.5, np.float32), [0]
    )
    assert certify(path, flat, flat.job(still)).verdict == ("certified",)
    assert certify(path, flat, flat.job(threat(radius=Fraction(1, 5)))).verdict == ("broken",)


def test_proofs_on_smooth_activations_are_not_believed() -> None:
    case = random_case(1, 4, last=nn.Sigmoid())
    said = certify("marabou.query", case, case.job(threat(radius=Fraction(1, 100))), timeout=Quantity(Fraction(5), "s"))
    assert "certified" not in said.verdict


def test_a_box_too_narrow_for_the_solver_is_left_open() -> None:
    case = random_case(0, 2)
    said = certify("marabou.query", case, case.job(threat(radius=Fraction(1, 10**6))))
    assert said.verdict == ("unknown", "unknown")
    assert said.messages[0] is not None
    assert "4e-06" in said.messages[0]


@pytest.mark.parametrize(
    ("network", "shape", "why"),
    [
        (nn.Conv2d(2, 2, 3, groups=2), (2, 6, 6), "grouped"),
        (nn.Conv2d(1, 2, 2, dilation=2), (1, 6, 6), "dilated"),
        (nn.MaxPool2d(2, padding=1), (1, 6, 6), "padded"),
        (nn.AvgPool2d(2), (1, 6, 6), "AveragePool"),
        (nn.Sequential(nn.Linear(3, 3), nn.ELU()), (3,), "Elu"),
        (nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=1)), (3,), "Softmax"),
    ],
)
def test_operations_that_the_reader_gets_wrong_are_refused(
    network: nn.Module, shape: tuple[int, ...], why: str, tmp_path: Path
) -> None:
    with pytest.raises(BackendRefusal, match=why):
        export(network.double(), torch.zeros(1, *shape, dtype=torch.float64), tmp_path / "n.onnx")


# The process ----------------------------------------------------------------------------------------------------------

ANSWERS = """
import json, sys, time, os
for line in sys.stdin:
    request = json.loads(line)
    if "network" in request:
        print(json.dumps({"ready": True}), flush=True)
        continue
    %s
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def make(body: str) -> Marabou:
        script = tmp_path / "worker.py"
        script.write_text(ANSWERS % body)
        monkeypatch.setattr(marabou_process, "WORKER", script)
        monkeypatch.setattr(marabou_process, "OVERSHOOT", 0.3)
        return Marabou(tmp_path / "n.onnx", 1024)

    return make


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_solver_that_hangs_is_killed_with_its_children(fake) -> None:
    with fake("import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, file=open('pid', 'w')); time.sleep(60)") as solver:  # fmt: skip  # noqa: E501
        began = time.monotonic()
        with pytest.raises(Dead, match="killed") as dead:
            solver.ask({}, 0.7)
        assert dead.value.killed
        assert time.monotonic() - began < 10
        child = int((solver.model.parent / "pid").read_text())
    for _ in range(100):
        if not alive(child) or Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("an orphan is left")


def test_a_solver_that_crashes_is_an_outcome_and_started_again(fake) -> None:
    with fake(
        "os.kill(os.getpid(), 11) if 'crash' in request else print(json.dumps({'code': 'unsat'}), flush=True)"
    ) as s:
        with pytest.raises(Dead, match="signal 11") as dead:
            s.ask({"crash": 1}, 5)
        assert not dead.value.killed
        assert s.ask({}, 5) == {"code": "unsat"}


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ("{'code': 'TIMEOUT', 'x': None}", "timeout"),
        ("{'code': 'UNKNOWN', 'x': None}", "unknown"),
        ("{'code': 'ERROR', 'x': None}", "error"),
        ("{'failed': 'MemoryError'}", "error"),
        ("{'code': 'sat', 'x': request['low']}", "unknown"),
        ("{'code': 'unsat', 'x': None}", "certified"),
    ],
)
def test_only_unsat_proves_and_a_point_that_does_not_fail_is_no_answer(fake, answer: str, word: str) -> None:
    network = nn.Linear(2, 2)
    network.weight.data, network.bias.data = torch.zeros(2, 2), torch.tensor([1.0, 0.0])
    case = Case(network, unit_box(2), model(2), spread(1, 2, 0), [0])
    outputs = "{'outputs': [[1.0, 0.0]] * len(request['points'])}"
    fake(f"print(json.dumps({outputs} if 'points' in request else {answer}), flush=True)")
    assert certify("marabou.query", case, case.job(threat())).verdict == (word,)


def test_a_network_that_is_read_as_another_is_refused(fake) -> None:
    case = random_case(0, 1)
    fake("print(json.dumps({'outputs': [[0.0, 0.0, 0.0]] * 20} if 'points' in request else {}), flush=True)")
    with pytest.raises(BackendRefusal):
        certify("marabou.query", case, case.job(threat(radius=Fraction(1, 1000))))


def test_the_worker_stands_alone() -> None:
    """It imports nothing of the package, so that a crash of it is a crash of the library."""
    text = marabou_process.WORKER.read_text()
    assert "import tmlang" not in text
    assert "from tmlang" not in text
