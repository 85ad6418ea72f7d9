"""Bad input: models that stream nonsense or too much, tools that return it. Named, and the log unharmed."""

import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from math import inf, nan
from typing import Any, cast

import anyio
import pytest
from tests.conformance.test_bad_input import NO_JSON, circle, deep
from tests.conformance.toolkit import all_of, results, strict
from tests.machine.drive import add, calls, scripted

from turnchart.machine import (
    Agent,
    Failure,
    PreparedCall,
    Reply,
    RequestFailed,
    RetryPolicy,
    Text,
    Thinking,
    ToolCall,
    ToolFailed,
    Turn,
    UserMessage,
    tool,
)
from turnchart.machine.entries import Frozen
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Finish,
    ModelRequest,
    RequestConfig,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from turnchart.machine.points import Deny, PreTool, ToolOutcome
from turnchart.testing import FakeClock, record

HI = TextDelta("hi")
STOP = Finish("stop")
Open = Callable[[ModelRequest], Any]


class Odd:
    """A model whose first answer is what a test makes of it; after that it says ``second``."""

    id = "odd"

    def __init__(
        self, open: Open | None = None, prepare: Callable[[RequestConfig], Any] | None = None
    ) -> None:
        self._open = open
        self._prepare = prepare
        self._asked = 0

    async def prepare(self, config: RequestConfig, abort: object) -> PreparedCall:
        del abort
        self._asked += 1
        if self._asked > 1:
            return PreparedCall(config, parts(TextDelta("second"), STOP))
        if self._prepare is not None:
            made: PreparedCall = self._prepare(config)
            return made
        assert self._open is not None
        return PreparedCall(config, self._open)


def parts(*chunks: Any) -> Open:
    """Return a stream of these, whatever they are; exceptions are raised."""

    async def stream(_: ModelRequest) -> AsyncIterator[Any]:
        for chunk in chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk

    return stream


async def asked(model: Odd) -> tuple[Agent, Turn]:
    """Prompt an agent with this model, then once more; its trace and log must be legal."""
    async with Agent(
        model, clock=FakeClock(), session=strict(), tools=[add], retry=RetryPolicy(max_attempts=1)
    ) as agent:
        recording = record(agent)
        turn = await agent.prompt("x")
        assert (await agent.prompt("y")).ok
        recording.check()
    return agent, turn


# -- models that stream after the finish ---------------------------------------------------------------


async def endless(_: ModelRequest) -> AsyncIterator[Any]:
    yield HI
    yield STOP
    while True:
        yield TextDelta("more")


async def stubborn(_: ModelRequest) -> AsyncIterator[Any]:
    try:
        yield HI
        yield STOP
    except GeneratorExit:
        yield TextDelta("it cannot be closed")


async def bad_end(_: ModelRequest) -> AsyncIterator[Any]:
    try:
        yield HI
        yield STOP
        yield HI
    finally:
        raise OSError("the connection was lost")


class NoGenerator:
    """A stream that is no generator and cannot be closed."""

    def __init__(self, _: ModelRequest) -> None:
        self._left = [HI, STOP, TextDelta("more")]

    def __aiter__(self) -> "NoGenerator":
        return self

    async def __anext__(self) -> Any:
        return self._left.pop(0)


TOO_MUCH: dict[str, Open] = {
    "text": parts(HI, STOP, TextDelta("more")),
    "a call": parts(HI, STOP, BlockStart("tool_call", 3, "c", "add"), ToolCallDelta("{}", 3)),
    "another finish": parts(HI, STOP, Finish("max_tokens")),
    "an error": parts(HI, STOP, Finish("error", Failure("server_error"))),
    "an exception": parts(HI, STOP, ValueError("late")),
    "no chunk": parts(HI, STOP, "text"),
    "no end": endless,
    "what cannot be closed": stubborn,
    "a failing end": bad_end,
    "without a close": NoGenerator,
}


