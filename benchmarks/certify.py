"""CROWN on 100 digits: all of them at once, and one after the other as the library's own examples do it.

    python benchmarks/certify.py

The two take turns, after everything is imported. The first side is the adapter with all that it checks and compares,
in float64. The other makes a bounded module for every example and bounds its margins on the same box, in float32 and
with the library's faster convolutions, and checks nothing. Times are CPU seconds of this process on one thread. Ends
with exit code 1 above the bound.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import torch
from overhead import DIGITS, examples, timed

from tmlang.backends import lirpa_shims
from tmlang.backends.auto_lirpa import LinearBounds
from tmlang.backends.contract import Job

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from backend_support import Case, method, model, resolved, threat, unit_box

RADIUS = Fraction(3, 50)
COUNT = 100
TURNS = 3
BOUND = 0.10


def one_by_one(network: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> int:
    """How many are certified."""
    library = lirpa_shims.load()
    certified = 0
    for digit, label in zip(x, y, strict=True):
        inputs = digit.reshape(1, 1, 8, 8)
        with lirpa_shims.reading_graphs():
            bounded = library.BoundedModule(network, inputs, bound_opts={"sparse_features_alpha": False})
        low, high = (inputs - float(RADIUS)).clamp(min=0), (inputs + float(RADIUS)).clamp(max=1)
        box = library.BoundedTensor(inputs, library.PerturbationLpNorm(norm=math.inf, x_L=low, x_U=high))
        unit = torch.eye(10)
        margins = (unit[label] - unit[torch.arange(10) != label])[None]
        lower, _ = bounded.compute_bounds(x=(box,), C=margins, method="CROWN", bound_upper=False)
        certified += bool((lower > 0).all())
    return certified


def asked(network: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> Job:
    """What a run hands to the adapter."""
    case = Case(network, unit_box(*x.shape[1:]), model(10), x.numpy(), y.tolist())
    job = case.job(threat(radius=RADIUS))
    return replace(job, arguments=resolved("auto_lirpa.crown", job, case.spec))


def at_once(job: Job) -> int:
    """The same through the adapter, in one batch; how many are certified."""
    adapter = LinearBounds(method("auto_lirpa.crown"))
    return sum(word == "certified" for word in adapter.certify(job).verdict)


def digits() -> tuple[torch.nn.Module, torch.Tensor]:
    """The network of the example and the first test digits that it decides correctly."""
    network, x, _ = examples(DIGITS)
    return network, x[:COUNT].reshape(-1, 1, 8, 8)


def dense() -> torch.nn.Module:
    """64-32-32-10 with small random weights, which cost what others cost."""
    torch.manual_seed(0)
    sizes = ((64, 32), (32, 32), (32, 10))
    layers = [layer for a, b in sizes for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    return torch.nn.Sequential(torch.nn.Flatten(), *layers[:-1]).eval().requires_grad_(False)


def main() -> int:
    torch.set_num_threads(1)
    convolutional, x = digits()
    ratios = []
    for name, network in (("64-32-32-10", dense()), ("two convolutions", convolutional)):
        labels = network(x).argmax(1)
        job = asked(network, x, labels)
        at_once(job), one_by_one(network, x[:2], labels[:2])  # what is imported late is imported now
        ours, theirs = [], []
        for _ in range(TURNS):
            theirs.append(timed(lambda n=network, z=labels: one_by_one(n, x, z)))
            ours.append(timed(lambda j=job: at_once(j)))
        found = at_once(job), one_by_one(network, x, labels)
        ratios.append(min(ours) / min(theirs))
        print(f"CROWN on {len(x)} digits at {float(RADIUS)}, {name}, CPU seconds; {found[0]} and {found[1]} certified")
        print(f"  one by one    {'  '.join(f'{t:.2f}' for t in theirs)}")
        print(f"  at once       {'  '.join(f'{t:.2f}' for t in ours)}")
        print(f"  ratio         {ratios[-1]:.3f} (bound {BOUND:.2f})")
    return int(max(ratios) > BOUND)


if __name__ == "__main__":
    sys.exit(main())
