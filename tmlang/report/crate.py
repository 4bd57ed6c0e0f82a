"""``ro-crate-metadata.json``: the bundle described for archives and catalogues (RO-Crate 1.1, with the profile Process
Run Crate 0.5): every file, what made them of what, and the claims.

It describes, and proves nothing: hashes stand in the statement alone. No licence is granted here, for tmlang does not
know one; who publishes the bundle adds it to a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tmlang.audit.bundle import CRATE, STATEMENT, Bundle
from tmlang.audit.claims import STATUS_WORDS, formula
from tmlang.base import canonical
from tmlang.plan.ir import Plan
from tmlang.plan.text import claim_identity

_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_PROCESS = "https://w3id.org/ro/wfrun/process/0.5"
_ROOT, _RUN, _TOOL, _LICENCE = "./", "#run", "#tmlang", "#licence"
_KINDS = {
    "json": "application/json",
    "md": "text/markdown",
    "html": "text/html",
    "tm": "text/plain",
    "parquet": "application/vnd.apache.parquet",
    "safetensors": "application/octet-stream",
    "svg": "image/svg+xml",
    "png": "image/png",
}
"""Ending of a file -> its media type."""
_ABOUT = {
    "plan.json": "The plan: everything that the spec means, resolved.",
    "run.json": "What the records depend on: plan, files, versions, the examples in order.",
    "lock.json": "The lock that the run was held to.",
    "columns.json": "Every headline number and every judgement.",
    "environment.json": "The machine, the command, measured times, warnings.",
    "review.json": "Which failing inputs a person judged, and how.",
    "croissant.json": "The data of the run (MLCommons Croissant).",
    "statement.json": "In-toto statement: the SHA-256 of every other file. The only authority on integrity.",
    "report.html": "The report, as a page.",
    "report.md": "The report, as text.",
    "spec": "The spec, or a file that it uses.",
    "records": "Rows, one for each unit and stage.",
    "candidates": "Inputs that rows name, beside their originals.",
    "outputs": "Proved bounds of outputs that rows name.",
    "figures": "A figure that the spec asks for.",
}
"""File, or folder -> what it is."""


def crate(bundle: Bundle) -> bytes:
    """The description of a bundle whose other files are all there, the statement apart. It follows from them: equal
    files, equal bytes."""
    graph = [_descriptor(), _root(bundle), *_files(bundle), *_made(bundle), *_inputs(bundle), *_claims(bundle)]
    return canonical.dumps({"@context": f"{_SPECIFICATION}/context", "@graph": graph})


def _descriptor() -> dict[str, Any]:
    return {
        "@id": CRATE,
        "@type": "CreativeWork",
        "about": {"@id": _ROOT},
        "conformsTo": {"@id": _SPECIFICATION},
    }


def _root(bundle: Bundle) -> dict[str, Any]:
    plan = bundle.plan()
    return {
        "@id": _ROOT,
        "@type": "Dataset",
        "conformsTo": {"@id": _PROCESS},
        "name": f"Evidence of a run of {_title(plan)}",
        "description": "Records, inputs and numbers behind claims about a classifier's worst case, to be checked with "
        "tmc audit.",
        "datePublished": bundle.json("environment.json")["date"],
        "license": {"@id": _LICENCE},
        "hasPart": [{"@id": name} for name in _names(bundle)],
        "mentions": [{"@id": i} for i in (_RUN, *(f"#claim-{n}" for n in range(1, len(plan.claims) + 1)))],
    }


def _title(plan: Plan) -> str:
    own = [m.name for m in plan.own_modules]
    return own[0].rpartition("/")[2] if own else "a plan"


def _names(bundle: Bundle) -> list[str]:
    return sorted({*bundle.files(), STATEMENT} - {CRATE})


def _files(bundle: Bundle) -> Iterator[dict[str, Any]]:
    for name in _names(bundle):
        size = {} if name == STATEMENT else {"contentSize": str(len(bundle.read_bytes(name)))}
        kind = _KINDS.get(name.rpartition(".")[2], "application/octet-stream")
        about = _ABOUT.get(name.partition("/")[0], "A file of the bundle.")
        yield {"@id": name, "@type": "File", "name": name, "description": about, "encodingFormat": kind, **size}


def _made(bundle: Bundle) -> Iterator[dict[str, Any]]:
    run = bundle.json("run.json")
    objects = [n for n in _names(bundle) if n.startswith("spec/")] + [_input(path) for path in run["artifacts"]]
    results = [n for n in _names(bundle) if not n.startswith("spec/")]
    yield {
        "@id": _RUN,
        "@type": "CreateAction",
        "name": "The run",
        "description": "Searches and proofs over the units of every evaluation, each candidate decided again.",
        "instrument": {"@id": _TOOL},
        "object": [{"@id": i} for i in objects],
        "result": [{"@id": i} for i in results],
        "endTime": bundle.json("environment.json")["date"],
    }
    yield {
        "@id": _TOOL,
        "@type": "SoftwareApplication",
        "name": "tmlang",
        "url": {"@id": "https://pypi.org/project/tmlang/"},
        "softwareVersion": run["tmlang"],
    }
    yield {"@id": _PROCESS, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    yield {
        "@id": _LICENCE,
        "@type": "CreativeWork",
        "name": "no licence is stated",
        "description": "Ask whoever publishes this bundle.",
    }


def _input(path: str) -> str:
    return f"#input/{quote(path)}"


def _inputs(bundle: Bundle) -> Iterator[dict[str, Any]]:
    for path, digest in bundle.json("run.json")["artifacts"].items():
        about = "A file that the run read: part of the model or of the data, and not of the bundle."
        entity = {"@id": _input(path), "@type": "CreativeWork", "name": path, "description": about}
        yield {**entity, "identifier": f"sha256:{digest}"}


def _claims(bundle: Bundle) -> Iterator[dict[str, Any]]:
    plan, told = bundle.plan(), bundle.json("columns.json")["claims"]
    for n, (claim, own) in enumerate(zip(plan.claims, told, strict=True), 1):
        yield {
            "@id": f"#claim-{n}",
            "@type": "Claim",
            "name": claim.text,
            "description": f"{formula(claim)}: {STATUS_WORDS[own['status']]}",
            "identifier": f"sha256:{claim_identity(plan, claim)}",
        }
