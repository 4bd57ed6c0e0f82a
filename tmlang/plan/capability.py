"""Manifests: what every backend method can carry, read as data (``tmlang/backends/*.toml``), never by importing it.

The form is described at the top of ``torchattacks.toml``. Only the files of the backends that a spec names are read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

from tmlang.base.frozen import dataclass
from tmlang.plan.formula import FormulaError, variables

Role = Literal["attack", "certify", "decide_exactly", "enumerate", "corrupt"]
Carried = Literal["exact", "inner", "outer"]
ArgumentType = Literal["int", "number", "bool", "symbol", "distance", "duration", "network", "file", "text"]

ROLES = get_args(Role)
EVIDENCE = ("witness", "bound", "complete", "estimate")
ACCESS = ("nothing", "decisions", "scores", "white_box")
"""From the least to the most."""
NORMS = ("linf", "l2", "l2_rms", "l1", "l0", "pixels_changed", "metric", "patch", "transform", "anything")
GOALS = ("untargeted", "targeted")
OBJECTS = ("fixed", "random", "smoothed")
THROUGH = ("straight_through", "expectation")
NETWORKS = ("torch", "torchscript", "exported", "onnx", "sklearn", "linear", "remote")
FEATURES = (
    "domain",
    "mask",
    "one_way",
    "radii",
    "tolerance",
    "lattice",
    "relations",
    "delivery",
    "union",
    "intersection",
    "rejection",
    "universal",
    "nature",
    "property",
    "minimize",
)
"""What a set, a goal or an object may ask for beside its norm."""

_MANIFESTS = Path(__file__).resolve().parent.parent / "backends"


class ManifestError(ValueError):
    """A manifest that does not have the form it must have; the message names the file and the key."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not: ``not_built`` (we have not), ``library`` (it cannot) or ``impossible`` (nobody could)."""

    by: Literal["not_built", "library", "impossible"]
    because: str


@dataclass(frozen=True, slots=True)
class InputForm:
    """What inputs must look like beyond numbers. An empty ``channels`` and ``min_side`` 0 ask for nothing."""

    bytes: bool = False
    picture: bool = False
    square: bool = False
    channels: tuple[int, ...] = ()
    min_side: int = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a method.

    ``default`` is as it would be written; that of a distance is a formula over the arguments before it, in widths of
    the domain or, when it names ``radius``, in radii of the ball.
    """

    name: str
    type: ArgumentType
    meaning: str
    default: str | None = None
    optional: bool = False
    low: Fraction | None = None
    high: Fraction | None = None
    choices: tuple[str, ...] = ()
    min_classes: Mapping[str, int] = field(default_factory=dict)
    """Choice (or ``"<choice> targeted"``) -> the fewest classes that it is defined for."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of a manifest; the keys are those of the file, ``class`` being ``implementation``."""

    backend: str
    name: str
    title: str
    source: str
    role: Role
    evidence: Literal["witness", "bound", "complete", "estimate"]
    access: Literal["nothing", "decisions", "scores", "white_box"]
    status: Literal["available", "described"] = "available"
    implementation: str = ""
    symbol: str = ""
    aliases: tuple[str, ...] = ()
    norms: tuple[str, ...] = ()
    minimizes: tuple[str, ...] = ()
    minimal: bool = False
    goals: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    min_classes: int = 2
    networks: tuple[str, ...] = NETWORKS
    input: InputForm = InputForm()
    rows: Literal["whole", "subset", "expanded", "single"] = "whole"
    batch_dependent: bool = False
    draws: Literal["none", "torch", "numpy", "seeded"] = "none"
    seed_argument: str | None = None
    radius_argument: str | None = None
    norm_argument: str | None = None
    norm_names: Mapping[str, str] = field(default_factory=dict)
    budget_arguments: tuple[str, ...] = ()
    run_arguments: Mapping[str, str] = field(default_factory=dict)
    carries: Mapping[str, Carried] = field(default_factory=dict)
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    cost: Mapping[str, str] = field(default_factory=dict)
    reach: tuple[str, ...] = ()
    """How far its steps lead together, over the arguments and ``radius``; the first with all its arguments counts."""
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"{self.backend}.{self.name}"


@dataclass(frozen=True, slots=True)
class Backend:
    """One manifest. ``module`` is what must be importable for it to run, ``extra`` what to install."""

    name: str
    library: str
    version: str
    module: str
    extra: str
    methods: Mapping[str, Method]

    def method(self, name: str) -> Method | None:
        """The method of this name or alias."""
        return self.methods.get(name) or next((m for m in self.methods.values() if name in m.aliases), None)


