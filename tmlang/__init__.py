"""tmlang: a declarative language for adversarial-robustness claims, and the tools that check and run them.

``import tmlang as tm`` loads nothing else; each name below is loaded when it is first used (docs/api.md).
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "check": "tmlang.api.reading",
    "plan_of": "tmlang.api.reading",
    "run": "tmlang.api.running",
    "open": "tmlang.api.evidence",
    "log_to_mlflow": "tmlang.api.mlflow",
    "Evidence": "tmlang.api.evidence",
    "Front": "tmlang.api.reading",
    "Planned": "tmlang.api.reading",
    "Live": "tmlang.api.live",
    "Refused": "tmlang.api.reading",
}
"""Public name -> the module that has it; ``__init__.pyi`` says the same to type checkers."""


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tmlang' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
