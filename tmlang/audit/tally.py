"""The only code that makes a headline number: records in, columns out (EVIDENCE.md section 2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tmlang.audit.columns import Column, Columns, Contradiction, Counts, Extent, Gap, Restriction
from tmlang.audit.confidence import confidence
from tmlang.audit.counting import clean_columns, column, counts_of, unknown
from tmlang.audit.estimates import tally_draws, tally_shift
from tmlang.audit.granted import unused_grant
from tmlang.audit.levels import LEVELS, SHOWN, Level, arithmetic_words, trust_words, verdict_words
from tmlang.audit.reasons import met, unknown_before
from tmlang.audit.record import BRANCHES, CLEAN_STAGE, UNFINISHED, Record
from tmlang.audit.reuse import witnesses_elsewhere
from tmlang.audit.units import (
    Reader,
    Unit,
    claims_certificate,
    group,
    in_real_arithmetic,
    is_estimate,
    is_share,
    is_trusted,
    is_witness,
    proof_stages,
    stage_label,
)
from tmlang.meaning.threats import Property, Shift, Subject, Threat
from tmlang.plan.ir import EvaluationPlan, Plan


def tally(
    evaluation: EvaluationPlan,
    subject: Subject,
    records: Iterable[Record],
    *,
    restriction: Restriction | None = None,
    voided: frozenset[str] = frozenset(),
) -> Columns:
    """All columns of one evaluation from its records alone (rows of other evaluations are passed over).

    ``voided`` names the methods (``backend.METHOD``) whose certificates are void in this run.
    """
    records = [r for r in records if r.evaluation == evaluation.name]
    restriction = restriction or Restriction()
    columns = _one_tally(evaluation, subject, records, restriction, voided)
    if evaluation.repeats > 1 and restriction.repeat is None:
        headline = "corrupted_accuracy" if isinstance(subject, Shift) else "survival"
        alone = (
            _one_tally(evaluation, subject, records, replace(restriction, repeat=r), voided).get(headline)
            for r in range(evaluation.repeats)
        )
        columns = replace(columns, repeats=tuple(c for c in alone if c is not None))
    return columns


def _one_tally(
    evaluation: EvaluationPlan,
    subject: Subject,
    records: Sequence[Record],
    restriction: Restriction,
    voided: frozenset[str],
) -> Columns:
    if isinstance(subject, Shift):
        return tally_shift(evaluation, subject, records, restriction)
    if isinstance(subject, Property):
        return _tally_property(evaluation, subject, records, restriction.level.widest, voided)
    unused = unused_grant(evaluation, subject)
    if is_share(subject):
        columns = tally_draws(evaluation, subject, records, restriction)
    else:
        columns = _tally_threat(evaluation, subject, records, restriction, voided)
        columns = replace(columns, contradictions=contradictions(evaluation, records))
    return replace(
        columns,
        unknown=unknown_before(evaluation, subject.goal, records),
        met=met(evaluation, subject.goal, records),
        unused=unused,
    )


def tally_plan(plan: Plan, records: Sequence[Record]) -> Mapping[str, Columns]:
    """The columns of every evaluation by its name, certificates of a contradicted method void in all of them."""
    found = {e.name: _contradicted(plan, e, records) for e in plan.evaluations}
    voided = frozenset(c.method for of_one in found.values() for c in of_one if not c.within_gap)
    columns = {e.name: tally(e, plan.subject(e.subject), records, voided=voided) for e in plan.evaluations}
    return {name: replace(own, contradictions=found[name]) for name, own in columns.items()}


def voided_methods(plan: Plan, records: Sequence[Record]) -> frozenset[str]:
    """The methods whose certificates a valid witness contradicts anywhere in the run (EVIDENCE.md section 6)."""
    found = (c for e in plan.evaluations for c in _contradicted(plan, e, records))
    return frozenset(c.method for c in found if not c.within_gap)


def _contradicted(plan: Plan, evaluation: EvaluationPlan, records: Sequence[Record]) -> tuple[Contradiction, ...]:
    """What contradicts certificates of an evaluation, a witness that another one found in its set too."""
    elsewhere = witnesses_elsewhere(plan, evaluation, records) if proof_stages(evaluation) else []
    return contradictions(evaluation, [*records, *elsewhere])


def contradictions(evaluation: EvaluationPlan, records: Iterable[Record]) -> tuple[Contradiction, ...]:
    """Units with both a certificate and a valid witness in the set (or branch) that the certificate covers."""
    found: list[Contradiction] = []
    proofs = proof_stages(evaluation)
    for unit, rows in group(evaluation, records).items() if proofs else ():
        searched = (of_stage for label, of_stage in rows.items() if label != CLEAN_STAGE)
        witnesses = [r for of_stage in searched for r in of_stage if is_witness(r)]
        for stage in proofs if witnesses else ():
            for row in rows.get(stage.label, ()):
                against = next((w for w in witnesses if row.verdict == "certified" and _covers(row, w)), None)
                if against is not None:
                    method = f"{stage.backend}.{stage.method}"
                    seen = stage_label(evaluation, against)
                    within = not claims_certificate(row)
                    found.append(Contradiction(evaluation.name, unit, stage.label, method, seen, within))
    return tuple(found)


def _covers(certificate: Record, witness: Record) -> bool:
    if certificate.branch is None:
        return True
    return bool(set(certificate.branch.split(BRANCHES)) & set((witness.branch or "").split(BRANCHES)))


# Threats -------------------------------------------------------------------------------------------------------------


def _tally_threat(
    evaluation: EvaluationPlan,
    threat: Threat,
    records: Sequence[Record],
    restriction: Restriction,
    voided: frozenset[str],
) -> Columns:
    grouped = group(evaluation, records, restriction.repeat)
    reader = Reader(evaluation, threat, restriction, voided)
    clean = [rows[CLEAN_STAGE][0] for rows in grouped.values()]
    usable = {r.unit for r in clean if r.label >= 0 and r.target != r.label}
    pairs = [reader.unit(rows) for unit, rows in grouped.items() if unit in usable]
    units, counts = counts_of(threat, clean, pairs)
    columns = (
        *clean_columns(counts),
        *_evidence_columns(reader, counts, proof_words(evaluation, records, counts)),
        *_side_columns(threat, clean, units, counts),
        *_distance_columns(threat, units),
    )
    return Columns(
        evaluation.name,
        threat.name,
        "pairs" if threat.goal.each == "apart" else "examples",
        threat.clean_errors,
        counts,
        columns,
        attacks=_attack_columns(reader, units, counts),
        alone=_alone_columns(reader, units, counts),
        restriction=restriction,
    )


@dataclass(frozen=True, slots=True)
class Words:
    """What stands beside ``certified``, beside the range of R, and beside ``certified_trusting``."""

    certified: str = ""
    bound: str = ""
    trusting: str = ""


def proof_words(evaluation: EvaluationPlan, records: Sequence[Record], k: Counts) -> Words:
    """In which arithmetic certificates hold, how surely, and whom one trusts, where that has to be said."""
    of_stage = {s.label: s for s in proof_stages(evaluation)}
    real = {is_trusted(of_stage[at]) for r in records if in_real_arithmetic(r)
            if (at := stage_label(evaluation, r)) in of_stage}  # fmt: skip
    own = arithmetic_words(real=False in real, assumed=k.certified_assumed, of=k.certified)
    every = arithmetic_words(real=bool(real), assumed=k.trusting_assumed, of=k.certified_trusting)
    sure = confidence(evaluation, records)
    return Words(
        "; ".join((*own, sure.words) if sure else own),
        "; ".join(own),
        "; ".join((trust_words([s.trusts for s in of_stage.values() if is_trusted(s)]), *every)),
    )


def _evidence_columns(reader: Reader, k: Counts, words: Words) -> Iterator[Column]:
    """Survival, certificates and R. What no stage of the evaluation could show yields no column."""
    threat = reader.threat
    failed = Gap("certifier failed or void", k.certifier_failed)
    ungiven = Gap("certifier failed or void", k.trusting_failed)
    unfinished = Gap("attack unfinished", k.unfinished)
    top = k.cc + k.cu - k.broken_any_access
    if reader.attacks:
        low, high = k.cc - k.broken - k.unfinished, k.cc + k.cu - k.broken
        completed = k.denominator - k.unfinished - k.cu
        yield column("survival", low, high, k.denominator, unfinished, unknown(k))
        yield column("survival_completed", low, low, completed)
        yield column("attack_coverage", completed, completed, k.denominator, unfinished, unknown(k))
    if reader.own_proofs or (reader.proofs and reader.level != SHOWN):
        high = k.certified + k.certifier_failed
        yield column("certified", k.certified, high, k.denominator, failed, note=words.certified)
    if any(is_trusted(s) for s in reader.proofs):
        c = k.certified_trusting
        yield column("certified_trusting", c, c + k.trusting_failed, k.denominator, ungiven, note=words.trusting)
    if reader.proofs:
        settled = k.cc - k.trusting_failed
        yield column("certificate_coverage", settled, settled, k.cc + k.cu, ungiven, unknown(k))
    finished = k.denominator - k.undecided - k.cu
    yield column("coverage", finished, finished, k.denominator, Gap("a stage unfinished", k.undecided), unknown(k))
    if not is_estimate(threat):
        yield column("upper", top, top, k.denominator)
        yield column(rate_name(threat), k.certified, top, k.denominator, note=words.bound)


def rate_name(threat: Threat) -> str:
    """``robust_accuracy`` is untargeted, count-as-failures and deterministic; everything else is ``robust_rate``."""
    plain = threat.goal.kind == "untargeted" and threat.clean_errors == "fail" and threat.success is None
    return "robust_accuracy" if plain else "robust_rate"


def _side_columns(threat: Threat, clean: Sequence[Record], units: Sequence[Unit], k: Counts) -> Iterator[Column]:
    """Denials and reviews: they move no other column."""
    if threat.rejected is not None and threat.rejected.kind == "denied":
        yield column("denied", k.denied, k.cc + k.cu, k.cc + k.cu, at_least=True)
        fallen = sum(u.broken or u.denied for u in units)
        open_ = sum(u.open_any and not u.denied for u in units)
        low, high = k.cc - fallen - open_, k.cc + k.cu - fallen
        gaps = (Gap("attack unfinished", open_), unknown(k))
        yield column("survival_any", low, high, k.denominator, *gaps, note="a rejection fails too")
    reviewed = [r.label_reviewed for r in clean if r.label_reviewed is not None]
    if reviewed:
        yield column("reviewed", sum(reviewed), sum(reviewed), len(clean))
    judged = [u.kept for u in units if u.broken and u.kept is not None]
    if judged:
        unjudged = k.broken - len(judged)
        gap = Gap("witness not judged", unjudged)
        yield column("semantic_validity", sum(judged), sum(judged) + unjudged, k.broken, gap)
        yield column("witnesses_judged", len(judged), len(judged), k.broken)


def _attack_columns(reader: Reader, units: Sequence[Unit], k: Counts) -> tuple[tuple[str, Column], ...]:
    """``attack_success`` of each attack alone; only ``attribution: full`` runs every attack on every unit."""
    if reader.evaluation.attribution != "full":
        return ()
    found = []
    for stage in reader.attacks:
        alone = [a for u in units for a in u.attacks if a[0] == stage.label]
        broken, open_ = sum(a[1] for a in alone), sum(a[2] for a in alone)
        gaps = Gap("attack unfinished", open_), unknown(k)
        found.append((stage.label, column("attack_success", broken, broken + open_ + k.cu, k.cc + k.cu, *gaps)))
    return tuple(found)


def _alone_columns(reader: Reader, units: Sequence[Unit], k: Counts) -> tuple[tuple[str, Column], ...]:
    """``found_alone``: what each attack broke and no other did, where several ran on every unit.

    Open: an unfinished attack may take a unit from the one that broke it, or find one that no other does.
    """
    if reader.evaluation.attribution != "full" or len(reader.attacks) < 2:
        return ()
    sure: dict[str, int] = {s.label: 0 for s in reader.attacks}
    may = dict(sure)
    for u in units:
        broke = [label for label, broken, _ in u.attacks if broken]
        waits = [label for label, _, open_ in u.attacks if open_]
        one = broke if len(broke) == 1 else []
        for label in one if broke else waits:
            may[label] += 1
            sure[label] += not waits
    return tuple(
        (label, column("found_alone", sure[label], may[label] + k.cu, k.cc + k.cu, *gaps))
        for label in sure
        for gaps in [(Gap("attack unfinished", may[label] - sure[label]), unknown(k))]
    )


def _distance_columns(threat: Threat, units: Sequence[Unit]) -> Iterator[Column]:
    """The median of the distances found; not found counts as infinite, an unfinished search as anything below.

    Clean errors lie at distance 0 where they count as failures and are left out where they are excluded.
    """
    if threat.minimize is None:
        return
    lows: list[Extent] = []
    highs: list[Extent] = []
    found = open_ = unknown = 0
    for u in units:
        if u.clean == "cc":
            high: Extent = math.inf if u.distance is None else u.distance
            lows.append(high if u.searched else Fraction(0))
            highs.append(high)
            found += u.distance is not None
            open_ += not u.searched
        elif u.clean == "cu":
            lows.append(Fraction(0))
            highs.append(math.inf)
            unknown += 1
        elif threat.clean_errors == "fail":
            lows.append(Fraction(0))
            highs.append(Fraction(0))
    gaps = tuple(g for g in (Gap("attack unfinished", open_), Gap("clean decision unknown", unknown)) if g.units)
    yield Column("median_distance", found, len(lows), median(lows), median(highs), gaps)


def median(values: Sequence[Extent]) -> Extent | None:
    """The middle value, or the mean of the two middle ones (infinite if either is); ``None`` of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return math.inf if math.inf in (low, high) else (Fraction(low) + Fraction(high)) / 2


