"""Hooks by name: ``@hook`` registers one, YAML finds it here. A file names a hook, it never imports one."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property, partial
from importlib import import_module
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, dataclass_transform, get_type_hints

from turnchart.hooks.builtin import BUILTIN
from turnchart.machine.bound import MARKS, BoundHook, Marks, bind, place_of, point_named
from turnchart.machine.errors import TurnchartError
from turnchart.machine.points import POINTS, OnError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    from turnchart.hooks.params import Meaning

T = TypeVar("T", bound=Callable[..., Any])


class ParamError(TurnchartError):
    """The ``with:`` of a hook or a session store does not fit its parameters.

    Attributes:
        hook: The name of the hook or the store.
        errors: As pydantic tells them; ``loc`` is the path inside ``with:``, empty for all of it.
    """

    def __init__(self, hook: str, errors: "list[ErrorDetails]", kind: str = "hook") -> None:
        self.hook = hook
        self.errors = errors
        told = [f"{'.'.join(str(part) for part in e['loc']) or 'with'}: {e['msg']}" for e in errors]
        super().__init__(f"{kind} `{hook}`: {'; '.join(told)}")


class Parameter(NamedTuple):
    """One ``with:`` parameter.

    Attributes:
        annotation: Its type, as pydantic reads it.
        default: What pydantic takes as the default; ``...`` where one must be given.
        meaning: What its value stands for; empty for a plain value.
    """

    name: str
    annotation: Any
    default: Any
    meaning: "Meaning"


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """A function or a class that YAML names, with its ``with:`` parameters.

    Attributes:
        doc: Its docstring.
        target: The function or the class.
        where: ``file:line`` of its code.
    """

    KIND: ClassVar[str] = "hook"
    """What it is, in words."""

    name: str
    doc: str
    target: Callable[..., Any]
    where: str

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its ``with:`` parameters, in the order of the code."""
        from turnchart.hooks.params import meaning_of  # pydantic is loaded on first use

        given = _parameters_of(self.target)
        hints = _hints(f"{self.KIND} `{self.name}`", self.target, given)
        return tuple(
            Parameter(name, hints[name], default, meaning_of(hints[name])) for name, default in given.items()
        )

    @cached_property
    def params(self) -> "type[BaseModel]":
        """The pydantic model of its parameters; unknown ones are refused."""
        import warnings

        from pydantic import ConfigDict, create_model

        config = ConfigDict(extra="forbid", protected_namespaces=())
        fields_: dict[str, Any] = {p.name: (p.annotation, p.default) for p in self.parameters}
        with warnings.catch_warnings():  # a parameter may be named as a method of BaseModel
            warnings.filterwarnings("ignore", "Field name .* shadows an attribute")
            return create_model(self.name, __config__=config, __doc__=self.doc, **fields_)

    def make(self, params: Mapping[str, Any]) -> Any:
        """Return the function with its parameters filled in, or an instance of the class.

        Raises:
            ParamError: If the parameters do not fit.
        """
        from pydantic import ValidationError

        try:
            values = vars(self.params.model_validate(dict(params)))
        except ValidationError as error:
            raise ParamError(self.name, error.errors(include_url=False), self.KIND) from error
        if not isinstance(self.target, type):
            return partial(self.target, **values)
        try:
            return self.target(**values)
        except ValueError as error:
            told: ErrorDetails = {"type": "value_error", "loc": (), "msg": str(error), "input": dict(params)}
            raise ParamError(self.name, [told], self.KIND) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class HookSpec(Spec):
    """A registered hook.

    Attributes:
        points: Where it runs.
        defaults: What the decorator said.
    """

    points: tuple[str, ...]
    defaults: Marks

    def bind(
        self,
        point: str,
        params: Mapping[str, Any],
        *,
        id: str | None = None,
        where: str | None = None,
        timeout: float | None = None,
        on_error: OnError | None = None,
        tools: Iterable[str] = (),
        max_continues: int | None = None,
    ) -> BoundHook:
        """Return the hook for one point, made anew.

        Raises:
            ParamError: If the parameters do not fit.
            TypeError: If it does not run there, or the point does not take one of the settings.
        """
        return bind(
            point,
            self.make(params),
            id=id or self.name,
            where=where,
            timeout=timeout,
            on_error=on_error,
            tools=tools,
            max_continues=max_continues,
        )

    def legs(
        self, params: Mapping[str, Any], *, id: str | None = None, where: str | None = None
    ) -> dict[str, BoundHook]:
        """Return the hook for all its points; the legs of a class share one instance.

        Raises:
            ParamError: If the parameters do not fit.
        """
        made = self.make(params)
        return {point: bind(point, made, id=id or self.name, where=where) for point in self.points}


class Registry:
    """Hooks by name. The built-in ones of ``HOOKS`` are imported when their name is first asked for."""

    def __init__(self, builtin: Iterable[str] = ()) -> None:
        self._builtin = tuple(builtin)
        self._specs: dict[str, HookSpec] = {}

    def get(self, name: str) -> HookSpec | None:
        """Return the hook with this name; None where there is none."""
        if name in self._builtin and name not in self._specs:
            import_module(_module(name))
        return self._specs.get(name)

    def names(self, point: str | None = None) -> tuple[str, ...]:
        """Return the names of all hooks, or of those that run on one point, sorted."""
        for name in self._builtin:
            self.get(name)
        return tuple(sorted(n for n, spec in self._specs.items() if point is None or point in spec.points))

    def add(self, target: Callable[..., Any], marks: Marks) -> HookSpec:
        """Register a function or a class, and leave the marks on it that ``bind`` reads.

        Raises:
            TypeError: If a point cannot call it.
            ValueError: If there is no such point, or the name is taken.
        """
        self._check_name(marks.name, target)
        legs = _legs(target, marks)
        if marks.on_error and not any(POINTS[point].on_error for point in marks.points):
            raise TypeError(f"hook `{marks.name}` cannot say on_error: none of its points takes it")
        setattr(target, MARKS, marks)
        spec = HookSpec(
            name=marks.name, doc=doc_of(target), target=target, where=place_of(legs[0]), points=marks.points,
            defaults=marks,
        )  # fmt: skip
        self._specs[marks.name] = spec
        return spec

    def _check_name(self, name: str, target: Callable[..., Any]) -> None:
        if name in self._builtin and target.__module__ != _module(name):
            raise ValueError(f"{name!r} is the name of a built-in hook; give yours another one")
        other = self._specs.get(name)
        if other and origin_of(other.target) != origin_of(target):
            raise ValueError(f"the hook name {name!r} is taken already ({other.where})")


