"""The figures of a report: what each shows, and which evaluations it can be drawn of at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tmlang.base.frozen import dataclass
from tmlang.meaning.models import Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Ball, Property, Shift, Subject, Threat
from tmlang.meaning.values import Symbol, Value


@dataclass(frozen=True, slots=True)
class Shown:
    """What a spec says of one evaluation; ``roles``: of its stages, in order; ``curved``: whether a curve runs;
    ``bounded``: whether a stage is asked to bound every output."""

    name: str
    subject: Subject
    model: Model
    space: Space
    roles: Sequence[str]
    curved: bool
    bounded: bool


def bounds_outputs(arguments: Iterable[tuple[str, Value]]) -> bool:
    """Whether the arguments of a stage, as written or as resolved, ask for bounds of every output."""
    asked = dict(arguments).get("outputs")
    return asked not in (None, False) and not (isinstance(asked, Symbol) and asked.name == "false")


Need = Callable[[Shown], "str | None"]
"""Why an evaluation cannot be shown this way, or ``None``."""


def _threat(e: Shown) -> str | None:
    return None if isinstance(e.subject, Threat) else f"{e.name} is of no threat"


def _searched(e: Shown) -> str | None:
    seeks = set(e.roles) - {"certify"}
    return _threat(e) or (None if seeks else f"{e.name} only certifies, so no failing input is sought")


def _attacked(e: Shown) -> str | None:
    return _threat(e) or (None if "attack" in e.roles else f"{e.name} has no attack")


def _two_attacks(e: Shown) -> str | None:
    return _threat(e) or (None if e.roles.count("attack") > 1 else f"{e.name} has fewer than two attacks")


def _picture(e: Shown) -> str | None:
    return _searched(e) or (None if e.space.is_picture else f"inputs of {e.space.name} are no pictures")


def _features(e: Shown) -> str | None:
    return _searched(e) or (None if e.space.features else f"{e.space.name} has no named features: use image_pairs")


def _distance(e: Shown) -> str | None:
    found = _searched(e)
    if found or not isinstance(e.subject, Threat):
        return found
    one = e.subject.minimize is not None or (isinstance(e.subject.allow, Ball) and e.subject.allow.radius is not None)
    return None if one else f"{e.subject.name} has no one distance: its set is no single ball of one radius"


def _certified(e: Shown) -> str | None:
    return _threat(e) or (None if "certify" in e.roles else f"{e.name} has no certifier, so no margin is proved")


def _bounds(e: Shown) -> str | None:
    if (why := _threat(e)) is not None or e.bounded:
        return why
    return f"no stage of {e.name} bounds every output: write `outputs: true` in a certifier, or a tolerance in Marabou"


def _bounds_of_anything(e: Shown) -> str | None:
    return None if isinstance(e.subject, Property) and e.bounded else _bounds(e)


def _rejects(e: Shown) -> str | None:
    abstains = e.model.abstains
    return _searched(e) or (None if abstains else f"{e.model.name} never rejects")


def _curve(e: Shown) -> str | None:
    return _threat(e) or (None if e.curved else f"{e.name} has no `curve:`, so there is one radius only")


def _shift(e: Shown) -> str | None:
    return None if isinstance(e.subject, Shift) else f"{e.name} is of no shift: nothing corrupts its inputs at random"


def _counted(e: Shown) -> str | None:
    return f"{e.name} is of a property, which has one verdict and no count" if isinstance(e.subject, Property) else None


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    need: Need


FIGURES: Mapping[str, Figure] = {
    "image_pairs": Figure("original, changed input and signed difference", _picture),
    "perturbation_heatmap": Figure("where the change lies, its channels reduced in four ways", _picture),
    "verdict_summary": Figure("units by their fate, and the time of every stage", _counted),
    "output_bounds": Figure("proved bounds of every output over all units", _bounds),
    "pinned_intervals": Figure("proved bounds of every output of single units", _bounds_of_anything),
    "width_heatmap": Figure("width of the proved bounds by unit and output", _bounds),
    "margin_heatmap": Figure("proved margin by unit, over every class where outputs are bounded", _certified),
    "corruption_accuracy": Figure("accuracy before and after the change, with its interval", _shift),
    "radius_curve": Figure("R between what is proved and what survives, over the curve", _curve),
    "survival_curve": Figure("survival against the work that was spent", _attacked),
    "overlap": Figure("which attack broke what: alone where all were asked, else first", _two_attacks),
    "distances": Figure("how far the failing inputs lie from their originals", _distance),
    "rejection": Figure("decisions before and after the change: right, wrong, rejected", _rejects),
    "measured_margins": Figure("margins of the originals, and of the failing inputs that were found", _searched),
    "margins": Figure("proved margins, and the gap that they must exceed", _certified),
    "changed_features": Figure("the features that moved, in their units", _features),
    "coverage": Figure("what finished and what did not, by stage", _counted),
}
"""The word in ``report { figures: … }`` -> what the figure shows and what it needs."""


def refusal(name: str, e: Shown) -> str | None:
    """Why the figure ``name`` cannot show the evaluation ``e``, or ``None``; the run may still find nothing to show."""
    return FIGURES[name].need(e)
