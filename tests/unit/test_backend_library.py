"""The frame between a threat's set and a library's unit cube, the door, and what comes back."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, digits, method, model, threat, unit_box
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tmlang.backends.contract import BackendRefusal, Job
from tmlang.backends.library import Door, LibraryAttack, Search, as_box, frame, isolated, plain, searched_ball
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.models import RejectWhen
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Access, Anything, Ball, Both, Mutable, Patch, Rejected
from tmlang.meaning.values import Distance, Quantity, Symbol

F = Fraction
NAMES = ("a", "b", "c")


def sets_of(cells: tuple[Cell, ...], x: list[list[float]], **changes: Any) -> ThreatSet:
    space = unit_box(3, cells=cells, layout="each" if len(cells) > 1 else "all", features=NAMES)
    return ThreatSet.build(space, threat(**changes), np.array(x, dtype=np.float32), ids=[str(i) for i in range(len(x))])


def ball_of(sets: ThreatSet) -> Any:
    return searched_ball(sets.threat, ("linf", "l2", "l2_rms", "l1", "anything"))


WIDE = (Cell("real", Fraction(-2), Fraction(6)),)
MIXED = (
    Cell("real", Fraction(-1), Fraction(1)),
    Cell("real", Fraction(0), Fraction(10)),
    Cell("real", Fraction(5), Fraction(7)),
)


def test_one_width_is_scaled_as_a_whole() -> None:
    sets = sets_of(WIDE, [[0, 2, 6]], norm="l2", radius=Fraction(3))
    held = frame(sets, ball_of(sets), per_example=False)
    # 8 wide: z = (x + 2) / 8, and 3 becomes 3/8.
    assert held.inverse(torch.tensor([[0.0, 2.0, 6.0]])).tolist() == [[0.25, 0.5, 1.0]]
    assert held.values(torch.tensor([[0.25, 0.5, 1.0]])).tolist() == [[0.0, 2.0, 6.0]]
    assert (held.radius, held.unit, held.norm) == (0.375, 8.0, "l2")


def test_a_root_mean_square_is_a_euclidean_ball() -> None:
    sets = sets_of(WIDE, [[0, 2, 6]], norm="l2_rms", radius=Fraction(1))
    held = frame(sets, ball_of(sets), per_example=False)
    assert held.norm == "l2"
    assert held.radius == pytest.approx(3**0.5 / 8, rel=1e-12)
    assert Fraction(held.radius or 0) * 8 <= Fraction(3**0.5)


def test_radii_are_rounded_inward() -> None:
    sets = sets_of((Cell("real", Fraction(0), Fraction(3)),), [[1, 1, 1]], norm="linf", radius=Fraction(1, 7))
    held = frame(sets, ball_of(sets), per_example=False)
    assert held.radius is not None
    assert Fraction(held.radius) <= Fraction(1, 21)
    assert Fraction(np.nextafter(held.radius, 1)) > Fraction(1, 21)


def test_different_widths_or_radii_make_a_box() -> None:
    sets = sets_of(MIXED, [[0, 5, 5]], norm="linf", radius=Fraction(1))
    assert as_box(sets, ball_of(sets))
    held = frame(sets, ball_of(sets), per_example=True)
    assert held.radius == 1.0
    assert held.values(torch.zeros(1, 3)).tolist() == [[-1.0, 4.0, 5.0]]
    assert held.values(torch.ones(1, 3)).tolist() == [[1.0, 6.0, 6.0]]
    assert held.inverse(torch.tensor([[0.0, 5.0, 5.0]])).tolist() == [[0.5, 0.5, 0.0]]
    radii = Ball("linf", "px", radii=(("a", Fraction(1)), ("b", Fraction(1, 2))), per="feature")
    per = sets_of(WIDE, [[0, 2, 6]], allow=radii)
    assert as_box(per, ball_of(per))
    assert frame(per, ball_of(per), per_example=True).unit == 2.0
    assert not as_box(sets_of(WIDE, [[0, 2, 6]]), ball_of(sets_of(WIDE, [[0, 2, 6]])))


def test_a_set_without_a_ball_is_as_wide_as_the_domain() -> None:
    sets = sets_of(WIDE, [[0, 2, 6]], allow=Anything())
    held = frame(sets, ball_of(sets), per_example=False)
    assert (held.radius, held.norm) == (1.0, "linf")


def test_a_search_from_far_away_is_held_by_mask_and_domain_only() -> None:
    mutable = Mutable("features", names=(("a", "up"), ("b", "any")))
    sets = sets_of(WIDE, [[0, 2, 3]], norm="l2", radius=Fraction(1, 2), mutable=mutable)
    held = frame(sets, ball_of(sets), per_example=True, minimal=True)
    assert held.lower.tolist() == [[0.0, -2.0, 3.0]]
    assert held.upper.tolist() == [[6.0, 6.0, 3.0]]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_point_of_the_cube_in_the_ball_is_a_member(data: st.DataObject) -> None:
    """linf: what the model is shown is in the set, bit by bit, whatever the library asks for."""
    box = data.draw(st.sampled_from([WIDE, MIXED]))
    unit = st.floats(0, 1, width=32)
    low = [float((box * 3)[i].low) if len(box) > 1 else -2.0 for i in range(3)]
    high = [float((box * 3)[i].high) if len(box) > 1 else 6.0 for i in range(3)]
    x = [np.float32(a + (b - a) * data.draw(unit)) for a, b in zip(low, high, strict=True)]
    free = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    directions = [(n, data.draw(st.sampled_from(["any", "up", "down"]))) for n in free]
    radius = data.draw(st.fractions(Fraction(1, 50), 9, max_denominator=97))
    try:
        sets = sets_of(box, [x], norm="linf", radius=radius, mutable=Mutable("features", names=tuple(directions)))  # type: ignore[arg-type]
    except Exception as stop:
        assert "TM821" in str(vars(stop))  # noqa: PT017  nothing of it can move
        return
    held = frame(sets, ball_of(sets), per_example=True)
    start = held.inverse(torch.from_numpy(sets.originals))
    assert held.radius is not None
    step = torch.tensor([[data.draw(st.floats(-1, 1, width=32)) for _ in range(3)]]) * held.radius
    shown = held.values((start + step).clamp(0, 1))
    assert sets.inside(shown.numpy()).all()
    assert sets.inside(held.values(start).numpy()).all()


def test_gradients_stop_at_what_cannot_move() -> None:
    sets = sets_of(WIDE, [[0, 2, 6]], norm="linf", radius=1, mutable=Mutable("features", names=(("b", "any"),)))
    held = frame(sets, ball_of(sets), per_example=True)
    z = held.inverse(torch.tensor([[0.0, 2.0, 6.0]])).requires_grad_()
    held.values(z).sum().backward()
    assert z.grad is not None
    assert z.grad.tolist() == [[0.0, 8.0, 0.0]]


def test_random_states_are_borrowed() -> None:
    torch.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    expected = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    drawn = []
    for _ in range(2):
        with isolated((5, 6)) as seed:
            drawn.append((seed, torch.rand(2).tolist(), np.random.rand(), random.random()))
    assert drawn[0] == drawn[1]
    with isolated((5, 7)) as other:
        assert other != drawn[0][0]
    with pytest.raises(ZeroDivisionError), isolated((1,)):
        torch.manual_seed(1 // 0)
    assert torch.equal(torch.get_rng_state(), expected[0])
    assert np.random.get_state()[1].tolist() == expected[1]
    assert random.getstate() == expected[2]


def test_arguments_become_plain() -> None:
    wide = sets_of(WIDE, [[0, 2, 6]], norm="l2", radius=Fraction(1))
    held = frame(wide, ball_of(wide), per_example=False)
    assert plain(Fraction(3), "int", held) == 3
    assert isinstance(plain(Fraction(3), "int", held), int)
    assert plain(Fraction(1, 4), "number", held) == 0.25
    assert plain(Quantity(Fraction(60), "s"), "duration", held) == 60.0
    assert plain(Symbol("ce"), "symbol", held) == "ce"
    assert plain(True, "bool", held) is True
    assert plain(None, "distance", held) is None


def test_lengths_are_measured_in_the_cube() -> None:
    def lengths(sets: ThreatSet) -> list[float]:
        held = frame(sets, ball_of(sets), per_example=True)
        given = Distance(F(1, 2), "px"), Quantity(F(1, 2), "radii"), Quantity(F(1, 2), "widths")
        return [plain(v, "distance", held) for v in given]

    # 8 wide, so 1 is 1/8; in the box of a ball of radius 1 the coordinates are 2 wide.
    assert lengths(sets_of(WIDE, [[0, 2, 6]], norm="l2", radius=F(2))) == [1 / 16, 1 / 8, 1 / 2]
    assert lengths(sets_of(MIXED, [[0, 5, 5]], norm="linf", radius=F(1))) == [1 / 4, 1 / 4, 5 / 2]
    # A root mean square of 2 over three coordinates is an l2 length of 2 sqrt 3; a written length is an l2 length.
    rms = lengths(sets_of(WIDE, [[0, 2, 6]], norm="l2_rms", radius=F(2)))
    assert rms == pytest.approx([1 / 16, 3**0.5 / 8, 1 / 2])


def test_the_ball_that_a_library_knows_is_taken() -> None:
    linf, l2 = Ball("linf", "px", Fraction(1)), Ball("l2", "px", Fraction(1))
    assert searched_ball(threat(allow=Both((linf, l2))), ("l2",)) is l2
    assert searched_ball(threat(allow=None, minimize=("l2", "px")), ("l2",)) is None
    with pytest.raises(BackendRefusal, match="linf, l2"):
        searched_ball(threat(allow=Patch("rectangle", 2, 2)), ("linf", "l2"))


class Scripted(LibraryAttack):
    """Shows the model a list of points, then ends as it is told."""

    def __init__(self, shown: list[torch.Tensor], end: Any) -> None:
        super().__init__(replace(method("torchattacks.FGSM"), rows="whole"))
        self.shown, self.end = shown, end

    def run(self, search: Search) -> torch.Tensor:
        for z in self.shown:
            search.door(z)
        if isinstance(self.end, Exception):
            raise self.end
        return self.end(search) if callable(self.end) else self.end


def line_case() -> Case:
    """Class 1 from x0 > 1/2 on, two units at 1/4 and 3/8."""
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
        network.bias.copy_(torch.tensor([0.0, -0.5]))
    return Case(network, unit_box(2), model(2), np.array([[0.25, 0], [0.375, 0]], dtype=np.float32), [0, 0])


def line_job(**changes: Any) -> Job:
    return line_case().job(threat("linf", Fraction(1, 2), **changes))


def pictures(*points: float) -> torch.Tensor:
    return torch.tensor([[p, 0.0] for p in points]).reshape(-1, 1, 1, 2)


def test_the_nearest_failure_shown_survives_the_query_limit() -> None:
    job = line_job(access=Access("white_box", queries=3))
    shown = [pictures(0.7), pictures(0.6), pictures(0.3), pictures(0.55)]
    found = Scripted(shown, lambda s: s.z).search(job)
    # Three queries each: 0.6 is the nearest failure among them; the fourth point is never answered.
    assert found.x[:, 0].tolist() == pytest.approx([0.6, 0.6])
    assert found.offered.tolist() == [True, True]
    assert found.errors == (None, None)
    assert job.oracle.queries.tolist() == [3, 3]


def test_a_row_that_is_not_finite_is_an_error_of_its_unit_alone() -> None:
    end = pictures(float("nan"), 0.6)
    found = Scripted([], end).search(line_job())
    assert found.errors == ("the library returned a value that is not finite", None)
    assert found.offered.tolist() == [False, True]
    assert found.x.tolist() == [[0.25, 0.0], [pytest.approx(0.6), 0.0]]


@pytest.mark.parametrize(
    ("end", "words"),
    [(RuntimeError("broken"), "FGSM failed: RuntimeError: broken"), (torch.zeros(2, 3), "returned shape (2, 3)")],
)
def test_a_library_that_fails_leaves_every_unit_unfinished(end: Any, words: str) -> None:
    found = Scripted([], end).search(line_job())
    assert all(words in (e or "") for e in found.errors)
    assert not found.offered.any()
    assert torch.equal(found.x, line_job().x)


def test_what_lies_outside_comes_back_inside() -> None:
    found = Scripted([], pictures(7.0, -3.0)).search(line_job())
    assert found.x[:, 0].tolist() == [0.75, 0.0]
    assert line_job().sets.inside(found.x.numpy()).all()


def test_a_door_on_decisions_shows_no_scores_and_tells_rejections_apart() -> None:
    case = digits()
    careful = replace(case.spec, reject=(RejectWhen("max_softmax", "<", Fraction(1)),))
    strict = Case(case.deployed.network, case.space, careful, case.x, case.y.tolist())
    for kind, fails in (("fail", True), ("denied", False), ("safe", False)):
        job = strict.job(threat(rejected=Rejected(kind)), rows=slice(3))  # type: ignore[arg-type]
        door = Door(job, frame(job.sets, ball_of(job.sets), per_example=True), decisions=True)
        outputs = door(job.x)
        # A softmax below 1 is rejected, so these are: column 10 of 12.
        assert outputs.argmax(dim=1).tolist() == [10, 10, 10]
        assert outputs.sum(dim=1).tolist() == [1, 1, 1]
        assert door.fails(job.x, outputs).tolist() == [fails] * 3


def test_an_axis_too_many_is_refused() -> None:
    x = np.zeros((1, 2, 2, 2, 2), dtype=np.float32)
    case = Case(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), unit_box(2, 2, 2, 2), model(2), x, [0])
    with pytest.raises(BackendRefusal, match="three axes"):
        Scripted([], None).search(case.job(threat()))
