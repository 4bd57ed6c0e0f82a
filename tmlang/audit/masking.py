"""Signs that gradients are masked: what the records show when a search by gradients fails for the wrong reason.

Each is a named warning with its evidence, and none a proof. A model whose gradients mislead survives searches that
follow them, and falls to others (Athalye, Carlini, Wagner: Obfuscated gradients give a false sense of security, ICML
2018, section 3.1; Carlini et al.: On evaluating adversarial robustness, 2019, section 5; the checks of AutoAttack's
code).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tmlang.audit.curves import Sweep, sweeps
from tmlang.audit.record import CLEAN_STAGE, UNFINISHED, Record
from tmlang.audit.show import percent
from tmlang.audit.units import is_witness, own_radius, stage_label
from tmlang.diagnostics.registry import rule
from tmlang.meaning.threats import Ball, Threat
from tmlang.plan.ir import EvaluationPlan, Plan, Stage
from tmlang.plan.written import written

BLACK_BOX, RANDOM, ZERO, FLAT, ORDER, RADIUS = "TM870", "TM871", "TM872", "TM873", "TM874", "TM875"
SIGNS = (BLACK_BOX, RANDOM, ZERO, FLAT, ORDER, RADIUS)

_RANDOM = frozenset(
    {
        "native.random",
        "torchattacks.GN",
        "foolbox.L2RepeatedAdditiveGaussianNoiseAttack",
        "foolbox.L2RepeatedAdditiveUniformNoiseAttack",
        "foolbox.L2ClippingAwareRepeatedAdditiveGaussianNoiseAttack",
        "foolbox.L2ClippingAwareRepeatedAdditiveUniformNoiseAttack",
        "foolbox.LinfRepeatedAdditiveUniformNoiseAttack",
    }
)
"""Methods that draw and look at nothing but whether it failed."""
_SHARE = Fraction(1, 500)
"""Of the correct units: what must be exceeded. The reference code of AutoAttack takes the same 0.2 %."""
_FACTOR = 10
"""How many times the gradients a search must take to count as the longer one."""
_WIDER = 2
"""How many times the radius a sweep must reach for its flatness to say something."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One warning about one evaluation (or sweep). ``units``: those that show it, in the order of the records."""

    code: str
    evaluation: str
    evidence: str
    units: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return rule(self.code).title


@dataclass(frozen=True)
class _Searched:
    """One search of one evaluation: the units that it broke, those that every repeat of it searched to the end and left
    standing, and its rows of the latter."""

    evaluation: EvaluationPlan
    stage: Stage
    broken: frozenset[str]
    standing: frozenset[str]
    rows: tuple[Record, ...]

    @property
    def follows_gradients(self) -> bool:
        return self.stage.access == "white_box"

    @property
    def draws_blindly(self) -> bool:
        return f"{self.stage.backend}.{self.stage.method}" in _RANDOM

    def reaches(self, other: _Searched) -> bool:
        """Whether it looked wherever the other did: in all of the set, or in the same part of it."""
        return self.stage.lowering != "inner" or self.stage.reasons == other.stage.reasons

    def __str__(self) -> str:
        return f"{self.stage.label} ({self.stage.backend}.{self.stage.method})"


def signs(plan: Plan, records: Sequence[Record]) -> tuple[Sign, ...]:
    """Every sign that the records show, evaluation by evaluation, then sweep by sweep."""
    threats = [(e, s) for e in plan.evaluations if isinstance(s := plan.subject(e.subject), Threat)]
    searched = {e.name: _searches(e, records) for e, _ in threats}
    order = list(dict.fromkeys(r.unit for r in records))
    found: list[Sign] = []
    for evaluation, threat in threats:
        correct = {r.unit for r in records if r.evaluation == evaluation.name and r.clean == "cc"}
        own = [s for s in searched[evaluation.name] if s.follows_gradients]
        if not own:
            continue
        others = [s for e, t in threats if _same_but_access(t, threat) for s in searched[e.name]]
        raised = [
            *_beaten(own, [s for s in others if not s.follows_gradients]),
            *_zero(own),
            *_flat(own),
            *_outrun(own),
        ]
        for code, units, text in raised:
            if len(units) > _SHARE * len(correct):
                ordered = tuple(u for u in order if u in units)
                found.append(Sign(code, evaluation.name, text.format(n=len(units), of=len(correct)), ordered))
    swept = sweeps(plan, records) if any(e.curves for e in plan.evaluations) else ()
    return (*found, *(sign for sweep in swept for sign in _narrow(plan, sweep, records)))


def untold(evaluation: EvaluationPlan, records: Iterable[Record]) -> tuple[str, ...]:
    """The searches by gradients that left units standing and say of none of them whether any step helped: what
    ``FLAT`` looks at, was not looked at there."""
    searched = (s for s in _searches(evaluation, records) if s.follows_gradients and s.rows)
    return tuple(s.stage.label for s in searched if all(r.progressed is None for r in s.rows))


def _searches(evaluation: EvaluationPlan, records: Iterable[Record]) -> list[_Searched]:
    mine: dict[str, list[Record]] = {s.label: [] for s in evaluation.stages if s.role == "attack"}
    for row in records:
        if row.evaluation == evaluation.name and (label := stage_label(evaluation, row)) in mine:
            mine[label].append(row)
    stages = (s for s in evaluation.stages if s.role == "attack")
    return [_searched(evaluation, stage, mine[stage.label]) for stage in stages]


