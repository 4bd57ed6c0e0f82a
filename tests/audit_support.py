"""Short ways to write a threat, an evaluation and its records for the tests of the audit and the report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tmlang.audit.bundle import CRATE, Bundle
from tmlang.audit.claims import judge_plan
from tmlang.audit.record import UNDECIDED, Record
from tmlang.audit.summary import summary
from tmlang.audit.tally import tally_plan
from tmlang.base.seeds import derive
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.models import Data, Decide, Model, Network, Randomness, Take, Truth
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Ball, Goal, Mutable, Shift, Threat
from tmlang.meaning.values import Artifact, Call
from tmlang.plan.ir import EvaluationPlan, Plan, Stage
from tmlang.plan.lock import artifacts
from tmlang.plan.text import claim_identity, plan_hash, plan_json
from tmlang.report.write import rendered, tools, write_descriptions

LINF = Ball("linf", "px", Fraction(1, 8))


def threat(**changes: Any) -> Threat:
    """Untargeted linf, clean errors count as failures, white box."""
    plain = Threat(
        name="t",
        model="net",
        data="test",
        allow=LINF,
        minimize=None,
        mutable=Mutable("all"),
        goal=Goal("untargeted"),
        access=Access("white_box"),
        clean_errors="fail",
    )
    return replace(plain, **changes)


def refused(code: str, what: Callable[[], object]) -> str:
    """What the one diagnostic says with which ``what`` stops."""
    with pytest.raises(Stop) as stopped:
        what()
    (found,) = stopped.value.diagnostics
    assert found.code == code, found.message
    return found.message


def attack(label: str = "a", **changes: Any) -> Stage:
    stage = Stage(f"e/{label}", label, "attack", "native", "apgd", "witness", "exact", "white_box", ())
    return replace(stage, **changes)


def certifier(label: str = "c", **changes: Any) -> Stage:
    stage = Stage(f"e/{label}", label, "certify", "auto_lirpa", "crown", "bound", "outer", "white_box", (), ("a box",))
    return replace(stage, **changes)


def solver(label: str = "s", **changes: Any) -> Stage:
    stage = Stage(f"e/{label}", label, "enumerate", "native", "enumerate", "complete", "exact", "white_box", ())
    return replace(stage, **changes)


def trusted(label: str = "m", **changes: Any) -> Stage:
    """A solver that hands out no proof."""
    facts = {"role": "decide_exactly", "backend": "marabou", "method": "query", "evidence": "trusted"}
    return solver(label, **(facts | {"trusts": "marabou 2.0.0"} | changes))


def evaluation(*stages: Stage, name: str = "e", **changes: Any) -> EvaluationPlan:
    named = tuple(replace(s, id=f"{name}/{s.label}") for s in stages)
    return replace(EvaluationPlan(name, "t", named, 0), **changes)


class Rows:
    """Collects records: ``rows.clean("u1")``, ``rows.attack("u1", "a", "broken")``, ``rows.proof("u1", "c", ...)``."""

    def __init__(self, name: str = "e") -> None:
        self.name = name
        self.all: list[Record] = []
        self._clean: dict[str, Record] = {}

    def clean(self, unit: str, status: str = "cc", label: int = 0, **changes: Any) -> Rows:
        decision = {"cc": label, "cw": label + 1, "cr": -1, "cu": None}[status]
        row = Record(self.name, "clean", unit, unit.split("->")[0], label, status, decision, "none")  # type: ignore[arg-type]
        row = replace(row, message=UNDECIDED["raised"] if status == "cu" else None)
        self._clean[unit] = replace(row, **changes)
        self.all.append(self._clean[unit])
        return self

    def _row(self, unit: str, stage: str, changes: dict[str, Any]) -> Rows:
        base = replace(self._clean[unit], stage=stage, within_scope=None, label_reviewed=None, message=None)
        self.all.append(replace(base, **changes))
        return self

    def attack(self, unit: str, stage: str = "a", outcome: str = "none", **changes: Any) -> Rows:
        """``outcome``: a status, or ``broken`` (a witness), ``denied`` (a rejected valid input)."""
        if outcome == "broken":
            label = self._clean[unit].label
            facts: dict[str, Any] = {"status": "valid", "within_scope": True, "within_access": True}
            facts |= {"observed_failure": True, "counted_failure": True, "decision": label + 1, "rejected": False}
        elif outcome == "denied":
            facts = {"status": "valid", "within_scope": True, "within_access": True, "observed_failure": False}
            facts |= {"rejected": True, "decision": -1}
        elif outcome == "valid":
            facts = {"status": "valid", "within_scope": True, "within_access": True, "observed_failure": False}
            facts |= {"decision": self._clean[unit].label}
        elif outcome == "invalid":
            facts = {"status": "invalid", "within_scope": False, "rule": "linf"}
        else:
            facts = {"status": outcome}
        return self._row(unit, stage, facts | changes)

    def proof(self, unit: str, stage: str = "c", verdict: str = "certified", **changes: Any) -> Rows:
        status = verdict if verdict in ("error", "timeout") else "none"
        in_its_arithmetic = {"gap": 0.0, "gap_kind": "proved"}
        return self._row(unit, stage, {"status": status, "verdict": verdict} | in_its_arithmetic | changes)


def worked_example() -> list[Record]:
    """The 100 units of EVIDENCE.md section 2: cc 80, cw 12, cr 6, cu 2, W 30, I 10, c 20."""
    rows = Rows()
    for i in range(100):
        unit = f"u{i:03d}"
        rows.clean(unit, "cc" if i < 80 else "cw" if i < 92 else "cr" if i < 98 else "cu")
        if i < 80:
            rows.attack(unit, "a", "broken" if i < 30 else "timeout" if i < 40 else "none")
            rows.proof(unit, "c", "certified" if i >= 60 else "unknown")
    return rows.all


BROKEN = {"linf": 0.125, "l2": 0.125, "l1": 0.125, "l0": 1, "distance": 0.125}
"""The distances of :func:`make_bundle`'s candidate."""


