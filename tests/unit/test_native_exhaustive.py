"""Every change of one coordinate: against the list of all of them, made by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
from backend_support import threat, unit_box
from native_support import linear, run

from tmlang.backends.native.exhaustive import changed_once
from tmlang.meaning.spaces import Cell, Ref, Relation
from tmlang.meaning.threats import Ball, Mutable

LEVELS = Cell("lattice", F(0), F(1), F(1, 4))


def test_every_level_of_every_coordinate_is_a_change_of_its_own():
    """Three coordinates on quarters within a half: two levels either way where the range has them."""
    space = unit_box(3, cells=(LEVELS,))
    case = linear([[0, 0, 0], [1, 0, 0]], [5, 0], space, [[0.5, 0.0, 1.0]])
    job = case.job(replace(threat("linf", F(1, 2)), mutable=Mutable("all")))
    found = sorted(tuple(row) for block in changed_once(job.sets, 0, 2) for row in block.tolist())
    by_hand = [(v, 0.0, 1.0) for v in (0.0, 0.25, 0.75, 1.0)]
    by_hand += [(0.5, v, 1.0) for v in (0.25, 0.5)] + [(0.5, 0.0, v) for v in (0.5, 0.75)]
    assert found == sorted(by_hand)


def test_what_one_coordinate_can_break_is_broken_and_nothing_else():
    """Class 1 wins where 2 a + b > 1.6. From (0.4, 0.4) a fifth makes 1.6 at most; three tenths of a make 1.8."""
    space = unit_box(2)
    for radius, broken in ((F(19, 100), False), (F(3, 10), True)):
        case = linear([[0, 0], [2, 1]], [1.6, 0], space, [[0.4, 0.4]])
        result = run("exhaustive_coordinates", case, case.job(threat("linf", radius)))
        assert result.offered.tolist() == [broken]
        if broken:
            assert 0.69 < float(result.x[0, 0]) <= F(float(np.float32(0.4))) + F(3, 10)
            assert result.x[0, 1] == np.float32(0.4)


def test_relations_hold_and_queries_are_kept():
    """b may not exceed a: of b's levels above a none is asked; three queries are three rows."""
    cells = (LEVELS, LEVELS)
    relation = Relation(Ref("b"), "<=", Ref("a"), text="b <= a")
    space = unit_box(2, cells=cells, layout="each", features=("a", "b"), relations=(relation,))
    case = linear([[0, 0], [1, 1]], [5, 0], space, [[0.5, 0.25]])
    job = case.job(threat("linf", F(1)))
    found = sorted(tuple(row) for block in changed_once(job.sets, 0, 2) for row in block.tolist())
    assert found == [(0.25, 0.25), (0.5, 0.0), (0.5, 0.5), (0.75, 0.25), (1.0, 0.25)]
    run("exhaustive_coordinates", case, job)
    assert job.oracle.queries.tolist() == [5]
    few = case.job(threat("linf", F(1)), limit=3)
    run("exhaustive_coordinates", case, few)
    assert few.oracle.queries.tolist() == [3]


def test_a_category_changes_to_every_other():
    kind = Cell("category", F(0), F(2), F(1), categories=("red", "green", "blue"))
    space = unit_box(2, cells=(Cell("real", F(0), F(1)), kind), layout="each", features=("a", "kind"))
    case = linear([[0, 0], [0, 1]], [1.5, 0], space, [[0.5, 0.0]])
    allow = Ball("l0", "px", F(1))
    result = run("exhaustive_coordinates", case, case.job(replace(threat(), allow=allow)))
    assert result.x[0].tolist() == [0.5, 2.0]
