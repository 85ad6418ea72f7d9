import json
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from turnchart.machine import Agent, McpError, McpServer, Reply, ScriptedModel, ToolCall
from turnchart.machine.mcp.listing import list_tools
from turnchart.machine.mcp.servers import Address, Program
from turnchart.machine.mcp.transports import LastWords, Watched, headers, need_sdk, secrets

PLAIN = Path(__file__).with_name("plain.py")


def shell(script: str, **how: Any) -> McpServer:
    return McpServer.stdio("sh", ["/bin/sh", "-c", script], **how)


async def failure(server: McpServer) -> str:
    [listing] = await list_tools([server], Path())
    return listing.failure


async def test_a_program_sees_its_variables_and_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.setenv("OURS", "theirs")
    monkeypatch.setenv("OTHER", "unseen")
    argv = [sys.executable, str(PLAIN), "a", "b"]
    server = McpServer.stdio("plain", argv, env={"X": "1"}, env_from={"PLAIN": "OURS"}, cwd="sub")
    model = ScriptedModel([Reply(tool_calls=[ToolCall("plain.b", {"n": 1})]), "done"])
    async with Agent(model, mcp=[server], root=tmp_path) as agent:
        await agent.prompt("x")
    assert list(agent.known_tools) == ["plain.a", "plain.b"]
    [said] = [e.data["message"].text for e in agent.session.entries if e.type == "tool/result"]
    assert json.loads(said) == [{"n": 1}, str(tmp_path / "sub"), "theirs"]


async def test_a_program_that_dies_in_a_call_is_started_again(tmp_path: Path) -> None:
    server = McpServer.stdio("plain", [sys.executable, str(PLAIN), "die", "live"])
    asked = [Reply(tool_calls=[ToolCall(f"plain.{name}", {})]) for name in ("die", "live")]
    async with Agent(ScriptedModel([*asked, "done"]), mcp=[server], root=tmp_path) as agent:
        await agent.prompt("x")
    died, lived = [e.data for e in agent.session.entries if e.type == "tool/result"]
    assert (died["outcome"], lived["outcome"]) == ("error", "ok")
    assert died["message"].text.endswith("Its last words:\nkilled by a call")


async def test_a_server_of_an_older_protocol_changes_its_tools(tmp_path: Path) -> None:
    server = McpServer.stdio("plain", [sys.executable, str(PLAIN), "a", "grow"])
    asked = [Reply(tool_calls=[ToolCall(f"plain.{name}", {})]) for name in ("grow", "grown", "grow")]
    async with Agent(ScriptedModel([*asked, "done"]), mcp=[server], root=tmp_path) as agent:
        await agent.prompt("x")
        assert list(agent.known_tools) == ["plain.a", "plain.grown"]
    outcomes = [e.data["outcome"] for e in agent.session.entries if e.type == "tool/result"]
    assert outcomes == ["ok", "ok", "error"]


async def test_what_is_no_message_is_told_once_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = f"echo hello; echo '{{}}'; exec {sys.executable} {PLAIN} a"
    with caplog.at_level(logging.WARNING, "turnchart.mcp"):
        [listing] = await list_tools([shell(script)], tmp_path)
    assert listing.tools == ("sh.a",)
    told = [record.message for record in caplog.records if record.name == "turnchart.mcp"]
    assert told == ["MCP server sh sends what is no message: its stdout is for messages only"]


def test_what_the_library_logs_does_not_go_to_the_terminal_by_itself() -> None:
    need_sdk()
    need_sdk()
    assert len(logging.getLogger("mcp").handlers) == 1


async def test_a_program_that_ends_has_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "very-secret")
    said = await failure(shell("cat >/dev/null & echo no good: $T >&2; exit 3", env_from={"T": "HUB_TOKEN"}))
    assert said.startswith("MCP server sh (/bin/sh) cannot be started: ")
    assert said.endswith(" (no good: ***)")


async def test_only_the_last_lines_are_told() -> None:
    said = await failure(shell("for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exit 3"))
    assert said.partition("; its last words:\n")[2].splitlines() == [f"line {i}" for i in range(3, 8)]


