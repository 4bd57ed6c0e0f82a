"""Frozen records that cost nothing to define.

``@dataclass(frozen=True, slots=True)`` compiles some 0.6 ms of methods per class; a tree of a hundred node types would
spend a third of the start-up budget of ``tmc check`` on that. A :class:`Record` behaves the same to its users and to
a type checker, with methods shared by all.
"""

from __future__ import annotations

from typing import Any, NoReturn, dataclass_transform


class _RecordType(type):
    _fields: tuple[str, ...]
    _said: tuple[str, ...]
    _defaults: dict[str, Any]

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _RecordType:
        own = namespace.get("__annotations__", {})
        defaults = {field: namespace.pop(field) for field in own if field in namespace}
        parent = bases[0] if bases and isinstance(bases[0], _RecordType) else None
        fields = (*(parent._fields if parent else ()), *own)
        cls = super().__new__(mcls, name, bases, {**namespace, "__slots__": tuple(own), "__match_args__": fields})
        cls._fields = fields
        cls._said = (*(parent._said if parent else ()), *(f for f, kind in own.items() if kind != "Span"))
        cls._defaults = {**(parent._defaults if parent else {}), **defaults}
        return cls


@dataclass_transform(frozen_default=True)
class Record(metaclass=_RecordType):
    """Base of frozen, slotted records: annotate fields in the class body, inherited ones come first.

    Equality and hash go by class and by all fields except those annotated ``Span``. The defining module needs
    ``from __future__ import annotations``.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        cls = type(self)
        fields = cls._fields
        values = dict(zip(fields, args, strict=False))
        if named or len(values) != len(fields) or len(args) != len(fields):
            if len(args) > len(fields) or values.keys() & named.keys() or named.keys() - set(fields):
                raise TypeError(f"{cls.__name__} takes {', '.join(fields)}")
            values = {**cls._defaults, **values, **named}
            if len(values) != len(fields):
                raise TypeError(f"{cls.__name__} needs {', '.join(f for f in fields if f not in values)}")
        put = object.__setattr__
        for field, value in values.items():
            put(self, field, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f) == getattr(other, f) for f in type(self)._said)

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(getattr(self, f) for f in type(self)._said)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{f}={getattr(self, f)!r}' for f in type(self)._said)})"
