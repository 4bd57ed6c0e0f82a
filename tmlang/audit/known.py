"""What is a function of known things, whatever was searched: seeds, which rows there are and in which order, counts
against budgets, what a row of its kind holds. The auditor's own reading, from the plan as plain JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from tmlang.audit.record import FAILED, Record

Json = Mapping[str, Any]
_DROP_BROKEN = "drop_broken"
_OF_CLEAN = {
    "repeat": 0, "verdict": None, "linf": None, "l2": None, "l1": None, "l0": None, "distance": None, "branch": None,
    "queries": 0, "forwards": 0, "gradients": 0, "zero_gradients": 0, "progressed": None, "seed": None,
    "projected": False, "gap": None, "gap_kind": None, "radius": None, "outputs": None, "changed_correct": None,
    "within_access": None,
}  # fmt: skip
"""What nothing but a stage tells."""
_OF_PROOFS = {"verdict": None, "gap": None, "gap_kind": None, "radius": None, "outputs": None}
_OF_STAGES = {"label_reviewed": None}
_OF_INPUTS = {
    "decision": None, "rejected": None, "linf": None, "l2": None, "l1": None, "l0": None, "distance": None,
    "within_scope": None, "within_access": None, "changed_correct": None, "observed_failure": None,
    "counted_failure": None, "candidate": None, "draw_seed": None, "outcomes": None, "rule": None, "projected": False,
}  # fmt: skip
"""What is told of an input that was offered."""


def known_faults(plan: Json, run: Json, rows: Sequence[Record]) -> Iterator[str]:
    """Every cell that is not what follows from the plan and the rows before it, in words that name the row."""
    for evaluation in plan["evaluations"]:
        own = [r for r in rows if r.evaluation == evaluation["name"]]
        subject = next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])
        model = next(m for m in plan["models"] if m["name"] == subject["model"])
        reading = _Reading(evaluation, subject, model["random"]["kind"] == "per_request", own)
        for row, label in zip(own, reading.labels, strict=True):
            where = f"{evaluation['name']}, {row.unit}: `{label}`"
            yield from (f"{where} {fault}" for fault in reading.row_faults(row, label))
        yield from (f"{evaluation['name']}{fault}" for fault in reading.order_faults())
    yield from evaluator_faults(run)


class _Reading:
    """The rows of one evaluation."""

    def __init__(self, evaluation: Json, subject: Json, random: bool, rows: Sequence[Record]) -> None:
        self.evaluation, self.subject, self.random, self.rows = evaluation, subject, random, rows
        self.stages = {s["label"]: s for s in evaluation["stages"]}
        self.labels = [r.stage.removeprefix(evaluation["name"] + "/") for r in rows]
        self.universal = subject.get("perturbation") == "universal"

    # One row ---------------------------------------------------------------------------------------------------------

    def row_faults(self, row: Record, label: str) -> Iterator[str]:
        stage = self.stages.get(label)
        if stage is None:
            yield from _told(row, _OF_CLEAN)
        else:
            yield from self._stage_faults(row, stage)
        yield from self._draw_faults(row, clean=stage is None)

    def _stage_faults(self, row: Record, stage: Json) -> Iterator[str]:
        yield from _told(row, _OF_STAGES)
        proves = stage["role"] in ("certify", "decide_exactly", "enumerate")
        if not proves:
            yield from _told(row, _OF_PROOFS)
        elif row.verdict is None:
            yield "proves, and its row tells no verdict"
        if row.status == "none" or (row.status in FAILED and row.decision is None and row.linf is None):
            smoothed = proves and row.draws is not None
            yield from _told(row, {k: v for k, v in _OF_INPUTS.items() if not (smoothed and k == "radius")})
        if stage["role"] != "corrupt" and row.seed != (wanted := self._seed(row, stage)):
            yield f"has the seed {row.seed}, and {wanted} is that of the unit"
        yield from self._count_faults(row, stage)

    def _seed(self, row: Record, stage: Json) -> int:
        """The first 63 bits of the SHA-256 over the run's seed, the unit, the stage and the repeat."""
        seed = self.evaluation["seed"] or 0
        parts = (f"int:{seed}", f"str:{row.unit}", f"str:{stage['label']}", f"int:{row.repeat}")
        return int(sha256("\x1f".join(parts).encode()).hexdigest()[:16], 16) >> 1

    def _count_faults(self, row: Record, stage: Json) -> Iterator[str]:
        counts = {n: getattr(row, n) for n in ("queries", "forwards", "gradients", "zero_gradients")}
        if negative := [n for n, count in counts.items() if count < 0]:
            yield f"tells of {counts[negative[0]]} {negative[0]}"
        if row.zero_gradients > row.gradients:
            yield f"tells of {row.zero_gradients} zero gradients among {row.gradients}"
        limit = (self.subject.get("access") or {}).get("queries")
        lost = row.status in FAILED
        if stage["role"] == "attack" and limit is not None and stage["access"] != "transfer" and row.queries > limit:
            yield f"asked {row.queries} times under a limit of {limit}"
        if not lost and not self.universal and row.queries > row.forwards:
            yield f"asked {row.queries} times in {row.forwards} passes"
        if stage["role"] == "attack" and stage["access"] not in ("white_box", "transfer") and row.gradients:
            yield f"tells of {row.gradients} gradients under access `{stage['access']}`"

    def _draw_faults(self, row: Record, *, clean: bool) -> Iterator[str]:
        """Every input that is judged by draws tells them, and no other does."""
        if self.subject["is"] != "Threat" or self.subject["success"] is None:
            return
        if clean:
            around = self.subject["nature"] is not None and not _places(self.subject)
            judged = self.random or around
        else:
            judged = row.decision is not None or row.linf is not None
        if judged and row.outcomes is None:
            yield "is judged by fresh draws, and tells none"

    # All of them -----------------------------------------------------------------------------------------------------

    def order_faults(self) -> Iterator[str]:
        """Every stage asks about every unit that is still worth it, in order, and about no other."""
        clean = [r for r, label in zip(self.rows, self.labels, strict=True) if label == "clean"]
        expected = [("clean", 0, r.unit) for r in clean]
        for repeat in range(self.evaluation["repeats"]):
            broken: set[str] = set()
            for stage in self._asked(repeat):
                dropped = broken if _DROP_BROKEN in self.evaluation["passes"] else set()
                expected += [
                    (stage["label"], repeat, r.unit)
                    for r in clean
                    if r.label >= 0 and r.label != r.target and r.unit not in dropped
                    and (stage["role"] == "corrupt" or r.clean == "cc")
                ]  # fmt: skip
                broken |= {
                    r.unit
                    for r, label in zip(self.rows, self.labels, strict=True)
                    if (label, r.repeat) == (stage["label"], repeat) and r.observed_failure and r.within_access
                    and r.status == "valid"
                }  # fmt: skip
        told = list(dict.fromkeys((label, r.repeat, r.unit) for r, label in zip(self.rows, self.labels, strict=True)))
        if told != expected:
            lacking, strange = set(expected) - set(told), set(told) - set(expected)
            for (label, repeat, unit), what in (
                *((key, "and there is no row") for key in sorted(lacking)[:3]),
                *((key, "and there is one") for key in sorted(strange)[:3]),
            ):
                asked = "is asked" if what.endswith("no row") else "is not asked"
                yield f", {unit}: `{label}` {asked} about it in repeat {repeat}, {what}"
            if not lacking and not strange:
                first = next(a for a, b in zip(told, expected, strict=False) if a != b)
                yield f", {first[2]}: the row of `{first[0]}` stands in another place than the run puts it"

    def _asked(self, repeat: int) -> list[Json]:
        """The stages of a repeat: a proof is repeated only where it is all that searches."""
        stages: list[Json] = self.evaluation["stages"]
        searched = any(s["role"] == "attack" for s in stages)
        return [s for s in stages if repeat == 0 or s["role"] == "attack" or not searched]


