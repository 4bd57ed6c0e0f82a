"""A figure of the evidence, drawn or refused, as the pages show it."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of ``evaluation``. ``says``: what it shows, in words; ``refused``: why it was not drawn, if so;
    ``fault``: the reason is a fault of tmlang, and not what the records hold."""

    name: str
    evaluation: str
    title: str
    says: str
    svg: bytes = b""
    png: bytes = b""
    refused: str = ""
    fault: bool = False

    @property
    def file(self) -> str:
        """The file beside a report, without its ending: ``figures/overlap-aa``."""
        return "figures/" + re.sub(r"[^A-Za-z0-9@+=_.-]", "_", f"{self.name}-{self.evaluation}")[:100]
