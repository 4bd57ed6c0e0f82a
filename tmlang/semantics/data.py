"""Data: which examples, from which file, with whose labels (LANGUAGE.md section 5)."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from tmlang.base.frozen import dataclass
from tmlang.diagnostics.suggest import did_you_mean
from tmlang.meaning.models import Data, Step, Take, Truth
from tmlang.meaning.spaces import Space
from tmlang.meaning.values import Artifact, Call
from tmlang.semantics import clauses, flow, models, published, steps, values
from tmlang.semantics.builtins import READERS, ReaderRow
from tmlang.semantics.decisions import class_named
from tmlang.semantics.flow import Flow
from tmlang.semantics.scope import Entry, Env, World
from tmlang.semantics.spaces import doc, space
from tmlang.semantics.values import show
from tmlang.syntax import ast

NEEDED = {
    "read": "which file the examples come from",
    "take": "which of them (all, first N, every N, ids …)",
    "truth": "whose labels they have (published, reviewed, predicted by)",
}


@dataclass(frozen=True, slots=True)
class KnownData:
    """Checked data; ``classes`` is the number of classes where the reader fixes it, ``exact`` the number of examples
    where the spec alone shows it. ``standardized``: the ``normalize`` of ``prepare:`` that nothing behind it takes
    back."""

    meaning: Data
    space: Space
    classes: int | None
    exact: int | None
    labels: tuple[ast.Name | ast.Number, ...]
    standardized: Step | None = None


def data(world: World, env: Env, name: ast.Name) -> KnownData | None:
    """The data that ``name`` stands for."""
    entry = world.find(env, name, "data")
    return data_of(world, entry) if entry else None


def data_of(world: World, entry: Entry) -> KnownData | None:
    """The checked data of a declaration."""
    return world.once(entry, entry.node.name, lambda: _data(world, entry))


def _data(world: World, entry: Entry) -> KnownData | None:
    node, env = cast(ast.Data, entry.node), Env(entry.file)
    where = space(world, env, node.space)
    found = clauses.once_each(world, node)
    complete = clauses.require(world, "TM702", node.name, found, NEEDED)
    read = _read(world, env, cast(ast.Call, found["read"].value)) if "read" in found else None
    start = _start(read[1], read[2]) if read else Flow(node.name.text)
    prepared = _prepare(world, env, found.get("prepare"), start)
    undone = _undo(world, env, node, where)
    takes = [_take(world, env, cast(ast.Take, c.value)) for c in node.all("take")]
    truth = _truth(world, env, cast(ast.Truth, found["truth"].value)) if "truth" in found else None
    lands = True
    if prepared is not None and where is not None and read is not None and not undone:
        lands = _lands_in(world, node, where, prepared[1], found)
    if not complete or where is None or read is None or prepared is None or undone is None or truth is None:
        return None
    if None in takes:
        return None
    sampling = cast(ast.String, found["sampling"].value).value if "sampling" in found else None
    kept = tuple(t for t in takes if t is not None)
    made = Data(
        world.names.of(entry),
        where.name,
        read[0],
        read[2],
        kept,
        truth,
        prepared[0],
        undone,
        sampling,
        doc(node),
        node.name.span,
    )
    labels = tuple(t.label for c in node.all("take") if (t := cast(ast.Take, c.value)).label is not None)
    exact = kept[0].count if len(kept) == 1 and kept[0].kind in ("first", "sample") else None
    standardized = _standardized(*prepared) if lands else None
    return KnownData(made, where, read[1].classes, exact, labels, standardized)


def _standardized(steps_: tuple[Step, ...], at: Flow) -> Step | None:
    """The last ``normalize`` of ``prepare:``, where its numbers are what is handed over."""
    found = [s for s in steps_ if s.name == "normalize"]
    return found[-1] if found and at.normalized is not None else None


def _read(world: World, env: Env, call: ast.Call) -> tuple[Call, ReaderRow, Artifact] | None:
    """The reader with its arguments, its row, and the file it opens."""
    row = READERS.get(call.path.text)
    if row is None:
        tail = did_you_mean(call.path.text, READERS) or f"there are {', '.join(READERS)}"
        world.report("TM706", f"nothing reads {call.path.text}; {tail}", call.path)
        return None
    files = [a.value for a in call.args if a.name is None]
    named = {a.name.text: a for a in call.args if a.name}
    ok = True
    if call.path.text == "as_published" and len(files) == 1:
        row = published.row_of(world, env, files[0], named) or row
    if len(files) != 1 or not isinstance(files[0], ast.String):
        world.report("TM706", f'{call.path.text} reads one file: {call.path.text}("…")', call.path)
        ok = False
    for name, arg in named.items():
        if name not in row.arguments:
            tail = did_you_mean(name, row.arguments) or f"it takes {', '.join(row.arguments)}"
            world.report("TM706", f"{call.path.text} has no argument {name}; {tail}", arg.name or arg)
            ok = False
    missing = [r for r in row.required if r not in named]
    if missing:
        world.report("TM706", f"{call.path.text} needs {', '.join(f'{m}:' for m in missing)}", call.path)
        ok = False
    if not ok:
        return None
    digest = named["sha256"].value if "sha256" in named else None
    artifact = values.artifact(world, cast(ast.String, files[0]), digest)
    for name in row.files:
        if name in named and not _side_file(world, named[name].value, named.get(f"{name}_sha256")):
            return None
    made = values.call(world, env, call)
    if call.path.text == "as_published" and not published.told(world, made, named):
        return None
    return (made, row, artifact) if artifact and None not in dict(made.args).values() else None


def _side_file(world: World, node: ast.Value, sha256: ast.Arg | None) -> bool:
    """Whether a further file of a reader lies in the folder of the spec, with a hash that is one; reported if not."""
    if not isinstance(node, ast.String):
        world.report("TM706", "the name of a file is needed here", node)
        return False
    return values.artifact(world, node, sha256.value if sha256 else None) is not None


def _start(row: ReaderRow, file: Artifact) -> Flow:
    """What a reader hands to ``prepare:`` as far as it is known."""
    byte_range = ((Fraction(0), Fraction(255)),) if row.bytes else None
    axis = None if row.shape is None else 0 if row.shape[0] == 1 else 2
    order = "rgb" if row.picture else None
    return Flow(file.path, row.shape, axis, (), (), order, byte_range)


def _prepare(world: World, env: Env, clause: ast.Clause | None, start: Flow) -> tuple[tuple[Step, ...], Flow] | None:
    made: list[Step] = []
    at = start
    ok = True
    for node in cast(ast.Prepare, clause.value).steps if clause else ():
        written = steps.read(world, env, node, "prepare")
        if written is None:
            ok = False
            continue
        made.append(written.step)
        at = flow.through(world, at, written)
    return (tuple(made), at) if ok else None


def _undo(world: World, env: Env, node: ast.Data, where: Space | None) -> tuple[Step, ...] | None:
    """``undo: normalize(…)``: the file holds standardized values; the inverse is applied when it is read."""
    made: list[Step] = []
    at = flow.of_space(where) if where else Flow(node.space.text)
    for clause in node.all("undo"):
        written = steps.read(world, env, cast(ast.Step, clause.value), "prepare")
        if written is None:
            return None
        if written.step.name not in ("normalize", "scale", "subtract", "add", "permute", "channels", "minmax"):
            world.report("TM314", f"{written.step.name} cannot be undone exactly", written.call.path)
            return None
        at = flow.through(world, at, written)
        made.append(written.step)
    return tuple(made)


def _lands_in(world: World, node: ast.Data, where: Space, at: Flow, found: dict[str, ast.Clause]) -> bool:
    """What ``prepare:`` hands over lies in the space, as far as both are known. Whether it is not standardized in a
    space that cannot hold such numbers."""
    place = found["prepare"].word if "prepare" in found else node.space
    if at.normalized is not None:
        help = "the attacker hands in pictures, not standardized numbers: make it a step: of the model"
        message = f"what prepare: hands over is standardized, and {where.name} is not"
        if _outside(where, at) or (at.ranges is None and all(c.low >= 0 for c in where.cells)):
            world.report("TM707", message, at.normalized, help=help)
            return False
    if at.ranges is not None and _outside(where, at):
        low, high = min(a for a, _ in at.ranges), max(b for _, b in at.ranges)
        box = f"[{show(where.cells[0].low)}, {show(where.cells[0].high)}]"
        smaller = "add scale(1/255) to prepare:" if high == 255 and where.cells[0].high == 1 else None
        shown = f"[{show(low)}, {show(high)}]"
        world.report("TM707", f"the examples lie in {shown}, and {where.name} is {box}", place, help=smaller)
    elif at.ranges is not None and _shrunk(where, at):
        high = max(b for _, b in at.ranges)
        message = f"the examples reach only {show(high)}, and {where.name} goes up to {show(where.cells[0].high)}"
        world.report("TM707", message, place, help="scale(1/255) is too much here")
    if at.shape is not None and at.shape != where.shape:
        turn = None
        if sorted(at.shape) == sorted(where.shape) and len(at.shape) == 3:
            source, target = ("hwc", "chw") if at.axis == 2 else ("chw", "hwc")
            turn = f"add permute({source}, {target}) to prepare:"
        message = f"the examples have the shape {at.shape}, and {where.name} has {where.shape}"
        world.report("TM316", message, place, help=turn)
    if at.order and where.order and at.order != where.order:
        message = f"the examples come as {at.order}, and {where.name} is {where.order}"
        world.report("TM306", message, place, help=f"add channels({where.order}) to prepare:")
    return True


def _outside(where: Space, at: Flow) -> bool:
    """Whether some example may lie outside the domain (a range that is known is a range that is used)."""
    low, high = min(c.low for c in where.cells), max(c.high for c in where.cells)
    return at.ranges is not None and any(a < low or b > high for a, b in at.ranges)


def _shrunk(where: Space, at: Flow) -> bool:
    high = max(c.high for c in where.cells)
    return at.ranges is not None and high > 0 and max(b for _, b in at.ranges) * 50 < high


def _take(world: World, env: Env, node: ast.Take) -> Take | None:
    count = seed = None
    if node.count is not None:
        count = values.whole(world, env, node.count, least=1, code="TM704", what="a number of examples")
        if count is None:
            return None
    if node.kind == "sample":
        if node.seed is None:
            world.report("TM704", "a sample is drawn with a seed", node, help="take: sample 500 seed 0")
            return None
        seed = values.whole(world, env, node.seed, least=0, what="a seed")
        if seed is None:
            return None
    file = _file(world, node.file) if node.file else None
    if node.file is not None and file is None:
        return None
    model = None
    if node.model is not None:
        # Only the name: the model that selects need not be the attacked one, and is checked where it is declared.
        entry = world.find(env, node.model, "model")
        if entry is None:
            return None
        models.model_of(world, entry)
        model = world.names.of(entry)
    kind = {"where": "where_label", "correct": "correct_under"}.get(node.kind, node.kind)
    label = node.label.text if node.label is not None else None
    return Take(kind, count, seed, file, label, model)  # type: ignore[arg-type]


def _truth(world: World, env: Env, node: ast.Truth) -> Truth | None:
    if node.kind == "published":
        return Truth("published", node.text.value if node.text else None)
    if node.kind == "reviewed":
        file = _file(world, node.file) if node.file else None
        return Truth("reviewed", None, file) if file else None
    entry = world.find(env, node.model, "model") if node.model else None
    return Truth("predicted", None, None, world.names.of(entry)) if entry else None


def _file(world: World, node: ast.File) -> Artifact | None:
    return values.artifact(world, node.path, node.sha256)


def check_against(world: World, known: KnownData, model: models.KnownModel, at: ast.Name) -> None:
    """Data that attack a model lie in its space and have its classes."""
    if known.space.name != model.space.name:
        message = f"{at.text} lies in {known.space.name}, and {model.meaning.name} takes {model.space.name}"
        world.report("TM416", message, at)
        return
    if known.classes is not None and known.classes != len(model.meaning.classes):
        reader = known.meaning.read.name
        message = f"{reader} has {known.classes} classes, and {model.meaning.name} has {len(model.meaning.classes)}"
        world.report("TM310", message, at)
    for label in known.labels:
        class_named(world, label, model.meaning.classes)
