"""``tmc audit``: does what a bundle says follow from what is in it?"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.cli.replay import add_model

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tmlang.audit.verify import Audit

_SHOWN = 20
_EPILOG = """\
examples:
  tmc audit runs/first-0c1d2e            recheck everything that can be checked without the model
  tmc audit runs/first-0c1d2e --format json
  tmc audit runs/first-0c1d2e --model specs/first --trust-code
                                         also give every saved input and original to the model again
  tmc audit runs/first-0c1d2e --model specs/first --rerun
                                         also make every search and every proof again, and compare row by row
  tmc audit runs/first-0c1d2e --model specs/first --rerun --examples 20 --workers 2
                                         of 20 examples that are drawn here, and of those in the same calls
  tmc audit runs/first-0c1d2e --model specs/first --rerun --share 5% --seed 7
                                         of every twentieth example, drawn from a seed
  tmc audit runs/first-0c1d2e --model specs/first --proofs --examples 20
                                         prove again, and search nothing
  tmc audit first.zip --key author.pub   packed, and signed by the owner of this key
  tmc audit runs/first-0c1d2e --sql | duckdb
                                         count again with DuckDB: queries over the records, nothing of tmlang

A rerun that is stopped goes on with the same command, under the seed that it printed.

exit codes: 0 everything that was checked holds, 1 something does not follow, 4 nothing is known to be wrong, and a part
was not reproduced on this machine, 2 wrong usage, 130 interrupted
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
    parser.add_argument("--rerun", action="store_true", help="make the run again and compare it row by row")
    parser.add_argument("--proofs", action="store_true", help="make the proofs again, and no search")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--examples", type=_count, metavar="N", help="of N examples drawn here, or `all` (as without)")
    part.add_argument("--share", type=_share, metavar="P", help="of a share of the examples, as 5%% or 0.05")
    parser.add_argument("--seed", type=_seed, metavar="S", help="what the examples are drawn from (drawn when absent)")
    parser.add_argument("--workers", type=_workers, metavar="N", help="call methods in N processes of their own")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(usage_error=parser.error)


def _count(text: str) -> int | None:
    """``all`` is ``None``."""
    if text == "all":
        return None
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither `all` nor a whole number above 0")
    return int(text)


def _workers(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 1024")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 to 2^63 - 1")
    return int(text)


def _share(text: str) -> Fraction:
    number, percent, rest = text.partition("%")
    try:
        share = Fraction(number.strip()) / (100 if percent else 1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if rest.strip() or not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share above 0 % and up to 100 %")
    return share


def run(args: argparse.Namespace) -> int:
    if args.sql:
        print(_queries(args.bundle))
        return 0
    _check_usage(args)
    from tmlang.api.auditing import audit

    found = audit(args.bundle, key=args.key)
    if args.rerun or args.proofs:
        _run_again(found, args)
    elif args.model is not None:
        from tmlang.api.rerunning import replay

        replay(found, args.bundle, args.model, trust_code=args.trust_code)
    print(_as_json(found) if args.format == "json" else _as_text(found))
    return 1 if found.faults else 4 if found.unreproduced else 0


def _check_usage(args: argparse.Namespace) -> None:
    """Leave with exit code 2 where an option needs another one."""
    again = args.rerun or args.proofs
    parts = [name for name in ("examples", "share", "seed", "workers") if getattr(args, name) is not None]
    if again and args.model is None:
        args.usage_error("--rerun and --proofs need --model DIR, the folder of the spec")
    if parts and not again:
        args.usage_error(f"--{parts[0]} says which part is made again: add --rerun or --proofs")
    if args.seed is not None and args.examples is None and args.share is None:
        args.usage_error("--seed draws examples: say how many by --examples or --share")
    if args.rerun and args.proofs:
        args.usage_error("--rerun makes the proofs again too: leave out --proofs")


def _run_again(found: Audit, args: argparse.Namespace) -> None:
    from tmlang.api.rerunning import Again, Part, run_again
    from tmlang.cli.progress import on_stderr
    from tmlang.execute.workers import Limits

    part = Part(args.examples, args.share, args.seed, args.proofs)
    limits = Limits.of(args.workers, None, None)
    how = Again(args.model, args.trust_code, part, limits, on_stderr({}, quiet=args.quiet), Path("runs"))
    run_again(found, args.bundle, how)


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


def _as_json(found: Audit) -> str:
    told = {
        "bundle": str(found.path),
        "faults": [{"code": f.code, "message": f.text} for f in found.faults],
        "not_reproduced": [{"code": f.code, "message": f.text} for f in found.unreproduced],
        "rerun": found.reran,
        "checked": found.checked,
        "unchecked": found.unchecked,
    }
    return json.dumps(told, indent=2)


def _as_text(found: Audit) -> str:
    lines = [f"{found.path}: {_verdict(found)}"]
    lines += [f"  error[{f.code}]: {f.text}" for f in found.faults]
    lines += [f"  not reproduced[{f.code}]: {f.text}" for f in found.unreproduced[:_SHOWN]]
    lines += [f"  … and {more} more"] if (more := len(found.unreproduced) - _SHOWN) > 0 else []
    lines += ["", "checked:", *(f"  {text}" for text in found.checked)]
    lines += ["", "run again:", *(f"  {text}" for text in found.reran)] if found.reran else []
    lines += ["", "not checked:", *(f"  {text}" for text in found.unchecked)]
    return "\n".join(lines)


def _verdict(found: Audit) -> str:
    if found.faults:
        return f"{len(found.faults)} thing{'s do' if len(found.faults) > 1 else ' does'} not follow"
    many = len(found.unreproduced)
    return (
        f"what was checked holds, but for {many} that this machine does not reproduce"
        if many
        else "what was checked holds"
    )
