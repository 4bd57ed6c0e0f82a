"""``tmc freeze``: fix a protocol before its results are seen."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tmlang.api.locked import lock_path, locked_plan
from tmlang.cli.front import add_settings, exit_code, read_spec, show
from tmlang.diagnostics.stop import Stop

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tmlang.plan.ir import Plan
    from tmlang.plan.lock import Targets

_EPILOG = """\
examples:
  tmc freeze spec.tm             writes spec.tm.lock
  tmc freeze spec.tm --check     says whether the lock still holds; writes nothing
  tmc run spec.tm --locked       runs only what the lock describes
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "freeze",
        help="write every hash, version and resolved default into a lock",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--check", action="store_true", help="compare with the lock instead of writing it")
    parser.add_argument("--trust-code", action="store_true", help="let Python code of the spec run to find its targets")
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from tmlang.plan.capability import Capabilities
    from tmlang.plan.lock import artifacts, installed, lock_json, make_lock

    front = read_spec(args.file, dict(args.settings))
    show(front.diagnostics, front.sources, to_stderr=True)
    if front.plan is None:
        return exit_code(front.diagnostics)
    if args.check:
        locked_plan(args.file, front.plan)
        print(f"{lock_path(args.file)}: holds")
        return 0
    from tmlang.base.files import write_atomically
    from tmlang.execute.sources.files import Files

    files = Files(front.plan.root)
    for artifact in artifacts(front.plan):
        files.verify(artifact)
    targets = _targets(front.plan, args.trust_code)
    lock = make_lock(front.plan, files.hashes, installed(front.plan, Capabilities()), targets)
    write_atomically(lock_path(args.file), lock_json(lock))
    print(f"{lock_path(args.file)}: {len(files.hashes)} artifacts, plan {lock.sha256}")
    return 0


def _targets(plan: Plan, trust_code: bool) -> dict[str, Targets]:
    """The targets that only model or data can tell. Raises a ``Stop`` where these cannot be opened."""
    from tmlang.plan.lock import with_targets

    asking = with_targets(plan)
    if not asking:
        return {}
    from tmlang.execute.arena import make_arena
    from tmlang.execute.world import World

    world = World(plan, trust_code=trust_code)
    found: dict[str, Targets] = {}
    for evaluation in asking:
        arena, diagnostics = make_arena(evaluation, world)
        if arena is None:
            raise Stop(*diagnostics)
        found[evaluation.name] = arena.targets()
    return found
