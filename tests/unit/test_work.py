"""Units of work: every ingredient of a call's rows makes another call of it, and of no other.

The adapters here note which units they are asked about, so what is made again is seen, not inferred.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from execute_support import Runs, data, moved, plan, stage, verdicts

from tmlang.audit.bundle import Bundle
from tmlang.audit.verify import audit
from tmlang.diagnostics.stop import Stop
from tmlang.execute import calls, code, output
from tmlang.execute.progress import Silent
from tmlang.execute.runner import INTERRUPTED, RunOptions, run
from tmlang.plan.capability import Capabilities
from tmlang.plan.ir import Plan

# By score a + b against 1: lo, lo, hi, lo; up by 1/8 in both breaks the second alone. Two units make a call.
X, Y = [[0.25, 0.25], [0.5, 0.375], [0.75, 0.625], [0.125, 0.25]], [0, 0, 1, 0]
BOTH = {"up": 4, "hold": 3}
Asked = dict[str, int]


class Bench:
    """A plan of two stages, and which units of it are asked about."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(output, "write_into", lambda _: ())
        self.folder, self.patch = folder, patch
        self.runs, self.asked = Runs(folder, patch), {}
        self.plan = plan(folder, data(folder, X, Y), [stage("up"), stage("hold", role="certify", evidence="bound")])
        up, hold = moved((0.125, 0.125)), verdicts("certified", margin=0.5)
        self.acts = {"up": self.noted("up", up), "hold": self.noted("hold", hold)}
        self.run("first")

    def noted(self, label: str, act: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def wrapped(job: Any) -> Any:
            self.asked[label] = self.asked.get(label, 0) + len(job.x)
            return act(job)

        return wrapped

    def run(self, out: str, made: Plan | None = None, reuse: tuple[str, ...] = (), **options: Any) -> Asked:
        """Asked units by stage."""
        self.asked = {}
        chosen = RunOptions(reuse=tuple(self.folder / name for name in reuse), **options)
        self.runs(made or self.plan, out, chosen, batch=2, **self.acts)
        return self.asked

    def held(self, out: str) -> list[Any]:
        """Rows and candidates without times and places."""
        bundle = Bundle.open(self.folder / out)
        rows = bundle.records()
        kept = [None if r.candidate is None else [a.tobytes() for a in bundle.candidate(r.candidate)[:2]] for r in rows]
        return [(replace(r, seconds=0.0, candidate=None), k) for r, k in zip(rows, kept, strict=True)]

    def altered(self, **changes: Any) -> Plan:
        """The plan with fields of its evaluation changed."""
        return replace(self.plan, evaluations=(replace(self.plan.evaluations[0], **changes),))

    def staged(self, label: str, **changes: Any) -> Plan:
        """The plan with fields of one stage changed."""
        stages = self.plan.evaluations[0].stages
        return self.altered(stages=tuple(replace(s, **changes) if s.label == label else s for s in stages))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path, monkeypatch)
    assert made.asked == BOTH
    return made


def test_nothing_changed_nothing_is_asked(bench: Bench) -> None:
    assert bench.run("again", reuse=("first",)) == {}
    assert bench.held("again") == bench.held("first")
    assert audit(bench.folder / "again").faults == []
    told = Bundle.open(bench.folder / "again").json("environment.json")["timing"]
    assert told["e"]["reused"] == 7
    assert bench.run("without") == BOTH


def with_model(bench: Bench) -> Plan:
    model = bench.plan.models[0]
    return replace(bench.plan, models=(replace(model, decide=replace(model.decide, op=">")),))


def named_otherwise(bench: Bench) -> Plan:
    evaluation = bench.plan.evaluations[0]
    stages = tuple(replace(s, id=f"f/{s.label}") for s in evaluation.stages)
    return replace(bench.plan, evaluations=(replace(evaluation, name="f", stages=stages),), claims=())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda b: b.altered(seed=8), BOTH),
        (lambda b: b.staged("up", arguments=(("steps", Fraction(3)),)), {"up": 4}),
        (lambda b: b.staged("hold", arguments=(("steps", Fraction(3)),)), {"hold": 3}),
        (lambda b: b.staged("hold", access="scores"), {"hold": 3}),
        (lambda b: replace(b.plan, subjects=(replace(b.plan.subjects[0], clean_errors="excluded"),)), BOTH),
        (with_model, BOTH),
        (named_otherwise, {}),
        (lambda b: b.altered(doc="Said otherwise."), {}),
        (lambda b: b.altered(attribution="full", passes=()), {"hold": 2}),
        (lambda b: b.altered(repeats=2), {"up": 4}),
    ],
    ids=[
        "seed",
        "its arguments",
        "others' arguments",
        "access",
        "threat",
        "model",
        "name",
        "words",
        "survivors",
        "repeat",
    ],
)
def test_what_a_plan_changes_is_asked_again(bench: Bench, change: Callable[[Bench], Plan], expected: Asked) -> None:
    made = change(bench)
    assert bench.run("again", made, reuse=("first",)) == expected
    alone = bench.run("alone", made)
    assert sum(alone.values()) > 0
    assert bench.held("again") == bench.held("alone")


def test_other_bytes_of_the_data_are_other_work(bench: Bench) -> None:
    other = data(bench.folder, [*X[:3], [0.125, 0.375]], Y)
    assert bench.run("again", replace(bench.plan, data=(other,)), reuse=("first",)) == BOTH


