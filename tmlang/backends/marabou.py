"""Complete answers by Marabou 2.0.0: is there an input of the box that fails?

The solver is believed in one direction at a time. ``unsat`` counts when the question was a little wider than F (scores
within ``margin`` of failing are failures too), the network that it read computes what the object computes, all
operations are of those whose answers were tested, and a search of ours found nothing. A point that it offers is a
candidate like any other and is replayed; where it does not fail, a second question asks for one that fails by
:data:`CLEARLY`, and else the unit stays unknown.

Measured on digits, an MLP and a small CNN: one query for each wrong class takes as long as one disjunction over them
(0.16 s against 0.19 s, 14.7 s against 15.0 s for 4 images), and it may stop at the first class that wins.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tmlang.audit.outputs import OutputBounds
from tmlang.backends.answers import Answer, Gap, gap_of, seconds, verdicts
from tmlang.backends.asserted import Asserted
from tmlang.backends.contract import BackendRefusal, Job, Verdicts
from tmlang.backends.library import isolated
from tmlang.backends.marabou_onnx import SMOOTH, export
from tmlang.backends.marabou_outputs import Ends
from tmlang.backends.marabou_process import Dead, Marabou
from tmlang.backends.polyhedra import Polyhedron, Question, question
from tmlang.backends.probing import falsify, probes

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

NARROW = 4e-6
"""Boxes that move, and nowhere farther than this, were answered with a false unsat."""
CLEARLY = 1e-4
"""The margin of the second question: points that fail by less often do not replay."""
AGREES = 1e-4
"""Greatest difference, relative to the outputs, between what Marabou takes the network to compute and what it does."""
_SMOOTH = "the solver's proofs on sigmoid and tanh are not believed, and it found nothing"
_CLOSE = "the least margin is within the gap between real and float arithmetic"


class Query:
    """``marabou.query``."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def certify(self, job: Job) -> Verdicts:
        with isolated(job.seeds), torch.no_grad():
            asked = question(job)
            gap = gap_of(job, asked)
            with tempfile.TemporaryDirectory(prefix="tmlang-marabou-") as folder:
                path = Path(folder) / "network.onnx"
                operations, scale = export(asked.folded.body, job.x[:1].double(), path)
                with Marabou(path, int(job.arguments["memory"])) as solver:
                    run = _Run(job, asked, solver, gap, scale, smooth=bool(operations & SMOOTH))
                    answers = [run.answer(i) for i in range(len(job.x))]
        return verdicts(job, answers, gap)


