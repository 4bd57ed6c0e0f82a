"""The spec of a bundle about one of its examples: what declares the threat stays as it was written, the data becomes
that example, the stages become the inputs that were found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from tmlang.base.source import Source, Span
from tmlang.diagnostics.stop import Stop, stop
from tmlang.meaning.values import Artifact
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import EvaluationPlan, Plan
from tmlang.syntax import ast, parse
from tmlang.syntax.printer import format_source

NAME = "incident"
"""The evaluation of a kept example, and the stem of its files."""
_HEAD = "{edition}\n\n# {told}.\n# What it says of another model is asked with `tmc incident` or `tmc run`.\n\n"
_DATA = """\
data {name}: {space} {{
  read:   npz("{file}", inputs: "x", labels: "y", ids: "id", sha256: "{sha256}")
  take:   all
  truth:  published "{truth}"
}}"""
_STAGE = '  attack:       {label} = native.replay("{file}", sha256: "{sha256}")\n'
_EVALUATE = "evaluate {name} of {subject} {{\n{stages}  attribution:  full\n  seed:         {seed}\n}}"
_CLAIM = 'claim "{label} is mended": attack_success({name}, attack: {label}) == 0 %'
Edit = tuple[int, int, str]
Wanted = TypeVar("Wanted")


@dataclass(frozen=True)
class Kept:
    """``told``: what happened, in a line. ``data``: the file of the example; ``inputs``: by label the file of the input
    that a stage found. Every file has its hash."""

    told: str
    data: Artifact
    inputs: Mapping[str, Artifact]


def unpinned(name: str, text: str) -> str:
    """A file of a spec without the hashes of its models: another model is what an incident is for."""
    module = _parsed(name, text)
    edits = [e for d in module.declarations if isinstance(d, ast.Model) for e in _pins(d, text)]
    return _edited(text, 0, len(text), edits)


def incident_text(text: str, plan: Plan, evaluation: EvaluationPlan, kept: Kept) -> str:
    """The text of the spec. ``text``: of the main file that ``plan`` was made from.

    Raises a ``Stop`` (TM852) where the data is declared in a module, which is not rewritten.
    """
    module = _parsed("spec", text)
    asked = next(
        d for d in module.declarations if isinstance(d, ast.Evaluate) and d.name.text == declared_name(evaluation)
    )
    subject = plan.threat(evaluation.subject)
    named = {n.text for n in _nodes(ast.Name, [asked.subject, *(asked.args or ())])} | {subject.data}
    wanted = _closure(module, named)
    if not any(isinstance(d, ast.Data) and d.name.text == subject.data for d in wanted):
        raise stop("TM852", f"the data {subject.data} is declared in a module, and not in the spec itself")
    values = {p.name: str(p.value) for p in plan.parameters if p.changed}
    values |= {name: str(value) for name, value in evaluation.at}
    parts = [_written(d, text, values, subject.data, kept) for d in wanted]
    arguments = "" if asked.args is None else f"({', '.join(_slice(text, a.span) for a in asked.args)})"
    stages = "".join(_STAGE.format(label=label, file=a.path, sha256=a.sha256) for label, a in kept.inputs.items())
    name = next(n for n in (NAME, *(f"{NAME}{i}" for i in range(1, 1000))) if n not in _declared(module))
    parts.append(
        _EVALUATE.format(name=name, subject=asked.subject.text + arguments, stages=stages, seed=evaluation.seed or 0)
    )
    parts += [_CLAIM.format(label=label, name=name) for label in kept.inputs]
    head = _HEAD.format(edition=f"tm {module.edition.text}", told=_one_line(kept.told))
    made = Source("incident", head + "\n\n".join(parts) + "\n")
    laid_out = format_source(made)
    return laid_out if isinstance(laid_out, str) else made.text


def _parsed(name: str, text: str) -> ast.Module:
    found = parse(Source(name, text))
    if found.tree is None:
        raise Stop(*found.diagnostics)
    return found.tree


def _declared(module: ast.Module) -> set[str]:
    return {d.name.text for d in module.declarations if isinstance(getattr(d, "name", None), ast.Name)}  # type: ignore[attr-defined]


def _closure(module: ast.Module, named: set[str]) -> Sequence[ast.Declaration]:
    """In order, what the names mention, and what that mentions; of a spec's smaller things all."""
    always = (ast.Use, ast.Let, ast.Param, ast.Space)
    kept: set[int] = set()
    grown = True
    while grown:
        grown = False
        for i, d in enumerate(module.declarations):
            able = isinstance(d, (ast.Model, ast.Data, ast.Threat)) and d.name.text in named
            if i not in kept and (isinstance(d, always) or able):
                kept.add(i)
                named |= {n.text for n in _nodes(ast.Name, [d])}
                grown = True
    return [d for i, d in enumerate(module.declarations) if i in kept]


def _nodes(kind: type[Wanted], within: Sequence[Any]) -> Iterator[Wanted]:
    """The nodes of one kind in the order of the text, one within another too."""
    for node in within:
        if isinstance(node, kind):
            yield node
        if isinstance(node, tuple):
            yield from _nodes(kind, node)
        elif is_dataclass(node) and not isinstance(node, Span):
            yield from _nodes(kind, [getattr(node, f.name) for f in fields(node)])


def _written(d: ast.Declaration, text: str, values: Mapping[str, str], data: str, kept: Kept) -> str:
    """A declaration as it stands, but for the data, the hashes of models and the values of parameters."""
    if isinstance(d, ast.Data) and d.name.text == data:
        truth = _one_line(kept.told).replace("\\", "\\\\").replace('"', '\\"')
        return _DATA.format(name=data, space=d.space.text, file=kept.data.path, sha256=kept.data.sha256, truth=truth)
    edits: list[Edit] = []
    if isinstance(d, ast.Model):
        edits = list(_pins(d, text))
    if isinstance(d, ast.Param) and d.name.text in values:
        edits = [(d.value.span.start, d.value.span.end, values[d.name.text])]
    start = d.doc[0].span.start if d.doc else d.span.start
    return _edited(text, start, d.span.end, edits)


def _pins(model: ast.Model, text: str) -> Iterator[Edit]:
    """The ``sha256:`` arguments of a model's calls, each with the comma in front of it."""
    for call in _nodes(ast.Call, [model]):
        for arg in call.args:
            if arg.name is not None and arg.name.text == "sha256":
                before = re.search(r",\s*$", text[: arg.span.start])
                yield before.start() if before else arg.span.start, arg.span.end, ""


def _slice(text: str, span: Span) -> str:
    return text[span.start : span.end]


def _edited(text: str, start: int, end: int, edits: Sequence[Edit]) -> str:
    """``text[start:end]`` with the edits, which do not overlap."""
    parts, at = [], start
    for begin, stop_, new in sorted(edits):
        parts += [text[at:begin], new]
        at = stop_
    return "".join([*parts, text[at:end]])


def _one_line(told: str) -> str:
    """``told`` with whatever could end a line or a comment written as an escape."""
    return json.dumps(told, ensure_ascii=True)[1:-1] if not told.isprintable() else told
