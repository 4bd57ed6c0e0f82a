"""Figures of the evidence by name (``meaning.figures``), as SVG and PNG: the same bytes for the same records.

The only package that imports matplotlib. Each figure is a function of one evaluation's :class:`Material`; where the
records hold nothing to show it raises :class:`NothingToShow` with the reason, which stands in the figure's place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from matplotlib.figure import Figure

from tmlang.meaning.figures import FIGURES
from tmlang.meaning.values import Call, Symbol
from tmlang.report.drawing import Drawing
from tmlang.report.figures.attacked import measured_margins
from tmlang.report.figures.bounds import output_bounds, pinned_intervals, width_heatmap
from tmlang.report.figures.changes import changed_features, image_pairs, perturbation_heatmap
from tmlang.report.figures.counts import corruption_accuracy, coverage, overlap, rejection, verdict_summary
from tmlang.report.figures.curves import distances, radius_curve, survival_curve
from tmlang.report.figures.proofs import margin_heatmap, margins
from tmlang.report.figures.style import STYLE, png, svg
from tmlang.report.material import Material, NothingToShow

import matplotlib as mpl  # isort: skip

_DRAWN: Mapping[str, Callable[[Material], tuple[Figure, str]]] = {
    "image_pairs": image_pairs,
    "perturbation_heatmap": perturbation_heatmap,
    "verdict_summary": verdict_summary,
    "corruption_accuracy": corruption_accuracy,
    "radius_curve": radius_curve,
    "survival_curve": survival_curve,
    "overlap": overlap,
    "distances": distances,
    "rejection": rejection,
    "measured_margins": measured_margins,
    "margins": margins,
    "margin_heatmap": margin_heatmap,
    "output_bounds": output_bounds,
    "pinned_intervals": pinned_intervals,
    "width_heatmap": width_heatmap,
    "changed_features": changed_features,
    "coverage": coverage,
}

"""The figures of ``meaning.figures`` that can be drawn; the others are refused there."""


def drawings(calls: Iterable[Call], materials: Sequence[Material]) -> Iterator[Drawing]:
    """Each figure of each evaluation that it names, in the order of the spec; one without names is of all."""
    for call in calls:
        named = [value.name for name, value in call.args if name == "" and isinstance(value, Symbol)]
        yield from _of_each(call.name, [m for m in materials if not named or m.declared in named])


def all_that_fit(materials: Sequence[Material]) -> Iterator[Drawing]:
    """Every figure that can show an evaluation; what cannot be shown is left out."""
    for name in FIGURES:
        yield from (d for d in _of_each(name, materials) if not d.refused)


def _of_each(name: str, materials: Sequence[Material]) -> Iterator[Drawing]:
    """A figure over a curve shows all its points at once, so it is drawn at the first."""
    once = {m.declared: m for m in reversed(materials)}
    for m in materials:
        if name != "radius_curve" or once[m.declared] is m:
            yield draw(name, m)


def draw(name: str, m: Material) -> Drawing:
    """One figure of one evaluation, or the reason why there is none."""
    title = FIGURES[name].title
    why = m.refusal(name)
    if why is None:
        try:
            with mpl.rc_context(STYLE):
                figure, says = _DRAWN[name](m)
                return Drawing(name, m.view.name, title, says, svg(figure), png(figure))
        except NothingToShow as nothing:
            why = str(nothing)
        except Exception as error:  # a figure never costs the evidence: the page says so in its place (TM831)
            why = f"drawing it failed with {type(error).__name__}: {error}; this is a fault of tmlang, please report it"
            return Drawing(name, m.view.name, title, "", refused=why, fault=True)
    return Drawing(name, m.view.name, title, "", refused=why)
