"""Every bundle that somebody changed is found, and no honest one is blamed."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from tampering import detected, honest_run, tampered

from tmlang.audit.bundle import Bundle

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
