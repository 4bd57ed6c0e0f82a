"""``tmc check``: does a spec mean one thing?"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.cli.front import Front, add_format, add_settings, exit_code, read_spec, show
from tmlang.diagnostics.model import Diagnostic, has_errors, in_order
from tmlang.diagnostics.stop import Stop

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc check spec.tm                      look, and say what is wrong
  tmc check *.tm --format concise        one line per finding, for editors and CI
  tmc check spec.tm --fix                apply the fixes that have one meaning
  tmc check spec.tm --artifacts          also open the model and the data
"""
_ROUNDS = 20


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "check",
        help="say whether a spec means one thing, and if not, where and why",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", metavar="FILE", nargs="+")
    add_format(parser)
    add_settings(parser)
    parser.add_argument("--fix", action="store_true", help="apply the fixes that have one meaning, in place")
    parser.add_argument("--artifacts", action="store_true", help="also open and probe models and data")
    parser.add_argument("--trust-code", action="store_true", help="with --artifacts: let Python code of the spec run")


def run(args: argparse.Namespace) -> int:
    settings = dict(args.settings)
    fronts = [_fixed(path, settings) if args.fix else read_spec(path, settings) for path in args.files]
    if args.artifacts:
        fronts = [_with_artifacts(front, args.trust_code) for front in fronts]
    found: list[Diagnostic] = [d for front in fronts for d in front.diagnostics]
    show(found, {name: source for front in fronts for name, source in front.sources.items()}, args.format)
    if args.format == "text":
        for front in fronts:
            if front.plan is not None and not has_errors(front.diagnostics):
                print(f"{front.path}: {front.summary}")
    return exit_code(found)


def _fixed(path: str, settings: dict[str, str]) -> Front:
    """The spec after as many rounds of fixes as help; written back whole, and only if something was fixed."""
    from tmlang.base.files import write_atomically
    from tmlang.diagnostics.fixes import apply_fixes

    fixed = 0
    for _ in range(_ROUNDS):
        front = read_spec(path, settings)
        if not any(d.fix for d in front.diagnostics) or path not in front.sources:
            break
        text, count = apply_fixes(front.sources[path], front.diagnostics)
        if count == 0:
            break
        write_atomically(Path(path), text.encode("utf-8"))
        fixed += count
    if fixed:
        sys.stderr.write(f"{path}: {fixed} fixed\n")
    return front


def _with_artifacts(front: Front, trust_code: bool) -> Front:
    """The spec with what the files that it names say against it: hashes, shapes, ranges, and the probes of a run."""
    if front.plan is None:
        return front
    from tmlang.execute.arena import make_arena
    from tmlang.execute.world import World
    from tmlang.plan.availability import other_versions

    world = World(front.plan, trust_code=trust_code)
    found = list(other_versions(front.plan, world.capabilities))
    try:
        world.verify()
        for evaluation in front.plan.evaluations:
            try:
                found += make_arena(evaluation, world)[1]
            except Stop as stopped:
                found += stopped.diagnostics
    except Stop as stopped:
        found += stopped.diagnostics
    return replace(front, diagnostics=(*front.diagnostics, *in_order(found)))
