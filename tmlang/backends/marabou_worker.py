"""The process that Marabou lives in: it may hang, crash or eat memory, and is killed without harm to the run.

``python marabou_worker.py MEGABYTES`` reads requests from standard input and answers on standard output, a line of JSON
each:

* ``{"network": "model.onnx"}`` -> ``{"ready": true}``: what is asked from here on is asked of this network.
* ``{"points": [[x, …], …]}`` -> ``{"outputs": [[y, …] | null, …]}``: what Marabou takes the network to compute.
* ``{"low": [x, …], "high": [x, …], "union": [[[row, offset], …], …], "seconds": s}`` ->
  ``{"code": "sat" | "unsat" | "TIMEOUT" | …, "x": [x, …] | null}``: is there an input of the box whose outputs ``y``
  satisfy ``row @ y + offset >= 0`` for every pair of one of the lists?

Whatever goes wrong with one request is answered with ``{"failed": why}``. The file imports nothing of this package, so
that the process holds Marabou and no more.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1


def main(megabytes: int) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Marabou prints
    _bounded(megabytes)
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if "network" in request:
                solver = Solver(request["network"])
            answer: dict[str, Any] = {"ready": True} if "network" in request else solver.answer(request)
        except Exception as fault:
            answer = {"failed": f"{type(fault).__name__}: {fault}"}
        answers.write(json.dumps(answer) + "\n")


def _bounded(megabytes: int) -> None:
    """Limit the memory, and die with the parent (Linux; elsewhere the closed pipe ends the loop)."""
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return


class Solver:
    """One network, asked many times; every request starts from the network alone."""

    def __init__(self, path: str) -> None:
        import warnings

        warnings.simplefilter("ignore")
        from maraboupy import Marabou, MarabouCore

        self.library, self.core = Marabou, MarabouCore
        self.network = Marabou.read_onnx(path)
        self.inputs = [int(v) for array in self.network.inputVars for v in array.flatten()]
        self.outputs = [int(v) for array in self.network.outputVars for v in array.flatten()]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "points" in request:
            return {"outputs": [self.evaluate(point) for point in request["points"]]}
        return self.decide(request)

    def evaluate(self, point: list[float]) -> list[float] | None:
        _, values = self._solve(point, point, [], 60)
        return [values[v] for v in self.outputs] if values else None

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        code, values = self._solve(request["low"], request["high"], request["union"], request["seconds"])
        return {"code": code, "x": [values[v] for v in self.inputs] if code == "sat" else None}

    def _solve(self, low: list[float], high: list[float], union: list[Any], seconds: float) -> tuple[str, Any]:
        query = self.network.getInputQuery()
        for variable, least, greatest in zip(self.inputs, low, high, strict=True):
            query.setLowerBound(variable, least)
            query.setUpperBound(variable, greatest)
        parts = [[self._equation(row, offset) for row, offset in part] for part in union]
        if len(parts) == 1:
            for equation in parts[0]:
                query.addEquation(equation)
        elif parts:
            # A disjunction of conjunctions: one list per alternative.
            self.core.addDisjunctionConstraint(query, parts)
        options = self.library.createOptions(verbosity=0, timeoutInSeconds=max(1, round(seconds)), numWorkers=1)
        code, values, _ = self.core.solve(query, options, os.devnull)
        return str(code), values

    def _equation(self, row: list[float], offset: float) -> Any:
        equation = self.core.Equation(self.core.Equation.GE)
        for variable, coefficient in zip(self.outputs, row, strict=True):
            if coefficient:
                equation.addAddend(coefficient, variable)
        equation.setScalar(-offset)
        return equation


if __name__ == "__main__":
    main(int(sys.argv[1]))
