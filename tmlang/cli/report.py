"""``tmc report``: the report of a bundle, made anew from its records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc report runs/first-0c1d2e           report.html and report.md in the current folder
  tmc report runs/first-0c1d2e --out docs

A bundle holds the report that was made with it; this one is made again from its records, after its hashes were checked.
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "report",
        help="write report.html and report.md from a bundle",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the folder that tmc run wrote")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="where to write (here when absent)")


def run(args: argparse.Namespace) -> int:
    from tmlang.audit.bundle import Bundle
    from tmlang.report.write import write_beside

    for path in write_beside(Bundle.open(args.bundle), args.out):
        print(path)
    return 0
