"""The rows of the manifests as parameters of the conformance suite, and one watched run of each."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, colours, digits, method, search, threat

from tmlang.backends.contract import BackendRefusal, Candidates, Job, Received
from tmlang.meaning.threats import Goal, Threat
from tmlang.meaning.values import Distance, Symbol
from tmlang.plan.asked import misfits
from tmlang.plan.capability import Argument, Capabilities, Method

F1 = Fraction(1)

COMPILED = tuple(f"foolbox.{norm}BrendelBethgeAttack" for norm in ("L0", "L1", "L2", "Linfinity"))
"""Methods that compile for half a minute of every process."""

SLOW = tuple(f"art.{n}" for n in ("SignOPTAttack", "ZooAttack", "PixelAttack", "ThresholdAttack", "SimBA"))
"""Methods that go through inputs one by one in hundreds of queries: all but one test of them runs in the nightly
command."""

SHORT: dict[str, dict[str, Any]] = {
    "torchattacks.Square": {"n_queries": Fraction(80)},
    "torchattacks.APGDT": {"steps": Fraction(5)},
    "torchattacks.FAB": {"steps": Fraction(5), "n_restarts": Fraction(2)},
    "torchattacks.SPSA": {"nb_iter": Fraction(6), "nb_sample": Fraction(32)},
    "torchattacks.SINIFGSM": {"m": Fraction(2)},
    "torchattacks.VMIFGSM": {"N": Fraction(2)},
    "torchattacks.VNIFGSM": {"N": Fraction(2)},
    "torchattacks.CW": {"c": Fraction(20), "lr": Fraction(1, 10)},
    "torchattacks.EADL1": {"binary_search_steps": Fraction(3), "max_iterations": Fraction(40), "initial_const": F1},
    "torchattacks.EADEN": {"binary_search_steps": Fraction(3), "max_iterations": Fraction(40), "initial_const": F1},
    "torchattacks.DeepFool": {"steps": Fraction(12)},
    "torchattacks.SparseFool": {"steps": Fraction(3)},
    "torchattacks.OnePixel": {"steps": Fraction(6)},
    "foolbox.L0FMNAttack": {"steps": Fraction(50)},
    "foolbox.NewtonFoolAttack": {"steps": Fraction(50)},
    "torchattacks.AutoAttack": {"version": Symbol("rand")},
    "torchattacks.LGV": {"epochs": Fraction(2), "nb_models_epoch": F1, "batch_size": Fraction(4)},
    "adv_lib.apgd": {"n_iter": Fraction(10)},
    "adv_lib.apgd_targeted": {"n_iter": Fraction(8), "num_targets": Fraction(3)},
    "adv_lib.pgd_linf": {"steps": Fraction(20)},
    "adv_lib.alma": {"num_steps": Fraction(30)},
    "adv_lib.carlini_wagner_l2": {
        "max_iterations": Fraction(25),
        "binary_search_steps": F1,
        "initial_const": F1,
        "learning_rate": Fraction(1, 10),
    },
    "adv_lib.carlini_wagner_linf": {
        "max_iterations": Fraction(15),
        "learning_rate": Fraction(1, 10),
        "initial_const": F1,
        "largest_const": Fraction(5),
        "const_factor": Fraction(5),
        "decrease_factor": Fraction(7, 10),
    },
    "adv_lib.ddn": {"steps": Fraction(20)},
    "adv_lib.df": {"steps": Fraction(15)},
    "adv_lib.sdf": {"steps": Fraction(4), "df_steps": Fraction(10)},
    "adv_lib.fab": {"n_iter": Fraction(8)},
    "adv_lib.fmn": {"steps": Fraction(20)},
    "adv_lib.pdgd": {"num_steps": Fraction(25)},
    "adv_lib.pdpgd": {"num_steps": Fraction(25)},
    "adv_lib.sigma_zero": {"num_steps": Fraction(40)},
    "adv_lib.fga": {"max_iter": Fraction(12)},
    "adv_lib.vfga": {"max_iter": Fraction(8), "n_samples": Fraction(4)},
    "art.BasicIterativeMethod": {"max_iter": Fraction(12)},
    "art.ProjectedGradientDescent": {"max_iter": Fraction(12), "num_random_init": F1},
    "art.MomentumIterativeMethod": {"max_iter": Fraction(12)},
    "art.AutoProjectedGradientDescent": {"max_iter": Fraction(10), "nb_random_init": F1},
    "art.AutoConjugateGradient": {
        "max_iter": Fraction(10),
        "nb_random_init": F1,
        "loss_type": Symbol("difference_logits_ratio"),
    },
    "art.RescalingAutoConjugateGradient": {
        "max_iter": Fraction(10),
        "nb_random_init": F1,
        "loss_type": Symbol("difference_logits_ratio"),
    },
    "art.CarliniL2Method": {
        "max_iter": Fraction(8),
        "binary_search_steps": Fraction(2),
        "initial_const": F1,
        "learning_rate": Fraction(1, 10),
        "max_halving": Fraction(2),
        "max_doubling": Fraction(2),
    },
    "art.DeepFool": {"max_iter": Fraction(10), "nb_grads": Fraction(4)},
    "art.ElasticNet": {
        "max_iter": Fraction(12),
        "binary_search_steps": F1,
        "initial_const": F1,
        "learning_rate": Fraction(1, 20),
    },
    "art.NewtonFool": {"max_iter": Fraction(8)},
    "art.SaliencyMapMethod": {"theta": F1},
    "art.VirtualAdversarialMethod": {"max_iter": F1},
    "art.SquareAttack": {"max_iter": Fraction(50)},
    "art.ZooAttack": {
        "max_iter": Fraction(20),
        "nb_parallel": Fraction(16),
        "initial_const": F1,
        "learning_rate": Fraction(1, 10),
        "variable_h": Fraction(1, 100),
    },
    "art.SimBA": {"max_iter": Fraction(40), "step": Fraction(1, 5)},
    "art.PixelAttack": {"max_iter": F1},
    "art.ThresholdAttack": {"max_iter": F1},
    "art.SignOPTAttack": {"num_trial": Fraction(2), "max_iter": F1, "k": Fraction(4), "query_limit": Fraction(100)},
    "native.fab": {"steps": Fraction(15)},
    "native.fab_targeted": {"steps": Fraction(15), "targets": Fraction(4)},
    "native.coordinates": {"restarts": Fraction(1), "rounds": Fraction(12)},
    "native.apgd": {"steps": Fraction(25)},
    "native.apgd_targeted": {"steps": Fraction(10), "targets": Fraction(3)},
    "native.random": {"draws": Fraction(100)},
    "native.patch_pgd": {"steps": Fraction(12), "step_size": Distance(Fraction(1, 8), "px"), "places": Fraction(3)},
    "native.square": {"queries": Fraction(80)},
    "foolbox.BoundaryAttack": {"steps": Fraction(40), "start_directions": Fraction(50)},
    "foolbox.HopSkipJumpAttack": {
        "steps": Fraction(2),
        "max_gradient_eval_steps": Fraction(60),
        "initial_gradient_eval_steps": Fraction(30),
        "start_directions": Fraction(50),
    },
    "foolbox.L2CarliniWagnerAttack": {
        "steps": Fraction(50),
        "stepsize": Fraction(1, 10),
        "binary_search_steps": Fraction(2),
        "initial_const": Fraction(1),
    },
    "foolbox.EADAttack": {"binary_search_steps": Fraction(3), "steps": Fraction(40), "initial_const": F1},
    "foolbox.GenAttack": {"steps": Fraction(12), "population": Fraction(6)},
    "foolbox.PointwiseAttack": {"start_directions": Fraction(50), "l2_binary_search": False},
    "foolbox.SaltAndPepperNoiseAttack": {"steps": Fraction(60)},
    "foolbox.LinearSearchBlendedUniformNoiseAttack": {"directions": Fraction(50), "steps": Fraction(30)},
    "foolbox.LinearSearchContrastReductionAttack": {"steps": Fraction(20)},
    "foolbox.GaussianBlurAttack": {"steps": Fraction(20)},
    "foolbox.SpatialAttack": {"grid_search": False, "random_steps": Fraction(25)},
    "foolbox.VirtualAdversarialAttack": {"steps": Fraction(5)},
    "foolbox.L2DeepFoolAttack": {"steps": Fraction(12)},
    "foolbox.LinfDeepFoolAttack": {"steps": Fraction(12)},
    "foolbox.L2PGD": {"steps": Fraction(20)},
    "foolbox.LinfPGD": {"steps": Fraction(20)},
}  # fmt: skip
SHORT |= {m: {"steps": Fraction(25), "lr": Fraction(1, 10), "start_directions": Fraction(50)} for m in COMPILED}
"""Settings that make slow methods quick: what is tested here does not hang on their strength."""

WEAK = {
    "torchattacks.CW": "what lies exactly at an end of its range never moves, as most pixels of digits do",
    "torchattacks.DeepFool": "it stalls on saturated pixels",
    "torchattacks.TPGD": "it leaves the clean prediction, not the label",
    "torchattacks.Jitter": "its loss rewards noise as well",
    "native.fab": "on a lattice its nearest points are rounded back",
    "native.fab_targeted": "on a lattice its nearest points are rounded back",
    "adv_lib.fmn": "on a lattice its nearest points are rounded back",
    "adv_lib.carlini_wagner_linf": "on a lattice its nearest points are rounded back",
    "art.AutoConjugateGradient": "its conjugate directions take more than ten steps",
    "art.RescalingAutoConjugateGradient": "its conjugate directions take more than ten steps",
    "art.DeepFool": "it stops at linearizations that the clipped point does not cross",
    "art.NewtonFool": "it goes on behind a failure, and comes back",
    "foolbox.LInfFMNAttack": "on a lattice its nearest points are rounded back",
    "foolbox.L1FastGradientAttack": "it takes one step",
    "foolbox.L2FastGradientAttack": "it takes one step",
    "foolbox.LinfFastGradientAttack": "it takes one step",
    "foolbox.SparseL1DescentAttack": "a step moves one entry in a hundred",
}
"""White-box methods of which only some success is expected, and why."""

ALONE = {"native.exhaustive_coordinates"}
"""Methods that change one coordinate, by which few units fail."""

RARE = {"foolbox.LinfRepeatedAdditiveUniformNoiseAttack", "native.random", "art.ThresholdAttack"} | ALONE
"""Methods that offer failures alone, and find none at these radii."""

NEAREST = {"torchattacks.FAB", "native.fab", "native.fab_targeted"}
"""Methods within a radius that stay near, and draw only in later restarts, for what still stands."""

FAR = {"foolbox.DatasetAttack"}
"""Methods that offer a failure under `minimize:`, however far it lies: starts for others."""

UNTOLD = {
    *(f"{b}.{a}" for b, a in (("torchattacks", "FGSM"), ("torchattacks", "FFGSM"), ("art", "FastGradientMethod"))),
    *(f"foolbox.{norm}FastGradientAttack" for norm in ("L1", "L2", "Linf")),
    *("torchattacks.APGDT", "adv_lib.apgd_targeted", "torchattacks.FAB", "torchattacks.AutoAttack"),
    *("torchattacks.PGDRS", "torchattacks.PGDRSL2", "torchattacks.JSMA", "art.SaliencyMapMethod", "torchattacks.LGV"),
}
"""White-box methods within a radius of which the door cannot tell whether a step helped: those that take one gradient,
those that go on with part of a batch, those that expand its rows or go through them one by one, and a copy's."""

