"""``tmc replay``: one example's saved inputs, given to the model again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Iterator

    from tmlang.execute.replay import Again
    from tmlang.plan.ir import Plan

_EPILOG = """\
examples:
  tmc replay runs/digits-0c1d2e --example 1347 --model specs/digits --trust-code

DIR is the folder of the spec: the paths in the plan start there. Every file must be the one that the run read.

exit codes: 0 every decision is the recorded one, 1 one is not, or nothing could be replayed, 2 wrong usage
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="give the saved inputs of one example to the model again",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the folder that tmc run wrote, or its zip")
    parser.add_argument("--example", required=True, metavar="ID")
    add_model(parser)


def add_model(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """``--model DIR`` and ``--trust-code``, for commands that run the attacked model again."""
    help = "the folder where model and data lie: that of the spec"
    parser.add_argument("--model", type=Path, required=required, metavar="DIR", help=help)
    parser.add_argument("--trust-code", action="store_true", help="let the Python code that the plan names run")


def run(args: argparse.Namespace) -> int:
    from tmlang.audit.bundle import Bundle
    from tmlang.diagnostics.stop import stop
    from tmlang.execute.replay import replay_example, world_of

    bundle = Bundle.open(args.bundle)
    if not any(r.candidate for r in bundle.records() if r.example == args.example):
        raise stop("TM848", f"`{args.bundle}` holds no input of the example `{args.example}`")
    world = world_of(bundle, args.model, trust_code=args.trust_code)
    found = list(replay_example(bundle, world, args.example))
    for again in found:
        print("\n".join(_lines(again, world.plan)))
    return 0 if found and all(a.agrees for a in found) else 1


def _lines(again: Again, plan: Plan) -> Iterator[str]:
    from tmlang.audit.record import REJECTED
    from tmlang.backends.decision import why

    row = again.row
    model = plan.model(plan.subject(next(e.subject for e in plan.evaluations if e.name == row.evaluation)).model)

    def name(decision: int | None) -> str:
        if decision is None or decision < REJECTED:
            return "no decision" if decision is None else str(why(decision))
        return "rejected" if decision == REJECTED else model.classes[decision]

    yield f"{row.evaluation}, {row.unit}, {row.stage}: {row.candidate}"
    inside = "inside its set" if row.within_scope else f"outside its set ({row.rule})"
    far = f"; linf {row.linf:.6g}, l2 {row.l2:.6g}, {row.l0} coordinates changed" if row.linf is not None else ""
    yield f"  {inside}{far}"
    yield f"  label {name(row.label)}, before the change {name(row.clean_decision)}"
    said = "as recorded" if again.agrees else f"RECORDED AS {name(row.decision)}"
    yield f"  decided now: {name(again.decision)}, {said}" + ("; a failure" if row.observed_failure else "")
