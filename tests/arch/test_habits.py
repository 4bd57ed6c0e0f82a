"""Habits that hold everywhere: no code in data, no printing in libraries, no swallowed faults, words that teach."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "tmlang"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = [(path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in FILES]

PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
EVALUATORS = {"eval", "exec", "compile", "__import__"}
SPEAKING = ("cli/", "diagnostics/pages/__main__.py", "__main__.py")
"""Where output may be written and the process left."""

MAX_LINES = 450
MAX_FUNCTION = 60
"""Bounds of ARCHITECTURE.md (around 400 and 40) with the room that "around" leaves."""


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize(("name", "tree"), MODULES, ids=[name for name, _ in MODULES])
class TestModule:
    def test_nothing_opens_a_pickle_or_evaluates_text(self, name: str, tree: ast.Module) -> None:
        assert {m.partition(".")[0] for m in imports(tree)} & PICKLES == set(), name
        for called, node in calls(tree):
            assert called not in EVALUATORS, f"{name}:{node.lineno} {called}"
            if called in ("torch.load", "np.load", "numpy.load"):
                safe = {k.arg: ast.unparse(k.value) for k in node.keywords}
                assert safe.get("weights_only") == "True" or safe.get("allow_pickle") == "False", (
                    f"{name}:{node.lineno}"
                )
            assert not any(k.arg == "shell" and ast.unparse(k.value) == "True" for k in node.keywords), name

    def test_only_the_command_line_speaks_and_leaves(self, name: str, tree: ast.Module) -> None:
        if name.startswith(SPEAKING):
            return
        spoken = {called for called, _ in calls(tree)} & {"print", "exit", "quit", "sys.exit", "os._exit"}
        assert spoken == set(), name

    def test_no_fault_is_swallowed(self, name: str, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                bare = node.type is None
                broad = isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
                silent = all(isinstance(s, (ast.Pass, ast.Continue)) for s in node.body)
                assert not bare, f"{name}:{node.lineno} a bare except"
                assert not (broad and silent), f"{name}:{node.lineno} swallows everything"

    def test_messages_teach(self, name: str, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.search(r"\billegal\b|\binvalid syntax\b", node.value, re.I), f"{name}:{node.lineno}"

    def test_modules_and_functions_keep_their_size(self, name: str, tree: ast.Module) -> None:
        last = max((getattr(node, "end_lineno", 0) or 0 for node in tree.body), default=0)
        assert last <= MAX_LINES, f"{name} has {last} lines"
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= MAX_FUNCTION, f"{name}:{node.lineno} {node.name} has {length} lines"
