"""Certificates under a gap that is assumed, and under one that is proved: counts side by side, gaps, and CPU seconds.

    python benchmarks/rounding.py [--data ../shared/data/real] [--only mnist] [--share 1/10]

The published networks and images of ``--data`` are left out where the folder is not there. ``--share`` takes so much of
each data set, from the front. ``lost``: units that only the assumed gap certifies, of all. Ends with exit code 1 where
more than two points are lost.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from tmlang.meaning.values import Symbol

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from backend_support import Case, certify, model, threat, unit_box

ROOT = Path(__file__).resolve().parents[1]
Load = Callable[[], tuple[nn.Module, np.ndarray, np.ndarray]]
BOUND = 2.0
"""Points of a hundred."""
PART = 64
"""Units that are handed over together."""


@dataclass(frozen=True)
class Line:
    """Of one network. ``load`` gives it, images (N, *shape) in [0, 1], and labels."""

    name: str
    load: Load
    radii: Sequence[tuple[str, Fraction]]
    count: int
    methods: tuple[str, ...]


def digits(network: nn.Module | None = None) -> tuple[nn.Module, np.ndarray, np.ndarray]:
    """The network of the example, or another one with fresh weights that is trained for a moment."""
    folder = ROOT / "specs" / "digits"
    with np.load(folder / "digits.npz") as held:
        images, labels = (held["images"].reshape(-1, 1, 8, 8) / 16).astype(np.float32), held["labels"]
    train, test = (
        [int(line) for line in (folder / f"{part}_ids.txt").read_text().split()] for part in ("train", "test")
    )
    if network is None:
        network = runpy.run_path(str(folder / "digits.py"))["small_cnn"]()
        network.load_state_dict(load_file(folder / "digits.safetensors"))
        return network, images[test], labels[test]
    x, y = torch.from_numpy(images[train]), torch.from_numpy(labels[train]).long()
    adam = torch.optim.Adam(network.parameters(), lr=5e-3)
    for _ in range(150):
        adam.zero_grad()
        moved = (x + 0.1 * (2 * torch.rand_like(x) - 1)).clamp(0, 1)
        nn.functional.cross_entropy(network(moved), y).backward()
        adam.step()
    return network, images[test], labels[test]


def published(data: Path, weights: str, images: str, make: Callable[[], nn.Sequential]) -> Load:
    def load() -> tuple[nn.Module, np.ndarray, np.ndarray]:
        network = make()
        network.load_state_dict(load_file(data / "models" / weights))
        with np.load(data / "images" / images) as held:
            x, y = held["x"], held["y"]
        x = x.astype(np.float32) / (255 if x.dtype == np.uint8 else 1)
        return network, x, y.astype(np.int64)

    return load


def dense(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def two_convolutions(channels: int, side: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(2 * side**2, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    return dense(64, 32, 32, 10)


def sdp() -> nn.Sequential:
    """Its normalization is a convolution of its own."""
    return nn.Sequential(nn.Conv2d(3, 3, 1), two_convolutions(3, 32))


CROWN = ("auto_lirpa.crown",)
ALPHA = (*CROWN, "auto_lirpa.alpha_crown")


def lines(data: Path) -> Iterator[Line]:
    radii = [("linf", r) for r in (Fraction(1, 50), Fraction(1, 20), Fraction(3, 50), Fraction(1, 10))]
    radii.append(("l2", Fraction(1, 4)))
    yield Line("digits, CNN", digits, radii, 200, (*ALPHA, "auto_lirpa.ibp", "auto_lirpa.forward_backward"))
    yield Line("digits, 64-32-32-10", lambda: digits(perceptron()), radii, 200, (*ALPHA, "auto_lirpa.ibp"))
    if not data.exists():
        return
    mnist, cifar = "mnist_test_10k.npz", "cifar10_sdp200.npz"
    small = published(data, "mnist/wong_kolter_linf0.1.safetensors", mnist, lambda: two_convolutions(1, 28))
    yield Line("MNIST, Wong and Kolter", small, [("linf", Fraction(1, 10))], 1000, CROWN)
    large = published(data, "cifar10/sdp_cnn_a_adv.safetensors", cifar, sdp)
    yield Line("SDP CNN-A adv", large, [("linf", Fraction(2, 255))], 60, ALPHA)
    deep = published(data, "mnist/eran_6x100.safetensors", mnist, lambda: dense(784, *[100] * 5, 10))
    yield Line("ERAN 6x100", deep, [("linf", Fraction(26, 1000))], 200, ALPHA)


def measured(case: Case, norm: str, radius: Fraction, method: str, kind: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Which units are certified, the gaps, and CPU seconds."""
    words: list[str] = []
    gaps: list[float] = []
    began = time.process_time()
    for start in range(0, len(case.x), PART):
        job = case.job(threat(norm, radius), rows=slice(start, start + PART))
        said = certify(method, case, job, rounding=Symbol(kind))
        words += said.verdict
        gaps += [float(said.gap_of(i) or 0) for i in range(len(job.x))]
    return np.array(words) == "certified", np.array(gaps), time.process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "real")
    parser.add_argument("--only", default="")
    parser.add_argument("--share", type=Fraction, default=Fraction(1))
    given = parser.parse_args()
    torch.set_num_threads(1)
    worst = 0.0
    print(
        "| network | set | method | units | assumed | proved | lost | gap: median, greatest | CPU s: assumed, proved |"
    )
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for line in lines(given.data):
        if given.only.lower() not in line.name.lower():
            continue
        network, x, y = line.load()
        count = max(1, int(line.count * given.share))
        shape = x.shape[1:]
        case = Case(network, unit_box(*shape), model(10), x[:count], y[:count].tolist())
        for norm, radius in line.radii:
            for method in line.methods:
                before, _, took = measured(case, norm, radius, method, "assumed")
                after, gaps, takes = measured(case, norm, radius, method, "proved")
                lost = int((before & ~after).sum())
                worst = max(worst, 100 * lost / len(before))
                shown = gaps[before] if before.any() else gaps
                print(
                    f"| {line.name} | {norm} {radius} | `{method}` | {len(before)} | {before.sum()} | {after.sum()} "
                    f"| {lost} | {np.median(shown):.2g}, {shown.max():.2g} | {took:.1f}, {takes:.1f} |",
                    flush=True,
                )
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main())
