"""Laying out keeps the tree and every comment, on random specs; the nightly run takes fifty thousand."""

from __future__ import annotations

import time

import pytest
from generate import large_spec, random_spec
from syntax_support import read

from tmlang.base.source import Source
from tmlang.syntax.printer import format_source


def keeps_the_tree(seeds: range) -> None:
    for seed in seeds:
        text = random_spec(seed)
        tree = read(text).tree
        assert tree is not None, (seed, text)
        formatted = format_source(Source("spec.tm", text))
        assert isinstance(formatted, str)
        again = read(formatted)
        assert again.tree == tree, (seed, formatted, again.diagnostics)
        assert format_source(Source("spec.tm", formatted)) == formatted, (seed, formatted)


def comments(text: str) -> list[str]:
    """The texts of the comments, found line by line with nothing of the parser: a `#` outside of quotes."""
    found = []
    for line in text.replace("\r", "").split("\n"):
        quote = ""
        place = 0
        while place < len(line):
            char = line[place]
            if quote == '"' and char == "\\":
                place += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "\"'":
                quote = char
            elif char == "#":
                found.append(line[place:].strip("# \t"))
                break
            place += 1
    return found


def test_the_tree_of_the_layout_is_the_tree() -> None:
    keeps_the_tree(range(600))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_tree_of_fifty_thousand_layouts_is_the_tree() -> None:
    keeps_the_tree(range(2_000, 52_000))


def test_every_comment_is_kept_in_order() -> None:
    kept = 0
    for seed in range(600, 1200):
        text = random_spec(seed)
        formatted = format_source(Source("spec.tm", text))
        assert isinstance(formatted, str)
        assert comments(formatted) == comments(text), seed
        kept += len(comments(text))
    assert kept > 500


def test_a_long_spec_is_read_in_linear_time() -> None:
    def seconds(lines: int) -> float:
        text = large_spec(lines)
        took = []
        for _ in range(3):  # the shortest: the machine may be busy with something else
            start = time.process_time()
            assert read(text).tree is not None
            took.append(time.process_time() - start)
        return min(took)

    seconds(100)
    assert seconds(8_000) < 12 * max(seconds(1_000), 0.01)
