"""What comes over the wire becomes our chunks, however it is cut, and nothing of it is made up."""

import json
from typing import Any

import pytest
from pydantic_ai import messages as theirs
from pydantic_ai.usage import RequestUsage
from tests.machine.providers.asking import ask, model_of
from tests.machine.providers.loopback import RESET, Loopback, Wire, events, every_cut, refused
from tests.machine.providers.wire_formats import FORMATS

from turnchart.machine import Reply, ToolCall
from turnchart.machine.messages import ToolResultMessage, UserMessage
from turnchart.machine.providers import from_provider
from turnchart.machine.providers.answers import usage_of
from turnchart.machine.stream import Answer

FULL = Reply(
    "Hello there", thinking="Think.", tool_calls=[ToolCall("add", {"a": 1, "b": "ü"}, id="call_1")],
    usage={"input": 3, "output": 2},
)  # fmt: skip
_CHUNK: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
SHORT = Reply("Hello", usage={"input": 3, "output": 2})


@pytest.fixture(params=["asyncio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


async def answered(format: str, wire: Wire) -> Answer:
    with Loopback(wire) as server:
        return await ask(model_of(format, server))


def shown(answer: Answer) -> str:
    return answer.message("m", 1.0, "c", interrupted=True).text


@pytest.mark.parametrize("format", FORMATS)
async def test_a_stream_that_is_cut_anywhere_is_incomplete_and_keeps_what_came(format: str) -> None:
    frames = FORMATS[format][2](FULL)
    cuts = list(every_cut(frames))
    with Loopback(*[Wire(body) for _, body in cuts]) as server:
        texts: list[str] = []
        for count, _ in cuts:
            answer = await ask(model_of(format, server))
            failure = answer.failure
            if failure is None:  # all but the very end had come
                assert count >= len(frames) - 2
                assert answer.message("m", 1.0, "c").tool_calls == tuple(FULL.tool_calls)
                continue
            assert failure.kind == ("incomplete_stream" if count else "connection"), failure
            texts.append(shown(answer))
    assert texts[0] == ""
    assert texts[-1] == "Hello there"
    assert all("Hello there".startswith(text) for text in texts)


@pytest.mark.parametrize("format", FORMATS)
async def test_a_connection_that_is_reset_anywhere_makes_no_answer_up(format: str) -> None:
    frames = FORMATS[format][2](FULL)
    cuts = list(every_cut(frames, RESET))
    with Loopback(*[Wire(body) for _, body in cuts]) as server:
        for count, _ in cuts:
            answer = await ask(model_of(format, server))
            if answer.failure is None:
                assert count >= len(frames) - 2
                assert answer.message("m", 1.0, "c").tool_calls == tuple(FULL.tool_calls)
            else:
                assert answer.failure.kind in ("connection", "incomplete_stream")
                assert "Hello there".startswith(shown(answer))


@pytest.mark.parametrize("format", FORMATS)
async def test_a_slow_stream_is_whole(format: str) -> None:
    body: list[Any] = []
    for frame in FORMATS[format][2](FULL):
        body += [0.002, frame[:7], frame[7:]]
    answer = await answered(format, Wire(body))
    said = answer.message("m", 1.0, "c")
    assert (answer.failure, said.text, said.tool_calls) == (None, "Hello there", tuple(FULL.tool_calls))


BEGUN = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
NO_HTTP: list[list[Any]] = [
    [],
    [RESET],
    [b"\x16\x03\x01\x02\x00 this is TLS, or whatever"],
    [b"HTTP/1.1 OK 200\r\n\r\n"],
    [b"HTTP/1.1 200 OK\r\ncontent-type text/event-stream\r\n\r\n"],
    [BEGUN, b"zz\r\n"],
    [BEGUN, b"ffffff\r\ndata: "],
    [BEGUN.replace(b"transfer-encoding: chunked", b"content-length: 9"), b"data"],
    [BEGUN.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n"), b"5\r\nno gz\r\n0\r\n\r\n"],
]


@pytest.mark.parametrize("format", FORMATS)
async def test_what_is_no_http_is_a_failure_worth_a_retry(format: str) -> None:
    with Loopback(*[Wire(body, raw=True) for body in NO_HTTP]) as server:
        model = model_of(format, server)
        for body in NO_HTTP:
            failure = (await ask(model)).failure
            assert failure is not None
            assert (body, failure.kind) == (body, "connection"), "nothing of an answer had come"


@pytest.mark.parametrize("format", FORMATS)
async def test_an_end_that_nobody_announced_is_a_cut(format: str) -> None:
    frames = FORMATS[format][2](SHORT)
    text = next(i for i, frame in enumerate(frames) if b"Hello" in frame)
    answer = await answered(format, Wire(frames[: text + 1]))
    assert answer.failure is not None
    assert answer.failure.kind == "incomplete_stream"
    assert shown(answer) == "Hello"


@pytest.mark.parametrize("format", FORMATS)
async def test_a_stream_without_a_single_event_is_a_failure_worth_a_retry(format: str) -> None:
    answer = await answered(format, Wire([]))
    assert answer.failure is not None
    assert answer.failure.kind in ("incomplete_stream", "empty_response", "server_error")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("junk", [b"data: {not json\n\n", b"data: \xff\xfe\n\n", b'data: {"type": 7}\n\n'])
async def test_an_event_that_cannot_be_read_is_no_answer(format: str, junk: bytes) -> None:
    frames = FORMATS[format][2](SHORT)
    answer = await answered(format, Wire([frames[0], junk, *frames[1:]]))
    if answer.failure is None:  # what nobody knows may be passed over, but nothing else with it
        assert shown(answer) == "Hello"
    else:
        assert answer.failure.kind in ("incomplete_stream", "server_error")


@pytest.mark.parametrize("format", FORMATS)
async def test_bytes_may_come_one_by_one(format: str) -> None:
    whole = b"".join(FORMATS[format][2](FULL))
    answer = await answered(format, Wire([whole[i : i + 1] for i in range(len(whole))]))
    said = answer.message("m", 1.0, "c")
    assert (said.text, said.tool_calls) == ("Hello there", tuple(FULL.tool_calls))


@pytest.mark.parametrize("format", ["chat", "responses", "anthropic"])
async def test_an_error_within_a_stream_has_its_kind(format: str) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded", "code": "overloaded"}
    item = {"type": "error", "error": error, **(error if format == "responses" else {})}
    item["type"] = "error"
    frames = FORMATS[format][2](SHORT)
    answer = await answered(format, Wire([*frames[:1], *events(item, named=format != "chat")]))
    assert answer.failure is not None
    assert answer.failure.kind == "overloaded"


@pytest.mark.parametrize("format", FORMATS)
async def test_a_character_that_is_cut_in_two_is_one(format: str) -> None:
    call = ToolCall("add", {"\ud83d": ["\ude00"]}, id="call_1")
    reply = Reply(chunks=["It \ud83d", "\ude00 ", "\ud83d", "."], thinking="\ud83d", tool_calls=[call])
    frames = FORMATS[format][2](reply)
    with Loopback(Wire(frames), Wire(frames)) as server:
        model = model_of(format, server)
        said = (await ask(model)).message(model.id, 1.0, "c")
        assert said.text == "It \N{GRINNING FACE} \N{REPLACEMENT CHARACTER}."
        await ask(model, [said, UserMessage("and?")])
    assert "It \N{GRINNING FACE} " in str(server.heard[1].body)
    if format == "anthropic":
        assert "signed" in str(server.heard[1].body), "the thought still has its signature"


async def test_a_call_whose_arguments_come_among_those_of_another_keeps_them() -> None:
    def chunk(index: int, text: str, **more: str) -> dict[str, Any]:
        call = {"index": index, **more, "function": {"arguments": text, **({"name": "add"} if more else {})}}
        return {**_CHUNK, "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}

    end: dict[str, Any] = {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    items = [chunk(0, '{"a"', id="c0"), chunk(1, '{"b"', id="c1"), chunk(0, ": 1}"), chunk(1, ": 2}"), end]
    answer = await answered("chat", Wire(events(*items, done=True)))
    calls = answer.message("m", 1.0, "c").tool_calls
    assert [(call.id, call.arguments) for call in calls] == [("c0", {"a": 1}), ("c1", {"b": 2})]


async def test_arguments_that_are_no_json_stay_as_they_came() -> None:
    reply = Reply(tool_calls=[ToolCall("add", '{"a": 1', id="c0")])
    [call] = (await answered("chat", Wire(FORMATS["chat"][2](reply)))).message("m", 1.0, "c").tool_calls
    assert call.arguments == '{"a": 1'


BLOCKED: list[tuple[str, dict[str, Any]]] = [
    ("chat", {**_CHUNK, "choices": [{"index": 0, "delta": {"refusal": "No."}, "finish_reason": "stop"}]}),
    ("google", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
    ("google", {"candidates": [{"content": {"parts": []}, "finishReason": "SAFETY", "index": 0}]}),
]


@pytest.mark.parametrize(("format", "last"), BLOCKED)
async def test_what_the_provider_blocks_is_refused(format: str, last: dict[str, Any]) -> None:
    answer = await answered(format, Wire(events(last)))
    assert answer.failure is not None
    assert answer.failure.kind == "refused"


@pytest.mark.parametrize("format", FORMATS)
async def test_an_answer_without_content_is_empty(format: str) -> None:
    answer = await answered(format, Wire(FORMATS[format][2](Reply(""))))
    assert answer.failure is not None
    assert answer.failure.kind == "empty_response"


async def test_a_page_instead_of_a_stream_is_no_answer() -> None:
    for format in FORMATS:
        answer = await answered(format, Wire([b"<html>gateway</html>"], type="text/html"))
        assert answer.failure is not None
        assert answer.failure.kind in ("incomplete_stream", "server_error", "empty_response"), format
        answer = await answered(format, refused(502, "<html>bad gateway</html>"))
        assert answer.failure is not None
        assert answer.failure.kind == "server_error"


async def test_a_signed_thought_goes_back_to_its_model_over_the_wire() -> None:
    frames = FORMATS["anthropic"][2](FULL)
    with Loopback(Wire(frames), Wire(frames)) as server:
        model = model_of("anthropic", server)
        said = (await ask(model)).message(model.id, 1.0, "c")
        assert said.content[0]["signature"] == "signed"
        await ask(model, [said, ToolResultMessage("call_1", "add", "3")])
    told = server.heard[1].body["messages"][0]["content"]
    assert told[0] == {"type": "thinking", "thinking": "Think.", "signature": "signed"}


async def test_what_responses_seals_goes_back_with_its_ids() -> None:
    frames = FORMATS["responses"][2](FULL)
    with Loopback(Wire(frames), Wire(frames)) as server:
        model = model_of("responses", server)
        said = (await ask(model)).message(model.id, 1.0, "c")
        assert json.loads(json.dumps(said)), "what is kept is JSON"
        await ask(model, [said, ToolResultMessage("call_1", "add", "3")])
    items = {item.get("type", "message"): item for item in server.heard[1].body["input"]}
    assert items["reasoning"]["encrypted_content"] == "sealed"
    assert items["function_call"]["call_id"] == "call_1"
    assert items["function_call_output"]["call_id"] == "call_1"


def test_usage_counts_what_was_cached_once() -> None:
    given = RequestUsage(input_tokens=100, cache_read_tokens=30, cache_write_tokens=20, output_tokens=7)
    assert usage_of(given) == {"input": 50, "output": 7, "cache_read": 30, "cache_write": 20}
    assert usage_of(RequestUsage()) == {}


async def test_usage_that_is_told_again_and_again_counts_once() -> None:
    def chunk(text: str, out: int, finish: str | None = None) -> dict[str, Any]:
        usage = {"prompt_tokens": 5, "completion_tokens": out, "total_tokens": 5 + out}
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        return {**_CHUNK, "choices": [choice], "usage": usage}

    body = events(chunk("a", 1), chunk("b", 2), chunk("", 2, "stop"), done=True)
    with Loopback(Wire(body), Wire(body)) as server:
        model = model_of("chat", server)
        answer = await ask(model)
        assert answer.usage == {"input": 5, "output": 2}
        await ask(model, settings={"extra": {"extra_body": {"own": 1}}})
    assert [heard.body["stream_options"] for heard in server.heard] == [{"include_usage": True}] * 2
    assert server.heard[1].body["own"] == 1


async def test_the_cost_is_said_where_the_price_is_known() -> None:
    for format, known in (("chat", False), ("anthropic", True)):
        answer = await answered(format, Wire(FORMATS[format][2](SHORT)))
        assert answer.usage is not None
        assert ("cost" in answer.usage) is known
        assert answer.usage.get("cost", 1) > 0


def test_a_file_that_is_no_image_cannot_be_taken_over() -> None:
    told = theirs.ModelRequest([theirs.UserPromptPart([theirs.BinaryContent(b"x", media_type="audio/wav")])])
    with pytest.raises(ValueError, match="only text and images"):
        from_provider([told])
