"""What is known of pictures as networks were trained with them: means and deviations of values between 0 and 1."""

from __future__ import annotations

from fractions import Fraction

from tmlang.meaning.threats import Allowed, Ball, Both, Either, Threat

Numbers = tuple[Fraction, ...]


def _numbers(*texts: str) -> Numbers:
    return tuple(map(Fraction, texts))


STANDARDIZED: tuple[tuple[str, Numbers, Numbers], ...] = (
    ("ImageNet", _numbers("0.485", "0.456", "0.406"), _numbers("0.229", "0.224", "0.225")),
    ("CIFAR-10", _numbers("0.4914", "0.4822", "0.4465"), _numbers("0.2471", "0.2435", "0.2616")),
    ("CIFAR-10", _numbers("0.4914", "0.4822", "0.4465"), _numbers("0.2470", "0.2435", "0.2616")),
    ("CIFAR-10", _numbers("0.4914", "0.4822", "0.4465"), _numbers("0.2023", "0.1994", "0.2010")),
    ("CIFAR-100", _numbers("0.5071", "0.4865", "0.4409"), _numbers("0.2673", "0.2564", "0.2762")),
    ("SVHN", _numbers("0.4377", "0.4438", "0.4728"), _numbers("0.1980", "0.2010", "0.1970")),
    ("MNIST", _numbers("0.1307"), _numbers("0.3081")),
    ("Fashion-MNIST", _numbers("0.2860"), _numbers("0.3530")),
)
"""(whose, mean, deviation), as ``std.images`` has them, red first."""

_UNITLESS = ("l0", "pixels_changed")


def measured(allow: Allowed | None) -> tuple[Ball, ...]:
    """The balls of an allowed set whose radius has the unit of the space: not those that count what changes."""
    if isinstance(allow, (Both, Either)):
        return tuple(ball for part in allow.parts for ball in measured(part))
    return (allow,) if isinstance(allow, Ball) and allow.norm not in _UNITLESS else ()


def measures(threat: Threat) -> bool:
    """Whether a threat measures lengths in the unit of its space."""
    return bool(measured(threat.allow)) or (threat.minimize is not None and threat.minimize[0] not in _UNITLESS)
