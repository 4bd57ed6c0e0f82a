"""What several commands share: options, and printing what was found."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from tmlang import __version__
from tmlang.api.reading import Front, read_sources, read_spec
from tmlang.base.source import Source
from tmlang.diagnostics import render
from tmlang.diagnostics.model import Diagnostic, has_errors

__all__ = ["FORMATS", "Front", "add_format", "add_settings", "exit_code", "read_sources", "read_spec", "show"]
FORMATS = ("text", "concise", "json", "sarif")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """``--set k=v``, which may stand several times."""
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="NAME=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="give a `param` of the spec another value, within its range; the claims are then not judged",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """``--format`` of diagnostics."""
    parser.add_argument("--format", choices=FORMATS, default="text", help="how diagnostics are shown")


def show(
    diagnostics: Sequence[Diagnostic],
    sources: Mapping[str, Source],
    style: str = "text",
    *,
    to_stderr: bool = False,
) -> None:
    """Print diagnostics in one of :data:`FORMATS`; JSON and SARIF are printed also when there are none."""
    shown = {
        "text": lambda: render.text(diagnostics, sources),
        "concise": lambda: render.concise(diagnostics),
        "json": lambda: render.as_json(diagnostics),
        "sarif": lambda: render.sarif(diagnostics, __version__),
    }[style]()
    (sys.stderr if to_stderr else sys.stdout).write(shown)


def exit_code(diagnostics: Sequence[Diagnostic]) -> int:
    """0 without errors (warnings do not count), else 1."""
    return int(has_errors(list(diagnostics)))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, for instance eps=4/255")
    return name.strip(), value.strip()
