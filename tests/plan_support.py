"""A small checked program, built by hand, and the manifests of a backend that no library stands behind."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tmlang.base.source import Span
from tmlang.meaning.evaluations import Claim, Evaluation, Measured, Module, Program, StageCall
from tmlang.meaning.models import Data, Decide, Model, Network, Randomness, Take, Truth
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Access, Ball, Goal, Mutable, Threat
from tmlang.meaning.values import Artifact, Call, Value

PX = Space("px", (1, 2, 2), (Cell("real", Fraction(0), Fraction(1)),))
BYTES = replace(PX, cells=(Cell("integer", Fraction(0), Fraction(255), Fraction(1)),))
NET = Model("net", "px", tuple("abcd"), (), Network("torch"), Decide("argmax", "lowest"), Randomness("never"))
TEST = Data("test", "px", Call(("npz",)), Artifact("d.npz"), (Take("first", 10),), Truth("published", "labels"))
LINF = Ball("linf", "px", Fraction(1, 10))
THREAT = Threat(
    "t", "net", "test", LINF, None, Mutable("all"), Goal("untargeted"), Access("white_box"), clean_errors="fail"
)

MANIFEST = """
[backend]
name = "toy"
library = "toylib"
version = "1.0"
import = "no_such_module_toylib"
extra = "attacks"

[not_offered]
crawl = "it returns the original"

[defaults]
class = "nowhere:Toy"
role = "attack"
evidence = "witness"
access = "white_box"
source = "nobody"
goals = ["untargeted", "targeted"]
objects = ["fixed", "random"]
through = ["straight_through"]
norms = ["linf", "l2"]
budget_arguments = ["eps"]
[defaults.carries]
domain = "exact"
mask = "exact"
lattice = "outer"
relations = "inner"
union = "exact"
intersection = "outer"
[defaults.refused]
l1 = { by = "library", because = "it has no l1 step" }
random = { by = "impossible", because = "a random object has no single answer" }

[method.walk]
title = "walk"
aliases = ["stroll"]
cost = { forward = "1 + steps * restarts", backward = "steps * restarts" }
reach = ["steps * step_size"]
run_arguments = { seed = "it comes from `seed:`" }
[method.walk.arguments]
steps = { type = "int", default = "10", low = 1, meaning = "steps" }
restarts = { type = "int", default = "2", low = 1, high = 9, meaning = "restarts" }
step_size = { type = "distance", default = "1/10", meaning = "length of a step" }
[method.walk.arguments.loss]
type = "symbol"
default = "ce"
choices = ["ce", "dlr"]
min_classes = { dlr = 3, "dlr targeted" = 4 }
meaning = "loss that is raised"
[method.walk.arguments.start]
type = "bool"
default = "true"
meaning = "random start"

[method.guess]
title = "guess"
access = "decisions"
through = []
cost = { forward = "n", backward = "0" }
[method.guess.arguments]
n = { type = "int", meaning = "how often it guesses" }

[method.nearest]
title = "nearest"
norms = ["l2"]
minimizes = ["l2"]
minimal = true

[method.box]
title = "interval bounds"
role = "certify"
evidence = "bound"
objects = ["fixed"]
norms = ["linf"]
networks = ["torch", "linear"]
cost = { forward = "1", backward = "0" }

[method.solve]
title = "solver"
status = "described"
class = ""
role = "decide_exactly"
evidence = "complete"
objects = ["fixed"]
norms = ["linf"]
[method.solve.arguments]
timeout = { type = "duration", default = "10 'min'", low = 1, meaning = "time for one unit" }
[method.solve.carries]
property = "exact"

[method.fog]
title = "fog"
role = "corrupt"
evidence = "estimate"
[method.fog.arguments]
severity = { type = "int", low = 1, high = 5, meaning = "strength" }
"""


def at(line: int, column: int = 1, length: int = 1) -> Span:
    return Span("s.tm", 100 * line + column, 100 * line + column + length, line, column, line, column + length)


def call(method: str = "toy.walk", line: int = 20, **args: Value) -> Call:
    """``method(args)`` on one line; argument ``i`` stands at column ``100 + 10 * i``, its value at ``105 + 10 * i``."""
    places = tuple((n, at(line, 100 + 10 * i), at(line, 105 + 10 * i)) for i, n in enumerate(args))
    return Call(tuple(method.split(".")), tuple(args.items()), at(line, 11, 80), places)


def stage(made: Call, role: Any = "attack", label: str = "a", through: Call | None = None) -> StageCall:
    return StageCall(role, label, made, through, origin=made.origin)


def evaluation(*stages: StageCall, **changes: Any) -> Evaluation:
    return replace(Evaluation("e", "t", stages, seed=0), **changes)


def program(*stages: StageCall, **changes: Any) -> Program:
    base = Program(
        edition=1,
        modules=(Module("s.tm", "0" * 64),),
        spaces=(PX,),
        models=(NET,),
        data=(TEST,),
        subjects=(THREAT,),
        evaluations=(evaluation(*stages),),
        claims=(Claim("c", Measured("survival", "e"), ">=", Fraction(1, 2)),),
    )
    return replace(base, **changes)


def manifests(folder: Path) -> Path:
    (folder / "toy.toml").write_text(MANIFEST, encoding="utf-8")
    return folder
