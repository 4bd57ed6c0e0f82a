"""Names: what a file declares, where a name leads, and what has been made of each declaration so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import Source, Span
from tmlang.diagnostics.model import Diagnostic, Edit, Fix, Label
from tmlang.diagnostics.suggest import did_you_mean, nearest
from tmlang.meaning.values import Value
from tmlang.syntax import ast

if TYPE_CHECKING:
    from tmlang.semantics.models import KnownModel

Kind = Literal["let", "param", "space", "model", "data", "threat", "property", "shift", "suite", "evaluation"]

KINDS: dict[type[ast.Declaration], Kind] = {
    ast.Let: "let",
    ast.Param: "param",
    ast.Space: "space",
    ast.Model: "model",
    ast.Data: "data",
    ast.Threat: "threat",
    ast.Property: "property",
    ast.Shift: "shift",
    ast.Suite: "suite",
    ast.Evaluate: "evaluation",
}

NOUNS: dict[Kind, str] = {
    "let": "value",
    "param": "parameter",
    "space": "space",
    "model": "model",
    "data": "data declaration",
    "threat": "threat",
    "property": "property",
    "shift": "shift",
    "suite": "suite",
    "evaluation": "evaluation",
}

_DEPTH = 60
"""Definitions that may stand inside one another before they are written in another order."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """One loaded file. ``table`` holds its declarations and what it imports, under the names used in it; ``unclear``
    the names that were refused where they are introduced, so that their uses are not reported again."""

    source: Source
    tree: ast.Module
    stem: str
    sha256: str
    is_main: bool
    is_std: bool
    table: dict[str, Entry] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One named declaration, in the file that declares it."""

    kind: Kind
    name: str
    node: Any
    file: File

    @property
    def name_span(self) -> Span:
        span: Span = self.node.name.span
        return span


Bound = Union[Value, Entry]


@dataclass(frozen=True, slots=True)
class Env:
    """Where names are looked up: the parameters of the instance at hand, then the file.

    A parameter bound to ``None`` has no known value (a threat checked by itself, or a value that was refused
    already): whatever depends on it is left alone. ``model`` is the attacked model where there is one, and ``moved``
    the cells of its space that the attacker may move, where that is known: lengths of steps are over these.
    """

    file: File
    bound: Mapping[str, Bound] = field(default_factory=dict)
    model: KnownModel | None = None
    moved: tuple[int, ...] | None = None

    def about(self, model: KnownModel | None, moved: Iterable[int] | None = None) -> Env:
        return replace(self, model=model, moved=None if moved is None else tuple(moved))


class World:
    """One reading of a program: the diagnostics found, and every declaration made sense of at most once.

    ``overrides`` gives params other values than the written ones (one point of a curve, ``--set``). ``files`` holds
    every file by name.
    """

    def __init__(
        self,
        overrides: Mapping[Entry, Value],
        diagnostics: list[Diagnostic],
        names: ProgramNames,
        files: Mapping[str, File],
    ) -> None:
        self.overrides = overrides
        self.diagnostics = diagnostics
        self.names = names
        self.files = files
        self.made: dict[object, Any] = {}
        self._making: list[object] = []

    def at(self, overrides: Mapping[Entry, Value]) -> World:
        """The same program at other values of some params; diagnostics and names are shared."""
        return World({**self.overrides, **overrides}, self.diagnostics, self.names, self.files)

    def report(
        self,
        code: str,
        message: str,
        where: ast.Node | Span,
        *,
        labels: tuple[Label, ...] = (),
        notes: tuple[str, ...] = (),
        help: str | None = None,
        fix: Fix | None = None,
    ) -> None:
        span = where if isinstance(where, Span) else where.span
        self.diagnostics.append(Diagnostic(code, message, span, labels, notes, help, fix))

    def text_of(self, node: ast.Node) -> str:
        """The text of the file that a node stands in."""
        return self.files[node.span.file].source.text

    def said(self, node: ast.Node) -> str:
        """What is written at a node, blanks joined."""
        return " ".join(self.text_of(node)[node.span.start : node.span.end].split())

    def once(self, key: object, name: ast.Name, make: Callable[[], T]) -> T | None:
        """What ``make`` makes of ``key``, made the first time only; ``None`` inside its own making (a circle)."""
        if key in self.made:
            made: T | None = self.made[key]
            return made
        if key in self._making or len(self._making) > _DEPTH:
            why = "refers to itself" if key in self._making else "leads through too many others"
            self.report("TM115", f"the definition of {name.text} {why}", name)
            return None
        self._making.append(key)
        try:
            self.made[key] = make()
        finally:
            self._making.pop()
        return self.made[key]  # type: ignore[no-any-return]

    def find(self, env: Env, name: ast.Name, *kinds: Kind) -> Entry | None:
        """The declaration that ``name`` stands for, of one of ``kinds``; reports and gives ``None`` otherwise."""
        known = name.text in env.bound or name.text in env.file.unclear
        found: Bound = env.bound.get(name.text) if known else env.file.table.get(name.text)
        if found is None:
            if not known:
                self.unknown("TM101", name, NOUNS[kinds[0]], self._names_of(env, kinds))
            return None
        if not isinstance(found, Entry):
            self.report("TM103", f"{name.text} is a value here, and a {NOUNS[kinds[0]]} is needed", name)
            return None
        if found.kind not in kinds:
            self._wrong_kind(env, name, found, kinds)
            return None
        return found

    def unknown(self, code: str, name: ast.Name, noun: str, known: list[str], owner: str = "") -> None:
        """Report that no ``noun`` is called ``name``, with the nearest of ``known`` and a fix if it is alone."""
        close = nearest(name.text, known)
        tail = did_you_mean(name.text, known)
        if tail is None and known:
            tail = (
                f"there {'is' if len(known) == 1 else 'are'} {', '.join(known[:12])}{' …' if len(known) > 12 else ''}"
            )
        message = f"{owner} has no {noun} {name.text}" if owner else f"no {noun} is called {name.text}"
        fix = Fix(f"write {close[0]}", (Edit(name.span, close[0]),)) if len(close) == 1 else None
        self.report(code, f"{message}; {tail}" if tail else message, name, fix=fix)

    def _names_of(self, env: Env, kinds: tuple[Kind, ...]) -> list[str]:
        bound = [n for n, b in env.bound.items() if not isinstance(b, Entry) or b.kind in kinds]
        return [n for n, e in env.file.table.items() if e.kind in kinds] + bound

    def _wrong_kind(self, env: Env, name: ast.Name, found: Entry, kinds: tuple[Kind, ...]) -> None:
        known = self._names_of(env, kinds)
        self.report(
            "TM103",
            f"{name.text} is a {NOUNS[found.kind]}, and a {NOUNS[kinds[0]]} is needed here",
            name,
            labels=(Label(found.name_span, f"{name.text} is declared here"),),
            help=f"declared: {', '.join(known)}" if known else None,
        )


class ProgramNames:
    """A name for every declaration that is unique in the whole program: its own, or ``module.name`` where two files
    declare the same one. The main file's come first and keep theirs."""

    def __init__(self, main: File) -> None:
        self._owner: dict[str, object] = {e.name: e for e in main.table.values() if e.file is main}
        self._name: dict[object, str] = {e: n for n, e in self._owner.items()}

    def of(self, entry: Entry) -> str:
        if entry not in self._name:
            name = entry.name if entry.name not in self._owner else f"{entry.file.stem}.{entry.name}"
            while name in self._owner:
                name += "'"
            self._owner[name] = entry
            self._name[entry] = name
        return self._name[entry]
