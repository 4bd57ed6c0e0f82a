"""``tmc plan``: what would run, on which library, how faithfully, at what cost."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from tmlang.cli.front import add_settings, exit_code, read_spec, show

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tmlang.plan.ir import Plan

_EPILOG = """\
examples:
  tmc plan spec.tm
  tmc plan spec.tm --format json | jq .plan.evaluations
  tmc plan spec.tm --format canonical    exactly the plan that a bundle stores
  tmc plan --schema                      the JSON Schema of a plan
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "plan",
        help="show what would run, on which library, how faithfully, at what cost",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", nargs="?")
    parser.add_argument("--format", choices=("text", "json", "canonical"), default="text", help="how the plan is shown")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of a plan instead")
    add_settings(parser)
    parser.set_defaults(usage=parser.error)


def run(args: argparse.Namespace) -> int:
    from tmlang.plan.availability import other_versions, unavailable
    from tmlang.plan.capability import Capabilities
    from tmlang.plan.text import plan_schema

    if args.schema:
        print(json.dumps(plan_schema(), indent=2))
        return 0
    if args.file is None:
        args.usage("a spec is needed, or --schema")
    front = read_spec(args.file, dict(args.settings))
    if front.plan is None:
        show(front.diagnostics, front.sources, to_stderr=True)
        return exit_code(front.diagnostics)
    _print(front.plan, args.format)
    known = Capabilities()
    found = (*front.diagnostics, *unavailable(front.plan, known), *other_versions(front.plan, known))
    show(found, front.sources, to_stderr=True)
    return exit_code(found)


def _print(plan: Plan, style: str) -> None:
    from tmlang.plan.show import plan_text
    from tmlang.plan.text import plan_hash, plan_json

    if style == "text":
        print(plan_text(plan))
    elif style == "canonical":
        sys.stdout.write(plan_json(plan).decode("utf-8"))
    else:
        where = {stage.id: str(stage.origin) for e in plan.evaluations for stage in e.stages}
        whole = {"plan": json.loads(plan_json(plan)), "sha256": plan_hash(plan), "where": where}
        print(json.dumps(whole, indent=2, ensure_ascii=False))
