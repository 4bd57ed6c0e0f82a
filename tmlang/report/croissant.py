"""``croissant.json``: the data of a run described for tools that read data sets (MLCommons Croissant 1.0): its files by
hash, and the examples that were counted, in order, with their labels.

The files are not in the bundle; their places are told from the folder of the spec. Who made the data and under which
licence, a run does not know, and the file does not say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import CLEAN_STAGE
from tmlang.audit.units import stage_label
from tmlang.base import canonical
from tmlang.meaning.models import Data
from tmlang.meaning.threats import Property
from tmlang.meaning.values import Artifact
from tmlang.plan.ir import EvaluationPlan, Plan
from tmlang.plan.lock import artifacts_of

_VERSION = "http://mlcommons.org/croissant/1.0"
_TERMS = (
    "citeAs column extract field fileProperty fileObject fileSet format includes isLiveDataset jsonPath key md5 "
    "parentField path recordSet references regex repeated replace samplingRate separator source subField transform "
    "equivalentProperty containedIn"
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
"""The terms of the specification, each under its own name in the namespace of Croissant."""
_KINDS = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "npy": "application/octet-stream",
    "npz": "application/zip",
    "txt": "text/plain",
    "json": "application/json",
}
"""Ending of a file -> its media type."""


def croissant(bundle: Bundle) -> bytes:
    """The description of the data of a bundle's plan, by its records and ``run.json``. It follows from them: equal
    files, equal bytes."""
    plan = bundle.plan()
    used = [(d, [e for e in plan.evaluations if _data_of(plan, e) == d.name]) for d in plan.data]
    return canonical.dumps(
        {
            "@context": _CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": _VERSION,
            "name": "-".join(d.name for d in plan.data) or "none",
            "description": " ".join(_described(d) for d in plan.data) or "The run used no data.",
            "license": "not stated",
            "url": f"urn:sha256:{plan.data[0].file.sha256}" if plan.data else "urn:tmlang:no-data",
            "distribution": [_file(n, a, d) for n, (a, d) in enumerate(_files(plan), 1)],
            "recordSet": [_examples(bundle, plan, data, own[0]) for data, own in used if own],
        }
    )


def _data_of(plan: Plan, evaluation: EvaluationPlan) -> str | None:
    subject = plan.subject(evaluation.subject)
    return None if isinstance(subject, Property) else subject.data


def _described(data: Data) -> str:
    told = {
        "published": f"labels published: {data.truth.text}",
        "reviewed": "labels reviewed",
        "predicted": f"labels predicted by {data.truth.model}",
    }
    return f"{data.name}: {data.doc or 'data of a run'}; {told[data.truth.kind]}."


def _files(plan: Plan) -> Iterator[tuple[Artifact, Data]]:
    """Every file that the data names, once."""
    seen = set()
    for data in plan.data:
        for artifact in artifacts_of(data):
            if artifact.path not in seen:
                seen.add(artifact.path)
                yield artifact, data


def _file(n: int, artifact: Artifact, data: Data) -> dict[str, Any]:
    """The ``n``-th file; an ``@id`` may hold no spaces, not even escaped ones, so it is no path."""
    ending = artifact.path.rpartition(".")[2]
    told = {"@id": f"file-{n}", "name": artifact.path, "description": f"of {data.name}, beside the spec"}
    if data.read.path == ("folder",) and artifact == data.file:
        listing = f"a folder; the SHA-256 of its listing is {artifact.sha256}"
        pictures = {"includes": f"{artifact.path}/**", "encodingFormat": "image/*"}
        return {**told, "@type": "cr:FileSet", "description": listing, **pictures}
    kind = _KINDS.get(ending, "application/octet-stream")
    return {
        **told, "@type": "cr:FileObject", "contentUrl": quote(artifact.path), "encodingFormat": kind,
        "sha256": artifact.sha256,
    }  # fmt: skip


def _examples(bundle: Bundle, plan: Plan, data: Data, evaluation: EvaluationPlan) -> dict[str, Any]:
    """The examples in the order of the data, each with the class that it is labelled."""
    classes = plan.model(plan.subject(evaluation.subject).model).classes
    own = [r for r in bundle.records() if r.evaluation == evaluation.name and stage_label(evaluation, r) == CLEAN_STAGE]
    labels = {r.example: classes[r.label] if 0 <= r.label < len(classes) else "" for r in own}
    name = f"{data.name}_examples"
    example, label = f"{name}/example", f"{name}/label"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"What was counted of {data.name}, in order; an empty label is none that can be used.",
        "key": {"@id": example},
        "field": [_field(example, "the id of an example"), _field(label, "the class that it is labelled")],
        "data": [{example: i, label: labels.get(i, "")} for i in bundle.json("run.json")["examples"][evaluation.name]],
    }


def _field(name: str, about: str) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": name, "name": name, "description": about, "dataType": "sc:Text"}
