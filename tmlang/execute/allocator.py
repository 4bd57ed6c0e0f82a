"""One setting of the C library that searches on the CPU feel."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT, _LARGEST = 1 << 30, 1 << 25
"""Bytes that are kept, and the greatest block that may be kept (the most that glibc takes)."""


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory instead of giving every large block back to the kernel.

    A search allocates and frees the same activations thousands of times; without this each comes back as fresh pages
    that the kernel must clear, which cost a fifth of the time of an attack on the digits example. Values do not
    change. Gives ``False`` where there is no glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST) and mallopt(_M_TRIM_THRESHOLD, _KEPT))
