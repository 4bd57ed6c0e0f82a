"""``tmc explain``: what a diagnostic means, with a failing and a mended spec."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tmlang.diagnostics.registry import FAMILIES, all_rules, page_source, rule
from tmlang.diagnostics.suggest import did_you_mean

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="explain a diagnostic code, with a failing and a mended spec",
        epilog="examples:\n  tmc explain TM201\n  tmc explain          list all codes\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("code", metavar="CODE", nargs="?", help="for instance TM201")


def run(args: argparse.Namespace) -> int:
    if args.code is None:
        _list()
        return 0
    code = args.code.strip().upper()
    try:
        found = rule(code)
    except KeyError:
        close = did_you_mean(code, (r.code for r in all_rules()))
        sys.stderr.write(f"tmc explain: there is no code {code}; {close or '`tmc explain` lists them all'}\n")
        return 2
    print(f"{found.code} ({found.family}, {found.severity}): {found.title}\n")
    print(page_source(code))
    return 0


def _list() -> None:
    rules = all_rules()
    for prefix, family in FAMILIES.items():
        print(f"{prefix}  {family}")
        for found in rules:
            if found.code.startswith(prefix):
                print(f"  {found.code}  {found.title}" + (" (warning)" if found.severity == "warning" else ""))
