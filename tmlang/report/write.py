"""Writes the report of a bundle, into it before it is sealed or beside it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tmlang.audit.bundle import Bundle
from tmlang.base.files import write_atomically
from tmlang.diagnostics.stop import stop
from tmlang.report.claims import claims_json, judged
from tmlang.report.compare import Comparison, compare
from tmlang.report.markdown import comparison_markdown, markdown
from tmlang.report.paper import paper_macros
from tmlang.report.pdf import pdf
from tmlang.report.structured import structured
from tmlang.report.view import View, view_of

Shown = View | Comparison


def _text(shown: Shown) -> bytes:
    return (markdown(shown) if isinstance(shown, View) else comparison_markdown(shown)).encode("utf-8")


def html(shown: Shown) -> str:
    """The page; raises TM510 without the extra ``report``."""
    try:
        from tmlang.report.page import comparison_page, page
    except ModuleNotFoundError as missing:
        raise stop(
            "TM510", f"report.html needs {missing.name}, which is not installed", help="pip install 'tmlang[report]'"
        ) from missing
    return page(shown) if isinstance(shown, View) else comparison_page(shown)


FORMATS: Mapping[str, Callable[[Shown], bytes]] = {
    "md": _text,
    "html": lambda shown: html(shown).encode("utf-8"),
    "json": structured,
    "pdf": lambda shown: pdf(html(shown)),
}
"""Ending of the file -> its bytes."""

OF_ONE: Mapping[str, tuple[str, Callable[[Bundle, str], bytes]]] = {
    "tex": ("report.tex", lambda bundle, name: paper_macros(bundle, name).encode("ascii")),
    "claims": ("claims.json", lambda bundle, _: claims_json(judged(bundle))),
}
"""Format of one bundle alone -> its file, and its bytes under the name that a paper gives the bundle."""

DEFAULT = ("md", "html")


def write_into(bundle: Bundle) -> None:
    """Add the reports to a bundle that is being written: every other file must be in it."""
    for name, data in _reports(view_of(bundle), "report", DEFAULT):
        bundle.add_bytes(name, data)


def write_beside(
    bundles: Sequence[Bundle], folder: Path, formats: Sequence[str] = DEFAULT, *, name: str = ""
) -> list[Path]:
    """Write the report of a sealed bundle, or the comparison of several, to ``folder``; gives the paths.

    ``name``: what a paper calls the bundle, for ``tex``.
    """
    written = []
    for file, data in _asked(bundles, formats, name):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / file, data)
        except OSError as error:
            raise stop("TM824", f"`{folder}` cannot be used: {error.strerror}") from error
        written.append(folder / file)
    return written


def _asked(bundles: Sequence[Bundle], formats: Sequence[str], name: str) -> Iterator[tuple[str, bytes]]:
    for bundle in bundles:
        for file, made in (OF_ONE[f] for f in formats if f in OF_ONE):
            yield file, made(bundle, name)
    if pages := [f for f in formats if f in FORMATS]:
        shown: Shown = view_of(bundles[0]) if len(bundles) == 1 else compare(bundles)
        yield from _reports(shown, "report" if len(bundles) == 1 else "comparison", pages)


def _reports(shown: Shown, name: str, formats: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for ending in formats:
        yield f"{name}.{ending}", FORMATS[ending](shown)
