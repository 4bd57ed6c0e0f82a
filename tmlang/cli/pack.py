"""``tmc pack``: a bundle as one file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc pack runs/first-0c1d2e             runs/first-0c1d2e.zip
  tmc pack runs/first-0c1d2e --out evidence.zip
  tmc audit evidence.zip                 every command that takes a bundle takes it packed

Equal bundles give equal bytes: no times, no owners, nothing compressed, files in the order of their names. Any tool
unpacks it; only what is packed in this one way is read as a bundle.
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "pack",
        help="put a bundle into one zip",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="the folder that tmc run wrote")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the zip (BUNDLE.zip when absent)")


def run(args: argparse.Namespace) -> int:
    from hashlib import sha256

    from tmlang.audit.bundle import Bundle
    from tmlang.base.files import write_atomically
    from tmlang.diagnostics.stop import stop

    folder = args.bundle.resolve()
    out = args.out or folder.with_name(f"{folder.name}.zip")
    if out.resolve().is_relative_to(folder):
        raise stop("TM824", f"`{out}` lies in the bundle, which is sealed", help="name a file beside it with --out")
    data = Bundle.open(folder).packed()
    try:
        write_atomically(out, data)
    except OSError as error:
        raise stop("TM824", f"`{out}` cannot be written: {error.strerror}") from error
    print(f"{out}: {len(data):,} bytes, sha256 {sha256(data).hexdigest()}")
    return 0
