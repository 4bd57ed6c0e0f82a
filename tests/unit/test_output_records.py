"""Bounds of outputs in a bundle: read strictly, and held against margins, decisions, each other, and the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from audit_support import BROKEN, Rows, as_run, attack, certifier, evaluation, make_bundle, plan, sealed, threat
from execute_support import THREAT, THREE, Runs, data, moved, stage
from execute_support import plan as small_plan

from tmlang.audit import tensorfile
from tmlang.audit.bundle import Bundle
from tmlang.audit.outputs import ENDS, OutputBounds, as_tensors
from tmlang.audit.verify import audit
from tmlang.backends.contract import Verdicts
from tmlang.diagnostics.stop import Stop
from tmlang.execute.replay import replay_all, world_of
from tmlang.meaning.threats import Ball, Either

ASKED = {"arguments": (("outputs", True),)}
PLAN = plan([evaluation(attack(), certifier("c", **ASKED), certifier("d", **ASKED))], [threat()])


def around(*scores: float, width: float = 0.5, reached: float = 0.25) -> OutputBounds:
    """Bounds as far from the scores as ``width``, and inputs that reach half of that."""
    s = np.array(scores)
    return OutputBounds(s - width, s - reached, s + reached, s + width)


# u: class 0 leads by 2 and is proved to lead by 1; v: broken, decided for class 1 there.
SURE = replace(around(2, 0, -1), margins=np.array([0, 1.0, 2.5]))
HONEST = {("u", "c"): SURE, ("u", "d"): around(2.1, 0.1, -1), ("v", "c"): around(0.5, 0.375, -1)}


def bundle_of(
    path: Path,
    bounds: dict[tuple[str, str], OutputBounds] = HONEST,
    edit: Callable[[list[Any]], list[Any]] = list,
    whole: Any = PLAN,
) -> Path:
    made = Rows()
    made.clean("u").attack("u").proof("u", "c", margin=1.0, gap=0.01, gap_kind="assumed")
    made.proof("u", "d", "unknown", margin=0.0, gap=0.01, gap_kind="assumed")
    made.clean("v").attack("v", outcome="broken", candidate="candidates/000001.safetensors#0", **BROKEN)
    made.proof("v", "c", "unknown", margin=-0.5, gap=0.01, gap_kind="assumed")
    made.proof("v", "d", "unknown", gap=0.01, gap_kind="assumed", message="no time")
    made.clean("w", "cw")
    bundle = make_bundle(path, whole, made.all)
    (path / "records/000001.parquet").unlink()
    plain = [key for key, b in bounds.items() if b.margins is None]
    groups = [[key for key in bounds if key not in plain], plain]
    names = {k: n for g in groups if g for k, n in zip(g, bundle.add_outputs([bounds[k] for k in g]), strict=True)}
    told = as_run(whole, made.all)
    bundle.write_records(edit([replace(r, outputs=names.get((r.unit, r.stage))) for r in told]))
    return sealed(bundle).path


def faults(path: Path) -> list[str]:
    found = audit(path)
    assert {f.code for f in found.faults} <= {"TM849"}
    return [f.text for f in found.faults]


def test_honest_bounds_hold_and_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = bundle_of(tmp_path / "run")
    assert faults(path) == []
    assert any("bounds of outputs of 3 certificates" in text for text in audit(path).checked)
    bundle = Bundle.open(path)
    found = bundle.outputs(next(r.outputs for r in bundle.records() if (r.unit, r.stage) == ("v", "c")) or "")
    assert [getattr(found, name).tolist() for name in ENDS] == [
        [0.0, -0.125, -1.5], [0.25, 0.125, -1.25], [0.75, 0.625, -0.75], [1.0, 0.875, -0.5],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "bounds", "says"),
    [
        (("u", "c"), replace(around(2, 0, -1), margins=np.array([0, 1.25, 2.5])), "the least of its margins is 1.25"),
        (("u", "c"), replace(around(2, 0, -1), margins=np.array([0, 1.0, 4.125])), "a margin over a class is more"),
        (("u", "c"), replace(around(2, 0, -1), margins=np.array([1, 1.0, 2.5])), "it has margins over every class"),
        # 1.1 - (-0.1) = 1.2 was possible; 0.9 - 0.1 is not 1.
        (("u", "c"), around(0.4, 0.6, -1), "the margin 1 is more than its outputs can differ by"),
        (("v", "c"), around(2.5, 0.4, -1), "decided 1, which the bounds of `c` exclude"),
        (("u", "d"), around(3.6, 0, -1), "away from what `c` saw an input give"),
        (("u", "c"), around(2, 0), "2 outputs are bounded of 3"),
    ],
)
def test_bounds_that_the_records_contradict_are_found(
    tmp_path: Path, unit: tuple[str, str], bounds: OutputBounds, says: str
) -> None:
    told = {unit: bounds} if len(bounds.lower) == 2 else HONEST | {unit: bounds}
    quiet = (lambda rows: [replace(r, message="no time") if r.verdict else r for r in rows]) if len(told) == 1 else list
    found = faults(bundle_of(tmp_path / "run", told, quiet))
    assert any(says in text for text in found), found


def test_the_same_is_found_by_the_clean_decision(tmp_path: Path) -> None:
    """The original of ``u`` was decided 0: no bounds may put every value of another score above."""

    def clean(rows: list[Any]) -> list[Any]:
        return [replace(r, decision=0, within_scope=True) if r.stage == "clean" and r.unit == "u" else r for r in rows]

    assert faults(bundle_of(tmp_path / "run", edit=clean)) == []
    wrong = HONEST | {("u", "d"): around(0, 2, -1)}
    assert any("u, clean: decided 0" in text for text in faults(bundle_of(tmp_path / "wrong", wrong, clean)))


@pytest.mark.parametrize(
    ("of", "reference", "says"),
    [
        ("d", None, "the bounds of its outputs are missing"),
        ("d", None, "1 bounds in `outputs/000002.safetensors` are no"),
        ("d", "outputs/000001.safetensors#0", "2 rows name the bounds"),
        ("d", "outputs/000002.safetensors#7", "there is no `outputs/"),
        ("d", "candidates/000001.safetensors#0", "is not read"),
        ("a", "outputs/000002.safetensors#1", "none were asked for"),
    ],
)  # fmt: skip
def test_bounds_out_of_place_are_found(tmp_path: Path, of: str, reference: str | None, says: str) -> None:
    def edit(rows: list[Any]) -> list[Any]:
        return [replace(r, outputs=reference) if (r.unit, r.stage) == ("u", of) else r for r in rows]

    found = [f.text for f in audit(bundle_of(tmp_path / "run", edit=edit)).faults]
    assert any(says in text for text in found), found


def test_bounds_that_nobody_asked_for_are_found(tmp_path: Path) -> None:
    silent = plan([evaluation(attack(), certifier("c"), certifier("d", **ASKED))], [threat()])
    assert any(
        "u, c: it has bounds of outputs, and none" in t for t in faults(bundle_of(tmp_path / "run", whole=silent))
    )


ONES = np.ones((2, 3))


@pytest.mark.parametrize(
    ("tensors", "metadata", "says"),
    [
        ({"lower": ONES, "least": ONES, "greatest": ONES}, {}, "of one shape are needed"),
        (dict.fromkeys((*ENDS, "more"), ONES), {}, "of one shape are needed"),
        (dict.fromkeys(ENDS, ONES) | {"upper": ONES[:1]}, {}, "of one shape are needed"),
        (dict.fromkeys(ENDS, ONES), {"a": "b"}, "no metadata"),
        (dict.fromkeys(ENDS, ONES) | {"margins": ONES[:1]}, {}, "of one shape are needed"),
        (dict.fromkeys(ENDS, ONES) | {"margins": ONES * np.inf}, {}, "a bound is no number"),
        (dict.fromkeys(ENDS, ONES.astype(np.float32)), {}, "no pair of bounds"),
        (dict.fromkeys(ENDS, ONES[0]), {}, "no pair of bounds"),
        (dict.fromkeys(ENDS, ONES[:0]), {}, "no pair of bounds"),
        (dict.fromkeys(ENDS, ONES) | {"upper": np.full((2, 3), np.inf)}, {}, "a bound is no number"),
        (dict.fromkeys(ENDS, ONES) | {"lower": ONES * np.nan}, {}, "a bound is no number"),
        (dict.fromkeys(ENDS, ONES) | {"lower": ONES + 1e-12}, {}, "a lower bound lies above"),
        (dict.fromkeys(ENDS, ONES) | {"least": ONES + 1e-12}, {}, "a lower bound lies above"),
        (dict.fromkeys(ENDS, ONES) | {"upper": ONES - 1e-12}, {}, "a lower bound lies above"),
    ],
)
def test_a_file_that_holds_no_bounds_is_refused(
    tmp_path: Path, tensors: dict[str, Any], metadata: dict[str, str], says: str
) -> None:
    bundle = Bundle.create(tmp_path / "run")
    bundle.add_bytes("outputs/000001.safetensors", tensorfile.write(tensors, metadata))
    with pytest.raises(Stop, match=says):
        bundle.outputs("outputs/000001.safetensors#0")


def test_bounds_whose_rows_were_never_committed_go_when_a_run_is_resumed(tmp_path: Path) -> None:
    bundle = Bundle.create(tmp_path / "run")
    (kept,) = bundle.add_outputs([around(1, 0)])
    bundle.write_records([replace(Rows().clean("u").proof("u").all[1], outputs=kept)])
    bundle.add_outputs([around(1, 0)])
    assert [n for n in Bundle.resume(tmp_path / "run").files() if n.startswith("outputs")] == [kept.partition("#")[0]]


# In a run, with three classes: the scores of (a, b) are a, b and 1/2 --------------------------------------------------

X = [[0.75, 0.25], [0.5, 0.4375]]


def proving(*bounds: OutputBounds, gap: float | None = 1e-6) -> Any:
    def act(job: Any) -> Verdicts:
        n = len(job.x)
        return Verdicts(("unknown",) * n, torch.full((n,), -1.0), gap, "assumed", outputs=bounds)

    return act


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, act: Any, x: Any = X, by: float = 0.125, **changes: Any
) -> Bundle:
    runs = Runs(folder, monkeypatch)
    stages = [stage("up"), stage("prove", "certify", **ASKED)]
    made = small_plan(folder, data(folder, x, [0] * len(x)), stages, model=THREE, **changes)
    runs(made, up=moved((-by, by)), prove=act)
    return Bundle.open(folder / "out")


def box(a: float, b: float, reach: float = 0.125) -> OutputBounds:
    low, high = np.array([a - reach, b - reach, 0.5]), np.array([a + reach, b + reach, 0.5])
    return OutputBounds(low, low, high, high)


def test_a_run_keeps_bounds_and_the_model_agrees_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = run(tmp_path, monkeypatch, proving(box(*X[0])))
    row = next(r for r in bundle.records() if r.outputs)
    assert row.unit == "0"
    assert bundle.outputs(row.outputs or "").lower.tolist() == [0.625, 0.125, 0.5]
    assert audit(bundle.path).faults == []
    assert replay_all(bundle, world_of(bundle, tmp_path, trust_code=False)).faults == []


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        (box(0.5, 0.25), "output a of an original lies outside the bounds that were proved of it"),
        (around(1, 0), "there is no pair of bounds for every output"),
        (OutputBounds(*np.array([[1.0, 0, 0], [0.0, 0, 0], [1.0, 1, 1], [1.0, 1, 1]])), "a lower bound lies above"),
    ],
)
def test_bounds_that_a_run_disbelieves_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: OutputBounds, says: str
) -> None:
    bundle = run(tmp_path, monkeypatch, proving(bounds))
    rows = [r for r in bundle.records() if r.stage == "prove"]
    assert [(r.verdict, r.outputs, says in (r.message or "")) for r in rows] == [("error", None, True)]
    assert not any(name.startswith("outputs/") for name in bundle.files())


def test_bounds_moved_afterwards_are_found_by_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = run(tmp_path, monkeypatch, proving(box(*X[0])))
    assert moved_to(bundle, tmp_path, box(0.75, 0.25 + 0.1875)) == [
        "e, 0: output b of an input of the set lies outside the bounds that prove proved"
    ]


def moved_to(bundle: Bundle, root: Path, *bounds: OutputBounds) -> list[str]:
    """What the model finds, after the bounds were written anew and all hashes with them."""
    path = bundle.path
    predicate = json.loads((path / "statement.json").read_bytes())["predicate"]
    (path / "outputs/000001.safetensors").write_bytes(tensorfile.write(as_tensors(bounds), {}))
    again = Bundle(path, writable=True)
    again.seal(predicate)
    assert audit(path).faults == []
    return replay_all(Bundle.open(path), world_of(bundle, root, trust_code=False)).faults


def test_bounds_of_a_branch_are_held_against_the_inputs_of_that_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The saved input gives 7/16 and 9/16 and so fails; it lies in the wide branch and not in the narrow one: bounds of
    the latter that leave it out are right, and bounds of the former are not. The original lies in both."""
    radii = {"narrow": Fraction(1, 16), "wide": Fraction(3, 8)}
    union = Either(tuple(Ball("linf", "px", r) for r in radii.values()), tuple(radii))

    def act(job: Any) -> Verdicts:
        return proving(box(*X[0], reach=float(job.threat.allow.radius)))(job)

    union_of = replace(THREAT, allow=union)
    bundle = run(tmp_path, monkeypatch, act, X[:1], 0.3125, threat=union_of, attribution="full")
    assert [(r.branch, r.outputs) for r in bundle.records() if r.outputs] == [
        ("narrow", "outputs/000001.safetensors#0"),
        ("wide", "outputs/000001.safetensors#1"),
    ]
    assert replay_all(bundle, world_of(bundle, tmp_path, trust_code=False)).faults == []
    fault = "e, 0: output a of an input of the set lies outside the bounds that prove proved"
    narrow, wide = (box(*X[0], reach=float(r)) for r in radii.values())
    assert moved_to(bundle, tmp_path, narrow, wide) == []
    assert moved_to(bundle, tmp_path, box(0.75 + 0.125, 0.25, 0.0625), wide) == [fault]
    # Further than the original, and less far than the saved input.
    assert moved_to(bundle, tmp_path, narrow, box(*X[0], reach=0.28125)) == [fault]