# Properties ----------------------------------------------------------------------------------------------------------


def _tally_property(
    evaluation: EvaluationPlan, subject: Property, records: Sequence[Record], level: Level, voided: frozenset[str]
) -> Columns:
    """A property has one unit and a verdict: a replayed witness violates it, a proof of the whole box holds it. Of no
    input nothing is to be shown, and nothing was."""
    found = contradictions(evaluation, records)
    rows = [r for r in records if stage_label(evaluation, r) != CLEAN_STAGE]
    # The middle of the box is looked at first: where it violates the property, the unit's own row is the witness.
    violated = any(is_witness(r) for r in records)
    proofs = {s.label: s for s in proof_stages(evaluation) if f"{s.backend}.{s.method}" not in voided}
    given = [(proofs[at], r) for r in rows if (at := stage_label(evaluation, r)) in proofs and claims_certificate(r)]
    held = frozenset(one for one in LEVELS if any(one.counts(r, trusted=is_trusted(s)) for s, r in given))
    proved = level in held
    finished = not any(r.status in UNFINISHED or r.verdict in ("error", "timeout") for r in rows)
    vacuous, holds = subject.empty is not None, proved and not violated
    answered = int(vacuous or violated or proved or (bool(rows) and finished))
    own = int(holds and SHOWN in held)
    return Columns(
        evaluation.name,
        subject.name,
        "properties",
        None,
        Counts(
            1,
            base=1,
            denominator=1,
            broken=int(violated and not vacuous),
            certified=int(own and not vacuous),
            certified_trusting=int(holds and not vacuous),
        ),
        (column("coverage", answered, answered, 1, Gap("a stage unfinished", 1 - answered)),),
        contradictions=found,
        holds="vacuous" if vacuous else "violated" if violated else "holds" if holds else "undecided",
        note=verdict_words(held, [s.trusts for s, _ in given if is_trusted(s)]) if holds and not vacuous else "",
    )
