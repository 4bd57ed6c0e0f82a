"""Attacks of torchattacks: a fresh object per call, the radius and the norm from the threat, nothing else of its own.

The library's traps (measured on 3.5.1): fixed-radius attacks overshoot by an ulp (we project), APGD and Square reset
the global seed (we restore it and pass ours), the norm hangs on an argument (set from the threat), the normalization
switch double-normalizes (never used), the training flag is set on what it is given (a door).
"""

from __future__ import annotations

from typing import Any

import torch

from tmlang.backends.library import LibraryAttack, Search


class Attack(LibraryAttack):
    """An attack within a radius, or (a row without a ``radius_argument``) one that looks for the nearest failure."""

    def run(self, search: Search) -> torch.Tensor:
        import torchattacks

        row = self.row
        ours: dict[str, Any] = {}
        if row.radius_argument:
            ours[row.radius_argument] = search.frame.radius
        if row.norm_argument:
            ours[row.norm_argument] = row.norm_names[search.frame.norm]
        if row.seed_argument:
            ours[row.seed_argument] = search.seed
        if "n_classes" in row.run_arguments:
            ours["n_classes"] = search.door.oracle.classes
        attack = getattr(torchattacks, row.symbol)(search.door, **search.arguments, **ours)
        if search.door.targeted:
            attack.set_mode_targeted_by_label(quiet=True)
        found: torch.Tensor = attack(search.z, search.labels)
        return found
