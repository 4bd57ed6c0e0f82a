"""Sets that hold nothing. The neighbours of 1/10 are set down by hand, from the bits: 0.1 in binary is
1.1001 1001 1001 … * 2**-4, so with p significant bits its neighbours are floor and ceiling of 2**(p+3) / 10, over that
power: 2**14 / 10 = 1638.4, 2**27 / 10 = 13421772.8, 2**56 / 10 = 7205759403792793.6."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import found

from tmlang.audit import sql, unspoken
from tmlang.audit.verify import audit
from tmlang.base.exact import FORMATS, exact_decimal, next_up
from tmlang.base.source import Source
from tmlang.cli.front import read_spec
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.execute.runner import RunOptions, run
from tmlang.interchange.vnnlib import read
from tmlang.meaning.held import ends, narrowed
from tmlang.meaning.spaces import Cell, Delivery, Space
from tmlang.plan.text import plan_json
from tmlang.semantics import check

F = Fraction
TENTH = {
    "float16": (F(1638, 2**14), F(1639, 2**14)),
    "float32": (F(13421772, 2**27), F(13421773, 2**27)),
    "float64": (F(7205759403792793, 2**56), F(7205759403792794, 2**56)),
}
DTYPES = sorted(TENTH)
MODEL = """model line: two -> {low, high} {
  network:  linear(weights: ((1, 0), (0, 1)), bias: (0, 0))
  decide:   argmax ties lowest
  random:   never
}
"""
PHI = "property phi on line { given: %s  always: low <= high }\n"


def two(dtype: str, a: str = "real[0, 1]", delivered: str = "") -> str:
    return f"space two {{ a: {a}  b: real[0, 1] }} stored as {dtype} {delivered}\n" + MODEL


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("negative", [False, True])
def test_the_neighbours_of_a_tenth(dtype: str, negative: bool) -> None:
    below, above = TENTH[dtype]
    assert F(next_up(below, dtype)) == above == F(next_up(F(1, 10), dtype))
    assert F(next_up(-above, dtype)) == -below
    space, low, high = Space("s", (1,), (), dtype=dtype), below, above  # type: ignore[arg-type]
    if negative:
        low, high = -above, -below
    assert ends(Cell("real", low, high), space) == (low, high)
    assert ends(Cell("real", low + F(1, 10**30), high), space) == (high, high)
    assert ends(Cell("real", low + F(1, 10**30), high - F(1, 10**30)), space) is None


PLACES = [
    ("space s: tensor(4) of real[{lo}, {hi}] stored as {dtype}\n", "[{lo}, {hi}]"),
    (
        "space s: tensor(3, 4, 4) of real[(0, {lo}, 0), (1, {hi}, 1)] stored as {dtype} order rgb\n",
        "[(0, {lo}, 0), (1, {hi}, 1)]",
    ),
    ("space s: tensor(2) of real[({lo}, 0), ({hi}, 1)] stored as {dtype}\n", "[({lo}, 0), ({hi}, 1)]"),
    ("space s {{ a: real[{lo}, {hi}] 'V'  b: real[0, 1] }} stored as {dtype}\n", "[{lo}, {hi}]"),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("text", "guilty"), PLACES, ids=["all", "channels", "entries", "features"])
def test_a_space_that_holds_nothing_is_refused_and_mended(dtype: str, text: str, guilty: str) -> None:
    written = text.format(lo="0.1", hi="0.1", dtype=dtype)
    assert found(written) == [("TM230", guilty.format(lo="0.1", hi="0.1"))]
    nearest = exact_decimal(min(TENTH[dtype], key=lambda x: abs(x - F(1, 10))))
    mended = text.format(lo=nearest, hi=nearest, dtype=dtype)
    assert found(mended) == []
    checked = check(Source("spec.tm", "tm 1\n" + written), settings={})
    (said,) = checked.diagnostics
    assert said.fix is not None
    assert {e.text for e in said.fix.edits} == {nearest}
    assert said.notes == ("the nearest are " + " and ".join(f"{float(x):.17g}" for x in TENTH[dtype]),)
    for lo, hi in (("0.1", "0.11"), ("0.09", "0.1"), ("0.5", "0.5"), ("0", "0"), ("-0.125", "-0.125")):
        assert found(text.format(lo=lo, hi=hi, dtype=dtype)) == []


@pytest.mark.parametrize(
    ("range_", "dtype", "held"),
    [
        ("[65505, 70000]", "float16", False),  # the greatest float16 is 65504
        ("[65504, 70000]", "float16", True),
        ("[-70000, -65505]", "float16", False),
        ("[0.00000001, 0.00000002]", "float16", False),  # the least float16 above zero is 2**-24 = 5.96e-8
        ("[0.00000001, 0.00000006]", "float16", True),
        ("[2049, 2049]", "float16", False),  # 11 bits: behind 2048 every other whole number
        ("[16777217, 16777217]", "float32", False),  # 24 bits: 2**24 + 1
        ("[16777217, 16777217]", "float64", True),
    ],
)
def test_ranges_at_the_edges_of_a_type(range_: str, dtype: str, held: bool) -> None:
    said = found(f"space s: tensor(2) of real{range_} stored as {dtype}\n")
    assert said == ([] if held else [("TM230", range_)])


def test_delivery_leaves_what_it_is_delivered_in() -> None:
    """The multiples of 1/4 between 0.3 and 0.45 are none, and no float16 lies between the neighbours of 0.1."""
    assert found("space s: tensor(2) of real[0.3, 0.45] stored as float32 delivered as rounded(1/4)\n") == [
        ("TM230", "[0.3, 0.45]")
    ]
    assert found("space s: tensor(2) of real[0.3, 0.5] stored as float32 delivered as rounded(1/4)\n") == []
    range_ = "[0.09999, 0.10001]"
    assert found(f"space s: tensor(2) of real{range_} stored as float32 delivered as float16\n") == [("TM230", range_)]
    assert found(f"space s: tensor(2) of real{range_} stored as float32\n") == []


def test_levels_that_a_type_cannot_tell_apart_are_refused_by_check() -> None:
    """Near 1 float16 has a spacing of 2**-10 or 1/1024: 1/255 is four of them, 1/1000 about one."""
    assert found("space s: tensor(2) of real[0, 1] step 1/255 stored as float16\n") == []
    assert found("space s: tensor(2) of real[0, 1] step 1/1000 stored as float16\n") == [("TM215", "[0, 1]")]
    assert found("space s: tensor(2) of real[0, 1] step 1/1000 stored as float32\n") == []


@pytest.mark.parametrize(
    ("relation", "obeyed"),
    [
        ("p <= q", False),  # p in [2, 3], q in [0, 1]
        ("p <= q tolerance 1", True),  # 2 and 1
        ("p <= q tolerance 0.99", False),
        ("q >= p", False),
        ("p >= q", True),
        ("p - q < 1", False),  # exactly 1 at the least
        ("p - q <= 1", True),
        ("p * q <= 3", True),
        ("p * q > 3", False),
        ("p / q >= 2", True),  # q may be 0: nothing is known
        ("q / p > 1/2", False),
        ("sum(p, q) == 5 tolerance 0.5", False),
    ],
)
def test_relations_that_nothing_obeys(relation: str, obeyed: bool) -> None:
    said = found(f"space s {{ p: real[2, 3]  q: real[0, 1]  where {relation} }} stored as float32\n")
    assert said == ([] if obeyed else [("TM212", relation)])


GIVEN = [
    ("a == 0.1", True),
    ("a >= 0.1, a <= 0.1", True),
    ("a > {low}, a < {high}", True),
    ("a >= {low}, a < {high}", False),
    ("a > {low}, a <= {high}", False),
    ("a == {high}", False),
    ("a >= 0.1", False),
    ("b >= 0.1, a == 0.5", False),
    ("b >= 0.5, a == 0.1", True),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("bounds", "empty"), GIVEN)
def test_properties_that_speak_of_no_input(dtype: str, bounds: str, empty: bool) -> None:
    low, high = map(exact_decimal, TENTH[dtype])
    written = bounds.format(low=low, high=high)
    assert found(two(dtype) + PHI % written) == ([("TM231", written)] if empty else [])
    front = read_spec("spec.tm", {}, "tm 1\n" + two(dtype) + PHI % written + RUN)
    assert front.plan is not None
    (subject,) = front.plan.subjects
    assert getattr(subject, "empty", None) == ("a" if empty else None)
    raw = json.loads(plan_json(front.plan))
    assert unspoken.faults(raw) == []
    raw["subjects"][0]["empty"] = None if empty else "a"
    assert len(unspoken.faults(raw)) == 1


RUN = """evaluate e of phi { attack: search = native.pgd(restarts: 1, steps: 2)  seed: 0 }
claim "phi": holds(e)
"""


def test_what_a_range_and_a_bound_leave_together() -> None:
    assert found(two("float32", "real[0, 0.1]") + PHI % "a >= 0.1") == [("TM231", "a >= 0.1")]
    assert found(two("float32", "real[0, 0.1]") + PHI % "a >= 0.09") == []


def test_no_level_and_no_number_at_all_are_errors() -> None:
    assert found(two("float32", "real[0, 1] step 1/4") + PHI % "a > 0.3, a < 0.4") == [("TM212", "a > 0.3, a < 0.4")]
    assert found(two("float32", "int[0, 9]") + PHI % "a > 3, a < 4") == [("TM212", "a > 3, a < 4")]
    assert found(two("float32") + PHI % "a > 0.5, a < 0.5") == [("TM212", "a > 0.5, a < 0.5")]
    assert found(two("float32") + PHI % "a >= 0.6, a <= 0.5") == [("TM212", "a >= 0.6, a <= 0.5")]


@settings(deadline=None, max_examples=60)
@given(
    st.fractions(F(-3), F(3), max_denominator=5000),
    st.fractions(F(0), F(1, 5000), max_denominator=10**6),
    st.sampled_from(["float16", "float32"]),
    st.sampled_from([(">=", "<="), (">", "<="), (">=", "<"), (">", "<"), ("==", "<=")]),
)
def test_both_readings_agree_with_all_float16s_and_numpy(
    low: Fraction, width: Fraction, dtype: str, ops: tuple[str, str]
) -> None:
    """Every float16 between -4 and 4 is tried; of float32 those that numpy finds about the middle."""
    high = low + width
    if dtype == "float16":
        every = np.arange(2**16, dtype=np.uint16).view(np.float16)
        values = [F(float(v)) for v in every[np.isfinite(every) & (np.abs(every) <= 4)]]
    else:
        first = last = np.float32(float(low))
        for _ in range(3):
            first, last = np.nextafter(first, np.float32(-9)), np.nextafter(last, np.float32(9))
        values = [F(float(v)) for v in np.linspace(float(first), float(last), 40).astype(np.float32)]
        values += [F(float(first)), F(float(last)), F(float(np.float32(float(high)))), F(float(np.float32(float(low))))]
        v = first
        while v < last:
            values.append(F(float(v)))
            v = np.nextafter(v, np.float32(9))
    test = {">=": lambda x, e: x >= e, ">": lambda x, e: x > e, "<=": lambda x, e: x <= e, "<": lambda x, e: x < e,
            "==": lambda x, e: x == e}  # fmt: skip
    held = any(test[ops[0]](x, low) and test[ops[1]](x, high) for x in values)
    space = Space("s", (1,), (Cell("real", F(-4), F(4)),), dtype=dtype, features=("a",))  # type: ignore[arg-type]
    cell = narrowed(narrowed(space.cells[0], ops[0], low, dtype), ops[1], high, dtype)
    assert (ends(cell, space) is not None) == held
    raw = {
        "models": [{"name": "m", "space": "s"}],
        "spaces": [{"name": "s", "features": ["a"], "cells": [{"low": "-4", "high": "4", "step": None}],
                    "dtype": dtype, "delivery": None}],
    }  # fmt: skip
    subject = {"model": "m", "given": [["a", ops[0], str(low)], ["a", ops[1], str(high)]]}
    assert unspoken.of_property(raw, subject) != held


def test_the_second_reading_of_lattices_and_deliveries() -> None:
    """Levels of 1/4 from 1/8 are 0.125, 0.375, …: none lies in [0.2, 0.3]; multiples of 1/4 hold 0.25."""

    def empty(cell: Cell, delivery: Delivery | None, low: Fraction, high: Fraction) -> bool:
        space = Space("s", (1,), (cell,), dtype="float32", features=("a",), delivery=delivery)
        mine = ends(narrowed(narrowed(cell, ">=", low, "float32"), "<=", high, "float32"), space) is None
        raw = {
            "models": [{"name": "m", "space": "s"}],
            "spaces": [{"name": "s", "features": ["a"], "dtype": "float32",
                        "cells": [{"low": str(cell.low), "high": str(cell.high), "step": cell.step and str(cell.step)}],
                        "delivery": delivery and {"codec": delivery.codec, "step": str(delivery.step)}}],
        }  # fmt: skip
        subject = {"model": "m", "given": [["a", ">=", str(low)], ["a", "<=", str(high)]]}
        assert unspoken.of_property(raw, subject) == mine
        return mine

    lattice = Cell("lattice", F(1, 8), F(9, 8), F(1, 4))
    assert empty(lattice, None, F(1, 5), F(3, 10))
    assert not empty(lattice, None, F(1, 5), F(3, 8))
    real = Cell("real", F(0), F(1))
    assert not empty(real, Delivery("rounded", F(1, 4)), F(1, 5), F(3, 10))
    assert empty(real, Delivery("rounded", F(1, 4)), F(3, 10), F(2, 5))
    assert not empty(real, None, F(3, 10), F(2, 5))
    assert empty(real, Delivery("float16"), F(1, 10), F(10001, 100000))


@pytest.mark.parametrize(
    ("range_", "dtype", "radius", "moves"),
    [
        ("[100, 120]", "float32", "1/131072", True),  # 2**-17 between 64 and 128, which has 24 bits
        ("[100, 120]", "float32", "1/131073", False),
        ("[-120, -100]", "float32", "1/131073", False),
        ("[100, 120]", "float64", "1/131073", True),
        ("[100, 120]", "float16", "1/17", False),  # 2**-4 with 11 bits
        ("[100, 120]", "float16", "1/16", True),
        ("[-1, 120]", "float32", "1/131073", True),  # around zero floats lie close
    ],
)
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_radius_below_the_distance_of_floats(range_: str, dtype: str, radius: str, moves: bool, norm: str) -> None:
    model = MODEL.replace(": two", ": s").replace("(1, 0), (0, 1)", "(1, 0, 0, 0, 0), (0, 1, 0, 0, 0)")
    said = found(
        f"space s: tensor(5) of real{range_} stored as {dtype}\n" + model
        + 'data d: s { read: npz("x.npz", inputs: "x", labels: "y")  take: all  truth: published "by hand" }\n'
        + f"threat t on line over d {{ allow: {norm} <= {radius} in s  mutable: all  goal: untargeted "
        " access: white_box  clean_errors: fail }\n"
    )  # fmt: skip
    assert said == ([] if moves else [("TM202", radius)])


# From text to verdict ------------------------------------------------------------------------------------------------


def asked(bundle: Path) -> list[list[tuple[object, ...]]]:
    """What DuckDB answers to the printed queries."""
    found = []
    with duckdb.connect(config={"threads": 1}) as connection:
        raw = json.loads((bundle / "plan.json").read_text())
        for statement in connection.extract_statements(sql.script(raw, str(bundle))):
            result = connection.execute(statement)
            if statement.type == duckdb.StatementType.SELECT:
                found.append(result.fetchall())
    return found


@pytest.mark.parametrize("always", ["low <= high", "low > high"])
def test_a_verdict_over_nothing_is_vacuous(tmp_path: Path, always: str) -> None:
    """Whatever is asserted: nothing is searched, nothing is proved, and no claim is supported or refuted."""
    spec = tmp_path / "spec.tm"
    spec.write_text(
        "tm 1\n" + two("float32") + PHI.replace("low <= high", always) % "a == 0.1"
        + "evaluate e of phi { decide_exactly: split = auto_lirpa.split(timeout: 5 's')  seed: 0 }\n"
        + 'claim "phi": holds(e)\n'
    )  # fmt: skip
    front = read_spec(str(spec), {})
    assert front.plan is not None
    done = run(front.plan, RunOptions(out=tmp_path / "out", sources={"spec.tm": spec.read_text()}))
    assert (done.columns["e"].holds, [j.status for j in done.judgements], done.exit_code) == (
        "vacuous",
        ["undecided"],
        4,
    )
    assert done.judgements[0].rests_on == ()
    assert "vacuous" in done.judgements[0].reason
    assert not audit(tmp_path / "out").faults
    # Without a single row there is no file of records, and the printed queries say the same of none.
    assert not list((tmp_path / "out" / "records").glob("*.parquet"))
    answers = [row for rows in asked(tmp_path / "out") for row in rows]
    assert ("e", "vacuous", 1, 1, 1) in answers
    assert ("phi", "undecided", None, None) in answers
    told = json.loads((tmp_path / "out" / "columns.json").read_text())
    assert told["evaluations"]["e"]["holds"] == "vacuous"


def test_nothing_is_exported_of_a_property_about_nothing(tmp_path: Path) -> None:
    spec = tmp_path / "spec.tm"
    spec.write_text("tm 1\n" + two("float32") + PHI % "a == 0.1" + RUN)
    with pytest.raises(Stop) as stopped:
        main(["export", "vnnlib", str(spec), "--out", str(tmp_path / "p")])
    assert [d.code for d in stopped.value.diagnostics] == ["TM741"]
    assert not list(tmp_path.glob("p/*"))


# VNN-LIB -------------------------------------------------------------------------------------------------------------

TENTHS = """(declare-const X_0 Real) (declare-const X_1 Real) (declare-const Y_0 Real) (declare-const Y_1 Real)
(assert (<= X_0 0.1)) (assert (>= X_0 0.1)) (assert (<= X_1 1)) (assert (>= X_1 0))
(assert (<= Y_0 0.1)) (assert (>= Y_1 (+ Y_0 0.1)))
"""
TYPED = """(vnnlib-version <2.0>)
(declare-network n (declare-input X %s [1, 1]) (declare-output Y %s [2]))
(assert (== X[0,0] 0.1)) (assert (>= Y[0] 0.1))
"""


def test_constants_are_the_nearest_numbers_of_the_type() -> None:
    exact, near = (read(Source("p", TENTHS), c) for c in ("exact", "nearest"))  # type: ignore[arg-type]
    assert exact.unsafe[0].bounds[0] == (F(1, 10), F(1, 10))
    stored = TENTH["float32"][1]
    assert near.unsafe[0].bounds[0] == (stored, stored)
    assert [a.left.constant for a in near.unsafe[0].outputs] == [-stored, stored]
    for element, dtype in (("Real", "float32"), ("float32", "float32"), ("float64", "float64")):
        found = read(Source("p", TYPED % (element, element)), "nearest")
        assert found.unsafe[0].bounds[0][0] == min(TENTH[dtype], key=lambda x: abs(x - F(1, 10)))
        assert found.element == element.lower()


def imported(tmp_path: Path, text: str, *options: str) -> str:
    (tmp_path / "p.vnnlib").write_text(text)
    (tmp_path / "n.onnx").write_bytes(b"no network")
    out = tmp_path / "p.tm"
    code = main(["import", "vnnlib", str(tmp_path / "p.vnnlib"), str(tmp_path / "n.onnx"), "-o", str(out), *options])
    assert code == 0
    return out.read_text()


def test_the_written_spec_says_what_constants_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TENTHS.replace("(+ Y_0 0.1)", "Y_0")
    default = imported(tmp_path, text)
    assert default == imported(tmp_path, text, "--constants", "nearest")
    assert "# Constants: nearest" in default
    assert "x0: real[0.100000001490116119384765625, 0.1000000014" in default
    assert "TM231" not in capsys.readouterr().err
    exact = imported(tmp_path, text, "--constants", "exact")
    assert "# Constants: exact" in exact
    assert "x0 >= 0.1,\n           x0 <= 0.1" in exact
    assert "TM231" in capsys.readouterr().err
    assert "stored as float64" in imported(tmp_path, TYPED % ("float64", "float64"))


SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the shared data folder is not beside the checkout")
@pytest.mark.parametrize("tenth", [True, False])
def test_the_faults_that_were_found(tenth: bool) -> None:
    for path in sorted((SHARED / "faults" / "empty_float32_set").glob(f"p_{'01' if tenth else '05'}*.tm")):
        codes = [d.code for d in check(Source(path.name, path.read_text()), settings={}).diagnostics]
        assert codes == (["TM230"] if tenth else [])


assert FORMATS.keys() == TENTH.keys()
