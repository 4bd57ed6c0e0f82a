"""A folder of files as one zip, and back: equal files give equal bytes, and a stranger's zip stays in its folder."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from tmlang.audit.bundle import STATEMENT, Bundle, checked_name
from tmlang.diagnostics.stop import stop

MAX_FILES = 10_000
MAX_BYTES = 1024**3
"""Of all files of a package together, unpacked."""
_CHUNK = 1 << 20
_DATE = (1980, 1, 1, 0, 0, 0)


def packed(files: Mapping[str, bytes]) -> bytes:
    """The files as a zip, sorted, without times or owners."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(checked_name(name), _DATE), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def packed_bundle(bundle: Bundle) -> bytes:
    """A sealed bundle with its statement."""
    return packed({name: bundle.read_bytes(name) for name in (*bundle.files(), STATEMENT)})


def unpack(data: bytes, folder: Path) -> list[str]:
    """Write the files of a zip into ``folder``; gives their names.

    Raises a ``Stop``: TM843 for a name that is no plain path inside the folder, TM882 for what is no zip, for a name
    that stands twice, and beyond :data:`MAX_FILES` or :data:`MAX_BYTES`, whatever its headers say.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_FILES:
                raise stop("TM882", f"more than {MAX_FILES} files are packed together")
            names = [checked_name(entry.filename) for entry in entries]
            if len(set(names)) < len(names):
                raise stop("TM882", "a file is packed twice under one name")
            left = MAX_BYTES
            for entry, name in zip(entries, names, strict=True):
                left -= _write(archive, entry, folder / name, left)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise stop("TM882", f"the packed files cannot be read: {error}") from error
    return names


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, left: int) -> int:
    """Unpack one file; gives its size."""
    size = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, target.open("xb") as file:
            while chunk := source.read(_CHUNK):
                size += len(chunk)
                if size > left:
                    raise stop("TM882", f"unpacked, the files are larger than {MAX_BYTES} bytes")
                file.write(chunk)
    except OSError as error:
        raise stop("TM824", f"`{target}` cannot be written: {error.strerror}") from error
    return size
