"""The figures of proved bounds show the numbers of the records: worked out here by hand from three classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import pytest
from audit_support import Rows, attack, certifier, evaluation, make_bundle, plan, threat
from semantics_support import checked

from tmlang.audit.outputs import OutputBounds
from tmlang.report.figures import draw
from tmlang.report.figures.bounds import output_bounds, pinned_intervals, width_heatmap
from tmlang.report.figures.proofs import margin_heatmap
from tmlang.report.material import Material, materials
from tmlang.report.view import view_of

ASKED = {"arguments": (("outputs", True),)}
# unit: label, lower, upper, margins over the classes
UNITS = {
    "u": (0, (2.0, -1.0, -3.0), (4.0, 1.0, -2.0), (0, 1.5, 4.5)),
    "v": (0, (1.0, 0.0, -2.0), (3.0, 2.0, 0.0), (0, -0.5, 2.0)),
    "w": (1, (-2.0, 3.0, -1.0), (-1.0, 5.0, 2.0), (4.5, 0, 2.5)),
    "x": (1, (-4.0, 2.5, 0.5), (1.0, 4.5, 3.5), (2.0, 0, -0.25)),
    "y": (1, (0.0, 1.0, 0.0), (2.0, 2.0, 1.0), (0.5, 0, 1.0)),
}


def bounds_of(unit: str, *, margins: bool = True, wider: float = 0.0) -> OutputBounds:
    """Inputs were seen to take the middle half of each interval."""
    _, low, high, over = UNITS[unit]
    lower, upper = np.array(low) - wider, np.array(high) + wider
    quarter = (upper - lower) / 4
    return OutputBounds(lower, lower + quarter, upper - quarter, upper, np.array(over, float) if margins else None)


def material(path: Path, *, second: bool = False, margins: bool = True) -> Material:
    rows, kept = Rows(), []
    for unit, (label, _, _, over) in UNITS.items():
        least = min(v for k, v in enumerate(over) if k != label)
        rows.clean(unit, label=label)
        rows.attack(unit, outcome="broken" if unit == "x" else "none", candidate=None)
        rows.proof(unit, "c", "certified" if least > 0 else "unknown", margin=least, gap=0.0, gap_kind="proved")
        kept += [None, None, bounds_of(unit, margins=margins)]
        if second:
            rows.proof(unit, "d", "unknown", margin=-9.0, gap=0.0, gap_kind="proved")
            kept.append(bounds_of(unit, margins=False, wider=0.5))
    stages = [attack(), certifier("c", **ASKED), *([certifier("d", **ASKED)] if second else [])]
    bundle = make_bundle(path, plan([evaluation(*stages)], [threat()]), rows.all)
    (path / "records/000001.parquet").unlink()
    named = [None if b is None else bundle.add_outputs([b])[0] for b in kept]
    bundle.write_records([replace(r, outputs=name) for r, name in zip(rows.all, named, strict=True)])
    return next(materials(bundle, view_of(bundle)))


def test_boxes_are_the_quartiles_of_label_and_others(tmp_path: Path) -> None:
    figure, says = output_bounds(material(tmp_path / "run"))
    boxes = [p.get_path().get_extents() for p in figure.axes[0].patches]
    own = [[2.0, 1.0], [3.0, 2.5, 1.0]]  # lower bounds of classes 0 and 1 where they are the label; 2 never is
    others = [[-1.0, 1.0, 2.0], [1.0, 2.0], [-2.0, 0.0, 2.0, 3.5, 1.0]]
    expected = [quantiles(v, n=4, method="inclusive") for v in own + others]
    assert [(b.y0, b.y1) for b in boxes] == [pytest.approx((q[0], q[2])) for q in expected]
    assert [round((b.x0 + b.x1) / 2) for b in boxes] == [0, 1, 0, 1, 2]
    assert says == (
        f"5 units: over all classes the median lower bound of the label is {median([2, 1, 3, 2.5, 1]):.3g}, "
        f"and the median upper bound of the other classes is {median([-1, 1, 2, 1, 2, -2, 0, 2, 3.5, 1]):.3g}"
    )


def test_pinned_are_the_narrowest_proof_the_nearest_miss_and_a_failure(tmp_path: Path) -> None:
    """y is proved by 0.5, u by 1.5, w by 2.5; v stands unproved; x is broken."""
    figure, says = pinned_intervals(material(tmp_path / "run", second=True))
    titles = [a.get_title() for a in figure.axes]
    assert titles == ["y: proved most narrowly", "v: nearest to a proof", "x: broken"]
    for axes, unit in zip(figure.axes, "yvx", strict=True):
        _, low, high, _ = UNITS[unit]
        bars = [p for p in axes.patches if p.get_height() < 0.5]
        assert [(p.get_x(), p.get_x() + p.get_width()) for p in bars] == [
            pytest.approx(pair)
            for wider in (0, 0.5)
            for pair in zip(np.array(low) - wider, np.array(high) + wider, strict=True)
        ]
        seen = np.array(axes.collections[0].get_segments())[:, :, 0]
        assert seen == pytest.approx(
            np.array([(a + (b - a) / 4, b - (b - a) / 4) for a, b in zip(low, high, strict=True)])
        )
    # y: its label reaches down to 1, class 0 up to 2, class 2 up to 1.
    assert says.startswith("y: proved most narrowly, 0 of 2 other classes lie wholly below the label; v: nearest to")
    assert "v: nearest to a proof, 1 of 2 other classes" in says
    assert "x: broken, 1 of 2 other classes" in says


def test_widths_stand_in_the_order_of_their_mean(tmp_path: Path) -> None:
    """Sums of widths: y 4, u 5, v 6, w 6, x 10."""
    figure, says = width_heatmap(material(tmp_path / "run"))
    (image,) = figure.axes[0].images
    assert image.get_array().T.tolist() == [[2, 1, 1], [2, 2, 1], [2, 2, 2], [1, 2, 3], [5, 2, 3]]
    assert says == "median width 2, of which inputs were seen to take 50 %"


def test_margins_over_classes_stand_by_label_and_least_margin(tmp_path: Path) -> None:
    figure, says = margin_heatmap(material(tmp_path / "run"))
    (image,) = figure.axes[0].images
    grid = np.ma.filled(image.get_array(), np.nan).T
    expected = [UNITS[u][3] for u in "uvwyx"]
    labels = [0, 0, 1, 1, 1]
    for row, over, label in zip(grid, expected, labels, strict=True):
        assert np.isnan(row[label])
        assert np.delete(row, label).tolist() == list(np.delete(over, label))
    # Least over: u 1, v 1, w 2, x 2, y 0.
    assert says.endswith("the least margin is most often that of 0 over 1 (2 units)")
    assert figure.axes[0].get_xlabel() == "5 units by their label, then by their least margin"


def test_without_margins_over_classes_they_stand_by_certifier(tmp_path: Path) -> None:
    figure, _ = margin_heatmap(material(tmp_path / "run", margins=False))
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["c"]
    (image,) = figure.axes[0].images
    assert image.get_array().tolist() == [[2.5, 1.5, 0.5, -0.25, -0.5]]


def test_a_stage_that_was_asked_and_proved_nothing_is_said(tmp_path: Path) -> None:
    rows = Rows().clean("u").proof("u", "c", "unknown", message="no bounds of outputs: its time was up")
    bundle = make_bundle(tmp_path / "run", plan([evaluation(certifier("c", **ASKED))], [threat()]), rows.all)
    m = next(materials(bundle, view_of(bundle)))
    for name in ("output_bounds", "pinned_intervals", "width_heatmap"):
        assert draw(name, m).refused == "no stage proved bounds of the outputs"


def evaluated(stage: str, figures: str) -> str:
    stages = f"  attack:  a = native.apgd()\n  {stage}\n  seed:    0\n"
    return f"evaluate aa of linf8 {{\n{stages}}}\nreport {{ figures: {figures} }}"


@pytest.mark.parametrize(
    "stage",
    [
        "certify: c = auto_lirpa.crown(outputs: true)",
        "certify: c = auto_lirpa.ibp(outputs: true)",
        "decide_exactly: c = marabou.query(outputs: 1/100)",
    ],
)
def test_bounds_that_are_asked_for_can_be_shown(stage: str) -> None:
    figures = "output_bounds(aa), pinned_intervals(aa), width_heatmap(aa)"
    found = checked(evaluated(stage, figures)).diagnostics
    assert [d for d in found if d.code == "TM419"] == []


@pytest.mark.parametrize("argument", ["outputs: false", ""])
def test_bounds_that_are_declined_cannot(argument: str) -> None:
    found = checked(evaluated(f"certify: c = auto_lirpa.crown({argument})", "width_heatmap(aa)")).diagnostics
    assert [d.code for d in found] == ["TM419"]
