"""Mistakes from public bug reports that the matcher must catch, each with its mended form.

The ids are those of the collection of cases; every snippet takes the place of what it declares in the base spec.
"""

from __future__ import annotations

import pytest
from semantics_support import checked, guilty

from tmlang.plan import Capabilities, lower


def evaluate(*clauses: str) -> str:
    return "evaluate aa of linf8 {\n" + "".join(f"  {c}\n" for c in clauses) + "  seed:  0\n}\n"


def model(*clauses: str, classes: str = "classes(10)") -> str:
    lines = [
        *clauses,
        'network:  torch("v.py:net", weights: "w.safetensors")',
        "decide:  argmax ties lowest",
        "random:  never",
    ]
    return f"model victim: px -> {classes} {{\n" + "".join(f"  {c}\n" for c in lines) + "}\n"


def threat(allow: str = "linf <= 8/255 in px", goal: str = "untargeted", access: str = "white_box") -> str:
    clauses = ("allow:  " + allow, "mutable:  all", "goal:  " + goal, "access:  " + access, "clean_errors:  fail")
    return "threat linf8 on victim over test {\n" + "".join(f"  {c}\n" for c in clauses) + "}\n"


PGD = "attack:  pgd = torchattacks.PGD(steps: 40)"
SUITE = "use std.suites (autoattack_standard)\n"
AUTOATTACK = 'suite:  autoattack_standard(version: "0.1")'

CASES = (
    # id, mistaken, code, guilty text, mended
    (
        "B023: ten pixels in l0, handed to an attack that projects onto boxes",
        threat("l0 <= 10 in px") + evaluate(PGD),
        "TM508",
        "torchattacks.PGD",
        threat("l0 <= 10 in px") + evaluate("attack:  greedy = native.coordinates(restarts: 5)"),
    ),
    (
        "B050: the standard suite on two classes",
        SUITE + model(classes="{no, yes}") + evaluate(AUTOATTACK),
        "TM511",
        "native.apgd_targeted",
        model(classes="{no, yes}") + evaluate("attack:  ce = native.apgd(loss: ce)", "attack:  sq = native.square()"),
    ),
    (
        "B052: the number of classes as an argument of the attack",
        evaluate("attack:  apgd = torchattacks.APGD(steps: 100, n_classes: 8)"),
        "TM505",
        "n_classes",
        evaluate("attack:  apgd = torchattacks.APGD(steps: 100)"),
    ),
    (
        "B057: a target for an attack that has no targeted mode",
        threat(goal="targeted class 3") + evaluate("attack:  apgd = torchattacks.APGD(steps: 100)"),
        "TM509",
        "torchattacks.APGD",
        threat(goal="targeted class 3") + evaluate(PGD),
    ),
    (
        "B058: a target inside the call",
        evaluate("attack:  pgd = torchattacks.PGD(steps: 40, target: 3)"),
        "TM505",
        "target",
        threat(goal="targeted class 3") + evaluate(PGD),
    ),
    (
        "B078: a list of steps where one is needed",
        evaluate("attack:  pgd = foolbox.LinfPGD(steps: 40, rel_stepsize: (1/40, 1/20))"),
        "TM504",
        "(1/40, 1/20)",
        evaluate("attack:  pgd = foolbox.LinfPGD(steps: 40, rel_stepsize: 1/20)"),
    ),
    (
        "B079: ten default steps in a ball of 0.3",
        threat("linf <= 3/10 in px") + evaluate("attack:  pgd = torchattacks.PGD(steps: 10)"),
        "TM515",
        "torchattacks.PGD",
        threat("linf <= 3/10 in px") + evaluate("attack:  pgd = torchattacks.PGD(steps: 10, alpha: 3/40 in px)"),
    ),
    (
        "B102: gradients through a quantizer",
        model("step:  quantize(levels: 16)") + evaluate(PGD),
        "TM507",
        "torchattacks.PGD",
        model("step:  quantize(levels: 16)") + evaluate(PGD + " through straight_through"),
    ),
    (
        "B139: a list of radii inside the call",
        evaluate("attack:  pgd = foolbox.LinfPGD(steps: 40, epsilons: (1/255, 2/255))"),
        "TM505",
        "epsilons",
        evaluate("attack:  pgd = foolbox.LinfPGD(steps: 40)"),
    ),
    (
        "B127: gradients where the threat grants decisions",
        threat(access="decisions, queries <= 1000 per example") + evaluate(PGD),
        "TM506",
        "torchattacks.PGD",
        threat("l2 <= 1/2 in px", access="decisions, queries <= 1000 per example")
        + evaluate("attack:  walk = foolbox.BoundaryAttack(steps: 100)"),
    ),
)


@pytest.mark.parametrize(("case", "mistaken", "code", "token", "mended"), CASES, ids=[c[0][:4] for c in CASES])
def test_the_mistake_is_told_at_its_token_and_the_mended_spec_passes(
    case: str, mistaken: str, code: str, token: str, mended: str
) -> None:
    def found(snippet: str) -> list[tuple[str, str]]:
        result = checked(snippet)
        diagnostics = list(result.diagnostics)
        if result.program is not None:
            diagnostics += lower(result.program, Capabilities())[1]
        return [(d.code, guilty(result, d)) for d in diagnostics]

    assert (code, token) in found(mistaken), case
    assert {c for c, _ in found(mistaken)} == {code}, case
    assert found(mended) == [], case


