"""Two bundles on the examples that both have: other objects, other decisions, newly broken, newly mended.

Evaluations are paired by name. Examples that one side alone has, or that carry another label there, are counted and
left out. Where space, set, failure or denominator differ, nothing is counted: the reason stands instead
(EVIDENCE.md section 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tmlang.audit.bundle import Bundle
from tmlang.audit.comparison import Side, not_comparable
from tmlang.audit.identity import checked_run
from tmlang.audit.record import CLEAN_STAGE, UNFINISHED, Record
from tmlang.audit.units import is_witness, stage_label
from tmlang.plan.ir import Plan
from tmlang.plan.text import plan_hash


@dataclass(frozen=True)
class EvaluationDifference:
    """``refused``: why the two say nothing of each other (everything else is empty then). ``common``: units that both
    have with one label; ``only_first``, ``only_second``: the others. ``decisions``: (unit, first, second) where the
    unchanged input is decided otherwise. ``broken``: units with an allowed failing input in the second bundle alone;
    ``mended``: in the first alone, and searched to the end in the second. ``open``: in the first alone, and not."""

    name: str
    refused: str | None = None
    common: int = 0
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()
    decisions: tuple[tuple[str, str, str], ...] = ()
    broken: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """``objects``: (what, first, second) of everything whose hash or version differs. ``alone``: evaluations of one
    bundle."""

    objects: tuple[tuple[str, str, str], ...]
    evaluations: tuple[EvaluationDifference, ...]
    alone: tuple[str, ...] = field(default=())


def difference(first: Bundle, second: Bundle) -> Difference:
    """How ``second`` differs from ``first``. Raises a ``Stop`` where one of them cannot be read."""
    plans = first.plan(), second.plan()
    runs = tuple(checked_run(b.json("run.json")) for b in (first, second))
    rows = first.records(), second.records()
    names = [[e.name for e in p.evaluations] for p in plans]
    shared = [n for n in names[0] if n in names[1]]
    alone = tuple(n for n in (*names[0], *names[1]) if n not in shared)
    objects = tuple(_objects(plans, runs))
    return Difference(objects, tuple(_evaluation(n, plans, rows) for n in shared), alone)


def _objects(plans: tuple[Plan, Plan], runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    facts = []
    for plan, run in zip(plans, runs, strict=True):
        told = {"plan": plan_hash(plan), "tmlang": str(run["tmlang"]), "lock": str(run["lock"])}
        told |= {f"file {path}": str(digest) for path, digest in run["artifacts"].items()}
        told |= {f"model {name}": str(one.get("object")) for name, one in run["models"].items()}
        told |= {f"library {name}": str(version) for name, version in run["libraries"].items()}
        facts.append(told)
    for what in dict.fromkeys((*facts[0], *facts[1])):
        pair = facts[0].get(what, "absent"), facts[1].get(what, "absent")
        if pair[0] != pair[1]:
            yield what, *pair


def _evaluation(
    name: str, plans: tuple[Plan, Plan], rows: tuple[Sequence[Record], Sequence[Record]]
) -> EvaluationDifference:
    sides = [_side(word, name, p, r) for word, p, r in zip(("the first", "the second"), plans, rows, strict=True)]
    both = sides[0].units() & sides[1].units()
    common = {unit for unit, _, _ in both}
    a, b = (replace(s, records=[r for r in s.records if r.unit in common]) for s in sides)
    if (why := not_comparable(a, b)) is not None:
        return EvaluationDifference(name, refused=why)
    clean = [{r.unit: r for r in s.records if stage_label(s.evaluation, r) == CLEAN_STAGE} for s in (a, b)]
    fell = [{r.unit for r in s.records if is_witness(r)} for s in (a, b)]
    unfinished = {r.unit for r in b.records if r.status in UNFINISHED}
    searched = {r.unit for r in b.records if stage_label(b.evaluation, r) != CLEAN_STAGE} - unfinished
    lost = fell[0] - fell[1]
    only = [tuple(sorted(u for u, _, _ in s.units() - both)) for s in sides]
    return EvaluationDifference(
        name,
        common=len(common),
        only_first=only[0],
        only_second=only[1],
        decisions=tuple(_decisions(*clean)),
        broken=tuple(sorted(fell[1] - fell[0])),
        mended=tuple(sorted(lost & searched)),
        open=tuple(sorted(lost - searched)),
    )


def _side(word: str, name: str, plan: Plan, rows: Sequence[Record]) -> Side:
    evaluation = next(e for e in plan.evaluations if e.name == name)
    return Side.of(word, plan, evaluation, [r for r in rows if r.evaluation == name])


def _decisions(first: Mapping[str, Record], second: Mapping[str, Record]) -> Iterator[tuple[str, str, str]]:
    words = {None: "none", -1: "rejected"}
    for unit, row in first.items():
        before, after = row.clean_decision, second[unit].clean_decision
        if before != after:
            yield unit, words.get(before, str(before)), words.get(after, str(after))
