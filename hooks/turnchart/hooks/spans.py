"""Spans of OpenTelemetry, and what agents say in the words of its GenAI conventions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from turnchart.hooks.builtin._secrets import redact
from turnchart.machine.characters import whole
from turnchart.machine.errors import TurnchartError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

Attributes: TypeAlias = "dict[str, AttributeValue]"
NAME: Final = "turnchart"
INSTALL: Final = "pip install 'turnchart[otel]'"
SCHEMA: Final = "https://opentelemetry.io/schemas/1.37.0"

FINISH: Final[Mapping[str, str]] = {"max_tokens": "length", "tool_calls": "tool_call"}
"""Where our reasons to stop have other names there."""
_PROVIDERS: Final[Mapping[str, str]] = {
    "azure": "azure.ai.openai", "bedrock": "aws.bedrock", "google": "gcp.gemini", "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai", "grok": "x_ai", "mistral": "mistral_ai", "openai-chat": "openai",
    "openai-responses": "openai", "xai": "x_ai",
}  # fmt: skip
"""Where our names of providers differ from theirs."""
_SETTINGS: Final = (
    "max_tokens", "temperature", "top_p", "top_k", "seed", "stop_sequences", "presence_penalty",
    "frequency_penalty",
)  # fmt: skip
_USAGE: Final[Mapping[str, str]] = {
    "input": "gen_ai.usage.input_tokens", "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
}  # fmt: skip


class Maker:
    """Makes and ends spans.

    Args:
        provider: Where they go; None: the global one.
        now: Unix seconds.

    Raises:
        TurnchartError: If OpenTelemetry is not installed.
    """

    def __init__(self, provider: TracerProvider | None, now: Callable[[], float]) -> None:
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise TurnchartError(f"tracing needs OpenTelemetry: {INSTALL}") from error
        self._api = trace
        self._provider = provider
        self._tracer = trace.get_tracer(NAME, None, provider, SCHEMA)
        self.now = now

    def at(self, now: Callable[[], float]) -> Maker:
        """Return one like this with another clock."""
        return Maker(self._provider, now)

    def start(
        self,
        name: str,
        attributes: Attributes,
        parent: Span | None = None,
        *,
        time: float | None = None,
        client: bool = False,
    ) -> Span:
        """Start a span below another one, or below the one that is current.

        Args:
            name: Of the span.
            attributes: Of the span.
            parent: None: the current span.
            time: In Unix seconds; None: now.
            client: It is a request to somewhere else.
        """
        kind = self._api.SpanKind.CLIENT if client else self._api.SpanKind.INTERNAL
        context = None if parent is None else self._api.set_span_in_context(parent)
        return self._tracer.start_span(
            name, context, kind, attributes, start_time=_nanos(self.now() if time is None else time)
        )

    def end(
        self, span: Span, attributes: Attributes, wrong: str = "", why: str = "", *, time: float | None = None
    ) -> None:
        """End a span.

        Args:
            span: Which.
            attributes: What it came to.
            wrong: The type of an error; empty for none.
            why: The error in words; empty where they may say too much.
            time: In Unix seconds; None: now.
        """
        span.set_attributes(attributes)
        if wrong:
            span.set_attribute("error.type", wrong)
            span.set_status(self._api.StatusCode.ERROR, redact(why) or None)
        span.end(_nanos(self.now() if time is None else time))

    def current(self, span: Span | None) -> AbstractContextManager[object]:
        """Make a span the current one while a block runs."""
        if span is None:
            return nullcontext()
        return self._api.use_span(span, record_exception=False, set_status_on_exception=False)


def _nanos(time: float) -> int:
    return round(time * 1_000_000_000)


def model_name(id: str) -> str:
    """Return the name of a model without that of its provider."""
    return id.partition(":")[2] or id


def model_attributes(id: str) -> Attributes:
    """Return which model is asked, and where."""
    provider, is_there, name = id.partition(":")
    if not is_there:
        return {"gen_ai.provider.name": NAME, "gen_ai.request.model": id}
    return {"gen_ai.provider.name": _PROVIDERS.get(provider, provider), "gen_ai.request.model": name}


def settings_attributes(settings: Mapping[str, Any]) -> Attributes:
    """Return the sampling settings of a request."""
    given = {name: settings.get(name) for name in _SETTINGS}
    return {
        f"gen_ai.request.{name}": list(value) if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownArgumentType]  # foreign
        for name, value in given.items()
        if value is not None
    }


def usage_attributes(usage: Mapping[str, Any]) -> Attributes:
    """Return the tokens that were used. What was read from a cache or put into one counts as input too."""
    said: Attributes = {_USAGE[name]: count for name, count in usage.items() if name in _USAGE}
    if "input" in usage:
        read = sum(usage.get(name) or 0 for name in ("input", "cache_read", "cache_write"))
        said[_USAGE["input"]] = read
    return said


# -- what was said -----------------------------------------------------------------------------------


def as_json(value: object) -> str:
    """Return JSON on one line without secrets."""
    return redact(whole(json.dumps(value, ensure_ascii=False, default=str)))


def messages_json(messages: Iterable[Mapping[str, Any]]) -> str:
    """Return messages in the form of the conventions."""
    return as_json([_message(each) for each in messages])


def instructions_json(system: str) -> str:
    """Return a system prompt in the form of the conventions."""
    return as_json([{"type": "text", "content": system}] if system else [])


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool_result":
        response = [_part(block) for block in message["content"]]
        part = {"type": "tool_call_response", "id": message["call_id"], "response": response}
        return {"role": "tool", "parts": [part]}
    said: dict[str, Any] = {"role": message["role"], "parts": [_part(block) for block in message["content"]]}
    if message.get("stop_reason"):
        said["finish_reason"] = FINISH.get(message["stop_reason"], message["stop_reason"])
    return said


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"type": "text", "content": block["text"]}
        case "thinking":
            return {"type": "reasoning", "content": block["thinking"]}
        case "tool_call":
            return {name: block[name] for name in ("type", "id", "name", "arguments")}
        case kind:  # an image is too much for a trace
            return {"type": "blob", "modality": kind, "mime_type": block.get("media_type", "")}
