"""The figures: refused where the evidence is of another kind, and otherwise true to counts made by hand."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from audit_support import BROKEN, Rows, attack, certifier, evaluation, make_bundle, plan, solver, threat, worked_example
from matplotlib.figure import Figure
from PIL import Image
from semantics_support import checked
from test_report_formats import FIXTURES, worked

from tmlang.meaning.figures import FIGURES
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Property, Shift, Success
from tmlang.meaning.values import Call, Symbol
from tmlang.report import figures
from tmlang.report.examples import FATES
from tmlang.report.figures import all_that_fit, draw
from tmlang.report.figures.changes import REDUCTIONS
from tmlang.report.figures.counts import corruption_accuracy, coverage, overlap, verdict_summary
from tmlang.report.figures.curves import survival_curve
from tmlang.report.figures.proofs import margins
from tmlang.report.figures.style import FATE_COLOURS
from tmlang.report.material import Material, materials
from tmlang.report.view import view_of
from tmlang.report.write import write_beside, write_into


def material(path, whole, records) -> Material:
    bundle = make_bundle(path, whole, records)
    return next(materials(bundle, view_of(bundle)))


def lengths(figure: Figure, axes: int = 0) -> list[float]:
    """Of the bars, in the order in which they were drawn."""
    return [p.get_width() for p in figure.axes[axes].patches]


def test_channels_are_reduced_in_four_ways():
    """By hand: of (1, -3, 1) the dominant is -3, the mean -1/3, the mean absolute 5/3, the greatest absolute 3."""
    pixel = np.array([[[1.0, -3.0, 1.0]]])
    found = {name: float(reduce(pixel)[0, 0]) for name, reduce in REDUCTIONS.items()}
    assert found == {
        "signed, dominant": -3.0,
        "mean": pytest.approx(-1 / 3),
        "mean absolute": pytest.approx(5 / 3),
        "max absolute": 3.0,
    }
    assert float(REDUCTIONS["mean"](np.array([[-2.0]]))[0, 0]) == -2.0


def test_the_bar_of_fates_is_the_worked_example(tmp_path):
    m = material(tmp_path / "run", plan([evaluation(attack(), certifier())], [threat()]), worked_example())
    figure, says = verdict_summary(m)
    assert lengths(figure) == [20, 20, 10, 30, 2, 12, 6]
    assert says.startswith("20 proved, 20 not broken, not proved, 10 attack unfinished, 30 broken")


def test_coverage_counts_what_each_stage_did_not_finish(tmp_path):
    m = material(tmp_path / "run", plan([evaluation(attack(), certifier())], [threat()]), worked_example())
    figure, says = coverage(m)
    assert lengths(figure) == [30, 40, 10, 20, 20, 60, 20]
    assert says.startswith("10 units of a stage did not finish")


@pytest.mark.parametrize("status", ["crashed", "oom", "error"])
def test_a_call_that_went_down_has_finished_nothing(tmp_path, status):
    rows = Rows()
    for unit in "uvw":
        rows.clean(unit, "cc")
        rows.attack(unit, "a", "none")
    records = [replace(r, status=status) if (r.unit, r.stage) == ("v", "a") else r for r in rows.all]
    _, says = coverage(material(tmp_path / "run", plan([evaluation(attack("a"))], [threat()]), records))
    assert says.startswith("1 units of a stage did not finish")


def test_overlap_tells_what_one_attack_alone_broke(tmp_path):
    rows = Rows()
    for unit, by in (("u", "ab"), ("v", "a"), ("w", "a"), ("x", "b"), ("y", "")):
        rows.clean(unit)
        for a in "ab":
            rows.attack(unit, a, "broken" if a in by else "none")
    rows.clean("z").attack("z", "a", "broken", within_access=False).attack("z", "b")
    m = material(
        tmp_path / "run", plan([evaluation(attack("a"), attack("b"), attribution="full")], [threat()]), rows.all
    )
    assert lengths(overlap(m)[0]) == [2, 1, 1, 1]


def test_overlap_under_first_tells_who_was_first_and_nothing_of_alone(tmp_path):
    """a broke u, v and w; b was asked about x alone, and broke it: what it does to the others is not known."""
    rows = Rows()
    for unit in "uvw":
        rows.clean(unit).attack(unit, "a", "broken")
    rows.clean("x").attack("x", "a").attack("x", "b", "broken")
    m = material(tmp_path / "run", plan([evaluation(attack("a"), attack("b"))], [threat()]), rows.all)
    figure, says = overlap(m)
    assert lengths(figure) == [3, 1]
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["first broken by it"]
    assert "nothing is known of what one alone breaks" in says


def test_survival_falls_where_the_queries_say(tmp_path):
    """Four units; one breaks after 3 queries of a, one after 10 of a and 5 of b: 100 %, 75 % from 3, 50 % from 15."""
    rows = Rows()
    rows.clean("u").attack("u", "a", "broken", queries=3)
    rows.clean("v").attack("v", "a", queries=10).attack("v", "b", "broken", queries=5)
    for unit in "wx":
        rows.clean(unit).attack(unit, "a", queries=10).attack(unit, "b", queries=20)
    figure, _ = survival_curve(
        material(tmp_path / "run", plan([evaluation(attack("a"), attack("b"))], [threat()]), rows.all)
    )
    (line,) = figure.axes[0].lines
    assert line.get_xdata().tolist() == [1, 3, 15, 30]
    assert line.get_ydata().tolist() == [100, 75, 50, 50]


def test_margins_are_told_from_their_gap(tmp_path):
    rows = Rows()
    for unit, margin in (("u", 0.5), ("v", 0.1), ("w", -1.0)):
        rows.clean(unit).proof(unit, "c", "certified" if margin > 0.2 else "unknown", margin=margin, gap=0.2)
    _, says = margins(material(tmp_path / "run", plan([evaluation(certifier())], [threat()]), rows.all))
    assert says.startswith("1 of 3 margins lie beyond the gap")


def test_the_interval_of_a_shift_is_drawn(tmp_path):
    """Six of nine right; the Wilson interval at 95 % is [35.4, 87.9] % (Brown, Cai, DasGupta 2001, formula 4)."""
    rows = Rows()
    for i in range(9):
        rows.clean(f"u{i}").attack(f"u{i}", "s", "valid", decision=int(i > 5))
    shift = Shift("t", "net", "test", (Call(("std", "fog")),), "wilson", Fraction(95, 100))
    m = material(tmp_path / "run", plan([evaluation(attack("s", role="corrupt"))], [shift]), rows.all)
    _, says = corruption_accuracy(m)
    assert "66.7 % of 9" in says
    assert "[35.4, 87.9] %" in says


def test_equal_records_give_equal_bytes(tmp_path):
    whole = plan([evaluation(attack(), certifier())], [threat()])
    one, two = (material(tmp_path / name, whole, worked_example()) for name in ("one", "two"))
    for name in ("verdict_summary", "coverage"):
        a, b = draw(name, one), draw(name, two)
        assert (a.svg, a.png) == (b.svg, b.png)
        assert b"matplotlib" not in a.png
        assert Image.open(io.BytesIO(a.png)).width > 400


def test_every_figure_is_drawn_or_refused_with_a_reason(tmp_path):
    rows = Rows().clean("u", margin=1.0)
    rows.attack("u", outcome="broken", candidate="candidates/000001.safetensors#0", margin=-1.0, **BROKEN)
    m = material(tmp_path / "run", plan([evaluation(attack())], [threat()]), rows.all)
    found = {name: draw(name, m) for name in FIGURES}
    refused = {name for name, d in found.items() if d.refused}
    assert refused == {
        "output_bounds", "pinned_intervals", "width_heatmap", "margin_heatmap", "margins", "corruption_accuracy",
        "radius_curve", "overlap", "rejection", "changed_features",
    }  # fmt: skip
    assert found["overlap"].refused == "e has fewer than two attacks"
    assert all(d.svg.startswith(b"<?xml") for name, d in found.items() if name not in refused)
    assert {d.name for d in all_that_fit([m])} == set(FIGURES) - refused
    assert set(figures._DRAWN) <= set(FIGURES)


def a_property():
    phi = Property("phi", "net", (), (("0", "<=", Fraction(1)),))
    return plan([evaluation(solver(), subject="phi")], [phi]), Rows().clean("x").proof("x", "s").all


def single_draws():
    rows = Rows().clean("u").clean("v").clean("w", "cw")
    for unit, told in (("u", "0110"), ("v", "0000")):
        drawn = {"draws": 4, "errors": told.count("1"), "outcomes": told, "observed_failure": None}
        rows.attack(unit, "a", "valid", **drawn)
    judged = threat(success=Success("single_draw", draws=4), clean_errors="excluded")
    return plan([evaluation(attack(), attribution="full")], [judged]), rows.all


KINDS = [*FIXTURES, a_property, single_draws]


@pytest.mark.parametrize("fixture", KINDS, ids=lambda f: f.__name__)
def test_every_figure_of_every_kind_of_evaluation_is_drawn_or_refused_for_a_reason(tmp_path, fixture):
    m = material(tmp_path / "run", *fixture())
    found = [draw(name, m) for name in FIGURES]
    assert [(d.name, d.refused) for d in found if d.fault] == []
    assert [d.name for d in found if bool(d.svg) == bool(d.refused)] == []


def test_every_outcome_has_a_colour():
    assert set(FATE_COLOURS) == set(FATES)


def test_a_figure_that_fails_costs_no_bundle(tmp_path, monkeypatch):
    """The page says so in its place, the other figure and the numbers stand, and the writer is told (TM831)."""

    def broken(_):
        raise KeyError("drawn")

    monkeypatch.setitem(figures._DRAWN, "verdict_summary", broken)
    calls = (Call(("verdict_summary",), (("", Symbol("e")),)), Call(("coverage",), (("", Symbol("e")),)))
    bundle = make_bundle(tmp_path / "run", replace(worked()[0], figures=calls), worked_example())
    (told,) = write_into(bundle)
    assert (told.code, told.is_error) == ("TM831", False)
    assert "verdict_summary of e: drawing it failed with KeyError: 'drawn'" in told.message
    assert "figures/coverage-e.svg" in bundle.files()
    assert "figures/verdict_summary-e.svg" not in bundle.files()
    assert "<strong>verdict_summary</strong> is not drawn: drawing it failed" in bundle.text("report.html")


def test_nothing_found_is_said_in_place_of_an_empty_figure(tmp_path):
    m = material(tmp_path / "run", plan([evaluation(attack())], [threat()]), Rows().clean("u").attack("u").all)
    assert draw("image_pairs", m).refused == "no failing input was found, so there is no change to show"
    assert draw("distances", m).refused == "no failing input was found, so there is no distance"


def test_the_figures_of_the_spec_stand_in_the_reports(tmp_path):
    calls = (Call(("verdict_summary",), (("", Symbol("e")),)), Call(("overlap",)))
    whole = plan([evaluation(attack(), certifier())], [threat()])
    bundle = make_bundle(tmp_path / "run", replace(whole, figures=calls), worked_example())
    write_into(bundle)
    files = set(bundle.files())
    assert {"figures/verdict_summary-e.svg", "figures/verdict_summary-e.png"} <= files
    html = bundle.text("report.html")
    assert html.count("data:image/svg+xml;base64,") == 1
    assert "overlap</strong> is not drawn: e has fewer than two attacks." in html
    assert "](figures/verdict_summary-e.svg)" in bundle.text("report.md")
    paths = write_beside([bundle], tmp_path / "out", ("md",), figures="coverage")
    assert [p.name for p in paths] == ["report.md", "coverage-e.svg", "coverage-e.png"]


def test_colours_are_put_red_first_and_features_have_no_picture():
    real = Cell("real", Fraction(0), Fraction(1))
    assert Space("px", (3, 4, 4), (real,)).picture_axis == 0
    assert not Space("row", (2,), (real, real), "each", features=("a", "b")).is_picture
    assert not Space("deep", (2, 4, 4), (real,)).is_picture


@pytest.mark.parametrize(
    ("figures", "code", "says"),
    [
        ("overlap(aa)", "TM419", "aa has fewer than two attacks"),
        ("rejection(aa)", "TM419", "victim never rejects"),
        ("changed_features(aa)", "TM419", "px has no named features: use image_pairs"),
        ("corruption_accuracy(aa)", "TM419", "aa is of no shift"),
        ("radius_curve(aa)", "TM419", "aa has no `curve:`"),
        ("output_bounds(aa)", "TM419", "no stage of aa bounds every output: write `outputs: true` in a certifier"),
        ("overlaps(aa)", "TM101", "there is no figure `overlaps`"),
    ],
)
def test_a_figure_is_kind_checked_with_the_spec(figures: str, code: str, says: str) -> None:
    (diagnostic,) = checked(f"report {{ figures: {figures} }}").diagnostics
    assert diagnostic.code == code
    assert says in diagnostic.message


def test_figures_that_fit_are_silent() -> None:
    asked = "image_pairs(aa), perturbation_heatmap(aa), margins(aa), distances(aa), coverage(aa), survival_curve(aa)"
    assert not checked(f"report {{ figures: {asked} }}").diagnostics
