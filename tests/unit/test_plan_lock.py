"""Locks: they hold a plan with every hash, and notice every change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from plan_support import LINF, NET, THREAT, call, manifests, program, stage

from tmlang.diagnostics.stop import Stop
from tmlang.meaning.models import Network, Take
from tmlang.meaning.threats import Mutable
from tmlang.meaning.values import Artifact
from tmlang.plan import Capabilities, lower
from tmlang.plan.ir import Plan
from tmlang.plan.lock import (
    artifacts,
    frozen,
    installed,
    lock_from_json,
    lock_json,
    make_lock,
    under_lock,
    with_targets,
)

HASHES = {"d.npz": "1" * 64, "w.safetensors": "2" * 64, "m.npy": "3" * 64, "ids.txt": "4" * 64}
LIBRARIES = (("numpy", "2.4.6"), ("toylib", "1.0"))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    torch = Network("torch", Artifact("net.py"), "net", Artifact("w.safetensors", "f" * 64))
    made = program(
        stage(call()),
        models=(replace(NET, network=torch),),
        subjects=(replace(THREAT, mutable=Mutable("mask", file=Artifact("m.npy"))),),
    )
    made = replace(made, data=(replace(made.data[0], takes=(Take("ids", file=Artifact("ids.txt")),)),))
    result, found = lower(made, Capabilities(manifests(tmp_path)))
    assert result is not None, found
    return result


def test_every_artifact_is_found_and_gets_its_hash_unless_it_has_one(plan: Plan) -> None:
    assert [a.path for a in artifacts(plan)] == ["net.py", "w.safetensors", "d.npz", "ids.txt", "m.npy"]
    fixed = {a.path: a.sha256 for a in artifacts(frozen(plan, HASHES))}
    assert fixed == {
        "net.py": None,
        "w.safetensors": "f" * 64,
        "d.npz": "1" * 64,
        "ids.txt": "4" * 64,
        "m.npy": "3" * 64,
    }
    assert frozen(plan, {}) is plan


def test_a_lock_comes_back_and_lets_its_own_plan_through(plan: Plan) -> None:
    lock = make_lock(plan, HASHES, LIBRARIES, {"e": (("17", "b"),)})
    again = lock_from_json(lock_json(lock), "s.tm.lock")
    assert again == lock
    assert under_lock(plan, again, LIBRARIES) == frozen(plan, HASHES)
    assert [title for title, _ in lock.claims] == ["c"]


CHANGES: tuple[tuple[str, Callable[[Plan], Plan]], ...] = (
    (
        "subjects[t].allow.radius",
        lambda p: replace(p, subjects=(replace(p.threat("t"), allow=replace(LINF, radius=Fraction(1, 9))),)),
    ),
    ("evaluations[e].seed", lambda p: replace(p, evaluations=(replace(p.evaluations[0], seed=7),))),
    ("models[net].network.weights.sha256", lambda p: other_weights(p)),
    ("claims", lambda p: replace(p, claims=())),
)


def other_weights(plan: Plan) -> Plan:
    net = plan.models[0]
    return replace(
        plan, models=(replace(net, network=replace(net.network, weights=Artifact("w.safetensors", "e" * 64))),)
    )


@pytest.mark.parametrize(("where", "change"), CHANGES)
def test_another_meaning_is_refused_with_the_place(plan: Plan, where: str, change: Callable[[Plan], Plan]) -> None:
    lock = make_lock(plan, HASHES, LIBRARIES, {"e": (("17", "b"),)})
    with pytest.raises(Stop) as refused:
        under_lock(change(plan), lock, LIBRARIES)
    (found,) = refused.value.diagnostics
    assert found.code == "TM862"
    assert found.notes[0].startswith(where)


def test_targets_are_locked_where_the_spec_does_not_tell_them(plan: Plan) -> None:
    def asking(kind: Any) -> list[str]:
        threat = replace(plan.threat("t"), goal=replace(plan.threat("t").goal, kind=kind))
        return [e.name for e in with_targets(replace(plan, subjects=(threat,)))]

    assert [asking(kind) for kind in ("untargeted", "class", "each", "next")] == [[], [], [], []]
    assert [asking(kind) for kind in ("runner_up", "least_likely", "random", "column")] == [["e"]] * 4


def test_another_library_is_refused(plan: Plan) -> None:
    lock = make_lock(plan, HASHES, LIBRARIES, {"e": (("17", "b"),)})
    with pytest.raises(Stop) as refused:
        under_lock(plan, lock, (("numpy", "2.4.7"),))
    assert [d.code for d in refused.value.diagnostics] == ["TM863", "TM863"]
    assert "2.4.7 here and 2.4.6 in the lock" in refused.value.diagnostics[0].message


@pytest.mark.parametrize(
    "spoil",
    [
        lambda read: read.update(format=2),
        lambda read: read.update(sha256="0" * 64),
        lambda read: read["plan"].update(edition=2),
        lambda read: read.pop("libraries"),
        lambda read: read.update(more=1),
    ],
)
def test_a_lock_that_was_changed_by_hand_is_refused(plan: Plan, spoil: Callable[[Any], None]) -> None:
    read = json.loads(lock_json(make_lock(plan, HASHES, LIBRARIES, {"e": (("17", "b"),)})))
    spoil(read)
    with pytest.raises(Stop) as refused:
        lock_from_json(json.dumps(read).encode(), "s.tm.lock")
    assert refused.value.diagnostics[0].code == "TM861"


def test_installed_names_what_is_missing_too(plan: Plan, tmp_path: Path) -> None:
    found = dict(installed(plan, Capabilities(manifests(tmp_path))))
    assert found.keys() == {"numpy", "torch", "toylib"}
    assert found["toylib"] == "not installed"
