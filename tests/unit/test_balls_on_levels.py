"""Certificates of l1 and l2 balls on a lattice cover the values that its levels are stored as."""

from __future__ import annotations

from fractions import Fraction as F
from importlib.util import find_spec

import numpy as np
import pytest
from backend_support import certify, threat, unit_box
from native_support import linear

from tmlang.meaning.spaces import Cell


@pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")
@pytest.mark.parametrize("method", ["crown", "crown_ibp"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_level_two_steps_away_is_covered(norm, method):
    """Scores a and 0 at 0.85, steps of 1/20, radius 1/10: 0.75 is allowed and is a float32, and 0.85 is stored as
    0.850000024. So the least margin is 0.75, and not 0.750000024, that of the real ball around that."""
    space = unit_box(2, cells=(Cell("lattice", F(0), F(1), F(1, 20)),))
    case = linear([[1, 0], [0, 0]], [0, 0], space, [[0.85, 0.5]])
    assert float(np.float32(0.85)) - 0.1 > 0.75 + 2e-8
    found = certify(f"auto_lirpa.{method}", case, case.job(threat(norm, F(1, 10))))
    assert found.verdict == ("certified",)
    assert 0.75 - 1e-6 < float(found.margin[0]) <= 0.75
