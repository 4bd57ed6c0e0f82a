"""Claims as JSON that other tools can read, check and compare without tmlang (docs/claim.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from tmlang import __version__
from tmlang.audit.bundle import STATEMENT, Bundle
from tmlang.audit.claims import STATUS_WORDS, Judgement, formula, judge_plan
from tmlang.audit.columns import Column
from tmlang.audit.quantities import NotMeasured, read
from tmlang.audit.record import Record
from tmlang.audit.show import exact
from tmlang.audit.summary import interval_json
from tmlang.audit.tally import voided_methods
from tmlang.base import canonical
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.plan import codec
from tmlang.plan.ir import Plan
from tmlang.plan.text import claim_identity, claim_meaning
from tmlang.report.latex import latex_number

FORMAT = "urn:tmlang:claims:v1"


def claim_ids(plan: Plan) -> tuple[str, ...]:
    """The identity of each claim, in order."""
    return tuple(claim_identity(plan, claim) for claim in plan.claims)


def promised(plan: Plan) -> dict[str, Any]:
    """The claims of a plan before any run: every ``result`` is null."""
    return _document([_claim(plan, claim, None) for claim in plan.claims], None)


def judged(bundle: Bundle) -> dict[str, Any]:
    """The claims of a sealed bundle with what became of them, worked out from its records."""
    plan, records = bundle.plan(), bundle.records()
    voided = voided_methods(plan, records)

    def column(measured: Measured) -> Column | None:
        try:
            return read(measured, plan, records, voided).column
        except NotMeasured:
            return None

    def result(j: Judgement) -> dict[str, Any]:
        own = column(j.claim.left)
        covered = column(replace(j.claim.left, quantity=covering(j.claim.left.quantity)))
        return {
            "status": j.status,
            "reason": j.reason,
            "low": exact(j.low),
            "high": exact(j.high),
            "interval": None if own is None else interval_json(own.interval),
            "denominator": None if own is None else own.denominator,
            "coverage": None if covered is None else [exact(covered.low), exact(covered.high)],
            "rests_on": list(j.rests_on),
            "assumes": list(j.assumes),
        }

    claims = [_claim(plan, j.claim, result(j)) for j in judge_plan(plan, records)]
    return _document(claims, _evidence(bundle, records))


def covering(quantity: str) -> str:
    """The column that says on what share of the units a number was measured."""
    return {
        "survival": "attack_coverage",
        "certified": "certificate_coverage",
        "certified_trusting": "certificate_coverage",
    }.get(quantity, "coverage")


def statement_hash(bundle: Bundle) -> str:
    """SHA-256 (hex) of the statement that seals the bundle: it names every file and its hash."""
    return sha256(bundle.read_bytes(STATEMENT)).hexdigest()


def claims_json(document: dict[str, Any]) -> bytes:
    return canonical.dumps(document)


def _document(claims: list[dict[str, Any]], evidence: dict[str, Any] | None) -> dict[str, Any]:
    return {"format": FORMAT, "tmlang": __version__, "claims": claims, "evidence": evidence}


def _claim(plan: Plan, claim: Claim, result: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "id": claim_identity(plan, claim),
        "title": claim.text,
        "formula": formula(claim),
        "meaning": claim_meaning(plan, claim),
        "result": result,
    }


def _evidence(bundle: Bundle, records: Sequence[Record]) -> dict[str, Any]:
    run = bundle.json("run.json")
    return {
        "statement": statement_hash(bundle),
        "rows": len(records),
        "evaluators": run["models"],
        "libraries": run["libraries"],
    }


def claims_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a document of claims."""
    plan, claim = codec.schema(Plan), codec.schema(Claim)
    text, maybe = {"type": "string"}, {"type": ["string", "null"]}
    digest = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    extent = {"type": ["string", "null"], "pattern": r"^(inf|-?[0-9]+(/[1-9][0-9]*)?)$"}
    result = _object(
        "What became of a claim: it holds throughout [low, high], or fails throughout, or is undecided; it is "
        "`assumed` where it holds if what `assumes` says is granted.",
        status={"enum": list(STATUS_WORDS)},
        reason=text,
        low=extent,
        high=extent,
        interval={"oneOf": [{"type": "null"}, _INTERVAL]},
        denominator={"type": ["integer", "null"]},
        coverage={"oneOf": [{"type": "null"}, {"type": "array", "items": extent, "minItems": 2, "maxItems": 2}]},
        rests_on={"type": "array", "items": text},
        assumes={"type": "array", "items": text},
    )
    meaning = _object(
        "What the identity is the hash of.",
        claim={"$ref": claim["$ref"]},
        plan={"$ref": plan["$ref"]},
        evaluator={"type": "object", "additionalProperties": text},
    )
    one = _object(
        "id is the SHA-256 of the canonical JSON (RFC 8785) of meaning.",
        id=digest,
        title=text,
        formula=text,
        meaning=meaning,
        result={"oneOf": [{"type": "null"}, result]},
    )
    evidence = _object(
        "The bundle that the results were counted from.",
        statement=digest,
        rows={"type": "integer", "minimum": 0},
        evaluators={"type": "object"},
        libraries={"type": "object", "additionalProperties": maybe},
    )
    return {
        "$schema": plan["$schema"],
        "title": "tmlang claims",
        **_object(
            "Claims about a classifier's worst case, with their results or before them.",
            format={"const": FORMAT},
            tmlang=text,
            claims={"type": "array", "items": one},
            evidence={"oneOf": [{"type": "null"}, evidence]},
        ),
        "$defs": dict(sorted({**plan["$defs"], **claim["$defs"]}.items())),
    }


def _object(description: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_INTERVAL = _object(
    "The confidence interval of an average.",
    low={"type": "number"},
    high={"type": "number"},
    level={"type": "string", "pattern": r"^[0-9]+(/[1-9][0-9]*)?$"},
    method={"enum": ["wilson", "clopper_pearson"]},
)


def bibtex(document: dict[str, Any], *, author: str = "", year: int | None = None) -> Iterator[str]:
    """One ``@misc`` entry per claim: what is claimed, its identity, and what became of it on which evidence."""
    for claim in document["claims"]:
        result, evidence = claim["result"], document["evidence"]
        told = f"{STATUS_WORDS[result['status']]}: {result['reason']}" if result else "not judged yet"
        rest = f"; evidence sha256 {evidence['statement']}" if evidence else ""
        fields = {
            "author": author,
            "title": f"{{{latex_number(claim['title'])}}}: {{{latex_number(claim['formula'])}}}",
            "year": "" if year is None else str(year),
            "howpublished": rf"tmlang claim \texttt{{{claim['id']}}}",
            "note": f"{latex_number(told)}{rest}",
        }
        lines = [f"  {name} = {{{text}}}" for name, text in fields.items() if text]
        yield f"@misc{{tmlang-{claim['id'][:12]},\n" + ",\n".join(lines) + "\n}"
