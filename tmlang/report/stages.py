"""What was searched and proved: every stage with its method, faithfulness, arguments and yield."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tmlang.audit.columns import Column
from tmlang.audit.levels import arithmetic_words, trust_words
from tmlang.audit.record import UNFINISHED, Record
from tmlang.audit.show import interval
from tmlang.audit.units import in_real_arithmetic, is_witness, stage_label
from tmlang.plan.ir import EvaluationPlan, Stage
from tmlang.plan.written import written

_ROLES = {
    "attack": "searches for a failing input",
    "certify": "proves that there is none",
    "decide_exactly": "finds one or proves that there is none",
    "enumerate": "tries every allowed input",
    "corrupt": "changes every input once",
}
_PRUNES = "proves boxes of inputs by bounds, and tries every input of the rest"
_TRUSTED = "finds one, or says that there is none and hands out no proof"
_PROBABLY = "proves at a stated confidence that there is none"
_LOWERINGS = {
    "exact": "exact",
    "inner": "smaller, a part of the allowed set",
    "outer": "larger, it holds the allowed set",
}
_LOOKED = {
    "witness": "set searched",
    "estimate": "set searched",
    "bound": "sound; set",
    "complete": "complete; set",
    "trusted": "trusted; set",
}
"""Kind of evidence -> what is said of the set that a method worked on: a search proves nothing of it."""


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage. ``units`` it ran on; ``fresh``: units that it broke first; ``proved``: certificates it gave;
    ``rests_on``: the words beside their number; ``standing``: survival after it, in order; ``failed``: units by kind of
    failure."""

    label: str
    method: str
    role: str
    does: str
    covers: str
    lowering: str
    access: str
    evidence: str
    arguments: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    units: int
    fresh: int | None
    proved: int | None
    standing: str
    failed: tuple[tuple[str, int], ...]
    queries: str
    seconds: str
    rests_on: str = ""


def stage_views(
    evaluation: EvaluationPlan, records: Sequence[Record], survival: Mapping[str, Column], *, breaks: bool
) -> tuple[StageView, ...]:
    """The stages in the order in which they ran; ``survival`` after each attack by its label. ``breaks``: units are
    broken here, and not changed by chance or judged draw by draw."""
    rows: dict[str, list[Record]] = {s.label: [] for s in evaluation.stages}
    for record in records:
        label = stage_label(evaluation, record)
        if record.evaluation == evaluation.name and label in rows:
            rows[label].append(record)
    broken: set[str] = set()
    views = []
    for stage in evaluation.stages:
        mine = {r.unit for r in rows[stage.label] if is_witness(r)}
        fresh = len(mine - broken) if breaks else None
        views.append(_stage(stage, rows[stage.label], fresh, survival.get(stage.label)))
        broken |= mine
    return tuple(views)


def _stage(stage: Stage, rows: Sequence[Record], fresh: int | None, survival: Column | None) -> StageView:
    failed = Counter(r.status for r in rows if r.status in UNFINISHED)
    proves = stage.role not in ("attack", "corrupt")
    arguments = [(name, written(value)) for name, value in stage.arguments]
    if stage.through is not None:
        arguments.append(("through", written(stage.through)))
    queries = [r.queries for r in rows if r.queries]
    return StageView(
        stage.label,
        f"{stage.backend}.{stage.method}",
        stage.role,
        _does(stage),
        _set_of(stage),
        stage.lowering,
        stage.access.replace("_", " "),
        stage.evidence,
        tuple(arguments),
        stage.reasons,
        units=len({r.unit for r in rows}),
        fresh=fresh,
        proved=_proved(rows) if proves else None,
        standing="" if survival is None else interval(survival.low, survival.high),
        failed=tuple(sorted(failed.items())),
        queries=f"{median(queries):.0f}" if queries else "—",
        seconds=_duration(sum(r.seconds for r in rows)),
        rests_on=_rests_on(stage, rows) if proves else "",
    )


def _set_of(stage: Stage) -> str:
    """``set searched: exact``; ``sound; set: larger, it holds the allowed set``."""
    if stage.role == "corrupt":
        return "every example with a usable label"
    return f"{_LOOKED.get(stage.evidence, 'set')}: {_LOWERINGS[stage.lowering]}"


def _does(stage: Stage) -> str:
    if stage.evidence == "probabilistic":
        return _PROBABLY
    if stage.trusts:
        return _TRUSTED
    return _PRUNES if stage.prunes else _ROLES[stage.role]


def _rests_on(stage: Stage, rows: Sequence[Record]) -> str:
    """What the certificates of a stage rest on: a solver that is trusted, an assumed gap, real arithmetic."""
    given = [r for r in rows if r.verdict == "certified"]
    words = [trust_words([stage.trusts] if stage.trusts else [])] if given else []
    assumed = {r.unit for r in given if r.gap_kind != "proved" and not in_real_arithmetic(r)}
    real = any(in_real_arithmetic(r) for r in given)
    return "; ".join(filter(None, (*words, *arithmetic_words(real=real, assumed=len(assumed), of=_proved(rows)))))


def _proved(rows: Sequence[Record]) -> int:
    """Units of which nothing that was asked about is left unproved: the whole set, or each of its branches."""
    verdicts: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.verdict is not None:
            verdicts[row.unit].add(row.verdict)
    return sum(found == {"certified"} for found in verdicts.values())


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds:.2f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
