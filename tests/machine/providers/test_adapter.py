"""Models of providers over real HTTP on this machine: the contract, and what it does not say."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import anyio
import httpcore2
import pytest
from anyio.to_thread import run_sync
from tests.machine.providers.asking import KEY, ask, model_of
from tests.machine.providers.loopback import HOLD, Loopback, Wire, refused
from tests.machine.providers.wire_formats import FORMATS, chat, wires

from turnchart.machine import (
    Agent,
    Failure,
    Reply,
    RetryPolicy,
    Session,
    State,
    ToolCall,
    TurnFailed,
    UnknownModel,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Image, UserMessage
from turnchart.machine.models import RequestConfig
from turnchart.machine.providers import ProviderModel
from turnchart.machine.providers.routes import CONNECTING
from turnchart.testing import check_model

# The clients of providers leave finished generators to the collector, which trio complains of.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

ONE_TRY = RetryPolicy(max_attempts=1)
PATIENCE = 10
"""Seconds that a test waits for what happens at once."""


SLOW = ["google"]
"""Whose client takes seconds for this; it is left to the trials."""


@pytest.mark.parametrize(
    ("format", "backend"),
    [
        pytest.param(format, backend, marks=pytest.mark.slow if format in SLOW else ())
        for format in FORMATS
        for backend in ("asyncio", "trio")
    ],
)
def test_every_format_keeps_the_contract(format: str, backend: str) -> None:
    with ExitStack() as servers:

        def make(replies: Sequence[Reply | Failure]) -> ProviderModel:
            return model_of(format, servers.enter_context(Loopback(*wires(format, replies))))

        check_model(make, backend=backend)


def test_a_server_of_ollama_keeps_the_contract_without_a_key() -> None:
    with ExitStack() as servers:

        def make(replies: Sequence[Reply | Failure]) -> ProviderModel:
            server = servers.enter_context(Loopback(*wires("chat", replies)))
            return ProviderModel("ollama:qwen3", base_url=server.url + "/v1")

        check_model(make)


@pytest.mark.parametrize("format", FORMATS)
async def test_an_abort_closes_the_connection_at_once_and_keeps_what_came(format: str) -> None:
    reply = Reply(chunks=["partial ", "answer", 3600.0, "never"])
    with Loopback(Wire(FORMATS[format][2](reply))) as server:
        async with Agent(model_of(format, server)) as agent:
            agent.on("agent/assistant-stream", lambda signal, _: _cut_at_answer(agent, signal.data))
            with pytest.raises(TurnFailed, match="aborted"):
                (await agent.prompt("hi")).check()
            with anyio.fail_after(PATIENCE):
                assert await run_sync(server.left.wait, PATIENCE), "the server sees the client leave"
            last = agent.session.context()[-1]
            assert (last.role, last.text, last["stop_reason"]) == ("assistant", "partial answer", "aborted")
            assert agent.state is State.IDLE


@pytest.mark.parametrize("format", FORMATS)
async def test_an_abort_before_anything_came_closes_the_connection_too(format: str) -> None:
    with Loopback(Wire([HOLD], raw=True)) as server:
        async with Agent(model_of(format, server)) as agent:
            agent.follow_up("hi")
            with anyio.fail_after(PATIENCE):
                assert await run_sync(server.came.wait, PATIENCE)
                agent.abort("user")
                await agent.idle()
                assert await run_sync(server.left.wait, PATIENCE), "the server sees the client leave"
            kinds = [entry.type for entry in agent.session.entries]
            assert "assistant/message" not in kinds
            assert kinds[-1] == "turn/end"


def _cut_at_answer(agent: Agent, data: Mapping[str, Any]) -> None:
    if getattr(data.get("chunk"), "text", "") == "answer":
        agent.abort("user")


async def test_a_stream_that_falls_silent_times_out() -> None:
    with Loopback(Wire([chat(Reply("Hel"))[0], HOLD])) as server:
        answer = await ask(model_of("chat", server, idle_timeout=0.05))
        assert answer.failure is not None
        assert answer.failure.kind == "timeout"
        assert await run_sync(server.left.wait, PATIENCE)


async def test_a_server_that_says_nothing_at_all_times_out() -> None:
    for format in FORMATS:
        with Loopback(Wire([HOLD], raw=True)) as server:
            answer = await ask(model_of(format, server, idle_timeout=0.3 if format == "google" else 0.05))
            assert answer.failure is not None
            assert answer.failure.kind == "timeout"
            assert await run_sync(server.left.wait, PATIENCE), format


@pytest.mark.parametrize("format", ["chat", "responses", "anthropic"])
async def test_a_server_that_cannot_be_reached_is_not_waited_for_as_long_as_an_answer(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[Any] = []

    async def connect(*_: object, **given: Any) -> Any:
        limits.append(given["timeout"])
        raise httpcore2.ConnectTimeout("nobody there")

    monkeypatch.setattr("httpcore2._backends.auto.AutoBackend.connect_tcp", connect)
    id, path, _ = FORMATS[format]
    model = ProviderModel(id, base_url="http://127.0.0.1:1" + path, api_key=KEY)
    answer = await ask(model)
    assert answer.failure is not None
    assert answer.failure.kind in ("timeout", "connection")
    assert limits == [CONNECTING]


async def test_the_client_does_not_retry() -> None:
    for format in FORMATS:
        with Loopback(*wires(format, [Failure("server_error"), Reply("not asked for")])) as server:
            answer = await ask(model_of(format, server))
            assert answer.failure is not None
            assert answer.failure.kind == "server_error"
            assert len(server.heard) == 1, format


async def test_the_driver_retries_and_waits_as_long_as_the_provider_asks() -> None:
    with Loopback(*wires("anthropic", [Failure("rate_limit", retry_after=0.01), Reply("late")])) as server:
        async with Agent(model_of("anthropic", server)) as agent:
            turn = await agent.prompt("hi")
            found = {entry.type: entry.data for entry in agent.session.entries}
    assert turn.text == "late"
    assert (found["llm/retry"]["kind"], found["llm/retry"]["after"]) == ("rate_limit", 0.01)
    assert found["assistant/attempt"]["failure"]["status"] == 429


async def test_quota_is_not_retried() -> None:
    with Loopback(*wires("chat", [Failure("quota")])) as server:
        async with Agent(model_of("chat", server)) as agent:
            turn = await agent.prompt("hi")
    assert turn.reason == "error"
    assert len(server.heard) == 1


async def test_settings_thinking_tools_and_images_reach_the_provider() -> None:
    pixel = "iVBORw0KGgo="
    spec = Frozen(name="a.b", description="Do.", schema=Frozen(type="object", properties=Frozen()))
    with Loopback(Wire(chat(Reply("ok")))) as server:
        await ask(
            model_of("chat", server), [UserMessage([Image(pixel)])], tools=[spec],
            settings={"max_tokens": 7, "seed": 3, "extra": {"extra_body": {"own": [1, {"deep": True}]}}},
        )  # fmt: skip
    body = server.heard[0].body
    assert body["max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"] == 7
    assert (body["seed"], body["own"]) == (3, [1, {"deep": True}])
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["messages"][1]["content"][0]["image_url"]["url"] == f"data:image/png;base64,{pixel}"
    assert body["tools"][0]["function"]["name"] == "a__b"
    with Loopback(*wires("anthropic", [Reply("ok"), Reply("ok")])) as server:
        model = model_of("anthropic", server)
        await ask(model, thinking="high")
        await ask(model, thinking="off")
    assert server.heard[0].body.get("thinking", {}).get("type") != "disabled"
    assert server.heard[1].body.get("thinking", {"type": "disabled"})["type"] == "disabled"


async def test_a_tool_is_called_by_its_own_name() -> None:
    with Loopback(Wire(chat(Reply(tool_calls=[ToolCall("a__b", {}, id="c1")])))) as server:
        spec = Frozen(name="a.b", description="", schema=Frozen(type="object", properties=Frozen()))
        answer = await ask(model_of("chat", server), tools=[spec])
    assert answer.message("m", 1.0, "c").tool_calls[0].name == "a.b"


async def test_a_model_says_what_it_can() -> None:
    model = ProviderModel("anthropic:claude-sonnet-5", api_key="k")
    call = await model.prepare(RequestConfig(model.id), AbortSignal())
    await model.aclose()
    assert call.capabilities == {"images", "thinking"}
    assert call.context_window is None or call.context_window > 100_000


async def test_agents_share_connections_and_the_last_closes_them() -> None:
    with Loopback(Wire(chat(Reply("hi"))), forever=True) as server:
        first, second = model_of("chat", server), model_of("chat", server)
        async with Agent(first) as one, Agent(second) as other:
            assert (await one.prompt("a")).text == (await other.prompt("b")).text == "hi"
            assert server.connections == 1
        async with Agent(first) as again:
            assert (await again.prompt("c")).text == "hi"
        assert server.connections == 2


async def test_a_missing_key_is_a_failed_request_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    async with Agent(ProviderModel("anthropic:claude-sonnet-5")) as agent:
        turn = await agent.prompt("hi")
        assert turn.reason == "error"
        assert "set the environment variable ANTHROPIC_API_KEY" in str(turn.error)
        [route] = [each.data for each in agent.session.entries if each.type == "request/context"]
        assert route["context_window"] == 1_000_000, "nobody is told that it is unknown"
    async with Agent(ProviderModel("groq:llama", api_key="k")) as agent:
        assert "needs a package that is not installed" in str((await agent.prompt("hi")).error)


@pytest.mark.parametrize("id", ["openai", ":m", "openai:"])
def test_an_id_without_a_provider_or_a_name_is_refused(id: str) -> None:
    with pytest.raises(UnknownModel, match="a model is written provider:name"):
        ProviderModel(id)


def test_a_provider_that_nobody_knows_is_refused_at_once() -> None:
    with pytest.raises(UnknownModel, match="there is no provider 'opnai'; usual ones are openai"):
        ProviderModel("opnai:gpt-x")


async def test_a_key_stands_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    session = Session.memory()
    for format in FORMATS:
        echo = refused(401, {"error": {"message": f"the key {KEY} is wrong", "type": "x", "code": KEY}})
        with Loopback(echo, Wire(FORMATS[format][2](Reply("hi")))) as server:
            model = model_of(format, server)
            async with Agent(model, retry=ONE_TRY, session=session) as agent:
                agent.on("*", lambda signal, _: said.append(repr(signal)))
                said.append(f"{(await agent.prompt('a')).error!r}")
                assert (await agent.prompt("b")).text == "hi"
            said.append(repr(model))
        sent = " ".join(server.heard[1].headers.values()) + server.heard[1].path
        assert KEY in sent, f"{format} sends the key"
    lines = [entry.line() for entry in session.entries]
    assert all(KEY not in str(text) for text in [*said, *lines, caplog.text])
    assert any("the key *** is wrong" in str(line) for line in lines)


async def test_a_password_in_an_address_is_sent_and_stands_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    for format in FORMATS:
        with Loopback(*wires(format, [Reply("hi"), Failure("auth")])) as server:
            address = server.url.replace("http://", "http://ann:pass%40word-0123@")
            model = model_of(format, server, base_url=address + FORMATS[format][1])
            async with Agent(model, retry=ONE_TRY) as agent:
                said += [repr(await agent.prompt(text)) for text in ("a", "b")]
            said += [str(entry) for entry in agent.session.entries]
        assert server.heard[0].headers["authorization"] == "Basic YW5uOnBhc3NAd29yZC0wMTIz", format
    assert "127.0.0.1" in caplog.text
    for secret in ("pass%40word", "pass@word"):
        assert secret not in "\n".join([*said, caplog.text])


async def test_half_a_character_is_sent_as_one_that_nobody_knows() -> None:
    @tool(name="list", description="Names \ud83d of files.")
    async def names() -> str:
        return "a.txt"

    script = [Reply(tool_calls=[ToolCall("list", {}, id="c1")]), Reply("x")]
    for format in FORMATS:
        with Loopback(*wires(format, script)) as server:
            async with Agent(model_of(format, server), tools=[names], prompt="So \ud83d.") as agent:
                turn = await agent.prompt("hi \ud83d")
        assert (turn.text, turn.error) == ("x", None)
        body = str(server.heard[1].body)
        for text in ("So \ufffd.", "hi \ufffd", "Names \ufffd of files."):
            assert text in body, format


async def test_a_turn_with_tools_runs_over_the_wire() -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    script = [
        Reply("I add.", thinking="Hm.", tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="c1")]),
        Reply("3"),
    ]
    for format in FORMATS:
        with Loopback(*wires(format, script)) as server:
            async with Agent(model_of(format, server), tools=[add]) as agent:
                turn = await agent.prompt("What is 1 + 2?")
        assert (turn.text, turn.reason) == ("3", "completed")
        assert "3" in str(server.heard[1].body), "the result went back"
