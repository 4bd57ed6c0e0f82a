"""The files that a spec names: kept inside its folder, hashed before they are opened, limited in size."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tmlang.diagnostics.stop import stop
from tmlang.meaning.values import Artifact

CHUNK = 1 << 20
LIMIT = 8 << 30
"""Bytes that one artifact may have unless the run says otherwise."""


class Files:
    """The artifacts under ``root``, the folder of the spec.

    ``hashes``: SHA-256 of everything read so far, by path as the spec writes it (a folder has the hash of its listing,
    see :func:`folder_hash`). ``unfrozen``: by path, the artifacts that came without a hash.
    """

    def __init__(self, root: str | Path, *, limit: int = LIMIT) -> None:
        self.root = Path(root).resolve()
        self.limit = limit
        self.hashes: dict[str, str] = {}
        self.unfrozen: dict[str, Artifact] = {}

    def path(self, artifact: Artifact) -> Path:
        """Where the artifact lies. Raises TM703 when that is outside the folder of the spec, TM710 when nothing is
        there, TM712 when it is a pipe or a device."""
        written = Path(artifact.path)
        place = (self.root / written).resolve()
        if written.is_absolute() or not place.is_relative_to(self.root):
            raise stop(
                "TM703",
                f'"{artifact.path}" leaves the folder of the spec',
                artifact.origin,
                notes=(f"the spec may name what lies in {self.root}; this is {place}",),
                help="copy the file beside the spec and name it from there",
            )
        if not place.exists():
            near = sorted(p.name for p in place.parent.iterdir())[:8] if place.parent.is_dir() else []
            raise stop(
                "TM710",
                f'there is no file "{artifact.path}"',
                artifact.origin,
                notes=(f"looked for {place}",) + ((f"beside it lie {', '.join(near)}",) if near else ()),
                help="paths are relative to the folder of the spec",
            )
        if not (place.is_file() or place.is_dir()):
            # Opening a pipe would wait for a writer, and a device has no end.
            raise stop("TM712", f'"{artifact.path}" is neither a file nor a folder', artifact.origin)
        return place

    def verify(self, artifact: Artifact) -> Path:
        """The artifact's place, its hash checked and recorded. Raises TM711 (naming both hashes), TM725 (too large)."""
        place = self.path(artifact)
        with _readable(artifact):
            if place.is_dir():
                found = folder_hash(place, self.limit)
            else:
                self._check_size(artifact, place)
                found = file_hash(place)
        self._record(artifact, found)
        return place

    def read(self, artifact: Artifact) -> bytes:
        """The bytes of a file; it is these bytes whose hash was checked."""
        place = self.path(artifact)
        if place.is_dir():
            raise stop("TM712", f'"{artifact.path}" is a folder and a file is needed', artifact.origin)
        with _readable(artifact):
            self._check_size(artifact, place)
            data = place.read_bytes()
        self._record(artifact, hashlib.sha256(data).hexdigest())
        return data

    def _check_size(self, artifact: Artifact, place: Path) -> None:
        size = place.stat().st_size
        if size > self.limit:
            raise stop(
                "TM725",
                f'"{artifact.path}" has {size:,} bytes and the limit is {self.limit:,}',
                artifact.origin,
                help="raise the limit with --max-bytes if the file is really that large",
            )

    def _record(self, artifact: Artifact, found: str) -> None:
        if artifact.sha256 is None:
            self.unfrozen.setdefault(artifact.path, artifact)
        elif not hmac.compare_digest(artifact.sha256, found):
            raise stop(
                "TM711",
                f'"{artifact.path}" is not the file that the spec names',
                artifact.origin,
                notes=(f"the spec says  {artifact.sha256}", f"the file has   {found}"),
                help="get the file that was meant, or write the new hash, which makes it another claim",
            )
        self.hashes[artifact.path] = found


@contextmanager
def _readable(artifact: Artifact) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise stop("TM710", f'"{artifact.path}" cannot be read: {e.strerror}', artifact.origin) from e


def file_hash(place: Path) -> str:
    """SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with place.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def folder_files(folder: Path) -> Iterator[Path]:
    """The regular files below ``folder``, by name; links that leave the folder are passed over."""
    for place in sorted(folder.rglob("*")):
        if place.is_file() and place.resolve().is_relative_to(folder.resolve()):
            yield place


def folder_hash(folder: Path, limit: int = LIMIT) -> str:
    """SHA-256 of the listing ``<sha256>  <path>`` of every file below ``folder``, one a line, sorted by path.

    It is what ``find . -type f | sort | xargs sha256sum | sha256sum`` gives with ``./`` taken off (C locale).
    """
    total = 0
    digest = hashlib.sha256()
    for place in folder_files(folder):
        total += place.stat().st_size
        if total > limit:
            raise stop("TM725", f'the folder "{folder.name}" has more than {limit:,} bytes')
        digest.update(f"{file_hash(place)}  {place.relative_to(folder).as_posix()}\n".encode())
    return digest.hexdigest()
