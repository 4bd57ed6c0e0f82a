"""Mutation testing of the code that decides what a number means: ``make mutation``.

Every module of ``plan.toml`` is changed in one small place at a time (``mutants.py``), and the tests named beside it
must notice. The tests are collected and run once, line by line, to know which of them reach a change; then each mutant
is tried in a process forked from there: its functions get the changed code, the tests that reach it run, and the first
that fails kills it. What works only on import (constants, defaults) is tried in a process that imports anew.

A mutant that no test can tell from the original is named in ``survivors.toml`` with the reason. The command fails where
fewer than 95 % are killed, where a survivor is not explained, and where an explained one is killed or gone.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
from mutants import Mutant, mutants  # noqa: E402

LEAST = 0.95
MEMORY = 6 << 30


@dataclass
class Group:
    """Modules, and the tests that must notice what changes in them; both as paths below the checkout."""

    modules: list[str]
    tests: list[str]

    def files(self) -> dict[str, str]:
        return {str(ROOT / m): m for m in self.modules}


@dataclass(frozen=True)
class Outcome:
    """``how``: killed, survived, endless, or broken where it could not be tried; ``by``: the test that failed first."""

    how: str
    by: str = ""


@dataclass
class Reach:
    """What the tests do unchanged: the CPU seconds of each, and which of them enter a function (module, first line)."""

    seconds: dict[str, float] = field(default_factory=dict)
    entered: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    kills: Counter[str] = field(default_factory=Counter)

    def of(self, module: str, mutant: Mutant) -> list[str]:
        """The tests that may notice a change within a function: first those that have killed most for their time."""
        assert isinstance(mutant.within, ast.FunctionDef)
        within = range(mutant.within.lineno - len(mutant.within.decorator_list), (mutant.within.end_lineno or 0) + 1)
        return self._sorted(tests for (m, line), tests in self.entered.items() if m == module and line in within)

    def all(self, module: str) -> list[str]:
        """Every test, first those that enter a function of the module: what a class holds by default enters none."""
        reached = self._sorted(tests for (m, _), tests in self.entered.items() if m == module)
        return [*reached, *self._sorted([self.seconds.keys() - set(reached)])]

    def _sorted(self, tests: Iterable[set[str]]) -> list[str]:
        def promise(test: str) -> tuple[float, str]:
            return -(self.kills[test] + 0.1) / (self.seconds[test] + 0.01), test

        return sorted(set().union(*tests), key=promise)


EXAMPLES = 100


class Quick:
    """Property tests try fewer examples than elsewhere, do not make failures smaller, and may take their time."""

    def pytest_configure(self) -> None:
        same, phases = settings.get_profile("same"), (Phase.explicit, Phase.generate)
        settings.register_profile("hunt", same, phases=phases, deadline=None, suppress_health_check=list(HealthCheck))
        settings.load_profile("hunt")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for test in {getattr(item, "obj", None) for item in items}:
            own = getattr(test, "_hypothesis_internal_use_settings", None)
            if own is not None and own.max_examples > EXAMPLES:
                test._hypothesis_internal_use_settings = settings(own, max_examples=EXAMPLES)


class Hunt(Quick):
    """The plugin that runs the collected tests: once to learn what they reach, then for each mutant in a function."""

    def __init__(self, group: Group, work: Work) -> None:
        self.group, self.work, self.reach = group, work, Reach()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        by_name = {item.nodeid: item for item in session.items}
        living = Living(self.group)
        self._learn(session.items, living)
        for module in self.group.modules:
            tree, found = mutants(ROOT / module)
            for mutant in self.work.wanted(module, found):
                if mutant.within is None:
                    continue
                chosen = [by_name[t] for t in self.reach.of(module, mutant)]
                budget = sum(self.reach.seconds[t.nodeid] for t in chosen) + 2
                outcome = _in_child(partial(_noticed, tree, str(ROOT / module), mutant, living, chosen), budget)
                self.reach.kills[outcome.by] += 1
                self.work.tell(module, mutant, outcome)
        return True

    def _learn(self, items: Sequence[pytest.Item], living: Living) -> None:
        files = self.group.files()
        seen: set[tuple[str, int]] = set()

        def enter(frame: Any, *_: Any) -> None:
            if frame.f_code.co_filename in files:
                seen.add((files[frame.f_code.co_filename], frame.f_code.co_firstlineno))

        for item, following in zip(items, [*items[1:], None], strict=True):
            seen.clear()
            living.forget()
            began = time.process_time()
            sys.settrace(enter)
            reports = _run(item, following)
            sys.settrace(None)
            if any(r.failed for r in reports):
                raise pytest.UsageError(f"{item.nodeid} fails before anything is changed: {reports}")
            self.reach.seconds[item.nodeid] = time.process_time() - began
            for place in seen:
                self.reach.entered[place].add(item.nodeid)


def _run(item: pytest.Item, following: pytest.Item | None) -> Sequence[pytest.TestReport]:
    from _pytest.runner import runtestprotocol

    return runtestprotocol(item, log=False, nextitem=following)


def _first_failure(items: Sequence[pytest.Item]) -> str:
    for item, following in zip(items, [*items[1:], None], strict=False):
        if any(report.failed for report in _run(item, following)):
            return item.nodeid
    return ""


class Living:
    """The functions of all modules as they live in this process, and what remembers their results."""

    def __init__(self, group: Group) -> None:
        for module in group.modules:
            importlib.import_module(_dotted(module))
        things = gc.get_objects()
        functions = [f for f in things if type(f) is FunctionType]
        self.functions = {file: [f for f in functions if f.__code__.co_filename == file] for file in group.files()}
        caches = [c for c in things if isinstance(c, functools._lru_cache_wrapper)]
        self.caches = [c for c in caches if (c.__module__ or "").startswith("tmlang")]
        gc.freeze()

    def forget(self) -> None:
        for cache in self.caches:
            cache.cache_clear()


def _dotted(module: str) -> str:
    return module.removesuffix(".py").replace("/", ".")


def _noticed(tree: ast.Module, file: str, mutant: Mutant, living: Living, items: Sequence[pytest.Item]) -> str:
    """Gives living functions the mutant's code and forgets what they remembered; the first test that fails then."""
    mutant.apply()
    codes = {(c.co_qualname, c.co_firstlineno): c for c in _codes(compile(tree, file, "exec", dont_inherit=True))}
    for function in living.functions[file]:
        code = codes[function.__code__.co_qualname, function.__code__.co_firstlineno]
        if code.co_freevars == function.__code__.co_freevars:
            function.__code__ = code
    living.forget()
    return _first_failure(items)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _in_child(killer: Callable[[], str], budget: float) -> Outcome:
    """Asks ``killer`` in a forked process for a test that fails; ``endless`` is beyond ``budget`` seconds of CPU, or
    ten times that by the clock."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(budget) + 1,) * 2)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            found = killer()
            os.write(write, f"{'killed' if found else 'survived'} {found}".encode())
        finally:
            os._exit(0)
    os.close(write)
    end = time.monotonic() + 10 * budget + 30
    while (waited := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    with os.fdopen(read) as pipe:
        how, _, by = pipe.read().partition(" ")
    return Outcome("endless" if os.WIFSIGNALED(waited[1]) else how or "broken", by)


# What works on import ------------------------------------------------------------------------------------------------


class _Changed:
    """A finder that imports one module with a mutant in it."""

    def __init__(self, module: str, code: CodeType) -> None:
        self.name, self.file, self.code = _dotted(module), str(ROOT / module), code

    def find_spec(self, name: str, *_: Any) -> Any:
        return importlib.util.spec_from_file_location(name, self.file, loader=self) if name == self.name else None

    def create_module(self, _: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        exec(self.code, module.__dict__)


_OPTIONS = ["-q", "--no-header", "--assert=plain", "--tb=native", "-p", "no:xdist", "-p", "no:timeout"]
_OPTIONS += ["-o", "addopts=-p no:cacheprovider -m 'not nightly'"]


def _imported(tree: ast.Module, module: str, mutant: Mutant, tests: Sequence[str]) -> str:
    mutant.apply()
    sys.meta_path.insert(0, _Changed(module, compile(tree, str(ROOT / module), "exec", dont_inherit=True)))
    return "one of all" if pytest.main([*_OPTIONS, "-x", *tests], plugins=[Quick()]) else ""


def hunt(group: Group, work: Work) -> None:
    """Tries every wanted mutant of a group."""
    import torch  # noqa: F401

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            plugin = Hunt(group, work)
            code = int(pytest.main([*_OPTIONS, *group.tests], plugins=[plugin]))
            with os.fdopen(write, "w") as pipe:
                json.dump([{m: plugin.reach.all(m) for m in group.modules}, plugin.reach.seconds], pipe)
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        sent = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not sent:
        raise SystemExit("the tests do not hold before anything is changed")
    tests, seconds = json.loads(sent)
    for module in group.modules:
        tree, found = mutants(ROOT / module)
        budget = 3 * sum(seconds[t] for t in tests[module]) + 60
        for mutant in work.wanted(module, found):
            if mutant.within is not None:
                continue
            work.tell(module, mutant, _in_child(partial(_imported, tree, module, mutant, tests[module]), budget))


# What came of it ----------------------------------------------------------------------------------------------------


class Work:
    """Which mutants are tried, and how each ended, one line of JSON each."""

    def __init__(self, results: Path, only: Container[tuple[str, str]] | None) -> None:
        self.results, self.only = results, only

    def wanted(self, module: str, found: Sequence[Mutant]) -> Iterator[Mutant]:
        return (m for m in found if self.only is None or (module, m.name) in self.only)

    def tell(self, module: str, mutant: Mutant, outcome: Outcome) -> None:
        with self.results.open("a") as file:
            file.write(
                json.dumps({"module": module, "line": mutant.line, "name": mutant.name, **asdict(outcome)}) + "\n"
            )


def _read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()]


def _killed(one: dict[str, Any]) -> bool:
    return one["how"] in ("killed", "endless")


def explained() -> dict[tuple[str, str], str]:
    """(module, name of a mutant) to the reason why no test can tell it from the original."""
    entries = tomllib.loads((HERE / "survivors.toml").read_text())["survivors"]
    return {(e["module"], name): e["reason"] for e in entries for name in e["mutants"]}


def judge(told: Sequence[dict[str, Any]], *, whole: bool = True) -> list[str]:
    """What is wrong with the outcome: survivors without a reason, reasons without a survivor; and of a ``whole`` hunt,
    too few killed."""
    reasons = explained()
    faults = []
    by_module: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in told:
        by_module[one["module"]].append(one)
        where = f"{one['module']}:{one['line']}: {one['name']}"
        known = (one["module"], one["name"]) in reasons
        if one["how"] == "broken":
            faults.append(f"could not be tried: {where}")
        elif _killed(one) and known:
            faults.append(f"explained, and {one['how']}: {where}")
        elif not _killed(one) and not known:
            faults.append(f"survived: {where}")
    for module, of_module in by_module.items():
        print(f"{module}: {sum(map(_killed, of_module))} of {len(of_module)} killed")
    killed = sum(map(_killed, told))
    print(f"all: {killed} of {len(told)} killed, {killed / max(len(told), 1):.1%}")
    if whole and killed < LEAST * len(told):
        faults.append(f"fewer than {LEAST:.0%} are killed")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", default="", help="only modules whose path contains this")
    parser.add_argument("--again", type=Path, help="only the mutants that survived in this file of results")
    parser.add_argument("--results", type=Path, default=ROOT / ".mutation.jsonl", help="a line for every mutant tried")
    chosen = parser.parse_args()
    os.chdir(ROOT)
    only = None if chosen.again is None else {(r["module"], r["name"]) for r in _read(chosen.again) if not _killed(r)}
    chosen.results.write_text("")
    for one in tomllib.loads((HERE / "plan.toml").read_text())["group"]:
        modules = [m for m in one["modules"] if chosen.module in m and (only is None or m in {n for n, _ in only})]
        if modules:
            hunt(Group(modules, one["tests"]), Work(chosen.results, only))
    told = _read(chosen.results)
    faults = judge(told, whole=not chosen.module and only is None)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
