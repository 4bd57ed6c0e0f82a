"""The attacked object, its space and its data in plain English."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tmlang.meaning.models import Data, Model, RejectWhen, Take
from tmlang.meaning.spaces import Cell, Space
from tmlang.plan.written import number


def object_words(model: Model, space: Space) -> str:
    parts = [f"The attacked object `{model.name}` takes {space_words(space)}"]
    inside = [f"`{s.name}`" for s in model.steps]
    network = {"linear": "a linear network", "remote": "a remote network"}.get(model.network.kind, "the network")
    if model.network.source is not None:
        network += f" `{model.network.source.path}`"
    if model.ensemble is not None:
        network = f"an ensemble ({model.ensemble[1]})"
    parts.append(f"applies {listed([*inside, network])} and decides {_decide(model)}")
    text = f"{parts[0]}, {parts[1]}."
    if model.reject:
        text += f" It rejects {listed([_reject(r) for r in model.reject], 'or')}."
    else:
        text += " It never rejects."
    return (
        text
        + {
            "never": "",
            "per_request": " It draws afresh on every request.",
            "seeded": f" Its draws are fixed by the seed {model.random.seed}, because {model.random.reason}.",
        }[model.random.kind]
    )


def _decide(model: Model) -> str:
    d = model.decide
    ties = {"lowest": "the lowest index on ties", "reject": "a rejection on ties", "error": "no decision on ties"}
    unfit = {"fail": "a failure", "reject": "a rejection", "error": "no decision"}[d.non_finite]
    said = [ties.get(d.ties, f"`{d.ties}` on ties")] if d.ties else []
    tied = f" ({', '.join([*said, f'{unfit} where the scores are not finite'])})"
    if d.rule == "threshold":
        assert d.value is not None
        return f"`{d.positive}` when {d.quantity} {sign(d.op or '')} {number(d.value)}, else `{d.negative}`{tied}"
    if d.rule == "most_likely":
        tied = ""
    return {
        "argmax": "for the greatest output",
        "argmin": "for the least output",
        "majority": f"by the majority of {d.draws} draws",
        "mean": f"by the mean of {d.draws} draws",
        "most_likely": "for the class that a draw most likely gives (the ideal vote)",
    }[d.rule] + tied


def _reject(r: RejectWhen) -> str:
    where = f"class {number(r.value)}" if r.quantity == "class" else f"{r.quantity} {sign(r.op)} {number(r.value)}"
    calibrated = f" (calibrated on `{r.calibrated_on}`)" if r.calibrated_on else ""
    return f"when {where}{calibrated}"


def space_words(space: Space) -> str:
    """``inputs of the space `px`: 3 × 32 × 32 numbers in [0, 1], stored as float32``."""
    if space.features:
        shown = [f"`{f}` {_cell(space.cell(i))}" for i, f in enumerate(space.features)]
        body = f"{len(space.features)} features ({'; '.join(shown)})" if len(shown) <= 8 else f"{len(shown)} features"
    else:
        shape = " × ".join(map(str, space.shape))
        cells = dict.fromkeys(space.cells)
        body = f"{shape} numbers, each {' or '.join(map(_cell, cells))}"
    stored = "" if space.is_lattice else f", stored as {space.dtype}"
    delivered = f", delivered as {space.delivery.codec}" if space.delivery else ""
    return f"inputs of the space `{space.name}`: {body}{stored}{delivered}"


def _cell(cell: Cell) -> str:
    if cell.kind == "category":
        return "one of " + ", ".join(cell.categories)
    unit = f" {cell.unit}" if cell.unit else ""
    step = (
        ""
        if cell.kind == "real"
        else ", whole numbers"
        if cell.step == 1
        else f" in steps of {number(cell.step or Fraction(1))}"
    )
    return f"in [{number(cell.low)}, {number(cell.high)}]{unit}{step}"


def data_words(data: Data) -> str:
    taken = ", then ".join(_take(t) for t in data.takes)
    truth = {
        "published": f"as published ({data.truth.text})",
        "reviewed": f"as reviewed (`{data.truth.file.path if data.truth.file else ''}`)",
        "predicted": f"as predicted by `{data.truth.model}`",
    }[data.truth.kind]
    return f"The examples of `{data.name}` come from `{data.file.path}` ({taken}), with labels {truth}."


def _take(take: Take) -> str:
    return {
        "all": "all of them",
        "first": f"the first {take.count}",
        "every": f"every {take.count}th",
        "sample": f"a sample of {take.count}, seed {take.seed}",
        "ids": f"those listed in `{take.file.path if take.file else ''}`",
        "where_label": f"those of class {take.label}",
        "correct_under": f"those that `{take.model}` gets right",
    }[take.kind]


def unit_of(space: Space, feature: str) -> str:
    if feature not in space.features:
        return ""
    unit = space.cell(space.features.index(feature)).unit
    return f" {unit}" if unit else ""


def listed(parts: Sequence[str], word: str = "and") -> str:
    parts = list(parts)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}" if parts else ""


def sign(op: str) -> str:
    return {"<=": "≤", ">=": "≥", "==": "="}.get(op, op)


def share(value: Fraction) -> str:
    return f"{number(value * 100)} %"
