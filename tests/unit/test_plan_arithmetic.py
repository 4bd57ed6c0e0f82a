"""Which claims need a bound of what the object does, and rest on proofs of real arithmetic alone."""

from __future__ import annotations

import pytest
from semantics_support import spec

from tmlang.cli.front import read_spec

ATTACK = "attack: apgd = native.apgd(loss: ce, steps: 40)"
REAL = "certify: crown = auto_lirpa.crown(rounding: none)"
SOUND = "certify: ibp = auto_lirpa.ibp(rounding: proved)"


@pytest.mark.parametrize(
    ("stages", "claim", "codes"),
    [
        ((REAL,), "certified(aa) >= 20 %", ["TM626"]),
        ((REAL,), "certified(aa) > 20 %", ["TM626"]),
        ((REAL,), "certified(aa) rounds to 20 %", ["TM626"]),
        ((REAL,), "certified(aa) <= 20 %", []),
        ((REAL,), "certificate_coverage(aa) >= 20 %", []),
        ((REAL,), "clean_accuracy(aa) >= 20 %", []),
        ((ATTACK, REAL), "robust_accuracy(aa) >= 20 %", ["TM626"]),
        ((ATTACK, REAL), "robust_accuracy(aa) <= 20 %", []),
        ((ATTACK, REAL), "survival(aa) >= 20 %", []),
        ((ATTACK, REAL, SOUND), "robust_accuracy(aa) >= 20 %", []),
        ((SOUND,), "certified(aa) >= 20 %", []),
    ],
)
def test_a_claim_that_nothing_can_support_is_refused(stages: tuple[str, ...], claim: str, codes: list[str]) -> None:
    evaluate = "evaluate aa of linf8 {\n  " + "\n  ".join(stages) + "\n  seed: 0\n}\n"
    front = read_spec("spec.tm", {}, spec(f'{evaluate}claim "survival": {claim}\n'))
    assert [d.code for d in front.diagnostics if d.is_error] == codes
    assert (front.plan is None) is bool(codes)
