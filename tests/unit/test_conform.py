"""``tmc backends test`` on attacks that each break one rule, and on certifiers that lie."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import unit_box
from conformance_support import SHORT

from tmlang.backends.contract import BackendRefusal, Candidates, Job, Verdicts
from tmlang.cli.main import main
from tmlang.execute import conform as module
from tmlang.execute.conform import conform, proving
from tmlang.execute.conform.bench import bench
from tmlang.meaning.threats import Ball
from tmlang.plan.capability import Capabilities, Method
from tmlang.plan.manifest import read_manifest
from tmlang.plan.written import allowed

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
access = "nothing"
norms = []
draws = "numpy"
[method.dim.arguments]
darkness = { type = "number", low = 0, high = 1, meaning = "how dark" }
[method.turn]
title = "a corner of the transform"
role = "attack"
evidence = "witness"
access = "decisions"
norms = ["transform"]
[method.count]
title = "one after the other"
role = "enumerate"
evidence = "complete"
access = "decisions"
norms = ["linf", "l0"]
[method.straight]
title = "for linear networks"
role = "certify"
evidence = "bound"
access = "white_box"
networks = ["linear"]
[method.far]
title = "from a pool"
role = "attack"
evidence = "witness"
access = "scores"
norms = []
minimizes = ["l2"]
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


def checks(monkeypatch: pytest.MonkeyPatch, name: str, search: Callable[..., Any], **changes: Any) -> dict[str, Any]:
    toy = SimpleNamespace(search=search, certify=search, change=search)
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


def test_a_method_that_is_not_done_in_time_breaks_no_rule_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, "walk", lambda job: replace(honest(job), errors=("timeout",) * len(job.x)))
    assert found[MEMBERS].kept is None
    assert "within 60 seconds" in found[MEMBERS].said


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
    assert [c.kept for c in found.values()] == [sound, useful, True]
    drawn = checks(monkeypatch, "proof", lambda job: verdicts(random.choice(["unknown", "timeout"]))(job))
    assert drawn[TWICE].kept is False


# ---- pictures that a transform makes ----


def turning(job: Job, share: float = 0.9) -> Candidates:
    """The pictures at nine tenths of the bounds, whether they fail or not."""
    if not job.sets.transforms:
        raise BackendRefusal("it turns pictures")
    (transform,) = job.sets.transforms
    if job.deadline is not None and time.monotonic() > job.deadline:
        return Candidates(job.x.clone(), torch.zeros(len(job.x), dtype=torch.bool), ("timeout",) * len(job.x))
    theta = np.tile(transform.most * share, (len(job.x), 1))
    x = torch.from_numpy(transform.made(job.sets.originals.reshape(len(job.x), -1), theta)).reshape(job.x.shape)
    job.oracle.decisions(x, None)
    return Candidates(x, torch.ones(len(x), dtype=torch.bool), (None,) * len(x), theta=torch.from_numpy(theta))


def too_far(job: Job) -> Candidates:
    return turning(job, 1.5)


def of_another_picture(job: Job) -> Candidates:
    found = turning(job)
    assert found.theta is not None
    return replace(found, theta=found.theta * 0.99)


def turning_at_random(job: Job) -> Candidates:
    return turning(job, float(np.random.uniform(0.8, 0.99)))


def turning_in_training(job: Job) -> Candidates:
    job.oracle._network.train()
    return turning(job)


def test_an_honest_search_of_pictures_keeps_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, "turn", turning)
    assert len(found) == 9
    assert [c.rule for c in found.values() if not c.kept] == [MASK], found
    assert found[MASK].kept is None


@pytest.mark.parametrize(
    ("attack", "rule", "said"),
    [
        (lambda job: replace(turning(job), theta=None), MEMBERS, "come with `theta`"),
        (lambda job: replace(turning(job), theta=torch.zeros(4, 2, dtype=torch.float64)), MEMBERS, "(4, 3)"),
        (too_far, MEMBERS, "too great"),
        (of_another_picture, MEMBERS, "not what its parameters `theta` make"),
        (lambda job: replace(turning(job), x=turning(job).x * float("nan")), MEMBERS, "not finite"),
        (lambda job: replace(turning(job), x=turning(job).x.flatten(1)), MEMBERS, "(4, 36)"),
        (lambda job: replace(turning(job), offered=torch.zeros(4, dtype=torch.bool)), MEMBERS, "is its original"),
        (turning_at_random, SEEDS, "job.seeds"),
        (lambda job: (random.seed(3), turning(job))[1], STATES, "random state"),
        (turning_in_training, STATES, "training mode"),
    ],
)
def test_a_lie_about_pictures_is_found(monkeypatch: pytest.MonkeyPatch, attack: Any, rule: str, said: str) -> None:
    random.seed(3)  # as whoever sets it may find it already
    found = checks(monkeypatch, "turn", attack)
    assert found[rule].kept is False
    assert said in found[rule].said


# ---- patches ----


def stamping(job: Job, side: int = 2) -> Candidates:
    if isinstance(job.threat.allow, Ball):
        raise BackendRefusal("it knows patches")
    if job.deadline is not None and time.monotonic() > job.deadline:
        return Candidates(job.x.clone(), torch.zeros(len(job.x), dtype=torch.bool), ("timeout",) * len(job.x))
    x = job.x.clone()
    x[:, :, :side, :side] = 1 - x[:, :, :side, :side].round()
    job.oracle.logits(x, None)
    return Candidates(x, torch.ones(len(x), dtype=torch.bool), (None,) * len(x))


def test_patches_are_put_to_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, "stamp", stamping)
    assert {c.kept for c in found.values()} == {True}, [c for c in found.values() if not c.kept]
    lies: list[tuple[Callable[[Job], Candidates], str]] = [
        (lambda job: stamping(job, 3), "not in patch(2, 2) at any place"),
        (lambda job: replace(stamping(job), x=stamping(job).x * float("inf")), "not finite"),
        (lambda job: replace(stamping(job), x=stamping(job).x[:2]), "(2, 1, 6, 6)"),
    ]
    for lie, said in lies:
        check = checks(monkeypatch, "stamp", lie)[MEMBERS]
        assert check.kept is False
        assert said in check.said


# ---- corruptions ----

INPUTS, SAME, UNTOUCHED = (
    "every changed input is an input of the space",
    "equal seeds give equal inputs",
    "random states, flags and originals stay as they are",
)


def dim(x: np.ndarray, domain: Any, arguments: Any, seed: int) -> np.ndarray:  # noqa: ARG001
    """Darker by the argument, and by a draw."""
    drawn = np.random.default_rng(seed).uniform(0.9, 1, x.shape)
    return (x * (1 - float(arguments["darkness"])) * drawn).astype(x.dtype)


def bright(x: np.ndarray, domain: Any, arguments: Any, seed: int) -> np.ndarray:
    """Out of range at the strongest alone."""
    return dim(x, domain, arguments, seed) + np.float32(arguments["darkness"] == 1) * 2


def in_place(x: np.ndarray, domain: Any, arguments: Any, seed: int) -> np.ndarray:  # noqa: ARG001
    x *= 0.5
    return x


def of_the_world(x: np.ndarray, domain: Any, arguments: Any, seed: int) -> np.ndarray:  # noqa: ARG001
    return dim(x, domain, arguments, int(np.random.randint(1000)))


def seeding_the_world(x: np.ndarray, domain: Any, arguments: Any, seed: int) -> np.ndarray:
    torch.manual_seed(seed)
    return dim(x, domain, arguments, seed)


def test_an_honest_corruption_keeps_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, "dim", dim)
    assert {rule: c.kept for rule, c in found.items()} == {INPUTS: True, SAME: True, UNTOUCHED: True}
    still = checks(monkeypatch, "dim", lambda x, *_: x)
    assert still[INPUTS].kept is None
    assert "changed nothing" in still[INPUTS].said


@pytest.mark.parametrize(
    ("change", "rule", "said"),
    [
        (bright, INPUTS, "with darkness: 1 is no input of the space: domain"),
        (lambda x, *_: x * np.float32("nan"), INPUTS, "finite"),
        (lambda x, *_: x[:, :3], INPUTS, "(1, 3, 6) of (1, 6, 6)"),
        (lambda x, *_: torch.from_numpy(x), INPUTS, "Tensor"),
        (in_place, INPUTS, "make a copy"),
        (lambda x, *_: x * 0.5 + np.zeros(x.shape), INPUTS, "astype(x.dtype)"),
        (lambda x, _, a, __: x * a["darkness"], INPUTS, "are Fractions"),
        (of_the_world, SAME, "`seed` alone"),
        (seeding_the_world, UNTOUCHED, "random state"),
    ],
)
def test_a_lie_of_a_corruption_is_found(monkeypatch: pytest.MonkeyPatch, change: Any, rule: str, said: str) -> None:
    found = checks(monkeypatch, "dim", change)
    assert found[rule].kept is False
    assert said in found[rule].said


def test_a_corruption_that_says_it_draws_nothing_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    check = checks(monkeypatch, "dim", dim, draws="none")[SAME]
    assert check.kept is False
    assert "draws nothing" in check.said


# ---- enumerations ----

ANSWERS, SHOWN, ENDLESS, TWICE, LATE = (
    "its verdict is that of every input of the set, each decided alone",
    "what it calls broken it shows",
    "what cannot be listed is not certified",
    "asked twice it says the same, and random states and flags stay as they are",
    "behind the deadline nothing is certified",
)


def counting(job: Job) -> Verdicts:
    """All members, as the set itself lists them, one after the other."""
    words, sizes, x = [], [], job.x.clone()
    late = job.deadline is not None and time.monotonic() > job.deadline
    for unit in range(len(x)):
        members = None if late else job.sets.enumerate(unit, 1000)
        if members is None:
            words.append("timeout" if late else "unknown")
            sizes.append(0)
            continue
        listed = torch.from_numpy(members)
        alone = torch.cat([job.oracle.decisions(row[None], torch.tensor([unit])) for row in listed])
        fails = torch.nonzero(alone != job.y[unit]).flatten()
        words.append("broken" if len(fails) else "certified")
        sizes.append(len(listed))
        if len(fails):
            x[unit] = listed[fails[0]]
    offered = torch.tensor([word == "broken" for word in words])
    found = Candidates(x, offered, (None,) * len(x))
    margin = torch.full((len(x),), torch.nan)
    return Verdicts(tuple(words), margin, 0.0, "proved", found, sizes=tuple(sizes))  # type: ignore[arg-type]


def saying(word: str) -> Callable[[Job], Verdicts]:
    return lambda job: replace(counting(job), verdict=(word,) * len(job.x))  # type: ignore[arg-type]


def not_failing(job: Job) -> Verdicts:
    """Some other member in the place of what fails."""
    found = counting(job)
    assert found.candidates is not None
    x = found.candidates.x.clone()
    for unit in torch.nonzero(found.candidates.offered).flatten().tolist():
        members = job.sets.enumerate(unit, 1000)
        if members is not None:
            listed = torch.from_numpy(members)
            decided = job.oracle.decisions(listed, torch.full((len(listed),), unit))
            moved = (listed != job.x[unit]).flatten(1).any(dim=1)
            x[unit] = listed[(decided == job.y[unit]) & moved][0]
    return replace(found, candidates=replace(found.candidates, x=x))


def witness_of_nothing(job: Job) -> Verdicts:
    found = counting(job)
    assert found.candidates is not None
    return replace(found, candidates=replace(found.candidates, x=found.candidates.x * float("nan")))


def endless(job: Job) -> Verdicts:
    """Sets of real numbers are taken for one input each."""
    found = counting(job)
    words = tuple("certified" if word == "unknown" else word for word in found.verdict)
    return replace(found, verdict=words)  # type: ignore[arg-type]


def late_counting(job: Job) -> Verdicts:
    found = counting(job)
    words = tuple("certified" if word == "timeout" else word for word in found.verdict)
    return replace(found, verdict=words)  # type: ignore[arg-type]


def changing_its_mind() -> Callable[[Job], Verdicts]:
    asked: list[int] = []

    def certify(job: Job) -> Verdicts:
        asked.append(1)
        return saying("unknown")(job) if len(asked) % 2 else counting(job)

    return certify


def counting_in_training(job: Job) -> Verdicts:
    job.oracle._network.train()
    return counting(job)


def test_an_honest_enumeration_keeps_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, "count", counting)
    assert {rule: c.kept for rule, c in found.items()} == dict.fromkeys((ANSWERS, SHOWN, ENDLESS, TWICE, LATE), True)
    uncounted = checks(monkeypatch, "count", lambda job: replace(counting(job), sizes=()))
    assert uncounted[ANSWERS].kept is True
    unsure = checks(monkeypatch, "count", saying("unknown"))
    assert (unsure[ANSWERS].kept, unsure[SHOWN].kept) == (None, None)


@pytest.mark.parametrize(
    ("certify", "rule", "said"),
    [
        (saying("certified"), ANSWERS, "and it says `certified`"),
        (saying("broken"), ANSWERS, "0 fail, and it says `broken`"),
        (lambda job: replace(counting(job), sizes=(3,) * 4), ANSWERS, "`sizes` says 3"),
        (lambda job: replace(counting(job), verdict=("unknown",)), ANSWERS, "for every unit"),
        (lambda job: replace(counting(job), candidates=None), SHOWN, "offers no input"),
        (not_failing, SHOWN, "does not fail"),
        (witness_of_nothing, SHOWN, "not finite"),
        (endless, ENDLESS, "real numbers"),
        (changing_its_mind(), TWICE, "different verdicts"),
        (lambda job: (np.random.seed(3), counting(job))[1], TWICE, "random state"),
        (counting_in_training, TWICE, "training mode"),
        (late_counting, LATE, "behind its deadline"),
    ],
)
def test_a_lie_of_an_enumeration_is_found(monkeypatch: pytest.MonkeyPatch, certify: Any, rule: str, said: str) -> None:
    found = checks(monkeypatch, "count", certify)
    assert found[rule].kept is False
    assert said in found[rule].said


def test_every_kind_of_finite_set_is_listed_without_the_method() -> None:
    """What the truth of an enumeration rests on, counted by hand: of six switches in two rows of three."""
    native = Capabilities().backend("native")
    assert native is not None
    given = bench(native.methods["enumerate"], None, unit_box(1, 6, 6), {})
    sizes = {}
    for listed in proving._listed(given):
        kind = allowed(listed.job.threat.allow).split(" ")[0]  # type: ignore[arg-type]
        sizes[kind] = {len(members) for members, _ in listed.members}
    # One change, two changes: 1 + 6 + 15. A patch of 1 by 2 at four places: 1 + 4 * 3 less 2 that two of them share.
    assert sizes == {
        "linf": {64},
        "l2": {22},
        "l2_rms": {22},
        "l1": {22},
        "l0": {22},
        "pixels_changed": {22},
        "patch(1,": {11},
        "transform": {9},
        "anything": {64},
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("filed", "file"),
        ("drawn", "described"),
        ("far", "minimize alone"),
        ("straight", "a network that is linear"),
        ("big", "no input here"),
    ],
)
def test_what_cannot_be_tried_is_said(monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    (check,) = checks(monkeypatch, name, honest).values()
    assert check.kept is None
    assert said in check.said


@pytest.mark.parametrize(
    "path",
    [
        "native.pgd",
        "native.enumerate",
        "native.gaussian_noise",
        "imagecorruptions.fog",
        "torchattacks.FGSM",
        "foolbox.L2ContrastReductionAttack",
        "foolbox.SpatialAttack",
        "auto_lirpa.ibp",
    ],
)
def test_methods_of_tmlang_keep_the_rules(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends", "test", path]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{path}: ")
    assert out.endswith("no rule broken\n")
    assert "  kept " in out


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", [m.path for m in Capabilities().methods()])
def test_no_method_of_tmlang_breaks_a_rule(path: str) -> None:
    capabilities = Capabilities()
    backend = capabilities.backend(path.split(".")[0])
    assert backend is not None
    found = list(conform(backend.methods[path.split(".")[1]], capabilities, SHORT.get(path)))
    assert found
    assert not [check for check in found if check.kept is False]


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
