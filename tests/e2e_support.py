"""``tmc`` as a user runs it: a process of its own, judged by what it prints, leaves behind and returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from tmlang.cli.main import entry

ROOT = Path(__file__).resolve().parents[1]
SPECS = ROOT / "specs"
SHARED = ROOT.parent / "shared" / "data" / "real"


@dataclass(frozen=True)
class Said:
    """What a command printed (both streams) and its exit code."""

    code: int
    text: str


def tmc(*arguments: str | Path, folder: Path, seconds: int = 280) -> Said:
    """Run ``tmc`` in ``folder``. No command may ever end in a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "tmlang", *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    text = done.stdout + done.stderr
    assert "Traceback" not in text, text
    return Said(done.returncode, text)


@dataclass(frozen=True)
class Evidence:
    """A bundle read with nothing but a JSON and a parquet reader."""

    path: Path

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "columns.json").read_text())
        return found

    def share(self, evaluation: str, column: str) -> Fraction:
        """A column that is known exactly."""
        found = self.summary["evaluations"][evaluation]["columns"][column]
        assert found["low"] == found["high"]
        return Fraction(found["low"])

    def claims(self) -> dict[str, str]:
        return {claim["text"]: claim["status"] for claim in self.summary["claims"]}

    def rows(self, evaluation: str, stage: str) -> list[dict[str, Any]]:
        """The records of a stage, in order."""
        tables: Iterable[Path] = sorted((self.path / "records").glob("*.parquet"))
        rows = [row for table in tables for row in pq.ParquetFile(table).read(use_threads=False).to_pylist()]
        return [row for row in rows if (row["evaluation"], row["stage"]) == (evaluation, stage)]


def run(spec: Path, out: Path, *options: str) -> tuple[Said, Evidence]:
    """``tmc run``, into ``out``."""
    said = tmc("run", spec, "--out", out, *options, folder=out.parent)
    return said, Evidence(out)


def assert_duckdb_agrees(evidence: Evidence) -> None:
    """What ``tmc audit --sql`` prints, run by DuckDB, gives every number and judgement of ``columns.json`` exactly."""
    said = tmc("audit", evidence.path, "--sql", folder=evidence.path.parent)
    assert said.code == 0, said.text
    with duckdb.connect(config={"threads": 1}) as connection:
        answers = []
        for statement in connection.extract_statements(said.text):
            result = connection.execute(statement)
            if statement.type == duckdb.StatementType.SELECT:
                names = [d[0] for d in result.description]
                answers.append([dict(zip(names, row, strict=True)) for row in result.fetchall()])
    counts, table, claims = answers
    told = evidence.summary
    assert {row.pop("evaluation"): row for row in counts} == {n: e["counts"] for n, e in told["evaluations"].items()}
    shares = {
        (name, column): [c["numerator"], c["denominator"], c["low"], c["high"]]
        for name, e in told["evaluations"].items()
        for column, c in e["columns"].items()
    }
    assert {
        (row["evaluation"], row["quantity"]): [row["low"], d, *(str(Fraction(row[end], d)) for end in ("low", "high"))]
        for row in table
        if (d := row["denominator"])
    } == shares
    assert [[row["claim"], row["status"], *(str(Fraction(row[end])) for end in ("low", "high"))] for row in claims] == [
        [claim[key] for key in ("text", "status", "low", "high")] for claim in told["claims"]
    ]


def run_here(spec: Path, out: Path, *options: str) -> tuple[int, Evidence]:
    """The same in this process, which has torch loaded already; its exit code."""
    with pytest.raises(SystemExit) as ended:
        entry(["run", str(spec), "--out", str(out), "--quiet", *options])
    assert isinstance(ended.value.code, int)
    return ended.value.code, Evidence(out)