@pytest.mark.parametrize("name", TOO_MUCH)
async def test_what_comes_after_the_finish_is_not_heard(name: str) -> None:
    agent, turn = await asked(Odd(TOO_MUCH[name]))
    assert (turn.reason, turn.text) == ("completed", "hi")
    assert [each["type"] for each in all_of(agent.session, "assistant/message")[0].data["stream"]] == [
        "text_delta", "finish",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (parts(HI), "hi"),
        (parts(), ""),
        (parts(STOP), ""),
        (parts(HI, BlockEnd(0), TextDelta("late"), STOP), "hi"),
        (parts(BlockEnd(7), HI, STOP), "hi"),
        (parts(Finish("tool_calls")), ""),
        (parts(TextDelta("x", -1), HI, STOP), "xhi"),
    ],
)
async def test_what_is_missing_or_too_late_has_a_rule(stream: Open, text: str) -> None:
    _, turn = await asked(Odd(stream))
    assert (turn.reason, turn.text) == ("completed", text)


NO_CHUNKS: list[Any] = [
    "text",
    b"x",
    None,
    5,
    {"type": "text_delta", "text": "x"},
    NO_JSON,
    TextDelta,
    ("a", 0),
]
WRONG_CHUNKS: list[Any] = [
    TextDelta(5), TextDelta(b"x"), ThinkingDelta(None), ToolCallDelta({"a": 1}), TextDelta("x", "a"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    BlockStart("video"), BlockStart("tool_call", 0, 5, "add"), BlockStart("tool_call", 0, "c", 5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    BlockEnd(0, 5), UsageReport("x"), UsageReport({"input": nan}), UsageReport({"input": "1"}),  # type: ignore[arg-type, dict-item]  # pyright: ignore[reportArgumentType]
    Finish("whatever"), Finish("error", "x"), Finish("stop", None, NO_JSON), Finish("stop", None, nan),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
]  # fmt: skip


@pytest.mark.parametrize("chunk", NO_CHUNKS)
@pytest.mark.parametrize("shown", [False, True])
async def test_what_is_no_chunk_is_a_failed_request_that_says_what_came(chunk: Any, shown: bool) -> None:
    agent, turn = await asked(Odd(parts(HI, chunk) if shown else parts(chunk)))
    assert turn.reason == "error"
    assert isinstance(turn.error, RequestFailed)
    assert f"a model streamed a {type(chunk).__name__}, which is no chunk" in str(turn.error)
    assert len(all_of(agent.session, "assistant/attempt")) == 1


@pytest.mark.parametrize("chunk", WRONG_CHUNKS)
async def test_a_chunk_that_holds_nonsense_is_a_failed_request(chunk: Any) -> None:
    agent, turn = await asked(Odd(parts(HI, chunk)))
    assert turn.reason == "error"
    assert isinstance(turn.error, RequestFailed)
    assert len(all_of(agent.session, "assistant/attempt")) == 1


@pytest.mark.parametrize("stream", [None, 5, "text", [HI, STOP], iter([HI])])
async def test_what_is_no_stream_is_a_failed_request(stream: Any) -> None:
    _, turn = await asked(Odd(lambda _: stream))
    assert turn.reason == "error"
    assert "'async for' requires an object with __aiter__ method" in str(turn.error)


PREPARED: list[tuple[Callable[[RequestConfig], Any], str]] = [
    (lambda _: None, r"model 'odd' prepared a NoneType, not a PreparedCall"),
    (lambda config: config, r"model 'odd' prepared a RequestConfig, not a PreparedCall"),
    (lambda _: PreparedCall("odd", parts()), r"a prepared call has a RequestConfig, not a str"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda config: PreparedCall(config._replace(model=cast(Any, 5)), parts()), r"names, not 5"),
    (
        lambda config: PreparedCall(config._replace(settings=cast(Any, {"a": NO_JSON})), parts()),
        r"\$\.a is a object",
    ),
    (lambda config: PreparedCall(config, parts(), context_window=nan), r"context_window is nan"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda config: PreparedCall(config, parts(), capabilities=frozenset([5])), r"names, not 5"),  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
]  # fmt: skip


@pytest.mark.parametrize(("prepare", "says"), PREPARED)
async def test_a_model_that_prepares_nonsense_is_an_error_turn_without_an_attempt(
    prepare: Callable[[RequestConfig], Any], says: str
) -> None:
    agent, turn = await asked(Odd(prepare=prepare))
    assert turn.reason == "error"
    assert isinstance(turn.error, TypeError)
    with pytest.raises(TypeError, match=says):
        raise turn.error
    assert not all_of(agent.session, "assistant/attempt")


# -- ids of calls ------------------------------------------------------------------------------------


def wants(*ids: str) -> Open:
    """Return a stream of calls with these ids."""
    chunks: list[Any] = []
    for index, id in enumerate(ids):
        chunks += [BlockStart("tool_call", index, id, "add"), ToolCallDelta(f'{{"a":{index},"b":0}}', index)]
    return parts(*chunks, Finish("tool_calls"))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("c", "c"), ["c", "c1.1.1"]),
        (("", ""), ["c1.1.0", "c1.1.1"]),
        (("c1.1.1", ""), ["c1.1.1", "c1.1.1+"]),
        (("c1.1.1", "", "c1.1.1"), ["c1.1.1", "c1.1.1+", "c1.1.2"]),
        (("", "c1.1.0"), ["c1.1.0", "c1.1.1"]),
        (("c1.1.1+", "c1.1.1+", "c1.1.1"), ["c1.1.1+", "c1.1.1", "c1.1.2"]),
    ],
)
async def test_a_missing_or_repeated_call_id_becomes_one_of_ours(
    given: tuple[str, ...], kept: list[str]
) -> None:
    agent, turn = await asked(Odd(wants(*given)))
    assert turn.text == "second"
    found = [entry.data["message"] for entry in all_of(agent.session, "tool/result")]
    assert [(each["call_id"], each.text) for each in found] == [(id, str(i)) for i, id in enumerate(kept)]


