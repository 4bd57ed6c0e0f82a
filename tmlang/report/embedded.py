"""The examples as JSON inside the page, for its script: short, and without power over the page around it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from tmlang.report.examples import FATES, Example
from tmlang.report.failures import FailureView
from tmlang.report.ink import picture_uris
from tmlang.report.view import EvaluationView, View


def embedded(view: View) -> Markup:
    """``words`` holds every text once; rows and steps name texts by their position in it (templates/examples.js)."""
    words: dict[str, int] = {"": 0}
    evaluations = [_evaluation(e, words) for e in view.evaluations]
    text = json.dumps({"words": list(words), "fates": FATES, "evaluations": evaluations}, separators=(",", ":"))
    # Inside a script element only "<" could end it (HTML, "restrictions for contents of script elements").
    return Markup(text.replace("<", "\\u003c"))


def policy(script: str) -> str:
    """The page's content security policy: this one script, inline styles, pictures of its own, and no request."""
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _evaluation(e: EvaluationView, words: dict[str, int]) -> Mapping[str, Any]:
    return {
        "rows": [_row(x, words) for x in e.examples],
        "shown": {f.unit: _shown(f) for f in e.failures if f.pictures or f.changes},
    }


def _row(x: Example, words: dict[str, int]) -> list[Any]:
    def word(text: str) -> int:
        return words.setdefault(text, len(words))

    steps = []
    for s in x.steps:
        file, _, row = s.place.partition("#")
        said = (word(s.stage), word(s.outcome), word(s.decision), word(s.distance), word(s.margin))
        steps.append([*said, s.queries, round(s.seconds, 6), word(file), int(row)])
    texts = (word(x.unit), word(x.label), word(x.clean), word(x.fate), word(x.decision), word(x.found_by))
    return [*texts, x.distance, x.queries, round(x.seconds, 6), steps]


def _shown(f: FailureView) -> Mapping[str, Any]:
    return {
        "pictures": None if f.pictures is None else picture_uris(f.pictures),
        "reach": "" if f.pictures is None else f.pictures.reach,
        "changes": [(c.feature, c.before, c.after, c.change) for c in f.changes],
    }
