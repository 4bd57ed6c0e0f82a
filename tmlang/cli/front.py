"""What several commands share: reading a spec up to its plan, options, and printing what was found."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tmlang import __version__
from tmlang.base.source import Source
from tmlang.diagnostics import render
from tmlang.diagnostics.model import Diagnostic, has_errors, in_order

if TYPE_CHECKING:
    from tmlang.meaning.evaluations import Program
    from tmlang.plan.ir import Plan

FORMATS = ("text", "concise", "json", "sarif")


@dataclass(frozen=True, slots=True)
class Front:
    """A spec as far as it could be understood. ``plan`` is there iff no diagnostic is an error."""

    path: str
    program: Program | None
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, Source]


def read_spec(path: str, settings: Mapping[str, str], text: str | None = None) -> Front:
    """Parse, check and match the spec at ``path`` (or ``text``, as if it stood there). Imports no library that a spec
    names."""
    from tmlang.plan import Capabilities, lower, match
    from tmlang.semantics import check

    checked = check(path if text is None else Source(path, text), settings=settings)
    if checked.program is None:
        matched = match(checked.sound, Capabilities()) if checked.sound else ()
        return Front(path, None, None, in_order([*checked.diagnostics, *matched]), checked.sources)
    folder = str(Path(path).parent)
    plan, matched = lower(checked.program, Capabilities(), root=folder, found=checked.diagnostics)
    found = in_order([*checked.diagnostics, *matched])
    return Front(path, checked.program, plan, found, checked.sources)


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


def read_sources(diagnostics: Sequence[Diagnostic]) -> dict[str, Source]:
    """The files that diagnostics point into, as far as they can be read: for what was found behind the checker."""
    found: dict[str, Source] = {}
    for name in dict.fromkeys(d.span.file for d in diagnostics if d.span.file):
        with suppress(OSError, ValueError):
            found[name] = Source(name, Path(name).read_text(encoding="utf-8"))
    return found


def exit_code(diagnostics: Sequence[Diagnostic]) -> int:
    """0 without errors (warnings do not count), else 1."""
    return int(has_errors(list(diagnostics)))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, for instance eps=4/255")
    return name.strip(), value.strip()
