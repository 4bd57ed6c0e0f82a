"""``review.json``: what a person judged of the failing inputs, and whether the rows say the same (docs/bundle.md).

A judgement names an input by its place and by the SHA-256 of its bytes, so it is of that input and of no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import Record
from tmlang.audit.units import is_witness
from tmlang.diagnostics.stop import Stop, stop

REVIEW = "review.json"
_JUDGEMENT = {"candidate": str, "sha256": str, "label_kept": bool}


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one failing input: whether the label of its original still holds for it."""

    candidate: str
    sha256: str
    label_kept: bool


@dataclass(frozen=True, slots=True)
class Review:
    """``by``: who judged, in their own words. ``of``: SHA-256 of the statement of the bundle that was judged."""

    by: str
    of: str
    judged: tuple[Judgement, ...]

    def as_json(self) -> dict[str, Any]:
        rows = [{name: getattr(j, name) for name in _JUDGEMENT} for j in self.judged]
        return {"by": self.by, "of": self.of, "judged": rows}


def review_of(bundle: Bundle) -> Review | None:
    """The review that a bundle holds, if any; TM842 for what is none."""
    if REVIEW not in set(bundle.files()):
        return None
    told = bundle.json(REVIEW)
    rows = told["judged"] if isinstance(told, dict) and told.keys() == {"by", "of", "judged"} else None
    if not isinstance(rows, list) or not all(isinstance(told[key], str) for key in ("by", "of")):
        raise stop("TM842", f"`{REVIEW}` is not read: exactly by, of and judged are needed")
    for row in rows:
        if not isinstance(row, dict) or {k: type(v) for k, v in row.items()} != _JUDGEMENT:
            raise stop("TM842", f"`{REVIEW}` is not read: a judgement has exactly {', '.join(_JUDGEMENT)}")
    return Review(told["by"], told["of"], tuple(Judgement(**row) for row in rows))


def input_hash(bundle: Bundle, candidate: str) -> str:
    """SHA-256 (hex) of the changed input as the bundle stores it."""
    return sha256(bundle.candidate(candidate)[0].tobytes()).hexdigest()


def review_faults(bundle: Bundle, rows: Sequence[Record]) -> Iterator[str]:
    """Where rows and review differ, or a judgement is of another input than it names, or of none that fails."""
    review = review_of(bundle)
    told = {(r.candidate, r.label_kept) for r in rows if r.label_kept is not None}
    judged = [(j.candidate, j.label_kept) for j in review.judged] if review else []
    if not {candidate for candidate, _ in told} <= {r.candidate for r in rows if is_witness(r)}:
        yield "`label_kept` is told of an input that does not fail"
    if len({candidate for candidate, _ in judged}) != len(judged):
        yield f"`{REVIEW}` judges an input twice"
    if told != set(judged):
        yield f"the rows judge {len(told)} failing inputs otherwise than the {len(judged)} of `{REVIEW}`"
    for j in review.judged if review else ():
        if not _is_input(bundle, j):
            yield f"`{REVIEW}` judges another input than `{j.candidate}`"


def _is_input(bundle: Bundle, judgement: Judgement) -> bool:
    try:
        return input_hash(bundle, judgement.candidate) == judgement.sha256
    except Stop:
        return False
