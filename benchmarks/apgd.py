"""Three searches in one linf ball, side by side: what each finds, and what it costs.

    python benchmarks/apgd.py

native.apgd and torchattacks.APGD are the same algorithm (Croce & Hein 2020) written twice; foolbox has no auto-PGD, so
its PGD gets as many gradients. All run through tmlang on the same digits, and tmlang decides what counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch
from overhead import prepare

from tmlang.audit.bundle import Bundle
from tmlang.cli.front import read_spec
from tmlang.execute.runner import RunOptions, run

STEPS = 100
SEARCHES = {
    "native.apgd": f"native.apgd(loss: ce, steps: {STEPS})",
    "torchattacks.APGD": f"torchattacks.APGD(loss: ce, steps: {STEPS})",
    "foolbox.LinfPGD": f"foolbox.LinfPGD(steps: {STEPS})",
}


def main() -> int:
    torch.set_num_threads(1)
    print(f"linf <= 0.06 on the 450 test digits, {STEPS} steps, one restart")
    print(f"  {'':<20}{'survival':>10}{'gradients':>12}{'seconds':>10}")
    with tempfile.TemporaryDirectory() as name:
        for title, call in SEARCHES.items():
            folder = Path(name) / title
            spec = prepare(folder, f"attack: search = {call}")
            plan = read_spec(str(spec), {}).plan
            assert plan is not None
            result = run(plan, RunOptions(out=folder / "out", trust_code=True))
            column = result.columns["alone"].get("survival")
            assert column is not None
            seconds = json.loads((folder / "out" / "environment.json").read_text())["timing"]["alone"]["searching"]
            gradients = sum(record.gradients for record in Bundle.open(result.path).records())
            print(f"  {title:<20}{float(column.high):>10.1%}{gradients:>12}{seconds:>10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
