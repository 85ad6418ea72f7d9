"""What every test gets: both event loops, and no network."""

import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any

import pytest


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