def _searched(evaluation: EvaluationPlan, stage: Stage, rows: Sequence[Record]) -> _Searched:
    broken = frozenset(r.unit for r in rows if is_witness(r))
    failed = {r.unit for r in rows if r.status in UNFINISHED or (r.status == "invalid" and not r.projected)}
    repeats = Counter(unit for unit, _ in {(r.unit, r.repeat) for r in rows})
    whole = {unit for unit, count in repeats.items() if count == evaluation.repeats}
    standing = frozenset(whole - broken - failed)
    return _Searched(evaluation, stage, broken, standing, tuple(r for r in rows if r.unit in standing))


def _same_but_access(a: Threat, b: Threat) -> bool:
    return replace(a, name=b.name, access=b.access, doc=b.doc, assumptions=b.assumptions) == b


Raised = tuple[str, frozenset[str], str]
"""A code, the units that show it, and the evidence as a text with places for ``n`` of ``of`` units."""


def _beaten(own: Sequence[_Searched], others: Sequence[_Searched]) -> Iterator[Raised]:
    """Units that every search by gradients left standing, and that one without gradients broke."""
    left = frozenset.intersection(*(s.standing for s in own))
    names = " and ".join(map(str, own))
    for other in (o for o in others if any(s.reaches(o) for s in own)):
        where = "" if other.evaluation is own[0].evaluation else f" of {other.evaluation.name}"
        text = f"{other}{where} broke {{n}} of {{of}} units that {names} searched to the end and left standing"
        yield RANDOM if other.draws_blindly else BLACK_BOX, other.broken & left, text


def _zero(own: Sequence[_Searched]) -> Iterator[Raised]:
    """Units on which every gradient that a search took was zero."""
    for search in own:
        taken, flat = Counter[str](), Counter[str]()
        for row in search.rows:
            taken[row.unit] += row.gradients
            flat[row.unit] += row.zero_gradients
        units = frozenset(u for u, n in taken.items() if n and flat[u] == n)
        yield (
            ZERO,
            units,
            f"every gradient that {search} took was zero on {{n}} of {{of}} units, which it left standing",
        )


def _flat(own: Sequence[_Searched]) -> Iterator[Raised]:
    """Units on which no step of a search came beyond the point where it began; only where the search tells of it."""
    for search in own:
        told = [r for r in search.rows if r.progressed is not None]
        units = frozenset(r.unit for r in told) - {r.unit for r in told if r.progressed}
        yield FLAT, units, f"no step of {search} came beyond its start on {{n}} of {{of}} units, which it left standing"


def _outrun(own: Sequence[_Searched]) -> Iterator[Raised]:
    """Units that a short search broke and that one of many times its gradients left standing."""
    for few in own:
        for many in own:
            least, most = few.stage.cost.backward, many.stage.cost.backward
            if least is None or most is None or most < _FACTOR * max(1, least) or not many.reaches(few):
                continue
            short, long = f"{few}, of {least} gradients a unit,", f"{many}, of {most},"
            yield ORDER, few.broken & many.standing, f"{short} broke {{n}} of {{of}} units that {long} left standing"


# Sweeps --------------------------------------------------------------------------------------------------------------


def _narrow(plan: Plan, sweep: Sweep, records: Iterable[Record]) -> Iterator[Sign]:
    """A sweep over the radius whose own survival stays where it was, or is more than any object could reach."""
    at = [(radius, p.own) for p in sweep.points if (radius := _radius(plan, sweep, p.own.subject, p.value)) is not None]
    if len(at) < 2:
        return
    (first, narrow), (last, wide) = min(at, key=lambda point: point[0]), max(at, key=lambda point: point[0])
    before, after = narrow.get("survival"), wide.get("survival")
    if before is None or after is None or before.high is None or not after.low:
        return
    labels = Counter(
        r.label for r in records if (r.evaluation, r.stage, r.clean) == (wide.evaluation, CLEAN_STAGE, "cc")
    )
    most = _most(plan, wide.subject, last, labels)
    if most is not None and after.numerator > most:
        shared = f"where all allowed sets share an input and no object survives on more than {most}"
        yield Sign(RADIUS, sweep.evaluation, f"{after.numerator} units survive at {written(last)}, {shared}")
    elif last >= _WIDER * first and after.low >= before.high:
        radii = f"from a radius of {written(first)} to one of {written(last)}"
        yield Sign(RADIUS, sweep.evaluation, f"survival stays at {percent(after.low)} {radii}")


def _radius(plan: Plan, sweep: Sweep, subject: str, value: Fraction) -> Fraction | None:
    """The radius of a point of a sweep; ``None`` where the sweep is over something else."""
    if sweep.parameter == "radius":
        return value
    return None if sweep.parameter == "queries" else own_radius(plan.threat(subject).allow)


def _most(plan: Plan, subject: str, radius: Fraction, labels: Counter[int]) -> int | None:
    """How many units can survive at most where all sets share an input: those of the commonest label. ``None`` where
    they need not share one; of linf balls they do as soon as two radii are more than the range."""
    threat = plan.threat(subject)
    cells = plan.space(plan.model(threat.model).space).cells
    plain = isinstance(threat.allow, Ball) and threat.allow.norm == "linf" and threat.mutable.kind == "all"
    if not plain or len(cells) != 1 or threat.goal.kind != "untargeted" or not labels:
        return None
    (cell,) = cells
    reach = radius if cell.step is None else radius // cell.step * cell.step
    return max(labels.values()) if 2 * reach > cell.high - cell.low else None
