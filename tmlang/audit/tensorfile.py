"""Arrays in safetensors files: written by the library, read by rules that leave nothing open.

Format: https://huggingface.co/docs/safetensors (8 bytes little-endian length of the header, a JSON header, raw
little-endian row-major data).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from tmlang.base import canonical

MAX_HEADER = 1024 * 1024
_KINDS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "U8": "|u1",
    "BOOL": "|b1",
}


class TensorFileError(ValueError):
    """Bytes that are no safetensors file, or one that could be read in two ways."""


@dataclass(frozen=True)
class TensorFile:
    tensors: Mapping[str, NDArray[Any]]
    metadata: Mapping[str, str]


def write(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """The file as bytes; arrays of other kinds than the ones readable here are refused."""
    for name, array in tensors.items():
        if array.dtype.newbyteorder("<").str.replace("=", "<") not in _KINDS.values():
            raise TensorFileError(f"{name}: {array.dtype} is not written")
    data: bytes = save({k: np.ascontiguousarray(v) for k, v in tensors.items()})
    # The library writes metadata in an order of its own, another one each time; equal runs give equal bytes.
    start = 8 + int.from_bytes(data[:8], "little")
    header = canonical.dumps({"__metadata__": dict(metadata), **json.loads(data[8:start])})
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[start:]


def read(data: bytes) -> TensorFile:
    """Every array, read-only. The parts must cover the data exactly, in bounds and without overlap."""
    size = int.from_bytes(data[:8], "little") if len(data) >= 8 else -1
    if not 2 <= size <= MAX_HEADER or 8 + size > len(data):
        raise TensorFileError(f"a header of {size} bytes in a file of {len(data)}")
    try:
        header = canonical.loads(data[8 : 8 + size])
    except canonical.NotCanonical as error:
        raise TensorFileError(f"the header: {error}") from error
    if not isinstance(header, dict):
        raise TensorFileError("the header is no object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise TensorFileError("the metadata holds something else than texts")
    body = memoryview(data)[8 + size :]
    parts = {name: _part(name, entry) for name, entry in header.items()}
    at = 0
    for name, (_, _, start, end) in sorted(parts.items(), key=lambda item: item[1][2:]):
        if start != at:
            raise TensorFileError(f"{name}: the data has a hole or an overlap")
        at = end
    if at != len(body):
        raise TensorFileError("the data is longer or shorter than its parts")
    tensors = {n: np.frombuffer(body[s:e], dtype=k).reshape(shape) for n, (k, shape, s, e) in parts.items()}
    return TensorFile(tensors, metadata)


def _part(name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """(kind, shape, start, end) of one array, its length checked against its shape."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise TensorFileError(f"{name}: dtype, shape and data_offsets are needed and nothing else")
    kind, shape, offsets = _KINDS.get(str(entry["dtype"])), entry["shape"], entry["data_offsets"]
    numbers = [*shape, *offsets] if isinstance(shape, list) and isinstance(offsets, list) else [-1]
    if kind is None or len(offsets) != 2 or not all(type(n) is int and n >= 0 for n in numbers):
        raise TensorFileError(f"{name}: an unknown kind, shape or place")
    if len(shape) > 16 or offsets[1] - offsets[0] != math.prod(shape) * np.dtype(kind).itemsize:
        raise TensorFileError(f"{name}: the length does not fit the shape")
    return kind, tuple(shape), offsets[0], offsets[1]
