"""What art and adv_lib do by themselves, as far as a row or a reason in their manifests rests on it."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import digits, search, threat

from tmlang.backends import adv_lib
from tmlang.plan.capability import Capabilities

X = torch.from_numpy(digits().x[:8])
Y = digits().y[:8]


def broken(found: torch.Tensor) -> int:
    return int((digits().decisions(found.detach()) != Y).sum())


def classifier() -> Any:
    from art.estimators.classification import PyTorchClassifier

    loss = torch.nn.CrossEntropyLoss()
    return PyTorchClassifier(digits().deployed, loss, (1, 8, 8), 10, clip_values=(0.0, 1.0), device_type="cpu")


def test_what_stands_in_while_adv_lib_is_imported_is_taken_away() -> None:
    adv_lib.library()
    for name in ("torchvision", "visdom"):
        assert getattr(sys.modules.get(name), "__file__", "absent") is not None, f"{name} is an empty module"


def test_minimum_norm_in_l2_of_adv_lib_finds_half() -> None:
    """Its l2 projection lengthens every change to the radius, where the others shorten it: the row has no l2."""
    fmn = adv_lib.library().fmn
    assert [broken(fmn(digits().deployed, X.clone(), Y, norm=n, steps=60)) for n in (1, float("inf"))] == [8, 8]
    assert broken(fmn(digits().deployed, X.clone(), Y, norm=2, steps=60)) <= 4
    row = Capabilities().backend("adv_lib").methods["fmn"]  # type: ignore[union-attr]
    assert row.refused["l2"].by == "library"


def test_trust_regions_of_adv_lib_hardly_move() -> None:
    """Why it is not offered: a hundred steps, and no input is broken or moved by more than an eighth in l2."""
    found = adv_lib.library().tr(digits().deployed, X.clone(), Y, p=2)
    assert broken(found) == 0
    assert (found - X).flatten(1).norm(dim=1).max() < 1 / 8


def test_zeroth_order_of_art_mixes_up_the_rows_of_a_batch() -> None:
    from art.attacks.evasion import ZooAttack

    tuned = {"initial_const": 1.0, "learning_rate": 0.1, "variable_h": 0.01, "nb_parallel": 16, "max_iter": 20}
    attack = ZooAttack(classifier(), use_resize=False, use_importance=False, batch_size=2, verbose=False, **tuned)
    with pytest.raises(IndexError):
        attack.generate(X[:2].numpy(), np.eye(10)[Y[:2].numpy()])
    case = digits()
    found = search(
        "art.ZooAttack", case, case.job(threat("l2"), rows=slice(2)), max_iter=Fraction(2), nb_parallel=Fraction(16)
    )
    assert found.errors == (None, None)


def test_the_start_of_hopskipjump_in_art_follows_no_seed() -> None:
    """Why it and the boundary attack are not offered."""
    from art.attacks.evasion import HopSkipJump

    found = []
    for _ in range(2):
        np.random.seed(0)
        attack = HopSkipJump(classifier(), max_iter=1, max_eval=10, init_eval=5, init_size=50, verbose=False)
        found.append(attack.generate(X[:4].numpy(), Y[:4].numpy()))
    assert not np.array_equal(found[0], found[1])


def test_geoda_of_art_asks_for_what_numpy_has_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why it is not offered; it would also write its basis into the working folder, and take what lies there for it."""
    from art.attacks.evasion import GeoDA

    monkeypatch.chdir(tmp_path)
    attack = GeoDA(classifier(), sub_dim=2, max_iter=600, verbose=False)
    with pytest.raises(AttributeError, match=r"np\.mat"):
        attack.generate(X[:1].numpy(), Y[:1].numpy())


def test_carlini_and_wagners_l0_attack_of_art_changes_all() -> None:
    """Why it is not offered: of 64 coordinates none is put back."""
    from art.attacks.evasion import CarliniL0Method

    given = {"max_iter": 5, "binary_search_steps": 1, "initial_const": 1.0, "learning_rate": 0.1}
    found = CarliniL0Method(classifier(), batch_size=2, verbose=False, **given).generate(X[:2].numpy(), Y[:2].numpy())
    assert ((torch.from_numpy(found) != X[:2]).flatten(1).sum(dim=1) > 60).all()
