"""The steps of the attacked object: values worked out by hand or by another library, gradients by differences."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import model, unit_box
from torch import nn

from tmlang.backends.deployed import Deployed, Ensemble, Expectation
from tmlang.backends.steps import OneHot, value_of
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.models import Decide, Network, Randomness, Step
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.values import Artifact, Quantity, Symbol

F = Fraction


class Flat(nn.Module):
    """Shows what reaches the network."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


def step(name: str, **args: Any) -> Step:
    return Step(name, tuple(args.items()))


def reached(
    x: np.ndarray, *steps: Step, space: Space | None = None, files: dict[str, bytes] | None = None, **changes: Any
) -> np.ndarray:
    """What the network sees of rows ``x`` behind ``steps``."""
    space = space or unit_box(*x.shape[1:])
    files = files or {}
    made = Deployed(model(2, steps), space, Flat(), lambda a: files[a.path], **changes)
    out: np.ndarray = made.raw(torch.from_numpy(x)).detach().numpy()
    return out


def picture(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).random((2, *shape), dtype=np.float32)


class InPlace(nn.Module):
    """Normalizes where it stands, as many a network does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sub_(0.5).flatten(1)


def test_a_network_that_writes_to_its_input_writes_to_a_copy() -> None:
    x = torch.from_numpy(picture(1, 2, 2))
    before, single = x.clone(), InPlace()
    alone = Deployed(model(2, ()), unit_box(1, 2, 2), single, lambda _: b"").raw(x)
    assert torch.equal(x, before)
    both = Ensemble([single, InPlace()], "mean of logits", [False, False])(x)
    assert torch.equal(x, before)
    assert torch.equal(alone, both)
    assert torch.equal(alone, before.flatten(1) - 0.5)


def test_scale_by_a_reciprocal_is_one_division() -> None:
    levels = np.arange(256, dtype=np.float32).reshape(1, 1, 16, 16)
    space = Space("b", (1, 16, 16), (Cell("integer", F(0), F(255), F(1)),))
    got = reached(levels, step("scale", factor=F(1, 255)), space=space)[0]
    # The correctly rounded quotient, from exact rationals by way of a long decimal.
    for k in range(256):
        exact = F(k, 255)
        assert abs(F(float(got[k])) - exact) <= F(float(np.spacing(np.float32(got[k])))) / 2


def test_normalize_subtracts_then_divides_in_float32() -> None:
    x = picture(3, 4, 4)
    mean, std = (F("0.4914"), F("0.4822"), F("0.4465")), (F("0.2471"), F("0.2435"), F("0.2616"))
    m = np.array([0.4914, 0.4822, 0.4465], np.float32).reshape(1, 3, 1, 1)
    s = np.array([0.2471, 0.2435, 0.2616], np.float32).reshape(1, 3, 1, 1)
    got = reached(x, step("normalize", mean=mean, std=std))
    assert np.array_equal(got, ((x - m) / s).reshape(2, -1))


def test_vectors_follow_the_channels_through_a_permute() -> None:
    x = picture(4, 5, 3)
    permute = step("permute", source=Symbol("hwc"), target=Symbol("chw"))
    by = step("subtract", by=(F(1, 4), F(1, 2), F(3, 4)))
    expected = x - np.array([0.25, 0.5, 0.75], np.float32)
    assert np.array_equal(reached(x, by, permute), expected.transpose(0, 3, 1, 2).reshape(2, -1))
    assert np.array_equal(reached(x, permute, by), expected.transpose(0, 3, 1, 2).reshape(2, -1))


def test_channels_bgr_reverses_the_colour_axis() -> None:
    x = picture(3, 2, 2)
    assert np.array_equal(reached(x, step("channels", order=Symbol("bgr"))), x[:, ::-1].reshape(2, -1))


def test_geometry() -> None:
    x = picture(1, 4, 6)
    crop = reached(x, step("crop", top=F(1), left=F(2), height=F(2), width=F(3)))
    assert np.array_equal(crop, x[:, :, 1:3, 2:5].reshape(2, -1))
    centre = reached(x, step("center_crop", height=F(2), width=F(2)))
    assert np.array_equal(centre, x[:, :, 1:3, 2:4].reshape(2, -1))
    padded = reached(x, step("pad", by=F(1), fill=F(1, 2)))
    assert np.array_equal(padded, np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=0.5).reshape(2, -1))


def test_resize_shrinks_as_pillow_does() -> None:
    from PIL import Image

    x = picture(1, 9, 12)
    got = reached(x, step("resize", shorter=F(3), filter=Symbol("bilinear")))
    expected = [np.asarray(Image.fromarray(row[0]).resize((4, 3), Image.Resampling.BILINEAR)) for row in x]
    assert np.allclose(got, np.stack(expected).reshape(2, -1), atol=1e-6)


def test_filters_against_scipy() -> None:
    from scipy.ndimage import median_filter, uniform_filter

    x = picture(1, 5, 6)
    mean = np.stack([uniform_filter(row[0].astype(np.float64), 3, mode="mirror") for row in x])
    assert np.allclose(reached(x, step("mean_filter", size=F(3))), mean.reshape(2, -1), atol=1e-6)
    median = np.stack([median_filter(row[0], 3, mode="mirror") for row in x])
    assert np.array_equal(reached(x, step("median_filter", size=F(3))), median.reshape(2, -1))


def test_quantize_and_its_straight_through_gradient() -> None:
    x = np.array([[0.0, 0.1, 0.49, 0.51, 1.0]], np.float32)
    steps = (step("quantize", levels=F(3)),)
    assert reached(x, *steps).tolist() == [[0.0, 0.0, 0.5, 0.5, 1.0]]
    through = Deployed(model(2, steps), unit_box(5), Flat(), lambda _: b"", straight_through=True)
    leaf = torch.from_numpy(x).requires_grad_(True)
    out = through.raw(leaf)
    assert out.tolist() == [[0.0, 0.0, 0.5, 0.5, 1.0]]
    (gradient,) = torch.autograd.grad(out.sum(), leaf)
    assert gradient.tolist() == [[1.0] * 5]


def test_jpeg_is_what_pillow_writes_and_reads() -> None:
    import PIL
    from PIL import Image

    x = (np.random.default_rng(0).integers(0, 256, (1, 3, 16, 16)) / 255).astype(np.float32)
    spec = step("jpeg", quality=F(75), subsampling="4:2:0", encoder=f"pillow {PIL.__version__}")
    buffer = io.BytesIO()
    Image.fromarray((x[0].transpose(1, 2, 0) * 255).round().astype(np.uint8)).save(
        buffer, "JPEG", quality=75, subsampling=2
    )
    expected = np.asarray(Image.open(buffer)).transpose(2, 0, 1).astype(np.float32) / 255
    assert np.array_equal(reached(x, spec)[0], expected.reshape(-1))


def test_jpeg_of_another_encoder_is_another_object() -> None:
    spec = step("jpeg", quality=F(75), subsampling="4:2:0", encoder="pillow 10.4")
    with pytest.raises(Stop) as stopped:
        reached(picture(3, 8, 8), spec)
    assert stopped.value.diagnostics[0].code == "TM729"


READING = Space(
    "reading",
    (3,),
    (
        Cell("real", F(-40), F(85), unit="degC"),
        Cell("category", F(0), F(2), F(1), categories=("red", "green", "blue")),
        Cell("integer", F(0), F(9), F(1)),
    ),
    layout="each",
    features=("temp", "colour", "count"),
)


def test_one_hot_then_minmax_by_name() -> None:
    scaler = json.dumps({"temp": [-40, 60], "count": [0, 8]}).encode()
    steps = (step("one_hot", features=(Symbol("colour"),)), step("minmax", file=Artifact("s.json")))
    x = np.array([[10, 1, 2], [60, 2, 8]], np.float32)
    got = reached(x, *steps, space=READING, files={"s.json": scaler})
    assert got.tolist() == [[0.5, 0, 1, 0, 0.25], [1, 0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("scaler", "code"),
    [
        (b'{"temp": [-40, 60]}', "TM721"),
        (b'{"temp": [-40, 60], "count": [0, 8], "wind": [0, 1]}', "TM721"),
        (b'{"temp": [-40, -40], "count": [0, 8]}', "TM712"),
        (b"[1, 2", "TM712"),
        (b'{"temp": "hot", "count": [0, 8]}', "TM712"),
    ],
)
def test_a_scaler_that_does_not_suit(scaler: bytes, code: str) -> None:
    steps = (step("one_hot", features=(Symbol("colour"),)), step("minmax", file=Artifact("s.json")))
    with pytest.raises(Stop) as stopped:
        reached(np.zeros((1, 3), np.float32), *steps, space=READING, files={"s.json": scaler})
    assert stopped.value.diagnostics[0].code == code


def test_one_hot_surrogate_equals_it_on_the_lattice() -> None:
    one_hot = OneHot(1, ("a", "b", "c"), "f")
    x = torch.tensor([[0.5, k, 2.0] for k in (0.0, 1.0, 2.0)])
    assert torch.equal(one_hot(x), one_hot.surrogate(x))


def test_noise_has_its_spread_and_leaves_other_features_alone() -> None:
    sigma = ((Symbol("temp"), Quantity(F(1, 2), "degC")),)
    steps = (step("noise", kind=Symbol("gaussian"), sigma=sigma),)
    x = np.zeros((4000, 3), np.float32)
    got = reached(x, *steps, space=READING)
    assert not got[:, 1:].any()
    # 4000 draws: the estimate of the deviation is within 5 of its standard errors, 0.5 / sqrt(8000).
    assert abs(float(got[:, 0].std()) - 0.5) < 5 * 0.5 / 8000**0.5


def test_reseeding_repeats_the_noise_and_a_written_seed_serves_each_request_alike() -> None:
    steps = (step("noise", kind=Symbol("uniform"), sigma=F(1, 10)),)
    made = Deployed(model(2, steps), unit_box(4), Flat(), lambda _: b"")
    x = torch.zeros(2, 4)
    made.reseed(7)
    first, second = made.raw(x), made.raw(x)
    made.reseed(7)
    assert torch.equal(first, made.raw(x))
    assert not torch.equal(first, second)
    assert float(first.abs().max()) <= 0.1
    seeded = model(2, steps, random=Randomness("seeded", 7, "the service does"))
    fixed = Deployed(seeded, unit_box(4), Flat(), lambda _: b"")
    assert torch.equal(fixed.raw(x)[0], fixed.raw(x[:1])[0])


def test_gradient_agrees_with_differences_through_every_smooth_step() -> None:
    torch.manual_seed(0)
    steps = (
        step("permute", source=Symbol("hwc"), target=Symbol("chw")),
        step("scale", factor=F(2)),
        step("resize", height=F(5), width=F(5), filter=Symbol("bilinear")),
        step("mean_filter", size=F(3)),
        step("pad", by=F(1), fill=F(0)),
        step("crop", top=F(1), left=F(1), height=F(4), width=F(4)),
        step("normalize", mean=(F(1, 2),) * 3, std=(F(1, 4),) * 3),
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(48, 2)).double()
    made = Deployed(model(2, steps), unit_box(6, 6, 3, dtype="float64"), network, lambda _: b"")
    x = torch.rand(1, 6, 6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(made, (x,))


def test_expectation_averages_draws_and_costs_as_many_rows() -> None:
    steps = (step("noise", kind=Symbol("gaussian"), sigma=F(1)),)
    made = Deployed(model(2, steps), unit_box(2), Flat(), lambda _: b"")
    made.reseed(1)
    draws = torch.stack([made(torch.zeros(3, 2)) for _ in range(5)])
    made.reseed(1)
    view = Expectation(made, 5)
    assert torch.allclose(view(torch.zeros(3, 2)), draws.mean(dim=0))
    assert view.rows == 5


def test_argmin_is_negated_and_a_score_is_lifted() -> None:
    costs = model(3, decide=Decide("argmin", "lowest"))
    made = Deployed(costs, unit_box(3), Flat(), lambda _: b"")
    assert made(torch.tensor([[1.0, -2.0, 3.0]])).tolist() == [[-1.0, 2.0, -3.0]]
    rule = Decide("threshold", op=">=", value=F(1), positive="1", negative="0")
    score = Deployed(model(2, decide=rule), unit_box(1), Flat(), lambda _: b"")
    assert score(torch.tensor([[1.5], [1.0], [0.0]])).tolist() == [[0.0, 0.5], [0.0, 0.0], [0.0, -1.0]]


def test_heads_stand_behind_the_classes_wherever_they_were() -> None:
    network = Network("torch", outputs=(("distance", 1), ("logits", 2)))
    made = Deployed(model(2, network=network), unit_box(3), Flat(), lambda _: b"")
    assert made(torch.tensor([[9.0, 1.0, 2.0]])).tolist() == [[1.0, 2.0, 9.0]]


def test_a_threshold_reads_the_head_that_it_names() -> None:
    rule = Decide("threshold", op=">", value=F(1, 2), positive="1", negative="0", quantity="distance")
    network = Network("torch", outputs=(("logit", 1), ("distance", 1)))
    made = Deployed(model(2, decide=rule, network=network), unit_box(2), Flat(), lambda _: b"")
    assert made(torch.tensor([[9.0, 0.75]])).tolist() == [[0.0, 0.25, 9.0]]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("mean of logits", [1.0, 1.0]),
        # softmax(0, log 3) = (1/4, 3/4) and softmax(2, 2 - log 3) = (3/4, 1/4)
        ("mean of probabilities", [0.5, 0.5]),
        ("majority of classes", [0.5, 0.5]),
    ],
)
def test_ensembles_join_as_they_say(rule: str, expected: list[float]) -> None:
    class Says(nn.Module):
        def __init__(self, *scores: float) -> None:
            super().__init__()
            self.scores = torch.tensor([scores])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scores.expand(len(x), -1)

    log3 = float(np.log(3))
    members = [Says(0.0, log3), Says(2.0, 2 - log3)]
    got = Ensemble(members, rule, [False, False])(torch.zeros(1, 2))
    assert torch.allclose(got, torch.tensor([expected]))
    assert torch.equal(
        Ensemble([Says(0.5, 0.5)] * 2, "mean of probabilities", [True, True])(torch.zeros(1, 2)),
        torch.tensor([[0.5, 0.5]]),
    )


def test_value_of_has_one_functions_value_and_the_others_gradient() -> None:
    x = torch.tensor([0.3], requires_grad=True)
    exact = torch.tensor([0.1])
    out = value_of(x * 3, exact)
    assert out.item() == exact.item()
    out.backward()
    assert x.grad is not None
    assert x.grad.item() == 3
