"""The streaming formats of four providers: what a reply or a failure looks like on the wire."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.machine.providers.loopback import HOLD, Wire, events, refused

from turnchart.machine import Failure, Reply, ToolCall
from turnchart.machine.models import TextDelta

Frames = Callable[[Reply], list[Any]]

SECONDS_THAT_HOLD = 60
"""A delay in a reply that is this long means: nothing more comes."""


def pieces(reply: Reply) -> list[Any]:
    """Return the text of a reply in the pieces that it comes in; HOLD where nothing more comes."""
    if reply.chunks is None:
        return [reply.text] if reply.text else []
    found: list[Any] = []
    for each in reply.chunks:
        if isinstance(each, str | TextDelta):
            found.append(each if isinstance(each, str) else each.text)
        elif isinstance(each, int | float) and each >= SECONDS_THAT_HOLD:
            found.append(HOLD)
    return found


def halves(call: ToolCall) -> list[str]:
    """Return the arguments of a call as text, in two pieces."""
    text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def ended(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if reply.tool_calls else "stop")


def used(reply: Reply) -> tuple[int, int, int, int]:
    usage: Mapping[str, Any] = reply.usage or {}
    names = ("input", "output", "cache_read", "cache_write")
    counts = [usage.get(name, 0) for name in names]
    return counts[0], counts[1], counts[2], counts[3]


def held(items: Iterator[Any], *, named: bool = False, done: bool = False) -> list[Any]:
    """Return events, broken off where one of them is HOLD."""
    found: list[Any] = []
    for item in items:
        if item is HOLD:
            return [*found, HOLD]
        found += events(item, named=named)
    return [*found, b"data: [DONE]\n\n"] if done else found


# -- OpenAI, chat completions --------------------------------------------------------------------------


def chat(reply: Reply) -> list[Any]:
    return held(_chat(reply), done=True)


def _chat(reply: Reply) -> Iterator[Any]:
    reasons = {"max_tokens": "length", "tool_calls": "tool_calls", "stop": "stop"}

    def chunk(delta: Any, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**_CHAT, "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    if reply.thinking:
        yield chunk({"reasoning_content": reply.thinking})
    for piece in pieces(reply):
        yield HOLD if piece is HOLD else chunk({"content": piece})
    for i, call in enumerate(reply.tool_calls):
        first, second = halves(call)
        begun = {"index": i, "id": call.id, "type": "function"}
        yield chunk({"tool_calls": [{**begun, "function": {"name": call.name, "arguments": first}}]})
        yield chunk({"tool_calls": [{"index": i, "function": {"arguments": second}}]})
    yield chunk({}, reasons[ended(reply)])
    if reply.usage:
        given, out, read, _ = used(reply)
        counts = {
            "prompt_tokens": given + read, "completion_tokens": out, "total_tokens": given + read + out,
            "prompt_tokens_details": {"cached_tokens": read},
        }  # fmt: skip
        yield {**_CHAT, "choices": [], "usage": counts}


_CHAT = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "tiny"}


# -- OpenAI, responses ---------------------------------------------------------------------------------


def responses(reply: Reply) -> list[Any]:
    return held(_numbered(_responses(reply)), named=True)


def _numbered(items: Iterator[Any]) -> Iterator[Any]:
    for i, item in enumerate(items):
        yield item if item is HOLD else {**item, "sequence_number": i}


def _responses(reply: Reply) -> Iterator[Any]:
    item: dict[str, Any]
    yield {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress"}}
    at = 0
    if reply.thinking:
        item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}
        yield {"type": "response.output_item.added", "output_index": at, "item": item}
        where = {"item_id": "rs_1", "output_index": at, "summary_index": 0}
        blank = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **where, "part": blank}
        yield {"type": "response.reasoning_summary_text.delta", **where, "delta": reply.thinking}
        full = {**item, "summary": [{"type": "summary_text", "text": reply.thinking}]}
        yield {"type": "response.output_item.done", "output_index": at, "item": full}
        at += 1
    if reply.text or reply.chunks:
        item = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        yield {"type": "response.output_item.added", "output_index": at, "item": item}
        where = {"item_id": "msg_1", "output_index": at, "content_index": 0}
        part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", **where, "part": part}
        text = ""
        for piece in pieces(reply):
            if piece is HOLD:
                yield HOLD
            text += piece
            yield {"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []}
        yield {"type": "response.output_text.done", **where, "text": text, "logprobs": []}
        whole = {**item, "status": "completed", "content": [{**part, "text": text}]}
        yield {"type": "response.output_item.done", "output_index": at, "item": whole}
        at += 1
    for call in reply.tool_calls:
        yield from _function(call, at)
        at += 1
    yield _responded(reply)


def _function(call: ToolCall, at: int) -> Iterator[Any]:
    item = {
        "id": f"fc_{call.id}", "type": "function_call", "status": "in_progress", "call_id": call.id,
        "name": call.name, "arguments": "",
    }  # fmt: skip
    yield {"type": "response.output_item.added", "output_index": at, "item": item}
    for half in halves(call):
        yield {
            "type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": at,
            "delta": half,
        }  # fmt: skip
    whole = {**item, "status": "completed", "arguments": "".join(halves(call))}
    yield {"type": "response.output_item.done", "output_index": at, "item": whole}


def _responded(reply: Reply) -> dict[str, Any]:
    given, out, read, write = used(reply)
    usage = {
        "input_tokens": given + read + write, "output_tokens": out,
        "total_tokens": given + read + write + out,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
        "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    cut = ended(reply) == "max_tokens"
    done = {
        **_RESPONSE,
        "status": "incomplete" if cut else "completed",
        "usage": usage if reply.usage else None,
    }
    if cut:
        done["incomplete_details"] = {"reason": "max_output_tokens"}
    return {"type": "response.incomplete" if cut else "response.completed", "response": done}


_RESPONSE: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-5", "output": [],
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
}  # fmt: skip


# -- Anthropic, messages -------------------------------------------------------------------------------


def anthropic(reply: Reply) -> list[Any]:
    return held(_anthropic(reply), named=True)


def _anthropic(reply: Reply) -> Iterator[Any]:
    reasons = {"max_tokens": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn"}
    given, out, read, write = used(reply)
    usage = {
        "input_tokens": given, "output_tokens": 0, "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
    }  # fmt: skip
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-sonnet-5",
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    at = 0

    def delta(index: int, **fields: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    if reply.thinking:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        yield {"type": "content_block_start", "index": at, "content_block": block}
        yield delta(at, type="thinking_delta", thinking=reply.thinking)
        yield delta(at, type="signature_delta", signature="signed")
        yield {"type": "content_block_stop", "index": at}
        at += 1
    if reply.text or reply.chunks:
        yield {"type": "content_block_start", "index": at, "content_block": {"type": "text", "text": ""}}
        for piece in pieces(reply):
            yield HOLD if piece is HOLD else delta(at, type="text_delta", text=piece)
        yield {"type": "content_block_stop", "index": at}
        at += 1
    for call in reply.tool_calls:
        asked: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield {"type": "content_block_start", "index": at, "content_block": asked}
        for half in halves(call):
            yield delta(at, type="input_json_delta", partial_json=half)
        yield {"type": "content_block_stop", "index": at}
        at += 1
    stopped = {"stop_reason": reasons[ended(reply)], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": {"output_tokens": out}}
    yield {"type": "message_stop"}


# -- Google, generateContent ---------------------------------------------------------------------------


def google(reply: Reply) -> list[Any]:
    return held(_google(reply))


def _google(reply: Reply) -> Iterator[Any]:
    def candidate(*parts: Any, finish: str | None = None) -> dict[str, Any]:
        one: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
        if finish:
            one["finishReason"] = finish
        return {"candidates": [one], "modelVersion": "gemini-2.5-flash", "responseId": "r1"}

    if reply.thinking:
        yield candidate({"text": reply.thinking, "thought": True})
    for piece in pieces(reply):
        yield HOLD if piece is HOLD else candidate({"text": piece})
    for call in reply.tool_calls:
        asked = {"id": call.id, "name": call.name, "args": call.arguments}
        yield candidate({"functionCall": asked, "thoughtSignature": "c2lnbmVk"})
    last = candidate(finish="MAX_TOKENS" if ended(reply) == "max_tokens" else "STOP")
    if reply.usage:
        given, out, read, _ = used(reply)
        last["usageMetadata"] = {
            "promptTokenCount": given + read, "candidatesTokenCount": out, "cachedContentTokenCount": read,
            "totalTokenCount": given + read + out,
        }  # fmt: skip
    yield last


# -- failures ------------------------------------------------------------------------------------------


def _openai_error(type: str, code: str | None, message: str) -> Any:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def _anthropic_error(type: str, code: str | None, message: str) -> Any:
    del code
    return {"type": "error", "error": {"type": type, "message": message}}


_STATUS: Mapping[str, int] = {
    "rate_limit": 429, "overloaded": 529, "server_error": 500, "auth": 401, "invalid_request": 400,
    "no_model": 404, "quota": 429, "context_window": 400,
}  # fmt: skip
_OPENAI: Mapping[str, tuple[str, str | None, str]] = {
    "rate_limit": ("requests", "rate_limit_exceeded", "Rate limit reached"),
    "overloaded": ("server_error", "overloaded", "The engine is overloaded"),
    "server_error": ("server_error", None, "The server had an error"),
    "auth": ("invalid_request_error", "invalid_api_key", "Incorrect API key provided"),
    "invalid_request": ("invalid_request_error", None, "Invalid value for 'temperature'"),
    "no_model": ("invalid_request_error", "model_not_found", "The model does not exist"),
    "quota": ("insufficient_quota", "insufficient_quota", "You exceeded your current quota"),
    "context_window": (
        "invalid_request_error", "context_length_exceeded",
        "This model's maximum context length is 10 tokens",
    ),
}  # fmt: skip
_ANTHROPIC: Mapping[str, tuple[str, str | None, str]] = {
    "rate_limit": ("rate_limit_error", None, "This request would exceed your rate limit"),
    "overloaded": ("overloaded_error", None, "Overloaded"),
    "server_error": ("api_error", None, "Internal server error"),
    "auth": ("authentication_error", None, "invalid x-api-key"),
    "invalid_request": ("invalid_request_error", None, "temperature: range 0..1"),
    "no_model": ("not_found_error", None, "model: nothing"),
    "quota": ("billing_error", None, "Your credit is used up"),
    "context_window": ("invalid_request_error", None, "prompt is too long: 210000 tokens > 200000 maximum"),
}
_GOOGLE: Mapping[str, tuple[int, str, str]] = {
    "rate_limit": (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted"),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "server_error": (500, "INTERNAL", "An internal error has occurred"),
    "auth": (403, "PERMISSION_DENIED", "The caller does not have permission"),
    "invalid_request": (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    "no_model": (404, "NOT_FOUND", "models/nothing is not found"),
    "quota": (400, "FAILED_PRECONDITION", "Please enable billing on your project"),
    "context_window": (
        400, "INVALID_ARGUMENT",
        "The input token count (9) exceeds the maximum number of tokens allowed (5).",
    ),
}  # fmt: skip


def failed(format: str, failure: Failure) -> Wire:
    """Return how a provider answers where a request fails so."""
    waits = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
    if format == "google":
        status, name, message = _GOOGLE[failure.kind]
        return refused(status, {"error": {"code": status, "status": name, "message": message}}, waits)
    if format == "anthropic":
        said = _anthropic_error(*_ANTHROPIC[failure.kind])
        return refused(402 if failure.kind == "quota" else _STATUS[failure.kind], said, waits)
    return refused(_STATUS[failure.kind], _openai_error(*_OPENAI[failure.kind]), waits)


FORMATS: Mapping[str, tuple[str, str, Frames]] = {
    "chat": ("openai:tiny", "/v1", chat),
    "responses": ("openai-responses:gpt-5", "/v1", responses),
    "anthropic": ("anthropic:claude-sonnet-5", "", anthropic),
    "google": ("google:gemini-2.5-flash", "", google),
}
"""By format: the id of a model that speaks it, what its address ends in, and the frames of a reply."""


def wires(format: str, replies: Sequence[Any]) -> list[Wire]:
    """Return a script as this provider would send it."""
    frames = FORMATS[format][2]
    return [failed(format, each) if isinstance(each, Failure) else Wire(frames(each)) for each in replies]
