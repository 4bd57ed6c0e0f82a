"""What a rerun has found so far, on the disk, so that an interrupted one goes on behind the calls that it made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tmlang.base.files import write_atomically
from tmlang.diagnostics.stop import stop


@dataclass
class Told:
    """What became of one call: how many of its rows were compared, and what differs."""

    rows: int = 0
    certificates: int = 0
    faults: list[str] = field(default_factory=list)
    unreproduced: list[str] = field(default_factory=list)

    def put(self, text: str, loose: Sequence[str]) -> None:
        """A difference: a fault, unless there are reasons that bits may differ."""
        if loose:
            self.unreproduced.append(f"{text} ({'; '.join(loose)})")
        else:
            self.faults.append(text)


class Memo:
    """The finished calls of the rerun that is named ``about``, in the file ``path`` (``None``: in memory alone)."""

    def __init__(self, path: Path | None, about: str) -> None:
        self.path, self.about = path, about
        self._calls: dict[str, Told] = {}
        if path is not None and path.is_file():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            told = json.loads(path.read_bytes())
            if told["about"] == self.about:
                self._calls = {key: Told(**one) for key, one in told["calls"].items()}
        except (OSError, ValueError, TypeError, KeyError):  # another file, or a damaged one: all calls are made
            self._calls = {}

    def __contains__(self, key: str) -> bool:
        return key in self._calls

    def __getitem__(self, key: str) -> Told:
        return self._calls[key]

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, key: str, told: Told) -> None:
        """On the disk when this returns. Raises TM824 where it cannot be written."""
        self._calls[key] = told
        if self.path is None:
            return
        text = json.dumps({"about": self.about, "calls": {k: asdict(t) for k, t in self._calls.items()}})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, text.encode())
        except OSError as error:
            raise stop("TM824", f"`{self.path}` cannot be written: {error.strerror}") from error

    def forget(self) -> None:
        """The rerun is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