COPIES = {"torchattacks.LGV"}
"""Methods that ask nothing but copies of the object, which they train."""

CASES = {"digits": digits, "colours": colours, "squares": lambda: colours(8)}
COUNTS = {"l0": Fraction(6), "pixels_changed": Fraction(5)}
PATCHES = {"patch": Fraction(4)}
TRANSFORMS = {"transform": Fraction(12)}
LENGTHS = {"linf": Fraction(1, 10), "l2": Fraction(1), "l1": Fraction(4)}
WIDE = {norm: radius * 100 for norm, radius in LENGTHS.items()} | COUNTS | PATCHES | TRANSFORMS
RADII = {"digits": LENGTHS | COUNTS | PATCHES | TRANSFORMS, "colours": WIDE, "squares": WIDE}
"""Radii at which some units fail and some do not."""


def rows(role: str) -> list[Method]:
    """Every built method of a role that searches or proves a kind of set. A replay takes its file instead, and what
    refines the failures of another finds none of its own (``test_received``)."""
    methods = [m for m in Capabilities().methods() if m.role == role and m.status == "available" and m.norms]
    return [m for m in methods if not any(_strange(a) for a in m.arguments.values())]


def _strange(argument: Argument) -> bool:
    return argument.type == "file" or (argument.type == "stage" and not argument.optional)


