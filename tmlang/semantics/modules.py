"""``use``: the files of a program, each read and parsed once, with the hash of its bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tmlang.base.resources import resource
from tmlang.base.source import Source, Span
from tmlang.diagnostics.model import Diagnostic, Edit, Fix, Label
from tmlang.diagnostics.suggest import did_you_mean, nearest
from tmlang.semantics.scope import KINDS, NOUNS, Entry, File
from tmlang.semantics.values import inside
from tmlang.syntax import ast, parse

_MOST_FILES = 200
_MOST_BYTES = 4_000_000


class Loader:
    """Reads a main file and all that it uses. ``files`` are those that could be read, the main one first."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self.diagnostics = diagnostics
        self.files: list[File] = []
        self._by_key: dict[str, File | None] = {}
        self._open: list[str] = []
        self._folder = Path()

    def main(self, source: Source) -> File | None:
        """The main file; ``None`` if it is no tree at all. Imported files are below its folder."""
        self._folder = _folder_of(source.name)
        key = str(_resolved(Path(source.name)))
        return self._load(source, key, Path(source.name).stem, is_main=True, is_std=False)

    def _load(self, source: Source, key: str, stem: str, *, is_main: bool, is_std: bool) -> File | None:
        parsed = parse(source)
        self.diagnostics.extend(parsed.diagnostics)
        self._by_key[key] = None
        if parsed.tree is None:
            return None
        digest = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest()
        file = File(source, parsed.tree, stem, digest, is_main, is_std)
        self.files.append(file)
        self._by_key[key] = file
        self._open.append(key)
        self._declare(file)
        self._open.pop()
        return file

    def _report(self, code: str, message: str, span: Span, **more: object) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, **more))  # type: ignore[arg-type]

    def _declare(self, file: File) -> None:
        """Fill the table of a file: what it imports and what it declares, each name once."""
        for node in file.tree.declarations:
            if isinstance(node, ast.Use):
                self._use(file, node)
                continue
            kind = KINDS.get(type(node))
            if kind is not None:
                name: ast.Name = node.name  # type: ignore[attr-defined]
                self._enter(file, name, Entry(kind, name.text, node, file))

    def _enter(self, file: File, name: ast.Name, entry: Entry) -> None:
        earlier = file.table.get(name.text)
        if earlier is None:
            file.table[name.text] = entry
        elif earlier is not entry:
            where = Label(earlier.name_span, "the first one") if earlier.file is file else None
            what = f"{name.text} is a {NOUNS[earlier.kind]} already"
            self._report("TM102", what, name.span, labels=(where,) if where else ())
            file.unclear.add(name.text)

    def _use(self, file: File, node: ast.Use) -> None:
        target = self._std(node.module) if isinstance(node.module, ast.Path) else self._local(file, node.module)
        if target is None:
            file.unclear.update(n.text for n in node.names)
            return
        if not node.names:
            self._report("TM105", "say which names are used: use … (a, b)", node.span)
        for name in node.names:
            entry = target.table.get(name.text)
            if entry is not None and entry.file is target:
                self._enter(file, name, entry)
                continue
            own = [n for n, e in target.table.items() if e.file is target]
            close = nearest(name.text, own)
            tail = did_you_mean(name.text, own) or f"it declares {', '.join(own[:12])}{' …' if len(own) > 12 else ''}"
            fix = Fix(f"write {close[0]}", (Edit(name.span, close[0]),)) if len(close) == 1 else None
            file.unclear.add(name.text)
            self._report("TM105", f"{target.source.name} declares no {name.text}; {tail}", name.span, fix=fix)

    def _std(self, node: ast.Path) -> File | None:
        """``std.images`` is ``images.tm`` of the standard library."""
        parts = [p.text for p in node.parts]
        folder = resource("stdlib")
        known = [f"std.{p.stem}" for p in sorted(folder.glob("*.tm"))]
        if node.text not in known:
            tail = did_you_mean(node.text, known) or f"there are {', '.join(known)}"
            close = nearest(node.text, known)
            fix = Fix(f"write {close[0]}", (Edit(node.span, close[0]),)) if len(close) == 1 else None
            self._report("TM104", f"there is no module {node.text}; {tail}", node.span, fix=fix)
            return None
        return self._read(folder / f"{parts[1]}.tm", node.text, node.span, is_std=True)

    def _local(self, file: File, node: ast.String) -> File | None:
        """A file beside the one that uses it, in or below the folder of the main spec."""
        span = inside(node.span)
        path = Path(file.source.name).parent / node.value
        if file.is_std or not node.value or "\x00" in node.value or Path(node.value).is_absolute():
            self._report("TM107", "a module is named by its place beside this file", span)
            return None
        if not _resolved(path).is_relative_to(self._folder):
            self._report("TM107", f"{node.value} lies outside the folder of the spec", span)
            return None
        if not path.is_file():
            beside = (
                sorted(str(p.relative_to(path.parent)) for p in path.parent.glob("*.tm"))
                if path.parent.is_dir()
                else []
            )
            tail = did_you_mean(Path(node.value).name, beside)
            close = nearest(Path(node.value).name, beside)
            new = str(Path(node.value).with_name(close[0])) if len(close) == 1 else None
            fix = Fix(f"write {new}", (Edit(span, new),)) if new else None
            message = f"there is no file {node.value} beside this one{'; ' + tail if tail else ''}"
            self._report("TM104", message, span, fix=fix)
            return None
        return self._read(path, str(path), span, is_std=False)

    def _read(self, path: Path, name: str, span: Span, *, is_std: bool) -> File | None:
        key = str(_resolved(path))
        if key in self._open:
            self._report("TM106", f"{path.name} uses this file, directly or through others", span)
            return None
        if key in self._by_key:
            return self._by_key[key]
        if len(self._by_key) >= _MOST_FILES:
            self._report("TM106", f"a spec is made of at most {_MOST_FILES} files", span)
            return None
        source = read_source(path, str(path) if not is_std else f"{name}", span, self.diagnostics)
        return self._load(source, key, path.stem, is_main=False, is_std=is_std) if source else None


def read_source(path: Path, name: str, span: Span, diagnostics: list[Diagnostic]) -> Source | None:
    """The text of a file, or a diagnostic at ``span`` saying why not."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        diagnostics.append(Diagnostic("TM104", f"{path} cannot be read: {reason.lower()}", span))
        return None
    if len(raw) > _MOST_BYTES:
        diagnostics.append(Diagnostic("TM008", f"{path} has more than {_MOST_BYTES} bytes", span))
        return None
    try:
        return Source(name, raw.decode("utf-8").removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 text: the byte at {error.start} does not decode"
        diagnostics.append(Diagnostic("TM011", message, span))
        return None


def _folder_of(name: str) -> Path:
    return _resolved(Path(name)).parent


def _resolved(path: Path) -> Path:
    """The real place of a path, symbolic links followed, whether or not it exists."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()
