"""Manifests are read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_support import MANIFEST, manifests

from tmlang.plan.capability import Capabilities
from tmlang.plan.manifest import ManifestError, read_manifest


def test_every_shipped_manifest_is_read_and_agrees_with_itself() -> None:
    capabilities = Capabilities()
    methods = list(capabilities.methods())
    assert {"torchattacks", "foolbox", "auto_lirpa", "marabou"} <= set(capabilities.names)
    for method in methods:
        assert not set(method.carries) & set(method.refused), method.path
        assert not set(method.norms) & set(method.refused), method.path
        assert not set(method.goals) & set(method.refused), method.path
        assert (method.role in ("certify", "decide_exactly")) == (
            method.evidence in ("bound", "complete", "trusted", "probabilistic")
        ) or (method.role == "enumerate" and method.evidence == "complete"), method.path
        for argument in method.arguments.values():
            if argument.type == "symbol" and argument.default is not None:
                assert argument.default in argument.choices, (method.path, argument.name)


def test_a_row_outweighs_the_defaults(tmp_path: Path) -> None:
    toy = Capabilities(manifests(tmp_path)).backend("toy")
    assert toy is not None
    walk, box = toy.methods["walk"], toy.methods["box"]
    assert walk.access == "white_box"
    assert toy.methods["guess"].access == "decisions"
    assert walk.refused["l1"].by == "library"
    # `objects` of walk's defaults holds `random`, which the defaults also refuse: the row decides by its own tables.
    assert box.norms == ("linf",)
    assert box.refused["random"].by == "impossible"
    assert toy.method("stroll") is walk
    assert toy.method("no") is None


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('role = "certify"', 'role = "certify"\nmood = "good"', "mood"),
        ('role = "certify"', 'role = "prove"', "role"),
        ('norms = ["l2"]', 'norms = ["l3"]', "l3"),
        ('domain = "exact"', 'domain = "mostly"', "domain"),
        ('domain = "exact"', 'realm = "exact"', "realm"),
        ('"steps * restarts"', '"steps * rounds"', "rounds"),
        ('reach = ["steps * step_size"]', 'reach = ["open(steps)"]', "arithmetic"),
        ('default = "2"', "default = 2", "default"),
        ('type = "duration"', 'type = "period"', "period"),
        ('choices = ["ce", "dlr"]', "", "choices"),
        ('by = "library"', 'by = "weather"', "refused.l1"),
        ("[method.fog]\n", "[method.fog]\nclass = 3\n", "implementation"),
        ('title = "fog"', "", "title"),
        ('name = "toy"', 'name = "toys"', "name"),
        ('extra = "attacks"', "", "extra"),
        ("[backend]", "[backend", "toy.toml"),
        ("[method.fog]\n", "[defaults.refused]\n[method.fog]\n", "belongs before all methods"),
    ],
)
def test_what_is_not_in_the_form_is_refused(old: str, new: str, names: str) -> None:
    assert old in MANIFEST
    with pytest.raises(ManifestError, match=names):
        list(read_manifest(MANIFEST.replace(old, new, 1), "toy.toml").methods.values())


def test_a_method_that_nobody_asks_for_is_not_read() -> None:
    toy = read_manifest(MANIFEST + "\n[method.broken]\ntitle = 3\n", "toy.toml")
    assert toy.method("walk") is not None
    assert list(toy.methods)[-1] == "broken"
    with pytest.raises(ManifestError, match="broken"):
        toy.methods["broken"]


def test_only_the_asked_manifest_is_read(tmp_path: Path) -> None:
    manifests(tmp_path)
    (tmp_path / "broken.toml").write_text("not toml at all", encoding="utf-8")
    capabilities = Capabilities(tmp_path)
    assert capabilities.backend("toy") is not None
    assert capabilities.backend("nowhere") is None
    with pytest.raises(ManifestError):
        capabilities.backend("broken")
