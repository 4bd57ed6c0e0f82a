"""Manifests against the installed libraries: names, arguments and defaults as the library itself has them."""

from __future__ import annotations

import importlib
import inspect
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import pytest

from tmlang.backends import art
from tmlang.backends.adv_lib import library as adv_lib
from tmlang.backends.adv_lib import their_name
from tmlang.backends.loading import load
from tmlang.plan.capability import Capabilities, Method

LIBRARIES = {
    "torchattacks": "torchattacks",
    "foolbox": "foolbox.attacks",
    "adv_lib": "adv_lib.attacks",
    "art": "art.attacks.evasion",
}
OURS = {"start_directions", "start_steps", "starting_points", "pool", "batch_size"}
"""Arguments of ours or of a later call: where a walk along the boundary starts, what a pool or a loader is made of."""


CALLED = {"self", "model", "inputs", "labels", "estimator", "classifier"}
"""What every call takes."""


def library(backend: str) -> Any:
    return adv_lib() if backend == "adv_lib" else importlib.import_module(LIBRARIES[backend])


def _spelled(backend: str, attack: Any, name: str) -> str:
    """An argument as the library spells it."""
    if backend == "art":
        return art.their_name(name)
    return their_name(attack, name) if backend == "adv_lib" else name


def attacks() -> list[Any]:
    found = []
    for name in LIBRARIES:
        backend = Capabilities().backend(name)
        assert backend is not None
        found += [pytest.param(m, id=m.path) for m in backend.methods.values() if m.status == "available"]
    return found


def parameters(method: Method) -> dict[str, inspect.Parameter]:
    attack = getattr(library(method.backend), method.symbol)
    bare = inspect.isclass(attack) and attack.__init__ is object.__init__
    given = {} if bare else dict(inspect.signature(attack.__init__ if inspect.isclass(attack) else attack).parameters)
    if given.pop("kwargs", None):  # LGV hands on what it does not know
        given |= dict(inspect.signature(importlib.import_module("torchattacks").BIM.__init__).parameters)
    spelled = {_spelled(method.backend, attack, n): n for n in method.arguments}
    return {spelled.get(n, n): p for n, p in given.items() if n not in CALLED}


@pytest.mark.parametrize("method", attacks())
def test_every_argument_of_the_library_is_known_or_refused(method: Method) -> None:
    theirs = set(parameters(method))
    set_by_us = {method.seed_argument, method.norm_argument, method.radius_argument}
    assert theirs <= {*method.arguments, *method.run_arguments, *method.budget_arguments, *set_by_us}
    assert set(method.arguments) - OURS <= theirs


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_attack_of_the_library_is_a_method_or_says_why_not(name: str) -> None:
    exported, backend = vars(library(name)), Capabilities().backend(name)
    assert backend is not None
    classes = {n: c for n, c in exported.items() if inspect.isclass(c) and n[0].isupper() and n != "Attack"}
    theirs = classes or {n: f for n, f in exported.items() if inspect.isfunction(f)}
    assert len(theirs) > 15
    ours = {theirs[m.symbol] for m in backend.methods.values()}
    assert {n for n, c in theirs.items() if c not in ours} == set(backend.not_offered)


@pytest.mark.parametrize("method", attacks())
def test_defaults_are_the_librarys(method: Method) -> None:
    for name, parameter in parameters(method).items():
        argument = method.arguments.get(name)
        if argument is None:
            continue
        if parameter.default is inspect.Parameter.empty:
            assert argument.default is None
            assert not argument.optional
        elif parameter.default is None:
            assert argument.optional
        elif argument.type in ("int", "number", "distance"):
            assert float(Fraction(argument.default or "nan")) == pytest.approx(float(parameter.default), rel=1e-12)
        elif argument.type == "bool":
            assert (argument.default == "true") == parameter.default
        else:
            assert argument.default == parameter.default


@pytest.mark.parametrize("method", attacks())
def test_the_radius_and_the_norm_are_not_left_to_the_library(method: Method) -> None:
    for name in ("eps", "max_epsilon", "norm", "n_classes", "seed"):
        if name in parameters(method):
            assert name not in method.arguments
    if method.norm_argument:
        assert set(method.norm_names) == {n for n in method.norms if n not in ("anything", "l2_rms")}


def test_the_versions_are_the_measured_ones() -> None:
    for name in (*LIBRARIES, "auto_lirpa"):
        backend = Capabilities().backend(name)
        assert backend is not None
        assert version(backend.library) == backend.version


def test_every_available_method_loads() -> None:
    built = [m for m in Capabilities().methods() if m.status == "available"]
    assert len(built) > 60
    for method in built:
        adapter = load(method.backend, method.name)
        wanted = {"attack": "search", "corrupt": "change"}.get(method.role, "certify")
        assert callable(getattr(adapter, wanted)), method.path
