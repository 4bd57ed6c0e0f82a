"""``report.html``: the view as one page that needs nothing but itself (the only module that imports jinja2)."""

from __future__ import annotations

import base64
import re
from functools import cache
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from tmlang.audit.claims import STATUS_WORDS
from tmlang.report.compare import Comparison
from tmlang.report.drawing import Drawing
from tmlang.report.embedded import embedded, policy
from tmlang.report.examples import COUNTED, FATES
from tmlang.report.failures import MOST_PICTURES, FailureView
from tmlang.report.ink import picture_uris, survival_plot, sweep_plot
from tmlang.report.mathtext import to_html
from tmlang.report.numbers import MARKS, NAMES, SIGNS_SAY
from tmlang.report.view import EvaluationView, View, claims_line

_TEMPLATES = Path(__file__).parent / "templates"


def page(view: View) -> str:
    """The page as HTML: every text of the spec and of the records is escaped, its one script is named by its hash, and
    nothing leaves it."""
    script = (_TEMPLATES / "examples.js").read_text(encoding="utf-8")
    return _template("report.html.j2").render(
        view=view,
        style=_style("style"),
        dark=_style("dark"),
        script=Markup(script),
        policy=policy(script),
        examples=embedded(view),
        counted=COUNTED,
        fates=FATES,
        tally=claims_line(view),
        bounded=any(e.bounds.text for e in view.evaluations),
        marks=MARKS,
        statuses=STATUS_WORDS,
        signs_say=SIGNS_SAY,
        names=NAMES,
        plots={e.name: _plot(e) for e in view.evaluations},
        sweep_plots=[sweep_plot(s.parameter, [(r.at, *r.ends) for r in s.rows], s.rests_on) for s in view.sweeps],
        drawings=[(d, _svg_uri(d)) for d in view.drawings],
        pictures={e.name: _pictures(e) for e in view.evaluations},
    )


def comparison_page(comparison: Comparison) -> str:
    """Several bundles side by side, as HTML without any script."""
    return _template("comparison.html.j2").render(c=comparison, style=_style("style"), dark=_style("dark"), names=NAMES)


def _style(name: str) -> Markup:
    return Markup((_TEMPLATES / f"{name}.css").read_text(encoding="utf-8"))


@cache
def _template(name: str) -> Template:
    """Compiled once a process: that takes as long as filling it."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["code"] = _code
    environment.filters["math"] = lambda latex: Markup(to_html(latex))
    return environment.get_template(name)


def _code(text: str) -> Markup:
    """Escaped text with what stands in backquotes set as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text)))


def _svg_uri(d: Drawing) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(d.svg).decode()


def _pictures(e: EvaluationView) -> list[tuple[FailureView, tuple[str, str, str]]]:
    return [(f, picture_uris(f.pictures)) for f in e.failures if f.pictures][:MOST_PICTURES]


def _plot(e: EvaluationView) -> Markup | None:
    if len(e.order) < 3:
        return None
    return survival_plot([(p.label, p.low, p.high) for p in e.order], e.proved, e.rests_on)