async def test_the_same_id_in_another_step_is_another_call() -> None:
    same = [Reply(tool_calls=[ToolCall("add", {"a": i, "b": 0}, id="call_0")]) for i in range(2)]
    seen: list[tuple[object, object]] = []

    def look(payload: PreTool) -> None:
        seen.extend((call.step, call.outcome) for call in payload.turn.calls)

    async with scripted([*same, "ok"], session=strict(), hooks={"pre_tool": [look]}) as agent:
        assert (await agent.prompt("x")).ok
    assert results(agent.session) == [("ok", "0"), ("ok", "1")]
    assert seen == [(1, None), (1, "ok"), (2, None)]


@pytest.mark.parametrize("name", ["", "no such tool", "\x00", "x" * 10_000])
async def test_a_call_of_a_nameless_or_unknown_tool_is_an_error_result(name: str) -> None:
    async with scripted([calls((name, {})), "ok"], session=strict()) as agent:
        assert (await agent.prompt("x")).ok
    ((outcome, text),) = results(agent.session)
    assert outcome == "error"
    assert text.startswith("There is no tool ")


@pytest.mark.parametrize(
    "raw",
    ['{"a": NaN, "b": 1}', '{"a": 1e999, "b": 1}', "[" * 100_000, '{"a": ' + "9" * 5_000 + "}", "\ud800"],
)
async def test_arguments_that_json_cannot_hold_stay_text_and_are_an_error_result(raw: str) -> None:
    async with scripted([Reply(tool_calls=[ToolCall("add", raw)]), "ok"], session=strict()) as agent:
        assert (await agent.prompt("x")).ok
    assert all_of(agent.session, "tool/call")[0].data["arguments"] == raw
    assert results(agent.session)[0][0] == "error"


# -- tools -------------------------------------------------------------------------------------------


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nobody may read this")


def raising(error: BaseException) -> Any:
    raise error


