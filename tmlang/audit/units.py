"""What the records say about each unit: broken, unfinished, certified (EVIDENCE.md sections 2, 4 and 6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tmlang.audit.columns import Restriction
from tmlang.audit.levels import LEVELS, SURE, Level, states_a_gap
from tmlang.audit.record import BRANCHES, CLEAN_STAGE, UNFINISHED, CleanStatus, Record
from tmlang.meaning.threats import Allowed, Ball, Threat, branch_names
from tmlang.plan.ir import PROOFS, EvaluationPlan, Stage

Rows = Mapping[str, Sequence[Record]]
"""The rows of one unit by stage."""


DISTANCE_SLACK = 2.0**-50
"""Of recorded distances, relatively."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The facts of one counted unit.

    ``broken``: a valid witness within the declared access; ``broken_any``: by any access. ``open``: some attack stage
    is unfinished and no witness settles the unit. ``certified``: at the level asked for, one of ``levels``, at which
    certificates prove it; ``certifier_failed``: uncertified, and a certifier that counts there crashed, timed out or
    was void. ``trusting`` and ``trusting_failed``: the same with trusted solvers. ``denied``: a valid input is
    rejected; ``open_any``: like ``open`` when a rejection fails too. ``attacks``: (broken, open) by attack label, each
    attack alone. ``distance``: the least of a witness; ``searched``: every attack stage finished, whatever was found.
    """

    id: str
    example: str
    clean: CleanStatus
    broken: bool = False
    broken_any: bool = False
    open: bool = False
    open_any: bool = False
    denied: bool = False
    certified: bool = False
    certifier_failed: bool = False
    trusting: bool = False
    trusting_failed: bool = False
    levels: frozenset[Level] = frozenset()
    undecided: bool = False
    kept: bool | None = None
    distance: Fraction | None = None
    searched: bool = False
    attacks: tuple[tuple[str, bool, bool], ...] = ()

    def rests_on_a_gap(self, *, trusting: bool) -> bool:
        """Whether the gap of what certifies it is assumed, and no certificate with a proved one is enough."""
        return Level("stated", trusting) in self.levels and Level("proved", trusting) not in self.levels


def stage_label(evaluation: EvaluationPlan, record: Record) -> str:
    """The label of the record's stage (records may carry the full id ``<evaluation>/<label>``)."""
    return record.stage.removeprefix(evaluation.name + "/")


def attack_stages(evaluation: EvaluationPlan) -> tuple[Stage, ...]:
    """The stages whose failure leaves a unit unfinished: the attacks, or, without any, those that search and prove."""
    attacks = tuple(s for s in evaluation.stages if s.role == "attack")
    return attacks or tuple(s for s in evaluation.stages if s.role in ("decide_exactly", "enumerate"))


def proof_stages(evaluation: EvaluationPlan) -> tuple[Stage, ...]:
    """The stages that can certify: an inner lowering proves nothing about the whole set."""
    return tuple(
        s
        for s in evaluation.stages
        if s.role in ("certify", "decide_exactly", "enumerate") and s.evidence in PROOFS and s.lowering != "inner"
    )


def is_turned(row: Record) -> bool:
    """A changed input of a shift that took a correct decision away."""
    return row.status == "valid" and row.clean == "cc" and row.decision != row.label


def is_trusted(stage: Stage) -> bool:
    """Whether a stage's certificates are the word of a solver that hands out no proof."""
    return stage.evidence == "trusted"


def is_witness(row: Record) -> bool:
    """A candidate inside the set that replays and newly fails."""
    return row.status == "valid" and row.within_scope is True and row.observed_failure is True


def is_judged(row: Record) -> bool:
    """A candidate inside the set, found within the declared access, whose fresh draws say how often it fails."""
    return row.status == "valid" and row.within_scope is True and row.within_access is True and row.outcomes is not None


