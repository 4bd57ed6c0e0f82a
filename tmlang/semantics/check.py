"""From a file to a program that means one thing, or to diagnostics that say where it does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from tmlang.base.collecting import without_cycles
from tmlang.base.frozen import dataclass, field
from tmlang.base.source import Source, Span
from tmlang.diagnostics.model import Diagnostic, has_errors, in_order
from tmlang.diagnostics.suggest import did_you_mean
from tmlang.meaning.evaluations import Claim, Module, Parameter, Program
from tmlang.meaning.figures import FIGURES, Shown, bounds_outputs, refusal
from tmlang.meaning.spaces import Space
from tmlang.meaning.values import Call, Value
from tmlang.semantics import claims, data, evaluations, instances, models, properties, spaces, threats, values
from tmlang.semantics.modules import Loader, read_source
from tmlang.semantics.scope import Entry, Env, File, ProgramNames, World
from tmlang.semantics.sound import untouched
from tmlang.syntax import ast

_NUMBER = re.compile(r"-?\d{1,1100}(?:/\d{1,1100}|(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?)")
"""A fraction has room for what any decimal is: `tmc audit` sets a param to the value that a plan tells."""


@dataclass(frozen=True, slots=True)
class Checked:
    """``program`` is there iff no diagnostic is an error. ``sound`` is the program without claims and without the
    evaluations that an error touches, in them or in what they are of: what a matcher can look at in any case.
    ``sources`` holds the text of every file that was read."""

    program: Program | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, Source] = field(default_factory=dict)
    sound: Program | None = None


@without_cycles()
def check(what: str | Path | Source, *, settings: Mapping[str, str] | None = None) -> Checked:
    """Check a spec by path, or a text with its name; ``settings`` gives params other values (``--set eps=4/255``).

    Never raises for what the spec says, and opens no artifact that it names.
    """
    diagnostics: list[Diagnostic] = []
    source = what if isinstance(what, Source) else _opened(Path(what), diagnostics)
    if source is None:
        return Checked(None, in_order(diagnostics))
    loader = Loader(diagnostics)
    main = loader.main(source)
    sources = {f.source.name: f.source for f in loader.files} | {source.name: source}
    if main is None:
        return Checked(None, in_order(diagnostics), sources)
    names = ProgramNames(main)
    world = World({}, diagnostics, names, {f.source.name: f for f in loader.files})
    world = world.at(_settings(world, main, settings or {}))
    program = _Reading(world, main, loader.files).program()
    found = in_order(diagnostics)
    sound = untouched(program, [d.span for f in loader.files for d in f.tree.declarations], found)
    return Checked(None if has_errors(found) else program, found, sources, sound)


def _opened(path: Path, diagnostics: list[Diagnostic]) -> Source | None:
    return read_source(path, str(path), Span(str(path), 0, 0, 1, 1, 1, 1), diagnostics)


def _settings(world: World, main: File, settings: Mapping[str, str]) -> dict[Entry, Value]:
    """The params that ``--set`` changes; an unknown name, a value that is no number, or out of range is reported."""
    made: dict[Entry, Value] = {}
    params = {n: e for n, e in main.table.items() if e.kind == "param"}
    start = Span(main.source.name, 0, 0, 1, 1, 1, 1)
    for name, text in settings.items():
        entry = params.get(name)
        if entry is None:
            tail = did_you_mean(name, params) or (f"there are {', '.join(params)}" if params else "it declares none")
            world.report("TM108", f"{main.source.name} has no param {name} to set; {tail}", start)
            continue
        number = _number(text)
        if number is None:
            message = f"--set {name}={text}: this is no number such as 8/255, 0.5, 1e-3 or 45 %"
            world.report("TM221", message, entry.name_span)
        elif evaluations.in_range(world, entry, number, entry.node.name):
            made[entry] = number
    return made


def _number(text: str) -> Fraction | None:
    """``8/255``, ``0.5``, ``1e-3``, ``45 %``."""
    body = text.strip()
    percent = body.endswith("%")
    body = body.removesuffix("%").strip()
    if not _NUMBER.fullmatch(body) or re.fullmatch(r".*/0+", body):
        return None
    return Fraction(body) / 100 if percent else Fraction(body)


class _Reading:
    """The declarations of a program, made sense of in order."""

    def __init__(self, world: World, main: File, files: list[File]) -> None:
        self.world = world
        self.main = main
        self.files = files

    def program(self) -> Program:
        """The whole; complete only if nothing was reported."""
        claimed = self._declarations(self.main)
        reached = list(self.world.made.values())
        parameters = [p for e in self.main.table.values() if e.kind == "param" and (p := self._parameter(e))]
        figures = self._figures()
        for file in self.files:
            if not file.is_main and not file.is_std:
                self._declarations(file)
        return self._assembled(reached, claimed, parameters, figures)

    def _assembled(
        self, reached: list[Any], claimed: list[Claim], parameters: list[Parameter], figures: list[Call]
    ) -> Program:
        known_evaluations = [x for x in reached if isinstance(x, evaluations.KnownEvaluation)]
        subjects = {x.meaning.name: x.meaning for x in reached if isinstance(x, threats.KnownSubject)}
        for known in known_evaluations:
            subjects.update((p.meaning.name, p.meaning) for p in known.points)
        return Program(
            int(self.main.tree.edition.value),
            tuple(Module(f.source.name, f.sha256) for f in self.files),
            tuple(x for x in reached if isinstance(x, Space)),
            tuple(x.meaning for x in reached if isinstance(x, models.KnownModel)),
            tuple(x.meaning for x in reached if isinstance(x, data.KnownData)),
            tuple(subjects.values()),
            tuple(x.meaning for x in known_evaluations),
            tuple(claimed),
            tuple(parameters),
            tuple(figures),
        )

    def _declarations(self, file: File) -> list[Claim]:
        """Make sense of every declaration of a file; give its claims."""
        claimed: list[Claim] = []
        texts: dict[str, ast.Claim] = {}
        own = _entries(file)
        for node in file.tree.declarations:
            if isinstance(node, ast.Claim):
                made = claims.claim(self.world, Env(file), node)
                if node.text.value in texts:
                    self.world.report("TM102", f'two claims are called "{node.text.value}"', node.text)
                texts[node.text.value] = node
                claimed += [made] if made else []
            elif id(node) in own:
                self._declaration(own[id(node)])
        return claimed

    def _declaration(self, entry: Entry) -> None:
        world = self.world
        make: dict[str, Callable[[], object]] = {
            "let": lambda: values.defined(world, entry, entry.node.name),
            "param": lambda: self._param_fits(entry),
            "space": lambda: spaces.space_of(world, entry),
            "model": lambda: models.model_of(world, entry),
            "data": lambda: data.data_of(world, entry),
            "threat": lambda: self._with_parameters(entry),
            "property": lambda: properties.property_of(world, entry),
            "shift": lambda: self._with_parameters(entry),
            "suite": lambda: self._suite(entry),
            "evaluation": lambda: evaluations.evaluation_of(world, entry),
        }
        make[entry.kind]()

    def _with_parameters(self, entry: Entry) -> None:
        """A threat or shift is part of the program; one with parameters is checked by itself and left out."""
        bound = instances.unbound(entry)
        world = self.world
        if bound:
            world = world.at({})
            world.made.update(self.world.made)
        make = threats.threat_of if entry.kind == "threat" else properties.shift_of
        make(world, entry, bound, self.world.names.of(entry), entry.node.name)

    def _suite(self, entry: Entry) -> None:
        evaluations.spelled_out(self.world, Env(entry.file, instances.unbound(entry)), entry.node, (entry,))

    def _param_fits(self, entry: Entry) -> None:
        got = values.number(self.world, Env(entry.file), entry.node.value)
        if got is not None and entry not in self.world.overrides:
            evaluations.in_range(self.world, entry, got, entry.node.value)

    def _parameter(self, entry: Entry) -> Parameter | None:
        value = values.defined(self.world, entry, entry.node.name)
        if not isinstance(value, Fraction):
            return None
        written = cast("ast.Range | None", entry.node.range)
        env = Env(entry.file)
        ends = [values.number(self.world, env, e) for e in (written.low, written.high)] if written else [None, None]
        return Parameter(entry.name, value, ends[0], ends[1], entry in self.world.overrides)

    def _figures(self) -> list[Call]:
        made: list[Call] = []
        for node in self.main.tree.declarations:
            if isinstance(node, ast.Report):
                for clause in node.clauses:
                    calls = cast(ast.Figures, clause.value).calls
                    made += [self._figure(call) for call in calls]
        return made

    def _figure(self, call: ast.Call) -> Call:
        """A figure is of evaluations: each positional argument is the name of one that it can show."""
        name = call.path.text
        if name not in FIGURES:
            help = did_you_mean(name, FIGURES) or f"there are: {', '.join(FIGURES)}"
            self.world.report("TM101", f"there is no figure `{name}`", call.path, help=help)
        for arg in call.args:
            if arg.name is None and isinstance(arg.value, ast.Name):
                entry = self.world.find(Env(self.main), arg.value, "evaluation")
                known = evaluations.evaluation_of(self.world, entry) if entry else None
                if known is not None and name in FIGURES:
                    self._fits(name, known, arg.value)
        return values.call(self.world, Env(self.main), call)

    def _fits(self, name: str, known: evaluations.KnownEvaluation, at: ast.Name) -> None:
        """The evaluation can be shown by the figure, as far as the spec says."""
        made, model = known.meaning, known.subject.model
        roles = [s.role for s in made.stages]
        bounded = any(bounds_outputs(s.call.args) for s in made.stages)
        shown = Shown(made.name, known.subject.meaning, model.meaning, model.space, roles, bool(made.curves), bounded)
        why = refusal(name, shown)
        if why:
            self.world.report("TM419", f"{name} cannot show {made.name}: {why}", at, help=FIGURES[name].title)


def _entries(file: File) -> dict[int, Entry]:
    """The entries of a file's own declarations by the identity of their node (one that lost its name has none)."""
    return {id(e.node): e for e in file.table.values() if e.file is file}
