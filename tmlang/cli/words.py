"""``tmc words``: the threat model in a paragraph, from the same typed tree that is run."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from tmlang.cli.front import add_settings, exit_code, read_spec, show
from tmlang.diagnostics.suggest import did_you_mean, listed

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tmlang.meaning.evaluations import Program
    from tmlang.meaning.threats import Subject

_EPILOG = """\
examples:
  tmc words spec.tm                      every threat, property and shift, in English
  tmc words spec.tm --of linf8           one of them
  tmc words spec.tm --format latex       for the paper: a paragraph and the set in symbols
"""
_WIDTH = 100


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "words",
        help="say the threat model in a paragraph, in English or LaTeX",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--of", metavar="NAME", help="the threat, property or shift to put into words")
    parser.add_argument("--format", choices=("text", "latex"), default="text")
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    front = read_spec(args.file, dict(args.settings))
    if front.program is None:
        show(front.diagnostics, front.sources, to_stderr=True)
        return exit_code(front.diagnostics)
    names = [s.name for s in front.program.subjects]
    if args.of is not None and args.of not in names:
        close = did_you_mean(args.of, names) or f"there are {listed(names)}"
        sys.stderr.write(f"tmc words: {args.file} declares no threat, property or shift {args.of}; {close}\n")
        return 2
    say = _latex if args.format == "latex" else _english
    print("\n".join(say(front.program, s) for s in front.program.subjects if args.of in (None, s.name)), end="")
    return 0


def _english(program: Program, subject: Subject) -> str:
    from tmlang.report.mathtext import to_unicode
    from tmlang.report.symbols import symbol_lines
    from tmlang.report.words import paragraph

    words = _filled(paragraph(program, subject))
    symbols = "\n".join(f"  {to_unicode(line)}" for line in symbol_lines(program, subject))
    return f"{subject.name}\n\n{words}\n\n{symbols}\n"


def _latex(program: Program, subject: Subject) -> str:
    from tmlang.report.latex import latex_text
    from tmlang.report.symbols import display, symbol_lines
    from tmlang.report.words import paragraph

    words = _filled(latex_text(paragraph(program, subject)))
    return f"% {subject.name}\n{words}\n{display(symbol_lines(program, subject))}\n"


def _filled(text: str) -> str:
    """Broken at spaces only: a name is never torn."""
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
