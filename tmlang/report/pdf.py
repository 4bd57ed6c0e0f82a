"""``report.pdf``: the printed form of a page (the only module that imports weasyprint)."""

from __future__ import annotations

from tmlang.diagnostics.stop import stop


def pdf(html: str) -> bytes:
    """``html`` as PDF; nothing but the page's own pictures is read.

    Raises TM510 without the extra ``pdf``, or without the Pango library of the system that it draws text with.
    """
    try:
        from weasyprint import HTML
        from weasyprint.urls import URLFetcher
    except (ModuleNotFoundError, OSError) as missing:
        what = missing.name if isinstance(missing, ModuleNotFoundError) else "the system's Pango library"
        help = "pip install 'tmlang[pdf]'; on Debian, Pango is the package libpangoft2-1.0-0"
        raise stop("TM510", f"report.pdf needs {what}, which is not installed", help=help) from missing
    made: bytes = HTML(string=html, url_fetcher=URLFetcher(allowed_protocols=["data"])).write_pdf()
    return made
