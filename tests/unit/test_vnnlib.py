"""VNN-LIB read exactly, written outward, and refused by name where it is more than is read."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmlang.base.exact import exact_decimal
from tmlang.base.source import Source
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.interchange import vnnlib_text as write
from tmlang.interchange.as_spec import spec_text
from tmlang.interchange.vnnlib import Property, read
from tmlang.semantics import check

F = Fraction
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "real"

ONE = """; two inputs, three outputs
(declare-const X_0 Real) (declare-const X_1 Real)
(declare-const Y_0 Real) (declare-const Y_1 Real) (declare-const Y_2 Real)
"""
TWO = """(vnnlib-version <2.0>)
(declare-network n (declare-input X Real [1, 2]) (declare-output Y Real [3]))
"""
BOX = "(assert (<= X_0 1)) (assert (>= X_0 -1.5e-1)) (assert (and (<= X_1 2) (<= 1 X_1)))\n"


def of(text: str) -> Property:
    return read(Source("p.vnnlib", text))


def atoms(found: Property, k: int = 0) -> list[tuple[dict[int, Fraction], Fraction, str]]:
    return [({i: c for (_, i), c in a.left.terms}, a.left.constant, a.op) for a in found.unsafe[k].outputs]


def test_version_1_is_read_exactly() -> None:
    found = of(ONE + BOX + "(assert (>= Y_0 (+ Y_1 0.25)))")
    assert (found.version, found.inputs, found.outputs) == (1, (2,), (3,))
    assert found.unsafe[0].bounds == ((F(-3, 20), F(1)), (F(1), F(2)))
    assert atoms(found) == [({0: F(-1), 1: F(1)}, F(1, 4), "<=")]


def test_version_2_is_read_exactly() -> None:
    text = TWO + "(assert (<= X[0,0] 1)) (assert (>= X[0,0] 0)) (assert (== X[0,1] 3)) (assert (< Y[2] (* 2 Y[0])))"
    found = of(text)
    assert (found.version, found.inputs, found.outputs) == (2, (1, 2), (3,))
    assert found.unsafe[0].bounds == ((F(0), F(1)), (F(3), F(3)))
    assert atoms(found) == [({2: F(1), 0: F(-2)}, F(0), "<")]


def test_several_assertions_hold_together_and_disjunctions_multiply() -> None:
    """Two disjunctions of two are four alternatives: asserts are joined by and, never by or."""
    found = of(ONE + BOX + "(assert (or (<= Y_0 1) (<= Y_0 2))) (assert (or (<= Y_1 3) (and (<= Y_1 4) (<= Y_2 5))))")
    edges = [[-constant for _, constant, _ in atoms(found, k)] for k in range(len(found.unsafe))]
    assert edges == [[1, 3], [1, 4, 5], [2, 3], [2, 4, 5]]


def test_an_alternative_may_have_a_box_of_its_own() -> None:
    found = of(ONE + "(assert (or (and (<= X_0 1) (>= X_0 0) (>= Y_0 1)) (and (<= X_0 3) (>= X_0 2) (>= Y_0 2))))")
    assert [u.bounds[0] for u in found.unsafe] == [(F(0), F(1)), (F(2), F(3))]
    assert found.unsafe[0].bounds[1] == (None, None)


@pytest.mark.parametrize(
    ("text", "code", "said", "line"),
    [
        (ONE + "(assert (<= Y_0 1)", "TM740", "opened here", 4),
        (ONE + "assert", "TM740", "outside any list", 4),
        (ONE + "(assert (<= Y_0 1 2))", "TM740", "two sides", 4),
        (ONE + "(assert (<= Y_3 1))", "TM740", "Y_3", 4),
        (ONE + "(assert (<= X[0] 1))", "TM740", "X[0]", 4),
        (ONE + "(declare-const X_0 Real)", "TM740", "second time", 4),
        (ONE + "(assert (<= Y_0 (* Y_1 Y_2)))", "TM741", "not linear", 4),
        (ONE + "(assert (=> (<= Y_0 1) (<= Y_1 1)))", "TM741", "=>", 4),
        (ONE + "(assert (<= X_0 Y_0))", "TM741", "apart from the outputs", 4),
        (ONE + "(assert (<= (+ X_0 X_1) 1))", "TM741", "one by one", 4),
        (ONE + "(check-sat)", "TM741", "check-sat", 4),
        ("(declare-const Z_0 Real)", "TM741", "X_0", 1),
        ("(declare-const X_0 Real)", "TM740", "no outputs", 1),
        (TWO + "(declare-network m (declare-input A Real [1]) (declare-output B Real [1]))", "TM741", "several", 3),
        (TWO + "(assert (<= X[0,2] 1))", "TM740", "X[0,2]", 3),
        ("(vnnlib-version <3.0>)", "TM741", "version", 1),
        ("(" * 300, "TM740", "deep", 1),
        (ONE + 2 * ("(assert (or " + "(<= Y_0 1) " * 200 + "))"), "TM741", "more", 4),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(text: str, code: str, said: str, line: int) -> None:
    with pytest.raises(Stop) as stopped:
        of(text)
    (found,) = stopped.value.diagnostics
    assert found.code == code
    assert said in found.message
    assert found.span.line == line


@given(st.fractions(), st.booleans())
def test_decimals_are_rounded_outward_and_no_farther_than_a_digit(value: Fraction, up: bool) -> None:
    written = F(write.decimal(value, up=up))
    assert (written >= value) if up else (written <= value)
    assert abs(written - value) <= abs(value) / 10 ** (write.DIGITS - 1)


@given(st.fractions())
def test_numbers_of_specs_are_exact(value: Fraction) -> None:
    text = exact_decimal(value)
    top, _, bottom = text.partition("/")
    assert F(top) / F(bottom or 1) == value


UNSAFE = write.Unsafe(
    "n",
    (2,),
    ("a", "b", "c"),
    [(F(-1, 3), F(1, 3), "speed in km"), (F(0), F(1), "")],
    [[(((0, 1), (1, -1)), F(0)), (((2, 1),), F(-2, 3))], [(((2, -1),), F(1, 7))]],
    ("what it is",),
)


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_written_is_read_again(version: int) -> None:
    found = of(write.text(UNSAFE, version))
    assert found.version == version
    low, high = found.unsafe[0].bounds[0]
    assert low is not None
    assert high is not None
    assert low <= F(-1, 3) < F(1, 3) <= high
    assert high - low < F(2, 3) + F(1, 10**15)
    first, second = (atoms(found, k) for k in range(2))
    assert first[0] == ({0: F(-1), 1: F(1)}, F(0), "<=")
    terms, edge, op = first[1]  # c >= 2/3, and the written number is below
    assert (terms, op) == ({2: F(-1)}, "<=")
    assert F(2, 3) - F(1, 10**15) < edge <= F(2, 3)
    terms, edge, op = second[0]  # c <= 1/7, and the written number is above
    assert (terms, op) == ({2: F(1)}, "<=")
    assert F(1, 7) <= -edge < F(1, 7) + F(1, 10**15)


def imported(text: str) -> str:
    return spec_text(of(text), name="p.vnnlib", sha256="0" * 64, network="n.onnx", network_sha256="1" * 64)


@pytest.mark.parametrize(
    ("outputs", "always"),
    [
        ("(assert (<= Y_0 Y_1)) (assert (<= Y_0 Y_2))", "y0 is not min"),
        ("(assert (>= Y_1 Y_0)) (assert (>= Y_1 Y_2))", "y1 is not max"),
        ("(assert (>= Y_1 Y_0)) (assert (>= Y_2 1e-3))", "y0 > y1 or y2 < 0.001"),
        ("(assert (<= Y_0 Y_1))", "y0 > y1"),
        ("(assert (== Y_0 1/3))", None),
        ("(assert (== Y_0 2))", "y0 < 2 or y0 > 2"),
    ],
)
def test_unsafe_outputs_become_what_holds_elsewhere(outputs: str, always: str | None) -> None:
    if always is None:
        with pytest.raises(Stop, match="1/3"):
            imported(ONE + BOX + outputs)
        return
    text = imported(ONE + BOX + outputs)
    assert f"always:  {always}\n" in text
    assert not [d for d in check(Source("p.tm", text), settings={}).diagnostics if d.is_error]


def test_every_alternative_becomes_a_property() -> None:
    text = imported(ONE + BOX + "(assert (or (>= Y_1 Y_0) (>= Y_2 Y_0)))")
    assert text.count("\nproperty ") == text.count("\nclaim ") == 2
    checked = check(Source("p.tm", text), settings={})
    assert checked.program is not None
    assert len(checked.program.claims) == 2


@pytest.mark.parametrize(
    "text",
    [
        ONE + "(assert (<= X_0 1)) (assert (>= Y_0 1))",
        ONE + BOX + "(assert (>= (+ Y_0 Y_1) 1))",
        ONE + BOX + "(assert (>= X_0 2)) (assert (>= Y_0 1))",
        ONE + BOX,
        "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= X_0 1))(assert (>= X_0 0))(assert (<= Y_0 1))",
    ],
)
def test_what_a_spec_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(Stop) as stopped:
        imported(text)
    assert [d.code for d in stopped.value.diagnostics] == ["TM741"]


# The commands --------------------------------------------------------------------------------------------------------


def network(path: Path) -> None:
    """y = W x + b with W = (1 1; 1 -1; 0 0), b = (0, 0, 1/2)."""
    make = onnx.helper
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2, 3], [1, 1, 0, 1, -1, 0])
    bias = onnx.helper.make_tensor("b", onnx.TensorProto.FLOAT, [3], [0, 0, 0.5])
    ends = [make.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, d]) for n, d in (("x", 2), ("y", 3))]
    graph = make.make_graph([make.make_node("Gemm", ["x", "w", "b"], ["y"])], "g", ends[:1], ends[1:], [weights, bias])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 13)]), path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_property_goes_out_and_comes_back(tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import, export, import again: the same box and the same outputs; the exported network answers as the first."""
    import numpy as np
    import onnxruntime

    network(tmp_path / "n.onnx")
    first = ONE + BOX + "(assert (>= Y_1 Y_0)) (assert (<= Y_2 0.75))"
    with gzip.open(tmp_path / "p.vnnlib.gz", "wt") as file:
        file.write(first)
    monkeypatch.chdir(tmp_path)
    assert main(["import", "vnnlib", "p.vnnlib.gz", "n.onnx", "-o", "p.tm"]) == 0
    assert main(["export", "vnnlib", "p.tm", "--out", "out", "--language", str(version)]) == 0
    text = (tmp_path / "out" / "safe.vnnlib").read_text()
    before, after = of(first), of(text)
    assert "p.tm, sha256" in text
    assert after.version == version
    assert [sorted(map(str, atoms(p))) for p in (before, after)] == [sorted(map(str, atoms(before)))] * 2
    for (a, b), (low, high) in zip(before.unsafe[0].bounds, after.unsafe[0].bounds, strict=True):
        assert a is not None and b is not None and low is not None and high is not None  # noqa: PT018
        assert low <= a <= b <= high
        assert (a - low) + (high - b) <= F(1, 10**6)
    x = np.array([[0.5, 1.5]], np.float32)
    runs = [
        onnxruntime.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in ("n.onnx", "out/safe.onnx")
    ]
    one, two = (r.run(None, {r.get_inputs()[0].name: x})[0] for r in runs)
    assert np.allclose(one, two)
    assert np.allclose(one, [[2.0, -1.0, 0.5]])


