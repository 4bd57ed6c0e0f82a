"""``tmc backends test`` on attacks that each break one rule, and on certifiers that lie."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job, Verdicts
from tmlang.cli.main import main
from tmlang.execute import conform as module
from tmlang.execute.conform import conform
from tmlang.plan.capability import Capabilities, Method
from tmlang.plan.manifest import read_manifest

MANIFEST = """
[backend]
name = "toy"
library = "numpy"
version = "1"
import = "numpy"
extra = ""
[defaults]
class = "nowhere:Toy"
source = "by hand"
objects = ["fixed"]
norms = ["linf", "l2"]
carries = { domain = "exact", mask = "exact" }
refused = { l0 = { by = "library", because = "it counts nothing" } }
goals = ["untargeted", "targeted"]
[method.walk]
title = "one step of the gradient's sign"
role = "attack"
evidence = "witness"
access = "white_box"
[method.walk.arguments]
step = { type = "distance", meaning = "length" }
tries = { type = "int", low = 2, meaning = "steps" }
way = { type = "symbol", choices = ["up", "down"], meaning = "where to" }
loud = { type = "bool", meaning = "whether it speaks" }
[method.proof]
title = "a proof"
role = "certify"
evidence = "bound"
access = "white_box"
[method.filed]
title = "from a file"
role = "attack"
evidence = "witness"
access = "nothing"
[method.filed.arguments]
file = { type = "file", meaning = "a file" }
[method.dim]
title = "in the dark"
role = "corrupt"
evidence = "estimate"
access = "decisions"
[method.drawn]
status = "described"
title = "a sketch"
role = "attack"
evidence = "witness"
access = "scores"
[method.stamp]
title = "patches"
role = "attack"
evidence = "witness"
access = "scores"
norms = ["patch"]
[method.big]
title = "for large pictures of two channels"
role = "attack"
evidence = "witness"
access = "scores"
input = { channels = [2] }
"""


def row(name: str) -> Method:
    return read_manifest(MANIFEST, "toy.toml").methods[name]


def honest(job: Job) -> Candidates:
    """A step against the label, or towards the target, and back into the set."""
    if job.threat.allow.norm == "l0":  # type: ignore[union-attr]
        raise BackendRefusal("it counts nothing")
    if job.deadline is not None and time.monotonic() > job.deadline:
        return Candidates(job.x.clone(), torch.zeros(len(job.x), dtype=torch.bool), ("timeout",) * len(job.x))
    with torch.enable_grad():
        x = job.x.clone().requires_grad_()
        labels = job.y if job.target is None else job.target
        loss = torch.nn.functional.cross_entropy(job.oracle.logits(x, None), labels)
        (gradient,) = torch.autograd.grad(loss, x)
    sign = 1 if job.target is None else -1
    found = job.sets.project((job.x + sign * gradient.sign() * 0.3).numpy())
    moved = torch.from_numpy(found.x)
    offered = (moved != job.x).flatten(1).any(dim=1) & torch.from_numpy(found.inside)
    return Candidates(moved, offered, (None,) * len(job.x))


def checks(monkeypatch: pytest.MonkeyPatch, name: str, search: Callable[[Job], Any], **changes: Any) -> dict[str, Any]:
    class Toy:
        def search(self, job: Job) -> Any:
            return search(job)

        certify = search_ = search

    toy = Toy()
    toy.certify = search  # type: ignore[method-assign]
    ours = module.load
    monkeypatch.setattr(module, "load", lambda b, m, c=None: toy if b == "toy" else ours(b, m, c))
    return {c.rule: c for c in conform(replace(row(name), **changes), Capabilities())}


def test_an_honest_attack_keeps_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, "walk", honest)
    assert len(found) == 9
    assert {c.kept for c in found.values()} == {True}, [c for c in found.values() if not c.kept]


def outside(job: Job) -> Candidates:
    found = honest(job)
    return replace(found, x=job.x + 0.9, offered=torch.ones(len(job.x), dtype=torch.bool))


def unmasked(job: Job) -> Candidates:
    if job.threat.mutable.kind == "all":
        return honest(job)
    return replace(honest(job), x=job.x.clone().fill_(0.5))


def drawing(job: Job) -> Candidates:
    found = honest(job)
    noisy = job.sets.project((found.x + torch.randn(found.x.shape) * 0.01).numpy())
    return replace(found, x=torch.from_numpy(noisy.x))


def seeding(job: Job) -> Candidates:
    random.seed(3)
    np.random.seed(3)
    return honest(job)


def training(job: Job) -> Candidates:
    job.oracle._network.train()
    return honest(job)


def overwriting(job: Job) -> Candidates:
    job.x.add_(0.001)
    return honest(job)


def greedy(job: Job) -> Candidates:
    if job.oracle.limit is not None:
        object.__setattr__(job.oracle, "limit", None)
        for _ in range(9):
            job.oracle.logits(job.x, None)
    return honest(job)


def late(job: Job) -> Candidates:
    """Behind the deadline it asks nothing more, and says that it is through."""
    found = honest(job)
    return replace(found, errors=(None,) * len(job.x))


def anywhere(job: Job) -> Candidates:
    if job.threat.allow.norm == "l0":  # type: ignore[union-attr]
        return Candidates(job.x.clone(), torch.zeros(len(job.x), dtype=torch.bool), (None,) * len(job.x))
    return honest(job)


def nothing_asked(job: Job) -> Candidates:
    if job.threat.allow.norm == "l0":  # type: ignore[union-attr]
        raise BackendRefusal("it counts nothing")
    return Candidates(job.x.clone(), torch.zeros(len(job.x), dtype=torch.bool), (None,) * len(job.x))


def originals(job: Job) -> Candidates:
    return replace(nothing_asked(job), offered=torch.ones(len(job.x), dtype=torch.bool))


def failing(_: Job) -> Candidates:
    raise ZeroDivisionError("a bad day")


def nan(job: Job) -> Candidates:
    found = honest(job)
    return replace(found, x=found.x * float("nan"))


def flat(job: Job) -> Candidates:
    found = honest(job)
    return replace(found, x=found.x.flatten(1))


MEMBERS, MASK, SEEDS = (
    "every candidate is a member of its set",
    "what may not move does not move",
    "equal seeds give equal candidates",
)
STATES = "random states, flags and originals stay as they are"


@pytest.mark.parametrize(
    ("attack", "rule", "said"),
    [
        (outside, MEMBERS, "not in linf"),
        (originals, MEMBERS, "an original is offered"),
        (failing, MEMBERS, "a bad day"),
        (nan, MEMBERS, "not finite"),
        (flat, MEMBERS, "(4, 36)"),
        (unmasked, MASK, "does not let move"),
        (drawing, SEEDS, "job.seeds"),
        (seeding, STATES, "random state"),
        (training, STATES, "training mode"),
        (overwriting, STATES, "originals"),
        (nothing_asked, "it needs the access that it says", "worked with scores"),
        (greedy, "it keeps to a limit of queries", "beyond the limit"),
        (late, "behind the deadline nothing counts as searched", "timeout"),
        (anywhere, "what the manifest refuses is refused", "refuses l0"),
    ],
)
def test_a_broken_rule_is_found(monkeypatch: pytest.MonkeyPatch, attack: Any, rule: str, said: str) -> None:
    found = checks(monkeypatch, "walk", attack)
    assert found[rule].kept is False
    assert said in found[rule].said


def test_a_target_that_the_manifest_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, "walk", honest, goals=("untargeted",))
    assert found["targets are gone for, or refused"].kept is False


def verdicts(word: str) -> Callable[[Job], Verdicts]:
    def certify(job: Job) -> Verdicts:
        n = len(job.x)
        return Verdicts((word,) * n, torch.ones(n), None, "none", messages=("no luck",) * n)  # type: ignore[arg-type]

    return certify


@pytest.mark.parametrize(
    ("word", "sound", "useful"), [("certified", False, True), ("unknown", None, True), ("error", None, False)]
)
def test_certifiers(monkeypatch: pytest.MonkeyPatch, word: str, sound: bool | None, useful: bool) -> None:
    found = checks(monkeypatch, "proof", verdicts(word))
    assert [c.kept for c in found.values()] == [sound, useful]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("filed", "file"),
        ("dim", "corrupt"),
        ("drawn", "described"),
        ("stamp", "patch"),
        ("big", "no input here"),
    ],
)
def test_what_cannot_be_tried_is_said(monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    (check,) = checks(monkeypatch, name, honest).values()
    assert check.kept is None
    assert said in check.said


@pytest.mark.parametrize(
    "path", ["native.pgd", "torchattacks.FGSM", "foolbox.L2ContrastReductionAttack", "auto_lirpa.ibp"]
)
def test_methods_of_tmlang_keep_the_rules(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends", "test", path]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{path}: ")
    assert out.endswith("no rule broken\n")
    assert "  kept " in out


def test_the_exit_code_says_that_a_rule_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Toy:
        search = staticmethod(outside)

    monkeypatch.setattr(module, "load", lambda *_: Toy())
    assert main(["backends", "test", "native.pgd"]) == 1
    assert "  BROKEN     every candidate is a member of its set: " in capsys.readouterr().out
    assert main(["backends", "test"]) == 2
    assert main(["backends", "native", "foolbox"]) == 2


def test_a_class_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(MANIFEST)
    capabilities = Capabilities(tmp_path)
    toy = capabilities.backend("toy")
    assert toy is not None
    (check,) = conform(toy.methods["walk"], capabilities)
    assert check.kept is False
    assert "nowhere:Toy of toy.walk cannot be loaded" in check.said
