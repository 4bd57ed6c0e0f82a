"""What an answer shows of the scores: the best few classes alone, and so many digits of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tmlang.meaning.threats import Access

Tensor = torch.Tensor


@dataclass(frozen=True)
class Disclosed:
    """``top``: how many of the ``classes`` an answer lists, by their scores before rounding; ``rounded``: decimal
    digits of everything that it shows. ``None``: all."""

    classes: int
    top: int | None
    rounded: int | None

    @classmethod
    def of(cls, access: Access, classes: int) -> Disclosed | None:
        """``None`` where an answer shows all there is."""
        shows_all = access.top is None and access.rounded is None
        return None if shows_all else cls(classes, access.top, access.rounded)

    def __call__(self, outputs: Tensor) -> Tensor:
        """Of outputs (n, H), class scores in the first columns. In place of what is not listed stands the number just
        below the least score that is: no class that is left out has more."""
        classes = self.classes
        shown = outputs if self.rounded is None else _rounded(outputs, self.rounded)
        if self.top is None or self.top >= classes:
            return shown
        listed = outputs[:, :classes].topk(self.top, dim=1).indices
        scores = shown[:, :classes].gather(1, listed)
        least = scores[:, -1:]
        left_out = torch.nextafter(least, torch.full_like(least, -torch.inf)).expand(-1, classes)
        return torch.cat([left_out.scatter(1, listed, scores), shown[:, classes:]], dim=1)


def _rounded(outputs: Tensor, digits: int) -> Tensor:
    """A number times ten to the ``digits`` that is no float64 has no digits to lose."""
    exact = outputs.double()
    shown = exact.round(decimals=min(digits, 300))
    return torch.where(shown.isfinite(), shown, exact).to(outputs.dtype)
