"""Every method that proves, on needles and float traps: 20,000 units, of which none that fails is certified.

A seed is one network with twenty boxes (``needles``). The counts are a method's: units, those of them that are known to
fail, certificates, those of ``safe`` units (every stored input was looked at), and ``beside``: those that rest on an
assumption or a solver's word, and do not enter ``certified``. ``TM_ROUNDING=assumed`` asks with that argument.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from needle_verdicts import Row, check

from campaign.runner import Campaign, counted, each

TOLD = ("units", "failing", "certified", "false", "safe", "proved", "beside", "beside_false", "refused")


def wrong(seed: int) -> Sequence[str]:
    torch.set_num_threads(1)  # as the evaluator
    rows: dict[str, Row] = {}
    found = check(seed, os.environ.get("TM_ROUNDING") or None, rows)
    for path, row in rows.items():
        counted(**{f"{path} {name}": getattr(row, name) for name in TOLD if getattr(row, name)})
        counted(**{f"{path} ms": round(1000 * row.seconds)})
    return found


CAMPAIGN = Campaign("no unit with a failing input is certified: needles, float traps", 1000, each(wrong), 100, block=5)
