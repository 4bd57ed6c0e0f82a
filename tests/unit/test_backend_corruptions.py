"""Corruptions and noise: the library's nineteen against formulas written here, and laws against their distributions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.ndimage import gaussian_filter

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.domain import Domain
from tmlang.backends.loading import load
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.values import Distance
from tmlang.plan.capability import Capabilities

F = Fraction
BYTE = Cell("lattice", F(0), F(255), F(1))
GREY = Space("page", (32, 32, 1), (BYTE,))
RGB = Space("photo", (33, 40, 3), (BYTE,), order="rgb")
BACKEND = Capabilities().backend("imagecorruptions")
assert BACKEND is not None
NAMES = tuple(BACKEND.methods)
PICTURES = {s.name: np.random.default_rng(7).integers(0, 256, s.shape).astype(np.float32) for s in (GREY, RGB)}


def change(name: str, space: Space, seed: int = 5, **arguments: Any) -> np.ndarray:
    backend, _, method = name.rpartition(".")
    adapter: Any = load(backend or "imagecorruptions", method)
    changed: np.ndarray = adapter.change(PICTURES[space.name], Domain(space), arguments, seed)
    return changed


def test_all_nineteen_are_there():
    assert len(NAMES) == 19
    assert {BACKEND.methods[name].status for name in NAMES} == {"available"}


@pytest.mark.parametrize("space", [GREY, RGB], ids=lambda s: s.name)
@pytest.mark.parametrize("name", NAMES)
def test_every_corruption_repeats_from_its_seed_and_from_nothing_else(name: str, space: Space):
    """Bytes in, bytes out, of the same shape; the manifest says which of them draw."""
    for severity in (1, 5):
        state = np.random.get_state()
        first = change(name, space, severity=F(severity))
        after = np.random.get_state()
        np.random.rand(3)
        again = change(name, space, severity=F(severity))
        np.random.set_state(state)
        assert np.array_equal(state[1], after[1])
        assert (first.shape, first.dtype) == (space.shape, np.float32)
        assert np.array_equal(first, np.clip(np.rint(first), 0, 255))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, PICTURES[space.name]) or name in ("saturate", "jpeg_compression")
    draws = BACKEND.methods[name].draws
    others = [np.array_equal(first, change(name, space, seed=s, severity=F(5))) for s in range(3)]
    assert all(others) if draws == "none" else not any(others)


def generator(seed: int = 5) -> np.random.RandomState:
    return np.random.RandomState(np.random.MT19937(seed))


def cut(x: np.ndarray) -> np.ndarray:
    """The library's way back to bytes."""
    return np.floor(np.clip(x, 0, 1) * 255)


def test_formulas_of_the_paper_s_code_on_a_grey_picture():
    x = PICTURES["page"][..., 0].astype(np.float64) / 255
    found = {n: change(n, GREY, severity=F(s))[..., 0] for n, s in (
        ("brightness", 2), ("contrast", 3), ("gaussian_noise", 1), ("shot_noise", 5), ("speckle_noise", 4),
        ("gaussian_blur", 1), ("fog", 1),
    )}  # fmt: skip
    assert np.array_equal(found["brightness"], cut(x + 0.2))
    assert np.array_equal(found["contrast"], cut((x - x.mean()) * 0.2 + x.mean()))
    assert np.array_equal(found["gaussian_noise"], cut(x + generator().normal(size=x.shape, scale=0.08)))
    assert np.array_equal(found["shot_noise"], cut(generator().poisson(x * 3) / 3.0))
    assert np.array_equal(found["speckle_noise"], cut(x + x * generator().normal(size=x.shape, scale=0.45)))
    # Blurred along both axes, by scipy: scikit-image cuts the filter off at 4 sigma and repeats the edge.
    assert np.abs(found["gaussian_blur"] - cut(gaussian_filter(x, 1, mode="nearest", truncate=4))).max() <= 1
    # Fog adds a map between 0 and 1.5 and scales by max / (max + 1.5).
    assert (found["fog"] >= np.floor(x * x.max() / (x.max() + 1.5) * 255)).all()


