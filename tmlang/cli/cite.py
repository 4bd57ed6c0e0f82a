"""``tmc cite``: the BibTeX entry of each claim of a bundle, or of a lock before there is a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc cite runs/first-0c1d2e --author "Ada Lovelace" --year 2026 >> paper.bib
  tmc cite first.tm.lock                 the protocol alone: what is claimed, before it is run
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "cite",
        help="write the BibTeX entry of each claim",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="BUNDLE|LOCK", type=Path)
    parser.add_argument("--author", default="", help="who makes the claim, as BibTeX wants it")
    parser.add_argument("--year", type=int, help="when it was made")


def run(args: argparse.Namespace) -> int:
    from tmlang.audit.bundle import Bundle
    from tmlang.audit.package import is_packed
    from tmlang.plan.lock import lock_from_json
    from tmlang.report.claims import bibtex, judged, promised

    if args.source.is_file() and not is_packed(args.source):
        document = promised(lock_from_json(args.source.read_bytes(), str(args.source)).plan)
    else:
        document = judged(Bundle.open(args.source))
    print("\n\n".join(bibtex(document, author=args.author, year=args.year)))
    return 0
