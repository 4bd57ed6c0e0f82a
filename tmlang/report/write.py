"""Writes the report of a bundle, into it before it is sealed or beside it afterwards."""

from __future__ import annotations

import platform
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from tmlang.audit.bundle import CRATE, Bundle
from tmlang.base.files import write_atomically
from tmlang.base.source import NOWHERE
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.stop import stop
from tmlang.meaning.values import Call
from tmlang.report.claims import claims_json, judged
from tmlang.report.compare import Comparison, compare
from tmlang.report.crate import crate
from tmlang.report.croissant import croissant
from tmlang.report.markdown import comparison_markdown, markdown
from tmlang.report.material import materials
from tmlang.report.paper import paper_macros
from tmlang.report.pdf import pdf
from tmlang.report.robustbench import entries
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
    "robustbench": ("robustbench.json", lambda bundle, _: entries(bundle)),
}
"""Format of one bundle alone -> its file, and its bytes under the name that a paper gives the bundle."""

DEFAULT = ("md", "html")


def tools() -> dict[str, str]:
    """What the bytes of pages and pictures depend on besides tmlang itself, by version; without what is not here."""
    found = {"machine": platform.machine(), "zlib": zlib.ZLIB_RUNTIME_VERSION}
    for name in ("jinja2", "matplotlib", "numpy"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def rendered(bundle: Bundle, formats: Sequence[str] = DEFAULT) -> dict[str, bytes]:
    """The reports of a bundle, and the figures that its spec asks for, by name: the same bytes whenever they are made
    with the same :func:`tools`. Raises TM510 where one is missing."""
    return dict(_files(_drawn(bundle, "spec"), "report", formats))


def write_into(bundle: Bundle) -> tuple[Diagnostic, ...]:
    """Add the reports, and the figures that the spec asks for, to a bundle that is being written: every other file must
    be in it. Gives the figures that could not be drawn (TM831)."""
    view = _drawn(bundle, "spec")
    for name, data in _files(view, "report", DEFAULT):
        bundle.add_bytes(name, data)
    return _faults(view)


def _faults(view: View) -> tuple[Diagnostic, ...]:
    failed = [d for d in view.drawings if d.fault]
    return tuple(Diagnostic("TM831", f"{d.name} of {d.evaluation}: {d.refused}", NOWHERE) for d in failed)


def described(bundle: Bundle) -> Iterator[tuple[str, bytes]]:
    """The descriptions of a bundle for other tools, in order: each tells of all files before it."""
    yield "croissant.json", croissant(bundle)
    yield CRATE, crate(bundle)


def write_descriptions(bundle: Bundle) -> None:
    """Add the descriptions, the last files before the statement."""
    for name, data in described(bundle):
        bundle.add_bytes(name, data)


def write_beside(
    bundles: Sequence[Bundle], folder: Path, formats: Sequence[str] = DEFAULT, *, name: str = "", figures: str = "spec"
) -> list[Path]:
    """Write the report of a sealed bundle, or the comparison of several, to ``folder``; gives the paths.

    ``name``: what a paper calls the bundle, for ``tex``. ``figures`` of one bundle: ``spec`` (those that its spec
    names), ``all`` that fit, or names between commas.
    """
    written = []
    for file, data in _asked(bundles, formats, name, figures):
        try:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / file, data)
        except OSError as error:
            raise stop("TM824", f"`{folder}` cannot be used: {error.strerror}") from error
        written.append(folder / file)
    return written


def _asked(bundles: Sequence[Bundle], formats: Sequence[str], name: str, figures: str) -> Iterator[tuple[str, bytes]]:
    for bundle in bundles:
        for file, made in (OF_ONE[f] for f in formats if f in OF_ONE):
            yield file, made(bundle, name)
    if pages := [f for f in formats if f in FORMATS]:
        if len(bundles) == 1:
            yield from _files(_drawn(bundles[0], figures), "report", pages)
        else:
            yield from _files(compare(bundles), "comparison", pages)


def _files(shown: Shown, name: str, formats: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for ending in formats:
        yield f"{name}.{ending}", FORMATS[ending](shown)
    for d in shown.drawings if isinstance(shown, View) else ():
        if not d.refused:
            yield f"{d.file}.svg", d.svg
            yield f"{d.file}.png", d.png


def _drawn(bundle: Bundle, figures: str) -> View:
    """The view with its figures; matplotlib is loaded only where there are any. Raises TM510 without it."""
    view, asked = view_of(bundle), bundle.plan().figures
    if figures == "spec" and not asked:
        return view
    try:
        from tmlang.report.figures import all_that_fit, drawings
    except ModuleNotFoundError as missing:
        help = "pip install 'tmlang[report]'"
        raise stop("TM510", f"figures need {missing.name}, which is not installed", help=help) from missing
    of = tuple(materials(bundle, view))
    if figures == "all":
        return replace(view, drawings=tuple(all_that_fit(of)))
    calls = asked if figures == "spec" else [Call((name,)) for name in figures.split(",")]
    return replace(view, drawings=tuple(drawings(calls, of)))
