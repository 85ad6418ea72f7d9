"""Frozen dataclasses with slots that are quick to define.

``dataclass`` compiles six methods for every class, which is most of what defining one takes. Here the method
that makes an object is written when the first one is made, and the others are the same functions for all.
"""

from collections.abc import Callable, Iterable
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass
from inspect import Signature, signature
from reprlib import recursive_repr
from typing import Any, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """Make a class what ``@dataclass(frozen=True, slots=True)`` makes of it."""
    return make(kind)


def make(kind: type[T], *, kw_only: bool = False) -> type[T]:
    """Do what ``record`` does; with ``kw_only`` all fields are given by name."""
    own = {name for name, value in vars(kind).items() if value is not None}
    made = _defined(kind, kw_only=kw_only)
    made.__signature__ = _Signature()
    made.__setattr__, made.__delattr__ = _refusing(made)
    if "__init__" not in own:
        made.__init__ = _unwritten(made)
    for name, method in _SHARED.items():
        if name not in own:
            setattr(made, name, method)
    return cast("type[T]", made)


def _defined(kind: type, *, kw_only: bool) -> Any:
    """Let ``dataclass`` look at the fields, and write nothing."""
    above: list[Any] = [cast(Any, base).__dataclass_params__ for base in kind.__mro__ if is_dataclass(base)]
    if not all(each.frozen for each in above):
        raise TypeError("cannot inherit frozen dataclass from a non-frozen one")
    for each in above:
        each.frozen = False  # else it would write for this class, too, what refuses assignments
    try:
        made = cast(Any, dataclass(init=False, repr=False, eq=False, kw_only=kw_only, slots=True)(kind))
    finally:
        for each in above:
            each.frozen = True
    made.__dataclass_params__.frozen = True
    return made


def _unwritten(made: Any) -> Callable[..., None]:
    """Return an ``__init__`` that the one of a dataclass takes the place of, when it is called."""

    def init(self: Any, *args: Any, **given: Any) -> None:
        _write(made)
        made.__init__(self, *args, **given)

    cast(Any, init).of = made
    return init


def _write(made: Any) -> None:
    # Without a text of its own it would get one with its signature, which takes long to find.
    named = {"__module__": made.__module__, "__qualname__": made.__qualname__, "__doc__": "A child."}
    child = type(made)(made.__name__, (made,), named)
    slots = not all(each.init for each in fields(made))  # then what is not given is set there, too
    made.__init__ = vars(dataclass(frozen=True, repr=False, eq=False, slots=slots)(child))["__init__"]


class _Signature:
    """What a record is made with, for ``help`` and consoles."""

    def __get__(self, made: object, kind: Any) -> Signature:
        if made is not None:
            raise AttributeError("what has been made is called with what its __call__ takes")
        if hasattr(kind.__init__, "of"):
            _write(kind.__init__.of)
        given = signature(kind.__init__)
        return given.replace(parameters=list(given.parameters.values())[1:])


def _refusing(made: Any) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return what assigns and deletes: a subclass may have further attributes, which are not frozen."""

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is made or name in self.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is made or name in self.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return assign, delete


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = [each.name for each in fields(self) if each.compare]
    return [getattr(self, name) for name in compared] == [getattr(other, name) for name in compared]


def _hash(self: Any) -> int:
    counted = [each.name for each in fields(self) if (each.compare if each.hash is None else each.hash)]
    return hash(tuple([getattr(self, name) for name in counted]))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: Iterable[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


_SHARED = {
    "__eq__": _equal, "__hash__": _hash, "__repr__": _repr, "__getstate__": _state, "__setstate__": _restore,
}  # fmt: skip
