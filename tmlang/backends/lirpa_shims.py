"""What auto-LiRPA needs beside a current torch and numpy: shims, each with its reason, none left behind.

Version 0.3, the newest that is published, was written for torch < 1.13. Two shims concern names that it imports, so
they stand only while it is imported; one mends its own class; one stands only while it reads a graph. A fifth keeps it
from making a folder in the user's home and from setting up the log of the whole process, a sixth from computing the
same tables for every network.

Version 0.7.1, which is in its repository alone (commit a050a3d), was read and not run: whatever of its interface the
adapter uses is the same there but for what is told from its signatures here (2, 3, 6, 7) and left alone. Its operations
are held to the same list by their names (``lirpa_graph``), and what it computes to the same checks.
"""

from __future__ import annotations

import inspect
import logging
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
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
    # 2. `from torch.onnx.symbolic_helper import _set_opset_version`: torch 2 keeps it in its exporter's globals. (0.7.1
    # asks for it only beside an older torch.)
    helper = import_module("torch.onnx.symbolic_helper")
    # 5. On import it makes a folder for its data in the user's home, which it never uses, and gives the log of the
    # whole process a handler (0.7.1 a level as well).
    folders, root = import_module("appdirs"), logging.getLogger()
    handlers, level = list(root.handlers), root.level
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
        root.handlers[:] = handlers
        root.setLevel(level)
    _take_remove_duplicate(library.BoundedModule)
    _keep_tables(import_module("auto_LiRPA.operators").BoundTanh)
    return library


def _take_remove_duplicate(bounded: Any) -> None:
    """3. `BoundedModule._named_members(get, prefix, recurse)`: torch 2 passes `remove_duplicate` as well (0.7.1 takes
    it)."""
    original = bounded._named_members
    if "remove_duplicate" in inspect.signature(original).parameters:
        return

    def named_members(self: Any, get: Any, prefix: str = "", recurse: bool = True, **_: Any) -> Any:
        return original(self, get, prefix, recurse)

    bounded._named_members = named_members


def intermediate(bounded: Any, bounds: Mapping[str, Any]) -> dict[str, Any]:
    """7. The argument of ``compute_bounds`` that gives the bounds of layers in between was renamed."""
    taken = inspect.signature(bounded.compute_bounds).parameters
    return {"interm_bounds" if "interm_bounds" in taken else "intermediate_layer_bounds": bounds}


def _keep_tables(curve: Any) -> None:
    """6. Each tanh and sigmoid of each network computes 50,000 tangents, for half a second; they hang on nothing but
    the default type and what is asked for: `(name, function, slope)`, in 0.7.1 `(function, slope)`."""
    compute, tables = curve.precompute_relaxation, {}

    def kept(self: Any, *asked: Any, **named: Any) -> None:
        key = asked, tuple(sorted(named.items())), torch.get_default_dtype()
        if key not in tables:
            before = set(vars(self))
            compute(self, *asked, **named)
            tables[key] = {made: value for made, value in vars(self).items() if made not in before}
        vars(self).update(tables[key])

    curve.precompute_relaxation = kept


def give_type(bounded: Any, dtype: torch.dtype) -> None:
    """8. It asks the first parameter of a network for its type, and a network whose weights are constants, as those of
    ONNX files are, has none: it is given one that nothing else reads (not by its own ``register_parameter``, which
    speaks of a module that torch 2 no longer has)."""
    if next(bounded.parameters(), None) is None:
        one = torch.nn.Parameter(torch.zeros((), dtype=dtype), requires_grad=False)
        torch.nn.Module.register_parameter(bounded, "type_of_numbers", one)


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

    4. It reads attributes of graph nodes as ``node[name]``, which torch 2 no longer offers (0.7.1 asks torch). What it
    sets in the globals of torch's exporter is taken back: the opset version (12), in 0.7.1 how gradients are inlined.
    """
    exporter: Any = import_module("torch.onnx._internal.torchscript_exporter._globals")
    before = dict(vars(exporter.GLOBALS))
    logger: logging.Logger = load().utils.logger
    said, printers, propagate = _Said(), logger.handlers, logger.propagate
    try:
        logger.handlers, logger.propagate = [said], False
        with _standing_in(torch._C.Node, "__getitem__", _attribute):
            yield said.messages
    finally:
        logger.handlers, logger.propagate = printers, propagate
        vars(exporter.GLOBALS).update(before)
