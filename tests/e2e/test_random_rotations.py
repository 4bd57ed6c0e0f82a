"""Transforms against an object that draws: gradients in expectation, and witnesses by fresh draws of the deployed one.

The object reads the middle pixel of a dot, with normal noise of 1/10, against 1/2. Shifted by (d, r) it is
(1 - |d|)(1 - |r|): 9/16 at a quarter each, where the noise takes it below 1/2 with probability 0.266; 1/4 at a half
each, where it does in all but 0.6 % of draws.
"""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist

import numpy as np
from e2e_support import run_here

from tmlang.api.auditing import audit
from tmlang.audit.bundle import Bundle

SPEC = """\
tm 1

space picture: tensor(1, 3, 3) of real[0, 1] stored as float32

model dot: picture -> {middle, elsewhere} {
  step:     noise(gaussian, sigma: 1/10)
  network:  linear(weights: [[0, 0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0]], bias: [0, 1/2])
  decide:   argmax ties lowest
  random:   per request
}

data dots: picture {
  read:   npz("dots.npz", inputs: "x", labels: "y", ids: "ids")
  take:   all
  truth:  published "by hand"
}

threat shaken(most) on dot over dots {
  allow:         transform { translate <= most } interpolate bilinear fill 0
  mutable:       all
  goal:          untargeted
  access:        white_box, randomness known
  clean_errors:  fail
  success:       error_probability > 1/2 at 99 % on 60 fresh draws
}

evaluate little of shaken(most: 1/4 'px') {
  attack:  slopes = native.transform_pgd(steps: 10, restarts: 2) through expectation(draws: 20)
  attack:  grid = native.transform_grid(values: 3)
  seed:    0
}

evaluate much of shaken(most: 1/2 'px') {
  attack:  slopes = native.transform_pgd(steps: 10, restarts: 2) through expectation(draws: 20)
  seed:    0
}
"""


def test_witnesses_are_what_fresh_draws_confirm(tmp_path: Path) -> None:
    x = np.zeros((2, 1, 3, 3), np.float32)
    x[:, 0, 1, 1] = 1
    np.savez(tmp_path / "dots.npz", x=x, y=np.zeros(2, np.int64), ids=np.array(["a", "b"]))
    (tmp_path / "s.tm").write_text(SPEC)
    code, evidence = run_here(tmp_path / "s.tm", tmp_path / "out")
    assert code == 0
    bundle = Bundle.open(evidence.path)
    little, much = (evidence.rows(name, "slopes") for name in ("little", "much"))
    assert not any(row["observed_failure"] for row in little + evidence.rows("little", "grid"))
    # A single draw failed during the search and was committed to; on fresh ones too few do.
    judged = [row for row in little + evidence.rows("little", "grid") if row["draws"]]
    assert all(row["draws"] == 60 and row["errors"] < 40 for row in judged)
    assert [row["observed_failure"] for row in much] == [True, True]
    for row in much:
        down, right = bundle.parameters(row["candidate"]) or (0.0, 0.0)
        middle = (1 - abs(down)) * (1 - abs(right))
        expected = 60 * NormalDist(middle, 0.1).cdf(0.5)
        assert abs(row["errors"] - expected) < 5 * (60 * 0.25) ** 0.5
        assert row["gradients"] % 20 == 0  # every step asked for twenty draws
    assert audit(evidence.path).faults == []
