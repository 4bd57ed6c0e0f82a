"""A spec of ten thousand lines is checked in seconds."""

from __future__ import annotations

import time

from generate import large_spec

from tmlang.base.source import Source
from tmlang.semantics import check


def test_ten_thousand_lines_are_checked_in_three_seconds() -> None:
    text = large_spec(10_000)
    assert 9_900 < text.count("\n") <= 10_000
    start = time.process_time()
    checked = check(Source("large.tm", text))
    assert time.process_time() - start < 3
    assert checked.diagnostics == ()
    assert checked.program is not None
    assert len(checked.program.claims) > 400
