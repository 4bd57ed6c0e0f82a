"""What ``tmc run`` adds to an attack: the same attack on the same digits, through tmlang and directly, in one process.

    python benchmarks/overhead.py

The two take turns, after everything is imported. tmlang's side is the whole run: hashes, loading, probes, the clean
pass, the attack, the decision of every candidate, the bundle and the judging. Times are CPU seconds of this process
on one thread, so that a busy machine does not disturb them. Ends with exit code 1 above the bound.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torchattacks
from safetensors.torch import load_file

from tmlang.cli.front import read_spec
from tmlang.execute.runner import RunOptions, run

DIGITS = Path(__file__).resolve().parents[1] / "specs" / "digits"
STEPS, RESTARTS = 100, 5
RADIUS = 0.06
TURNS = 5
BOUND = 1.10


def prepare(folder: Path, stage: str) -> Path:
    """The digits example with one stage and nothing else to do."""
    shutil.copytree(DIGITS, folder, dirs_exist_ok=True)
    spec = folder / "digits.tm"
    declarations = spec.read_text().split("\nevaluate ")[0]
    spec.write_text(f"{declarations}\nevaluate alone of faint {{\n  {stage}\n  seed: 0\n}}\n")
    return spec


def examples(folder: Path) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """The network, and the test digits that it decides correctly: the ones that a run attacks."""
    sys.path.insert(0, str(folder))
    from digits import small_cnn

    model = small_cnn()
    model.load_state_dict(load_file(folder / "digits.safetensors"))
    model.eval().requires_grad_(False)
    data = np.load(folder / "digits.npz")
    rows = [int(line) for line in (folder / "test_ids.txt").read_text().split()]
    x = torch.tensor(data["images"][rows] / 16, dtype=torch.float32)
    y = torch.tensor(data["labels"][rows])
    correct = model(x).argmax(1) == y
    return model, x[correct], y[correct]


def timed(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def main() -> int:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = prepare(folder, f"attack: apgd = torchattacks.APGD(steps: {STEPS}, n_restarts: {RESTARTS})")
        model, x, y = examples(folder)
        plan = read_spec(str(spec), {}).plan
        assert plan is not None

        def through_tmlang(turn: int) -> float:
            return timed(lambda: run(plan, RunOptions(out=folder / f"run{turn}", trust_code=True)))

        def directly() -> float:
            return timed(lambda: torchattacks.APGD(model, eps=RADIUS, steps=STEPS, n_restarts=RESTARTS, seed=0)(x, y))

        through_tmlang(0)  # what is imported late is imported now
        ours, theirs = [], []
        for turn in range(1, TURNS + 1):
            theirs.append(directly())
            ours.append(through_tmlang(turn))
    ratio = min(ours) / min(theirs)
    print(f"torchattacks.APGD, {STEPS} steps, {RESTARTS} restarts on {len(x)} digits, CPU seconds")
    print(f"  directly      {'  '.join(f'{t:.2f}' for t in theirs)}")
    print(f"  by tmc run    {'  '.join(f'{t:.2f}' for t in ours)}")
    print(f"  ratio         {ratio:.3f} (bound {BOUND:.2f})")
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
