"""``tmc audit``: does what a bundle says follow from what is in it?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.cli.replay import add_model

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tmlang.audit.verify import Audit

_EPILOG = """\
examples:
  tmc audit runs/first-0c1d2e            recheck everything that can be checked without the model
  tmc audit runs/first-0c1d2e --format json
  tmc audit runs/first-0c1d2e --model specs/first --trust-code
                                         also give every saved input and original to the model again
  tmc audit first.zip --key author.pub   packed, and signed by the owner of this key
  tmc audit runs/first-0c1d2e --sql | duckdb
                                         count again with DuckDB: queries over the records, nothing of tmlang

exit codes: 0 everything that was checked holds, 1 something does not follow, 2 wrong usage
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "audit",
        help="recheck a bundle: hashes, witnesses, every headline number",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the folder that tmc run wrote, or its zip")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--sql", action="store_true", help="print DuckDB queries that count all of it again")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the public key of who must have signed it, PEM")
    add_model(parser, required=False)


def run(args: argparse.Namespace) -> int:
    if args.sql:
        print(_queries(args.bundle))
        return 0
    from tmlang.api.auditing import audit

    found = audit(args.bundle, key=args.key)
    if args.model is not None:
        _replay(found, args)
    print(_as_json(found) if args.format == "json" else _as_text(found))
    return 1 if found.faults else 0


def _queries(path: str) -> str:
    """The queries for a bundle whose files are those that were sealed."""
    from tmlang.audit.bundle import Bundle
    from tmlang.audit.sql import script
    from tmlang.diagnostics.stop import stop

    bundle = Bundle.open(path)
    if bundle.path.is_file():
        raise stop("TM840", f"`{path}` is packed, and the queries read the records as files", help=f"unzip {path} -d …")
    bundle.plan()  # refuses what is no plan
    return script(bundle.json("plan.json"), path)


def _replay(found: Audit, args: argparse.Namespace) -> None:
    """Add what the model itself says."""
    from tmlang.audit.bundle import Bundle
    from tmlang.audit.verify import DATA, MODEL, Fault
    from tmlang.execute.replay import replay_all, world_of

    bundle = Bundle.open(args.bundle, sealed=False)
    again = replay_all(bundle, world_of(bundle, args.model, trust_code=args.trust_code))
    found.faults += [Fault("TM848", text) for text in again.faults]
    found.checked.append(f"{again.clean} originals and {again.inputs} saved inputs, decided again by the model")
    found.unchecked = [text for text in found.unchecked if text not in (MODEL, DATA)] + again.unchecked


def _as_json(found: Audit) -> str:
    faults = [{"code": f.code, "message": f.text} for f in found.faults]
    return json.dumps(
        {"bundle": str(found.path), "faults": faults, "checked": found.checked, "unchecked": found.unchecked}, indent=2
    )


def _as_text(found: Audit) -> str:
    lines = [f"{found.path}: " + ("what was checked holds" if not found.faults else _count(len(found.faults)))]
    lines += [f"  error[{f.code}]: {f.text}" for f in found.faults]
    lines += ["", "checked:", *(f"  {text}" for text in found.checked)]
    lines += ["", "not checked:", *(f"  {text}" for text in found.unchecked)]
    return "\n".join(lines)


def _count(faults: int) -> str:
    return f"{faults} thing{'s do' if faults > 1 else ' does'} not follow"
