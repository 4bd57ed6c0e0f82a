"""Budgets in normalized numbers: certain and refused, likely and warned of, said to be external and silent.

8/255 of CIFAR-10's red channel is 8/255 / 0.2471 = 0.12696 standardized, and 8/255 standardized is 8/255 * 0.2471 =
0.0077522 of red: worked out by hand, as are all numbers here."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import found, spec

from tmlang.base.source import Source
from tmlang.cli.main import entry
from tmlang.semantics import check

MODEL = """model plain: {space} -> classes(10) {{
{step}  network:  torch("n.py:f", weights: "w.safetensors")
  decide:   argmax ties lowest
  random:   never
}}
"""
DATA = """data some: {space} {{
  read:   npz("x.npz", inputs: "x", labels: "y")
{more}  take:   all
  truth:  published "by hand"
}}
"""
THREAT = """threat t on plain over some {{
  {allow}
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
{more}}}
"""
NORMALIZE = "normalize(mean: cifar10_mean, std: cifar10_std)"
PREPARE = f"  prepare: {{ {NORMALIZE} }}\n"
STEP = f"  step:  {NORMALIZE}\n"
BECAUSE = '  units:         external because "the scanner delivers them so"\n'


def said(
    cell: str = "real[-3, 3]", *, allow: str = "allow: linf <= 8/255 in s", prepare: str = "", step: str = "",
    more: str = "", shape: str = "3, 32, 32", order: str = "order rgb",
) -> list[tuple[str, str]]:  # fmt: skip
    return found(
        f"space s: tensor({shape}) of {cell} stored as float32 {order}\n" + MODEL.format(space="s", step=step)
        + DATA.format(space="s", more=prepare) + THREAT.format(allow=allow, more=more)
    )  # fmt: skip


BALLS = [
    ("allow: linf <= 8/255 in s", "linf <= 8/255 in s"),
    ("allow: l2 <= 1/2 in s", "l2 <= 1/2 in s"),
    ("allow: l1 <= 12 in s", "l1 <= 12 in s"),
    ("allow: linf <= (1/10, 1/5, 1/10) per channel in s", "linf <= (1/10, 1/5, 1/10) per channel in s"),
    ("minimize: l2 in s", "minimize:"),
]


@pytest.mark.parametrize(("allow", "guilty"), BALLS)
@pytest.mark.parametrize("more", ["", BECAUSE])
def test_a_prepare_that_normalizes_is_certain(allow: str, guilty: str, more: str) -> None:
    """No reason silences what is certain."""
    assert said(allow=allow, prepare=PREPARE, more=more) == [("TM232", guilty)]


def test_every_ball_of_a_set_is_named() -> None:
    both = "allow: a: linf <= 8/255 in s or b: (l2 <= 1/2 in s and pixels_changed <= 9 in s)"
    assert said(allow=both, prepare=PREPARE) == [("TM232", "linf <= 8/255 in s"), ("TM232", "l2 <= 1/2 in s")]


def test_two_normalizations_in_a_row() -> None:
    assert said(prepare=PREPARE, step=STEP) == [("TM304", NORMALIZE), ("TM232", "linf <= 8/255 in s")]


@pytest.mark.parametrize(
    "quiet",
    [
        {"prepare": f"  undo: {NORMALIZE}\n", "step": STEP, "cell": "real[0, 1]"},
        {"prepare": f"  prepare: {{ {NORMALIZE} denormalize(mean: cifar10_mean, std: cifar10_std) }}\n",
         "step": STEP, "cell": "real[0, 1]"},
        {"prepare": PREPARE, "allow": "allow: pixels_changed <= 8 in s"},
        {"prepare": PREPARE, "allow": "allow: anything"},
    ],
)  # fmt: skip
def test_what_measures_nothing_in_standardized_numbers(quiet: dict[str, str]) -> None:
    assert said(**quiet) == []


def test_the_numbers_are_worked_out() -> None:
    text = (
        "space s: tensor(3, 32, 32) of real[-3, 3] stored as float32 order rgb\n" + MODEL.format(space="s", step="")
        + DATA.format(space="s", more=PREPARE) + THREAT.format(allow="allow: linf <= 8/255 in s", more="")
    )  # fmt: skip
    (one,) = check(Source("spec.tm", spec(text)), settings={}).diagnostics
    # times and over 0.2471, 0.2435, 0.2616
    assert one.notes == (
        "8/255 in s is 0.007752, 0.007639 and 0.008207 of what prepare: reads",
        "8/255 of what it reads is 0.127, 0.1288 and 0.1199 in s",
    )


@pytest.mark.parametrize(
    ("cell", "allow", "code"),
    [
        ("real[-3, 3]", "linf <= 8/255", "TM233"),
        ("real[-3, 3]", "l2 <= 1/2", "TM233"),
        ("real[(-2.1, -2, -1.8), (2.2, 2.4, 2.6)]", "linf <= 8/255", "TM233"),
        ("real[-1, 1]", "linf <= 8/255", "TM234"),
        ("real[-1, 1]", "l2 <= 128/255", "TM234"),
        ("real[-1, 1]", "linf <= 0.05", None),
        ("real[-1/2, 1/2]", "linf <= 8/255", None),  # as wide as [0, 1]: a level is a level
        ("real[-128, 127]", "linf <= 8", None),
        ("real[0, 1]", "linf <= 8/255", None),
        ("real[0, 1] step 1/255", "linf <= 8/255", None),
    ],
)
@pytest.mark.parametrize("shape", ["3, 32, 32", "32, 32, 3", "1, 28, 28"])
def test_what_a_space_looks_like(cell: str, allow: str, code: str | None, shape: str) -> None:
    order = "" if shape[0] == "1" else "order rgb"
    if "(" in cell and not order:
        return
    expected = [(code, f"{allow} in s")] if code else []
    assert said(cell, allow=f"allow: {allow} in s", shape=shape, order=order) == expected
    assert said(cell, allow=f"allow: {allow} in s", shape=shape, order=order, more=BECAUSE) == []


def test_a_space_that_is_no_picture_may_be_wide() -> None:
    assert said(shape="40", order="") == []
    assert said("real[-3, 3] 'V'", allow="allow: linf <= 1 'V' in s") == []


def test_a_reason_is_one() -> None:
    assert ("TM221", '" "') in said(more='  units: external because " "\n')


def test_both_readings_of_a_wide_space() -> None:
    text = (
        "space s: tensor(3, 32, 32) of real[-1, 1] stored as float32 order rgb\n" + MODEL.format(space="s", step="")
        + DATA.format(space="s", more="") + THREAT.format(allow="allow: linf <= 8/255 in s", more="")
    )  # fmt: skip
    (one,) = check(Source("spec.tm", spec(text)), settings={}).diagnostics
    assert one.notes == ("8/255 in s is 4/255 of pictures in [0, 1]", "8/255 of these is 16/255 in s")


@pytest.mark.parametrize(
    ("cell", "allow", "step", "guilty"),
    [
        ("real[0, 1]", "linf <= 8/255", STEP, "cifar10_mean"),
        ("real[0, 1]", "linf <= (1/10, 1/5, 1/10) per channel", "", "(1/10, 1/5, 1/10)"),
        ("real[(0, 0, 0), (1, 1, 2)]", "linf <= 8/255", "", "real[(0, 0, 0), (1, 1, 2)]"),
        ("real[0, 1]", "linf <= (1/10, 1/10, 1/10) per channel", "", None),
        ("real[0, 1]", "linf <= 8/255", "", None),
    ],
)
def test_three_channels_without_an_order(cell: str, allow: str, step: str, guilty: str | None) -> None:
    allow = f"allow: {allow} in s"
    assert said(cell, allow=allow, step=step, order="") == ([("TM321", guilty)] if guilty else [])
    assert said(cell, allow=allow, step=step) == []


@pytest.mark.parametrize(
    "step", ["resize(32, filter: bilinear)", "center_crop(32)", "crop(top: 0, left: 0, height: 32, width: 32)"]
)
def test_a_step_to_the_size_that_there_is(step: str) -> None:
    assert said("real[0, 1]", step=f"  step: {step}\n") == [("TM320", step)]
    assert said("real[0, 1]", step=f"  step: {step}\n", shape="3, 40, 40") == []


# What opened data say -------------------------------------------------------------------------------------------------

RUN = """tm 1
use std.images (cifar10_mean, cifar10_std)
space s: tensor(3, 4, 4) of {cell} stored as float32 order rgb
model m: s -> {{no, yes}} {{
{step}  network:  torch("net.py:net", weights: "w.safetensors")
  decide:   argmax ties lowest
  random:   never
}}
data d: s {{
  read:   {read}
{prepare}  take:   all
  truth:  published "by hand"
}}
threat t on m over d {{
  allow:         {allow} in s
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
{more}}}
evaluate e of t {{ attack: p = native.pgd() seed: 0 }}
claim "c": survival(e) <= 50 %
"""
NPZ = 'npz("x.npz", inputs: "x", labels: "y")'
NET = """import torch


