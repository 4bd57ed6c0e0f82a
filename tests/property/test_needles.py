"""No certificate that enters ``certified`` has a failing input, on networks made to have one where nobody looks.

What fails is found on the stored grid by the evaluator alone (``needles``); rational arithmetic shows that it is
rounding which breaks it. ``python tests/campaign needles`` asks about 20,000 units.
"""

from __future__ import annotations

from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from needle_verdicts import FINITE, METHODS, Row, check
from needles import KINDS, UNITS, trap, truth_of
from torch import nn

pytestmark = pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")

QUICK = tuple(m for m in METHODS if m != "marabou.query")


def exact(network: nn.Module, x: np.ndarray) -> list[Fraction]:
    """A chain of dense layers in rational arithmetic."""
    z = [Fraction(float(v)) for v in x.reshape(-1)]
    for layer in network:  # type: ignore[attr-defined]
        if isinstance(layer, nn.Linear):
            rows = [[Fraction(w) for w in row] for row in layer.weight.tolist()]
            z = [sum(w * v for w, v in zip(row, z, strict=True)) for row in rows]
            z = [v + Fraction(b) for v, b in zip(z, layer.bias.tolist(), strict=True)]
        elif isinstance(layer, nn.ReLU):
            z = [max(v, Fraction(0)) for v in z]
        else:
            z = [v if v >= 0 else v * Fraction(layer.negative_slope) for v in z]
    return z


def test_every_kind_has_units_that_fail_and_units_that_do_not() -> None:
    """And each failing input lies in its set, and is not given its label by the evaluator."""
    fails, safe = set(), set()
    for seed in range(4 * KINDS):
        found = trap(seed)
        truth, kind = truth_of(found), seed % KINDS
        if truth.failing:
            fails.add(kind)
        if truth.listed - set(truth.failing):
            safe.add(kind)
        for unit, x in truth.failing.items():
            assert found.job.sets.rows([unit]).inside(x[None])[0]
            assert found.case.decisions(torch.from_numpy(x[None])) != found.job.y[unit]
    assert fails == set(range(KINDS)) == safe


def test_needles_that_cancel_break_the_label_by_rounding_alone() -> None:
    """At inputs that fail, exact arithmetic gives the label by the margin that was built in."""
    broken = 0
    for seed in range(0, 12 * KINDS, 1):
        if seed % KINDS not in (1, 2):  # what cancels, what ties: dense
            continue
        found = trap(seed)
        for unit, x in truth_of(found).failing.items():
            if found.case.space.dtype == "float64":
                continue  # which the door rounds first
            scores, y = exact(found.case.deployed.network, x), int(found.job.y[unit])
            broken += scores[y] > scores[1 - y]
    assert broken >= 60


def test_no_unit_that_fails_is_certified() -> None:
    """Of all kinds, half of the methods in turn; and each certifies some that do not, so that it is not for silence."""
    rows: dict[str, Row] = {}
    for seed in range(KINDS):
        paths = [path for at, path in enumerate(QUICK) if path in FINITE or (at + seed) % 2]
        assert not check(seed, "proved", rows, paths)
    for path in QUICK:
        assert rows[path].failing >= UNITS, path
        assert rows[path].certified >= UNITS, path


def test_a_gap_that_is_measured_at_originals_alone_lets_needles_through() -> None:
    """What certificates with an assumed gap are worth, and that these networks would show it of proved ones."""
    rows: dict[str, Row] = {}
    assert not check(36, "assumed", rows, ("auto_lirpa.crown",))
    assert rows["auto_lirpa.crown"].beside_false > 0
