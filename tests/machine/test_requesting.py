"""The state requesting: choose, prepare, admit, derive, stream."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from tests.machine.drive import calls, run, scripted, texts, types

from turnchart.machine import (
    Agent,
    AppendRefused,
    Failure,
    ModelRequest,
    PreparedCall,
    Reply,
    ScriptedModel,
    ScriptError,
    Session,
    Signal,
    UserMessage,
)
from turnchart.machine.abort import Aborted, AbortSignal
from turnchart.machine.entries import Frozen
from turnchart.machine.models import BlockStart, Chunk, Finish, RequestConfig, TextDelta
from turnchart.machine.points import Chunks, Context, Convert, Request, Stream

ADD = calls(("add", {"a": 1, "b": 2}))
Open = Callable[[ModelRequest], AsyncIterator[Chunk]]


class Adapter:
    """A model whose stream is a function."""

    id = "test"

    def __init__(self, open: Open | None = None, error: Exception | None = None) -> None:
        self._open = open
        self._error = error
        self.prepared: list[RequestConfig] = []

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        self.prepared.append(config)
        await checkpoint()
        if self._error is not None:
            raise self._error
        assert self._open is not None
        return PreparedCall(config, self._open)

    def drop(self) -> None: ...


def between(session: Session, first: str, last: str) -> list[str]:
    """Return the types from the first entry of one type to the last of another."""
    kinds = types(session)
    return kinds[kinds.index(first) : len(kinds) - kinds[::-1].index(last)]


# -- the order ---------------------------------------------------------------------------------------


async def test_the_admission_is_one_run_of_entries_before_the_answer() -> None:
    agent, _ = await run(["a"])
    assert between(agent.session, "step/start", "assistant/message") == [
        "step/start", "system/message", "user/message", "request/header", "request/context",
        "assistant/message",
    ]  # fmt: skip


@pytest.mark.parametrize("when", ["request", "prepare"])
async def test_an_abort_before_the_admission_commits_neither_system_nor_users(when: str) -> None:
    async with scripted([]) as agent:
        if when == "prepare":
            adapter = Adapter()

            async def prepare(config: RequestConfig, abort: AbortSignal) -> PreparedCall:
                agent.abort()
                await abort.wait()
                return await ScriptedModel(["late"]).prepare(config, abort)

            adapter.prepare = prepare  # type: ignore[method-assign]  # on purpose
            agent.model = adapter
        else:

            async def hook(payload: Request) -> None:
                agent.abort()
                await checkpoint()

            agent.chains = {**agent.chains, "request": _chain("request", hook)}
        turn = await agent.prompt("x")
        discarded = ["agent/inbox/spliced"] * 2
        assert types(agent.session)[-5:] == ["step/start", *discarded, "step/end", "turn/end"]
        assert turn.reason == "aborted"
        assert [item.messages[0].text for item in turn.unadmitted] == ["x"]


def _chain(point: str, *hooks: Any) -> Any:
    from turnchart.machine.chain import Chain

    return Chain(point, hooks)


async def test_a_retry_admits_no_users_again_and_asks_the_request_hooks_again() -> None:
    seen: list[int] = []

    def look(payload: Request) -> None:
        seen.append(payload.step)

    agent, _ = await run([Failure("overloaded"), "ok"], hooks={"request": [look]})
    assert seen == [1, 1]
    assert types(agent.session).count("user/message") == 1
    attempts = [
        e.attempt for e in agent.session.entries if e.type in ("assistant/attempt", "assistant/message")
    ]
    assert attempts == [1, 2]


# -- headers and routes --------------------------------------------------------------------------------


async def test_a_header_is_written_when_it_is_new_or_changed_and_a_route_once() -> None:
    def choose(payload: Request) -> Request | None:
        return payload.replace(settings={"temperature": 1}) if payload.turn.number == 3 else None

    session = Session.memory()
    async with scripted(["a", "b", "c", "d"], session=session, hooks={"request": [choose]}) as agent:
        for text in "wxyz":
            await agent.prompt(text)
    async with scripted(["e"], session=session) as agent:
        await agent.prompt("v")
    headers = [
        (e.data["turn"], e.data["reason"], e.data["settings"])
        for e in session.entries
        if e.type == "request/header"
    ]
    assert headers == [
        (1, "initial", {}), (3, "change", {"temperature": 1}), (4, "change", {}), (5, "resume", {}),
    ]  # fmt: skip
    assert types(session).count("request/context") == 1


async def test_what_a_request_hook_changes_reaches_the_model_for_that_request() -> None:
    def choose(payload: Request) -> Request:
        return payload.replace(thinking="high", tools=("add",), settings={"top_p": 0.5})

    agent, _ = await run(["a"], hooks={"request": [choose]}, settings={"top_p": 1}, thinking="low")
    assert isinstance(agent.model, ScriptedModel)
    (request,) = agent.model.requests
    assert (request.thinking, request.settings) == ("high", {"top_p": 0.5})
    assert [tool["name"] for tool in request.tools] == ["add"]


async def test_request_hooks_see_the_calls_of_the_step_before() -> None:
    seen: list[list[str]] = []

    def look(payload: Request) -> None:
        seen.append([call.tool for call in payload.calls])

    await run([ADD, "b"], hooks={"request": [look]})
    assert seen == [[], ["add"]]


async def test_a_changed_prompt_replaces_the_head_or_is_appended_where_the_route_can() -> None:
    prompts = ["One.", "One.", "Two.", ""]

    async def told(capabilities: list[str]) -> list[tuple[Any, str]]:
        left = list(prompts)
        async with scripted([]) as agent:
            agent.model = ScriptedModel(["a", "b", "c", "d"], capabilities=capabilities)
            for text in "wxyz":
                agent.prompt_sections = (left.pop(0),)
                await agent.prompt(text)
            entries = [e for e in agent.session.entries if e.type == "system/message"]
            return [(e.replaces, "".join(p["text"] for p in e.data["message"]["content"])) for e in entries]

    head, *rest = await told([])
    assert head == (None, "One.")
    assert [text for _, text in rest] == ["Two.", ""]
    assert all(replaces is not None for replaces, _ in rest)
    head, appended, *emptied = await told(["system_prompt_update"])
    assert (head, appended) == ((None, "One."), (None, "Two."))
    assert [text for _, text in emptied] == ["", ""]


# -- context and convert -------------------------------------------------------------------------------


async def test_what_the_hooks_show_is_logged_and_what_they_leave_alone_is_not() -> None:
    def before(payload: Context) -> Context | None:
        return (
            payload.replace(messages=(UserMessage("first"), *payload.messages))
            if payload.turn.number == 2
            else None
        )

    def after(payload: Convert) -> Convert | None:
        if payload.turn.number != 2:
            return None
        return payload.replace(llm_messages=(*payload.llm_messages, UserMessage("last")))

    agent, _ = await run(["a", "b", "c"], "x", "y", "z", hooks={"context": [before], "convert": [after]})
    assert isinstance(agent.model, ScriptedModel)
    seen = [[message.text for message in request.messages] for request in agent.model.requests]
    assert seen == [["x"], ["first", "x", "a", "y", "last"], ["x", "a", "y", "b", "z"]]
    assert types(agent.session).count("request/rewritten") == 1
    assert texts(agent.session, "user/message") == ["x", "y", "z"]


# -- the stream ----------------------------------------------------------------------------------------


async def test_a_model_that_cannot_be_prepared_fails_the_turn_and_is_not_retried() -> None:
    asked: list[object] = []
    async with scripted([], hooks={"request_error": [asked.append]}) as agent:
        agent.model = Adapter(error=ValueError("no key"))
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert isinstance(turn.error, ValueError)
    assert asked == []
    assert "user/message" not in types(agent.session)


async def test_an_adapter_that_heeds_an_abort_that_is_none_cuts_the_turn_off() -> None:
    async with scripted([]) as agent:
        agent.model = Adapter(error=Aborted("mine"))
        turn = await agent.prompt("x")
    assert (turn.reason, turn.error) == ("aborted", None)
    assert agent.session.entries[-1].data["cause"] == "hook"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("slow"), "timeout"),
        (ConnectionError("reset"), "connection"),
        (ValueError("x"), "unknown"),
    ],
)
async def test_an_adapter_that_raises_is_a_failed_attempt(error: Exception, kind: str) -> None:
    async def open(request: ModelRequest) -> AsyncIterator[Chunk]:
        yield TextDelta("half")
        raise error

    async with scripted([]) as agent:
        agent.model = Adapter(open)
        turn = await agent.prompt("x")
    (attempt, *_) = [e.data for e in agent.session.entries if e.type == "assistant/attempt"]
    assert attempt["failure"]["kind"] == kind
    assert attempt["stream"][0]["parts"] == ("half",)
    assert (turn.reason, turn.text) == ("error", "")


@pytest.mark.parametrize("chunk", [BlockStart("image"), "text", Finish("stop", replay=object())])  # type: ignore[arg-type]  # on purpose
async def test_what_is_no_chunk_is_a_failed_attempt_and_the_agent_goes_on(chunk: Any) -> None:
    async def open(request: ModelRequest) -> AsyncIterator[Chunk]:
        yield TextDelta("half")
        yield chunk

    async with scripted(["fine"]) as agent:
        scripted_model, agent.model = agent.model, Adapter(open)
        assert (await agent.prompt("x")).reason == "error"
        agent.model = scripted_model
        assert (await agent.prompt("y")).text == "fine"


async def test_a_stream_that_does_not_open_leaves_no_attempt() -> None:
    def open(request: ModelRequest) -> AsyncIterator[Chunk]:
        raise ValueError("boom")

    async with scripted([]) as agent:
        agent.model = Adapter(open)
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert types(agent.session)[-3:] == ["request/context", "step/end", "turn/end"]


async def test_chunks_behind_the_finish_are_not_read() -> None:
    over: list[str] = []

    async def open(request: ModelRequest) -> AsyncIterator[Chunk]:
        try:
            yield TextDelta("a")
            yield Finish("stop")
            over.append("read on")
        finally:
            over.append("closed")

    async with scripted([]) as agent:
        agent.model = Adapter(open)
        assert (await agent.prompt("x")).text == "a"
    assert over == ["closed"]


async def test_listeners_hear_the_frames_in_order_and_the_start_before_the_first_chunk() -> None:
    heard: list[str] = []

    async def open(request: ModelRequest) -> AsyncIterator[Chunk]:
        await checkpoint()
        heard.append("asked")
        yield TextDelta("a")
        yield Finish("stop")

    async with scripted([]) as agent:
        agent.model = Adapter(open)
        agent.on("agent/assistant-stream", lambda signal, _: heard.append(_frame(signal)))
        await agent.prompt("x")
    assert heard == ["start", "asked", "chunk 0 text_delta", "chunk 1 finish", "end 2 assistant/message"]


def _frame(signal: Signal) -> str:
    data = signal.data
    more = data["chunk"].type if data["frame"] == "chunk" else data.get("outcome", "")
    return f"{data['frame']} {data.get('index', '')} {more}".strip()


# -- stream hooks --------------------------------------------------------------------------------------


async def test_stream_hooks_wrap_the_chunks_and_come_to_their_end() -> None:
    order: list[str] = []

    def wrapper(name: str) -> Any:
        async def wrap(payload: Stream, next: Callable[[Stream], Awaitable[Chunks]]) -> Chunks:
            return each(await next(payload))

        async def each(chunks: Chunks) -> Chunks:
            async for chunk in chunks:
                yield TextDelta(f"{chunk.text}{name}", chunk.block) if isinstance(chunk, TextDelta) else chunk
            order.append(f"{name} over")

        return wrap

    _, (turn,) = await run([Reply("a")], hooks={"stream": [wrapper("1"), wrapper("2")]})
    assert turn.text == "a21"
    assert order == ["2 over", "1 over"]


async def test_a_stream_hook_may_answer_without_the_model() -> None:
    async def cached() -> Chunks:
        yield TextDelta("cached")
        yield Finish("stop")

    async def wrap(payload: Stream, next: Any) -> Chunks:
        return cached()

    _, (turn,) = await run([], hooks={"stream": [wrap]})
    assert turn.text == "cached"


async def test_a_failure_of_the_provider_is_a_finish_for_hooks_and_their_own_ends_the_turn() -> None:
    seen: list[Chunk] = []

    async def wrap(payload: Stream, next: Callable[[Stream], Awaitable[Chunks]]) -> Chunks:
        return each(await next(payload))

    async def each(chunks: Chunks) -> Chunks:
        async for chunk in chunks:
            seen.append(chunk)
            if len(seen) > 3:
                raise ValueError("mine")
            yield chunk

    agent, (turn,) = await run([ConnectionError("reset"), "again"], hooks={"stream": [wrap]})
    assert seen[0] == Finish("error", Failure("connection", message="reset"))
    assert turn.reason == "error"
    assert str(turn.error) == "mine"
    assert types(agent.session)[-3:] == ["assistant/attempt", "step/end", "turn/end"]


def opened(error: Exception | None) -> Adapter:
    """Return a model whose stream says half of it, and then raises or just ends."""

    async def chunks(_: ModelRequest) -> Chunks:
        yield TextDelta("half")
        if error is not None:
            raise error

    return Adapter(chunks)


async def test_hooks_see_a_stream_that_just_ends_as_it_is_and_it_is_an_answer() -> None:
    seen: list[Chunk] = []

    async def wrap(payload: Stream, next: Callable[[Stream], Awaitable[Chunks]]) -> Chunks:
        return each(await next(payload))

    async def each(chunks: Chunks) -> Chunks:
        async for chunk in chunks:
            seen.append(chunk)
            yield chunk

    async with Agent(opened(None), hooks={"stream": [wrap]}) as agent:
        turn = await agent.prompt("x")
    assert seen == [TextDelta("half")]
    assert (turn.reason, turn.text) == ("completed", "half")


async def test_an_error_of_this_package_in_a_stream_is_no_failed_request() -> None:
    async def wrap(payload: Stream, next: Callable[[Stream], Awaitable[Chunks]]) -> Chunks:
        return await next(payload)

    ours = ScriptError("asked too often")
    for hooks in ({}, {"stream": [wrap]}):
        async with Agent(opened(ours), hooks=hooks) as agent:
            turn = await agent.prompt("x")
        assert turn.error is ours
        assert "llm/retry" not in types(agent.session)


# -- refusals --------------------------------------------------------------------------------------------


async def test_a_message_that_is_refused_is_unadmitted_and_those_before_it_are_not() -> None:
    def no_two(entry: Any) -> str | None:
        return "no" if entry.type == "user/message" and entry.data["message"].text == "two" else None

    async with scripted([]) as agent:
        agent.session.validate(no_two)
        turn = await agent.prompt([UserMessage("one"), UserMessage("two"), UserMessage("three")])
        assert isinstance(turn.error, AppendRefused)
        assert texts(agent.session, "user/message") == ["one"]
        assert [[message.text for message in item.messages] for item in turn.unadmitted] == [["two", "three"]]


async def test_settings_are_frozen_before_anybody_sees_them() -> None:
    agent, _ = await run(["a"], settings={"stop": ["x"]})
    assert isinstance(agent.model, ScriptedModel)
    (request,) = agent.model.requests
    assert isinstance(request.settings, Frozen)
    assert request.settings["stop"] == ("x",)
