"""Answers on the wire whose model used a tool of its provider."""

from typing import Any

from tests.machine.providers.loopback import Wire, events

RESULT: dict[str, Any] = {
    "type": "web_search_result", "url": "https://example.org/a", "title": "A", "encrypted_content": "sealed",
    "page_age": None,
}  # fmt: skip
CITATION: dict[str, Any] = {
    "type": "web_search_result_location", "cited_text": "It rains.", "url": "https://example.org/a",
    "title": "A", "encrypted_index": "index",
}  # fmt: skip
SEARCHED: dict[str, Any] = {
    "id": "ws_1", "type": "web_search_call", "status": "completed",
    "action": {"type": "search", "query": "weather"},
}  # fmt: skip


def anthropic_searched(stop: str = "end_turn") -> Wire:
    """Return an answer of Anthropic's: words, a search, what it found, and words that cite it."""
    usage = {
        "input_tokens": 5, "output_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
    }  # fmt: skip
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-sonnet-5",
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    asked: dict[str, Any] = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [RESULT]}
    cited: dict[str, Any] = {"type": "text", "text": "", "citations": []}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "I look. "}]),
        (asked, [{"type": "input_json_delta", "partial_json": '{"query": "weather"}'}]),
        (found, []),
        (cited, [{"type": "text_delta", "text": "It rains."},
                 {"type": "citations_delta", "citation": CITATION}]),
    ]  # fmt: skip
    if stop == "pause_turn":
        blocks.pop()
    frames: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for at, (block, deltas) in enumerate(blocks):
        frames.append({"type": "content_block_start", "index": at, "content_block": block})
        frames += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        frames.append({"type": "content_block_stop", "index": at})
    stopped = {"stop_reason": stop, "stop_sequence": None}
    frames.append({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 9}})
    return Wire(events(*frames, {"type": "message_stop"}, named=True))


def responses_searched() -> Wire:
    """Return an answer of OpenAI's: a search, and words."""
    answer: dict[str, Any] = {
        "id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-5", "output": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "in_progress",
    }  # fmt: skip
    item: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
    begun: dict[str, Any] = {**item, "status": "in_progress", "content": []}
    part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
    where = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    whole = {**item, "status": "completed", "content": [{**part, "text": "It rains."}]}
    early = {**SEARCHED, "status": "in_progress"}
    frames: list[dict[str, Any]] = [
        {"type": "response.created", "response": answer},
        {"type": "response.output_item.added", "output_index": 0, "item": early},
        {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
        {"type": "response.output_item.done", "output_index": 0, "item": SEARCHED},
        {"type": "response.output_item.added", "output_index": 1, "item": begun},
        {"type": "response.content_part.added", **where, "part": part},
        {"type": "response.output_text.delta", **where, "delta": "It rains.", "logprobs": []},
        {"type": "response.output_text.done", **where, "text": "It rains.", "logprobs": []},
        {"type": "response.output_item.done", "output_index": 1, "item": whole},
        {"type": "response.completed", "response": {**answer, "status": "completed"}},
    ]
    return Wire(events(*[{**each, "sequence_number": i} for i, each in enumerate(frames)], named=True))
