"""``tmc incident``: keep a failing example as a spec of its own, and ask what became of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.cli.replay import add_model

if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Iterator

    from tmlang.api.incident import Incident

_EPILOG = """\
examples:
  tmc incident runs/digits-0c1d2e --example 1347 --model specs/digits --out incidents/1347
                                         keep it: the example, the inputs that failed, the scope, the model's files
  tmc incident incidents/1347 --trust-code
                                         does it still fail?
  tmc incident incidents/1347 --model specs/digits --trust-code
                                         and with the model that lies there now?
  tmc run incidents/1347/incident.tm --trust-code
                                         the same as a run, with a bundle and a claim for each input

DIR is the folder of a spec: its files are taken by the names that the spec gives them. Nothing but the folder of --out
is written.

exit codes: of keeping, 0 kept, 1 diagnostics; of asking, 0 mended, 3 still failing, 4 not comparable, 1 diagnostics;
2 wrong usage
"""
_CODES = {"still failing": 3, "not comparable": 4, "mended": 0}


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "incident",
        help="keep a failing example as a spec of its own, and ask what became of it",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="FOLDER", help="with --example a bundle, else an incident that was kept")
    parser.add_argument("--example", metavar="ID", help="keep this example of the bundle")
    parser.add_argument("--evaluation", metavar="NAME", help="of this evaluation, where several broke the example")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to keep it in (incidents/ID when absent)")
    add_model(parser, required=False)


def run(args: argparse.Namespace) -> int:
    from tmlang.api.incident import judge

    if args.example is not None:
        return _keep(args)
    found = judge(Path(args.folder), args.model, trust_code=args.trust_code)
    print("\n".join(_lines(found)))
    states = {judged.state for judged in found.inputs}
    return next(code for state, code in _CODES.items() if state in states)


def _keep(args: argparse.Namespace) -> int:
    import re

    from tmlang.api.incident import keep
    from tmlang.audit.bundle import Bundle
    from tmlang.diagnostics.stop import stop

    if args.model is None:
        raise stop(
            "TM852", "the files of the model are not in a bundle", help="name the folder of the spec with --model"
        )
    out = args.out or Path("incidents") / re.sub(r"[^A-Za-z0-9_+=-]", "_", args.example)
    spec = keep(Bundle.open(args.folder), args.example, args.model, out, args.evaluation)
    print(f"kept in {out}\nask what became of it: tmc incident {out}\nor run it: tmc run {spec}")
    return 0


def _lines(found: Incident) -> Iterator[str]:
    facts = found.facts
    yield f"{facts['example']}, which {facts['evaluation']} broke in the run {facts['bundle'][:12]}"
    for name, before, now in found.changed:
        yield f"  {name} is another object now: {before[:12]} → {now[:12]}"
    yield from (f"  {judged.label}: {judged.state}: {judged.reason}" for judged in found.inputs)
