"""``tmc fmt``: the one standard layout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.base.source import Source, Span
from tmlang.cli.front import show
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.stop import Stop, stop

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc fmt spec.tm                lay it out, in place; comments are kept
  tmc fmt *.tm --check           only say which files would change
  tmc fmt spec.tm --diff         show what would change
  tmc fmt - < spec.tm            from standard input to standard output
  tmc fmt spec.tm --upgrade      also rewrite a spec of an older language edition; it means the same then

exit codes: 0 everything is laid out, 1 --check or --diff found something, or a file cannot be read
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "fmt",
        help="lay a spec out in the one standard way",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("--upgrade", action="store_true", help="bring specs of older language editions to this one")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing, name the files that would change")
    mode.add_argument("--diff", action="store_true", help="change nothing, show what would change")


def run(args: argparse.Namespace) -> int:
    return max([_one(path, args) for path in args.files])


def _one(path: str, args: argparse.Namespace) -> int:
    from tmlang.syntax.editions import upgraded
    from tmlang.syntax.printer import format_source, unified_diff

    source = _read(path)
    newest = upgraded(source) if args.upgrade else source
    formatted = format_source(newest)
    if not isinstance(formatted, str):
        show(formatted, {source.name: newest}, to_stderr=True)
        return 1
    changes = formatted != source.text
    if args.diff:
        sys.stdout.write(unified_diff(source, formatted))
    elif args.check:
        sys.stdout.write(f"{source.name}: would change\n" if changes else "")
    elif path == "-":
        sys.stdout.write(formatted)
        return 0
    elif changes:
        from tmlang.base.files import write_atomically

        write_atomically(Path(path), formatted.encode("utf-8"))
        return 0
    return int(changes)


def _read(path: str) -> Source:
    """The text of a file, or of standard input for ``-``. Raises a ``Stop`` when it is no readable UTF-8 text."""
    if path == "-":
        try:
            return Source("standard input", sys.stdin.buffer.read().decode("utf-8"))
        except UnicodeDecodeError as error:
            raise stop("TM011", f"this is not UTF-8 text: the byte at {error.start} does not decode") from error
    from tmlang.semantics.modules import read_source

    found: list[Diagnostic] = []
    source = read_source(Path(path), path, Span(path, 0, 0, 1, 1, 1, 1), found)
    if source is None:
        raise Stop(*found)
    return source
