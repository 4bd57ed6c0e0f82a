"""Rows of methods that compile themselves for half a minute run in the nightly command."""

from __future__ import annotations

import pytest
from conformance_support import COMPILED


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and hasattr(item, "callspec")
            and item.callspec.params.get("path") in COMPILED
        ):
            item.add_marker(pytest.mark.nightly)
            item.add_marker(pytest.mark.timeout(900))
