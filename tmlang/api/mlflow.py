"""Evidence as a run of MLflow: numbers as metrics, claims as tags, the bundle as an artifact."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tmlang.audit.bundle import Bundle
from tmlang.diagnostics.stop import stop
from tmlang.plan.text import plan_hash
from tmlang.report.claims import judged, statement_hash

if TYPE_CHECKING:
    from tmlang.api.evidence import Evidence

_OTHER = re.compile(r"[^A-Za-z0-9_./-]")
"""What MLflow does not take in a name."""


def log_to_mlflow(evidence: Evidence, *, artifacts: bool = True) -> str:
    """Log into the active run of MLflow, or into one of its own; gives the run's id.

    Metrics: ``greys.certified.low`` and ``.high``, the ends of each range, as floats (a share in [0, 1], or a distance;
    what is undefined or infinite is left out, for MLflow averages and plots what it holds). Tags: each claim's status
    under ``tmlang.claim.<first 12 digits of its identity>``, and ``tmlang.statement``, the hash that seals the bundle.
    Parameters: version and hash of the plan. ``artifacts``: the bundle itself, under ``tmlang``.

    Raises a ``Stop`` (TM510) without the extra ``mlflow``.
    """
    try:
        import mlflow
    except ModuleNotFoundError as missing:
        help = "pip install 'tmlang[mlflow]'"
        raise stop("TM510", "logging to MLflow needs mlflow, which is not installed", help=help) from missing
    bundle = Bundle.open(evidence.path)
    own = mlflow.active_run()
    run = own or mlflow.start_run(run_name=evidence.path.name)
    try:
        version = bundle.json("run.json")["tmlang"]
        mlflow.log_params({"tmlang.version": version, "tmlang.plan": plan_hash(evidence.plan)})
        mlflow.log_metrics(dict(_metrics(evidence)))
        mlflow.set_tags({"tmlang.statement": statement_hash(bundle), **_tags(judged(bundle))})
        if artifacts:
            log = mlflow.log_artifact if evidence.path.is_file() else mlflow.log_artifacts
            log(str(evidence.path), artifact_path="tmlang")
    finally:
        if own is None:
            mlflow.end_run()
    return str(run.info.run_id)


def _metrics(evidence: Evidence) -> Iterator[tuple[str, float]]:
    for row in evidence.numbers.to_pylist():
        attack = f".{row['attack']}" if row["attack"] else ""
        for end in ("low", "high"):
            if row[end] is not None and math.isfinite(row[end]):
                rests = f".{row['rests_on']}" if row["rests_on"] else ""
                name = f"{row['evaluation']}.{row['number']}{attack}{rests}.{end}"
                yield re.sub(r"\.{2,}", ".", _OTHER.sub(".", name)), row[end]


def _tags(document: dict[str, Any]) -> dict[str, str]:
    claims = document["claims"]
    return {f"tmlang.claim.{c['id'][:12]}": f"{c['result']['status']}: {c['formula']}" for c in claims}