def is_share(threat: Threat) -> bool:
    """Whether what is counted is the share of single draws that fail, and not units."""
    return threat.success is not None and threat.success.kind == "single_draw"


def is_estimate(threat: Threat) -> bool:
    """Whether nature or a single draw decides what counts: such numbers say nothing about R (EVIDENCE.md section 5)."""
    return threat.nature is not None or is_share(threat)


def is_denial(row: Record) -> bool:
    """A candidate inside the set on which the object abstains."""
    return row.status == "valid" and row.within_scope is True and row.rejected is True


def claims_certificate(row: Record) -> bool:
    """A certificate whose margin exceeds its stated gap; one without a stated gap is in real arithmetic."""
    if row.verdict != "certified":
        return False
    return row.gap is None or row.margin is None or row.margin > row.gap


def in_real_arithmetic(row: Record) -> bool:
    """A certificate that states no gap to the evaluator's arithmetic: no claim about the object follows from it."""
    return row.verdict == "certified" and not states_a_gap(row)


def is_plain(stage: Stage, row: Record) -> bool:
    """A certificate that rests on no assumption."""
    return SURE.counts(row, trusted=is_trusted(stage))


def group(evaluation: EvaluationPlan, records: Iterable[Record], repeat: int | None = None) -> dict[str, Rows]:
    """The rows of ``evaluation`` by unit and stage label, units in order of appearance."""
    units: dict[str, dict[str, list[Record]]] = {}
    for row in records:
        if row.evaluation != evaluation.name:
            continue
        label = stage_label(evaluation, row)
        if repeat is None or label == CLEAN_STAGE or row.repeat == repeat:
            units.setdefault(row.unit, defaultdict(list))[label].append(row)
    return {unit: stages for unit, stages in units.items() if stages.get(CLEAN_STAGE)}


