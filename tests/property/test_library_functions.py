"""This torch's tanh and sigmoid are within the error that proofs of rounding take them to have.

Vector and scalar code are looked at apart: torch takes the latter where numbers do not lie side by side, and for what a
vector leaves over. Against float64, whose own error is 2^29 times finer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tmlang.backends.enclosing import FUNCTION, ROUNDOFF, UNDERFLOW, gamma

Function = Callable[[torch.Tensor], torch.Tensor]
CHUNK = 1 << 22
ALL = 1 << 32


def floats(numbers: range) -> torch.Tensor:
    """The finite float32 numbers among those whose bits are ``numbers``."""
    bits = torch.arange(numbers.start - ALL // 2, numbers.stop - ALL // 2, numbers.step, dtype=torch.int64)
    x = bits.to(torch.int32).view(torch.float32)
    return x[x.isfinite()]


def chunks(step: int, start: int = 0) -> Iterator[torch.Tensor]:
    for at in range(start, ALL, step * CHUNK):
        yield floats(range(at, min(at + step * CHUNK, ALL), step))


def apart(function: Function, x: torch.Tensor) -> torch.Tensor:
    wide = torch.empty(len(x), 2)
    wide[:, 0] = x
    return function(wide[:, 0])


def real(function: Function, x: torch.Tensor) -> torch.Tensor:
    """float64 values; where all of a chunk is so near zero, or so far from it, that one term of the series says
    everything to 2^-26, that term in float32, which is many times faster."""
    size = x.abs()
    if function is torch.tanh:
        if float(size.max()) < 2.0**-14:
            return x
        if float(size.min()) > 20:
            return x.sign()
    elif float(size.max()) < 2.0**-26:
        return torch.full_like(x, 0.5)
    elif float(size.min()) > 128:
        return (x > 0).float()
    return function(x.double())


def worst(function: Function, parts: Iterator[torch.Tensor]) -> list[float]:
    """By vector and by scalar code, the greatest relative error beyond what underflows, in roundoffs."""
    found = [0.0, 0.0]
    for x in parts:
        if not len(x):
            continue
        exact = real(function, x)
        for i, computed in enumerate((function(x), apart(function, x))):
            off = (computed.to(exact.dtype) - exact).abs() - UNDERFLOW
            share = torch.where(off > 0, off / exact.abs(), 0.0)
            assert not bool(share.isnan().any())
            found[i] = max(found[i], float(share.max()) / ROUNDOFF)
    return found


@pytest.mark.parametrize("function", [torch.tanh, torch.sigmoid])
def test_one_of_4099_numbers(function: Function) -> None:
    off = worst(function, chunks(4099, 7))
    assert all(0.5 < o <= gamma(FUNCTION) / ROUNDOFF for o in off), off


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("function", [torch.tanh, torch.sigmoid])
def test_every_number(function: Function) -> None:
    off = worst(function, chunks(1))
    print(function, off)
    assert all(0.5 < o <= gamma(FUNCTION) / ROUNDOFF for o in off), off


def test_the_bound_leaves_little_room() -> None:
    """A sigmoid is off by almost two roundoffs, so a bound of one would be found out."""
    assert max(worst(torch.sigmoid, chunks(4099, 7))) > 1.9