def make_bundle(
    path: Path,
    whole: Plan,
    records: list[Record],
    *,
    told: Callable[[dict[str, Any]], object] | None = None,
    candidates: np.ndarray | None = None,
    originals: np.ndarray | None = None,
    edit: Callable[[list[Record]], list[Record]] | None = None,
) -> Bundle:
    """A bundle that is not sealed yet: one picture at 0.5 whose first pixel moved by an eighth, unless told otherwise.

    ``told`` changes ``columns.json``; ``edit`` changes the records behind its back.
    """
    bundle = Bundle.create(path)
    bundle.add_bytes("plan.json", plan_json(whole))
    if originals is None:
        originals = np.full((1, 1, 8, 8), 0.5, np.float32)
    if candidates is None:
        candidates = originals.copy()
        candidates[0, 0, 0, 0] += 0.125
    bundle.add_candidates(candidates, originals, space="px")
    records = as_run(whole, records)
    numbers = summary(tally_plan(whole, records), judge_plan(whole, records))
    if told:
        told(numbers)
    bundle.write_records(edit(records) if edit else records)
    bundle.add_json("columns.json", numbers)
    bundle.add_json("run.json", run_of(whole, records))
    bundle.add_json("environment.json", environment())
    if told is None:
        write_descriptions(bundle)
    return bundle


def as_run(whole: Plan, records: list[Record]) -> list[Record]:
    """The rows with the seeds that a run gives, in its order, and not asked more often than there were passes; of what
    a test leaves out, provers give up on it."""
    made: list[Record] = []
    for e in whole.evaluations:
        own = [r for r in records if r.evaluation == e.name]
        own += _unknown(e, own)
        order = {"clean": 0, **{s.label: i for i, s in enumerate(e.stages, 1)}}
        units = list(dict.fromkeys(r.unit for r in own))

        def place(r: Record, e: EvaluationPlan = e, order: Any = order, units: Any = units) -> tuple[int, ...]:
            label = r.stage.removeprefix(f"{e.name}/")
            return -1 if label == "clean" else r.repeat, order.get(label, 99), units.index(r.unit)

        for r in sorted(own, key=place):
            label = r.stage.removeprefix(f"{e.name}/")
            if label in order and label != "clean" and not isinstance(whole.subject(e.subject), Shift):
                seed = derive(e.seed or 0, r.unit, label, r.repeat)
                r = replace(r, seed=seed, forwards=max(r.forwards, r.queries))
            made.append(r)
    names = {e.name for e in whole.evaluations}
    return [*made, *(r for r in records if r.evaluation not in names)]


