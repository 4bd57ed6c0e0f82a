"""Backends of other packages: for each an entry point of the group ``tmlang.backends``, a manifest and a class.

The entry point has the backend's name, and its value is the package whose folder holds ``<name>.toml``. Nothing of the
package is imported to find it, and nobody looks unless a backend is asked for that tmlang does not bring itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

GROUP = "tmlang.backends"


@cache
def plugin_manifests() -> Mapping[str, Path]:
    """The name of every installed plugin and where its manifest should be, in the order of names."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    found: dict[str, Path] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        top, *rest = entry.value.split(".")
        spec = find_spec(top)
        for folder in (spec and spec.submodule_search_locations) or ():
            found.setdefault(entry.name, Path(folder, *rest, f"{entry.name}.toml"))
    return found
