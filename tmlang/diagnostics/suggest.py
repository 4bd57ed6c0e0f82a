"""The nearest known name to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def distance(a: str, b: str, limit: int) -> int:
    """The number of insertions, deletions, replacements and swaps of neighbours between ``a`` and ``b``
    (optimal string alignment), or ``limit + 1`` as soon as it must exceed ``limit``."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before = before, row
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]


def nearest(name: str, known: Iterable[str], *, at_most: int = 3) -> list[str]:
    """The known names closest to ``name``, best first and then by spelling; a third of the length may differ.

    A name that starts with the other (``epsilon`` for ``eps``) counts as close.
    """
    folded = name.lower()
    limit = max(1, len(name) // 3)
    found: list[tuple[int, str]] = []
    for candidate in dict.fromkeys(known):
        other = candidate.lower()
        d = distance(folded, other, limit)
        if d > limit and min(len(folded), len(other)) >= 3 and (folded.startswith(other) or other.startswith(folded)):
            d = limit
        if d <= limit:
            found.append((d, candidate))
    best = min((d for d, _ in found), default=0)
    return [c for d, c in sorted(found) if d <= best + 1][:at_most]


def either(words: Iterable[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return _joined(list(words), "or")


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return _joined(list(words), "and")


def _joined(words: list[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else "nothing"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """``did you mean eps`` or ``None`` when nothing is close."""
    close = nearest(name, known)
    return f"did you mean {either(close)}" if close else None
