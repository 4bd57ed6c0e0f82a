"""An entry for RobustBench: the keys of their model_info, and a refusal for everything that is not theirs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from audit_support import BROKEN, Rows, attack, evaluation, make_bundle, plan, solver, threat

from tmlang.audit.bundle import Bundle
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.models import RejectWhen, Truth
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Ball, Goal, Mutable
from tmlang.plan.ir import Plan
from tmlang.report.robustbench import entries

SPACE = Space("px", (3, 32, 32), (Cell("real", Fraction(0), Fraction(1)),))
WIDER = Cell("real", Fraction(-1), Fraction(1))
ONE, NINE = ("restarts", Fraction(1)), ("targets", Fraction(9))
STEPS = ("steps", Fraction(100))
SUITE = (
    attack(arguments=(STEPS, ONE)),
    attack("t", method="apgd_targeted", arguments=(STEPS, ONE, NINE)),
    attack("f", method="fab_targeted", arguments=(STEPS, ONE, NINE)),
    attack("s", method="square", arguments=(("queries", Fraction(5000)), ONE, ("schedule", Fraction(10_000)))),
)
THREAT = threat(allow=Ball("linf", "px", Fraction(8, 255)))
KEYS = {
    *("link", "name", "authors", "additional_data", "number_forward_passes", "dataset", "venue", "architecture"),
    *("eps", "clean_acc", "reported", "autoattack_acc", "footnote", "unreliable"),
}


def whole(**changes: Any) -> Plan:
    made = plan([evaluation(*SUITE)], [THREAT])
    truth = Truth("published", "CIFAR-10 test labels")
    model = replace(made.models[0], classes=tuple(map(str, range(10))))
    return replace(made, spaces=(SPACE,), models=(model,), data=(replace(made.data[0], truth=truth),), **changes)


def bundle_of(path: Path, made: Plan, units: int = 10_000) -> Bundle:
    """8,969 of 10,000 right, 3,016 of these broken: the numbers that RobustBench prints for Carmon2019Unlabeled."""
    rows = Rows()
    for i in range(units):
        rows.clean(f"u{i}", "cc" if i < 8969 else "cw")
        if i < 8969:
            candidate = {"candidate": "candidates/000001.safetensors#0", **BROKEN} if i < 3016 else {}
            rows.attack(f"u{i}", "a", "broken" if i < 3016 else "none", **candidate)
            for stage in "tfs" if i >= 3016 else "":
                rows.attack(f"u{i}", stage)
    bundle = make_bundle(path, made, rows.all)
    bundle.add_json("run.json", {"tmlang": "0", "artifacts": {}, "models": {}, "libraries": {}})
    bundle.seal({})
    return Bundle.open(path)


def test_the_published_numbers_of_a_leaderboard_entry(tmp_path: Path) -> None:
    (entry,) = json.loads(entries(bundle_of(tmp_path / "run", whole()))).values()
    assert set(entry) == KEYS
    assert (entry["dataset"], entry["eps"]) == ("cifar10", "8/255")
    assert (entry["clean_acc"], entry["autoattack_acc"]) == ("89.69", "59.53")
    assert entry["authors"] is entry["reported"] is None


def _threat(**changes: Any) -> Callable[[Plan], Plan]:
    return lambda p: replace(p, subjects=(replace(THREAT, **changes),))


def _model(**changes: Any) -> Callable[[Plan], Plan]:
    return lambda p: replace(p, models=(replace(p.models[0], **changes),))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_threat(allow=Ball("linf", "px", Fraction(4, 255))), "radius 8/255"),
        (_threat(allow=Ball("l1", "px", Fraction(12))), "no leaderboard"),
        (_threat(mutable=Mutable("rows", ranges=((0, 4),))), "every coordinate"),
        (_threat(goal=Goal("class", target="1")), "untargeted"),
        (_threat(access=Access("white_box", queries=100)), "white box"),
        (_threat(clean_errors="excluded"), "clean errors"),
        (_model(reject=(RejectWhen("max_softmax", "<", Fraction(1, 2)),)), "never rejects"),
        (_model(classes=("a", "b")), "10 classes"),
        (lambda p: replace(p, spaces=(replace(SPACE, cells=(WIDER,)),)), "from 0 to 1"),
        (lambda p: replace(p, evaluations=(evaluation(attack()),)), "AutoAttack"),
        (lambda p: replace(p, evaluations=(evaluation(*SUITE, attack("more")),)), "AutoAttack"),
        (lambda p: replace(p, evaluations=(evaluation(*SUITE[:3], attack("s", method="square")),)), "AutoAttack"),
        (
            lambda p: replace(p, evaluations=(evaluation(*SUITE, solver("x")),)),
            "a solver or an enumeration",
        ),
    ],
)  # fmt: skip
def test_what_is_not_theirs_is_refused_with_the_reason(
    change: Callable[[Plan], Plan], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Stop) as stopped:
        entries(bundle_of(tmp_path / "run", change(whole()), units=3))
    (found,) = stopped.value.diagnostics
    assert found.code == "TM884"
    assert any(reason in note for note in found.notes), found.notes


def test_fewer_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Stop) as stopped:
        entries(bundle_of(tmp_path / "run", whole(), units=1000))
    assert stopped.value.diagnostics[0].notes == ("e: they count 10000 images, and this run counted 1000",)
