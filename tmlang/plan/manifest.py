"""Reading a manifest: TOML of the form that is described at the top of ``torchattacks.toml``, and nothing beside it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from tmlang.plan.capability import (
    ACCESS,
    EVIDENCE,
    FEATURES,
    GOALS,
    NETWORKS,
    NORMS,
    OBJECTS,
    ROLES,
    THROUGH,
    Argument,
    ArgumentType,
    Backend,
    Carried,
    InputForm,
    Method,
    Refusal,
)
from tmlang.plan.formula import FormulaError, variables


class ManifestError(ValueError):
    """A manifest that does not have the form it must have; the message names the file and the key."""


_ROW = re.compile(r"^\[method\.([\w-]+)[.\]]", re.MULTILINE)


def read_manifest(text: str, file: str) -> Backend:
    """The backend that ``text`` (TOML) describes; each method is read when it is first asked for, since a spec names a
    few of many. Raises :class:`ManifestError`, as does asking for a method, for anything unknown or missing."""
    starts = [(match[1], match.start()) for match in _ROW.finditer(text)]
    ends = [start for _, start in starts[1:]] + [len(text)]
    rows: dict[str, str] = {}
    for (name, start), end in zip(starts, ends, strict=False):
        rows[name] = rows.get(name, "") + text[start:end]
    raw = _toml(text[: starts[0][1]] if starts else text, file)
    _only(raw, {"backend", "defaults", "not_offered"}, file)
    head = raw.get("backend", {})
    _only(head, {"name", "library", "version", "import", "extra", "install"}, f"{file} [backend]")
    if head.get("name") != Path(file).stem:
        raise ManifestError(f"{file}: [backend] name must be the name of the file")
    try:
        module, library, version, extra = (head[key] for key in ("import", "library", "version", "extra"))
    except KeyError as missing:
        raise ManifestError(f"{file}: [backend] has no {missing}") from None
    install = head.get("install", f"pip install 'tmlang[{extra}]'")
    methods = _Rows(head["name"], file, raw.get("defaults", {}), rows)
    not_offered = raw.get("not_offered", {})
    if not all(isinstance(why, str) for why in not_offered.values()) or set(not_offered) & set(methods):
        raise ManifestError(f"{file}: [not_offered] holds a reason for each name, and no method's name")
    return Backend(head["name"], library, version, module, extra, install, methods, not_offered)


class _Rows(Mapping[str, Method]):
    """The methods of a manifest by name, in its order."""

    def __init__(self, backend: str, file: str, defaults: Mapping[str, Any], rows: Mapping[str, str]) -> None:
        self.backend, self.file, self.defaults, self.rows = backend, file, defaults, rows
        self._made: dict[str, Method] = {}

    def __getitem__(self, name: str) -> Method:
        if name not in self._made:
            raw = _toml(self.rows[name], self.file)
            for table in sorted({"backend", "defaults", "not_offered"} & raw.keys()):
                raise ManifestError(
                    f"{self.file}: [{table}] stands behind [method.{name}]; it belongs before all methods"
                )
            _only(raw, {"method"}, self.file)
            where = f"{self.file} [method.{name}]"
            self._made[name] = _method(self.backend, name, _merged(self.defaults, raw["method"][name]), where)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=Fraction)
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(f"{file}: {error}") from error


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
    "steps": None,
    "parts": None,
    "cautions": None,
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
    carries = row.get("carries", {})
    row["carries_in"] = {norm: carries[norm] for norm in NORMS if norm in carries}
    row["carries"] = {key: how for key, how in carries.items() if key not in NORMS}
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
    if key == "carries_in":
        return {
            norm: _table(row, FEATURES, get_args(Carried), f"{where} carries.{norm}") for norm, row in value.items()
        }
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
    not_built = _words(row.get("not_built", []), choices, where)
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
        not_built=not_built,
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
    if not isinstance(value, dict):
        raise ManifestError(f"{where} is a table")
    _only(value, set(keys), where)
    for key, word in value.items():
        if word not in words:
            raise ManifestError(f"{where}: {key} is {word!r}, not one of {', '.join(words)}")
    return dict(value)


def _only(row: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = set(row) - known
    if unknown:
        raise ManifestError(f"{where}: {', '.join(sorted(unknown))} is not known here")
