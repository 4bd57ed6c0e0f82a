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

from tmlang.base.source import Span
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.evaluations import Module
from tmlang.meaning.models import Network, Take
from tmlang.meaning.threats import Anything, Mutable, Property
from tmlang.meaning.values import Artifact
from tmlang.plan import Capabilities, lower
from tmlang.plan.ir import Plan
from tmlang.plan.lock import (
    Lock,
    artifacts,
    artifacts_of,
    changes,
    frozen,
    installed,
    lock_from_json,
    lock_json,
    make_lock,
    under_lock,
    with_targets,
)
from tmlang.plan.text import claim_identity, plan_hash

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


PLACE = Span("s.tm", 3, 9, 1, 4, 1, 10)


def refusal(plan: Plan, lock: Lock, libraries: tuple[tuple[str, str], ...] = LIBRARIES) -> list[Diagnostic]:
    with pytest.raises(Stop) as refused:
        under_lock(plan, lock, libraries, PLACE)
    return list(refused.value.diagnostics)


def classes(plan: Plan, names: tuple[str, ...]) -> Plan:
    return replace(plan, models=(replace(plan.models[0], classes=names), *plan.models[1:]))


def test_a_refusal_says_what_was_and_what_is_at_most_twelve_times(plan: Plan) -> None:
    for count, more in ((1, 0), (12, 0), (13, 1), (15, 3)):
        old = classes(plan, tuple(f"a{i}" for i in range(20)))
        new = classes(plan, tuple(f"{'b' if i < count else 'a'}{i}" for i in range(20)))
        new = replace(new, modules=(Module("s.tm", "9" * 64),))
        (found,) = refusal(new, make_lock(old, HASHES, LIBRARIES, {}))
        assert found.notes[0] == 'models[net].classes[0]: was "a0", is "b0"'
        assert len(found.notes) == min(count, 12) + bool(more)
        assert not more or found.notes[-1] == f"and {more} more"
        assert (found.code, found.message) == ("TM862", "the spec no longer means what was locked")
        assert found.span == PLACE
        assert found.help is not None
        assert found.help.endswith("its results are then of another claim")


def test_lists_of_other_lengths_are_shown_whole_and_long_values_cut(plan: Plan) -> None:
    old, new = classes(plan, ("a", "b")), classes(plan, ("a", "b", "c"))
    assert list(changes(old, new)) == ['models[net].classes: was ["a","b"], is ["a","b","c"]']
    assert list(changes(old, new, "here", "there")) == ['models[net].classes: here ["a","b"], there ["a","b","c"]']
    for length, cut in ((58, False), (59, True)):
        (line,) = changes(old, classes(plan, ("x" * length, "b")))
        shown = f'"{"x" * length}"'
        assert line == f'models[net].classes[0]: was "a", is {shown[:57] + "…" if cut else shown}'
    assert list(changes(old, old)) == []
    fewer = replace(old, models=())
    assert next(changes(fewer, old)).startswith("models: was [], is [{")


def test_every_other_version_is_named_with_both(plan: Plan) -> None:
    lock = make_lock(plan, HASHES, LIBRARIES, {})
    assert under_lock(plan, lock, (*LIBRARIES, ("more", "1"))) == frozen(plan, HASHES)
    (found,) = refusal(plan, lock, (("numpy", "2.4.7"), LIBRARIES[1]))
    assert (found.code, found.message) == ("TM863", "numpy is 2.4.7 here and 2.4.6 in the lock")
    assert found.help == "install numpy==2.4.6, or freeze anew"
    (found,) = refusal(plan, lock, LIBRARIES[:1])
    assert found.message == "toylib is not used here and 1.0 in the lock"
    (found,) = refusal(plan, replace(lock, tmlang="0.0"))
    assert found.message == f"tmlang is {lock.tmlang} here and 0.0 in the lock"


def test_a_lock_holds_what_it_was_made_of(plan: Plan) -> None:
    lock = make_lock(plan, HASHES, LIBRARIES, {"e": (("17", "b"),)})
    assert (lock.format, lock.libraries, lock.targets) == (1, LIBRARIES, (("e", (("17", "b"),)),))
    assert lock.plan == frozen(plan, HASHES)
    assert lock.sha256 == plan_hash(lock.plan)
    assert lock.claims == tuple((c.text, claim_identity(lock.plan, c)) for c in plan.claims)


def test_what_is_no_lock_says_so_and_what_to_do(plan: Plan) -> None:
    whole = json.loads(lock_json(make_lock(plan, HASHES, LIBRARIES, {})))
    for data, said in (
        (b"{", "`s.lock` is no lock: "),
        (json.dumps({**whole, "format": "one"}).encode(), "`s.lock` is no lock: lock.format"),
        (json.dumps({**whole, "format": 2}).encode(), "`s.lock` does not agree with itself"),
        (json.dumps({**whole, "sha256": "0" * 64}).encode(), "`s.lock` does not agree with itself"),
    ):
        with pytest.raises(Stop) as refused:
            lock_from_json(data, "s.lock")
        (found,) = refused.value.diagnostics
        assert found.message.startswith(said)
        assert (found.code, found.help) == ("TM861", "write it anew: tmc freeze")


def test_properties_and_unknown_backends_are_passed_over(plan: Plan, tmp_path: Path) -> None:
    phi = Property("phi", "net", (), ())
    assert with_targets(replace(plan, subjects=(*plan.subjects, phi))) == ()
    (only,) = plan.evaluations
    strange = replace(only, stages=(replace(only.stages[0], backend="nowhere"),))
    names = [n for n, _ in installed(replace(plan, evaluations=(strange,)), Capabilities(manifests(tmp_path)))]
    assert names == ["numpy", "torch"]


def test_an_artifact_in_every_kind_of_place_is_found_once() -> None:
    one, two = Artifact("a"), Artifact("b", "1" * 64)
    assert artifacts_of((one, ((two,), one), Take("ids", file=two), 3, None)) == (one, two)
    assert artifacts_of(one) == (one,)


def test_parts_of_other_kinds_are_shown_whole(plan: Plan) -> None:
    net, (t,) = plan.models[0], plan.subjects
    told = list(changes(plan, replace(plan, subjects=(replace(t, allow=None),))))
    assert len(told) == 1
    assert told[0].startswith('subjects[t].allow: was {"')
    assert told[0].endswith("…, is null")
    (line,) = changes(replace(plan, subjects=(replace(t, allow=None),)), plan)
    assert line.startswith("subjects[t].allow: was null, is {")
    members = (("a", "b"), "mean of logits")
    for old, new in ((None, members), (members, None)):
        (line,) = changes(*(replace(plan, models=(replace(net, ensemble=e),)) for e in (old, new)))
        both = ["null" if e is None else '[["a","b"],"mean of logits"]' for e in (old, new)]
        assert line == f"models[net].ensemble: was {both[0]}, is {both[1]}"
    anything = list(changes(plan, replace(plan, subjects=(replace(t, allow=Anything()),))))
    assert 'subjects[t].allow.is: was "Ball", is "Anything"' in anything
    assert 'subjects[t].allow.norm: was "linf", is null' in anything


def test_a_hash_is_put_where_it_is_missing_and_nowhere_else(plan: Plan) -> None:
    takes = (Take("all"), Take("ids", file=Artifact("ids.txt")), Take("first", 3))
    mixed = replace(plan, data=(replace(plan.data[0], takes=takes),))
    (found,) = frozen(mixed, {"ids.txt": "4" * 64}).data
    assert found.takes == (takes[0], Take("ids", file=Artifact("ids.txt", "4" * 64)), takes[2])
    assert found.file == plan.data[0].file
