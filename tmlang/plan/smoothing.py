"""Randomized smoothing: which objects the theorem is about, and which radii a number of draws can prove.

With ``g(x) = argmax_c P[f(x + e) = c]``, ``e ~ N(0, sigma^2 I)``: if one class has probability at least ``p > 1/2`` at
``x``, then ``g`` gives it on the whole open l2 ball of radius ``sigma * Phi^-1(p)`` (Cohen, Rosenfeld, Kolter:
Certified adversarial robustness via randomized smoothing (ICML 2019), theorem 1 with p_B = 1 - p_A). From ``n`` draws
that all agree, ``p >= alpha^(1/n)`` at confidence ``1 - alpha``, and no other outcome proves more.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, erfc, expm1, log, log1p, sqrt

from tmlang.base.frozen import dataclass
from tmlang.diagnostics.suggest import listed
from tmlang.meaning.evaluations import Curve
from tmlang.meaning.models import Model
from tmlang.meaning.threats import Allowed, Ball, Both, Either, Threat
from tmlang.meaning.values import Symbol
from tmlang.plan.written import number

_MOST = 10**9
"""Draws that anybody makes of one example."""


def sigma_of(model: Model) -> Fraction | None:
    """The standard deviation of the noise that the theorem speaks of, in units of the external space; ``None`` where
    the model is no such object (:func:`misfit` says why)."""
    return None if misfit(model) else _arguments(model)[1]


def misfit(model: Model) -> str | None:
    """Why the theorem does not cover a model that answers with its most likely draw; ``None`` when it does."""
    first = model.steps[0].name if model.steps else None
    if first != "noise":
        return f"the noise must be added to the input itself, and `{first}` stands before it" if first else "no noise"
    kind, sigma = _arguments(model)
    if kind != "gaussian":
        return f"the theorem is about Gaussian noise, and this is {kind}"
    if sigma is None:
        return "the theorem is about one sigma for all coordinates"
    if any(step.random for step in model.steps[1:]):
        return "a second step draws as well"
    if model.ensemble is not None and model.ensemble[0]:
        return "the members of the ensemble are objects of their own, which may draw as well"
    return None


def _arguments(model: Model) -> tuple[str, Fraction | None]:
    args = dict(model.steps[0].args)
    kind, sigma = args.get("kind"), args.get("sigma")
    return kind.name if isinstance(kind, Symbol) else str(kind), sigma if isinstance(sigma, Fraction) else None


def squared_radius(allow: Allowed | None, size: int) -> Fraction | None:
    """The square of the radius of an l2 ball that contains the set, exact: the least of the balls of an intersection,
    the greatest of a union. ``size``: coordinates of the space. ``None`` where there is none."""
    if isinstance(allow, Ball):
        return None if allow.radius is None else _square(allow, allow.radius, size)
    if not isinstance(allow, (Both, Either)):
        return None
    squares = [squared_radius(part, size) for part in allow.parts]
    known = [square for square in squares if square is not None]
    if isinstance(allow, Either):
        return max(known) if len(known) == len(squares) else None
    return min(known, default=None)


def stretched(norm: str, size: int) -> int | None:
    """The square of the longest vector, in l2, of length 1 in ``norm``, over ``size`` coordinates; ``None`` where there
    is none."""
    return {"l2": 1, "l1": 1, "l2_rms": size, "linf": size}.get(norm)


def _square(ball: Ball, radius: Fraction, size: int) -> Fraction | None:
    longest = stretched(ball.norm, size)
    return None if longest is None else (radius + ball.tolerance) ** 2 * longest


def farthest(sigma: Fraction, n: int, alpha: Fraction) -> float:
    """The radius that ``n`` draws prove when all agree: ``sigma * Phi^-1(alpha^(1/n))``; below 0 they prove nothing."""
    return float(sigma) * upper_quantile(-expm1(log(alpha) / n))


def least_draws(squared: Fraction, sigma: Fraction, alpha: Fraction) -> int | None:
    """The least ``n`` whose :func:`farthest` lies beyond it; ``None`` where no float holds such a chance."""
    above = erfc(sqrt(squared) / float(sigma) / sqrt(2)) / 2
    return None if above < 1e-300 else max(1, ceil(log(alpha) / log1p(-above) * (1 + 1e-12)))


def upper_quantile(above: float) -> float:
    """``z`` with ``P[N(0, 1) > z] = above``."""
    from statistics import NormalDist

    if above >= 1:
        return float("-inf")
    return -NormalDist().inv_cdf(above) if above > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class TooFew:
    """What so few draws cannot do: TM624 where they certify nothing that is asked, TM625 where a part of it."""

    code: str
    message: str
    notes: tuple[str, ...]
    help: str | None


def too_few(
    threat: Threat, sigma: Fraction, size: int, curves: Sequence[Curve], n: int, alpha: Fraction
) -> TooFew | None:
    """Which radii of an evaluation ``n`` draws never certify, whatever the model; ``None`` when they reach all."""
    asked = _asked(threat, curves, size)
    reach, name = farthest(sigma, n, alpha), _naming(alpha)
    lost = [r for r, square in asked.items() if reach <= 0 or Fraction(reach) ** 2 <= square]
    if not lost and n >= name:
        return None
    notes = [f"{n} draws that all agree prove {max(reach, 0):.4g}: {number(sigma)} Phi^-1({number(alpha)}^(1/{n}))"]
    if n < name:
        notes.append(f"naming the more likely of two classes takes {name} draws: 2 (1/2)^{name} <= {number(alpha)}")
    nothing = len(lost) == len(asked) or n < name
    wanted = least_draws(min(asked.values()) if nothing else max(asked.values()), sigma, alpha)
    possible = wanted is not None and wanted <= _MOST
    help = f"n: {max(wanted or 0, name)} is the least" if possible else "no number of draws does: take more noise"
    if nothing:
        message = f"{n} draws can never certify anything that `{threat.name}` allows"
        return TooFew("TM624", message, tuple(notes), help)
    message = f"{n} draws can never certify a radius of {listed([number(r) for r in lost])}: 0 %, whatever the model"
    return TooFew("TM625", message, tuple(notes), help)


def _naming(alpha: Fraction) -> int:
    """The least number of draws after which the most likely class can be named at all: the two-sided test between two
    classes needs ``2 * (1/2)^n <= alpha`` (the paper's PREDICT)."""
    n = 1
    while Fraction(2, 2**n) > alpha:
        n += 1
    return n


def _asked(threat: Threat, curves: Sequence[Curve], size: int) -> dict[Fraction, Fraction]:
    """The radii at which an evaluation looks, rising, each with the square of its l2 radius: the threat's own, and
    those of its curve (a certificate proves a radius of its own, which may be longer)."""
    ball = threat.allow
    if not isinstance(ball, Ball) or ball.radius is None:
        whole = squared_radius(threat.allow, size)
        return {} if whole is None else {Fraction(sqrt(whole)): whole}
    points = {ball.radius, *(v for curve in curves if curve.parameter == "radius" for v in curve.values)}
    squares = {v: _square(ball, v, size) for v in sorted(points)}
    return {v: square for v, square in squares.items() if square is not None}
