"""``tmc extract``: what an author attached to a PDF, in a folder, and audited."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tmlang.api.papers import Extracted

_EPILOG = """\
examples:
  tmc extract paper.pdf                  into the new folder paper-evidence
  tmc extract paper.pdf --out there

Nothing of it is run. It is checked that spec, lock, bundle and claims belong together, and the bundle is audited.
exit codes: 0 everything that was checked holds, 1 something does not follow, 2 wrong usage
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "extract",
        help="get spec, lock and evidence out of a PDF, and audit them",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pdf", metavar="PAPER.pdf", type=Path)
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder (PAPER-evidence when absent)")


def run(args: argparse.Namespace) -> int:
    from tmlang.api.papers import extract_from

    found = extract_from(args.pdf, args.out or Path(f"{args.pdf.stem}-evidence"))
    print("\n\n".join(map(_told, found)))
    return 1 if any(f.faults for f in found) else 0


def _told(found: Extracted) -> str:
    told = f"{len(found.faults)} fault{'s' * (len(found.faults) != 1)}" if found.faults else "what was checked holds"
    lines = [f"{found.folder}: {told}", *(f"  error: {text}" for text in found.faults)]
    lines += ["", "checked:", *(f"  {text}" for text in found.checked)]
    lines += ["", "not checked:", *(f"  {text}" for text in found.unchecked)]
    if (found.folder / "bundle" / "report.html").is_file():
        lines += ["", f"read it: {found.folder / 'bundle' / 'report.html'}"]
    return "\n".join(lines)
