"""The standard library: every threat, suite and shift can be used, and says what its source says."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tmlang.base.resources import resource
from tmlang.base.source import Source
from tmlang.meaning.threats import Shift, Threat
from tmlang.meaning.values import Symbol
from tmlang.plan import Capabilities, lower
from tmlang.semantics import check
from tmlang.syntax import ast, parse

F = Fraction
STDLIB = sorted(resource("stdlib").glob("*.tm"))
USES = """tm 1
use std.spaces ({space})
use std.{module} ({name})

model net: {space} -> {classes} {{
  network:  torch("net.py:net", weights: "net.safetensors")
  decide:   argmax ties lowest
  random:   never
}}

data images: {space} {{
  read:   npz("data.npz", inputs: "x", labels: "y")
  take:   first 1000
  truth:  published "labels"
}}

"""


def declared(module: str, kind: type) -> list[str]:
    path = resource("stdlib") / f"{module}.tm"
    tree = parse(Source(path.name, path.read_text(encoding="utf-8"))).tree
    assert tree is not None
    return [d.name.text for d in tree.declarations if isinstance(d, kind)]


def said(text: str) -> list[tuple[str, str]]:
    checked = check(Source("spec.tm", text))
    found = list(checked.diagnostics)
    if checked.program is not None:
        found += lower(checked.program, Capabilities(), found=checked.diagnostics)[1]
    return [(d.code, d.message) for d in found]


@pytest.mark.parametrize("name", declared("threats", ast.Threat))
def test_a_threat_of_the_library(name: str) -> None:
    space = {"cifar": "rgb32", "mnist": "grey28", "imagenet": "rgb224"}[name.split("_")[0]]
    attack = (
        'native.replay(file: "found.npz")' if "nearest" not in name else "foolbox.L2CarliniWagnerAttack(steps: 100)"
    )
    text = USES.format(space=space, module="threats", name=name, classes="classes(10)")
    evaluate = f"evaluate e of {name}(net: net, images: images) {{\n  attack:  a = {attack}\n  seed:    0\n}}\n"
    assert said(text + evaluate) == []


@pytest.mark.parametrize("name", declared("suites", ast.Suite))
def test_a_suite_of_the_library(name: str) -> None:
    text = USES.format(
        space="rgb32", module="threats", name="cifar_linf, cifar_scores, cifar_nearest", classes="classes(10)"
    )
    threat = {"black_box": "cifar_scores", "minimal_distance": "cifar_nearest"}.get(name, "cifar_linf")
    args = '(version: "0.1")' if name.startswith("autoattack") else "()"
    evaluate = f"evaluate e of {threat}(net: net, images: images) {{\n  suite:  {name}{args}\n  seed:   0\n}}\n"
    assert said(text.replace("use std.threats", f"use std.suites ({name})\nuse std.threats") + evaluate) == []


def test_the_standard_suite_is_the_published_one() -> None:
    """Croce and Hein (ICML 2020): APGD-CE, targeted APGD-DLR, targeted FAB, Square; 100 iterations, 5,000 queries of
    a schedule of 10,000."""
    text = USES.format(space="rgb32", module="threats", name="cifar_linf", classes="classes(10)")
    text = text.replace("use std.threats", "use std.suites (autoattack_standard)\nuse std.threats")
    head = "evaluate e of cifar_linf(net: net, images: images)"
    evaluate = head + " {\n  suite:  autoattack_standard(version: VERSION)\n  seed:   0\n}\n"
    program = check(Source("spec.tm", text + evaluate.replace("VERSION", '"0.1"'))).program
    assert program is not None
    stages = [(s.label, s.call.name, dict(s.call.args)) for s in program.evaluations[0].stages]
    assert stages == [
        ("apgd_ce", "native.apgd", {"loss": stages[0][2]["loss"], "steps": F(100), "restarts": F(1)}),
        ("apgd_t", "native.apgd_targeted", {"steps": F(100), "restarts": F(1), "targets": F(9)}),
        ("fab_t", "native.fab_targeted", {"steps": F(100), "restarts": F(1), "targets": F(9)}),
        ("square", "native.square", {"queries": F(5000), "restarts": F(1), "p_init": F(4, 5), "schedule": F(10_000)}),
    ]
    assert [c for c, _ in said(text + evaluate.replace("VERSION", '"0.2"'))] == ["TM211"]


PRESETS = {
    "autoattack_standard_l1": [
        ("native.apgd", {"steps": F(100), "restarts": F(5)}, ""),
        ("native.apgd_targeted", {"steps": F(100), "restarts": F(1), "targets": F(5)}, ""),
        ("native.fab_targeted", {"steps": F(100), "restarts": F(1), "targets": F(9)}, ""),
        ("native.square", {"queries": F(5000), "restarts": F(1), "p_init": F(4, 5), "schedule": F(10_000)}, ""),
    ],
    "autoattack_plus": [
        ("native.apgd", {"steps": F(100), "restarts": F(5)}, ""),
        ("native.apgd", {"steps": F(100), "restarts": F(5)}, ""),
        ("native.fab", {"steps": F(100), "restarts": F(5)}, ""),
        ("native.square", {"queries": F(5000), "restarts": F(1), "p_init": F(4, 5), "schedule": F(10_000)}, ""),
        ("native.apgd_targeted", {"steps": F(100), "restarts": F(1), "targets": F(9)}, ""),
        ("native.fab_targeted", {"steps": F(100), "restarts": F(1), "targets": F(9)}, ""),
    ],
    "autoattack_rand": [("native.apgd", {"steps": F(100), "restarts": F(1)}, "expectation")] * 2,
}
"""The other presets of the authors' code: five restarts and five targets in l1; restarts of what has no target; twenty
passes a gradient."""


@pytest.mark.parametrize("name", PRESETS)
def test_the_other_presets_are_those_of_its_code(name: str) -> None:
    text = USES.format(space="rgb32", module="threats", name="cifar_linf", classes="classes(10)")
    text = text.replace("use std.threats", f"use std.suites ({name})\nuse std.threats")
    evaluate = f'evaluate e of cifar_linf(net: net, images: images) {{ suite: {name}(version: "0.1") seed: 0 }}\n'
    program = check(Source("spec.tm", text + evaluate)).program
    assert program is not None
    stages = program.evaluations[0].stages
    made = [(s.call.name, {n: v for n, v in s.call.args if n != "loss"}, s.through) for s in stages]
    assert [(n, a, t.name if t else "") for n, a, t in made] == PRESETS[name]
    assert [dict(t.args) for _, _, t in made if t] == [{"draws": F(20)} for _, _, t in made if t]
    losses = [v.name for s in stages for n, v in s.call.args if n == "loss" and isinstance(v, Symbol)]
    assert losses == (["ce"] if name == "autoattack_standard_l1" else ["ce", "dlr"])


@pytest.mark.parametrize(
    ("name", "classes"), [("autoattack_standard", 3), ("autoattack_plus", 3), ("autoattack_rand", 2)]
)
def test_too_few_classes_for_a_loss_are_said(name: str, classes: int) -> None:
    """DLR needs three classes, and four with a target: nothing is put in its place unless the spec does."""
    text = USES.format(space="rgb32", module="threats", name="cifar_linf", classes=f"classes({classes})")
    text = text.replace("use std.threats", f"use std.suites ({name})\nuse std.threats")
    evaluate = f'evaluate e of cifar_linf(net: net, images: images) {{ suite: {name}(version: "0.1") seed: 0 }}\n'
    assert {c for c, _ in said(text + evaluate)} == {"TM511"}
    more = USES.format(space="rgb32", module="threats", name="cifar_linf", classes=f"classes({classes + 1})")
    more = more.replace("use std.threats", f"use std.suites ({name})\nuse std.threats")
    assert "TM511" not in {c for c, _ in said(more + evaluate)}


def test_a_radius_outside_the_range_of_its_threat() -> None:
    text = USES.format(space="rgb32", module="threats", name="cifar_linf", classes="classes(10)")
    head = "evaluate e of cifar_linf(net: net, images: images, radius: 32/255)"
    evaluate = head + " {\n  attack:  a = native.apgd()\n  seed:    0\n}\n"
    assert [c for c, _ in said(text + evaluate)] == ["TM211"]


CORRUPTIONS = (
    *(
        "gaussian_noise",
        "shot_noise",
        "impulse_noise",
        "defocus_blur",
        "glass_blur",
        "motion_blur",
        "zoom_blur",
        "snow",
    ),
    *("frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    *("speckle_noise", "gaussian_blur", "spatter", "saturate"),
)
"""Hendrycks and Dietterich (ICLR 2019), the fifteen of the benchmark, and the four that are held out."""


SUITES = {"common_corruptions": CORRUPTIONS[:15], "all_corruptions": CORRUPTIONS}


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_of_corruptions_is_each_at_five_severities(name: str) -> None:
    text = USES.format(space="rgb32_bytes", module="corruptions", name=name, classes="classes(10)")
    program = check(Source("spec.tm", text + f"evaluate e of {name}(net: net, images: images) {{ seed: 0 }}\n")).program
    assert program is not None
    (shift,) = program.subjects
    assert isinstance(shift, Shift)
    assert [(c.path, c.args) for c in shift.apply] == [
        (("imagecorruptions", c), (("severity", F(s)),)) for c in SUITES[name] for s in range(1, 6)
    ]


def test_the_corruptions_are_the_published_ones() -> None:
    assert tuple(declared("corruptions", ast.Shift)) == (*CORRUPTIONS, "published", *SUITES)
    backend = Capabilities().backend("imagecorruptions")
    assert backend is not None
    assert tuple(backend.methods) == CORRUPTIONS


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_of_the_library(name: str) -> None:
    text = USES.format(space="rgb32_bytes", module="corruptions", name=name, classes="classes(10)")
    evaluate = f"evaluate e of {name}(net: net, images: images, severity: SEVERITY) {{ seed: 0 }}\n"
    assert said(text + evaluate.replace("SEVERITY", "3")) == []
    assert [c for c, _ in said(text + evaluate.replace("SEVERITY", "5/2"))] == ["TM504"]
    assert [c for c, _ in said(text.replace("rgb32_bytes", "rgb32") + evaluate.replace("SEVERITY", "3"))] == ["TM516"]


def test_corruptions_take_a_severity() -> None:
    text = """tm 1
