"""``tmc backends``: the libraries and methods, and what each can carry."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tmlang.cli.backends_page import describe, page
from tmlang.diagnostics.suggest import did_you_mean
from tmlang.plan.capability import Argument, Backend, Capabilities, Method

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc backends                    all of them
  tmc backends foolbox            the methods of one
  tmc backends foolbox.L2PGD      one method: arguments, what it carries, what it cannot and why
  tmc backends test mine          whether the methods of a plugin keep the rules (docs/plugins.md)
  tmc backends test mine.nudge    the same of one method
  tmc backends --format json      the same for a program
  tmc backends --format markdown  the page docs/backends.md
"""
_BY = {"not_built": "not built", "library": "the library cannot", "impossible": "impossible"}


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "backends",
        help="list the libraries and methods, and what each can carry; test those of a plugin",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="a backend, or BACKEND.METHOD; behind `test`: what is put to the test"
    )
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")


def run(args: argparse.Namespace) -> int:
    testing = args.names[:1] == ["test"]
    names = args.names[1:] if testing else args.names
    if len(names) > 1 or (testing and not names):
        sys.stderr.write("tmc backends: one NAME is needed behind `test`, and at most one without it\n")
        return 2
    capabilities = Capabilities()
    name, _, wanted = (names[0] if names else "").partition(".")
    known = (*capabilities.names, *capabilities.plugins)
    if name and name not in known:
        return _unknown(f"backend `{name}`", did_you_mean(name, known))
    # The page is of tmlang's own backends: it does not hang on what is installed beside them.
    all_of_them = capabilities.names if args.format == "markdown" else known
    backends = [b for b in map(capabilities.backend, [name] if name else all_of_them) if b is not None]
    method = backends[0].method(wanted) if wanted else None
    if wanted in backends[0].not_offered:
        sys.stderr.write(f"tmc backends: {names[0]} is not offered: {backends[0].not_offered[wanted]}\n")
        return 2
    if wanted and method is None:
        return _unknown(f"method `{names[0]}`", did_you_mean(wanted, backends[0].methods))
    if testing:
        return _test(backends[0], [method] if method else list(backends[0].methods.values()), capabilities)
    if args.format == "json":
        print(json.dumps(asdict(method) if method else [_whole(b) for b in backends], indent=2, default=_plain))
    elif args.format == "markdown":
        print("\n".join(describe(method)) if method else page(backends), end="")
    else:
        print("\n".join(_method(method) if method else (line for b in backends for line in _backend(b))))
    return 0


def _test(backend: Backend, methods: list[Method], capabilities: Capabilities) -> int:
    """Put methods to the test; 1 when one breaks a rule."""
    if find_spec(backend.module) is None:
        sys.stderr.write(f"tmc backends: {backend.library} is not installed: {backend.install}\n")
        return 2
    from tmlang.execute.conform import conform

    broken = 0
    for method in methods:
        print(f"{method.path}: {method.title}")
        for check in conform(method, capabilities):
            word = {True: "kept", False: "BROKEN", None: "not tried"}[check.kept]
            broken += check.kept is False
            print(f"  {word:10} {check.rule}" + (f": {check.said}" if check.said else ""), flush=True)
    print(f"{broken} rule{'' if broken == 1 else 's'} broken" if broken else "no rule broken")
    return 1 if broken else 0


def _unknown(what: str, close: str | None) -> int:
    sys.stderr.write(f"tmc backends: there is no {what}; {close or '`tmc backends` lists them all'}\n")
    return 2


def _whole(backend: Backend) -> dict[str, Any]:
    """A manifest as a plain value, all its methods read."""
    return {**asdict(backend), "methods": {name: asdict(method) for name, method in backend.methods.items()}}


def _plain(value: object) -> str:
    assert isinstance(value, Fraction)
    return str(value)


def _backend(backend: Backend) -> Iterator[str]:
    there = "installed" if find_spec(backend.module) else f"missing: {backend.install}"
    yield f"{backend.name}: {backend.library} {backend.version}, {there}"
    for method in backend.methods.values():
        sets = ", ".join(method.norms) or "-"
        mark = "" if method.status == "available" else "  (not built yet)"
        yield f"  {method.path:36} {method.role:15} {method.access:10} {sets}{mark}"
    yield from (f"  {backend.name}.{name} is not offered: {why}" for name, why in backend.not_offered.items())


def _method(method: Method) -> Iterator[str]:
    yield f"{method.path}: {method.title}" + ("" if method.status == "available" else " (not built yet)")
    yield f"  source: {method.source}"
    yield f"  stands behind `{'apply' if method.role == 'corrupt' else method.role}:`, gives {method.evidence} evidence"
    objects = " or ".join(method.objects)
    yield f"  needs: {method.access}, {method.min_classes} classes or more, an object that is {objects}"
    yield f"  sets: {', '.join(method.norms) or 'none'}; goals: {', '.join(method.goals) or 'none'}"
    yield from (f"  carries {key}: {how}" for key, how in method.carries.items())
    yield from (f"  refuses {key}: {r.because} ({_BY[r.by]})" for key, r in method.refused.items())
    yield from (f"  {way} passes per unit: {formula}" for way, formula in method.cost.items())
    yield "  arguments:" if method.arguments else "  arguments: none"
    yield from (f"    {_argument(a)}" for a in method.arguments.values())


def _argument(argument: Argument) -> str:
    if argument.default is not None:
        default = f" = {argument.default}"
    else:
        default = " (may be absent)" if argument.optional else " (required)"
    kind = " | ".join(argument.choices) or argument.type
    return f"{argument.name}: {kind}{default}: {argument.meaning}"