HOOKS = Registry(BUILTIN)
"""The hooks that YAML can name: the built-in ones, and what was registered by importing its module."""


@dataclass_transform(kw_only_default=True, eq_default=False)
def hook(
    name: str,
    *,
    on: str | Iterable[str] = (),
    timeout: float | None = None,
    on_error: OnError | None = None,
    observes: bool = False,
    registry: Registry = HOOKS,
) -> Callable[[T], T]:
    """Register a function or a class as the hook ``name``; it is returned and can be used as before.

    The keyword-only parameters of a function, or the annotated fields of a class, are its ``with:``
    parameters; the docstring is what ``turnchart hook list`` shows. A class has a method per point, named as
    the point, and becomes a dataclass; it raises ValueError in ``__post_init__`` where parameters do not go
    together.

    Args:
        name: What YAML writes behind ``use:``.
        on: The points where it runs; of a class, those that it has methods for need no mention.
        timeout: In seconds; by default 30, and none for a hook that takes ``next``.
        on_error: Its default where an entry may write ``on_error``.
        observes: It runs after the others and can change or break nothing.
        registry: Where it is registered.

    Raises:
        TypeError: If a point cannot call it.
        ValueError: If there is no such point, or the name is taken.
    """
    points = (on,) if isinstance(on, str) else tuple(on)

    def register(target: T) -> T:
        make_dataclass(target)
        runs_on = points or tuple(point for point in POINTS if hasattr(target, point))
        registry.add(target, Marks(name, runs_on, timeout, on_error, observes))
        return target

    return register


def make_dataclass(target: object) -> None:
    """Make a dataclass of a class that is none: its annotated fields are its parameters."""
    if isinstance(target, type) and "__dataclass_fields__" not in vars(target):
        doc = target.__doc__
        dataclass(kw_only=True, eq=False)(target)
        target.__doc__ = doc  # dataclass writes one where there is none


def _module(name: str) -> str:
    return f"turnchart.hooks.builtin.{name}"


def doc_of(target: Callable[..., Any]) -> str:
    """Return the docstring of a function or a class; empty for none."""
    return "" if target.__doc__ is None else inspect.cleandoc(target.__doc__)


def origin_of(target: Callable[..., Any]) -> tuple[str, str]:
    """Return where a function or a class comes from: a module that is loaded again is no other one."""
    return target.__module__, target.__qualname__


def _legs(target: Callable[..., Any], marks: Marks) -> list[Callable[..., Any]]:
    """Return what the points call, after a check that they can."""
    if not marks.points:
        raise TypeError(f"hook `{marks.name}` runs nowhere: say on= one of {', '.join(POINTS)}")
    legs: list[Callable[..., Any]] = []
    for point in marks.points:
        point_named(point)
        if isinstance(target, type):
            method = getattr(target, point, None)
            if not callable(method):
                raise TypeError(f"hook `{marks.name}` runs on {point}, but has no method of that name")
            legs.append(MethodType(method, object()))
        else:
            legs.append(partial(target, **dict.fromkeys(function_parameters(target, f"hook `{marks.name}`"))))
        bind(point, legs[-1], id=marks.name, observes=marks.observes, timeout=marks.timeout)
    return legs


def function_parameters(target: Callable[..., Any], who: str) -> dict[str, Any]:
    """Return the ``with:`` parameters of a function, with their defaults as pydantic takes them.

    Raises:
        TypeError: If one that has a default is not keyword-only.
    """
    given = list(inspect.signature(target).parameters.values())
    wrong = [p.name for p in given[1:] if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is not p.empty]
    wrong += [f"**{p.name}" for p in given if p.kind is p.VAR_KEYWORD]
    if wrong:
        raise TypeError(
            f"{who} takes {', '.join(wrong)}: its with: parameters must be keyword-only,"
            " so write them behind a `*`"
        )
    return _parameters_of(target)


def _parameters_of(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the names of the ``with:`` parameters with their defaults, as pydantic takes them."""
    if not isinstance(target, type):
        given = inspect.signature(target).parameters.values()
        return {p.name: ... if p.default is p.empty else p.default for p in given if p.kind is p.KEYWORD_ONLY}
    return {field.name: _default(field) for field in fields(target) if field.init}


def _default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        from pydantic import Field

        return Field(default_factory=field.default_factory)
    return ... if field.default is MISSING else field.default


def _hints(who: str, target: Callable[..., Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the types of the parameters; not the payload's, which only checkers may be able to import."""
    written: dict[str, Any] = {}
    for owner in reversed(target.__mro__) if isinstance(target, type) else (target,):
        written |= inspect.get_annotations(owner)
    asked = SimpleNamespace(__annotations__={name: written.get(name, Any) for name in names})
    try:
        return get_type_hints(asked, vars(sys.modules[target.__module__]), include_extras=True)
    except NameError as error:
        raise TypeError(f"{who}: the type of a parameter cannot be found: {error}") from error
