"""tmlang's frozen dataclass against the one of the standard library, side by side on the same class bodies."""

from __future__ import annotations

import dataclasses
from dataclasses import FrozenInstanceError, field

import pytest

from tmlang.base.frozen import dataclass


def copied(body, name=None):
    """A class of its own with the body of another."""
    kept = {k: v for k, v in vars(body).items() if k not in ("__dict__", "__weakref__")}
    return type(name or body.__name__, (), kept)


def of_both(body):
    """The class that each of the two decorators makes."""
    return [dataclass(frozen=True, slots=True)(copied(body)), dataclasses.dataclass(frozen=True)(copied(body))]


class Plain:
    """A point."""

    __annotations__ = {"x": int, "y": int, "tag": str, "more": list}
    tag = "none"
    more = field(default_factory=list, compare=False)


class Checked:
    __annotations__ = {"x": int}

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("below zero")


@pytest.fixture
def ours():
    return of_both(Plain)[0]


@pytest.fixture
def theirs():
    return of_both(Plain)[1]


def outcome(cls, args, named):
    try:
        made = cls(*args, **named)
    except TypeError:
        return TypeError
    return dataclasses.astuple(made)


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((1, 2), {}),
        ((1, 2, "a", [3]), {}),
        ((1,), {"y": 2}),
        ((), {"y": 2, "x": 1, "more": [4], "tag": "b"}),
        ((1, 2), {"tag": "c"}),
        ((1, 2), {"more": [5]}),
        ((1, 2, "a", [3], 5), {}),
        ((1,), {}),
        ((), {}),
        ((1,), {"tag": "a"}),
        ((1, 2), {"x": 1}),
        ((1, 2), {"z": 1}),
    ],
)
def test_it_is_made_and_refused_like_a_standard_one(ours, theirs, args, named):
    assert outcome(ours, args, named) == outcome(theirs, args, named)


def test_what_is_missing_or_too_much_is_named(ours):
    for args, named, said in (
        ((1,), {}, "Plain needs y"),
        ((1, 2, "a", [], 5), {}, "Plain takes 4 values, not 5"),
        ((1,), {"x": 1, "y": 2}, "Plain has no field x, or got it twice"),
        ((1, 2), {"z": 1}, "Plain has no field z"),
    ):
        with pytest.raises(TypeError, match=said):
            ours(*args, **named)


def test_every_instance_has_a_default_of_its_own(ours):
    a, b = ours(1, 2), ours(1, 2)
    a.more.append(1)
    assert (a.more, b.more, a.tag) == ([1], [], "none")


def test_values_are_equal_by_what_is_compared_and_within_one_class(ours, theirs):
    for cls in (ours, theirs):
        assert cls(1, 2, "a", [3]) == cls(1, 2, "a", [4])
        assert hash(cls(1, 2, "a", [3])) == hash(cls(1, 2, "a", [4]))
        assert cls(1, 2) != cls(1, 3)
        assert cls(1, 2) != (1, 2, "none")
        assert len({cls(1, 2), cls(1, 2, more=[7]), cls(2, 1)}) == 2
    other = dataclass(frozen=True, slots=True)(copied(Plain, "Other"))
    assert other(1, 2) != ours(1, 2)
    assert hash(other(1, 2)) != hash(ours(1, 2))
    assert ours.__eq__(ours(1, 2), 3) is NotImplemented


def test_equality_can_be_left_to_identity():
    ours = dataclass(frozen=True, slots=True, eq=False)(type("Loose", (), {"__annotations__": {"x": list}}))
    one = ours([1])
    assert one == one
    assert one != ours([1])
    assert hash(one) == object.__hash__(one)


def test_it_is_shown_with_its_fields(ours, theirs):
    assert repr(ours(1, 2)) == repr(theirs(1, 2)).replace(theirs.__qualname__, ours.__qualname__)
    assert repr(ours(1, y=2, tag="a", more=[])) == "Plain(x=1, y=2, tag='a', more=[])"


def test_nothing_is_set_or_deleted_afterwards(ours):
    made = ours(1, 2)
    with pytest.raises(FrozenInstanceError, match=r"Plain\.x is frozen"):
        made.x = 3
    with pytest.raises(FrozenInstanceError):
        del made.x
    with pytest.raises(FrozenInstanceError):
        made.new = 1
    assert made == ours(1, 2)


def test_the_tools_of_the_standard_library_work_on_it(ours):
    assert [f.name for f in dataclasses.fields(ours)] == ["x", "y", "tag", "more"]
    assert dataclasses.is_dataclass(ours)
    assert dataclasses.replace(ours(1, 2), y=5) == ours(1, 5)
    assert dataclasses.asdict(ours(1, 2)) == {"x": 1, "y": 2, "tag": "none", "more": []}


def test_what_comes_after_init_is_asked_once_all_is_there():
    for cls in of_both(Checked):
        assert cls(1).x == 1
        assert cls(x=0).x == 0
        with pytest.raises(ValueError, match="below zero"):
            cls(-1)


def test_a_class_without_words_is_described_by_its_name(ours):
    assert ours.__doc__ == "A point."
    assert dataclass(frozen=True, slots=True)(type("Bare", (), {"__annotations__": {"x": int}})).__doc__ == "Bare"


def test_it_is_always_frozen_and_slotted():
    for wrong in ({"frozen": False, "slots": True}, {"frozen": True, "slots": False}):
        with pytest.raises(AssertionError):
            dataclass(**wrong)
