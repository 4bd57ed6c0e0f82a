"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` by a rename within its folder, keeping the permissions of a file that was there.

    A symbolic link is followed, so that the file behind it is replaced and not the link. When this returns, the file
    outlasts a loss of power. Raises ``OSError``; then the old file is there, or the whole new one.
    """
    target = path.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        # It is gone where the rename was done and something else came between.
        Path(name).unlink(missing_ok=True)
        raise
    _settle(target.parent)


def _settle(folder: Path) -> None:
    """Make the names within ``folder`` outlast a loss of power, where the system can say so of a folder."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