async def test_a_program_that_is_not_there() -> None:
    said = await failure(McpServer.stdio("gone", ["/nowhere/at/all"]))
    assert said.startswith("MCP server gone (/nowhere/at/all) cannot be started: [Errno 2] No such file")


async def test_an_address_where_nobody_answers() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    await listener.aclose()
    said = await failure(McpServer.http("web", f"http://127.0.0.1:{port}/mcp"))
    assert said.startswith(f"MCP server web (http://127.0.0.1:{port}/mcp) cannot be reached: ")


@pytest.mark.parametrize(
    ("login", "sent"),
    [("", b"bearer very-secret"), ("ann:pass%40word-0123@", b"basic yw5uonbhc3nad29yzc0wmtiz")],
)
async def test_an_address_that_refuses_us(
    login: str, sent: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked: list[bytes] = []

    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            asked.append(await stream.receive())
            await stream.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    monkeypatch.setenv("WEB_TOKEN", "very-secret")
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    url = f"http://{login}127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/mcp"
    said = ""
    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, refuse)
        said = await failure(McpServer.http("web", url, bearer_env="WEB_TOKEN"))
        group.cancel_scope.cancel()
    await listener.aclose()
    assert said.endswith("(it answered 401 Unauthorized)")
    assert b"authorization: " + sent in asked[0].lower()
    assert "127.0.0.1" in caplog.text
    for secret in ("pass%40word", "pass@word", "very-secret"):
        assert secret not in said + caplog.text


async def test_a_variable_of_a_header_that_is_not_set() -> None:
    server = McpServer.http("web", "http://127.0.0.1:9/mcp", bearer_env="TURNCHART_NO_SUCH")
    assert (await failure(server)).endswith("the environment variable TURNCHART_NO_SUCH is not set")


@pytest.mark.parametrize("password", ["pass/word", "pass#word", "pass?word", "pass[word"])
async def test_a_password_that_makes_an_address_unreadable_is_not_repeated(password: str) -> None:
    said = await failure(McpServer.http("web", f"http://ann:{password}@127.0.0.1:9/mcp"))
    assert said.endswith("its address cannot be read; user and password in it are percent-encoded")
    assert "word" not in said.replace("password", "")


def test_headers_come_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "one-two-three")
    monkeypatch.setenv("A_KEY", "key")
    address = Address("http://x", "A_TOKEN", (("X-Key", "A_KEY"),))
    assert headers(address) == {"X-Key": "key", "Authorization": "Bearer one-two-three"}
    assert secrets(address) == ("one-two-three",), "what is short would mask words"
    assert secrets(Address("http://ann:pass%40word@x")) == (
        "pass@word",
        "pass%40word",
        "YW5uOnBhc3NAd29yZA==",
    )
    assert secrets(Program(("x",), (("B", "literal"),), (("C", "A_TOKEN"),))) == ("literal", "one-two-three")


async def test_no_secret_is_told_in_part() -> None:
    words = LastWords(("key-one", "key-one-and-two", "first line\nsecond line"))
    await words.response(httpx2.Response(401, extensions={"reason_phrase": b"key-one-and-two, second line"}))
    assert words.lines() == "it answered 401 ***, ***"


async def test_words_of_an_address_are_its_last_refusal() -> None:
    words = LastWords()
    await words.response(httpx2.Response(503))
    assert words.lines() == "it answered 503 Service Unavailable"
    await words.response(httpx2.Response(200))
    assert words.lines() == ""


@pytest.mark.parametrize("end", [anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError])
async def test_the_end_of_the_messages_is_told(end: type[Exception]) -> None:
    class Ending:
        closed = False

        async def receive(self) -> Any:
            raise end

        async def aclose(self) -> None:
            self.closed = True

    over: list[int] = []
    ending = Ending()
    async with Watched(ending, lambda: over.append(1)) as stream:
        assert stream.last_context is None
        if end is anyio.EndOfStream:
            assert [message async for message in stream] == []
        else:
            with pytest.raises(end):
                await stream.receive()
    assert (over, ending.closed) == ([1], True)


@pytest.mark.parametrize("missing", ["mcp.client", "jsonschema"])
def test_without_the_libraries_the_error_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(McpError, match=r"pip install 'turnchart\[mcp\]'"):
        need_sdk()
