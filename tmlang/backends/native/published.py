"""A corrupted set as its authors published it: the data are the changed inputs, and nothing is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from tmlang.backends.domain import Domain
    from tmlang.plan.capability import Method


class Published:
    """``native.as_published``: every input as it is. The share of right answers is exact of the set; its interval is
    about other examples of the same kind."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def change(self, x: NDArray[Any], domain: Domain, arguments: Mapping[str, Any], seed: int) -> NDArray[Any]:  # noqa: ARG002
        return x
