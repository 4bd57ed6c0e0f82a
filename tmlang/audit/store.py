"""Where the files of a bundle lie: in a folder. (The other place, one zip, is :mod:`tmlang.audit.package`.)"""

from __future__ import annotations

import os
import re
import stat
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from tmlang.diagnostics.stop import stop

MAX_FILE = 4 * 1024**3
_NAME = re.compile(r"[A-Za-z0-9_@+=-][A-Za-z0-9._@+=-]{0,127}(/[A-Za-z0-9_@+=-][A-Za-z0-9._@+=-]{0,127}){0,7}")


class Store(Protocol):
    """Files under plain relative names."""

    def names(self) -> list[str]:
        """All of them, sorted."""

    def read(self, name: str) -> bytes:
        """The bytes of one; TM842 where it cannot be read, TM843 for a name that leads elsewhere."""

    def digest(self, name: str) -> str:
        """The SHA-256 (hex) of one."""


class Folder:
    """The plain files below a folder; a link or a device is refused (TM843)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        found = []
        for root, folders, names in os.walk(self.path, followlinks=False):
            for entry in (*folders, *names):
                path = Path(root, entry)
                mode = path.lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise stop("TM843", f"`{path}` is no plain file or folder", help="copy the files themselves")
            found += [Path(root, name).relative_to(self.path).as_posix() for name in names]
        return sorted(found)

    def read(self, name: str) -> bytes:
        path = self.path / checked_name(name)
        if any(p.is_symlink() for p in (path, *path.parents[: len(Path(name).parents) - 1])):
            raise stop("TM843", f"`{name}` is a link", help="copy the file itself into the bundle")
        try:
            if path.stat().st_size > MAX_FILE:
                raise stop("TM842", f"`{name}` is larger than {MAX_FILE} bytes")
            return path.read_bytes()
        except OSError as error:
            raise stop("TM842", f"`{name}` cannot be read: {error.strerror}") from error

    def digest(self, name: str) -> str:
        with (self.path / name).open("rb") as file:
            hasher = sha256()
            while chunk := file.read(1 << 20):
                hasher.update(chunk)
            return hasher.hexdigest()


def checked_name(name: str) -> str:
    """``name`` if it is a plain relative path of few, ordinary characters; TM843 otherwise."""
    if not _NAME.fullmatch(name):
        raise stop("TM843", f"`{name}` is no name of a file inside a bundle")
    return name
