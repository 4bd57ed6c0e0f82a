"""F in scores instead of decisions: what a solver is asked about, a union of polyhedra.

Ties are taken as failures wherever the decision rule might take them so: the closed polyhedra hold every failing score
vector, whatever the rule says of equality. No point of them is a proof; a point of them is a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from tmlang.backends.asserted import Asserted
from tmlang.backends.chain import chained
from tmlang.backends.contract import BackendRefusal
from tmlang.backends.folding import Folded, fold

if TYPE_CHECKING:
    from tmlang.backends.contract import Job

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class Polyhedron:
    """Scores ``s`` (K,) with ``matrix @ s + offset >= 0`` in every row: (L, K) and (L,), float64, L >= 1."""

    matrix: Tensor
    offset: Tensor

    def slack(self, scores: Tensor) -> Tensor:
        """(n,) the least left side for scores (n, K): not negative inside."""
        return (scores.double() @ self.matrix.T + self.offset).amin(dim=1)


Union = tuple[Polyhedron, ...]


@dataclass(frozen=True, eq=False)
class Question:
    """``folded``: the object in float64. ``failing``: per unit the polyhedra of which one holds the scores of every
    failing input."""

    folded: Folded
    failing: tuple[Union, ...]

    def slack(self, unit: int, scores: Tensor) -> Tensor:
        """(n,) how far inside the union scores (n, K) of inputs of ``unit`` are: negative iff they are in none."""
        return torch.stack([part.slack(scores) for part in self.failing[unit]]).amax(dim=0)


def question(job: Job) -> Question:
    """What ``job`` asks, of the object that its oracle opens.

    Raises :class:`BackendRefusal` where the object is no affine map around a network, or a decision does not follow
    from comparing its scores.
    """
    network, decide = job.oracle.opened()
    if isinstance(network, Asserted):
        folded = fold(network.deployed, network.decision, job.sets.space, job.x)
        sign = -1.0 if folded.model.decide.rule == "argmin" else 1.0  # scores are negated outputs
        parts = tuple(
            Polyhedron(sign * torch.stack([row for row, _ in part]), torch.stack([edge for _, edge in part]))
            for part in network.violations()
        )
        return Question(_plain(folded, job), (parts,) * len(job.x))
    folded = fold(network, decide, job.sets.space, job.x)
    _decided_by_scores(job, folded)
    classes = len(folded.offset)
    targets = job.y if job.target is None else job.target
    made = [_wrong(int(t), classes) if job.target is None else _aim(int(t), classes) for t in targets]
    return Question(_plain(folded, job), tuple(made))


def _plain(folded: Folded, job: Job) -> Folded:
    return replace(folded, body=chained(folded.body, job.x.double()))


def _wrong(label: int, classes: int) -> Union:
    """Some other class is as great as the label."""
    unit = torch.eye(classes, dtype=torch.float64)
    return tuple(Polyhedron((unit[j] - unit[label])[None], _ZERO) for j in range(classes) if j != label)


def _aim(target: int, classes: int) -> Union:
    """The target is as great as every other class."""
    unit = torch.eye(classes, dtype=torch.float64)
    rows = [unit[target] - unit[j] for j in range(classes) if j != target]
    return (Polyhedron(torch.stack(rows), torch.zeros(len(rows), dtype=torch.float64)),)


_ZERO = torch.zeros(1, dtype=torch.float64)


def _decided_by_scores(job: Job, folded: Folded) -> None:
    model = folded.model
    abstains = model.abstains
    if abstains and job.threat.rejected is not None and job.threat.rejected.kind != "safe":
        raise BackendRefusal("that no other class wins proves no answer, and a rejection fails here")
    if model.decide.rule not in ("argmax", "argmin", "threshold"):
        raise BackendRefusal(f"a proof about one network says nothing about `decide: {model.decide.rule}`")