def kinds(row: Method) -> list[str]:
    """The kinds of ball that a row is tried on: a count where it knows no length, a patch where it knows no ball, a
    transform where it knows nothing else."""
    return next(filter(None, ([n for n in some if n in row.norms] for some in (LENGTHS, COUNTS, PATCHES, TRANSFORMS))))


def first(path: str) -> str:
    """The kind of ball that a method is tried on when one will do."""
    return kinds(method(path))[0]


def refusals(method: Method, *features: str) -> tuple[Any, ...]:
    """A strict expected failure for the first of ``features`` that the manifest refuses: if it works one day, the suite
    fails and the manifest has to say so."""
    for feature in features:
        if (refusal := method.refused.get(feature)) is not None:
            reason = f"{refusal.by}: {refusal.because}"
            return (pytest.mark.xfail(strict=True, raises=BackendRefusal, reason=reason),)
    return ()


def searches(*, refused: bool = True) -> list[Any]:
    """Parameters (path, norm, case) for every attack row, refused norms as expected failures."""
    found = []
    for row in rows("attack"):
        for norm in (*LENGTHS, *COUNTS, *PATCHES, *TRANSFORMS):
            # Counts and patches are kept from native's searches by the matcher alone.
            refusable = norm in LENGTHS or (norm in COUNTS and row.backend != "native")
            if norm in kinds(row) or (refused and norm in row.refused and refusable):
                marks = refusals(row, norm)
                found += [
                    pytest.param(row.path, norm, c, marks=marks, id=f"{row.path}-{norm}-{c}") for c in fitting(row)
                ]
    return found


