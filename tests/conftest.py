"""What every test gets: both event loops, no network, and no time limit but the one of pytest."""

import gc
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("turnchart", deadline=None)  # a machine with other work is no fault
settings.load_profile("turnchart")


def pytest_configure(config: pytest.Config) -> None:
    """Collect no garbage while pytest collects the tests: nearly all that is made then stays to the end."""
    gc.disable()
    if hasattr(config, "workerinput") and config.getoption("durations") is None:
        [worker] = [each for each in config.pluginmanager.get_plugins() if hasattr(each, "sendevent")]
        worker.sendevent = _telling_less(worker.sendevent)


def _telling_less(send: Callable[..., None]) -> Callable[..., None]:
    """Let a process of pytest-xdist send one message a test where five would tell no more."""

    def send_less(name: str, **what: Any) -> None:
        passed = name == "testreport" and what["data"]["outcome"] == "passed"
        if name not in ("logstart", "logfinish") and not (passed and what["data"]["when"] != "call"):
            send(name, **what)

    return send_less


def pytest_collection_finish() -> None:
    """Let no later collection look at what stays to the end, and none be made every few tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50)
    gc.enable()


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on both loops."""
    backend: str = request.param
    return backend


class NetworkBlocked(RuntimeError):
    """A test tried to reach another machine. No OSError, so that no code takes it for a network failure."""


def _is_local(address: tuple[Any, ...] | str | bytes) -> bool:
    if not isinstance(address, tuple):
        return True  # a path: a Unix socket
    host = str(address[0])
    if host in {"", "localhost"}:
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
    def guard(self: socket.socket, address: tuple[Any, ...] | str | bytes, /) -> Any:
        if not _is_local(address):
            raise NetworkBlocked(f"a test tried to connect to {address!r}; tests reach this machine only")
        return connect(self, address)

    return guard


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Refuse every connection to another machine, for the whole run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        yield


@pytest.fixture
def renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the renderer of Mermaid, which a checkout need not hold."""
    monkeypatch.setattr("turnchart.diagrams.page._bundled", lambda: "window.mermaid = {};")
