"""The schedule and the losses of the native searches, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.native.apgd import checkpoints
from tmlang.backends.native.losses import cross_entropy, dlr, loss_of, margin, reject_aware
from tmlang.backends.oracle import Seen


def test_checkpoints_are_those_of_the_paper():
    """p = 0, .22, .41, .57, .70, .80, .87, .93, .99: increments fall by .03 from .22 to .06."""
    assert checkpoints(100) == [0, 22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(10) == [0, 3, 5, 6, 7, 8, 9, 10]
    assert checkpoints(1) == [0, 1]


def test_losses_by_hand():
    scores = torch.tensor([[3.0, 1.0, 2.0, -1.0], [0.0, 4.0, 1.0, 2.0]])
    label, target = torch.tensor([0, 0]), torch.tensor([3, 2])
    assert margin(scores, label, None).tolist() == [-1, 4]
    assert margin(scores, label, target).tolist() == [-4, -3]
    assert dlr(scores, label, None).tolist() == pytest.approx([-1 / 2, 4 / 3])
    assert dlr(scores, label, target).tolist() == pytest.approx(
        [(-1 - 3) / (3 - (1 - 1) / 2), (1 - 0) / (4 - (1 + 0) / 2)]
    )
    rest = torch.logsumexp(scores, 1)
    assert torch.allclose(cross_entropy(scores, label, None), rest - scores[:, 0])
    assert torch.allclose(cross_entropy(scores, label, target), -(rest - torch.tensor([-1.0, 1.0])))


def test_the_ratio_does_not_see_shift_and_scale():
    scores = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(5)
    assert torch.allclose(dlr(scores, labels, None), dlr(7 * scores - 3, labels, None), atol=1e-5)


@pytest.mark.parametrize(("classes", "targeted"), [(2, False), (3, True)])
def test_the_ratio_needs_its_classes(classes, targeted):
    def job(k):
        return SimpleNamespace(oracle=SimpleNamespace(classes=k), target=torch.tensor([0]) if targeted else None)

    with pytest.raises(BackendRefusal, match="needs"):
        loss_of(job(classes), "dlr")
    loss_of(job(classes + 1), "dlr")


def test_a_detector_is_part_of_what_is_climbed():
    """Margins -1 and 2, slacks 1/2 and -1/4: safe rejections need both above 0, failing ones any."""
    seen = Seen(
        torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 2.0]]), torch.tensor([0, -1, 1]), torch.tensor([0.5, -0.25, 0.5])
    )
    labels = torch.tensor([0, 0, 0])
    assert reject_aware(False)(seen, labels, None).tolist() == [-1, -0.25, 0]
    assert reject_aware(True)(seen, labels, None).tolist() == [-0.5, 2, 2]
    assert reject_aware(True)(seen._replace(slack=None), labels, None).tolist() == [-1, 2, 2]
