"""Every bundle that somebody changed is found, and no honest one is blamed."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from audit_support import key_pair
from tampering import FORGED, SEALED, detected, honest_run, tampered

from tmlang.api.auditing import audit, sign
from tmlang.audit.bundle import Bundle
from tmlang.diagnostics.stop import Stop

SIZES = [
    pytest.param(3, 150, id="some"),
    pytest.param(200, 10_000, id="all", marks=[pytest.mark.nightly, pytest.mark.timeout(7200)]),
]


@pytest.mark.parametrize(("honest", "changed"), SIZES)
def test_changed_bundles_are_found_and_honest_ones_hold(tmp_path: Path, honest: int, changed: int) -> None:
    folders = [honest_run(tmp_path / f"run{i}", i) for i in range(honest)]
    assert [f.name for f in folders if detected(f, f / "out")] == []
    for f in folders:
        (f / "out.zip").write_bytes(Bundle.open(f / "out").packed())
    assert [f.name for f in folders if detected(f, f / "out.zip")] == []
    missed: Counter[str] = Counter()
    for seed in range(changed):
        folder = folders[seed % honest]
        path = folder / "changed"
        kind = tampered(folder, path, seed)
        if not detected(folder, path):
            missed[f"{kind} {seed}"] += 1
        path.unlink() if path.is_file() else shutil.rmtree(path)
        (folder / "changed.elsewhere").unlink(missing_ok=True)
    assert missed == {}


def test_a_signature_is_not_made_anew_with_the_hashes(tmp_path: Path) -> None:
    private, public = key_pair(tmp_path)
    folder = honest_run(tmp_path / "run", 1)
    sign(folder / "out", private)
    assert audit(folder / "out", key=public).faults == []
    for change in (*SEALED, *FORGED):
        path = folder / change.__name__
        shutil.copytree(folder / "out", path)
        change(path, Random(3))
        try:
            codes = {fault.code for fault in audit(path, key=public).faults}
        except Stop:  # it is not even read
            continue
        assert "TM856" in codes, change.__name__