def in_run(change: Callable[[dict[str, Any]], object]) -> Callable[[Bench, pytest.MonkeyPatch], None]:
    """What an ingredient that no plan tells was, when the first bundle was made."""

    def make(_: Bench, patch: pytest.MonkeyPatch) -> None:
        real = output.identity

        def told(*args: Any, **kwargs: Any) -> dict[str, Any]:
            facts = real(*args, **kwargs)
            change(facts)
            return facts

        from tmlang.execute import runner

        patch.setattr(runner, "identity", told)

    return make


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (in_run(lambda run: run.update(tmlang="0.0.9")), BOTH),
        (in_run(lambda run: run["backends"].update(tmlang="0" * 64)), BOTH),
        (in_run(lambda run: run["backends"].update(toy="0" * 64)), BOTH),
        (in_run(lambda run: run["libraries"].update(torch="1.0")), BOTH),
        (in_run(lambda run: run["libraries"].update(foolbox="1.0")), {}),
        (in_run(lambda run: run["models"]["sum"].update(object="0" * 64)), BOTH),
        (in_run(lambda run: run["models"]["sum"].update(processor="other")), BOTH),
        (in_run(lambda run: run["code"]["sum"].update(source="0" * 64)), BOTH),
    ],
    ids=["version", "tmlang's code", "its backend", "torch", "nobody's library", "weights", "machine", "model's code"],
)
def test_what_no_plan_tells_is_asked_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, change: Callable[[Bench, pytest.MonkeyPatch], None], expected: Asked
) -> None:
    change(bench, monkeypatch)
    assert bench.run("again", reuse=("first",)) == expected
    # And the folder of the first run is another run's now: it is not gone on with, and nothing of it is believed.
    with pytest.raises(Stop) as stopped:
        bench.run("first")
    assert [d.code for d in stopped.value.diagnostics] == ["TM824"]


def test_only_the_calls_of_a_changed_backend_are_asked_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two stages on two backends."""
    made = bench.staged("hold", backend="smoothing", method="gaussian")
    bench.acts["gaussian"] = bench.acts["hold"]
    bench.run("two", made)
    in_run(lambda run: run["backends"].update(smoothing="0" * 64))(bench, monkeypatch)
    assert bench.run("again", made, reuse=("two",)) == {"hold": 3}


def test_a_stopped_run_is_taken_up_by_another_one(bench: Bench) -> None:
    """Its first call of two was committed; the rest, and what another seed changes, is asked."""

    class Stopping(Silent):
        def advance(self, units: int, standing: int | None = None) -> None:  # noqa: ARG002
            raise KeyboardInterrupt

    bench.patch.setattr(calls, "UNITS", 2)
    assert run(bench.plan, RunOptions(out=bench.folder / "half"), Stopping()).exit_code == INTERRUPTED
    assert bench.run("again", reuse=("half",)) == {"up": 2, "hold": 3}
    assert bench.held("again") == bench.held("first")
    assert bench.run("half") == {"up": 2, "hold": 3}
    assert bench.run("both", bench.altered(seed=8), reuse=("half", "first")) == BOTH


def test_what_failed_is_tried_again(bench: Bench) -> None:
    def fails(_: Any) -> Any:
        raise RuntimeError("no")

    kept, bench.acts["hold"] = bench.acts["hold"], bench.noted("hold", fails)
    bench.run("failed")
    bench.acts["hold"] = kept
    assert bench.run("again", reuse=("failed",)) == {"hold": 3}
    assert bench.held("again") == bench.held("first")


def test_a_bundle_that_was_changed_is_not_taken_from(bench: Bench) -> None:
    shutil.copytree(bench.folder / "first", bench.folder / "changed")
    (bench.folder / "changed" / "records" / "000001.parquet").write_bytes(b"")
    with pytest.raises(Stop) as stopped:
        bench.run("again", reuse=("changed",))
    assert [d.code for d in stopped.value.diagnostics] == ["TM841"]


# --- the hashes of the code -------------------------------------------------------------------------------------------


def test_the_code_of_a_backend_is_its_manifest_its_adapters_and_its_library(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Capabilities()
    asked = replace(bench.plan.evaluations[0].stages[0], backend="foolbox", method="L2PGD")
    whole = replace(bench.plan, evaluations=(replace(bench.plan.evaluations[0], stages=(asked,)),))
    before = code.code(whole, known)
    assert before.keys() == {"tmlang", "foolbox"}
    assert before == code.code(whole, known)
    seen: list[str] = []
    real = code.file_hash
    monkeypatch.setattr(code, "file_hash", lambda p: (seen.append(p.name), real(p))[1])
    code.code(whole, known)
    assert set(seen) == {"foolbox.toml", "foolbox.py"}
    for name in ("foolbox.toml", "foolbox.py"):
        monkeypatch.setattr(code, "file_hash", lambda p, name=name: "0" * 64 if p.name == name else real(p))
        found = code.code(whole, known)
        assert (found["foolbox"] != before["foolbox"], found["tmlang"]) == (True, before["tmlang"])
    monkeypatch.setattr(code, "file_hash", real)
    monkeypatch.setattr(code, "_record", lambda library: f"{library}/x.py,sha256=abc,1")
    assert code.code(whole, known)["foolbox"] != before["foolbox"]


def test_the_code_of_tmlang_leaves_out_adapters_and_what_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = code.file_hash
    monkeypatch.setattr(code, "file_hash", lambda p: (seen.append(p.relative_to(code._HOME).as_posix()), real(p))[1])
    code._core.cache_clear()
    code._core()
    assert {"execute/stages.py", "backends/library.py", "plan/lowering.py", "base/exact.py"} <= set(seen)
    assert not {"backends/foolbox.py", "backends/native/apgd.py", "report/page.py", "audit/tally.py"} & set(seen)


def test_run_json_has_the_code(bench: Bench) -> None:
    told = json.loads((bench.folder / "first" / "run.json").read_text())
    assert told["backends"] == code.code(bench.plan, Capabilities())
