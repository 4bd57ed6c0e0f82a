"""On what a run was made, against what is here: where they differ, the last bits of its rows may."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]
OF_THE_MACHINE = ("device", "processor", "capability", "torch")
"""Facts of a reference evaluator that are not of its object."""


def processor() -> str:
    """The name of this processor as the system knows it: libraries choose their kernels by it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def elsewhere(told: Json, now: Json, environment: Json) -> Iterator[str]:
    """Why the bits of a run may differ here. ``told`` and ``now``: its ``run.json``, and what it would be now."""
    if environment["processor"] != (here := processor()):
        yield f"made on the processor {environment['processor'] or 'of nobody knows what'}, and this is {here}"
    if told["tmlang"] != now["tmlang"]:
        yield f"made by tmlang {told['tmlang']}, and this is {now['tmlang']}"
    for name, version in now["libraries"].items():
        if (then := told["libraries"].get(name)) != version:
            yield f"made with {name} {then}, and here is {version}"
    for name, digest in now["backends"].items():
        if told["backends"].get(name) != digest:
            yield f"the code of {name} is another one here"
    for name, facts in now["models"].items():
        then = told["models"].get(name, {})
        other = [fact for fact in OF_THE_MACHINE if then.get(fact) != facts.get(fact)]
        if other:
            yield f"{name} was run on {then.get(other[0])}, and here it is {facts.get(other[0])}"