class Capabilities:
    """The manifests of one folder, each read when it is first asked for."""

    def __init__(self, folder: Path = _MANIFESTS) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.toml"))}
        self._read: dict[str, Backend] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._files)

    def backend(self, name: str) -> Backend | None:
        """The backend, or ``None`` when there is no such manifest. Raises :class:`ManifestError`."""
        if name not in self._read:
            path = self._files.get(name)
            if path is None:
                return None
            self._read[name] = read_manifest(path.read_text(encoding="utf-8"), path.name)
        return self._read[name]

    def methods(self) -> Iterator[Method]:
        """Every method of every backend (reads all manifests)."""
        for name in self.names:
            backend = self.backend(name)
            assert backend is not None
            yield from backend.methods.values()


def read_manifest(text: str, file: str) -> Backend:
    """The backend that ``text`` (TOML) describes. Raises :class:`ManifestError` for anything unknown or missing."""
    try:
        raw = tomllib.loads(text, parse_float=Fraction)
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(f"{file}: {error}") from error
    _only(raw, {"backend", "defaults", "method"}, file)
    head = raw.get("backend", {})
    _only(head, {"name", "library", "version", "import", "extra"}, f"{file} [backend]")
    if head.get("name") != Path(file).stem:
        raise ManifestError(f"{file}: [backend] name must be the name of the file")
    defaults = raw.get("defaults", {})
    methods = {
        name: _method(head["name"], name, _merged(defaults, row), f"{file} [method.{name}]")
        for name, row in raw.get("method", {}).items()
    }
    try:
        module, library, version, extra = (head[key] for key in ("import", "library", "version", "extra"))
    except KeyError as missing:
        raise ManifestError(f"{file}: [backend] has no {missing}") from None
    return Backend(head["name"], library, version, module, extra, methods)


def _merged(defaults: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **row}
    merged.setdefault("arguments", {})
    for table in ("carries", "refused"):
        merged[table] = {**defaults.get(table, {}), **row.get(table, {})}
    # A row that says what it carries or searches takes back what the defaults refuse, and the other way round.
    said = {*row.get("carries", {}), *row.get("norms", ()), *row.get("goals", ()), *row.get("objects", ())}
    merged["refused"] = {k: v for k, v in merged["refused"].items() if k in row.get("refused", {}) or k not in said}
    merged["carries"] = {k: v for k, v in merged["carries"].items() if k not in row.get("refused", {})}
    return merged


_LISTS: dict[str, tuple[str, ...] | None] = {
    "aliases": None,
    "norms": NORMS,
    "minimizes": NORMS,
    "goals": GOALS,
    "objects": OBJECTS,
    "through": THROUGH,
    "networks": NETWORKS,
    "budget_arguments": None,
    "reach": None,
}
_WORDS: dict[str, tuple[str, ...]] = {
    "role": ROLES,
    "evidence": EVIDENCE,
    "access": ACCESS,
    "status": ("available", "described"),
    "rows": ("whole", "subset", "expanded", "single"),
    "draws": ("none", "torch", "numpy", "seeded"),
}
_SCALARS: dict[str, type] = {
    **dict.fromkeys(("title", "source", "implementation", "symbol"), str),
    **dict.fromkeys(("seed_argument", "radius_argument", "norm_argument"), str),
    "minimal": bool,
    "batch_dependent": bool,
    "min_classes": int,
}
_TEXT_TABLES = ("norm_names", "run_arguments", "cost")
_REFUSABLE = {*FEATURES, *NORMS, *GOALS, *OBJECTS, *THROUGH, *NETWORKS}


def _method(backend: str, name: str, row: dict[str, Any], where: str) -> Method:
    row["implementation"] = row.pop("class", "")
    _only(row, {f.name for f in fields(Method)} - {"backend", "name"}, where)
    missing = {"title", "source", "role", "evidence", "access"} - row.keys()
    if missing:
        raise ManifestError(f"{where}: {', '.join(sorted(missing))} must be written")
    for key, value in row.items():
        row[key] = _entry(key, value, where)
    names: set[str] = set()
    for argument in row["arguments"].values():
        if argument.type == "distance" and argument.default is not None:
            _formula(argument.default, {*names, "radius"}, f"{where} argument {argument.name}")
        names.add(argument.name)
    _only(row.get("cost", {}), {"forward", "backward"}, f"{where} cost")
    for formula in row.get("cost", {}).values():
        _formula(formula, names, where)
    for formula in row.get("reach", ()):
        _formula(formula, {*names, "radius"}, where)
    if row.get("status", "available") == "available" and ":" not in row["implementation"]:
        raise ManifestError(f"{where}: an available method names its class as module:Class")
    return Method(backend=backend, name=name, **row)