GIVEN: dict[str, tuple[Callable[[], object], str]] = {
    "an object": (lambda: NO_JSON, "the tool returned a object, which cannot be shown"),
    "a class": (lambda: int, "the tool returned a type"),
    "bytes": (lambda: b"x", "the tool returned a bytes"),
    "a set": (lambda: {1}, "the tool returned a set"),
    "a generator": (lambda: (each for each in "ab"), "the tool returned a generator"),
    "nan": (lambda: nan, "$ is nan"),
    "infinity": (lambda: [inf], "$[0] is inf"),
    "a circle": (circle, "contains itself"),
    "depth": (partial(deep, 50_000), "is nested deeper than 200"),
    "a long number": (lambda: 10**5000, "4300"),
    "a message": (lambda: UserMessage(Text("x"), time=nan), "time must be a number"),
    "a call": (lambda: ToolCall("x"), "not a block of type 'tool_call'"),
    "a thought": (lambda: [Thinking("x")], "not a block of type 'thinking'"),
    "a decision": (lambda: Deny("x"), "the tool returned a Deny"),
    "an exception": (lambda: ValueError("x"), "the tool returned a ValueError"),
    "content": (lambda: ToolOutcome(content=5), "content must be text"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "blocks": (lambda: ToolOutcome(content=(5,)), "content is made of blocks"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "details": (lambda: ToolOutcome(details=NO_JSON), "$ is a object"),
    "usage": (lambda: ToolOutcome(usage={"a": "b"}), "`usage` must be whole numbers by name"),  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    "terminate": (lambda: ToolOutcome(terminate="yes"), "`terminate` is 'yes'"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "is_error": (lambda: ToolOutcome(is_error=5), "`is_error` is 5"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "outcome": (lambda: ToolOutcome(outcome="fine"), "`outcome` is 'fine'"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "added tools": (lambda: ToolOutcome(added_tools="abc"), "`added_tools` must be a list of names"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "a hostile error": (lambda: raising(Hostile()), "Hostile"),
    "a group": (lambda: raising(ExceptionGroup("g", [ValueError("a"), Hostile()])), "ValueError: a; Hostile"),
    "an exit": (lambda: raising(SystemExit(NO_JSON)), "the tool tried to end the program"),
    "a typed failure": (lambda: raising(ToolFailed("x", name=NO_JSON, code=404)), "x"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "recursion": (lambda: raising(RecursionError()), "RecursionError"),
    "an end": (lambda: raising(StopAsyncIteration()), "StopAsyncIteration"),
    "a timeout": (lambda: raising(TimeoutError("mine")), "TimeoutError: mine"),
}


@pytest.mark.parametrize("way", ["async", "inline", "thread"])
@pytest.mark.parametrize("name", GIVEN)
async def test_a_tool_that_gives_nonsense_is_an_error_result_and_the_step_goes_on(
    name: str, way: str
) -> None:
    give, says = GIVEN[name]

    async def later() -> Any:
        return give()

    def now() -> Any:
        return give()

    made = tool(later if way == "async" else now, name="odd", description="x", inline=way == "inline")
    async with scripted([calls(("odd", {})), "ok"], session=strict(), tools=[made]) as agent:
        turn = await agent.prompt("x")
    assert (turn.reason, turn.steps) == ("completed", 2)
    ((outcome, text),) = results(agent.session)
    assert outcome == "error"
    assert says in text


async def test_a_tool_that_adds_tools_that_nobody_knows_adds_none() -> None:
    def unlock() -> ToolOutcome:
        return ToolOutcome(added_tools=("nobody", "add"))

    made = tool(unlock, description="x", inline=True)
    async with scripted(
        [calls(("unlock", {})), calls(("nobody", {})), "ok"], session=strict(), tools=[made, add]
    ) as agent:
        agent.set_active_tools(["unlock"])
        assert (await agent.prompt("x")).ok
    assert results(agent.session)[1][1] == "There is no tool 'nobody'. The tools are: unlock, add."


async def test_a_tool_that_waits_for_its_own_agent_is_an_error_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    agents: list[Agent] = []

    async def wait() -> str:
        await agents[0].idle()
        return "never"

    made = tool(wait, description="x")
    async with scripted(
        [calls(("wait", {})), "ok"], session=strict(), tools=[made], hooks={"tool": [_pass]}
    ) as agent:
        agents.append(agent)
        with anyio.fail_after(5):
            assert (await agent.prompt("x")).ok
    assert "would wait for itself" in results(agent.session)[0][1]


def _pass(_: object) -> None:
    """Have no opinion."""


def test_what_a_frozen_object_holds_is_nobodys_to_change() -> None:
    with pytest.raises(TypeError, match="frozen"):
        Frozen(a=1)["a"] = 2