def _told(row: Record, expected: Mapping[str, Any]) -> Iterator[str]:
    for name, value in expected.items():
        if (told := getattr(row, name)) != value:
            yield f"tells {name} {told}, which no row of its kind does"


def _places(subject: Json) -> bool:
    """Whether nature acts on a patch: without it, it does nothing to an original."""
    return "Patch" in {part["is"] for part in _parts(subject["allow"])}


def _parts(allow: Json | None) -> Iterator[Json]:
    if allow is not None:
        yield allow
        for part in allow.get("parts", ()):
            yield from _parts(part)


# The evaluator --------------------------------------------------------------------------------------------------------

_EVALUATOR = {"batch_size": 1, "threads": 1, "deterministic": True, "device": "cpu"}


def evaluator_faults(run: Json) -> Iterator[str]:
    """The reference evaluator is one (EVIDENCE.md section 1), under the torch that the run was made with."""
    torch = run["libraries"].get("torch")
    for name, facts in run["models"].items():
        for fact, value in _EVALUATOR.items():
            if facts.get(fact) != value:
                yield f"run.json: {name} was evaluated with {fact} {facts.get(fact)}, and the reference is {value}"
        if torch is not None and not _one_version(str(facts.get("torch")), torch):
            yield f"run.json: {name} was evaluated by torch {facts.get('torch')}, and the run was made with {torch}"


def _one_version(one: str, other: str) -> bool:
    """Equal, where not only one of them names its build (``2.13.0+cpu``)."""
    parts = [text.partition("+") for text in (one, other)]
    return parts[0] == parts[1] or (parts[0][0] == parts[1][0] and "" in (parts[0][2], parts[1][2]))