def _entry(key: str, value: Any, where: str) -> Any:
    """The value of one key of a method, checked and in its final form."""
    if key in _WORDS:
        if value not in _WORDS[key]:
            raise ManifestError(f"{where}: {key} is {value!r}, not one of {', '.join(_WORDS[key])}")
        return value
    if key in _LISTS:
        return _words(value, _LISTS[key], f"{where} {key}")
    if key in _SCALARS:
        if type(value) is not _SCALARS[key]:
            raise ManifestError(f"{where}: {key} is no {_SCALARS[key].__name__}")
        return value
    if not isinstance(value, dict):
        raise ManifestError(f"{where}: {key} is a table")
    if key == "input":
        return _input(value, f"{where} input")
    if key == "carries":
        return _table(value, FEATURES, get_args(Carried), f"{where} carries")
    if key == "refused":
        return {name: _refusal(row, name, where) for name, row in value.items()}
    if key == "arguments":
        return {name: _argument(name, row, where) for name, row in value.items()}
    assert key in _TEXT_TABLES
    if not all(isinstance(text, str) for text in value.values()):
        raise ManifestError(f"{where}: {key} holds texts")
    return value


def _input(row: Mapping[str, Any], where: str) -> InputForm:
    _only(row, {f.name for f in fields(InputForm)}, where)
    kinds = {"channels": list, "min_side": int}
    for key, value in row.items():
        if type(value) is not kinds.get(key, bool):
            raise ManifestError(f"{where}: {key} is no {kinds.get(key, bool).__name__}")
    return InputForm(**{**row, "channels": tuple(row.get("channels", ()))})


def _argument(name: str, row: Mapping[str, Any], where: str) -> Argument:
    where = f"{where} argument {name}"
    _only(row, {f.name for f in fields(Argument)} - {"name"}, where)
    if row.get("type") not in get_args(ArgumentType):
        raise ManifestError(f"{where}: type is {row.get('type')!r}, not one of {', '.join(get_args(ArgumentType))}")
    if not row.get("meaning"):
        raise ManifestError(f"{where}: it has no meaning")
    if not isinstance(row.get("default", ""), str):
        raise ManifestError(f"{where}: the default is a text, as it would be written in a spec")
    choices = _words(row.get("choices", []), None, where)
    if (row["type"] == "symbol") != bool(choices):
        raise ManifestError(f'{where}: choices and type = "symbol" belong together')
    return Argument(
        name=name,
        type=row["type"],
        meaning=row["meaning"],
        default=row.get("default"),
        optional=bool(row.get("optional", False)),
        low=None if row.get("low") is None else Fraction(row["low"]),
        high=None if row.get("high") is None else Fraction(row["high"]),
        choices=choices,
        min_classes=dict(row.get("min_classes", {})),
    )


def _refusal(row: Mapping[str, Any], key: str, where: str) -> Refusal:
    where = f"{where} refused.{key}"
    if key not in _REFUSABLE:
        raise ManifestError(f"{where}: nothing of that name can be refused")
    if set(row) != {"by", "because"} or row["by"] not in ("not_built", "library", "impossible"):
        raise ManifestError(f"{where}: it needs by = not_built | library | impossible, and because")
    return Refusal(row["by"], row["because"])


def _formula(text: str, names: set[str], where: str) -> None:
    try:
        unknown = variables(text) - names
    except FormulaError as error:
        raise ManifestError(f"{where}: {error}") from error
    if unknown:
        raise ManifestError(f"{where}: the formula `{text}` uses {', '.join(sorted(unknown))}, which is no argument")


def _words(value: Any, allowed: tuple[str, ...] | None, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ManifestError(f"{where}: a list of words is needed")
    strange = [word for word in value if allowed is not None and word not in allowed]
    if strange:
        raise ManifestError(f"{where}: {', '.join(strange)} is not one of {', '.join(allowed or ())}")
    return tuple(value)


def _table(value: Any, keys: tuple[str, ...], words: tuple[str, ...], where: str) -> dict[str, Any]:
    _only(value, set(keys), where)
    for key, word in value.items():
        if word not in words:
            raise ManifestError(f"{where}: {key} is {word!r}, not one of {', '.join(words)}")
    return dict(value)


def _only(row: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = set(row) - known
    if unknown:
        raise ManifestError(f"{where}: {', '.join(sorted(unknown))} is not known here")