@pytest.mark.parametrize(
    ("corruption", "shape", "severity", "code"),
    [
        ("fog", "3, 16, 16", 3, "TM516"),  # B179
        ("fog", "28, 28, 1", 3, "TM516"),  # B179
        ("fog", "2, 64, 64", 3, "TM516"),
        ("fog", "3, 32, 32", 6, "TM504"),  # B179
        ("fog", "3, 32, 32", 3, None),
        ("frog", "3, 32, 32", 3, "TM502"),
    ],
)
def test_corruptions_are_checked_before_a_picture_is_opened(
    corruption: str, shape: str, severity: int, code: str | None
) -> None:
    snippet = (
        f"space px: tensor({shape}) of bytes\n"
        'model victim: px -> classes(10) {\n  step:  scale(1/255)\n  network:  onnx("n.onnx")\n'
        "  decide:  argmax ties lowest\n  random:  never\n}\n"
        + threat("linf <= 8 'levels' in px")
        + f"shift foggy on victim over test {{\n  apply:  imagecorruptions.{corruption}(severity: {severity})\n"
        "  interval:  wilson at 95 %\n}\nevaluate fog of foggy { seed: 0 }\n"
    )
    result = checked(snippet)
    assert result.program is not None, result.diagnostics
    _, diagnostics = lower(result.program, Capabilities())
    assert [d.code for d in diagnostics] == ([] if code is None else [code])


@pytest.mark.parametrize(
    ("values", "apply", "code"),
    [
        ("real[0, 1] step 1/255", "imagecorruptions.fog(severity: 3)", None),  # 256 levels by another name
        ("real[0, 1] step 1/15", "imagecorruptions.fog(severity: 3)", "TM516"),
        ("real[0, 1]", "imagecorruptions.fog(severity: 3)", "TM516"),
        ("real[0, 1]", "native.gaussian_noise(sd: 1/10 in px)", None),
        ("real[0, 1]", "native.gaussian_noise(sd: 1/10)", "TM504"),
        ("real[0, 1]", "native.gaussian_noise()", "TM503"),
        ("real[0, 1]", "native.salt_and_pepper(share: 3/2)", "TM504"),
        ("real[0, 1]", "native.apgd()", "TM512"),
    ],
)
def test_what_a_shift_needs_of_its_inputs(values: str, apply: str, code: str | None) -> None:
    snippet = (
        f"space px: tensor(3, 32, 32) of {values} stored as float32\n"
        'model victim: px -> classes(10) {\n  network:  onnx("n.onnx")\n'
        "  decide:  argmax ties lowest\n  random:  never\n}\n"
        + threat("linf <= 1/5 in px")
        + f"shift change on victim over test {{\n  apply:  {apply}\n"
        "  interval:  wilson at 95 %\n}\nevaluate changed of change { seed: 0 }\n"
    )
    result = checked(snippet)
    assert result.program is not None, result.diagnostics
    _, diagnostics = lower(result.program, Capabilities())
    assert [d.code for d in diagnostics] == ([] if code is None else [code])


def test_a_category_takes_no_noise() -> None:
    snippet = (
        "space reading {\n  temp: real[-40, 85] 'degC'\n  door: {open, closed}\n} stored as float32\n"
        'model guard: reading -> {ok, alarm} {\n  network:  onnx("n.onnx")\n'
        "  decide:  argmax ties lowest\n  random:  never\n}\n"
        'data trips: reading {\n  read:  csv("t.csv", label: "state")\n  take:  all\n  truth:  published "x"\n}\n'
        "shift salted on guard over trips {\n  apply:  native.salt_and_pepper(share: 1/10)\n"
        "  interval:  wilson at 95 %\n}\nevaluate salt of salted { seed: 0 }\n"
    )
    result = checked(snippet)
    assert result.program is not None, result.diagnostics
    _, diagnostics = lower(result.program, Capabilities())
    assert [(d.code, "has a category" in d.message) for d in diagnostics] == [("TM516", True)]


def test_the_ideal_smoothed_classifier_is_not_asked_once() -> None:
    """One draw of it is not its answer."""
    snippet = (
        "space px: tensor(3, 32, 32) of bytes\n"
        "model victim: px -> classes(10) {\n  step:  scale(1/255)\n  step:  noise(gaussian, sigma: 1/4)\n"
        '  network:  onnx("n.onnx")\n  decide:  most_likely draw\n  random:  never\n}\n'
        + threat("linf <= 8 'levels' in px")
        + "shift foggy on victim over test {\n  apply:  imagecorruptions.fog(severity: 3)\n"
        "  interval:  wilson at 95 %\n}\nevaluate fog of foggy { seed: 0 }\n"
    )
    result = checked(snippet)
    assert result.program is not None, result.diagnostics
    _, diagnostics = lower(result.program, Capabilities())
    told = [(d.code, "said by a certificate alone" in d.message) for d in diagnostics if "fog" in d.message]
    assert told == [("TM508", True)]