class Reader:
    """Reads units of one evaluation under one restriction."""

    def __init__(
        self, evaluation: EvaluationPlan, threat: Threat, restriction: Restriction, voided: frozenset[str]
    ) -> None:
        self.evaluation = evaluation
        self.threat = threat
        self.restriction = restriction
        self.voided = voided
        self.attacks = tuple(s for s in attack_stages(evaluation) if restriction.part not in s.left_out)
        self.proofs = proof_stages(evaluation)
        self.level = restriction.level
        self.own_proofs = [s for s in self.proofs if self.level.trusting or not is_trusted(s)]
        self.branches = branch_names(threat.allow)
        self.repeats = (
            range(evaluation.repeats)
            if restriction.repeat is None
            else range(restriction.repeat, restriction.repeat + 1)
        )
        own = own_radius(threat.allow)
        self.own_radius = own
        self.beyond = restriction.radius is not None and own is not None and restriction.radius > own

    def unit(self, rows: Rows) -> Unit:
        """The facts of the unit that ``rows`` describe."""
        clean = rows[CLEAN_STAGE][0]
        if clean.clean != "cc":
            return Unit(clean.unit, clean.example, clean.clean)
        found = self._found(rows)
        witnesses = [r for r in found if is_witness(r)]
        within = [r for r in witnesses if r.within_access is True]
        denied = any(is_denial(r) for r in found)
        denied_within = any(is_denial(r) and r.within_access is True for r in found)
        searched = all(self._finished(rows.get(s.label, ()), s) for s in self.attacks)
        open_ = not within and not searched
        levels = self._proved(rows)
        certified, trusting = self.level in levels, self.level.widest in levels
        failed = [s for s in self.proofs if self._failed(s, rows, bool(witnesses))]
        judged = [r.label_kept for r in witnesses if r.label_kept is not None]
        return Unit(
            clean.unit,
            clean.example,
            "cc",
            broken=bool(within),
            broken_any=bool(witnesses),
            open=open_,
            open_any=open_ and not denied_within,
            denied=denied,
            certified=certified,
            certifier_failed=not certified and any(s in self.own_proofs for s in failed),
            trusting=trusting,
            trusting_failed=not trusting and bool(failed),
            levels=levels,
            undecided=open_ or (not trusting and bool(failed)),
            kept=any(judged) if judged else None,
            distance=min((Fraction(r.distance) for r in within if r.distance is not None), default=None),
            searched=searched,
            attacks=tuple(self._alone(s, rows.get(s.label, ()), within) for s in self.attacks),
        )

    def draws(self, rows: Rows, label: str | None = None) -> tuple[bool | None, ...]:
        """Of a right unit, per fresh draw, whether any counted candidate fails in it, of one attack or of all: ``None``
        while an unfinished attack may still offer one that does. Each candidate has the same number of draws."""
        stages = [s for s in self.attacks if label in (None, s.label)]
        labels = {s.label for s in stages}
        counted = [r for r in self._found(rows) if is_judged(r) and stage_label(self.evaluation, r) in labels]
        nowhere = self.restriction.part is not None and not stages
        ended = not nowhere and all(self._finished(rows.get(s.label, ()), s) for s in stages)
        rest = False if ended else None
        assert self.threat.success is not None
        return tuple(
            True if any((r.outcomes or "")[k : k + 1] == "1" for r in counted) else rest
            for k in range(self.threat.success.draws or 0)
        )

    def _found(self, rows: Rows) -> list[Record]:
        """The rows admitted, in the order in which they ran; under a query curve a unit's queries add up over stages
        and repeats unless the limit is per attack (EVIDENCE.md section 4)."""
        spent, found = 0, []
        for repeat in self.repeats:
            for stage in self.evaluation.stages:
                of_stage = [r for r in rows.get(stage.label, ()) if r.repeat == repeat]
                found += [r for r in of_stage if self._admits(r, spent)]
                if self.threat.access.queries_per == "example":
                    spent += max((r.queries for r in of_stage), default=0)
        return found

    def _alone(self, stage: Stage, rows: Sequence[Record], within: Sequence[Record]) -> tuple[str, bool, bool]:
        """``within``: the unit's witnesses that count, of all stages."""
        broken = any(stage_label(self.evaluation, r) == stage.label for r in within)
        return stage.label, broken, not broken and not self._finished(rows, stage)

    def _admits(self, row: Record, spent: int) -> bool:
        """Whether a candidate lies in the part and radius asked for, and was found within the queries asked for.

        Distances are float64, an ulp or two from the exact value, so a lattice distance that equals the radius must
        count as inside; at the threat's own radius ``within_scope`` has decided exactly.
        """
        r = self.restriction
        if not self._in_part(row):
            return False
        if r.queries is not None and spent + row.queries > r.queries:
            return False
        if r.radius is None or r.radius == self.own_radius:
            return True
        return row.distance is not None and row.distance <= float(r.radius) * (1 + DISTANCE_SLACK)

    def _in_part(self, row: Record) -> bool:
        part = self.restriction.part
        return part is None or part in (row.branch or "").split(BRANCHES)

    def _finished(self, rows: Sequence[Record], stage: Stage) -> bool:
        """Every repeat has a row, none failed, and an invalid candidate was followed by its projection. A stage that
        proves is asked only where nothing else searches (:func:`attack_stages`); ``unknown`` has searched nothing. A
        search that ended with an input of another part went no further in the part asked for."""
        if self.beyond:
            return False
        for repeat in self.repeats:
            of_repeat = [r for r in rows if r.repeat == repeat]
            if any(r.status in UNFINISHED for r in of_repeat):
                return False
            if stage.role != "attack" and any(r.verdict in ("error", "timeout", "unknown") for r in of_repeat):
                return False
            if not any(r.status == "none" or (r.status == "valid" and self._in_part(r)) for r in of_repeat):
                return False
        return True

    def _proved(self, rows: Rows) -> frozenset[Level]:
        """The levels at which certificates that are not void cover the whole set, or the part asked for."""
        covered: dict[Level, set[str | None]] = {level: set() for level in LEVELS}
        for stage in self.proofs:
            if f"{stage.backend}.{stage.method}" in self.voided:
                continue
            for row in rows.get(stage.label, ()):
                if row.verdict is not None and self._certifies(row):
                    parts = [None] if row.branch is None else row.branch.split(BRANCHES)
                    for level in LEVELS:
                        if level.counts(row, trusted=is_trusted(stage)):
                            covered[level].update(parts)
        part = self.restriction.part
        wanted = [part] if part else self.branches

        def whole(found: set[str | None]) -> bool:
            return None in found or (bool(wanted) and found.issuperset(wanted))

        return frozenset(level for level, found in covered.items() if whole(found))

    def _failed(self, stage: Stage, rows: Rows, broken: bool) -> bool:
        """Whether a certifier crashed, timed out, is void, or never ran. What a broken unit skipped has not failed."""
        stage_rows = [r for r in rows.get(stage.label, ()) if r.verdict is not None]
        void = f"{stage.backend}.{stage.method}" in self.voided
        good = [self._certifies(r) for r in stage_rows]
        stopped = any(r.verdict in ("error", "timeout") for r, fine in zip(stage_rows, good, strict=True) if not fine)
        return stopped or (void and any(good)) or (not stage_rows and not broken)

    def _certifies(self, row: Record) -> bool:
        radius = self.restriction.radius
        if radius is not None and row.radius is not None:
            return row.verdict in ("certified", "unknown") and Fraction(row.radius) >= radius
        return claims_certificate(row) and not self.beyond


