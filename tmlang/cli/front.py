"""What several commands share: reading a spec up to its plan, options, and printing what was found."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
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


def read_spec(path: str, settings: Mapping[str, str]) -> Front:
    """Parse, check and match the spec at ``path``. Imports no library that a spec names."""
    from tmlang.plan import Capabilities, lower
    from tmlang.semantics import check

    checked = check(path, settings=settings)
    if checked.program is None or has_errors(checked.diagnostics):
        return Front(path, checked.program, None, in_order(list(checked.diagnostics)))
    folder = str(Path(path).parent)
    plan, matched = lower(checked.program, Capabilities(), root=folder, found=checked.diagnostics)
    return Front(path, checked.program, plan, in_order([*checked.diagnostics, *matched]))


class Texts(Mapping[str, Source]):
    """The sources that diagnostics point into, each read when it is first shown."""

    def __init__(self) -> None:
        self._read: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        if name not in self._read:
            try:
                self._read[name] = Source(name, Path(name).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, ValueError):
                raise KeyError(name) from None
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


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


def show(diagnostics: Sequence[Diagnostic], style: str = "text", *, to_stderr: bool = False) -> None:
    """Print diagnostics in one of :data:`FORMATS`; JSON and SARIF are printed also when there are none."""
    shown = {
        "text": lambda: render.text(diagnostics, Texts()),
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
