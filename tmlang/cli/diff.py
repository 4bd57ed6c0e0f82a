"""``tmc diff``: what became of the same examples in another run."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Iterator, Sequence

    from tmlang.audit.difference import Difference, EvaluationDifference

_EPILOG = """\
examples:
  tmc diff runs/before runs/after        changed objects and decisions, newly broken, newly mended

Evaluations of one name are set beside each other on the examples that both have. Two sets, failures or denominators are
never told as one number: where they differ, it is said why, and nothing is counted.

exit codes: 0 nothing differs, 1 something does, or evaluations cannot be compared, 2 wrong usage
"""
_SHOWN = 12


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "diff",
        help="compare two bundles example by example",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("first", metavar="BUNDLE", help="a folder that tmc run wrote, or its zip")
    parser.add_argument("second", metavar="BUNDLE", help="another one")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    from tmlang.audit.bundle import Bundle
    from tmlang.audit.difference import difference

    found = difference(Bundle.open(args.first), Bundle.open(args.second))
    lines = list(_lines(found))
    print(json.dumps(asdict(found), indent=2) if args.format == "json" else "\n".join(lines or ["nothing differs"]))
    return 1 if lines else 0


def _lines(found: Difference) -> Iterator[str]:
    yield from (f"{what}: {a} → {b}" for what, a, b in found.objects)
    yield from (f"{name}: in one of the two alone" for name in found.alone)
    for evaluation in found.evaluations:
        said = list(_of_evaluation(evaluation))
        if said:
            on = "" if evaluation.refused else f", on {evaluation.common} common units"
            yield f"{evaluation.name}{on}:"
            yield from (f"  {line}" for line in said)


def _of_evaluation(found: EvaluationDifference) -> Iterator[str]:
    if found.refused:
        yield f"not compared: {found.refused}"
    decisions = [f"{unit} ({a} → {b})" for unit, a, b in found.decisions]
    for what, units in (
        ("in the first alone", found.only_first),
        ("in the second alone", found.only_second),
        ("decided otherwise before any change", decisions),
        ("newly broken", found.broken),
        ("newly mended", found.mended),
        ("broken before, and not searched to the end now", found.open),
    ):
        if units:
            yield f"{what}: {len(units)}: {_listed(units)}"


def _listed(units: Sequence[str]) -> str:
    return ", ".join(units[:_SHOWN]) + (" …" if len(units) > _SHOWN else "")
