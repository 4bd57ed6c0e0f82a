"""What auto-LiRPA 0.3 needs beside a current torch and numpy: four shims, each with its reason, none left behind.

The library was written for torch < 1.13. Two shims concern names that it imports, so they stand only while it is
imported; one mends its own class; one stands only while it reads a graph. A fifth keeps it from making a folder in the
user's home, a sixth from computing the same tables for every network.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

FAILURES = (
    NotImplementedError, RuntimeError, TypeError, ValueError, KeyError, AttributeError, AssertionError, IndexError,
)  # fmt: skip
"""What the library raises where it does not read a network or cannot bound it."""

_MISSING = object()


@contextmanager
def _standing_in(owner: Any, name: str, value: Any) -> Iterator[None]:
    """``owner.name = value`` for a while."""
    before = getattr(owner, name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def _set_opset_version(version: int) -> None:
    exporter: Any = import_module("torch.onnx._internal.torchscript_exporter._globals")
    exporter.GLOBALS.export_onnx_opset_version = version


def _attribute(node: Any, name: str) -> Any:
    return getattr(node, node.kindOf(name))(name)


def load() -> Any:
    """The module ``auto_LiRPA``, mended. Raises ``ImportError`` when it is not installed."""
    if "auto_LiRPA" in sys.modules:
        return sys.modules["auto_LiRPA"]
    # 1. `from numpy.lib.arraysetops import isin` (never used): numpy 2 made the module private.
    arraysetops = types.ModuleType("numpy.lib.arraysetops")
    arraysetops.__dict__["isin"] = import_module("numpy").isin
    # 2. `from torch.onnx.symbolic_helper import _set_opset_version`: torch 2 keeps it in its exporter's globals.
    helper = import_module("torch.onnx.symbolic_helper")
    # 5. On import it makes a folder for its data in the user's home, which it never uses.
    folders = import_module("appdirs")
    sys.modules["numpy.lib.arraysetops"] = arraysetops
    try:
        with (
            _standing_in(helper, "_set_opset_version", _set_opset_version),
            _standing_in(folders, "user_data_dir", lambda _: "."),
            warnings.catch_warnings(record=True),  # it sets the filters of the whole process
        ):
            library = import_module("auto_LiRPA")
    finally:
        del sys.modules["numpy.lib.arraysetops"]
    # 3. `BoundedModule._named_members(get, prefix, recurse)`: torch 2 passes `remove_duplicate` as well.
    original = library.BoundedModule._named_members

    def named_members(self: Any, get: Any, prefix: str = "", recurse: bool = True, **_: Any) -> Any:
        return original(self, get, prefix, recurse)

    library.BoundedModule._named_members = named_members
    _keep_tables(import_module("auto_LiRPA.operators").BoundTanh)
    return library


def _keep_tables(curve: Any) -> None:
    """6. Each tanh and sigmoid of each network computes 50,000 tangents, for half a second; they hang on nothing but
    the function and the default type."""
    compute, tables = curve.precompute_relaxation, {}

    def kept(self: Any, name: str, *functions: Any) -> None:
        key = name, torch.get_default_dtype()
        if key not in tables:
            before = set(vars(self))
            compute(self, name, *functions)
            tables[key] = {made: value for made, value in vars(self).items() if made not in before}
        vars(self).update(tables[key])

    curve.precompute_relaxation = kept


@contextmanager
def in_double() -> Iterator[None]:
    """The library makes some tensors of torch's default type, whatever the network's: float64 for a while."""
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        yield
    finally:
        torch.set_default_dtype(before)


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("Name:"):
            self.messages.append(record.getMessage().removeprefix("Name:").strip())


@contextmanager
def reading_graphs() -> Iterator[list[str]]:
    """While a ``BoundedModule`` is made. Yields the operations that it complains of instead of having them printed.

    4. It reads attributes of graph nodes as ``node[name]``, which torch 2 no longer offers. The opset version that it
    sets (12) for the exporter is taken back.
    """
    exporter: Any = import_module("torch.onnx._internal.torchscript_exporter._globals")
    before = exporter.GLOBALS.export_onnx_opset_version
    logger: logging.Logger = load().utils.logger
    said, printers, propagate = _Said(), logger.handlers, logger.propagate
    try:
        logger.handlers, logger.propagate = [said], False
        with _standing_in(torch._C.Node, "__getitem__", _attribute):
            yield said.messages
    finally:
        logger.handlers, logger.propagate = printers, propagate
        exporter.GLOBALS.export_onnx_opset_version = before
