"""``tmc new``: a commented spec that checks, from flags or from answers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.base.source import Source
from tmlang.cli.front import exit_code, read_spec, show

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc new first.tm                                  asks, one question a line
  tmc new first.tm --yes                            takes what stands in brackets for every answer
  tmc new mine.tm --shape 3,32,32 --model net.onnx --data test.npz --norm linf --radius 8/255
  tmc new door.tm --features "temp:-40:85:degC load:0:2:kN" --classes ok,alarm --model door.onnx --data door.csv \\
      --radius "2 'degC'" --mutable temp
"""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that the spec needs: its flag, the question, and what is taken when nothing is answered."""

    flag: str
    text: str
    default: str


QUESTIONS = (
    Question("shape", "shape of one input, as channels,height,width (leave it for named features)", "1,28,28"),
    Question("features", "named features instead, as name:low:high[:unit], separated by spaces", ""),
    Question("range", "range of every value of the tensor", "0,1"),
    Question("classes", "number of classes, or their names separated by commas", "10"),
    Question("model", "model file: .onnx, .pt, .pt2, or file.py:factory for torch code", "model.onnx"),
    Question("weights", "weights of torch code (.safetensors)", "weights.safetensors"),
    Question("data", "data file: .npz or .csv", "test.npz"),
    Question("norm", "norm of the ball: linf, l2 or l1", "linf"),
    Question("radius", "radius, with its unit if the features have one", "8/255"),
    Question("mutable", "what the attacker may change: all, or names of features", "all"),
    Question("access", "what the attacker sees: white_box, scores or decisions", "white_box"),
)
"""In the order in which they are asked; each is also a flag."""

_ATTACK = {"white_box": "native.apgd(loss: ce, steps: 100)", "decisions": "native.decision_search(steps: 500)"}
_ATTACK_ON_SCORES = {"linf": "native.square(queries: 5000)", "l2": "native.square(queries: 5000)"}
_READERS = {".npz": 'npz({path}, inputs: "x", labels: "y"{hash})', ".csv": 'csv({path}, label: "label"{hash})'}
_NETWORKS = {".onnx": "onnx", ".pt": "torchscript", ".pt2": "exported"}


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "new",
        help="write a commented spec that checks, to start from",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="the spec to write, for instance first.tm")
    for question in QUESTIONS:
        parser.add_argument(f"--{question.flag}", help=f"{question.text} [{question.default or 'none'}]")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def run(args: argparse.Namespace) -> int:
    target = Path(args.file)
    if target.exists() and not args.force:
        sys.stderr.write(f"tmc new: {target} is there already; choose another name, or say --force\n")
        return 2
    if not target.parent.is_dir():
        sys.stderr.write(f"tmc new: there is no folder {target.parent}\n")
        return 2
    text = spec_text(_answers(args), target.parent)
    front = read_spec(str(target), {}, text)
    show(front.diagnostics, front.sources)
    if front.plan is None:
        sys.stderr.write("tmc new: nothing is written, since these answers do not mean one thing\n")
        return exit_code(front.diagnostics)
    from tmlang.base.files import write_atomically
    from tmlang.syntax.printer import format_source

    laid_out = format_source(Source(str(target), text))
    assert isinstance(laid_out, str)  # it has a plan, so it has a tree
    write_atomically(target, laid_out.encode("utf-8"))
    print(f"{target}: written; read its comments, then: tmc check {target} --artifacts")
    return 0


def _answers(args: argparse.Namespace) -> dict[str, str]:
    """What the flags say, then what is answered at a terminal, then what stands in brackets."""
    ask: Callable[[Question], str] = _ask if sys.stdin.isatty() and not args.yes else lambda q: q.default
    answers: dict[str, str] = {}
    for question in QUESTIONS:
        given = getattr(args, question.flag)
        wanted = not (
            (question.flag in ("shape", "range") and (args.features or answers.get("features")))
            or (question.flag == "features" and args.shape)
            or (question.flag == "weights" and ":" not in answers.get("model", ""))
        )
        answers[question.flag] = given if given is not None else ask(question) if wanted else ""
    return answers


def _ask(question: Question) -> str:
    sys.stderr.write(f"{question.text} [{question.default}]: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip() or question.default


def spec_text(answers: dict[str, str], folder: Path) -> str:
    """The spec for ``answers``; hashes of files that lie in ``folder`` are written into it."""
    space = "reading" if answers["features"] else "px"
    return f"""\
tm 1

{_space(answers, space)}

## The attacked object: everything between that input and the decision.
model victim: {space} -> {_classes(answers["classes"])} {{
  # step:   normalize(mean: (…), std: (…))     write every preprocessing step here, in order
  network:  {_network(answers, folder)}
  decide:   argmax ties lowest                 # what happens when two classes tie
  random:   never                              # the same input always gets the same answer
}}

data test: {space} {{
  read:   {_read(answers["data"], folder)}
  take:   first 100
  truth:  published "where the labels come from"
}}

threat ball on victim over test {{
  allow:         {answers["norm"]} <= {answers["radius"]} in {space}
  mutable:       {answers["mutable"]}
  perturbation:  per example                   # another one for every example
  goal:          untargeted                    # any wrong answer counts
  access:        {answers["access"]}
  clean_errors:  fail                          # an input that is wrong without an attack counts as a failure
}}

evaluate search of ball {{
  attack:  first = {_attack(answers)}
  seed:    0
}}

## Found failures prove weakness; finding none proves nothing: `survival` is an upper bound.
claim "survives this search": survival(search) >= 50 %
"""


def _space(answers: dict[str, str], name: str) -> str:
    head = "## What a person outside the system could hand in, in units that they would recognize.\n"
    if not answers["features"]:
        shape = ", ".join(part.strip() for part in answers["shape"].split(","))
        low, _, high = answers["range"].partition(",")
        return f"{head}space {name}: tensor({shape}) of real[{low.strip()}, {high.strip()}] stored as float32"
    lines = []
    for feature in answers["features"].split():
        title, low, high, unit = (*feature.split(":"), "", "", "")[:4]
        lines.append(f"  {title}: real[{low}, {high}]" + (f" '{unit}'" if unit else ""))
    return f"{head}space {name} {{\n" + "\n".join(lines) + "\n} stored as float32"


def _attack(answers: dict[str, str]) -> str:
    """One that needs no more than is granted, and searches sets of this norm where there is one."""
    on_scores = _ATTACK_ON_SCORES.get(answers["norm"], "native.coordinates(restarts: 5)")
    return _ATTACK.get(answers["access"], on_scores)


def _classes(text: str) -> str:
    return f"classes({text.strip()})" if text.strip().isdigit() else f"{{{', '.join(text.replace(',', ' ').split())}}}"


def _network(answers: dict[str, str], folder: Path) -> str:
    model = answers["model"]
    if ":" in model:
        weights = answers["weights"]
        return f"torch({_quoted(model)}, weights: {_quoted(weights)}{_hash(folder / weights)})"
    return f"{_NETWORKS.get(Path(model).suffix, 'onnx')}({_quoted(model)}{_hash(folder / model)})"


def _read(path: str, folder: Path) -> str:
    reader = _READERS.get(Path(path).suffix, _READERS[".npz"])
    return reader.format(path=_quoted(path), hash=_hash(folder / path))


def _hash(path: Path) -> str:
    """The ``sha256:`` argument of a file that is there; nothing otherwise, and a run will say so."""
    return f',\n                  sha256: "{sha256(path.read_bytes()).hexdigest()}"' if path.is_file() else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
