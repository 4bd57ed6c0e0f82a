"""A folder of files as one zip in the only form that it may have: equal files give equal bytes, on any machine.

The files stand sorted by name, one behind the other, stored as they are, without times, owners or comments. A reader
hence need not trust any header: what :class:`Archive` accepts is, to the byte, what :func:`packed` writes of its files,
and nothing is ever decompressed. Format: PKWARE, .ZIP File Format Specification (APPNOTE) 6.3, sections 4.3 and 4.4.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tmlang.audit.store import checked_name
from tmlang.diagnostics.stop import Stop, stop

MAX_FILES = 10_000
MAX_BYTES = 1024**3
"""Of a package."""
SIGNATURE = b"PK\x03\x04"
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_STORED, _MIDNIGHT, _FIRST_DAY = 0, 0, 0x0021
"""No compression; 1980-01-01 00:00, the least time that a zip can say."""
_VERSION, _UNIX, _PLAIN_FILE, _LINK, _KIND = 10, 3 << 8, 0o100644 << 16, 0o120000, 0o170000
_HELP = "unpack it with any tool, and pack the folder with tmc pack"


def packed(files: Mapping[str, bytes]) -> bytes:
    """The files as a zip. Raises TM843 for other names than plain ones, TM853 beyond the limits."""
    parts, directory, at = [], [], 0
    for name, data in sorted(files.items()):
        entry = _Entry(checked_name(name), zlib.crc32(data), len(data), at)
        parts += [entry.local(), data]
        directory.append(entry.central())
        at += len(parts[-2]) + len(data)
    whole = b"".join((*parts, *directory, _end(len(files), sum(map(len, directory)), at)))
    if len(files) > MAX_FILES or len(whole) > MAX_BYTES:
        raise stop("TM853", f"{len(files)} files of {len(whole):,} bytes are more than one zip takes", help=_limits())
    return whole


def is_packed(path: Path) -> bool:
    """Whether a file begins as a zip does."""
    with path.open("rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


def unpack(data: bytes, folder: Path, title: str = "the packed files") -> list[str]:
    """Write the files of a zip into ``folder``; gives their names. Raises what :class:`Archive` does, and TM824."""
    archive = Archive(data, title)
    for name in archive.names():
        target = folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                file.write(archive.read(name))
        except OSError as error:
            raise stop("TM824", f"`{target}` cannot be written: {error.strerror}") from error
    return archive.names()


class Archive:
    """The files of a zip, a :class:`tmlang.audit.store.Store`.

    Raises a ``Stop``: TM843 for a name that is no plain path inside a folder, TM853 for everything else that
    :func:`packed` does not write. ``title``: what messages call it.
    """

    def __init__(self, data: bytes, title: str) -> None:
        self._data = memoryview(data)
        self._entries = {entry.name: entry for entry in _entries(data, title)}

    @classmethod
    def at(cls, path: Path) -> Archive:
        """The zip in a file."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise stop("TM853", f"`{path}` is larger than {MAX_BYTES:,} bytes", help=_limits())
            return cls(path.read_bytes(), f"`{path}`")
        except OSError as error:
            raise stop("TM840", f"`{path}` cannot be read: {error.strerror}") from error

    def names(self) -> list[str]:
        return list(self._entries)

    def read(self, name: str) -> bytes:
        entry = self._entries.get(checked_name(name))
        if entry is None:
            raise stop("TM842", f"`{name}` cannot be read: it is not packed")
        return bytes(self._data[entry.begin : entry.begin + entry.size])

    def digest(self, name: str) -> str:
        return sha256(self.read(name)).hexdigest()


