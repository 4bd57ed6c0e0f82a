"""Verifiers of other packages: what they certify is attacked before it is believed.

Adapters of tmlang look at their sets themselves, where they know the network that they bound; of a stranger's nothing
is known. An input that fails is offered beside the certificate that it contradicts: whoever judges both finds that out,
and every certificate of the method is void.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import cast

import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Certifier, Job, Verdicts
from tmlang.backends.native.pgd import PGD
from tmlang.meaning.values import Quantity, Symbol
from tmlang.plan.capability import Method

SEARCH = {
    "loss": Symbol("margin"),
    "steps": Fraction(20),
    "restarts": Fraction(2),
    "step_size": Quantity(Fraction(1, 8), "radii"),
    "random_start": True,
}


class Doubted:
    """``certifier``, whose certificates of fixed objects are attacked by projected gradient ascent."""

    def __init__(self, certifier: Certifier, row: Method) -> None:
        self.certifier, self.row = certifier, row

    def certify(self, job: Job) -> Verdicts:
        told = self.certifier.certify(job)
        if not isinstance(cast(object, told), Verdicts) or len(told.verdict) != len(job.x):
            return told  # the runner says what is wrong with it
        sure = torch.tensor([word == "certified" for word in told.verdict])
        if not bool(sure.any()):
            return told
        try:
            found = PGD(self.row).search(replace(job, arguments=SEARCH))
        except BackendRefusal:
            return told  # a set that is not searched by gradients
        against = sure & found.offered
        before = told.candidates or Candidates(job.x, torch.zeros_like(sure), (None,) * len(sure))
        x = torch.where(against.reshape(-1, *[1] * (job.x.dim() - 1)), found.x, before.x)
        return replace(told, candidates=replace(before, x=x, offered=before.offered | against))