use std.spaces (rgb32_bytes)
use std.corruptions (fog, published)

model net: rgb32_bytes -> classes(10) {
  network:  torch("net.py:net", weights: "net.safetensors")
  decide:   argmax ties lowest
  random:   never
}

data images: rgb32_bytes {
  read:   npz("data.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "labels"
}

evaluate light of fog(net: net, images: images, severity: 1) { seed: 0 }
evaluate heavy of fog(net: net, images: images, severity: SEVERITY) { seed: 0 }
evaluate known of published(net: net, images: images, release: "CIFAR-10-C, fog 3") { seed: 0 }

claim "fog": corrupted_accuracy(light) >= 70 %
"""
    assert said(text.replace("SEVERITY", "5")) == []
    assert [c for c, _ in said(text.replace("SEVERITY", "6"))] == ["TM211"]


@pytest.mark.parametrize("path", STDLIB, ids=lambda p: p.stem)
def test_every_declaration_of_the_library_has_its_source(path: Path) -> None:
    tree = parse(Source(path.name, path.read_text(encoding="utf-8"))).tree
    assert tree is not None
    for d in tree.declarations:
        if isinstance(d, ast.Threat | ast.Suite | ast.Shift):
            assert d.doc, f"{d.name.text} does not say where it comes from"


def test_radii_are_the_published_ones() -> None:
    """RobustBench: linf 8/255 and l2 1/2 on CIFAR-10, linf 4/255 on ImageNet; the MNIST challenge: 0.3."""
    wanted = {"cifar_linf": F(8, 255), "cifar_l2": F(1, 2), "imagenet_linf": F(4, 255), "mnist_linf": F(3, 10)}
    for name, radius in wanted.items():
        space = {"cifar": "rgb32", "mnist": "grey28", "imagenet": "rgb224"}[name.split("_")[0]]
        text = USES.format(space=space, module="threats", name=name, classes="classes(10)")
        evaluate = (
            f"evaluate e of {name}(net: net, images: images) {{\n  attack:  a = native.apgd()\n  seed:    0\n}}\n"
        )
        program = check(Source("spec.tm", text + evaluate)).program
        assert program is not None
        (threat,) = program.subjects
        assert isinstance(threat, Threat)
        assert getattr(threat.allow, "radius", None) == radius