def test_salt_and_pepper_of_the_library_hits_its_share():
    changed = change("impulse_noise", RGB, severity=F(5))
    hit = changed != PICTURES["photo"]
    assert set(np.unique(changed[hit])) <= {0.0, 255.0}
    # 27 % of 3,960 values, some of them hit without a change: within five standard deviations.
    assert (
        0.27 - 5 * (0.27 * 0.73 / hit.size) ** 0.5 - 1 / 128 < hit.mean() < 0.27 + 5 * (0.27 * 0.73 / hit.size) ** 0.5
    )


def test_a_motion_blur_of_a_grey_picture_is_that_of_equal_channels():
    grey = change("motion_blur", GREY, severity=F(3))
    photo = replace(GREY, shape=(32, 32, 3))
    adapter: Any = load("imagecorruptions", "motion_blur")
    lifted = adapter.change(np.repeat(PICTURES["page"], 3, axis=2), Domain(photo), {"severity": F(3)}, 5)
    assert np.array_equal(np.repeat(grey, 3, axis=2), lifted)


def test_layouts_orders_and_levels_are_brought_to_what_the_library_knows():
    plain, adapter = change("frost", RGB, severity=F(2)), load("imagecorruptions", "frost")
    x, severity = PICTURES["photo"], {"severity": F(2)}
    first = replace(RGB, shape=(3, 33, 40), channel_axis=0)
    assert np.array_equal(np.moveaxis(adapter.change(np.moveaxis(x, 2, 0), Domain(first), severity, 5), 0, 2), plain)
    blue = replace(RGB, order="bgr")
    assert np.array_equal(adapter.change(x[..., ::-1], Domain(blue), severity, 5)[..., ::-1], plain)
    shares = replace(RGB, cells=(Cell("lattice", F(0), F(1), F(1, 255)),))
    scaled = adapter.change((x.astype(np.float64) / 255).astype(np.float32), Domain(shares), severity, 5)
    assert np.array_equal(scaled, (plain.astype(np.float64) / 255).astype(np.float32))


# Noise ---------------------------------------------------------------------------------------------------------------

WIDE = Space("line", (20_000,), (Cell("real", F(-100), F(100)),), dtype="float64")
PICTURES["line"] = np.zeros(20_000)


def amount(value: Fraction, space: Space = WIDE) -> Distance:
    return Distance(value, space.name)


def test_noise_has_the_stated_law():
    normal = change("native.gaussian_noise", WIDE, sd=amount(F(3)))
    uniform = change("native.uniform_noise", WIDE, width=amount(F(3)))
    assert stats.kstest(normal, stats.norm(0, 3).cdf).pvalue > 0.001
    assert stats.kstest(uniform, stats.uniform(-3, 6).cdf).pvalue > 0.001
    assert stats.kstest(normal, stats.norm(0, 3.15).cdf).pvalue < 0.001
    assert np.abs(uniform).max() <= 3
    assert not np.array_equal(normal, change("native.gaussian_noise", WIDE, seed=6, sd=amount(F(3))))


def test_noise_stays_in_the_range_and_on_the_levels():
    x = PICTURES["page"].astype(np.float64).reshape(-1)
    noise = np.random.default_rng(5).normal(0.0, 40.0, x.size)
    by_hand = np.clip(np.rint(x + noise), 0, 255).reshape(32, 32, 1)
    assert np.array_equal(change("native.gaussian_noise", GREY, sd=amount(F(40), GREY)), by_hand)
    assert (by_hand == 0).any()
    assert (by_hand == 255).any()


def test_salt_and_pepper_by_its_share():
    assert np.array_equal(change("native.salt_and_pepper", GREY, share=F(0)), PICTURES["page"])
    assert set(np.unique(change("native.salt_and_pepper", GREY, share=F(1)))) == {0.0, 255.0}
    ends = change("native.salt_and_pepper", WIDE, share=F(1, 10))
    low, high = (ends == -100).sum(), (ends == 100).sum()
    assert stats.binomtest(int(low + high), 20_000, 0.1).pvalue > 0.001
    assert stats.binomtest(int(low), int(low + high), 0.5).pvalue > 0.001
    assert low + high + (ends == 0).sum() == 20_000


def test_a_category_is_not_made_noisy():
    door = Space("door", (1,), (Cell("category", F(0), F(1), F(1), categories=("open", "shut")),), layout="each")
    adapter: Any = load("native", "uniform_noise")
    with pytest.raises(BackendRefusal, match="category"):
        adapter.change(np.zeros(1, np.float32), Domain(door), {"width": amount(F(1), door)}, 5)
