"""The folder that a run leaves behind (docs/bundle.md): written atomically, sealed by one statement, read strictly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.audit.record import Record

if TYPE_CHECKING:
    import numpy as np


class BundleError(Exception):
    """The bundle cannot be read or written as it stands. ``code`` is the diagnostic, ``path`` the file at fault."""

    def __init__(self, code: str, message: str, path: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.path = path


class Bundle:
    """Write: ``create`` (or ``resume``), then in any order ``add_text``, ``add_json``, ``add_candidates``,
    ``write_records``; last ``seal``. Read: ``open`` (sealed bundles only unless ``sealed=False``).

    Every file reaches the disk whole (temporary file, fsync, rename) or not at all, so a killed run can be resumed
    from what is there.
    """

    @classmethod
    def create(cls, path: str | Path) -> Bundle:
        """A new bundle in the empty or absent folder ``path``."""
        raise NotImplementedError

    @classmethod
    def resume(cls, path: str | Path) -> Bundle:
        """An unsealed bundle, to be continued."""
        raise NotImplementedError

    @classmethod
    def open(cls, path: str | Path, *, sealed: bool = True) -> Bundle:
        """A bundle to be read; a sealed one has every hash checked."""
        raise NotImplementedError

    def add_text(self, name: str, text: str) -> None:
        """A text file, e.g. ``spec/main.tm``, ``report.md``."""
        raise NotImplementedError

    def add_bytes(self, name: str, data: bytes) -> None:
        raise NotImplementedError

    def add_json(self, name: str, value: Any) -> None:
        """``value`` as canonical JSON (RFC 8785), e.g. ``environment.json``, ``columns.json``."""
        raise NotImplementedError

    def add_candidates(
        self,
        x: np.ndarray[Any, Any],
        originals: np.ndarray[Any, Any],
        *,
        space: str,
        indices: bool = False,
    ) -> tuple[str, ...]:
        """Commit candidates (N, *shape) beside their originals; gives the N references for ``Record.candidate``.

        ``indices``: a lattice space's integer indices instead of values.
        """
        raise NotImplementedError

    def write_records(self, records: Sequence[Record]) -> str:
        """Commit one batch of rows; gives the file's name."""
        raise NotImplementedError

    def seal(self, predicate: Mapping[str, Any]) -> str:
        """Write ``statement.json`` over every file; gives its SHA-256."""
        raise NotImplementedError

    def records(self) -> list[Record]:
        """All rows, in the order in which they were committed."""
        raise NotImplementedError

    def candidate(self, reference: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(candidate, original) of a ``Record.candidate`` reference, each (*shape)."""
        raise NotImplementedError

    def text(self, name: str) -> str:
        raise NotImplementedError

    def json(self, name: str) -> Any:
        raise NotImplementedError

    def files(self) -> Iterator[str]:
        """Names of all files, sorted, ``statement.json`` apart."""
        raise NotImplementedError
