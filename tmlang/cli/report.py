"""``tmc report``: the report of a bundle, made anew from its records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tmlang.audit.bundle import Bundle

_EPILOG = """\
examples:
  tmc report runs/first-0c1d2e                   report.html and report.md in the current folder
  tmc report runs/first-0c1d2e --out docs        elsewhere
  tmc report runs/first-0c1d2e --format pdf,json report.pdf and report.json (docs/report.md describes both)
  tmc report runs/first-0c1d2e --latex           report.tex: every number as a macro, for \\input (docs/papers.md)
  tmc report runs/first-0c1d2e --figures all     with every figure that can show it, as SVG and PNG in figures/ too
  tmc report runs/old runs/new                   comparison.html and comparison.md: both side by side

A bundle holds the report that was made with it; this one is made again from its records, once tmc audit finds nothing
wrong with it.
Of several bundles, evaluations of the same examples, allowed set, failure and denominator are compared; of the others
it is said why not.
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "report",
        help="write the report of a bundle, or several bundles side by side",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", nargs="+", help="a folder that tmc run wrote, or its zip")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="where to write (here when absent)")
    parser.add_argument(
        "--format",
        type=_formats,
        default=("md", "html"),
        metavar="FORMAT,…",
        help="html, md, json, pdf, tex, claims, robustbench (html,md when absent)",
    )
    parser.add_argument("--latex", dest="format", action="store_const", const=("tex",), help="the same as --format tex")
    parser.add_argument("--name", default="", help="what heads the keys of report.tex (the spec's name when absent)")
    parser.set_defaults(usage=parser.error)
    parser.add_argument(
        "--figures",
        type=_figures,
        default="spec",
        metavar="NAME,…",
        help="also draw these, as SVG and PNG; all: every one that fits (those of the spec when absent)",
    )


def _figures(text: str) -> str:
    from tmlang.meaning.figures import FIGURES

    unknown = [name for name in text.split(",") if name not in FIGURES]
    if unknown and text not in ("all", "spec"):
        raise argparse.ArgumentTypeError(f"there is no figure {unknown[0]!r}; there are: all, {', '.join(FIGURES)}")
    return text


def _formats(text: str) -> tuple[str, ...]:
    asked = tuple(part.strip() for part in text.split(","))
    unknown = [part for part in asked if part not in _FORMATS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(_FORMATS)}")
    return tuple(dict.fromkeys(asked))


_OF_ONE = ("tex", "claims", "robustbench")
_FORMATS = ("html", "md", "json", "pdf", *_OF_ONE)


def run(args: argparse.Namespace) -> int:
    from tmlang.report.write import write_beside

    single = [f for f in args.format if f in _OF_ONE]
    if single and len(args.bundle) > 1:
        args.usage(f"{single[0]} is made of one bundle at a time")
    bundles = [_sound(b) for b in args.bundle]
    for path in write_beside(bundles, args.out, args.format, name=args.name, figures=args.figures):
        print(path)
    return 0


def _sound(path: str) -> Bundle:
    """The bundle, if what it says follows from what is in it: nothing is reported of another one."""
    from tmlang.api.auditing import audit
    from tmlang.audit.bundle import Bundle
    from tmlang.base.source import NOWHERE
    from tmlang.diagnostics.model import Diagnostic
    from tmlang.diagnostics.stop import Stop

    bundle = Bundle.open(path)
    if faults := audit(path).faults:
        help = f"tmc audit {path} lists everything that was checked"
        raise Stop(*(Diagnostic(f.code, f.text, NOWHERE, help=help) for f in faults))
    return bundle
