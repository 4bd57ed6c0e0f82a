"""Writes the report of a bundle, into it before it is sealed or beside it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tmlang.audit.bundle import Bundle
from tmlang.base.files import write_atomically
from tmlang.diagnostics.stop import stop
from tmlang.report.markdown import markdown
from tmlang.report.view import View, view_of


def reports(view: View) -> Iterator[tuple[str, str]]:
    """(name, text) of ``report.md`` and ``report.html``; raises TM510 for the second without the extra ``report``."""
    yield "report.md", markdown(view)
    try:
        from tmlang.report.page import page
    except ModuleNotFoundError as missing:
        raise stop(
            "TM510", f"report.html needs {missing.name}, which is not installed", help="pip install 'tmlang[report]'"
        ) from missing
    yield "report.html", page(view)


def write_into(bundle: Bundle) -> None:
    """Add the reports to a bundle that is being written: every other file must be in it."""
    for name, text in reports(view_of(bundle)):
        bundle.add_text(name, text)


def write_beside(bundle: Bundle, folder: Path) -> list[Path]:
    """Write the reports of a sealed bundle to ``folder``; gives their paths."""
    written = []
    for name, text in reports(view_of(bundle)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, text.encode("utf-8"))
        except OSError as error:
            raise stop("TM824", f"`{folder}` cannot be used: {error.strerror}") from error
        written.append(folder / name)
    return written
