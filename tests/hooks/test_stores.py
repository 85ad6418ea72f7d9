"""Session stores by name: what may be registered, and what they are asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnchart.hooks import StoreSpec, session_store
from turnchart.hooks.registry import ParamError
from turnchart.hooks.stores import STORES, Sessions, StoreRegistry
from turnchart.machine.errors import SessionError
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.stores import BUILTIN_STORES, MemoryStore, Store
from turnchart.testing import check_store


@pytest.fixture(name="registry")
def _registry() -> StoreRegistry:
    """A registry with a store as a function and one as a class."""
    registry = StoreRegistry()

    @session_store("plain", registry=registry)
    def plain(id: str, *, folder: str, suffix: str = "jsonl") -> Store:  # pyright: ignore[reportUnusedFunction]  # registered
        """Keep them in a folder."""
        return JsonlStore(Path(folder) / f"{id}.{suffix}", id=id)

    @session_store("shelf", registry=registry)
    class Shelf:  # pyright: ignore[reportUnusedClass]  # registered
        """Keep them on a shelf."""

        folder: str
        broken: bool = False

        def open(self, id: str) -> Store:
            if self.broken:
                raise OSError("the shelf fell down")
            return JsonlStore(Path(self.folder) / f"{id}.jsonl", id=id)

        def ids(self) -> Iterator[str]:
            return (path.stem for path in sorted(Path(self.folder).glob("*.jsonl")))

    return registry


def spec(registry: StoreRegistry, name: str) -> StoreSpec:
    found = registry.get(name)
    assert found is not None
    return found


def test_they_stand_beside_the_built_in_ones(registry: StoreRegistry) -> None:
    assert registry.names() == (*BUILTIN_STORES, "plain", "shelf")
    assert registry.get("sqlite") is None
    assert spec(registry, "plain").doc == "Keep them in a folder."
    assert spec(registry, "shelf").where.partition(":")[0].endswith("test_stores.py")


def test_their_parameters_are_like_those_of_hooks(registry: StoreRegistry) -> None:
    schema = spec(registry, "plain").params.model_json_schema()
    assert (schema["required"], list(schema["properties"])) == (["folder"], ["folder", "suffix"])
    with pytest.raises(ParamError, match="session store `shelf`: folder: Field required"):
        spec(registry, "shelf").sessions({})
    with pytest.raises(ParamError, match="fold: Extra inputs"):
        spec(registry, "plain").sessions({"folder": "x", "fold": "y"})


@pytest.mark.parametrize("name", ["plain", "shelf"])
def test_what_they_open_is_a_store(registry: StoreRegistry, name: str, tmp_path: Path) -> None:
    check_store(spec(registry, name).sessions({"folder": str(tmp_path)}).open)


def test_a_class_may_list_what_there_is(registry: StoreRegistry, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    listed = spec(registry, "shelf").sessions({"folder": str(tmp_path)})
    assert (listed.listed, listed.ids()) == (True, ["a"])
    plain = spec(registry, "plain").sessions({"folder": str(tmp_path)})
    assert not plain.listed
    with pytest.raises(SessionError, match="the session store 'plain' does not list its sessions"):
        plain.ids()


def test_what_a_store_raises_is_told_with_its_name(registry: StoreRegistry) -> None:
    broken = spec(registry, "shelf").sessions({"folder": "x", "broken": True})
    with pytest.raises(SessionError, match="the session store 'shelf' failed: OSError: the shelf fell down"):
        broken.open("a")


def test_what_is_opened_must_be_a_store() -> None:
    with pytest.raises(SessionError, match="opened a dict, which is no store: it lacks id, where"):
        Sessions("odd", odd).open("a")
    assert Sessions("memory", MemoryStore).open("a").id == "a"

    def says_so(id: str) -> Store:
        raise SessionError("locked")

    with pytest.raises(SessionError, match=r"^locked$"):
        Sessions("locked", says_so).open("a")


def odd(id: str) -> dict[str, str]:
    return {"id": id}


class NoOpen:
    """Opens nothing."""


class OpensAll:
    """Opens without an id."""

    def open(self) -> Store:
        return MemoryStore()


class OpensStatic:
    """Opens without an object."""

    @staticmethod
    def open(id: str) -> Store:
        return MemoryStore(id)


class OpensClass:
    """Opens by its class."""

    @classmethod
    def open(cls, id: str) -> Store:
        return MemoryStore(id)


class OpensMore:
    """Opens with more that has defaults."""

    def open(self, id: str, mode: str = "r", *rest: str, quick: bool = False) -> Store:
        return MemoryStore(id)


class NeedsMore:
    """Opens with more that nobody gives."""

    def open(self, id: str, *, mode: str) -> Store:
        return MemoryStore(id)


@pytest.mark.parametrize("target", [OpensStatic, OpensClass, OpensMore])
def test_what_can_be_called_with_an_id_opens(target: Any) -> None:
    registry = StoreRegistry()
    session_store("mine", registry=registry)(target)
    spec = registry.get("mine")
    assert spec is not None
    assert spec.sessions({}).open("one").id == "one"


async def later(id: str) -> Store:
    return MemoryStore(id)


def positional(id: str, url: str = "x") -> Store:
    return MemoryStore(id)


def nothing() -> Store:
    return MemoryStore()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (NoOpen, r"a class without a method open\(id\)"),
        (OpensAll, "must take one value, the id of a session"),
        (NeedsMore, "must take one value, the id of a session"),
        (later, "is async; a store is opened and written without waiting"),
        (positional, "takes url: its with: parameters must be keyword-only"),
        (nothing, "must take one value, the id of a session"),
    ],
)
def test_a_wrong_registration_is_refused_at_once(target: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        session_store("wrong", registry=StoreRegistry())(target)


def test_a_name_is_given_once(registry: StoreRegistry) -> None:
    with pytest.raises(ValueError, match="'sqlite' is the name of a built-in session store"):
        session_store("sqlite", registry=registry)(MemoryStore)
    with pytest.raises(ValueError, match="the session store name 'plain' is taken already"):
        session_store("plain", registry=registry)(later_plain)
    kept = registry.get("plain")
    assert kept is not None
    registry.add("plain", kept.target)


def later_plain(id: str) -> Store:
    return MemoryStore(id)


def test_there_is_none_of_another_name() -> None:
    assert STORES.get("no such store") is None
