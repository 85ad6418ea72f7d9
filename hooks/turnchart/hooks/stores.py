"""Session stores by name: ``@session_store`` registers one, YAML finds it here under ``session.store``."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar, cast, dataclass_transform

from turnchart.hooks.registry import Spec, doc_of, function_parameters, make_dataclass, origin_of
from turnchart.machine.bound import place_of
from turnchart.machine.errors import SessionError, TurnchartError
from turnchart.machine.stores import BUILTIN_STORES, Store

T = TypeVar("T", bound=Callable[..., Any])
V = TypeVar("V")

_NEEDED: Final = ("id", "where", "durability", "dropped", "load", "lock", "append", "flush", "close")
"""What a store has; see ``Store``."""


@dataclass(frozen=True, kw_only=True)
class StoreSpec(Spec):
    """A registered session store."""

    KIND: ClassVar[str] = "session store"

    def sessions(self, params: Mapping[str, Any]) -> "Sessions":
        """Return where it keeps sessions with these parameters; nothing is opened yet.

        Raises:
            ParamError: If the parameters do not fit.
        """
        return Sessions(self.name, self.make(params))


class Sessions:
    """The sessions of one store, as its author wrote it.

    Attributes:
        name: What the store is called.
    """

    def __init__(self, name: str, made: Any) -> None:
        self.name = name
        self._open: Callable[[str], Store] = getattr(made, "open", made)
        self._ids: Callable[[], Iterable[str]] | None = getattr(made, "ids", None)

    @property
    def listed(self) -> bool:
        """It can tell which sessions there are."""
        return self._ids is not None

    def open(self, id: str) -> Store:
        """Open the session with this id, which may be a new one.

        Raises:
            SessionError: If that fails, or what came back is no store.
        """
        store = self._tried(lambda: self._open(id))
        missing = [name for name in _NEEDED if not hasattr(store, name)]
        if missing:
            raise SessionError(
                f"the session store {self.name!r} opened a {type(store).__name__}, which is no store: it"
                f" lacks {', '.join(missing)}"
            )
        return store

    def ids(self) -> list[str]:
        """Return the ids of the sessions that there are, as the store sorts them.

        Raises:
            SessionError: If that fails, or the store cannot tell.
        """
        ids = self._ids
        if ids is None:
            raise SessionError(
                f"the session store {self.name!r} does not list its sessions: name one by its whole id, or"
                " write the store as a class with a method ids()"
            )
        return self._tried(lambda: list(ids()))

    def _tried(self, do: Callable[[], V]) -> V:
        try:
            return do()
        except TurnchartError:
            raise
        except Exception as error:
            raise SessionError(
                f"the session store {self.name!r} failed: {type(error).__name__}: {error}"
            ) from error


class StoreRegistry:
    """Session stores by name, beside the built-in ones."""

    def __init__(self) -> None:
        self._specs: dict[str, StoreSpec] = {}

    def get(self, name: str) -> StoreSpec | None:
        """Return the registered store with this name; None where there is none, and for built-in ones."""
        return self._specs.get(name)

    def names(self) -> tuple[str, ...]:
        """Return the names of all stores: the built-in ones, then the others, sorted."""
        return (*BUILTIN_STORES, *sorted(self._specs))

    def add(self, name: str, target: Callable[..., Any]) -> StoreSpec:
        """Register a function or a class.

        Raises:
            TypeError: If it cannot be called to open a session.
            ValueError: If the name is taken.
        """
        if name in BUILTIN_STORES:
            raise ValueError(f"{name!r} is the name of a built-in session store; give yours another one")
        other = self._specs.get(name)
        if other and origin_of(other.target) != origin_of(target):
            raise ValueError(f"the session store name {name!r} is taken already ({other.where})")
        leg = _opens(name, target)
        spec = StoreSpec(name=name, doc=doc_of(target), target=target, where=place_of(leg))
        self._specs[name] = spec
        return spec


STORES = StoreRegistry()
"""The session stores that YAML can name, besides the built-in ones."""


@dataclass_transform(kw_only_default=True, eq_default=False)
def session_store(name: str, *, registry: StoreRegistry = STORES) -> Callable[[T], T]:
    """Register a function or a class as the session store ``name``; it is returned and can be used as before.

    A function takes the id of a session and returns its ``Store``; a class has a method ``open(id)`` that
    does, and may have a method ``ids()`` that tells which sessions there are. The keyword-only parameters of
    the function, or the annotated fields of the class, are what YAML writes under ``session.with``.

        @session_store("folder")
        class Folder:
            path: str

            def open(self, id: str) -> Store: ...
            def ids(self) -> list[str]: ...

    Args:
        name: What YAML writes behind ``session.store``.
        registry: Where it is registered.

    Raises:
        TypeError: If it cannot be called to open a session.
        ValueError: If the name is taken.
    """

    def register(target: T) -> T:
        make_dataclass(target)
        registry.add(name, target)
        return target

    return register


def _opens(name: str, target: Callable[..., Any]) -> Callable[..., Any]:
    """Return what opens a session, after a check that it can."""
    import inspect

    who = f"session store `{name}`"
    opens = (
        cast("Callable[..., Any] | None", getattr(target, "open", None))
        if isinstance(target, type)
        else target
    )
    if not callable(opens):
        raise TypeError(f"{who} is a class without a method open(id), which returns the store of a session")
    if not isinstance(target, type):
        function_parameters(target, who)
    if not _takes_id(target, opens):
        raise TypeError(f"{who} must take one value, the id of a session")
    if inspect.iscoroutinefunction(opens):
        raise TypeError(f"{who} is async; a store is opened and written without waiting")
    return opens


def _takes_id(target: Callable[..., Any], opens: Callable[..., Any]) -> bool:
    """Tell whether an id is all that it takes to open; keyword-only parameters of a function are of YAML."""
    import inspect

    signature, given = inspect.signature(opens), ["id"]
    if not isinstance(target, type):
        named = [each for each in signature.parameters.values() if each.kind is not each.KEYWORD_ONLY]
        signature = signature.replace(parameters=named)
    elif inspect.isfunction(inspect.getattr_static(target, "open")):
        given = ["self", "id"]
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True
