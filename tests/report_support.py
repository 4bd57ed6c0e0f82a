"""What every format must tell of a bundle, worked out from its tally and not from the view that the formats print."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import Any

from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import formula, judge_plan
from tmlang.audit.columns import Column, Columns
from tmlang.audit.show import interval, percent
from tmlang.audit.tally import tally_plan
from tmlang.plan.ir import EvaluationPlan
from tmlang.report.numbers import NAMES
from tmlang.report.paper import key_part, paper_macros
from tmlang.report.view import view_of
from tmlang.report.write import FORMATS


@dataclass(frozen=True)
class Told:
    """A number as a reader sees it, its exact ends, and the key under which LaTeX finds it."""

    heading: str
    value: str
    of: str
    low: Fraction | float | None
    high: Fraction | float | None
    key: str
    interval: dict[str, Any] | None


WORDS = {
    "supported": "supported",
    "assumed": "supported under an assumption",
    "refuted": "refuted",
    "undecided": "undecided",
    "not_evaluated": "not evaluated",
}


def expected(columns: Columns) -> Iterator[Told]:
    yield from (_told(c, "", c.name) for c in columns.columns)
    yield from (_told(c, label, f"{c.name}/{key_part(label)}") for label, c in columns.attacks + columns.alone)
    yield from (_told(c, f"repeat {i}", f"{c.name}/repeat/{i}") for i, c in enumerate(columns.repeats, 1))


def _told(c: Column, label: str, key: str) -> Told:
    estimate = c.note.startswith("estimate")
    heading = NAMES[c.name][0] + (f" ({c.note})" if estimate else "") + (f" of {label}" if label else "")
    if c.low is None:
        value = "undefined"
    elif c.at_least:
        value = f"at least {percent(c.low)}"
    else:
        value = interval(c.low, c.high, share=c.name != "median_distance")
    if c.interval is not None:
        value += f", interval {interval(*map(Fraction, c.interval.ends))}"
    value += f" ({c.note})" if c.note and not estimate else ""  # what a number rests on stands beside it
    of = c.interval
    told = None if of is None else {"low": of.low, "high": of.high, "level": str(of.level), "method": of.method}
    return Told(heading, value, str(c.denominator), c.low, c.high, key, told)


def tells_every_number(bundle: Bundle, pdf: bool = True) -> None:
    """Every number of every evaluation, and every claim, in HTML, Markdown, JSON, LaTeX and, where it can be made and
    read, PDF. The bundle is sealed."""
    view, plan, records = view_of(bundle), bundle.plan(), bundle.records()
    html, text = FORMATS["html"](view).decode(), FORMATS["md"](view).decode()
    data, tex = json.loads(FORMATS["json"](view)), macros(paper_macros(bundle, "x"))
    printed = pdf_lines(FORMATS["pdf"](view), bundle.path.parent) if pdf and can_print() else None
    pages = html.split('<section class="evaluation"')[1:]
    parts = re.split(r"^### All numbers$", text, flags=re.MULTILINE)[1:]
    columns = tally_plan(plan, records)
    for i, evaluation in enumerate(plan.evaluations):
        numbers = list(expected(columns[evaluation.name]))
        assert numbers
        _in_html(pages[i], numbers)
        _in_markdown(parts[i], numbers)
        _in_json(data["evaluations"][i], numbers)
        _in_tex(tex, f"x/{key_part(evaluation.name)}", numbers)
        if printed is not None:
            _in_pdf(_section(printed, evaluation), numbers)
    for i, j in enumerate(judge_plan(plan, records)):
        assert (
            data["claims"][i]["status"]
            == j.status
            == dict(zip(WORDS.values(), WORDS, strict=True))[tex[f"x/claim/{i + 1}/status"]]
        )
        assert data["claims"][i]["formula"] == formula(j.claim) == tex[f"x/claim/{i + 1}/formula"]
        assert f"| **{WORDS[j.status]}** | " in text
        assert data["claims"][i]["reason"] == j.reason
        assert j.reason in unescape(html)
        if j.low is not None and printed is not None and not j.assumes:  # else its ends with them and without
            assert plain(
                interval(j.low, j.high, share=j.claim.left.quantity not in ("median_distance", "mce", "relative_mce"))
            ) in (plain("".join(printed)))


def _in_html(page: str, numbers: list[Told]) -> None:
    rows = re.findall(r"<tr[^>]*><th scope=\"row\">(.*?)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>", page)
    cells = {tuple(unescape(re.sub("<[^>]*>", "", cell)) for cell in row) for row in rows}
    assert {(n.heading, n.value, n.of) for n in numbers} <= cells


def _in_markdown(part: str, numbers: list[Told]) -> None:
    lines = part.split("\n## ")[0].splitlines()
    cells = {tuple(cell.strip() for cell in line.split("|")[1:4]) for line in lines}
    assert {(n.heading, n.value, n.of) for n in numbers} <= cells


def _in_json(told: Any, numbers: list[Told]) -> None:
    found = {n["heading"]: n for n in told["numbers"]}
    found |= {f"{n['heading']} of {label}": n for label, n in told["attacks"] + told["alone"] + told["repeats"]}
    assert found.keys() == {n.heading for n in numbers}
    for n in numbers:
        assert (found[n.heading]["value"], found[n.heading]["of"]) == (n.value, n.of)
        assert [_extent(found[n.heading][end]) for end in ("low", "high")] == [n.low, n.high]
        assert found[n.heading]["interval"] == n.interval


def _extent(text: str | None) -> Fraction | float | None:
    return None if text is None else float("inf") if text == "inf" else Fraction(text)


def _in_tex(tex: dict[str, str], head: str, numbers: list[Told]) -> None:
    for n in numbers:
        assert tex[f"{head}/{n.key}"] == n.value
        assert tex[f"{head}/{n.key}/of"] == n.of
        assert tex[f"{head}/{n.key}/full"].startswith(n.value)
        assert f" of {n.of} (coverage " in tex[f"{head}/{n.key}/full"]
        if n.interval is not None:
            names = {"wilson": "Wilson", "clopper_pearson": "Clopper-Pearson"}
            assert tex[f"{head}/{n.key}/interval/method"] == names[n.interval["method"]]
            assert tex[f"{head}/{n.key}/interval/level"] == percent(Fraction(n.interval["level"]))
        assert (tex[f"{head}/{n.key}/low"] == tex[f"{head}/{n.key}/high"]) == (n.low == n.high)


def macros(tex: str) -> dict[str, str]:
    """Key -> what TeX prints."""
    return {key: _printed(text) for key, text in re.findall(r"^\\tmset\{([^}]*)\}\{(.*)\}$", tex, re.MULTILINE)}


def _printed(tex: str) -> str:
    plain = {r"\,\%": " %", r"$\infty$": "∞", r"\textemdash{}": "—", r"$\ge$": "≥", r"$\le$": "≤", r"\_": "_"}
    for command, text in plain.items():
        tex = tex.replace(command, text)
    return tex


# PDF -----------------------------------------------------------------------------------------------------------------


def can_print() -> bool:
    """Whether a PDF can be made and read here: weasyprint with Pango, and poppler."""
    try:
        import weasyprint  # noqa: F401
    except (ImportError, OSError):
        return False
    return shutil.which("pdftotext") is not None


def pdf_lines(made: bytes, folder: Path) -> list[str]:
    """The printed lines, as they stand beside each other."""
    (folder / "printed.pdf").write_bytes(made)
    command = ["pdftotext", "-layout", str(folder / "printed.pdf"), "-"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def plain(text: str) -> str:
    return "".join(text.split())


def _section(lines: list[str], evaluation: EvaluationPlan) -> list[str]:
    head = f"{evaluation.name} of {evaluation.subject}"
    starts = [i for i, line in enumerate(lines) if line.strip("\f ") == head]
    assert len(starts) == 1, head
    return lines[starts[0] :]


def _in_pdf(lines: list[str], numbers: list[Told]) -> None:
    """Each on a line of its own, in this order: the first word of its heading, the number, its denominator."""
    rows = iter([plain(re.sub(" {2,}", "|", line.strip())) for line in lines])
    for n in numbers:
        number = rf"\|{re.escape(plain(n.value))}\|?{n.of}(?!\d)"
        row = re.compile(rf"^{re.escape(n.heading.split()[0])}.*{number}")
        assert any(row.search(line) for line in rows), n
