"""``ro-crate-metadata.json``: what it says by hand, and whether the validator of the RO-Crate community takes it.

The validator fetches the context of RO-Crate 1.1; here it gets the part that the crate uses, so that no network is
needed: schema.org's own terms, ``File`` and Dublin Core's ``conformsTo`` apart.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mlcommons import mlcroissant

import tmlang as tm
from tmlang.audit.bundle import Bundle

ROOT = Path(__file__).resolve().parents[2]
CRATE = "ro-crate-metadata.json"
SCHEMA = "http://schema.org/"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
OTHERS = {"File": f"{SCHEMA}MediaObject", "conformsTo": "http://purl.org/dc/terms/conformsTo"}
pytestmark = pytest.mark.xdist_group("crate")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ``specs/sensor``."""
    folder = tmp_path_factory.mktemp("crate") / "sensor"
    shutil.copytree(ROOT / "specs" / "sensor", folder)
    return tm.run(folder / "sensor.tm", out=folder / "run").path


def entities(run: Path) -> dict[str, dict[str, Any]]:
    graph = json.loads((run / CRATE).read_text())["@graph"]
    assert len({e["@id"] for e in graph}) == len(graph)
    return {e["@id"]: e for e in graph}


def test_every_file_is_told_once_with_its_size(run: Path) -> None:
    there = {p.relative_to(run).as_posix(): p.stat().st_size for p in run.rglob("*") if p.is_file()}
    told = entities(run)
    files = {i: e for i, e in told.items() if e["@type"] == "File"}
    assert files.keys() == there.keys() - {CRATE}
    assert {e["@id"] for e in told["./"]["hasPart"]} == files.keys()
    sizes = {i: int(e["contentSize"]) for i, e in files.items() if "contentSize" in e}
    assert sizes == {i: n for i, n in there.items() if i not in (CRATE, "statement.json")}
    assert files["report.html"]["encodingFormat"] == "text/html"
    assert files["spec/sensor.tm"]["description"] == "The spec, or a file that it uses."
    assert all(e["description"] != "A file of the bundle." for e in files.values())


def test_what_made_it_of_what(run: Path) -> None:
    told = entities(run)
    action = told["#run"]
    assert (action["@type"], action["instrument"]) == ("CreateAction", {"@id": "#tmlang"})
    assert told["#tmlang"]["softwareVersion"] == tm.__version__
    read = {told[e["@id"]]["name"] for e in action["object"]}
    assert read == {"spec/sensor.tm", "observations.csv", "observations_review.csv"}
    csv = told["#input/observations.csv"]
    assert csv["identifier"] == "sha256:d78811252b205517af01d8a92de3517993e5ee43c833dd017d670ddf6dcf3ec6"
    assert {e["@id"] for e in action["result"]} == {i for i in told if told[i]["@type"] == "File"} - {"spec/sensor.tm"}


def test_the_claims_are_those_of_the_statement(run: Path) -> None:
    claims = [e for e in entities(run).values() if e["@type"] == "Claim"]
    stated = Bundle.open(run).statement()["predicate"]["claims"]
    assert [(c["name"], c["identifier"]) for c in claims] == [(s["text"], f"sha256:{s['identity']}") for s in stated]
    assert [c["description"] for c in claims] == [
        "robust_rate(exact) rounds to 50 %: supported",
        "coverage(exact) = 100 %: supported",
    ]


# The official validator -----------------------------------------------------------------------------------------------


def terms(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ([inner] if isinstance(inner, str) else inner) if key == "@type" else [key]
            yield from terms(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from terms(inner)


class Answer:
    """What the validator gets when it asks for the context."""

    status_code, ok, headers, text, content = 200, True, {"Content-Type": "application/ld+json"}, "", b""

    def __init__(self, graph: Any) -> None:
        used = {t for t in terms(graph) if not t.startswith("@")}
        self.body = {"@context": {t: OTHERS.get(t, SCHEMA + t) for t in used}}

    def json(self) -> Any:
        return self.body


@pytest.fixture
def issues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Path, str], list[str]]:
    """The checks that a crate fails at the level REQUIRED of a profile."""
    from rocrate_validator import models, services
    from rocrate_validator.utils.http import HttpRequester

    def found(crate: Path, profile: str) -> list[str]:
        asked = []

        def get(_: object, url: str, **__: object) -> Answer:
            asked.append(url)
            return Answer(json.loads((crate / CRATE).read_text())["@graph"])

        monkeypatch.setattr(HttpRequester, "get", get, raising=False)
        level = models.Severity.REQUIRED
        result = services.validate(
            models.ValidationSettings(
                rocrate_uri=str(crate),
                profile_identifier=profile,
                requirement_severity=level,
                offline=True,
                cache_path=tmp_path / "cache",
            )
        )
        assert set(asked) == {CONTEXT}
        return [issue.message or "" for issue in result.get_issues(level)]

    return found


def test_a_name_of_a_file_may_have_spaces(tmp_path: Path, issues: Callable[[Path, str], list[str]]) -> None:
    shutil.copytree(ROOT / "specs" / "sensor", tmp_path / "s")
    (tmp_path / "s" / "observations.csv").rename(tmp_path / "s" / "all ü #1 observations.csv")
    text = (tmp_path / "s" / "sensor.tm").read_text().replace('"observations.csv"', '"all ü #1 observations.csv"')
    (tmp_path / "s" / "sensor.tm").write_text(text)
    run = tm.run(tmp_path / "s" / "sensor.tm", out=tmp_path / "run").path
    assert "all ü #1 observations.csv" in {e["name"] for e in entities(run).values() if "name" in e}
    assert issues(run, "process-run-crate-0.5") == []
    assert not mlcroissant.Dataset(run / "croissant.json").metadata.issues.errors


@pytest.mark.parametrize("profile", ["ro-crate-1.1", "process-run-crate-0.5"])
def test_the_validator_finds_nothing(run: Path, issues: Callable[[Path, str], list[str]], profile: str) -> None:
    assert issues(run, profile) == []


def test_the_validator_would_find_something(
    run: Path, issues: Callable[[Path, str], list[str]], tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "run")
    crate = json.loads((tmp_path / "run" / CRATE).read_text())
    root = next(e for e in crate["@graph"] if e["@id"] == "./")
    del root["datePublished"]
    (tmp_path / "run" / CRATE).write_text(json.dumps(crate))
    (tmp_path / "run" / "columns.json").unlink()
    found = " ".join(issues(tmp_path / "run", "ro-crate-1.1"))
    assert "datePublished" in found
    assert "columns.json" in found
