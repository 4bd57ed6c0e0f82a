"""Honest runs of every kind, small enough to be made and made again by the hundred."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from tmlang.api.reading import check
from tmlang.api.running import prepared
from tmlang.execute import calls, output, runner
from tmlang.execute.workers import Limits

PLAIN = """\
tm 1

space pair: tensor(2) of {space} stored as float32

model greatest: pair -> {classes} {{
{steps}  network:  linear(weights: [[1, 0], [0, 1], [0, 0]], bias: [0, 0, 1/2])
{decide}
}}

data rows: pair {{
  read:   npz("rows.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}}

data others: pair {{
  read:   npz("others.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}}

{subject}
"""
THREAT = """\
threat near on greatest over rows {
  allow:         linf <= 1/8 in pair
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}
"""
DECIDE = """\
  decide:   argmax ties lowest
  random:   never"""
CLASSES = "{a, b, half}"


def _plain(
    *stages: str,
    threat: Callable[[str], str] = str,
    decide: str = DECIDE,
    space: str = "real[0, 1]",
    steps: str = "",
    claims: str = 'claim "c": survival(e) >= 50 %',
) -> str:
    body = "\n".join(f"  {stage}" for stage in stages)
    subject = f"{threat(THREAT)}\nevaluate e of near {{\n{body}\n  seed: 3\n}}\n\n{claims}\n"
    return PLAIN.format(space=space, decide=decide, classes=CLASSES, subject=subject, steps=steps)


def _swap(*pairs: tuple[str, str]) -> Callable[[str], str]:
    def change(text: str) -> str:
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return text

    return change


PICTURE = """\
tm 1

space picture: tensor(1, 3, 3) of real[0, 1] stored as float32

model dot: picture -> {middle, elsewhere} {
  network:  linear(weights: [[0, 0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0]], bias: [0, 1/2])
  decide:   argmax ties lowest
  random:   never
}

data dots: picture {
  read:   npz("dots.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}

threat shaken on dot over dots {
  allow:         linf <= 1/8 in picture
  mutable:       all
  perturbation:  per example
  nature:        { translate uniform [-1/2, 1/2] 'px' } draws 12 interpolate bilinear fill 0
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
  success:       single draw judged on 12 fresh draws
}

evaluate e of shaken {
  attack:  greys = native.pgd(steps: 3) through expectation(draws: 2)
  attribution: full
  seed: 3
}

claim "c": survival(e) >= 50 %
"""
SPECS: dict[str, str] = {
    "searched": _plain(
        "attack: up = native.pgd(steps: 3, restarts: 2)",
        "attack: down = native.apgd(steps: 4)",
        "certify: prove = auto_lirpa.crown(outputs: true)",
        claims='claim "c": survival(e) >= 50 %\nclaim "d": certified(e) >= 10 %',
    ),
    "attributed": _plain(
        "attack: up = torchattacks.PGD(alpha: 1/16 in pair, steps: 3)",
        "attack: down = native.random(draws: 6)",
        "certify: prove = auto_lirpa.ibp()",
        "attribution: full",
        "repeats: 2",
    ),
    "enumerated": _plain(
        "enumerate: each = native.enumerate(at_most: 100)",
        space="real[0, 1] step 1/16",
        claims='claim "c": robust_accuracy(e) >= 50 %',
    ),
    "targeted": _plain(
        "attack: up = native.pgd(steps: 3)",
        "attribution: full",
        threat=_swap(("untargeted", "targeted each apart")),
        claims='claim "c": attack_success(e, attack: up) <= 50 %',
    ),
    "limited": _plain(
        "attack: some = native.square(queries: 12)",
        "attack: more = native.random(draws: 9)",
        threat=_swap(("white_box", "scores, queries <= 20 per example")),
    ),
    "rejecting": _plain(
        "attack: up = native.apgd(steps: 4)",
        threat=_swap(("clean_errors:  fail", "clean_errors:  fail\n  rejected:      denied")),
        decide=DECIDE.replace("  random", "  reject:   when max_softmax < 2/5\n  random"),
        claims='claim "c": denied(e) <= 50 %',
    ),
    "lengths": _plain(
        "attack: near = native.fab(steps: 5)",
        threat=_swap(("allow:         linf <= 1/8 in pair", "minimize:      l2 in pair")),
        claims='claim "c": median_distance(e) >= 1/100',
    ),
    "united": _plain(
        "attack: up = native.apgd(steps: 4)",
        "certify: prove = auto_lirpa.crown()",
        threat=_swap(("linf <= 1/8 in pair", "flat: linf <= 1/8 in pair or round: l2 <= 1/6 in pair")),
    ),
    "drawn": _plain(
        "attack: up = native.pgd(steps: 3) through expectation(draws: 4)",
        threat=_swap(
            ("fail", "fail\n  success:       error_probability > 1/2 at 90 % on 60 fresh draws"),
        ),
        steps="  step:     noise(gaussian, sigma: 1/16)\n",
        decide=DECIDE.replace("never", "per request"),
    ),
    "shared": _plain(
        "attack: up = native.pgd(steps: 3) through expectation(draws: 2)",
        "attribution: full",
        threat=_swap(
            ("clean_errors:  fail", "clean_errors:  fail\n  success:       single draw judged on 20 fresh draws")
        ),
        steps="  step:     noise(gaussian, sigma: 1/16)\n",
        decide=DECIDE.replace("never", "per request"),
    ),
    "smoothed": _plain(
        "certify: cohen = smoothing.gaussian(n0: 20, n: 100, alpha: 1/100)",
        threat=_swap(("linf <= 1/8", "l2 <= 1/16")),
        steps="  step:     noise(gaussian, sigma: 1/16)\n",
        decide=DECIDE.replace("argmax ties lowest", "most_likely draw"),
        claims='claim "c": certified(e) >= 20 %',
    ),
    "universal": _plain(
        "attack: all = native.pgd(steps: 4)",
        threat=_swap(("per example", "universal fitted on others")),
    ),
    "handed": _plain(
        "attack: up = native.pgd(steps: 3)",
        "attack: walk = foolbox.HopSkipJumpAttack(steps: 2, initial_gradient_eval_steps: 4, "
        "max_gradient_eval_steps: 8, starting_points: up)",
        "attribution: full",
    ),
    "property": """\
tm 1

space pair { one: real[0, 1]  other: real[0, 1] } stored as float32

model net: pair -> {sum, difference, half} {
  network:  linear(weights: [[1, 1], [1, -1], [0, 0]], bias: [0, 0, 1/2])
  decide:   argmax ties lowest
  random:   never
}

property phi on net { given: one >= 1/2, other <= 1/2  always: sum <= 1.6 }

evaluate e of phi {
  attack: up = native.pgd(steps: 3)
  decide_exactly: split = auto_lirpa.split(timeout: 60 's')
  seed: 3
}

claim "c": holds(e)
""",
    "natural": PICTURE,
    "shifted": PLAIN.format(
        space="real[0, 1]", decide=DECIDE, classes=CLASSES, steps="",
        subject=(
            "shift noisy on greatest over rows {\n  apply: native.gaussian_noise(sd: 1/8 in pair)\n"
            "  interval: wilson at 95 %\n}\nevaluate e of noisy { seed: 3  repeats: 2 }\n"
            'claim "c": corrupted_accuracy(e) >= 50 %\n'
        ),
    ),
}  # fmt: skip
OTHERS = [[0.625, 0.25], [0.25, 0.625], [0.375, 0.375], [0.5625, 0.4375]]
KINDS = tuple(SPECS)


def honest(folder: Path, kind: str, seed: int, *, threads: int = 1, workers: int = 0) -> Path:
    """A finished run of a few examples in ``folder``: the spec, its data, and the bundle in ``out``. Without pages."""
    random = Random(seed)
    folder.mkdir(parents=True)
    points = [[random.randint(0, 16) / 16, random.randint(0, 16) / 16] for _ in range(random.randint(4, 9))]
    points.append([0.5625, 0.5])  # near the two borders that meet there
    right = [0 if a >= b and a >= 0.5 else 1 if b > a and b >= 0.5 else 2 for a, b in points]
    labels = [y if random.random() < 0.85 else random.randrange(3) for y in right[:-1]] + [0]
    np.savez(folder / "rows.npz", x=np.array(points, np.float32), y=np.array(labels, np.int64))
    np.savez(folder / "others.npz", x=np.array(OTHERS, np.float32), y=np.array([0, 1, 2, 0], np.int64))
    dots = np.zeros((4, 1, 3, 3), np.float32)
    dots[:, 0, 1, 1] = [random.randint(8, 16) / 16 for _ in range(4)]
    np.savez(folder / "dots.npz", x=dots, y=np.array([0, 0, 0, 1], np.int64))
    (folder / "s.tm").write_text(SPECS[kind])
    found = check(folder / "s.tm")
    assert found.plan is not None, "\n".join(d.message for d in found.diagnostics)
    made, options = prepared(found, locked=False)
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "write_into", lambda _: ())  # what pages show is another test's matter
        units = random.choice([3, 512])  # some evaluations are several calls
        (folder / "units").write_text(str(units))
        patch.setattr(calls, "UNITS", units)
        torch.set_num_threads(threads)
        try:
            runner.run(made, replace(options, out=folder / "out", limits=Limits(workers)))
        finally:
            torch.set_num_threads(before)
    return folder
