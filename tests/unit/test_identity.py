"""What the files of a bundle say of one run, each word of it changed on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import audit_support
import pytest
from audit_support import Rows, attack, evaluation, plan, run_of, threat

from tmlang.audit.bundle import Bundle
from tmlang.audit.identity import (
    checked_environment,
    checked_run,
    example_faults,
    identity_faults,
    lock_faults,
    lock_of,
)
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.threats import Goal
from tmlang.meaning.values import Artifact
from tmlang.plan.lock import lock_json, make_lock
from tmlang.plan.text import claim_identity, plan_hash

CLAIMS = (Claim("first", Measured("survival", "e"), ">=", F(1, 2)), Claim("other", Measured("upper", "e"), "<=", F(1)))
WHOLE = plan([evaluation(attack())], [threat()], claims=CLAIMS)
ROWS = Rows().clean("u").attack("u").clean("v").attack("v").all
RUN = run_of(WHOLE, ROWS)


def refused(check: Callable[[Any], Any], told: Any) -> str:
    return audit_support.refused("TM842", lambda: check(told))


# Forms -------------------------------------------------------------------------------------------------------------


def test_a_run_of_the_right_form_is_read():
    assert checked_run(RUN) is RUN
    full = {**RUN, "lock": "ab" * 32, "libraries": {"numpy": "2"}, "models": {"net": {"a": "x", "b": 1, "c": 0.5}}}
    assert checked_run(full) is full


NAMES = "artifacts, backends, batch_size, code, examples, libraries, lock, models, plan, tmlang"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"more": 1}, f"exactly {NAMES} are needed"),
        ({"examples": [["u"]]}, "`examples` are the ids"),
        ({"examples": {"e": "uv"}}, "`examples` are the ids"),
        ({"examples": {"e": ["u"], "f": None}}, "`examples` are the ids"),
        ({"examples": {"e": ["u", 1]}}, "the id of an example is a text"),
        ({"artifacts": []}, "`artifacts` are hashes"),
        ({"artifacts": {"a": None}}, "`artifacts` are hashes"),
        ({"lock": 1}, "`lock` a hash or null"),
        ({"libraries": {"numpy": 2}}, "`libraries` are versions"),
        ({"libraries": None}, "`libraries` are versions"),
        ({"backends": None}, "`backends` are SHA-256"),
        ({"backends": {"tmlang": "AB" * 32}}, "`backends` are SHA-256"),
        ({"tmlang": 1}, "`tmlang` is one"),
        ({"models": []}, "`models` and `code` are facts"),
        ({"code": None}, "`models` and `code` are facts"),
        ({"models": {"net": None}}, "`models` and `code` are facts"),
        ({"models": {"net": {"a": []}}}, "`models` and `code` are facts"),
        ({"models": {"net": {"a": "x", "b": []}}}, "`models` and `code` are facts"),
    ],
)
def test_a_run_of_another_form_is_refused(changes, said):
    message = refused(checked_run, {**RUN, **changes})
    assert message.startswith("`run.json` is not read: ")
    assert said in message


def test_a_run_with_a_word_less_is_refused():
    for name in RUN:
        assert NAMES in refused(checked_run, {k: v for k, v in RUN.items() if k != name})
    assert NAMES in refused(checked_run, list(RUN))


def environment(**changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "command": ["tmc", "run"], "date": "2026-11-30", "platform": "Linux", "processor": "x", "python": "3.11",
        "timing": {"seconds": 1.5}, "tools": {"torch": "2"}, "unfrozen": ["a.py"],
        "warnings": [{"code": "TM515", "message": "weak"}],
    }  # fmt: skip
    return {**plain, **changes}


def test_an_environment_of_the_right_form_is_read():
    for told in (environment(), environment(command=[], unfrozen=[], warnings=[], tools={}, timing={})):
        assert checked_environment(told) is told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"more": 1},
            "exactly command, date, platform, processor, python, timing, tools, unfrozen,",
        ),
        *(({k: 1}, f"`{k}` is of another kind") for k in ("command", "date", "platform", "processor", "python")),
        *(({k: 1}, f"`{k}` is of another kind") for k in ("timing", "tools")),
        ({"unfrozen": "a.py"}, "is of another kind"),
        ({"warnings": {}}, "is of another kind"),
        ({"tools": {"torch": 2}}, "`tools` is of another kind"),
        ({"date": "30.11.2026"}, "`date` is the day"),
        ({"date": "2026-11-30T10:00"}, "`date` is the day"),
        ({"date": "1 2026-11-30"}, "`date` is the day"),
        ({"date": "2026-11-3"}, "`date` is the day"),
        ({"command": ["tmc", 1]}, "are texts"),
        ({"unfrozen": [None]}, "are texts"),
        ({"warnings": [{"code": "TM515"}]}, "a warning has a code and a message"),
        ({"warnings": [{"code": "TM515", "message": 1}]}, "a warning has a code and a message"),
        ({"warnings": ["TM515"]}, "a warning has a code and a message"),
        ({"warnings": [environment()["warnings"][0], None]}, "a warning has a code and a message"),
    ],
)
def test_an_environment_of_another_form_is_refused(changes, said):
    message = refused(checked_environment, environment(**changes))
    assert message.startswith("`environment.json` is not read: ")
    assert said in message


def test_an_environment_with_a_word_less_is_refused():
    for name in environment():
        refused(checked_environment, {k: v for k, v in environment().items() if k != name})
    refused(checked_environment, [])


# One run -----------------------------------------------------------------------------------------------------------


def predicate(whole: Any = WHOLE, run: Any = RUN) -> dict[str, Any]:
    claims = [{"text": c.text, "identity": claim_identity(whole, c), "status": "supported"} for c in whole.claims]
    return {"tmlang": run["tmlang"], "plan": plan_hash(whole), "lock": run["lock"], "claims": claims}


TOLD = {"claims": [{"status": "supported"}] * 2}


def faults(*, whole: Any = WHOLE, run: Any = RUN, said: Any = None, told: Any = TOLD) -> list[str]:
    return list(identity_faults(whole, run, predicate(whole, run) if said is None else said, told))


def test_files_of_one_run_agree():
    assert faults() == []
    held = {**RUN, "lock": plan_hash(WHOLE)}
    assert faults(run=held) == []


def test_another_plan_is_named():
    assert faults(run={**RUN, "plan": "0" * 64}) == ["run.json names another plan"]


def test_every_artifact_has_the_hash_that_the_run_read():
    (path,) = RUN["artifacts"]
    another = f'"{path}" is another file in run.json than in the plan'
    assert faults(run={**RUN, "artifacts": {path: "0" * 64}}) == [another]
    assert faults(run={**RUN, "artifacts": {}}) == [another]
    assert faults(run={**RUN, "artifacts": {**RUN["artifacts"], "more": "1" * 64}}) == []
    bare = replace(WHOLE, data=(replace(WHOLE.data[0], file=Artifact("test.npz")),))
    run = {**RUN, "plan": plan_hash(bare)}
    assert faults(whole=bare, run=run) == ['"test.npz" has no hash in the plan, and a run writes down what it read']


SAYS = "the statement says something else than the files: "


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tmlang": "9"}, "tmlang"),
        ({"plan": "0" * 64}, "plan"),
        ({"lock": "0" * 64}, "lock"),
        ({"claims": []}, "claims"),
        ({"more": 1}, "more"),
        ({"tmlang": "9", "claims": None}, "claims, tmlang"),
    ],
)
def test_what_the_statement_says_otherwise_is_named(changes, named):
    assert faults(said={**predicate(), **changes}) == [SAYS + named]


def test_a_statement_that_leaves_something_out_or_is_none():
    assert faults(said={k: v for k, v in predicate().items() if k != "lock"}) == [SAYS + "lock"]
    assert faults(said=[]) == [f"{SAYS}claims, lock, plan, tmlang"]


def test_every_claim_of_the_statement_is_that_of_the_files():
    for name in ("text", "identity", "status"):
        changed = predicate()
        changed["claims"][1] = {**changed["claims"][1], name: "another"}
        assert faults(said=changed) == [SAYS + "claims"]
    assert faults(told={"claims": [{"status": "supported"}, {"status": "refuted"}]}) == [SAYS + "claims"]


def test_a_claim_that_the_numbers_do_not_tell_is_missed():
    assert faults(told={"claims": [{"status": "supported"}]}) == [SAYS + "claims"]


# Examples ----------------------------------------------------------------------------------------------------------


def listed(*ids: str, rows: Any = ROWS, whole: Any = WHOLE, **others: list[str]) -> list[str]:
    return list(example_faults(whole, {**RUN, "examples": {"e": list(ids), **others}}, rows))


def test_the_rows_are_of_the_examples_that_the_data_gave():
    assert listed("u", "v") == []
    order = "e: the examples stand in another order than in the data, from `{}` on"
    assert listed("v", "u") == [order.format("v")]
    assert listed("u", "w", "v", rows=Rows().clean("u").clean("v").clean("w").all) == [order.format("w")]
    assert listed("u") == ["e: there are rows of 2 examples, and the data gave 1: `v` is in one alone"]
    assert listed("u", "v", "x", "w") == ["e: there are rows of 2 examples, and the data gave 4: `w` is in one alone"]


def test_an_example_that_is_listed_twice_is_told():
    twice = "e: run.json lists an example twice"
    assert listed("u", "v", "v") == listed("u", "u", "v") == listed("u", "v", "u") == [twice]
    assert listed("v", "v", "u") == [twice, "e: the examples stand in another order than in the data, from `v` on"]
    assert listed("u", "u") == [twice, "e: there are rows of 2 examples, and the data gave 2: `v` is in one alone"]


def test_only_clean_rows_of_the_evaluation_count_an_example():
    more = [replace(ROWS[0], unit="w", example="w", stage="a"), replace(ROWS[0], unit="x", example="x", evaluation="f")]
    assert listed("u", "v", rows=[*ROWS, *more]) == []
    full = [replace(r, stage=f"e/{r.stage}") for r in ROWS]
    assert listed("u", "v", rows=full) == []


def test_every_pair_of_an_example_is_of_the_one():
    rows = Rows().clean("x->0", target=0).clean("x->1", target=1).clean("y->0", target=0).all
    assert listed("x", "y", rows=rows) == []


def test_the_listed_evaluations_are_those_of_the_plan():
    other = "run.json lists the examples of other evaluations than the plan's"
    assert listed("u", "v", f=[]) == [other]
    two = plan([evaluation(attack()), evaluation(attack(), name="f")], [threat()])
    assert listed("u", "v", whole=two) == [other]
    assert listed("u", "v", whole=two, f=["u"]) == [
        "f: there are rows of 0 examples, and the data gave 1: `u` is in one alone"
    ]


# Locks -------------------------------------------------------------------------------------------------------------

TARGETED = plan([evaluation(attack())], [threat(goal=Goal("runner_up"))])
CHOSEN = Rows().clean("u", target=1).attack("u").clean("v", target=2).all
VERSIONS = {"numpy": "2", "torch": "3"}
LOCK = make_lock(TARGETED, {}, tuple(VERSIONS.items()), {"e": (("u", "1"), ("v", "2"))})
HELD = {**RUN, "tmlang": LOCK.tmlang, "lock": LOCK.sha256, "libraries": VERSIONS}


def held(*, whole: Any = TARGETED, run: Any = HELD, lock: Any = LOCK, rows: Any = CHOSEN) -> list[str]:
    return list(lock_faults(whole, run, lock, rows))


def test_a_run_that_kept_to_its_lock_agrees_with_it():
    assert held() == []
    assert held(run=RUN, lock=None) == []


def test_a_lock_that_is_there_or_not_is_told_so():
    assert held(lock=None) == [f"run.json tells of {LOCK.sha256}, and lock.json is not there"]
    assert held(run={**HELD, "lock": None}) == [f"run.json tells of no lock, and lock.json is {LOCK.sha256}"]
    assert held(run={**HELD, "lock": "0" * 64}) == [f"run.json tells of {'0' * 64}, and lock.json is {LOCK.sha256}"]


def test_what_was_locked_is_what_ran():
    assert held(whole=replace(TARGETED, evaluations=(replace(TARGETED.evaluations[0], seed=5),))) == [
        "the plan is not what the lock fixed"
    ]
    other = ["run.json names other versions than the lock"]
    assert held(run={**HELD, "tmlang": "9"}) == other
    assert held(run={**HELD, "libraries": {"numpy": "2"}}) == other
    assert held(run={**HELD, "libraries": {"numpy": "2", "torch": "4"}}) == other


@pytest.mark.parametrize(
    "rows",
    [
        Rows().clean("u", target=2).clean("v", target=2).all,
        Rows().clean("v", target=2).clean("u", target=1).all,
        Rows().clean("u", target=1).all,
        Rows().clean("u", target=1).clean("v").all,
        Rows().clean("u", target=1).clean("v", target=3).all,
    ],
)
def test_the_targets_are_those_that_were_locked(rows):
    assert held(rows=rows) == ["e: the targets are not those that were locked"]


def test_targets_are_those_of_their_own_evaluation():
    two = plan([evaluation(attack(), name=n, subject="t") for n in "ef"], [threat(goal=Goal("runner_up"))])
    rows = [*CHOSEN, *Rows("f").clean("u", target=2).all]
    lock = make_lock(two, {}, tuple(VERSIONS.items()), {"f": (("u", "2"),)})
    assert held(whole=two, run={**HELD, "lock": lock.sha256}, lock=lock, rows=rows) == []


def test_a_bundle_holds_the_lock_that_it_was_run_under_or_none(tmp_path):
    bundle = Bundle.create(tmp_path / "b")
    bundle.add_json("run.json", RUN)
    assert lock_of(bundle) is None
    bundle.add_bytes("lock.json", lock_json(LOCK))
    assert lock_of(bundle) == LOCK


def test_targets_are_read_from_clean_rows_of_their_evaluation():
    more = [replace(CHOSEN[0], evaluation="f"), replace(CHOSEN[0], stage="a", target=0)]
    assert held(rows=[*CHOSEN, *more]) == []
    gone = replace(LOCK, targets=(("f", ()),))
    assert held(lock=gone) == ["f: the targets are not those that were locked"]
