"""Frozen values to JSON and back, and the JSON Schema, all three from one reading of the declared types.

* a dataclass is an object with its fields, those left out of comparison (positions) left out here too;
* where a type is a union, an object carries ``"is"``: the name of its class;
* a ``Fraction`` is a string, ``"8/255"`` or ``"3"``; a text is a string, and in a union that also holds numbers
  it is ``{"is": "text", "text": …}``;
* a tuple is a list.

Reading is strict: unknown, missing and wrongly typed fields are refused with their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Any, ForwardRef, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

from tmlang.meaning.spaces import Arithmetic
from tmlang.meaning.threats import Allowed, Subject
from tmlang.meaning.values import Value

Json = Any

FRACTION = r"^-?[0-9]+(/[1-9][0-9]*)?$"
_MAX_DIGITS = 2000


class FormError(ValueError):
    """JSON that has not the form of the type; the message names the place (``plan.evaluations[0].seed``)."""


def encode(value: object, kind: Any) -> Json:
    """``value``, declared as ``kind``, in JSON."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _encode_union(value, _members(kind))
    if origin is tuple:
        assert isinstance(value, tuple)
        return [encode(item, k) for item, k in zip(value, _items(kind, len(value)), strict=True)]
    if _is_record(kind):
        return {f.name: encode(getattr(value, f.name), k) for f, k in _fields(kind)}
    if kind is Fraction:
        return str(value)
    return value