def _unknown(e: EvaluationPlan, own: list[Record]) -> list[Record]:
    there = {(r.stage.removeprefix(f"{e.name}/"), r.unit) for r in own}
    asked = [r for r in own if r.stage.rpartition("/")[2] == "clean" and r.clean == "cc" and r.target != r.label >= 0]
    blank = {"status": "none", "verdict": "unknown", "label_reviewed": None, "margin": None, "within_scope": None}
    blank |= dict.fromkeys(("decision", "rejected", "counted_failure", "draws", "errors", "outcomes", "draw_seed"))
    labels = [s.label for s in e.stages if s.role != "attack" and s.role != "corrupt"]
    return [replace(r, stage=k, **blank) for k in labels for r in asked if (k, r.unit) not in there]


def environment() -> dict[str, Any]:
    """``environment.json`` of a run nowhere, that took nothing without a hash."""
    nowhere = {"python": "", "platform": "", "processor": "", "tools": tools(), "timing": {}}
    return {**nowhere, "date": "2026-11-30", "command": [], "unfrozen": [], "warnings": []}


def run_of(whole: Plan, records: list[Record]) -> dict[str, Any]:
    """``run.json`` of a run that loaded nothing: the examples are those of ``records``."""
    names = [e.name for e in whole.evaluations]
    examples = {n: list(dict.fromkeys(r.example for r in records if r.evaluation == n)) for n in names}
    hashes = {a.path: a.sha256 for a in artifacts(whole)}
    empty: dict[str, Any] = {"models": {}, "code": {}, "batch_size": {}, "libraries": {}}
    backends = {"tmlang", *(stage.backend for e in whole.evaluations for stage in e.stages)}
    empty["backends"] = dict.fromkeys(backends, "ab" * 32)
    return {"tmlang": "0", "plan": plan_hash(whole), "artifacts": hashes, "examples": examples, "lock": None, **empty}


def sealed(bundle: Bundle, predicate: dict[str, Any] | None = None) -> Bundle:
    """The bundle with the statement that a run of its plan would write over its files."""
    whole, told, run = bundle.plan(), bundle.json("columns.json"), bundle.json("run.json")
    claims = [
        {"text": c.text, "identity": claim_identity(whole, c), "status": own.get("status")}
        for c, own in zip(whole.claims, told["claims"], strict=False)
    ]
    if predicate is None and CRATE in set(bundle.files()):
        write_descriptions(bundle)
    bundle.seal(predicate or {"tmlang": run["tmlang"], "plan": plan_hash(whole), "lock": run["lock"], "claims": claims})
    return bundle


def plan(evaluations: Iterable[EvaluationPlan], threats: Iterable[Any], **changes: Any) -> Plan:
    """A plan over 8x8 grey images, one linear model and one data set."""
    space = Space("px", (1, 8, 8), (Cell("real", Fraction(0), Fraction(1)),))
    model = Model(
        "net",
        "px",
        ("0", "1", "2"),
        (),
        Network("linear"),
        Decide("argmax", ties="lowest"),
        Randomness("never"),
    )
    file = Artifact("test.npz", "ab" * 32)
    data = Data("test", "px", Call(("npz",)), file, (Take("all"),), Truth("published", "digits"))
    whole = Plan(1, (), (space,), (model,), (data,), tuple(threats), tuple(evaluations), ())
    return replace(whole, **changes)


def forged(
    honest: Path,
    path: Path,
    *,
    rows: Callable[[list[Record]], list[Record]] = list,
    run: Callable[[dict[str, Any]], object] | None = None,
    plan: Callable[[Plan], Plan] | None = None,
) -> Path:
    """A copy of a finished bundle with other rows or another plan, and every number, claim, page and hash worked out
    anew from them."""
    shutil.copytree(honest, path)
    before = Bundle.open(honest)
    (path / "statement.json").unlink()
    for name in (path / "records").iterdir():
        name.unlink()
    bundle = Bundle(path, writable=True)
    whole, records = before.plan(), rows(before.records())
    told = before.json("run.json")
    if plan:
        whole = plan(whole)
        told["plan"] = plan_hash(whole)
        bundle.add_bytes("plan.json", plan_json(whole))
    if run:
        run(told)
    bundle.add_json("run.json", told)
    bundle.write_records(records)
    bundle.add_json("columns.json", summary(tally_plan(whole, records), judge_plan(whole, records)))
    for name, page in rendered(bundle).items() if "report.md" in set(bundle.files()) else ():
        bundle.add_bytes(name, page)
    write_descriptions(bundle)
    sealed(bundle)
    return path


def key_pair(folder: Path) -> tuple[Path, Path]:
    """A fresh private key on P-256 and its public one, as PEM files."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, pem = ec.generate_private_key(ec.SECP256R1()), serialization.Encoding.PEM
    private, public = folder / "key.pem", folder / "key.pub"
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public
