"""Units of work: the calls of a run, each with an address that says everything its rows depend on.

An address is a hash over the object, the set, the examples of the call and what is known of them, the method with its
arguments and seed, and the code: tmlang, the backend, its library. Rows under one address are the same rows, so a run
may take them from another bundle (``tmc run --reuse``); a call whose address is another one is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from tmlang.audit.bundle import STATEMENT, Bundle
from tmlang.audit.identity import checked_run
from tmlang.audit.record import CLEAN_STAGE, FAILED, Record
from tmlang.audit.remeasure import as_values
from tmlang.base import canonical
from tmlang.execute.calls import calls
from tmlang.execute.code import CORE
from tmlang.execute.confirm import Drawn
from tmlang.execute.isolation import Batch, Kept
from tmlang.execute.ledger import Ledger
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Threat
from tmlang.meaning.values import Symbol
from tmlang.plan import codec
from tmlang.plan.capability import Backend, Capabilities
from tmlang.plan.ir import EvaluationPlan, Plan, Stage
from tmlang.plan.passes import DROP_BROKEN

Json = Mapping[str, Any]
_WORDS = ("doc", "id", "cost", "suite")
"""What a declaration and a stage say that no row depends on."""


@dataclass(frozen=True)
class Call:
    """Units (indices), the queries that each has used before, and the address; ``None`` where rows of other stages are
    handed in, which no address covers."""

    at: tuple[int, ...]
    used: tuple[int, ...]
    address: str | None


@dataclass(frozen=True)
class Work:
    """The calls of one evaluation. ``run``: the facts of ``run.json``; ``clean``: the units' own rows, in order;
    ``ledger``: what is committed."""

    plan: Plan
    run: Json
    evaluation: EvaluationPlan
    clean: Sequence[Record]
    ledger: Ledger
    capabilities: Capabilities

    def stages(self, repeat: int) -> list[Stage]:
        """Those that this repeat asks, in order: a proof is no draw, and is repeated only where it is all that
        searches."""
        searched = any(stage.role == "attack" for stage in self.evaluation.stages)
        return [s for s in self.evaluation.stages if repeat == 0 or s.role == "attack" or not searched]

    def calls(self, stage: Stage, repeat: int) -> list[Call]:
        """The calls of a stage in a repeat, whatever of them is committed already."""
        before = self._before(stage, repeat)
        found = []
        for at in calls(len(self.clean), self.active(stage, repeat), self.run["batch_size"][self.evaluation.name]):
            used = tuple(self.ledger.used(self.clean[i].unit, before) for i in at)
            found.append(Call(at, used, self._address(stage, repeat, at, used)))
        return found

    def active(self, stage: Stage, repeat: int) -> list[int]:
        """Clean and correct units; without those that earlier stages broke, where the plan's passes allow that. A shift
        is an average over all usable ones.

        What this stage itself has committed does not count, so an interrupted stage makes the same calls again.
        """
        earlier = [s.label for s in self.evaluation.stages[: self.evaluation.stages.index(stage)]]
        broken = self.ledger.broken(repeat, earlier) if DROP_BROKEN in self.evaluation.passes else set()
        usable = ((i, r) for i, r in enumerate(self.clean) if r.label >= 0 and r.target != r.label)
        wanted = [(i, r) for i, r in usable if r.unit not in broken]
        return [i for i, r in wanted if stage.role == "corrupt" or r.clean == "cc"]

    def _before(self, stage: Stage, repeat: int) -> set[tuple[str, int]]:
        """The (stage, repeat) that run before."""
        labels = [s.label for s in self.evaluation.stages]
        earlier = {(label, repeat) for label in labels[: labels.index(stage.label)]}
        return earlier | {(label, r) for label in labels for r in range(repeat)}

    def _address(self, stage: Stage, repeat: int, at: Sequence[int], used: Sequence[int]) -> str | None:
        backend = self.capabilities.backend(stage.backend)
        method = backend.method(stage.method) if backend else None
        kinds = {name: argument.type for name, argument in method.arguments.items()} if method else {}
        if any(kinds.get(name) == "stage" and value is not None for name, value in stage.arguments):
            return None
        rows = [self.clean[i] for i in at]
        facts = {
            **self._object(),
            "stage": _said(stage),
            "data": [_said(self.plan.data_set(d)) for d in self._data(stage)],
            "seed": self.evaluation.seed,
            "repeat": repeat,
            "family": self._family(),
            "units": [
                [r.unit, r.label, r.target, r.clean, r.clean_decision, u] for r, u in zip(rows, used, strict=True)
            ],
            "code": [self.run["tmlang"], self.run["backends"][CORE], self.run["backends"].get(stage.backend)],
            "libraries": {name: self.run["libraries"].get(name) for name in self._libraries(backend)},
        }
        return sha256(canonical.dumps(facts)).hexdigest()

    def _object(self) -> dict[str, Any]:
        """What is attacked, and within which set."""
        subject = self.plan.subject(self.evaluation.subject)
        names = self._models(subject.model, *(subject.access.surrogates if isinstance(subject, Threat) else ()))
        models = [self.plan.model(name) for name in names]
        return {
            "subject": _said(subject),
            "models": [[_said(m), self.run["models"].get(m.name), self.run["code"].get(m.name)] for m in models],
            "spaces": [_said(self.plan.space(m.space)) for m in models],
        }

    @staticmethod
    def _libraries(backend: Backend | None) -> tuple[str, ...]:
        return ("torch", "numpy", *([backend.library] if backend else ()))

    def _models(self, *names: str) -> list[str]:
        """These and the members of ensembles among them."""
        members = [m for name in names if (of := self.plan.model(name).ensemble) is not None for m in of[0]]
        return [*names, *(self._models(*members) if members else ())]

    def _data(self, stage: Stage) -> Iterator[str]:
        """The data that is attacked, that a perturbation is fitted on, and that an argument names."""
        subject = self.plan.subject(self.evaluation.subject)
        named = [v.name for _, v in stage.arguments if isinstance(v, Symbol)]
        wanted = {getattr(subject, "data", None), getattr(subject, "fitted_on", None), *named}
        yield from (d.name for d in self.plan.data if d.name in wanted)

    def _family(self) -> list[int] | None:
        """What shares the error of a random object's confirmations: attacks, repeats, units."""
        if getattr(self.plan.subject(self.evaluation.subject), "success", None) is None:
            return None
        attacks = sum(s.role == "attack" for s in self.evaluation.stages)
        return [attacks, self.evaluation.repeats, len(self.clean)]