class _Entry(NamedTuple):
    """One file: where its header begins, and what the two headers say."""

    name: str
    crc: int
    size: int
    at: int

    @property
    def begin(self) -> int:
        return self.at + _LOCAL.size + len(self.name)

    def _same(self) -> tuple[int, ...]:
        """What both headers say: times, CRC, sizes, length of the name, no extra field."""
        return (_STORED, _MIDNIGHT, _FIRST_DAY, self.crc, self.size, self.size, len(self.name), 0)

    def local(self) -> bytes:
        return _LOCAL.pack(SIGNATURE, _VERSION, 0, *self._same()) + self.name.encode("ascii")

    def central(self) -> bytes:
        head = (b"PK\x01\x02", _UNIX | _VERSION, _VERSION, 0, *self._same(), 0, 0, 0, _PLAIN_FILE, self.at)
        return _CENTRAL.pack(*head) + self.name.encode("ascii")


def _end(count: int, size: int, at: int) -> bytes:
    return _END.pack(b"PK\x05\x06", 0, 0, count, count, size, at, 0)


def _entries(data: bytes, title: str) -> Iterator[_Entry]:
    """The files of a zip, each where it must lie."""
    found = _directory(data, title)
    at, before = 0, ""
    for name, header in found:
        entry = _Entry(name, header[7], header[9], at)
        if name == before:
            raise _refused(f"{title} holds `{name}` twice")
        if name < before:
            raise _refused(f"{title} holds `{name}` behind `{before}`, which is not the order of their names")
        if _CENTRAL.pack(*header) + name.encode("ascii") != entry.central():
            raise _refused(f"{title} holds `{name}` {_otherwise(header)}")
        body = memoryview(data)[entry.begin : entry.begin + entry.size]
        if data[at : entry.begin] != entry.local() or zlib.crc32(body) != entry.crc:
            raise _refused(f"what {title} says of `{name}` is not what lies there")
        yield entry
        at, before = entry.begin + entry.size, name
    size = sum(_CENTRAL.size + len(name) for name, _ in found)
    if data[at + size :] != _end(len(found), size, at) or len(data) != at + size + _END.size:
        raise _refused(f"{title} holds bytes that belong to no file")


def _directory(data: bytes, title: str) -> list[tuple[str, tuple[int, ...]]]:
    """The names, each a plain one, and headers that the directory at the end lists."""
    if len(data) < _END.size or data[-_END.size :][:4] != b"PK\x05\x06":
        raise _refused(f"{title} does not end as a zip does that tmc packed")
    *_, count, _size, at, _comment = _END.unpack(data[-_END.size :])
    if count > MAX_FILES or len(data) > MAX_BYTES:
        raise _refused(f"{title} holds more than {MAX_FILES:,} files or {MAX_BYTES:,} bytes")
    found: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(count):
        if at + _CENTRAL.size > len(data) or data[at : at + 4] != b"PK\x01\x02":
            raise _refused(f"the directory of {title} cannot be read")
        header = _CENTRAL.unpack_from(data, at)
        name = data[at + _CENTRAL.size :][: header[10]]
        found.append((_named(name.decode("ascii", "backslashreplace"), title), header))
        at += _CENTRAL.size + sum(header[10:13])
    names = {name for name, _ in found}
    if both := names & {parent.as_posix() for name in names for parent in PurePosixPath(name).parents}:
        raise _refused(f"{title} holds `{min(both)}` as a file and as a folder")
    return found


def _named(name: str, title: str) -> str:
    if name.endswith("/") and checked_name(name[:-1]):
        raise _refused(f"{title} lists the folder `{name}`, and a packed bundle holds its files alone")
    return checked_name(name)


def _otherwise(header: tuple[int, ...]) -> str:
    """In which other form a file is packed."""
    if header[3] & 1:
        return "encrypted"
    if header[4] != _STORED:
        return "compressed"
    if header[15] >> 16 & _KIND == _LINK:
        return "as a link"
    return "in another form: with a time, an owner or more, or not where its place is"


def _refused(message: str) -> Stop:
    return stop("TM853", message, help=_HELP)


def _limits() -> str:
    return f"at most {MAX_FILES:,} files and {MAX_BYTES:,} bytes; keep the folder, or attach less"
