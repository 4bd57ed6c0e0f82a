"""What the descriptions of a bundle tell, against its files: read as JSON, and nothing shared with what wrote them.

It holds for every version that wrote a bundle; whether a description is to the byte what this version makes is asked
elsewhere (``api.auditing``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tmlang.audit.bundle import CRATE, STATEMENT, Bundle
from tmlang.audit.record import CLEAN_STAGE, Record

CROISSANT = "croissant.json"
Json = Mapping[str, Any]


def description_faults(bundle: Bundle, run: Json, rows: Sequence[Record]) -> Iterator[str]:
    """Where a description differs from the files, ``run.json``, the statement or the rows."""
    for name, faults in ((CRATE, _crate), (CROISSANT, _croissant)):
        if name in bundle:
            try:
                yield from (f"{name}: {fault}" for fault in faults(bundle, run, rows))
            except (KeyError, TypeError, AttributeError, IndexError):
                yield f"{name} has another form than a run writes"


def _crate(bundle: Bundle, run: Json, _: Sequence[Record]) -> Iterator[str]:
    graph = bundle.json(CRATE)["@graph"]
    told = {entity["@id"]: entity for entity in graph}
    if len(told) < len(graph):
        yield "something is told twice"
    files = {i: e for i, e in told.items() if e["@type"] == "File"}
    there = {*bundle.files(), STATEMENT} - {CRATE}
    yield from (f"`{name}` is in one alone of the folder and the description" for name in sorted(files.keys() ^ there))
    if {part["@id"] for part in told["./"]["hasPart"]} != files.keys():
        yield "the parts are not the files"
    sized = [n for n in sorted(files.keys() & there) if n != STATEMENT]
    yield from (f"`{n}` is of another size" for n in sized if files[n]["contentSize"] != str(len(bundle.read_bytes(n))))
    read = {e["name"]: e["identifier"] for i, e in told.items() if i.startswith("#input/")}
    if read != {path: f"sha256:{digest}" for path, digest in run["artifacts"].items()}:
        yield "the files that were read are others in run.json"
    claims = [(e["name"], e["identifier"]) for e in graph if e["@type"] == "Claim"]
    stated = bundle.statement()["predicate"]["claims"]
    if claims != [(c["text"], f"sha256:{c['identity']}") for c in stated]:
        yield "the claims are not those of the statement"
    if [e["softwareVersion"] for e in graph if e["@type"] == "SoftwareApplication"] != [run["tmlang"]]:
        yield "another version is told to have made it"


def _croissant(bundle: Bundle, run: Json, rows: Sequence[Record]) -> Iterator[str]:
    told, plan = bundle.json(CROISSANT), bundle.json("plan.json")
    hashes = {f["name"]: f.get("sha256", run["artifacts"][f["name"]]) for f in told["distribution"]}
    if any(run["artifacts"][path] != digest for path, digest in hashes.items()):
        yield "a file has another hash in run.json"
    if not {data["file"]["path"] for data in plan["data"]} <= hashes.keys():
        yield "a file of the data is not told"
    sets = {s["name"]: [tuple(row.values()) for row in s["data"]] for s in told["recordSet"]}
    expected: dict[str, list[tuple[str, str]]] = {}
    for evaluation in plan["evaluations"]:
        subject = next(s for s in plan["subjects"] if s["name"] == evaluation["subject"])
        if subject["is"] != "Property":
            classes = next(m["classes"] for m in plan["models"] if m["name"] == subject["model"])
            labels = _labels(evaluation["name"], rows)
            named = [classes[labels[i]] if 0 <= labels[i] < len(classes) else "" for i in labels]
            expected.setdefault(f"{subject['data']}_examples", list(zip(labels, named, strict=True)))
    if sets != expected:
        yield "the examples and their labels are not those of the rows"


def _labels(evaluation: str, rows: Sequence[Record]) -> dict[str, int]:
    """The index of the class of every example, in the order of the rows."""
    own = (r for r in rows if r.evaluation == evaluation and r.stage.rpartition("/")[2] == CLEAN_STAGE)
    return {row.example: row.label for row in own}