def _said(value: Any) -> Any:
    """A declaration or stage as JSON, without its words."""
    said = {k: v for k, v in codec.encode(value, type(value)).items() if k not in _WORDS}
    return {"is": type(value).__name__, **said}


class Earlier:
    """The finished calls of other bundles, by address. They are believed like the committed rows of the run's own
    folder; ``tmc audit --model`` asks the model again."""

    def __init__(self, bundles: Sequence[Bundle], capabilities: Capabilities) -> None:
        self._found: dict[str, tuple[Bundle, Sequence[Sequence[Record]]]] = {}
        for bundle in bundles:
            plan, run, rows = bundle.plan(), checked_run(bundle.json("run.json")), bundle.records()
            for evaluation in plan.evaluations:
                self._read(bundle, plan, run, evaluation, rows, capabilities)

    @classmethod
    def open(cls, paths: Sequence[Any], capabilities: Capabilities) -> Earlier:
        """Sealed bundles, each with its hashes checked, or those of runs that were stopped."""
        return cls([Bundle.open(path, sealed=(path / STATEMENT).exists()) for path in paths], capabilities)

    def _read(
        self,
        bundle: Bundle,
        plan: Plan,
        run: Json,
        evaluation: EvaluationPlan,
        rows: Sequence[Record],
        known: Capabilities,
    ) -> None:
        own = [r for r in rows if r.evaluation == evaluation.name]
        clean = [r for r in own if r.stage == CLEAN_STAGE]
        work = Work(plan, run, evaluation, clean, Ledger(evaluation.name, own), known)
        by_key: dict[tuple[str, int, str], list[Record]] = {}
        for row in own:
            by_key.setdefault((row.stage, row.repeat, row.unit), []).append(row)
        for stage in evaluation.stages:
            for repeat in range(evaluation.repeats):
                for call in work.calls(stage, repeat):
                    of_units = [by_key.get((stage.label, repeat, clean[i].unit), []) for i in call.at]
                    if call.address is not None and all(of_units) and not _failed(of_units):
                        self._found[call.address] = bundle, of_units

    def batch(self, call: Call, evaluation: str, space: Space) -> Batch | None:
        """The rows of a call, renamed to ``evaluation``, and what they keep; ``None`` where no bundle has them."""
        if call.address is None or call.address not in self._found:
            return None
        bundle, of_units = self._found[call.address]
        pairs = [
            (replace(row, evaluation=evaluation, candidate=None, outputs=None), kept_of(bundle, unit, row, space))
            for unit, rows in zip(call.at, of_units, strict=True)
            for row in rows
        ]
        return Batch(tuple(row for row, _ in pairs), tuple(kept for _, kept in pairs))


def _failed(of_units: Sequence[Sequence[Record]]) -> bool:
    """Whether a call did not finish: another machine, or more time, may do better."""
    return any(row.status in FAILED or row.verdict == "timeout" for rows in of_units for row in rows)


def kept_of(bundle: Bundle, unit: int, row: Record, space: Space) -> Kept:
    x = theta = drawn = None
    if row.candidate is not None:
        stored, _, indices = bundle.candidate(row.candidate)
        x = as_values(space, stored, indices=True) if indices else stored
        made = bundle.parameters(row.candidate)
        theta = None if made is None else np.array(made)
        if (nature := bundle.nature(row.candidate)) is not None:
            draws, picture = nature
            drawn = Drawn(draws, as_values(space, picture, indices=True) if indices else picture)
    return Kept(unit, x, None if row.outputs is None else bundle.outputs(row.outputs), theta, drawn)
