"""The guard in conftest.py holds on both loops: tests reach this machine and no other."""

import socket

import anyio
import pytest

ELSEWHERE = [("192.0.2.1", 80), ("2001:db8::1", 80, 0, 0)]  # addresses kept for documentation


@pytest.mark.parametrize("address", ELSEWHERE, ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_a_socket_reaches_no_other_machine(address: tuple[str, int], method: str) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as sock, pytest.raises(RuntimeError, match="tests reach this machine only"):
        getattr(sock, method)(address)


async def test_no_stream_reaches_another_machine() -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(RuntimeError, match="tests reach this machine only"),
        allow_unwrapped=True,
        flatten_subgroups=True,
    ):
        await anyio.connect_tcp("192.0.2.1", 80)


async def test_a_stream_reaches_this_machine() -> None:
    async def greet(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"hello")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, greet)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            assert await stream.receive() == b"hello"
        tasks.cancel_scope.cancel()
    await listener.aclose()
