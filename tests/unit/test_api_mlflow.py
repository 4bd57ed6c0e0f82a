"""Evidence in MLflow, with a stand-in that records the calls (the real one, 3.17, was tried by hand)."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_report_paper import CLAIMS, WORKED, bundle_of

import tmlang as tm
from tmlang.diagnostics.stop import Stop
from tmlang.plan.text import claim_identity


class Recorder:
    """The part of MLflow's module that is used (mlflow.org/docs, "mlflow" module)."""

    def __init__(self, active: object | None = None) -> None:
        self.calls: list[str] = []
        self.logged: dict[str, Any] = {}
        self.active = active

    def active_run(self) -> object | None:
        return self.active

    def start_run(self, run_name: str) -> object:
        self.calls.append(f"start {run_name}")
        return SimpleNamespace(info=SimpleNamespace(run_id="new"))

    def end_run(self) -> None:
        self.calls.append("end")

    def log_params(self, params: dict[str, str]) -> None:
        self.logged |= params

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self.logged |= metrics

    def set_tags(self, tags: dict[str, str]) -> None:
        self.logged |= tags

    def log_artifacts(self, folder: str, artifact_path: str) -> None:
        self.calls.append(f"artifacts {Path(folder).name} {artifact_path}")


def test_ranges_stay_ranges_and_claims_keep_their_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Recorder()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    assert tm.log_to_mlflow(tm.open(bundle_of(tmp_path / "run").path)) == "new"
    assert mlflow.calls == ["start run", "artifacts run tmlang", "end"]
    assert (mlflow.logged["e.survival.low"], mlflow.logged["e.survival.high"]) == (0.4, 0.52)
    assert mlflow.logged["e.certified.low"] == 0.2
    assert not any(name.startswith("e.denied") for name in mlflow.logged)
    third = claim_identity(WORKED, CLAIMS[2])[:12]
    assert mlflow.logged[f"tmlang.claim.{third}"] == "refuted: survival(e) ≥ 90 %"
    assert len(mlflow.logged["tmlang.statement"]) == 64


def test_an_active_run_is_used_and_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Recorder(SimpleNamespace(info=SimpleNamespace(run_id="mine")))
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    evidence = tm.open(bundle_of(tmp_path / "run").path)
    assert tm.log_to_mlflow(evidence, artifacts=False) == "mine"
    assert mlflow.calls == []


def test_without_mlflow_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(Stop) as stopped:
        tm.log_to_mlflow(tm.open(bundle_of(tmp_path / "run").path))
    assert "tmlang[mlflow]" in (stopped.value.diagnostics[0].help or "")
