"""Writes docs/figures.md and its pictures anew from three runs: ``python docs/figures/make.py`` (about a minute)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tmlang.audit.bundle import Bundle
from tmlang.meaning.figures import FIGURES
from tmlang.report.drawing import Drawing
from tmlang.report.figures import draw
from tmlang.report.material import Material, materials
from tmlang.report.view import view_of

ROOT = Path(__file__).resolve().parents[2]
SPECS = ("specs/digits/figures.tm", "specs/digits/shifts.tm", "specs/sensor/sensor.tm")
SHOWN = {"rejection": "refusing", "radius_curve": "radii@eps=0.02", "corruption_accuracy": "fog"}
"""Where another evaluation than the first that fits shows more."""

HEAD = """\
# The figures

`report { figures: overlap(aa), margins(aa) }` in a spec puts figures into the report of its run; `tmc report BUNDLE
--figures all` (or names between commas) draws them of any bundle, as SVG and PNG in `figures/` and into the page. Equal
records give equal bytes. A figure that cannot show the evidence at hand is refused, with the spec where it names one
([TM419](diagnostics/TM419.md)), or in its place in the report where the run found nothing to show.

Those below were drawn by `docs/figures/make.py` from runs of `specs/digits/figures.tm`, `specs/digits/shifts.tm` and
`specs/sensor/sensor.tm`; the line above each is what asks for it there. Bounds of outputs are proved where a stage is
asked for them: `certify: crown = auto_lirpa.crown(outputs: true)`, or `decide_exactly: exact = marabou.query(outputs:
1/100)` for bounds that are exact to a hundredth.
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _write(list(_materials(Path(folder))))


def _write(found: list[tuple[str, Material]]) -> None:
    parts = [HEAD]
    for name, figure in FIGURES.items():
        drawings = [(spec, m, draw(name, m)) for spec, m in found if name not in SHOWN or m.view.name == SHOWN[name]]
        spec, m, drawn = next((spec, m, d) for spec, m, d in drawings if not d.refused)
        parts.append(f"## {name}\n\n{figure.title[0].upper()}{figure.title[1:]}.\n\n{_shown(spec, m, drawn)}")
    (ROOT / "docs/figures.md").write_text("\n".join(parts), encoding="utf-8")


def _shown(spec: str, m: Material, drawn: Drawing) -> str:
    file = f"figures/{drawn.name}.png"
    (ROOT / "docs" / file).write_bytes(drawn.png)
    asks = f"```tm\nreport {{ figures: {drawn.name}({m.declared}) }}  # {spec}\n```\n\n"
    return f"{asks}![{drawn.title}: {drawn.says}]({file})\n\nOf `{drawn.evaluation}`: {drawn.says}.\n"


def _materials(folder: Path) -> Iterator[tuple[str, Material]]:
    for spec in SPECS:
        out = folder / Path(spec).stem
        command = [sys.executable, "-m", "tmlang", "run", spec, "--trust-code", "--quiet", "--out", str(out)]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        bundle = Bundle.open(out)
        yield from ((spec, m) for m in materials(bundle, view_of(bundle)))


if __name__ == "__main__":
    main()
