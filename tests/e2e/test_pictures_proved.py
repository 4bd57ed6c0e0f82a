"""Proofs of sets that a transform makes a part of: what a verifier leaves out makes its set larger, never smaller."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from test_universal_pictures import SPEC, strips

from tmlang.api.auditing import audit
from tmlang.api.reading import check
from tmlang.api.running import prepared
from tmlang.audit.bundle import Bundle
from tmlang.execute import runner

BALL = "transform { translate <= 1 'px' step 1 'px' } interpolate nearest fill 0 and linf <= RADIUS in strip"


def ran(folder: Path, radius: str, proof: str) -> Bundle:
    strips(folder, "judged.npz", (2, 1, 3))
    data = dict(np.load(folder / "judged.npz"))
    data["x"] *= np.float32(0.75)
    data["x"][2] = 0  # shifted, it is what it was
    np.savez(folder / "judged.npz", **data)
    strips(folder, "fit.npz", (2,))
    text = SPEC.replace("stored as float32", "step 1/4 stored as float32")
    text = text.replace("ACCESS", "white_box").replace("  perturbation:  universal fitted on fit\n", "")
    line = next(line for line in text.splitlines() if "allow:" in line)
    text = text.replace(line, "  allow:  " + BALL.replace("RADIUS", radius))
    text = text.replace("  seed:    0", f"  {proof}\n  seed:    0")
    (folder / "s.tm").write_text(text)
    made, options = prepared(check(folder / "s.tm"), locked=False)
    runner.run(made, replace(options, out=folder / "out"))
    assert audit(folder / "out").faults == []
    return Bundle.open(folder / "out")


@pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")
@pytest.mark.parametrize(
    "proof", ["enumerate: p = auto_lirpa.enumerate()", "certify: p = auto_lirpa.crown(rounding: none)"]
)
def test_a_proof_of_the_ball_covers_its_pictures(tmp_path: Path, proof: str) -> None:
    """Within 1/4 no strip is lit where it counts. Within 3/4 the ball holds bright strips that no shift makes: nothing
    is proved of any, and of the first one a shift is found."""
    for radius, certified, broken in (("1/4", {"0", "1", "2"}, set()), ("3/4", set(), {"0"})):
        folder = tmp_path / radius.replace("/", "_")
        folder.mkdir()
        rows = Bundle.records(ran(folder, radius, proof))
        assert {r.unit for r in rows if r.stage == "grid" and r.observed_failure} == broken
        assert {r.unit for r in rows if r.stage == "p" and r.verdict == "certified"} == certified
        assert not any(r.verdict == "broken" for r in rows if r.stage == "p")


def test_the_pictures_themselves_are_all_tried(tmp_path: Path) -> None:
    rows = ran(tmp_path, "3/4", "enumerate: p = native.enumerate()").records()
    assert {r.unit: r.verdict for r in rows if r.stage == "p"} == {"1": "certified", "2": "certified"}
    assert {r.unit for r in rows if r.stage == "grid" and r.observed_failure} == {"0"}
