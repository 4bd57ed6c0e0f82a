"""``tmc attach``: a spec and its evidence travel inside the paper."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc attach paper.pdf spec.tm                      the spec and its lock: the protocol, before any result
  tmc attach paper.pdf spec.tm runs/spec-0c1d2e     and the evidence of a run under that lock
  tmc attach paper.pdf spec.tm runs/… --out camera-ready.pdf

The lock is written by `tmc freeze spec.tm`. What was attached for the same spec before is replaced. The reader gets all
of it back with `tmc extract paper.pdf`.
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "attach",
        help="put a spec, its lock and its evidence into a paper's PDF",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pdf", metavar="PAPER.pdf", type=Path)
    parser.add_argument("spec", metavar="SPEC.tm", type=Path)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, nargs="?", help="what tmc run wrote, or its zip")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write another PDF (the same one when absent)")


def run(args: argparse.Namespace) -> int:
    from tmlang.api.papers import attach_to

    out = args.out or args.pdf
    done = attach_to(args.pdf, args.spec, args.bundle, out)
    for name, size in done.files.items():
        print(f"{out}: {name}, {size:,} bytes")
    print("\nclaims to cite:")
    for claim in done.claims["claims"]:
        status = claim["result"]["status"].replace("_", " ") if claim["result"] else "no result yet"
        print(f"  {claim['id']}  {claim['formula']}: {status}")
    return 0
