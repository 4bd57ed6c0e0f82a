"""Bundles that somebody changed after the run: flipped bits, other files, other ids, other numbers, hashed anew or not.

A change is drawn from a seed and applied to a copy of an honest bundle. Those of ``LOUD`` leave the statement as it
was; those of ``SEALED`` write a statement that fits; those of ``FORGED`` work every number, claim and hash out anew
from changed rows, so that the model and the data are needed to see them.
"""

from __future__ import annotations

import io
import json
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from audit_support import forged
from execute_support import Runs, data, moved, verdicts

from tmlang.api.auditing import audit
from tmlang.api.reading import check
from tmlang.api.running import prepared
from tmlang.audit import tensorfile
from tmlang.audit.bundle import Bundle
from tmlang.audit.outputs import OutputBounds
from tmlang.audit.package import packed
from tmlang.audit.record import Record
from tmlang.backends.contract import Job, Verdicts
from tmlang.diagnostics.stop import Stop
from tmlang.execute.replay import replay_all, world_of
from tmlang.meaning.models import Truth
from tmlang.meaning.threats import Ball
from tmlang.plan.ir import Plan

Tamper = Callable[[Path, Random], None]

SPEC = """\
tm 1

## Two numbers.
space pair: tensor(2) of real[0, 1] stored as float32

model greatest: pair -> {a, b, half} {
  network:  linear(weights: [[1, 0], [0, 1], [0, 0]], bias: [0, 0, 1/2])
  decide:   argmax ties lowest
  random:   never
}

data rows: pair {
  read:   npz("rows.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}

threat near on greatest over rows {
  allow:         linf <= 1/8 in pair
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate e of near {
  attack:   up = native.pgd(steps: 20)
  attack:   down = native.apgd(steps: 20)
  certify:  prove = auto_lirpa.crown()
  seed:     0
}

claim "c": survival(e) >= 50 %
"""
"""The two searches and the prover are replaced by what a test wants them to say."""


def honest_run(folder: Path, seed: int) -> Path:
    """A finished run of a few examples, an attack and a prover, which bounds outputs in every other run; the folder of
    the spec, the bundle in ``out``."""
    random = Random(seed)
    folder.mkdir()
    n = random.randint(3, 8)
    x = [[random.randint(0, 32) / 32, random.randint(0, 32) / 32] for _ in range(n)]
    x.append([0.5, 0.4375])  # one that up breaks
    right = [0 if a >= b and a >= 0.5 else 1 if b > a and b >= 0.5 else 2 for a, b in x]
    labels = [y if random.random() < 0.8 else random.randrange(3) for y in right[:-1]] + [0]
    with pytest.MonkeyPatch.context() as patch:
        data(folder, x, labels)
        bounds = bool(seed % 2)
        (folder / "s.tm").write_text(SPEC.replace("crown()", "crown(outputs: true)") if bounds else SPEC)
        made, options = prepared(check(folder / "s.tm"), locked=False)
        step = random.choice([0.125, 0.0625])
        runs = Runs(folder, patch)
        says = _bounding if bounds else verdicts("unknown")
        runs(made, options=options, pgd=moved((-step, step)), apgd=moved((step, -step)), crown=says)
    return folder


def _bounding(job: Job) -> Verdicts:
    """What is true of scores a, b and 1/2 over the box of 1/8 around (a, b) in the unit square."""
    scores = np.concatenate([job.x.double().numpy(), np.full((len(job.x), 1), 0.5)], axis=1)
    reach = np.array([0.125, 0.125, 0])
    low, high = np.clip(scores - reach, 0, 1), np.clip(scores + reach, 0, 1)
    proved = tuple(OutputBounds(a, a, b, b) for a, b in zip(low, high, strict=True))
    found: Verdicts = verdicts("unknown", margin=-1.0)(job)
    return replace(found, outputs=proved)


def detected(folder: Path, path: Path) -> bool:
    """Whether the audit, with the model at hand, finds anything or refuses the bundle."""
    try:
        if audit(path).faults:
            return True
        bundle = Bundle.open(path)
        return bool(replay_all(bundle, world_of(bundle, folder, trust_code=False)).faults)
    except Stop:
        return True


# Without a new statement ----------------------------------------------------------------------------------------------


def _some_file(path: Path, random: Random) -> Path:
    return random.choice(sorted(p for p in path.rglob("*") if p.is_file()))


