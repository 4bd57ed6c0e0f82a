"""Rows of slow methods run in the nightly command: of those that compile themselves all, of the others all but one."""

from __future__ import annotations

import pytest
from conformance_support import COMPILED, SLOW

EVERY_ROW = "test_candidates_are_members_and_originals_are_no_candidates"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        path = item.callspec.params.get("path")
        if path in COMPILED or (path in SLOW and item.originalname != EVERY_ROW):
            item.add_marker(pytest.mark.nightly)
            item.add_marker(pytest.mark.timeout(900))
