"""Searches of the same ball, side by side in one process: what each finds, and what it costs.

    python benchmarks/apgd.py

Every unit is worth a hundred gradients to each of them. native.apgd and torchattacks.APGD are the same algorithm (Croce
& Hein 2020) written twice; foolbox has no auto-PGD, so its iterated attacks take as many gradients. What the libraries
have for a white box stands in the form that finds most: with restarts, other losses, towards one class after the other.
In l1 everybody's searches of l1 balls stand beside each other, those for the nearest failure among them.
Each is given the same job, in turns; what it offers is decided again, and seconds are CPU seconds of this process on a
single thread, the fewest of its turns. The second network needs the shared data folder. Ends with exit code 1 where the
first native search finds less than a library's, or where one that finds as much is quicker.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import torch
from overhead import prepare

from tmlang.backends.contract import Search
from tmlang.backends.failure import Failure
from tmlang.backends.loading import load
from tmlang.backends.recheck import recheck
from tmlang.cli.front import read_spec
from tmlang.execute.allocator import keep_freed_memory
from tmlang.execute.arena import Arena, make_arena
from tmlang.execute.jobs import JobMaker
from tmlang.execute.world import World
from tmlang.plan.ir import Stage

TURNS = 3
LINF = {
    "native": "native.apgd_targeted(steps: 33, targets: 3)",
    "native_ce": "native.apgd(loss: ce, steps: 100)",
    "apgd_ce": "torchattacks.APGD(loss: ce, steps: 100)",
    "apgd_ce_restarts": "torchattacks.APGD(loss: ce, steps: 25, n_restarts: 4)",
    "apgd_dlr": "torchattacks.APGD(loss: dlr, steps: 100)",
    "apgdt": "torchattacks.APGDT(steps: 10)",
    "ta_pgd": "torchattacks.PGD(steps: 100)",
    "fb_pgd": "foolbox.LinfPGD(steps: 100)",
    "fb_basic": "foolbox.LinfBasicIterativeAttack(steps: 100)",
    "fb_adam": "foolbox.LinfAdamPGD(steps: 100)",
}
L1 = {
    "native": "native.apgd_targeted(steps: 33, targets: 3)",
    "native_ce": "native.apgd(loss: ce, steps: 100)",
    "apgd_ce": "adv_lib.apgd(loss_function: ce, n_iter: 100)",
    "apgd_ce_restarts": "adv_lib.apgd(loss_function: ce, n_iter: 25, n_restarts: 4)",
    "apgd_targeted": "adv_lib.apgd_targeted(n_iter: 33, num_targets: 3)",
    "fab": "adv_lib.fab(n_iter: 10)",
    "pdpgd": "adv_lib.pdpgd(num_steps: 100)",
    "fmn": "adv_lib.fmn(steps: 100)",
    "alma": "adv_lib.alma(num_steps: 100)",
    "ta_ead": "torchattacks.EADL1(max_iterations: 100, binary_search_steps: 1, initial_const: 10)",
    "fb_pgd": "foolbox.L1PGD(steps: 100)",
    "fb_adam": "foolbox.L1AdamPGD(steps: 100)",
    "fb_slide": "foolbox.SparseL1DescentAttack(steps: 100)",
    "fb_fmn": "foolbox.L1FMNAttack(steps: 100)",
    "fb_ead": "foolbox.EADAttack(binary_search_steps: 1, steps: 100, initial_const: 10, abort_early: false)",
}


def stages(searches: Mapping[str, str]) -> str:
    """As an evaluation has them."""
    return "\n".join(f"  attack: {label} = {call}" for label, call in searches.items())


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "real"
SDP = f"""tm 1
space px: tensor(3, 32, 32) of real[0, 1] stored as float32
model net: px -> classes(10) {{
  network:  onnx("sdp_cnn_a_adv.onnx")
  decide:   argmax ties lowest
  random:   never
}}
data test: px {{
  read:     npz("cifar10_sdp200.npz", inputs: "x", labels: "y")
  prepare:  {{ scale(1/255) }}
  take:     all
  truth:    published "CIFAR-10 test labels"
}}
threat near on net over test {{
  allow:         linf <= 2/255 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}}
evaluate alone of near {{
{stages(LINF)}
  seed: 0
}}
"""


def specs(folder: Path) -> Iterator[tuple[str, Mapping[str, str], Path]]:
    """What is measured, by whom, and a spec of it."""
    for norm, radius in (("linf", "0.06"), ("linf", "0.12"), ("l1", "1/2"), ("l1", "1"), ("l1", "2")):
        searches = L1 if norm == "l1" else LINF
        spec = prepare(folder / norm / radius.replace("/", "_"), stages(searches))
        spec.write_text(spec.read_text().replace("linf <= 0.06", f"{norm} <= {radius}"))
        yield f"digits, {norm} <= {radius}", searches, spec
    if SHARED.exists():
        for file in (SHARED / "models" / "cifar10" / "sdp_cnn_a_adv.onnx", SHARED / "images" / "cifar10_sdp200.npz"):
            shutil.copy(file, folder / file.name)
        (folder / "sdp.tm").write_text(SDP)
        yield "SDP CNN-A on 200 images of CIFAR-10, linf <= 2/255", LINF, folder / "sdp.tm"


def measured(arena: Arena, stage: Stage) -> tuple[int, int, float]:
    """Units broken, gradients, CPU seconds of one search of the correct units."""
    at = [i for i, unit in enumerate(arena.units) if unit.clean == "cc"]
    job = JobMaker(arena, stage, 0, None, None).jobs(at, [0] * len(at))[0].job
    adapter = cast(Search, load(stage.backend, stage.method))
    began = time.process_time()
    found = adapter.search(job)
    seconds = time.process_time() - began
    rows = recheck(found, job.sets, arena.attacked.evaluator, Failure.of(job.sets, job.y, job.target))
    return sum(any(row.is_witness for row in unit) for unit in rows), int(job.oracle.gradients.sum()), seconds


def compared(title: str, searches: Mapping[str, str], spec: Path) -> bool:
    """Print one comparison; whether the first finds most, and no library's that finds as much is quicker."""
    plan = read_spec(str(spec), {}).plan
    assert plan is not None
    arena, found = make_arena(plan.evaluations[0], World(plan, trust_code=True))
    assert arena is not None, found
    planned = plan.evaluations[0].stages
    turns = [[measured(arena, stage) for stage in planned] for _ in range(TURNS)]
    print(f"\n{title}\n  {'':<90}{'broken':>8}{'gradients':>12}{'seconds':>10}")
    rows = {}
    for k, stage in enumerate(planned):
        broken, gradients, _ = turns[0][k]
        rows[stage.label] = broken, min(turn[k][2] for turn in turns)
        print(f"  {searches[stage.label]:<90}{broken:>8}{gradients:>12,}{rows[stage.label][1]:>10.2f}")
    most, seconds = rows["native"]
    others = [row for label, row in rows.items() if not label.startswith("native")]
    return all(broken < most or (broken == most and taken >= seconds) for broken, taken in others)


def main() -> int:
    torch.set_num_threads(1)
    keep_freed_memory()  # as a run does
    with tempfile.TemporaryDirectory() as name:
        held = [compared(*what) for what in specs(Path(name))]
    print(
        "\n"
        + ("held" if all(held) else "NOT held")
        + ": the first finds most, and no library's that finds as much is quicker"
    )
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
