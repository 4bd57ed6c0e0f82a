"""``tmc sign``: say with a key who made a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  openssl ecparam -name prime256v1 -genkey -noout -out key.pem
  openssl ec -in key.pem -pubout -out key.pub     hand this one out
  tmc sign runs/first-0c1d2e --key key.pem        signature.json, beside the statement that it signs
  tmc audit runs/first-0c1d2e --key key.pub       the reader: nothing has changed since the owner of the key signed

Hashes alone can be worked out anew by anybody; a signature cannot. Sign before you pack. The key is a PEM file without
a password, on P-256, P-384 or P-521; nothing leaves the machine.
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "sign",
        help="say with a key who made a bundle",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="the folder that tmc run wrote")
    parser.add_argument("--key", required=True, type=Path, metavar="FILE", help="the private key, PEM")


def run(args: argparse.Namespace) -> int:
    from tmlang.api.auditing import sign

    print(f"{sign(args.bundle, args.key)}: signed")
    return 0
