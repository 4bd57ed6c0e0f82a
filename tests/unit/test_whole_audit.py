"""The audit of a whole bundle: what follows from its spec, what its reports say, and what cannot be told."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import tmlang as tm
from tmlang.audit.bundle import Bundle
from tmlang.cli.main import main
from tmlang.report.claims import judged
from tmlang.report.paper import paper_macros

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("whole_audit")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``specs/sensor``, whose review table comes without a hash, run as it is in ``run``."""
    folder = tmp_path_factory.mktemp("whole") / "sensor"
    shutil.copytree(ROOT / "specs" / "sensor", folder)
    tm.run(folder / "sensor.tm", out=folder / "run")
    return folder


def test_a_claim_has_one_identity_with_a_lock_and_without(folder: Path) -> None:
    bundle = Bundle.open(folder / "run")
    told = [c["identity"] for c in bundle.statement()["predicate"]["claims"]]
    assert told == [c["id"] for c in judged(bundle)["claims"]]
    printed = re.findall(r"/claim/\d/id\}\{\\texttt\{(.*)\}\}", paper_macros(bundle))
    assert [p.replace(r"\allowbreak ", "") for p in printed] == told
    assert main(["freeze", str(folder / "sensor.tm")]) == 0
    lock = json.loads((folder / "sensor.tm.lock").read_bytes())
    assert [identity for _, identity in lock["claims"]] == told
    assert lock["sha256"] == bundle.statement()["predicate"]["plan"]
