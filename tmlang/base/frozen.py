"""``@dataclass(frozen=True, slots=True)`` without its price.

The standard decorator compiles seven methods per class, some 0.6 ms each time; a hundred classes would spend half of
the time in which ``tmc check`` has to answer. This one is the same to its users and to a type checker (``fields``,
``replace``, ``is_dataclass`` work), with methods that all classes share, and no slots.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, field
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass", "field"]


def _init(self: Any, *args: Any, **named: Any) -> None:
    cls = type(self)
    fields: dict[str, Field[Any]] = cls.__dataclass_fields__
    put = self.__dict__
    if len(args) > len(fields):
        raise TypeError(f"{cls.__name__} takes {len(fields)} values, not {len(args)}")
    put.update(zip(fields, args, strict=False))
    for name, value in named.items():
        if name in put or name not in fields:
            raise TypeError(f"{cls.__name__} has no field {name}, or got it twice")
        put[name] = value
    if len(put) < len(fields):
        for name, one in fields.items():
            if name not in put:
                put[name] = _default(cls, name, one)
    after = getattr(cls, "__post_init__", None)
    if after is not None:
        after(self)


def _default(cls: type, name: str, one: Field[Any]) -> Any:
    if one.default is not MISSING:
        return one.default
    if one.default_factory is not MISSING:
        return one.default_factory()
    raise TypeError(f"{cls.__name__} needs {name}")


def _compared(self: Any) -> tuple[Any, ...]:
    put = self.__dict__
    return tuple(put[name] for name in type(self)._compared_fields)


def _eq(self: Any, other: object) -> bool:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash((type(self).__name__, _compared(self)))


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


def _frozen(self: Any, name: str, *_: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"{type(self).__name__}.{name} is frozen")


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, slots: bool, eq: bool = True):
        """The decorator; ``frozen`` and ``slots`` must be true, as in all of tmlang's values."""
        assert frozen
        assert slots

        def decorate(cls: type) -> type:
            cls.__doc__ = cls.__doc__ or cls.__name__  # else the signature is worked out for one
            cls = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
            cls.__init__ = _init
            cls.__repr__ = _repr
            cls.__setattr__ = _frozen
            cls.__delattr__ = _frozen
            if eq:
                cls._compared_fields = tuple(n for n, f in cls.__dataclass_fields__.items() if f.compare)
                cls.__eq__ = _eq
                cls.__hash__ = _hash
            return cls

        return decorate
