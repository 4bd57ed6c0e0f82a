"""``report.md``: the same view as plain text that a reviewer can read, quote and compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tmlang.audit.claims import STATUS_WORDS
from tmlang.audit.show import DASH
from tmlang.report.compare import Comparison
from tmlang.report.mathtext import to_unicode
from tmlang.report.numbers import NAMES, SIGNS_SAY
from tmlang.report.view import EvaluationView, View, claims_line


def markdown(view: View) -> str:
    """The view as GitHub-flavoured Markdown."""
    return "\n".join(_lines(view)) + "\n"


def comparison_markdown(c: Comparison) -> str:
    """Several bundles side by side."""
    heads = (
        "evaluation",
        "threat",
        "object",
        "units",
        *(NAMES[n][0] for n in c.columns),
        "R in [certified, not broken]",
    )
    lines = [f"# {_text(c.title)}", ""]
    lines += _table(heads, [(r.name, r.subject, r.model, r.units, *r.numbers, r.bounds) for r in c.rows])
    lines += ["## What follows", ""]
    pairs = [(f"{p.first}, {p.second}", p.says if p.comparable else f"not comparable: {p.says}") for p in c.pairs]
    lines += _table(("pair", "result"), pairs)
    return "\n".join(lines)


def _lines(view: View) -> Iterator[str]:
    yield from (f"# {_text(view.title)}", "", claims_line(view), "")
    for e in view.evaluations:
        yield from (f"> **{_text(e.name)}: {_text(c)}**\n" for c in e.contradictions)
    if view.claims:
        yield from ("## Claims", "")
        rows = [
            (f"**{STATUS_WORDS[c.status]}**", f"{c.text}: `{c.formula}`", c.reason, c.proves, ", ".join(c.rests_on))
            for c in view.claims
        ]
        yield from _table(("status", "claim", "because", "evidence", "rests on"), rows)
    yield from ("## Overview", "")
    heads = ("evaluation", *(NAMES[name][0] for name in view.overview_columns), "R in [certified, not broken]")
    yield from _table(heads, [_overview(view, e) for e in view.evaluations])
    yield from _points(f"{e.name}: {' · '.join(e.summary)}" for e in view.evaluations)
    yield from _points(f"{heading}: {meaning}" for heading, meaning in view.legend)
    if view.signs:
        yield from ("## Signs of masked gradients", "", _text(SIGNS_SAY), "")
        told = [(s.code, s.evaluation, f"**{s.name}**", s.evidence) for s in view.signs]
        yield from _table(("code", "evaluation", "sign", "evidence"), told)
    for s in view.sweeps:
        yield from (f"## {_text(s.evaluation)} over {_text(s.parameter)}", "")
        if s.contradicted:
            yield from ("> **A certificate at one point is contradicted by a witness at a smaller one.**", "")
        heads = (s.parameter, "survival, own", "survival, closed", "certified, own", "certified, closed")
        yield from _table(heads, [(r.value, r.own[0], r.closed[0], r.own[1], r.closed[1]) for r in s.rows])
    for e in view.evaluations:
        yield from _evaluation(e)
        drawn = [d for d in view.drawings if d.evaluation == e.name]
        yield from ("### Figures", "") if drawn else ()
        for d in drawn:
            shown = f"{d.name} is not drawn: {_text(d.refused)}"
            yield from (shown if d.refused else f"![{_text(d.title)}: {_text(d.says)}]({d.file}.svg)", "")
    yield from ("## Not tested", "", *_points(view.untested))
    if view.warnings:
        yield from ("## Warnings", "", *_points(view.warnings))
    yield from ("## Versions and hashes", "")
    for heading, pairs in view.facts:
        yield from (f"### {heading}", "")
        yield from _table(("what", "value"), pairs)
    yield "Every number was counted from the records of this bundle; `tmc audit` on its folder checks them."


def _overview(view: View, e: EvaluationView) -> tuple[str, ...]:
    values = dict(e.overview)
    return (e.name, *(values[name] for name in view.overview_columns), e.bounds.text or DASH)


def _evaluation(e: EvaluationView) -> Iterator[str]:
    yield from (f"## {_text(e.name)} of {_text(e.subject)}", "")
    if e.doc:
        yield from (_text(e.doc), "")
    if e.summary:
        yield from ("`" + " · ".join(e.summary) + "`", "")
    if e.bounds.text:
        yield from (f"**R {e.bounds.relation} {e.bounds.text}** ({e.bounds.direction})", "")
    yield from (*_points(e.headline), f"### {e.asked}", "")
    yield from _table(("clause", "meaning"), [(s.topic, s.text) for s in e.sentences])
    yield from ("```text", *(to_unicode(line) for line in e.symbols), "```", "", f"### {e.done}", "")
    heads = ("stage", "method", "set", "settings", "units", "newly broken", "proved", "survival after it")
    rows = [
        (
            s.label,
            f"`{s.method}`: {s.does}",
            "; ".join((s.covers, s.access, *s.reasons)),
            ", ".join(f"{name} {value}" for name, value in s.arguments),
            "; ".join((str(s.units), *(f"{n} {kind}" for kind, n in s.failed))),
            DASH if s.fresh is None else str(s.fresh),
            DASH if s.proved is None else f"{s.proved}{f' ({s.rests_on})' if s.rests_on else ''}",
            s.standing or DASH,
        )
        for s in e.stages
    ]
    yield from _table(heads, rows)
    yield from ("### What does not follow", "", *_points(e.limits))
    if e.corrupted:
        yield from ("### Accuracy by corruption and severity", "")
        yield from _table(e.corrupted.heads, e.corrupted.rows)
    yield from _failures(e)
    yield from ("### All numbers", "")
    numbers = [(n.heading, n.value, n.of, n.meaning, "; ".join(n.gaps)) for n in e.numbers]
    alone = [*e.attacks, *e.alone, *e.repeats]
    numbers += [(f"{n.heading} of {label}", n.value, n.of, n.meaning, "; ".join(n.gaps)) for label, n in alone]
    yield from _table(("number", "value", "of", "counts units that are", "open"), numbers)


def _failures(e: EvaluationView) -> Iterator[str]:
    if e.look:
        yield from ("### Where to look first", "", _text(e.look.text), "")
    if not e.failed:
        return
    title = "What the change turned" if e.kind == "shift" else "What failed"
    yield from (f"### {title} ({len(e.failures)} of {e.failed})", "")
    rows = [
        (
            f.unit,
            f.label,
            f.decision,
            f.stage + ("" if f.within_access else " (beyond the declared access)"),
            f.distance,
            str(f.queries),
            "; ".join((f.candidate, *(c.text for c in f.changes))),
        )
        for f in e.failures
    ]
    yield from _table(("unit", "label", "decided", "found by", "distance", "queries", "input"), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from (f"| {' | '.join(map(_text, row))} |" for row in rows)
    yield ""


def _points(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"* {_text(line)}" for line in lines)
    yield ""


def _text(text: str) -> str:
    """Text from a spec or a record, on one line and without power over the layout or the page around it."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("](", "]\\(")