def decode(json: Json, kind: Any, place: str) -> Any:
    """The value of type ``kind`` that ``json`` stands for. Raises :class:`FormError`."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decode_union(json, _members(kind), place)
    if origin is Literal:
        # `True == 1` would let a flag pass for a number.
        if not any(json == word and type(json) is type(word) for word in get_args(kind)):
            raise FormError(f"{place}: one of {', '.join(map(repr, get_args(kind)))} is needed")
        return json
    if origin is tuple:
        return _decode_tuple(json, kind, place)
    if _is_record(kind):
        return _decode_object(json, kind, place, ())
    if kind is Fraction:
        return _decode_fraction(json, place)
    if type(json) is not kind:
        raise FormError(f"{place}: {kind.__name__} is needed")
    return json


def schema(kind: Any) -> dict[str, Json]:
    """The JSON Schema (2020-12) of :func:`encode`'s output for ``kind``, its objects under ``$defs``."""
    definitions: dict[str, Json] = {}
    top = _schema(kind, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def _is_record(kind: Any) -> TypeGuard[type]:
    return isinstance(kind, type) and is_dataclass(kind)


@cache
def _fields(kind: type) -> tuple[tuple[Field[Any], Any], ...]:
    hints = get_type_hints(kind)
    return tuple((f, hints[f.name]) for f in fields(kind) if f.compare)


@cache
def _members(kind: Any) -> tuple[Any, ...]:
    """The members of a union; the one forward reference among them (a value may be a tuple of values) resolved."""
    return tuple(tuple[Value, ...] if isinstance(k, ForwardRef) else k for k in get_args(kind))


def _items(kind: Any, length: int) -> Sequence[Any]:
    args = get_args(kind)
    return [args[0]] * length if args[-1] is Ellipsis else args


def _tagged(members: tuple[Any, ...]) -> bool:
    """Whether objects say their class: when more than one could stand here, or a text beside a number."""
    return len([m for m in members if m is not NoneType]) > 1


def _text_tagged(members: tuple[Any, ...]) -> bool:
    return Fraction in members and str in members


def _encode_union(value: object, members: tuple[Any, ...]) -> Json:
    member = _member_of(value, members)
    if member is str and _text_tagged(members):
        return {"is": "text", "text": value}
    json = encode(value, member)
    return {"is": member.__name__, **json} if _is_record(member) and _tagged(members) else json


def _member_of(value: object, members: tuple[Any, ...]) -> Any:
    for member in members:
        bare = get_origin(member) or member
        if bare is Literal:
            if value in get_args(member):
                return member
        elif type(value) is bare or (value is None and member is NoneType):
            return member
    raise TypeError(f"{value!r} is none of {members}")


def _decode_union(json: Json, members: tuple[Any, ...], place: str) -> Any:
    if json is None and NoneType in members:
        return None
    classes = {m.__name__: m for m in members if _is_record(m)}
    if isinstance(json, dict) and _tagged(members):
        name = json.get("is")
        if name == "text" and _text_tagged(members):
            if json.keys() != {"is", "text"} or not isinstance(json["text"], str):
                raise FormError(f"{place}: a text is {{is, text}}")
            return json["text"]
        if not isinstance(name, str) or name not in classes:
            raise FormError(f"{place}: `is` must be one of {', '.join(classes)}")
        return _decode_object(json, classes[name], place, ("is",))
    for member in members:
        if _could_be(json, member, members):
            return decode(json, member, place)
    raise FormError(f"{place}: nothing of this kind can stand here")


def _could_be(json: Json, member: Any, members: tuple[Any, ...]) -> bool:
    bare = get_origin(member) or member
    if isinstance(json, bool) or bare is bool:
        return isinstance(json, bool) and bare is bool
    if isinstance(json, list):
        return bare is tuple
    if isinstance(json, dict):
        return _is_record(bare)
    if isinstance(json, str):
        return bare is Literal or bare is Fraction or (bare is str and not _text_tagged(members))
    return isinstance(json, int) and bare is int


def _decode_tuple(json: Json, kind: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(json, list):
        raise FormError(f"{place}: a list is needed")
    kinds = _items(kind, len(json))
    if len(kinds) != len(json):
        raise FormError(f"{place}: {len(kinds)} entries are needed")
    return tuple(decode(item, k, f"{place}[{i}]") for i, (item, k) in enumerate(zip(json, kinds, strict=True)))


def _decode_object(json: Json, kind: type, place: str, besides: tuple[str, ...]) -> Any:
    if not isinstance(json, dict):
        raise FormError(f"{place}: an object is needed")
    known = _fields(kind)
    names = {f.name for f, _ in known}
    if strange := json.keys() - names - set(besides):
        raise FormError(f"{place}: {', '.join(sorted(strange))} is not known here")
    if missing := names - json.keys():
        raise FormError(f"{place}: {', '.join(sorted(missing))} must be there")
    values = {f.name: decode(json[f.name], k, f"{place}.{f.name}") for f, k in known}
    return kind(**values)


def _decode_fraction(json: Json, place: str) -> Fraction:
    if not isinstance(json, str) or len(json) > _MAX_DIGITS or not re.match(FRACTION, json):
        raise FormError(f'{place}: a number is a string like "8/255"')
    value = Fraction(json)
    if str(value) != json:
        raise FormError(f"{place}: {json} is not in lowest terms")
    return value


def _schema(kind: Any, definitions: dict[str, Json]) -> dict[str, Json]:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _schema_union(_members(kind), definitions)
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin is tuple:
        args = get_args(kind)
        if args[-1] is Ellipsis:
            return {"type": "array", "items": _schema(args[0], definitions)}
        items = [_schema(k, definitions) for k in args]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if _is_record(kind):
        return _reference(kind, False, definitions)
    if kind is Fraction:
        return {"type": "string", "pattern": FRACTION}
    return {"type": {str: "string", int: "integer", bool: "boolean", NoneType: "null", float: "number"}[kind]}


def _schema_union(members: tuple[Any, ...], definitions: dict[str, Json]) -> dict[str, Json]:
    """Unions with a name stand in the definitions, since they contain themselves."""
    name = {_members(kind): name for name, kind in _NAMED.items()}.get(members)
    if name is None:
        return _any_of(members, definitions)
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _any_of(members, definitions)
    return {"$ref": f"#/$defs/{name}"}


_NAMED = {"Value": Value, "Allowed": Allowed, "Subject": Subject, "Arithmetic": Arithmetic}


def _any_of(members: tuple[Any, ...], definitions: dict[str, Json]) -> dict[str, Json]:
    def one(member: Any) -> dict[str, Json]:
        if member is str and _text_tagged(members):
            text = {"is": {"const": "text"}, "text": {"type": "string"}}
            return {"type": "object", "properties": text, "required": ["is", "text"], "additionalProperties": False}
        if _is_record(member) and _tagged(members):
            return _reference(member, True, definitions)
        return _schema(member, definitions)

    return {"anyOf": [one(member) for member in members]}


def _reference(kind: type, tagged: bool, definitions: dict[str, Json]) -> dict[str, Json]:
    name = f"{kind.__name__}.tagged" if tagged else kind.__name__
    if name not in definitions:
        definitions[name] = {}  # breaks the recursion of a type that contains itself
        properties: Mapping[str, Json] = {
            **({"is": {"const": kind.__name__}} if tagged else {}),
            **{f.name: _schema(k, definitions) for f, k in _fields(kind)},
        }
        definitions[name] = {
            "type": "object",
            "description": (kind.__doc__ or "").strip(),
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}
