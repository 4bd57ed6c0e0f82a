"""One failing example of a bundle as a spec of its own, and what another model makes of it.

A folder keeps the example as the run read it, the very inputs that failed, the scope (space, threat, set) and the files
of the model. Replaying an input says something about that input alone: mended is not robust.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Literal

import numpy as np

from tmlang.api.incident_spec import Kept, incident_text, unpinned
from tmlang.api.reading import read_spec
from tmlang.api.running import run
from tmlang.audit import tensorfile
from tmlang.audit.bundle import Bundle
from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.remeasure import as_values
from tmlang.audit.units import is_witness, stage_label
from tmlang.base import canonical
from tmlang.base.files import write_atomically
from tmlang.diagnostics.stop import Stop, stop
from tmlang.meaning.threats import Threat
from tmlang.meaning.values import Artifact
from tmlang.plan.ir import EvaluationPlan, Plan
from tmlang.plan.lock import artifacts
from tmlang.report.claims import statement_hash

SPEC, FACTS = "incident.tm", "incident.json"
_DATA = "incident.npz"
_SPEC_FOLDER = "spec/"
_FACTS = ("artifacts", "bundle", "decisions", "evaluation", "example", "files", "label", "models", "tmlang")
State = Literal["still failing", "mended", "not comparable"]


@dataclass(frozen=True)
class Judged:
    """What became of one kept input, and why that is said."""

    label: str
    state: State
    reason: str


@dataclass(frozen=True)
class Incident:
    """``facts``: what was kept (``incident.json``). ``changed``: models whose object is another one now, with both
    hashes. ``inputs``: what became of each."""

    facts: Mapping[str, Any]
    changed: tuple[tuple[str, str, str], ...]
    inputs: tuple[Judged, ...]


# --- keeping ----------------------------------------------------------------------------------------------------------


def keep(bundle: Bundle, example: str, files: Path, out: Path, evaluation: str | None = None) -> Path:
    """Write the folder ``out`` for a failing example; gives the path of its spec. ``files``: the folder of the spec,
    whose files must be those that the run read. ``evaluation``: which one, where several broke the example.

    Raises a ``Stop``: TM852 where nothing failed or it cannot be said as a spec, TM824 for a folder that is in use, TM7
    where a file is not there or another one.
    """
    plan, run_facts = bundle.plan(), bundle.json("run.json")
    chosen = _evaluation(plan, bundle.records(), example, evaluation)
    rows = {r.stage: r for r in bundle.records() if _failed(r, chosen, example)}
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise stop("TM824", f"`{out}` is not empty", help="name a new folder with --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    fresh.chmod(0o755)
    try:
        kept = _inputs(bundle, plan, chosen, list(rows.values()), fresh)
        _specs(bundle, plan, chosen, kept, fresh)
        _files(fresh, files, run_facts["artifacts"])
        _facts(bundle, chosen, list(rows.values()), kept, fresh)
        out.mkdir(exist_ok=True)
        fresh.replace(out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return out / SPEC


def _failed(row: Record, evaluation: EvaluationPlan, example: str) -> bool:
    return (
        row.evaluation == evaluation.name and row.example == example and is_witness(row) and row.candidate is not None
    )


def _evaluation(plan: Plan, rows: Sequence[Record], example: str, wanted: str | None) -> EvaluationPlan:
    broke = [e for e in plan.evaluations if any(_failed(r, e, example) for r in rows)]
    if wanted is not None:
        broke = [e for e in broke if e.name == wanted]
    if not broke:
        of = f" of {wanted}" if wanted else ""
        raise stop("TM852", f"no stage{of} found an allowed input of the example `{example}` that fails")
    if len(broke) > 1:
        raise stop(
            "TM852",
            f"`{example}` failed in {', '.join(e.name for e in broke)}",
            help="say which with --evaluation",
        )
    subject = plan.subject(broke[0].subject)
    if not isinstance(subject, Threat):
        raise stop("TM852", f"{broke[0].name} is about a property, which has no example", subject.origin)
    for what, there in (
        ("masks per example", subject.mutable.per_example),
        ("targets out of a column of the data", subject.goal.kind == "column"),
        ("a universal perturbation, which belongs to all examples", subject.perturbation == "universal"),
    ):
        if there:
            raise stop("TM852", f"{subject.name} has {what}: one example of it is another threat", subject.origin)
    return broke[0]


def _inputs(bundle: Bundle, plan: Plan, evaluation: EvaluationPlan, rows: Sequence[Record], folder: Path) -> Kept:
    """The example and the inputs that failed, bit for bit, as files."""
    subject = plan.threat(evaluation.subject)
    space = plan.space(plan.model(subject.model).space)
    units = [
        r
        for r in bundle.records()
        if (r.evaluation, r.stage, r.example) == (evaluation.name, CLEAN_STAGE, rows[0].example)
    ]

    inputs: dict[str, Artifact] = {}
    for row in rows:
        assert row.candidate is not None
        x, original, indices = bundle.candidate(row.candidate)
        start = as_values(space, original, indices=indices)
        # Of a pair that this stage did not break, the original says that nothing was found.
        arrays = {u.unit: start for u in units} | {row.unit: as_values(space, x, indices=indices)}
        label = re.sub(r"\W", "_", stage_label(evaluation, row))
        inputs[label] = _stored(folder, f"{label}.safetensors", tensorfile.write(arrays, {}))
    table = io.BytesIO()
    np.savez(table, x=start[None], y=np.array([rows[0].label]), id=np.array([rows[0].example]))
    told = f"Example {rows[0].example}, which {evaluation.name} broke in the run {statement_hash(bundle)[:12]}"
    return Kept(told, _stored(folder, _DATA, table.getvalue()), inputs)


def _stored(folder: Path, name: str, data: bytes) -> Artifact:
    write_atomically(folder / name, data)
    return Artifact(name, sha256(data).hexdigest())


def _specs(bundle: Bundle, plan: Plan, evaluation: EvaluationPlan, kept: Kept, folder: Path) -> None:
    """The spec, and the modules beside it that it uses."""
    main = Path(plan.own_modules[0].name).name if plan.own_modules else ""
    texts = {n.removeprefix(_SPEC_FOLDER): bundle.text(n) for n in bundle.files() if n.startswith(_SPEC_FOLDER)}
    if main not in texts:
        raise stop("TM852", "the bundle does not hold the text of its spec")
    for name, text in texts.items():
        if name != main:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, unpinned(name, text).encode())
    write_atomically(folder / SPEC, incident_text(texts[main], plan, evaluation, kept).encode())


def _plan_of(folder: Path) -> Plan:
    """The plan of the spec in ``folder``. Raises a ``Stop`` where it has none."""
    front = read_spec(str(folder / SPEC), {})
    if front.plan is None:
        raise Stop(*front.diagnostics)
    return front.plan


def _files(folder: Path, source: Path, hashes: Mapping[str, str]) -> None:
    """Copy what the spec names from the folder of the original one."""
    try:
        named = artifacts(_plan_of(folder))
    except Stop as stopped:
        first = next(d for d in stopped.diagnostics if d.is_error)
        raise stop(
            "TM852", f"the spec of this example alone does not check: {first.code}: {first.message}"
        ) from stopped
    for path in dict.fromkeys(a.path for a in named):
        if not (folder / path).exists():
            _copied(Artifact(path, hashes.get(path)), source, folder)


def _copied(artifact: Artifact, source: Path, folder: Path) -> None:
    from tmlang.execute.sources.files import Files

    place = Files(source).verify(artifact)
    target = folder / artifact.path
    target.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.copytree(place, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(place, target)


def _facts(bundle: Bundle, evaluation: EvaluationPlan, rows: Sequence[Record], kept: Kept, folder: Path) -> None:
    run_facts = bundle.json("run.json")
    ours = [kept.data, *kept.inputs.values()]
    facts = {
        "tmlang": run_facts["tmlang"],
        "bundle": statement_hash(bundle),
        "evaluation": evaluation.name,
        "example": rows[0].example,
        "label": rows[0].label,
        "decisions": {label: row.decision for label, row in zip(kept.inputs, rows, strict=True)},
        "models": {name: one["object"] for name, one in run_facts["models"].items()},
        "artifacts": run_facts["artifacts"],
        "files": {a.path: a.sha256 for a in ours},
    }
    write_atomically(folder / FACTS, canonical.dumps(facts))


# --- judging ----------------------------------------------------------------------------------------------------------


def judge(folder: Path, files: Path | None = None, *, trust_code: bool = False) -> Incident:
    """What the model in ``folder``, or the one whose files lie in ``files``, makes of the kept inputs. It writes to
    neither.

    Raises a ``Stop``: TM852 where ``folder`` keeps no incident or is not as it was kept.
    """
    facts = _read(folder)
    with TemporaryDirectory(prefix="tmc-") as name:
        place = Path(name) / "spec"
        shutil.copytree(folder, place)
        plan = _plan_of(place)
        if files is not None:
            for artifact in artifacts(plan):
                if artifact.path not in facts["files"]:
                    _copied(replace(artifact, sha256=None), files, place)
        labels = [s.label for s in plan.evaluations[0].stages]
        try:
            evidence = run(place / SPEC, out=Path(name) / "run", trust_code=trust_code)
        except Stop as stopped:
            first = next(d for d in stopped.diagnostics if d.is_error)
            if not first.code.startswith("TM7") or first.code == "TM719":
                raise
            return Incident(
                facts, (), tuple(Judged(s, "not comparable", f"{first.code}: {first.message}") for s in labels)
            )
        bundle = Bundle.open(evidence.path)
        changed = tuple(_changed(facts["models"], bundle.json("run.json")["models"]))
        rows = bundle.records()
    return Incident(facts, changed, tuple(_judged(plan, label, rows) for label in labels))


def _read(folder: Path) -> Mapping[str, Any]:
    try:
        facts = canonical.loads((folder / FACTS).read_bytes())
    except (OSError, canonical.NotCanonical) as error:
        raise stop("TM852", f"`{folder}` keeps no incident: {FACTS} is not read") from error
    maps = ("artifacts", "decisions", "files", "models")
    if (
        not isinstance(facts, dict)
        or sorted(facts) != list(_FACTS)
        or not all(isinstance(facts[m], dict) for m in maps)
    ):
        raise stop("TM852", f"`{folder / FACTS}` has not the form of an incident")
    for path, digest in facts["files"].items():
        place = folder / Path(path).name
        if not place.is_file() or sha256(place.read_bytes()).hexdigest() != digest:
            raise stop("TM852", f"`{place}` is not the file that was kept")
    return facts


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, one in now.items():
        if before.get(name) != one["object"]:
            yield name, str(before.get(name, "none")), str(one["object"])


def _judged(plan: Plan, label: str, rows: Sequence[Record]) -> Judged:
    classes = plan.model(plan.threat(plan.evaluations[0].subject).model).classes

    def named(decision: int | None) -> str:
        return "no class" if decision is None else "a rejection" if decision < 0 else classes[decision]

    own = [r for r in rows if r.stage == label]
    clean = next(r for r in rows if r.stage == CLEAN_STAGE)
    if clean.clean != "cc":
        wrong = (
            f"before any change the model decides {named(clean.clean_decision)}, and the label is {named(clean.label)}"
        )
        return Judged(label, "not comparable", wrong)
    failing = next((r for r in own if is_witness(r) and not r.projected), None)
    if failing is not None:
        return Judged(
            label, "still failing", f"decided {named(failing.decision)}, and the label is {named(failing.label)}"
        )
    if all(r.status == "valid" and not r.projected for r in own) and own:
        return Judged(label, "mended", f"decided {named(own[0].decision)}: this input, and no other, fails no more")
    odd = next((r for r in own if r.status != "valid"), None)
    said = (
        "was not judged" if odd is None else odd.message or f"is {odd.status}" + (f" ({odd.rule})" if odd.rule else "")
    )
    return Judged(label, "not comparable", f"the kept input {said}")
