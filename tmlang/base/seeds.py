"""Seeds from what a draw is for, never from where a unit stands in a batch or when it runs."""

from __future__ import annotations

from hashlib import sha256


def derive(run: int, *purpose: str | int) -> int:
    """A seed in [0, 2**63) from the run's seed and the purpose: (unit, stage, repeat, …).

    Equal purposes give equal seeds on every machine; different ones are independent for all that is known.
    """
    text = "\x1f".join(f"{type(p).__name__}:{p}" for p in (run, *purpose))
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") >> 1
