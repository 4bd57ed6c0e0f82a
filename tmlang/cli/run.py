"""``tmc run``: run a spec and write its bundle of evidence."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from tmlang.api.running import at_hand, prepared
from tmlang.cli.front import add_settings, exit_code, read_spec, show

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tmlang.execute.runner import RunOptions, RunResult

_EPILOG = """\
examples:
  tmc run spec.tm                        the bundle goes to runs/spec-…
  tmc run spec.tm --trust-code           the spec names Python code, and you have read it
  tmc run spec.tm --out evidence         another folder; the same command goes on after Ctrl-C
  tmc run spec.tm --set eps=4/255        another value of a param; the claims are then not judged
  tmc run spec.tm --locked               only what spec.tm.lock describes
  tmc run spec.tm --reuse runs/spec-0c1d2e
                                         calls on which nothing changed are not made again
  tmc run spec.tm --workers 2 --example-timeout 60 --memory 4000
                                         methods run in two processes; what crashes, takes longer than a minute
                                         or wants more than 4 GB costs its own example and not the run
  tmc run spec.tm --trust-code --sandbox no network, no home, nothing written but the bundle

exit codes: 0 all claims supported, 3 some refuted, 4 some undecided, 5 incomplete or contradicted,
6 none refuted or undecided, and some supported under an assumption, 1 diagnostics, 2 wrong usage, 130 interrupted
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run a spec and write its bundle of evidence",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder of the bundle (runs/NAME-… when absent)")
    parser.add_argument("--trust-code", action="store_true", help="let the Python code and programs of the spec run")
    parser.add_argument("--locked", action="store_true", help="run only what the lock beside the spec describes")
    parser.add_argument("--batch-size", type=_positive, metavar="N", help="units whose rows are committed together")
    parser.add_argument(
        "--reuse",
        type=Path,
        action="append",
        default=[],
        metavar="BUNDLE",
        help="take what it has of calls on which nothing has changed",
    )
    parser.add_argument("--max-bytes", type=_positive, metavar="N", help="greatest size of one file")
    parser.add_argument("--workers", type=_positive, metavar="N", help="call methods in N processes of their own")
    parser.add_argument("--example-timeout", type=_seconds, metavar="S", help="seconds that a call may take")
    parser.add_argument("--memory", type=_positive, metavar="MB", help="memory that a call may take beyond the model")
    parser.add_argument("--sandbox", action="store_true", help="run everything under bubblewrap")
    parser.add_argument("--quiet", action="store_true", help="print the result alone")
    add_settings(parser)


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def run(args: argparse.Namespace) -> int:
    if args.sandbox:
        from tmlang.cli.sandbox import contained

        return contained(sys.argv[1:], Path(args.file), args.out)
    front = at_hand(read_spec(args.file, dict(args.settings)))
    show(front.diagnostics, front.sources, to_stderr=True)
    if front.plan is None:
        return exit_code(front.diagnostics)
    from tmlang.cli.progress import on_stderr
    from tmlang.execute import runner

    plan, options = prepared(front, locked=args.locked)
    result = runner.run(plan, _options(args, options), on_stderr(front.sources, quiet=args.quiet))
    if result.exit_code == runner.INTERRUPTED:
        sys.stderr.write(f"stopped; what is done lies in {result.path}, and the same command goes on from there\n")
        return result.exit_code
    show([d for d in result.diagnostics if d.is_error], front.sources, to_stderr=True)
    _print(result)
    return result.exit_code


def _options(args: argparse.Namespace, options: RunOptions) -> RunOptions:
    from tmlang.execute.workers import Limits

    return replace(
        options,
        limits=Limits.of(args.workers, args.example_timeout, args.memory),
        out=args.out,
        trust_code=args.trust_code,
        batch_size=args.batch_size,
        reuse=tuple(args.reuse),
        max_bytes=args.max_bytes or options.max_bytes,
    )


def _print(result: RunResult) -> None:
    from tmlang.report.terminal import result_lines

    width = get_terminal_size().columns if sys.stdout.isatty() else None
    print()
    for line in result_lines(result.columns, result.judgements, result.signs, width=width):
        print(line)
    print(f"\nthe evidence and report.html lie in {result.path}")
    print(f"audit it: tmc audit {result.path}")