def net():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
"""
MEAN, STD = (np.array(v).reshape(3, 1, 1) for v in ([0.4914, 0.4822, 0.4465], [0.2471, 0.2435, 0.2616]))
BYTES = np.random.Generator(np.random.PCG64(3)).integers(0, 256, (20, 3, 4, 4))


def opened(
    folder: Path, capsys: pytest.CaptureFixture[str], x: np.ndarray, *, cell: str = "real[-3, 3]", step: str = "",
    more: str = "", prepare: str = "", allow: str = "linf <= 8/255", read: str = NPZ,
) -> tuple[int, str]:  # fmt: skip
    np.savez(folder / "x.npz", x=x.astype(np.float32), y=np.arange(len(x)) % 2)
    (folder / "net.py").write_text(NET)
    weights = {"1.weight": torch.linspace(-1, 1, 96).reshape(2, 48), "1.bias": torch.zeros(2)}
    save_file(weights, folder / "w.safetensors")
    text = RUN.format(cell=cell, step=step, more=more, prepare=prepare, allow=allow, read=read)
    (folder / "spec.tm").write_text(text)
    with pytest.raises(SystemExit) as ended:
        entry(["check", str(folder / "spec.tm"), "--artifacts", "--trust-code"])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out + told.err


@pytest.mark.parametrize("more", ["", BECAUSE])
def test_levels_under_a_known_normalization_are_certain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    code, text = opened(tmp_path, capsys, (BYTES / 255 - MEAN) / STD, more=more)
    assert code == 1
    assert "TM232" in text
    assert "whole numbers of 255ths under the mean and deviation of CIFAR-10" in text
    assert "8/255 in s is 0.007752, 0.007639, 0.008207 of pictures in [0, 1]" in text


def test_the_model_s_own_normalization_is_known_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = "  step:  normalize(mean: (0.3, 0.4, 0.6), std: (0.2, 0.3, 0.25))\n"
    mean, std = (np.array(v).reshape(3, 1, 1) for v in ([0.3, 0.4, 0.6], [0.2, 0.3, 0.25]))
    code, text = opened(tmp_path, capsys, (BYTES / 255 - mean) / std, step=step, cell="real[-4, 4]")
    assert code == 1
    assert "mean and deviation of m" in text
    assert "m normalizes them a second time" in text


def test_what_only_lies_there_is_likely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    between = np.random.Generator(np.random.PCG64(5)).uniform(0, 1, BYTES.shape)
    for more, warned in (("", 2), (BECAUSE, 0)):  # once by the range of the space, once by that of the data
        code, text = opened(tmp_path, capsys, (between - MEAN) / STD, more=more)
        assert code == 0
        assert text.count("warning[TM233]") == warned
    assert opened(tmp_path, capsys, (between - MEAN) / STD, allow="pixels_changed <= 3")[1].count("TM233") == 0


def test_pictures_of_other_units_say_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cell, x in (("real[0, 1]", BYTES / 255), ("real[-1/2, 1/2]", BYTES / 255 - 0.5)):
        code, text = opened(tmp_path, capsys, x, cell=cell)
        assert (code, "TM23" in text) == (0, False)


def test_files_that_have_the_size_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pictures").mkdir()
    labels = []
    for i, row in enumerate(BYTES[:6]):
        Image.fromarray(row.transpose(1, 2, 0).astype(np.uint8)).save(tmp_path / "pictures" / f"{i}.png")
        labels.append(f"{i}.png,{('no', 'yes')[i % 2]}")
    (tmp_path / "labels.csv").write_text("file,label\n" + "\n".join(labels) + "\n")
    for size, tail, warned in ((4, "", 1), (8, " center_crop(4)", 0)):
        steps = (
            f"  prepare: {{ decode(pillow) resize({size}, filter: bilinear){tail} permute(hwc, chw) scale(1/255) }}\n"
        )
        code, text = opened(
            tmp_path, capsys, BYTES / 255, cell="real[0, 1]", prepare=steps,
            read='folder("pictures", labels: "labels.csv")',
        )  # fmt: skip
        assert code == 0, text
        assert text.count("warning[TM320]") == warned