def fitting(row: Method) -> list[str]:
    """The cases that a method can take: digits and oblong colour pictures, or square ones where it needs them."""
    # Square's l2 form fails on oblong pictures, and its manifest cannot say so of one norm.
    able = [c for c in CASES if not misfits(row.input, CASES[c]().space) and (c, row.name) != ("colours", "Square")]
    return [c for c in able if c != "squares" or len(able) < 3]


def expected(path: str, strong: float, some: float) -> float:
    """``strong`` of methods that follow gradients to the failure, ``some`` of all others that ask the model at all."""
    if method(path).access == "nothing" or path in ALONE:
        return 0
    return strong if method(path).access == "white_box" and path not in WEAK else some


def home(path: str) -> str:
    """The first case that a method can take."""
    return fitting(method(path))[0]


@dataclass(frozen=True)
class Outcome:
    """A search, and what the world looked like around it."""

    case: Case
    job: Job
    candidates: Candidates
    before: tuple[Any, ...]
    after: tuple[Any, ...]

    @property
    def inside(self) -> bool:
        """Whether every candidate is a member; what is not offered has no parameters to be made by."""
        theta = None if self.candidates.theta is None else self.candidates.theta.numpy()
        at = np.arange(len(self.job.x)) if theta is None else np.flatnonzero(self.candidates.offered)
        x = self.candidates.x.detach().numpy()[at]
        return bool(self.job.sets.rows(at).inside(x, None if theta is None else theta[at]).all())


def world(case: Case) -> tuple[Any, ...]:
    """Global random states, torch's flags, the model's tensors and the mode of each submodule."""
    tensors = tuple(t.clone() for t in case.deployed.state_dict().values())
    gradients = tuple(p.grad for p in case.deployed.parameters())
    modes = tuple(m.training for m in case.deployed.modules())
    flags = torch.is_grad_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
    numpy_state = np.random.get_state()
    drawn = torch.get_rng_state(), tuple(numpy_state[1].tolist()), numpy_state[2], random.getstate()
    return (*tensors, gradients, modes, flags, *drawn)


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two worlds are equal, tensors bit by bit."""
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b, strict=True))


def long_steps(path: str, radius: Fraction) -> dict[str, Any]:
    """Steps that cross the ball, for methods whose default is a fixed length."""
    wanted = method(path).arguments
    single = "steps" not in wanted and "nb_iter" not in wanted
    lengths = {"alpha": radius if single else radius / 4, "lr": radius / 4, "delta": radius / 20}
    return {n: Distance(v, "px") for n, v in lengths.items() if n in wanted and wanted[n].type == "distance"}


def watched(
    path: str,
    case: Case,
    threat: Threat,
    *,
    units: int = 8,
    seeds: int = 0,
    arguments: dict[str, Any] | None = None,
    **changes: Any,
) -> Outcome:
    """One short search of the first ``units``, towards the next class where a method needs a target. A data set that
    it takes is all units of the case. ``changes`` go to the job."""
    if "untargeted" not in method(path).goals and "target" not in changes:
        changes["target"] = next_classes(case)[:units]
        threat = replace(threat, goal=Goal("class", target="0"))
    data = [a.name for a in method(path).arguments.values() if a.type == "data"]
    received = dict.fromkeys(data, Received(torch.from_numpy(case.x), case.y, None))
    job = case.job(threat, rows=slice(units), seeds=seeds, received=received, **changes)
    torch.manual_seed(11)
    np.random.seed(12)
    random.seed(13)
    before = world(case)
    start = {"random_start": True} if "random_start" in method(path).arguments else {}
    candidates = search(path, case, job, **start, **SHORT.get(path, {}), **(arguments or {}))
    return Outcome(case, job, candidates, before, world(case))


def next_classes(case: Case) -> list[int]:
    """A target for each of the first eight units: the class behind its own."""
    return [(int(y) + 1) % len(case.spec.classes) for y in case.y[:8]]


@cache
def outcome(path: str, norm: str, name: str) -> Outcome:
    """A plain untargeted search: everything mutable, one ball."""
    return watched(path, CASES[name](), threat(norm, RADII[name][norm]))