def test_import_says_what_is_wrong_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    network(tmp_path / "n.onnx")
    (tmp_path / "p.vnnlib").write_text(ONE + "(assert (<= Y_9 1))")
    assert main(["import", "vnnlib", "p.vnnlib", "n.onnx", "-o", "p.tm"]) == 1
    assert "TM740" in capsys.readouterr().err
    (tmp_path / "deep").mkdir()
    (tmp_path / "p.vnnlib").write_text(ONE + BOX + "(assert (<= Y_0 1))")
    assert main(["import", "vnnlib", "p.vnnlib", "n.onnx", "-o", "deep/p.tm"]) == 1
    assert "TM703" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "n.onnx", "p.vnnlib"]
    assert not list((tmp_path / "deep").iterdir())


# Published files -----------------------------------------------------------------------------------------------------


def published() -> list[Path]:
    return sorted((SHARED / "vnn").glob("*/*.vnnlib")) if SHARED.exists() else []


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the shared data folder is not beside the checkout")
def test_both_versions_of_a_published_property_say_the_same() -> None:
    compared = 0
    for path in published():
        second = path.parent / "v2" / path.name
        if second.exists():
            one, two = (read(Source(p.name, p.read_text())) for p in (path, second))
            assert (one.version, two.version) == (1, 2)
            assert [u.bounds for u in one.unsafe] == [u.bounds for u in two.unsafe], path
            assert [atoms(one, k) for k in range(len(one.unsafe))] == [atoms(two, k) for k in range(len(two.unsafe))]
            compared += 1
    assert compared > 100


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the shared data folder is not beside the checkout")
def test_published_properties_become_specs_that_check() -> None:
    for path in published()[::9]:
        found = read(Source(path.name, path.read_text()))
        if found.outputs == (1,):
            continue
        text = spec_text(found, name=path.name, sha256="0" * 64, network="n.onnx", network_sha256="1" * 64)
        assert not [d for d in check(Source("p.tm", text), settings={}).diagnostics if d.is_error], path
