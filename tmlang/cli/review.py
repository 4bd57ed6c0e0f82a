"""``tmc review``: whether failing inputs still show what their labels say is for a person to judge."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc review runs/first-0c1d2e           a sheet, and pictures, in the folder `review`
  tmc review runs/first-0c1d2e --judged review/review.csv --by "two of us" --out judged

In the sheet only the column label_kept is to be filled in: yes, no, or nothing where nobody judged. The second
command writes another bundle with the same rows, in which every judged input says so, with the semantic validity
of what was found and how much of it was judged. It moves no other number.
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "review",
        help="let a person judge the failing inputs of a bundle",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("--judged", type=Path, metavar="FILE", help="the sheet, filled in")
    parser.add_argument("--by", metavar="TEXT", help="who judged; with --judged")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write (`review` when absent)")
    parser.set_defaults(usage=parser.error)


def run(args: argparse.Namespace) -> int:
    from tmlang.api.reviewing import SHEET, reviewed, write_sheet
    from tmlang.audit.bundle import Bundle

    if (args.judged is None) != (args.by is None):
        args.usage("--judged and --by belong together: a judgement is somebody's")
    if args.judged is not None and args.out is None:
        args.usage("--judged needs --out: the judgements go into a bundle of their own")
    bundle = Bundle.open(args.bundle)
    if args.judged is None:
        folder = args.out or Path("review")
        count = write_sheet(bundle, folder)
        print(f"{folder / SHEET}: {count} failing inputs; fill in label_kept, then --judged {folder / SHEET}")
        return 0
    made = reviewed(bundle, args.judged, args.by, args.out)
    for name, told in made.json("columns.json")["evaluations"].items():
        if "witnesses_judged" in told["columns"]:
            print(f"{name}: {_said(told['columns'])}")
    print(f"the judgements lie in {args.out}\naudit it: tmc audit {args.out}")
    return 0


def _said(columns: dict[str, Any]) -> str:
    judged, kept = columns["witnesses_judged"], columns["semantic_validity"]
    return (
        f"{judged['numerator']} of {judged['denominator']} broken units judged, "
        f"and the label still holds for {kept['numerator']} of these"
    )