def flip(path: Path, random: Random) -> None:
    target = _some_file(path, random)
    content = bytearray(target.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    target.write_bytes(content)


def truncate(path: Path, random: Random) -> None:
    target = _some_file(path, random)
    target.write_bytes(target.read_bytes()[: random.randrange(target.stat().st_size)])


def remove(path: Path, random: Random) -> None:
    _some_file(path, random).unlink()


def add(path: Path, random: Random) -> None:
    name = random.choice(["extra.txt", ".hidden", "records/000009.parquet", "spec/more.tm"])
    (path / name).parent.mkdir(exist_ok=True)
    (path / name).write_bytes(random.randbytes(9))


def link(path: Path, random: Random) -> None:
    target = _some_file(path, random)
    elsewhere = path.parent / f"{path.name}.elsewhere"
    shutil.move(target, elsewhere)
    target.symlink_to(elsewhere)


def swap_files(path: Path, random: Random) -> None:
    files = {p.read_bytes(): p for p in path.rglob("*") if p.is_file()}
    (one, a), (other, b) = random.sample(sorted(files.items()), 2)
    a.write_bytes(other)
    b.write_bytes(one)


LOUD: tuple[Tamper, ...] = (flip, truncate, remove, add, link, swap_files)


# With a statement that fits -------------------------------------------------------------------------------------------


def seal_anew(path: Path, predicate: Any = None) -> None:
    predicate = predicate or json.loads((path / "statement.json").read_bytes())["predicate"]
    Bundle(path, writable=True).seal(predicate)


def _edit_json(path: Path, name: str, change: Callable[[Any], None]) -> None:
    content = json.loads((path / name).read_bytes())
    change(content)
    Bundle(path, writable=True).add_json(name, content)
    seal_anew(path)


def _edit_rows(path: Path, change: Callable[[list[Record]], list[Record]]) -> None:
    bundle = Bundle(path, writable=True)
    rows = bundle.records()
    for name in (path / "records").iterdir():
        name.unlink()
    bundle.write_records(change(rows))
    seal_anew(path)


def double_key(path: Path, random: Random) -> None:
    target = path / random.choice(["plan.json", "columns.json", "run.json"])
    text = target.read_text()
    target.write_text('{"tmlang":"0",' * (target.name == "run.json") + text[target.name == "run.json" :])
    if target.name != "run.json":
        key = text[1 : text.index(":")]
        target.write_text("{" + f"{key}:0," + text[1:])
    seal_anew(path)


def numbers(path: Path, random: Random) -> None:
    """A numerator, denominator, end or count of the headline numbers."""

    def change(told: Any) -> None:
        columns = told["evaluations"]["e"]["columns"]
        name = random.choice(sorted(columns))
        key = random.choice(["numerator", "denominator", "low", "high"])
        was = columns[name][key]
        columns[name][key] = was + random.choice([-1, 1]) if isinstance(was, int) else "1/97"

    _edit_json(path, "columns.json", change)


def counts(path: Path, random: Random) -> None:
    def change(told: Any) -> None:
        counted = told["evaluations"]["e"]["counts"]
        counted[random.choice(sorted(counted))] += 1

    _edit_json(path, "columns.json", change)


def words(path: Path, random: Random) -> None:
    """What stands beside the numbers: units, notes, gaps, and what a claim rests on."""

    def change(told: Any) -> None:
        e = told["evaluations"]["e"]
        column = e["columns"][random.choice(sorted(e["columns"]))]
        kind = random.randrange(4)
        if kind == 0:
            e["units"] = "pictures"
        elif kind == 1:
            column["note"] = "proved"
        elif kind == 2:
            column["gaps"] = {"crashed": 1} if column["gaps"] == {} else {}
        else:
            told["claims"][0]["rests_on"] = ["e/none"]

    _edit_json(path, "columns.json", change)


def claim(path: Path, random: Random) -> None:
    def change(told: Any) -> None:
        own = told["claims"][0]
        own["status"] = random.choice([s for s in ("supported", "refuted", "undecided") if s != own["status"]])

    _edit_json(path, "columns.json", change)


def examples(path: Path, random: Random) -> None:
    """Ids of ``run.json`` swapped, dropped or doubled."""

    def change(run: Any) -> None:
        ids = run["examples"]["e"]
        a, b = random.sample(range(len(ids)), 2)
        kind = random.randrange(3)
        if kind == 0:
            ids[a], ids[b] = ids[b], ids[a]
        elif kind == 1:
            del ids[a]
        else:
            ids[a] = ids[b]

    _edit_json(path, "run.json", change)


def swapped_ids(path: Path, random: Random) -> None:
    """Two examples' names, in every row of theirs or in one."""

    def change(rows: list[Record]) -> list[Record]:
        a, b = random.sample(sorted({r.example for r in rows}), 2)
        other = {a: b, b: a}
        return [replace(r, unit=other.get(r.unit, r.unit), example=other.get(r.example, r.example)) for r in rows]

    _edit_rows(path, change)


def dropped(path: Path, random: Random) -> None:
    """Every row of an example."""

    def change(rows: list[Record]) -> list[Record]:
        gone = random.choice(sorted({r.example for r in rows}))
        return [r for r in rows if r.example != gone]

    _edit_rows(path, change)


def doubled(path: Path, random: Random) -> None:
    _edit_rows(path, lambda rows: [*rows, random.choice([r for r in rows if r.stage == "clean"])])


_VALUES: dict[str, Callable[[Any, Random], Any]] = {
    "label": lambda v, _: (v + 1) % 3,
    "clean": lambda v, r: r.choice([s for s in ("cc", "cw", "cr", "cu") if s != v]),
    "clean_decision": lambda v, _: ((v or 0) + 1) % 3,
    "status": lambda v, r: r.choice([s for s in ("none", "valid", "invalid", "timeout", "error") if s != v]),
    "decision": lambda v, _: 0 if v is None else (v + 1) % 3,
    "within_scope": lambda v, _: not v,
    "within_access": lambda v, _: not v,
    "observed_failure": lambda v, _: not v,
    "counted_failure": lambda v, _: not v,
    "changed_correct": lambda v, _: not v,
    "rejected": lambda v, _: not v,
    "linf": lambda v, _: v * 1.01,
    "l2": lambda v, _: v * 1.01,
    "l1": lambda v, _: v * 1.01,
    "l0": lambda v, _: v + 1,
    "distance": lambda v, _: v * 1.01,
    "margin": lambda v, _: -v or 1.0,
    "candidate": lambda _, __: None,
}


def row_value(path: Path, random: Random) -> None:
    """One value of one row with an input."""

    def change(rows: list[Record]) -> list[Record]:
        at = random.choice([i for i, r in enumerate(rows) if r.candidate and r.observed_failure])
        name = random.choice(sorted(k for k in _VALUES if getattr(rows[at], k) is not None))
        rows[at] = replace(rows[at], **{name: _VALUES[name](getattr(rows[at], name), random)})
        return rows

    _edit_rows(path, change)


def candidate(path: Path, random: Random) -> None:
    """One coordinate of a saved input or of the original beside it."""
    bundle = Bundle(path, writable=True)
    name = next(n for n in bundle.files() if n.startswith("candidates/"))
    file = bundle.candidates(name)
    arrays = {k: v.copy() for k, v in file.tensors.items()}
    array = arrays[random.choice(sorted(arrays))]
    array[random.randrange(len(array)), random.randrange(2)] += np.float32(random.choice([-1, 1]) / 64)
    (path / name).unlink()
    bundle.add_candidates(arrays["x"], arrays["original"], space=file.metadata["space"])
    seal_anew(path)


def outputs(path: Path, random: Random) -> None:
    """Bounds of outputs moved, turned round, or left out, where there are any; else a saved input."""
    bundle = Bundle(path, writable=True)
    files = [n for n in bundle.files() if n.startswith("outputs/")]
    kind = random.randrange(3) if files else 3
    if kind == 3:
        candidate(path, random)
        return
    if kind == 2:
        lost = random.choice([r.unit for r in bundle.records() if r.outputs])
        _edit_rows(path, lambda rows: [replace(r, outputs=None) if r.unit == lost else r for r in rows])
        return
    name = random.choice(files)
    arrays = {k: v.copy() for k, v in bundle.output_file(name).tensors.items()}
    if kind == 1:
        arrays["lower"], arrays["upper"] = arrays["upper"], arrays["lower"]
    else:
        at, by = (random.randrange(len(arrays["lower"])), random.randrange(3)), random.choice([-0.25, 0.25])
        for array in arrays.values():
            array[at] += by
    (path / name).write_bytes(tensorfile.write(arrays, {}))
    seal_anew(path)


def plan_value(path: Path, random: Random) -> None:
    """A wider set, or another label of the attacked classes, in the plan alone."""
    text = (path / "plan.json").read_text()
    old, new = random.choice([('"1/8"', '"1/4"'), ('"lowest"', '"reject"'), ('"near"', '"nearer"')])
    (path / "plan.json").write_text(text.replace(old, new))
    seal_anew(path)


def statement(path: Path, random: Random) -> None:
    predicate = json.loads((path / "statement.json").read_bytes())["predicate"]
    kind = random.randrange(4)
    if kind == 0:
        predicate["claims"][0]["status"] = "proved"
    elif kind == 1:
        predicate["plan"] = "00" * 32
    elif kind == 2:
        predicate["lock"] = "00" * 32
    else:
        predicate["more"] = 1
    seal_anew(path, predicate)


def page(path: Path, random: Random) -> None:
    """A word of a report."""
    target = path / random.choice(["report.html", "report.md", "ro-crate-metadata.json", "croissant.json"])
    found = target.read_text()
    word = random.choice([w for w in ("survival", "near", "broken", "linf", "apgd", "licence", "hand") if w in found])
    target.write_text(found.replace(word, f"{word}!", 1))
    seal_anew(path)


def stray(path: Path, random: Random) -> None:
    """A file that no run writes."""
    name = random.choice(["spec/more.tm", "figures/good.svg", "report.pdf", "summary.html", "candidates/000009.bin"])
    (path / name).parent.mkdir(exist_ok=True)
    (path / name).write_bytes(b"all is well")
    seal_anew(path)


def environment(path: Path, random: Random) -> None:
    """What was taken without a hash, or a field that is none."""

    def change(told: Any) -> None:
        kind = random.randrange(3)
        if kind == 0:
            told["unfrozen"] = []
        elif kind == 1:
            del told["tools"]
        else:
            told["warnings"].append({"code": "TM000"})

    _edit_json(path, "environment.json", change)


def code_hashes(path: Path, random: Random) -> None:
    """The code of a backend left out of ``run.json``, added, or no hash."""

    def change(told: Any) -> None:
        hashes, kind = told["backends"], random.randrange(3)
        if kind == 0:
            hashes.pop(random.choice(sorted(hashes)))
        else:
            hashes["more" if kind == 1 else random.choice(sorted(hashes))] = "ab" * (32 if kind == 1 else 31)

    _edit_json(path, "run.json", change)


def spec_text(path: Path, random: Random) -> None:
    """The spec alone, in a way that means something else or cannot be read."""
    old, new = random.choice(
        [("1/8", "1/4"), ("lowest", "reject"), ("50 %", "40 %"), ("seed:     0", ""), ("20", "30")]
    )
    text = (path / "spec" / "s.tm").read_text()
    (path / "spec" / "s.tm").write_text(text.replace(old, new))
    seal_anew(path)


SEALED: tuple[Tamper, ...] = (
    double_key, numbers, counts, words, claim, examples, swapped_ids, dropped, doubled, row_value, candidate,
    outputs, plan_value, statement, page, stray, environment, code_hashes, spec_text,
)  # fmt: skip


# With everything worked out anew --------------------------------------------------------------------------------------


def _forge(
    path: Path,
    rows: Callable[[list[Record]], list[Record]] = list,
    run: Callable[[Any], object] | None = None,
    plan: Callable[[Plan], Plan] | None = None,
) -> None:
    before = path.with_name(path.name + ".before")
    path.rename(before)
    forged(before, path, rows=rows, run=run, plan=plan)
    shutil.rmtree(before)


def survivor(path: Path, random: Random) -> None:
    """A broken unit that is told as never broken."""

    def change(rows: list[Record]) -> list[Record]:
        broken = random.choice(sorted({r.unit for r in rows if r.observed_failure}))
        return [
            replace(r, observed_failure=False, counted_failure=False, changed_correct=False, decision=r.label)
            if r.unit == broken and r.observed_failure
            else r
            for r in rows
        ]

    _forge(path, change)


def forgotten(path: Path, random: Random) -> None:
    """An example that is told nowhere."""
    gone = random.choice(sorted({r.example for r in Bundle.open(path).records()}))
    _forge(
        path,
        lambda rows: [r for r in rows if r.example != gone],
        lambda run: run["examples"].update(e=[i for i in run["examples"]["e"] if i != gone]),
    )


def relabelled(path: Path, random: Random) -> None:
    """Another label for a unit that nothing broke, and what follows from it."""

    def change(rows: list[Record]) -> list[Record]:
        free = sorted({r.unit for r in rows} - {r.unit for r in rows if r.candidate})
        unit = random.choice(free or sorted({r.unit for r in rows}))
        clean = next(r for r in rows if r.unit == unit and r.stage == "clean")
        other = (clean.label + 1) % 3
        status = "cc" if other == clean.clean_decision else "cw"
        mine = replace(clean, label=other, clean=status, counted_failure=status != "cc")  # type: ignore[arg-type]
        return [mine if r is clean else r for r in rows if r is clean or r.unit != unit]

    _forge(path, change)


def replanned(path: Path, random: Random) -> None:
    """Another threat, claim or seed than the spec's, and all that follows from it."""

    def wider(plan: Plan) -> Plan:
        threat = plan.threat("near")
        assert isinstance(threat.allow, Ball)
        return replace(plan, subjects=(replace(threat, allow=replace(threat.allow, radius=Fraction(1, 4))),))

    changes: list[Callable[[Plan], Plan]] = [
        wider,
        lambda p: replace(p, claims=(replace(p.claims[0], right=Fraction(1, 100)),)),
        lambda p: replace(p, evaluations=(replace(p.evaluations[0], seed=1),)),
        lambda p: replace(p, data=(replace(p.data[0], truth=Truth("published", "by an expert")),)),
        lambda p: replace(p, warnings=(("TM000", "made of gold"),)),
    ]
    _forge(path, plan=random.choice(changes))


def judgement(path: Path, random: Random) -> None:
    """A judgement of a failing input that nobody made."""

    def change(rows: list[Record]) -> list[Record]:
        at = random.choice([i for i, r in enumerate(rows) if r.observed_failure])
        return [replace(r, label_kept=random.random() < 0.5) if i == at else r for i, r in enumerate(rows)]

    _forge(path, change)


FORGED: tuple[Tamper, ...] = (survivor, forgotten, relabelled, replanned, judgement)


# Packed ---------------------------------------------------------------------------------------------------------------


def _files(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def _put(path: Path, data: bytes) -> None:
    shutil.rmtree(path)
    path.write_bytes(data)


def zip_bytes(path: Path, random: Random) -> None:
    """A zip with a flipped bit, cut off, or with bytes in front of it, behind it or inside."""
    data = bytearray(packed(_files(path)))
    at, kind = random.randrange(len(data)), random.randrange(5)
    if kind == 0:
        data[at] ^= 1 << random.randrange(8)
    elif kind == 1:
        del data[at:]
    else:
        data[{2: 0, 3: len(data), 4: at}[kind] : {2: 0, 3: len(data), 4: at}[kind]] = random.randbytes(3)
    _put(path, bytes(data))


def zip_form(path: Path, random: Random) -> None:
    """The same files in another zip: compressed, doubled, dated, commented, in another order, with a link."""
    kind, buffer = random.randrange(6), io.BytesIO()
    method = zipfile.ZIP_DEFLATED if kind == 0 else zipfile.ZIP_STORED
    files = sorted(_files(path).items(), reverse=kind == 4)
    with zipfile.ZipFile(buffer, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, data in files + files[:1] * (kind == 1):
            entry = zipfile.ZipInfo(name, (1999, 1, 1, 0, 0, 0) if kind == 2 else (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, (0o120777 if kind == 5 else 0o100644) << 16
            archive.writestr(entry, data, method)
        archive.comment = b"well" * (kind == 3)
    _put(path, buffer.getvalue())


PACKED: tuple[Tamper, ...] = (zip_bytes, zip_form)


def tampered(honest: Path, path: Path, seed: int) -> str:
    """A changed copy of the bundle of ``honest`` at ``path``, in every fourth case packed; gives the name of the
    change."""
    random = Random(seed)
    shutil.copytree(honest / "out", path)
    change = random.choice([*LOUD, *SEALED, *FORGED, *PACKED])
    change(path, random)
    if change not in PACKED and seed % 4 == 0 and not any(p.is_symlink() for p in path.rglob("*")):
        try:
            _put(path, packed(_files(path)))
        except Stop:  # a name that is never packed
            return change.__name__
        return f"{change.__name__}, packed"
    return change.__name__
