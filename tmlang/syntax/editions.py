"""Language editions: the one that is read here, and the way up to it.

A word never changes its meaning within an edition. The edition that changes one brings a row of :data:`UPGRADES`, which
rewrites a spec of the edition before into one that means the same; ``tmc fmt --upgrade`` applies the rows in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tmlang.base.source import Source

CURRENT = 1

UPGRADES: Mapping[int, Callable[[str], str]] = {}
"""By edition: the text of a spec of it to the text of one of the next, but for the edition that it names. Nothing came
before edition 1."""

_BLANK = r"(?:[ \t\r\n]|\#[^\n]*\n)"
_NAMED = re.compile(rf"\ufeff?{_BLANK}*tm{_BLANK}+(?P<edition>[0-9]{{1,9}})(?![\w.])")


def edition_of(text: str) -> int | None:
    """The edition that a text names first, if it does."""
    named = _NAMED.match(text)
    return int(named["edition"]) if named else None


def upgraded(source: Source) -> Source:
    """The source in the current edition, or as it is where no upgrade leads there; layout and comments stay."""
    text, edition = source.text, edition_of(source.text)
    while edition is not None and edition < CURRENT and edition in UPGRADES:
        text = UPGRADES[edition](text)
        edition += 1
        named = _NAMED.match(text)
        assert named is not None  # an upgrade leaves the first two tokens alone
        text = f"{text[: named.start('edition')]}{edition}{text[named.end('edition') :]}"
    return Source(source.name, text)
