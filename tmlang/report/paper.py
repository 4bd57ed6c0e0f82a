"""``report.tex``: every number, the table, the threat and the protocol of a bundle, for ``\\input`` into a paper.

One macro, ``\\tm{name/greys/certified}``, looks a number up by its key. An unknown key, and a key that two files
define, stop TeX, so that no number is retyped, missed or mistaken. The keys stand in docs/papers.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tmlang import __version__
from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import STATUS_WORDS, Judgement, formula, judge_plan
from tmlang.audit.columns import Column, Columns
from tmlang.audit.quantities import NOT_SHARES
from tmlang.audit.show import DASH, interval, number, percent
from tmlang.audit.tally import tally_plan
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import EvaluationPlan, Plan
from tmlang.plan.text import plan_hash
from tmlang.report.claims import claim_ids, covering, statement_hash
from tmlang.report.failures import look_first
from tmlang.report.latex import latex_number, latex_text
from tmlang.report.limits import limits
from tmlang.report.numbers import (
    NAMES,
    Bounds,
    bounds,
    headline,
    interval_text,
    number_view,
    qualified,
    rests_on,
    short,
)
from tmlang.report.protocol import SHORT, protocol
from tmlang.report.symbols import display, symbol_lines
from tmlang.report.words import METHODS, paragraph

_HEAD = r"""% Written by tmlang {version} from the bundle with the statement {statement}.
% In the preamble: \usepackage{{amsmath,booktabs}} and \input{{this file}}. In the text: \tm{{{name}/table}}.
\providecommand{{\tm}}[1]{{\ifcsname tm@#1\endcsname\csname tm@#1\endcsname\else
  \errmessage{{tmlang: there is no number #1}}\fi}}
\providecommand{{\tmset}}[2]{{\ifcsname tm@#1\endcsname
  \errmessage{{tmlang: two files define #1; write one of them with tmc report --latex --name}}\fi
  \expandafter\def\csname tm@#1\endcsname{{#2}}}}
"""
_TABLE = (
    "clean_accuracy",
    "certified",
    "certified_trusting",
    "survival",
    "corrupted_accuracy",
    "median_distance",
    "coverage",
)
_SEEN = re.compile(r"[^A-Za-z0-9@=./+_-]")


@dataclass(frozen=True)
class _Paper:
    bundle: Bundle
    name: str
    plan: Plan
    columns: Mapping[str, Columns]
    judgements: Sequence[Judgement]
    ids: Sequence[str]


def paper_macros(bundle: Bundle, name: str = "") -> str:
    """The file, in pure ASCII. ``name`` heads every key; that of the spec when empty."""
    plan, records = bundle.plan(), bundle.records()
    own = [m.name for m in plan.own_modules]
    name = key_part(name or (own[0].rpartition("/")[2].removesuffix(".tm") if own else "run"))
    paper = _Paper(bundle, name, plan, tally_plan(plan, records), judge_plan(plan, records), claim_ids(plan))
    head = _HEAD.format(version=__version__, statement=statement_hash(bundle), name=name)
    sets = dict(_all(paper))
    return head + "".join(f"\\tmset{{{name}/{key}}}{{{text}}}\n" for key, text in sets.items())


def key_part(text: str) -> str:
    """``text`` as a part of a key: letters, digits and ``@ = . / + _ -``."""
    return _SEEN.sub("-", text)


def _all(paper: _Paper) -> Iterator[tuple[str, str]]:
    yield "plan", _hash(plan_hash(paper.plan))
    yield "bundle", _hash(statement_hash(paper.bundle))
    yield "tmlang", latex_text(__version__)
    yield "table", _table(paper)
    yield "claims", _claims_table(paper)
    for i, judgement in enumerate(paper.judgements, 1):
        yield from ((f"claim/{i}{end}", text) for end, text in _claim(judgement, paper.ids[i - 1]))
    records = paper.bundle.records()
    for evaluation in paper.plan.evaluations:
        head = key_part(evaluation.name)
        columns, subject = paper.columns[evaluation.name], paper.plan.subject(evaluation.subject)
        yield f"{head}/threat", latex_text(paragraph(paper.plan, subject))
        yield f"{head}/set", display(symbol_lines(paper.plan, subject))
        yield f"{head}/protocol", latex_text(protocol(paper.plan, evaluation, paper.bundle.json("run.json")))
        yield f"{head}/found", " ".join(_found(columns))
        if look := look_first(evaluation, subject, paper.plan.model(subject.model).classes, records):
            yield f"{head}/incident", latex_text(look.text)
        yield f"{head}/limits", latex_text(" ".join(limits(paper.plan, evaluation, columns, records)))
        yield from ((f"{head}/{end}", text) for end, text in _numbers(paper, evaluation, columns))


def _found(columns: Columns) -> Iterator[str]:
    """What was found, in sentences, and what R is."""
    yield from map(latex_number, headline(columns))
    known = bounds(columns)
    if known.text:
        of = f"the share of the {columns.counts.denominator} {columns.units}"
        yield f"So $R$, {of} that are decided rightly and that no allowed input makes fail, {_lies(known)}."


def _lies(known: Bounds) -> str:
    return f"{'is' if known.relation == '=' else 'lies in'} {latex_number(known.text)} ({known.direction})"


# Numbers -------------------------------------------------------------------------------------------------------------


def _numbers(paper: _Paper, evaluation: EvaluationPlan, columns: Columns) -> Iterator[tuple[str, str]]:
    known = bounds(columns)
    if known.text:
        relation = {"in": r"\in", "=": "="}[known.relation]
        yield "R", f"$R {relation}$ {latex_number(known.text)}"
    if columns.holds is not None:
        yield "holds", columns.holds + (f" ({latex_text(columns.note)})" if columns.note else "")
    for column in columns.columns:
        yield from _number(paper, evaluation, columns, column, column.name)
    for label, column in columns.attacks + columns.alone:
        yield from _number(paper, evaluation, columns, column, f"{column.name}/{key_part(label)}")
    for i, column in enumerate(columns.repeats, 1):
        yield from _number(paper, evaluation, columns, column, f"{column.name}/repeat/{i}")


def _number(
    paper: _Paper, evaluation: EvaluationPlan, columns: Columns, column: Column, key: str
) -> Iterator[tuple[str, str]]:
    """A number and what belongs to it: ends of its range, interval, counts, coverage, claim, and all in one."""
    share = column.name != "median_distance"
    show = percent if share else number
    value = latex_number(number_view(column).value)
    yield key, value
    yield f"{key}/low", latex_number(qualified(show(column.low), column))
    yield f"{key}/high", latex_number(qualified(show(column.high), column))
    yield f"{key}/count", latex_number(qualified(str(column.numerator), column))
    yield f"{key}/of", str(column.denominator)
    if column.interval is not None:
        yield f"{key}/interval", latex_number(interval_text(column.interval))
        yield f"{key}/interval/level", latex_number(percent(column.interval.level))
        yield f"{key}/interval/method", latex_text(METHODS[column.interval.method])
    covered = columns.get(covering(column.name))
    coverage = latex_number(DASH if covered is None else interval(covered.low, covered.high))
    yield f"{key}/coverage", coverage
    ids = _ids_on(paper, evaluation, column.name)
    claim = ", ".join(rf"\texttt{{{i[:SHORT]}}}" for i in ids)
    yield f"{key}/claim", claim or "none"
    tail = f"claim{'s' * (len(ids) > 1)} {claim}" if ids else "no claim"
    note = f" ({latex_text(column.note)})" if column.note and not rests_on(column) else ""
    yield f"{key}/full", f"{value}{note} of {column.denominator} (coverage {coverage}; {tail})"


def _ids_on(paper: _Paper, evaluation: EvaluationPlan, quantity: str) -> list[str]:
    """The claims that are made about this number of this evaluation."""
    names = {evaluation.name, declared_name(evaluation)}
    lefts = [claim.left for claim in paper.plan.claims]
    return [
        i for i, left in zip(paper.ids, lefts, strict=True) if left.evaluation in names and left.quantity == quantity
    ]


# Claims --------------------------------------------------------------------------------------------------------------


def _claim(judgement: Judgement, identity: str) -> Iterator[tuple[str, str]]:
    claim, said = judgement.claim, latex_number(formula(judgement.claim))
    status = STATUS_WORDS[judgement.status]
    short_id = rf"\texttt{{{identity[:SHORT]}}}"
    yield "", f"The claim {said} is {status}: {latex_number(judgement.reason)} (id {short_id})"
    yield "/title", latex_text(claim.text)
    yield "/formula", said
    yield "/status", status
    yield "/reason", latex_number(judgement.reason)
    yield "/id", _hash(identity)
    yield "/short", short_id


def _hash(digest: str) -> str:
    """A hash that may be broken at the end of a line."""
    return r"\texttt{" + r"\allowbreak ".join(re.findall("." * 8, digest)) + "}"


# Tables --------------------------------------------------------------------------------------------------------------


def _table(paper: _Paper) -> str:
    shown = [name for name in _TABLE if any(c.get(name) for c in paper.columns.values())]
    heads = ["evaluation", "units", *(NAMES[name][0] for name in shown), "$R$"]
    rows = []
    for evaluation in paper.plan.evaluations:
        columns = paper.columns[evaluation.name]
        values = [latex_number(short(columns, name)) for name in shown]
        known = latex_number(bounds(columns).text or DASH)
        rows.append([latex_text(f"`{evaluation.name}`"), str(columns.counts.denominator), *values, known])
    return _booktabs("l" + "r" * (len(heads) - 1), heads, rows)


def _claims_table(paper: _Paper) -> str:
    rows = [
        [
            latex_number(formula(j.claim)),
            STATUS_WORDS[j.status],
            latex_number(_measured(j)),
            rf"\texttt{{{identity[:SHORT]}}}",
        ]
        for j, identity in zip(paper.judgements, paper.ids, strict=True)
    ]
    return _booktabs("llrl", ["claim", "status", "measured", "id"], rows)


def _measured(judgement: Judgement) -> str:
    if judgement.low is None:
        return DASH
    text = interval(judgement.low, judgement.high, share=_is_share(judgement))
    return f"{text} (in part assumed)" if judgement.assumes else text


def _is_share(judgement: Judgement) -> bool:
    return judgement.claim.left.quantity not in NOT_SHARES


def _booktabs(columns: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" & ".join(row) + r" \\" for row in rows]
    body = "\n".join([" & ".join(heads) + r" \\ \midrule", *lines])
    return f"\\begin{{tabular}}{{{columns}}}\\toprule\n{body}\n\\bottomrule\\end{{tabular}}"
