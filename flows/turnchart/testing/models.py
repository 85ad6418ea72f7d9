"""What every model must do, as one function that the author of an adapter calls in a test."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import anyio

from turnchart.machine.abort import AbortSignal
from turnchart.machine.agent import Agent
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.config import RetryPolicy
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import TurnchartError
from turnchart.machine.messages import (
    AssistantMessage,
    Failure,
    FailureKind,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from turnchart.machine.models import Chunk, Model, ModelRequest, PreparedCall, RequestConfig, TextDelta
from turnchart.machine.scripted import Reply
from turnchart.machine.stream import Answer
from turnchart.machine.tools import tool

MakeModel: TypeAlias = Callable[[Sequence[Reply | Failure]], Model]
"""Makes a model that answers so, one after the other."""
FAILURES: Final[tuple[FailureKind, ...]] = (
    "rate_limit", "overloaded", "server_error", "auth", "invalid_request", "no_model", "quota",
    "context_window",
)  # fmt: skip
"""How a request can fail at every provider."""
PATIENCE: Final = 10.0
"""Seconds after which a check counts as hung."""
FOREVER: Final = 3600.0
_PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def check_model(make: MakeModel, *, thinking: bool = True, backend: str = "asyncio") -> None:
    """Try what the driver asks of a model.

        def test_my_model():
            check_model(lambda replies: MyModel(server_that_answers(replies)))

    Args:
        make: Makes a model, of a server that the test plays; called at least once for each check. A ``Reply``
            says what is answered, a ``Failure`` of one of ``FAILURES`` how a request fails. A long delay
            among the chunks of a reply means that nothing more comes.
        thinking: Its thoughts can be read.
        backend: ``asyncio`` or ``trio``.

    Raises:
        AssertionError: If the model does something else; the message says which rule it breaks.
    """
    checks = [
        _names_itself, _prepares_without_asking, _streams_once, _says_a_text, _says_it_in_pieces,
        _asks_for_tools, _says_why_it_ends, _counts_tokens, _fails_in_band, _reads_a_conversation,
        _is_left_at_any_time, _is_cancelled_at_once, _answers_several_at_once, _carries_a_turn,
        _can_be_used_again,
    ]  # fmt: skip
    if thinking:
        checks.append(_thinks)
    for check in checks:
        try:
            anyio.run(_within, check, make, backend=backend)
        except AssertionError:
            raise
        except TimeoutError as error:
            raise AssertionError(f"{check.__doc__} It took longer than {PATIENCE:g} s") from error
        except Exception as error:
            raise AssertionError(f"{check.__doc__} It raised {error!r}") from error


async def _within(check: "Callable[[MakeModel], Awaitable[None]]", make: MakeModel) -> None:
    with anyio.fail_after(PATIENCE):
        await check(make)


def _say(holds: object, rule: str) -> None:
    if not holds:
        raise AssertionError(rule)


# -- asking -------------------------------------------------------------------------------------------

_SPEC: Final = Frozen(
    name="add", description="Add two numbers.",
    schema=Frozen(
        type="object", required=("a", "b"),
        properties=Frozen(a=Frozen(type="integer"), b=Frozen(type="integer")),
    ),
)  # fmt: skip


async def _prepared(model: Model) -> PreparedCall:
    return await model.prepare(RequestConfig(model.id), AbortSignal())


def _request(call: PreparedCall, messages: Sequence[Message] = (UserMessage("hi"),)) -> ModelRequest:
    config = call.config
    return ModelRequest(
        config.model, "Be brief.", tuple(messages), (_SPEC,), config.settings, config.thinking, AbortSignal(),
        SYSTEM_CLOCK, "s1", 1, 1, 1,
    )  # fmt: skip


async def _chunks(model: Model, messages: Sequence[Message] = (UserMessage("hi"),)) -> list[Chunk]:
    call = await _prepared(model)
    return [chunk async for chunk in call.stream(_request(call, messages))]


async def _answer(model: Model, messages: Sequence[Message] = (UserMessage("hi"),)) -> Answer:
    answer = Answer()
    for i, chunk in enumerate(await _chunks(model, messages)):
        _say(answer.finish is None, "`finish` is the last chunk")
        answer.add(chunk, float(i))
    _say(answer.finish is not None, "a stream that raises nothing ends with `finish`")
    return answer


async def _closed(model: Model) -> None:
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()


async def _said(model: Model, messages: Sequence[Message] = (UserMessage("hi"),)) -> AssistantMessage:
    answer = await _answer(model, messages)
    await _closed(model)
    _say(answer.failure is None, f"a good answer is no failure, but it was {answer.failure}")
    return answer.message(model.id, 1.0, "c")


# -- the rules ----------------------------------------------------------------------------------------


async def _names_itself(make: MakeModel) -> None:
    """A model has an id that stays."""
    model = make([Reply("hi")])
    _say(isinstance(model, Model), "a model has `id` and `prepare`")  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
    _say(isinstance(model.id, str) and model.id, "a model has an `id`, a text")  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign


async def _prepares_without_asking(make: MakeModel) -> None:
    """`prepare` sends nothing: a call that is never streamed takes no answer."""
    model = make([Reply("the first")])
    first = await _prepared(model)
    _say(first.config.model == model.id, "a prepared call keeps the id of the model that was asked for")
    said = await _said(model)
    _say(said.text == "the first", "`prepare` sends nothing: a call that is never streamed takes no answer")


async def _streams_once(make: MakeModel) -> None:
    """A prepared call is streamed once."""
    model = make([Reply("hi"), Reply("again")])
    call = await _prepared(model)
    request = _request(call)
    async for _ in call.stream(request):
        pass
    try:
        call.stream(request)
    except TurnchartError:
        await _closed(model)
        return
    raise AssertionError("a prepared call is streamed once; the second time raises TurnchartError")


async def _says_a_text(make: MakeModel) -> None:
    """A text comes whole."""
    text = "Grüße, \N{SNOWMAN} \U0001f600\n\n  two lines"
    said = await _said(make([Reply(text)]))
    _say(said.text == text, f"the text of an answer comes whole, not as {said.text!r}")
    _say(said.stop_reason == "stop", "an answer that is over ends with `stop`")


async def _says_it_in_pieces(make: MakeModel) -> None:
    """A text comes in pieces, as they are sent."""
    chunks = await _chunks(model := make([Reply(chunks=["one ", "two ", "three"])]))
    await _closed(model)
    parts = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
    _say("".join(parts) == "one two three", "the pieces of a text come in order, none lost and none twice")
    _say(len(parts) >= 3, "pieces are passed on as they come")


async def _thinks(make: MakeModel) -> None:
    """A thought is told from the answer."""
    said = await _said(make([Reply("42", thinking="Six times seven.")]))
    kinds = [part["type"] for part in said.content]
    _say(kinds == ["thinking", "text"], f"a thought comes before what it leads to, not as {kinds}")
    _say(said.content[0]["thinking"] == "Six times seven.", "a thought comes whole")
    _say(said.text == "42", "a thought is no text")


_CALLS: Final = (
    ToolCall("add", {"a": 1, "b": 2}, id="call_1"),
    ToolCall("add", {"a": 3, "b": 4, "note": "Grüße"}, id="call_2"),
)


async def _asks_for_tools(make: MakeModel) -> None:
    """Calls come with id, name and arguments, in order."""
    said = await _said(make([Reply("I add.", tool_calls=_CALLS)]))
    found = [(call.id, call.name, json.dumps(call.arguments)) for call in said.tool_calls]
    wanted = [(call.id, call.name, json.dumps(call.arguments)) for call in _CALLS]
    _say(found == wanted, f"calls come with id, name and arguments, in order: {found}")
    _say(said.stop_reason == "tool_calls", "an answer that asks for tools ends with `tool_calls`")
    _say(said.text == "I add.", "an answer may say something and ask for tools")


async def _says_why_it_ends(make: MakeModel) -> None:
    """An answer that is too long ends with `max_tokens`."""
    said = await _said(make([Reply("half an", finish="max_tokens")]))
    _say(said.stop_reason == "max_tokens", "an answer that is too long ends with `max_tokens`")
    _say(said.text == "half an", "what came of a long answer is kept")


async def _counts_tokens(make: MakeModel) -> None:
    """Tokens are reported: those read from a cache are not counted as input again."""
    said = await _said(make([Reply("hi", usage={"input": 70, "output": 5, "cache_read": 30})]))
    found = {name: said.usage.get(name) for name in ("input", "output", "cache_read")}
    _say(
        found == {"input": 70, "output": 5, "cache_read": 30},
        f"tokens are reported, those of a cache not as input again: {found}",
    )


async def _fails_in_band(make: MakeModel) -> None:
    """A request that fails ends in `finish` with a failure of its kind."""
    for kind in FAILURES:
        model = make([Failure(kind, retry_after=7 if kind == "rate_limit" else None)])
        failure = (await _answer(model)).failure
        await _closed(model)
        _say(failure is not None, f"a request that fails with {kind} ends in a `finish` that says so")
        assert failure is not None
        _say(
            failure.kind == kind, f"a request that fails with {kind} is not a failure of kind {failure.kind}"
        )
        wait = failure.retry_after
        _say(kind != "rate_limit" or wait == 7, f"`retry_after` is what the provider asked for, not {wait}")


async def _reads_a_conversation(make: MakeModel) -> None:
    """A model reads all that a conversation can hold, also what another model said."""
    told: list[Message] = [
        UserMessage([Text("What is this?"), Image(_PIXEL)]),
        AssistantMessage([Thinking("Hm.", "theirs"), Text("A pixel."), *_CALLS], model="other:model"),
        ToolResultMessage("call_1", "add", "3"),
        ToolResultMessage("call_2", "add", [Text("broken"), Image(_PIXEL)], is_error=True),
        UserMessage("Go on."),
        UserMessage("And quickly."),
        AssistantMessage([ToolCall("gone", {"x": [1, None]}, id="c1.1.0")], model="other:model"),
        ToolResultMessage("c1.1.0", "gone", ""),
        AssistantMessage("Well.", model="other:model", stop_reason="aborted"),
        UserMessage("So?"),
    ]
    said = await _said(make([Reply("So.")]), told)
    _say(said.text == "So.", "a model reads all that a conversation can hold, also what another model said")


async def _is_left_at_any_time(make: MakeModel) -> None:
    """Closing a stream early raises nothing, and the next request works."""
    model = make([Reply(chunks=["one", FOREVER, "two"]), Reply("next")])
    await _first_piece(model, None)
    said = await _said(model)
    _say(said.text == "next", "after a stream that was closed early, the next request works")


async def _is_cancelled_at_once(make: MakeModel) -> None:
    """A stream that is waited for can be cancelled, and what came is kept."""
    model = make([Reply(chunks=["partial", FOREVER, "never"]), Reply("next")])
    answer = Answer()
    with anyio.CancelScope() as scope:
        await _first_piece(model, scope, answer)
    _say(scope.cancelled_caught, "a cancelled stream passes the cancellation on")
    _say(answer.message(model.id, 1.0, "c", interrupted=True).text == "partial", "what came is kept")
    said = await _said(model)
    _say(said.text == "next", "after a stream that was cancelled, the next request works")


async def _first_piece(model: Model, cut: anyio.CancelScope | None, answer: Answer | None = None) -> None:
    """Read the first piece of text, then leave; with ``cut``, wait for more and be cancelled."""
    call = await _prepared(model)
    stream = call.stream(_request(call))
    try:
        async for chunk in stream:
            if answer is not None:
                answer.add(chunk, 1.0)
            if chunk.type == "text_delta":
                if cut is None:
                    break
                cut.cancel()
    finally:
        await stream.aclose()  # type: ignore[attr-defined]  # what the driver does


async def _answers_several_at_once(make: MakeModel) -> None:
    """One model streams several answers at the same time."""
    model = make([Reply(f"answer {i}") for i in range(8)])
    found: list[str] = []

    async def ask() -> None:
        answer = await _answer(model)
        found.append(answer.message(model.id, 1.0, "c").text)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(ask)
    await _closed(model)
    _say(
        sorted(found) == [f"answer {i}" for i in range(8)], "a model streams several answers at the same time"
    )


async def _carries_a_turn(make: MakeModel) -> None:
    """An agent comes through a turn with a failure, tools and an answer."""

    @tool
    async def add(a: int, b: int, note: str = "") -> int:
        """Add two numbers."""
        return a + b + len(note)

    script: list[Reply | Failure] = [Failure("overloaded"), Reply(tool_calls=_CALLS), Reply("3 and 12")]
    retry = RetryPolicy(base_delay=0, max_delay=0)
    async with Agent(model=make(script), tools=[add], retry=retry) as agent:
        turn = await agent.prompt("Add.")
        results = [each.text for each in agent.session.context() if each.role == "tool_result"]
    _say(turn.ok and turn.text == "3 and 12", f"an agent comes through a turn, but it ended: {turn.reason}")
    _say(results == ["3", "12"], "tools get the arguments that the model gave")


async def _can_be_used_again(make: MakeModel) -> None:
    """A model that was closed can be used again."""
    model = make([Reply("one"), Reply("two")])
    first = await _said(model)  # it is closed afterwards
    second = await _said(model)
    _say((first.text, second.text) == ("one", "two"), "a model that was closed can be used again")