def join_targets(units: Sequence[Unit], *, any_target: bool) -> Unit:
    """One example out of its (example, target) pairs.

    ``each any``: broken by any target, so certified only against all of them; ``each all``: the other way round.
    """
    first = units[0]
    broken, open_ = _join([(u.broken, u.open) for u in units], any_target)
    certified, failed = _join([(u.certified, u.certifier_failed) for u in units], not any_target)
    trusting, trusting_failed = _join([(u.trusting, u.trusting_failed) for u in units], not any_target)
    levels = [u.levels for u in units]
    judged = [u.kept for u in units if u.kept is not None]
    found = [u.distance for u in units if u.distance is not None]
    reached = found and (any_target or len(found) == len(units))
    labels = [label for label, _, _ in first.attacks]
    alone = [_join([u.attacks[i][1:] for u in units], any_target) for i in range(len(labels))]
    return replace(
        first,
        id=first.example,
        broken=broken,
        broken_any=(any if any_target else all)(u.broken_any for u in units),
        open=open_,
        open_any=_join([(u.broken or u.denied, u.open_any) for u in units], any_target)[1],
        denied=any(u.denied for u in units),
        certified=certified,
        certifier_failed=failed,
        trusting=trusting,
        trusting_failed=trusting_failed,
        levels=frozenset.intersection(*levels) if any_target else frozenset.union(*levels),
        undecided=any(u.undecided for u in units),
        kept=any(judged) if judged else None,
        distance=(min(found) if any_target else max(found)) if reached else None,
        searched=all(u.searched for u in units),
        attacks=tuple((label, *pair) for label, pair in zip(labels, alone, strict=True)),
    )


def _join(parts: Sequence[tuple[bool, bool]], by_any: bool) -> tuple[bool, bool]:
    """Three-valued "any" or "all" of (true, unknown) parts."""
    if by_any:
        true = any(t for t, _ in parts)
        return true, not true and any(u for _, u in parts)
    true = all(t for t, _ in parts)
    return true, not true and all(t or u for t, u in parts)


def own_radius(allow: Allowed | None) -> Fraction | None:
    """The radius of a threat that is one ball, else ``None``."""
    return allow.radius if isinstance(allow, Ball) else None