@dataclass
class _Run:
    """One batch. The first question is wider than F by more than ``gap``. ``scale`` (size,): the
    solver's units. ``smooth``: there are operations on which the solver was wrong, so it may refute and never prove."""

    job: Job
    asked: Question
    solver: Marabou
    gap: Gap
    scale: Tensor
    smooth: bool
    checked: bool = field(default=False)

    def __post_init__(self) -> None:
        """``low``, ``high`` (N, size): the boxes in the solver's units.

        A coordinate that the network hardly reads is narrow in these units alone. It is widened there: the larger box
        holds the set, and differs from it by a millionth of what any other coordinate does.
        """
        low, high = (side.reshape(len(side), -1) for side in self.job.sets.outward_box())
        scale = self.scale.numpy()
        self.low, self.high = low / scale, high / scale
        wider = np.where((self.high - self.low < 2 * NARROW) & (high - low >= NARROW), NARROW, 0)
        self.low, self.high = self.low - wider, self.high + wider

    def answer(self, i: int) -> Answer:
        """Whatever the process does is an outcome of the unit. What time the verdict leaves, bounds may take."""
        limit = seconds(self.job)
        if limit <= 0:
            return Answer("timeout", "timeout")
        end = time.monotonic() + limit
        answer = self._verdict(i, end)
        tolerance = self.job.arguments.get("outputs")
        if tolerance is None or answer.word in ("error", "timeout"):
            return answer
        bounds, lack = self._outputs(i, float(tolerance), end)
        return replace(answer, message="; ".join(filter(None, (answer.message, lack))) or None, outputs=bounds)

    def _verdict(self, i: int, end: float) -> Answer:
        """Of one unit, before ``end`` (``time.monotonic``)."""
        if (why := self._unbelieved(i)) is not None:
            return Answer("unknown", why)
        found = falsify(self.asked, self.job, i)
        if found is not None:
            return Answer("broken", "found by the search in front of the solver", found)
        try:
            self._same_network()
            return self._decided(i, end)
        except Dead as dead:
            return Answer("timeout" if dead.killed else "error", str(dead))

    def _outputs(self, i: int, tolerance: float, end: float) -> tuple[OutputBounds | None, str | None]:
        """Bounds of the outputs by the same questions as the verdict, believed under the same conditions."""
        if self.smooth:
            return None, "no bounds of outputs: the solver's proofs on sigmoid and tanh are not believed"
        if self._unbelieved(i) is not None:
            return None, None
        folded, sign = self.asked.folded, 1
        if isinstance(self.job.oracle.opened()[0], Asserted) and folded.model.decide.rule == "argmin":
            # A property speaks of outputs, and scores are their negatives.
            folded, sign = replace(folded, matrix=-folded.matrix, offset=-folded.offset), -1

        def answers(row: Tensor, level: float) -> np.ndarray | bool | None:
            left = end - time.monotonic()
            if left <= 0:
                return None
            part = Polyhedron(sign * row[None], torch.tensor([-level], dtype=torch.float64))
            answer = self.solver.ask(self._request(i, part, self.gap.margin(i), left), left)
            if answer.get("code") == "sat":
                return self._inside(i, answer["x"])[0]
            return False if answer.get("code") == "unsat" else None

        try:
            self._same_network()
            return Ends(self.job, folded, i, tolerance, answers).bounds()
        except Dead as dead:
            return None, f"no bounds of outputs: {dead}"

    def _unbelieved(self, i: int) -> str | None:
        """Why nothing that the solver says of the box would be believed, if so."""
        width = self.high[i] - self.low[i]
        moving = np.concatenate([width, width * self.scale.numpy()])[np.tile(width > 0, 2)]
        if not len(moving):
            return "nothing moves in this box"
        if moving.min() < NARROW:
            return f"the box is {moving.min():.3g} wide in a coordinate: not believed below {NARROW:g}"
        return None

    def _same_network(self) -> None:
        """Raise :class:`BackendRefusal` unless Marabou computes what the folded object does at several points."""
        if self.checked:
            return
        points = probes(self.job, 0)
        expected = self.asked.folded.body(points)
        answer = self.solver.ask({"points": (points.flatten(1) / self.scale).tolist()}, 60.0 * len(points))
        if "failed" in answer:
            raise BackendRefusal(f"Marabou does not evaluate this network: {answer['failed']}")
        for row, outputs in zip(expected, answer["outputs"], strict=True):
            got = torch.tensor(outputs if outputs is not None else [torch.nan] * len(row), dtype=torch.float64)
            difference = float((got - row).abs().max())
            if not difference <= AGREES * (1 + float(row.abs().max())):
                raise BackendRefusal(f"Marabou takes the network for another one: they differ by {difference:.3g}")
        self.checked = True

    def _decided(self, i: int, end: float) -> Answer:
        offered: np.ndarray | None = None
        open_: list[str] = []
        for part in self.asked.failing[i]:
            answer = self._part(i, part, end)
            if answer.word == "broken":
                return answer
            offered = answer.x if offered is None else offered
            if answer.word != "certified":
                open_.append(answer.message or answer.word)
                if answer.word in ("timeout", "error"):
                    return Answer(answer.word, answer.message, offered)
        if open_:
            return Answer("unknown", open_[0], offered)
        return Answer("certified")

    def _part(self, i: int, part: Polyhedron, end: float) -> Answer:
        """One polyhedron: the wider question, then (where its point is no failure) the narrower one."""
        offered: np.ndarray | None = None
        margins = (-CLEARLY,) if self.smooth else (self.gap.margin(i), -CLEARLY)
        for margin in margins:
            left = end - time.monotonic()
            if left <= 0:
                return Answer("timeout", "timeout", offered)
            answer = self.solver.ask(self._request(i, part, margin, left), left)
            code = answer.get("code", "failed")
            if code == "unsat" and margin > 0:
                return Answer("certified")
            if code == "sat":
                x, fails = self._inside(i, answer["x"])
                offered = x
                if fails:
                    return Answer("broken", None, x)
            elif code != "unsat":
                return _without_answer(code, answer, offered)
        return Answer("unknown", _SMOOTH if self.smooth else _CLOSE, offered)

    def _request(self, i: int, part: Polyhedron, margin: float, seconds: float) -> Mapping[str, Any]:
        """In the outputs of the network: ``matrix @ (M y + o) + offset + margin >= 0``."""
        folded = self.asked.folded
        rows = part.matrix @ folded.matrix
        offsets = part.matrix @ folded.offset + part.offset + margin
        union = [list(zip(rows.tolist(), offsets.tolist(), strict=True))]
        return {"low": self.low[i].tolist(), "high": self.high[i].tolist(), "union": union, "seconds": seconds}

    def _inside(self, i: int, x: Sequence[float]) -> tuple[np.ndarray, bool]:
        """The point as a member of the set, and whether it fails in real arithmetic there."""
        sets = self.job.sets.rows([i])
        with np.errstate(over="ignore"):
            member = sets.project(
                (np.array(x) * self.scale.numpy()).astype(sets.originals.dtype).reshape(sets.originals.shape)
            ).x
        scores = self.asked.folded.scores(torch.from_numpy(member).double())
        return member[0], bool(self.asked.slack(i, scores)[0] > 0)


def _without_answer(code: str, answer: Mapping[str, Any], offered: np.ndarray | None) -> Answer:
    if code == "TIMEOUT":
        return Answer("timeout", "the solver's time was up", offered)
    if code == "UNKNOWN":
        return Answer("unknown", "the solver does not know", offered)
    return Answer("error", f"the solver failed: {answer.get('failed', code)}", offered)
