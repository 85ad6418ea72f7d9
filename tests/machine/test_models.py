"""The contract of a model: chunks, requests, prepared calls, and what an adapter's exception means."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from turnchart.machine import Failure, Model, ModelRequest, PreparedCall, RequestFailed, ScriptedModel
from turnchart.machine.abort import AbortSignal
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import ScriptError, TurnchartError, UnknownModel
from turnchart.machine.models import (
    CHUNKS,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    RequestConfig,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
    failure_of,
)

EXAMPLES: list[Chunk] = [
    BlockStart("text"), TextDelta("a"), ThinkingDelta("b"), ToolCallDelta("{}"), BlockEnd(), UsageReport({}),
    Finish("stop"),
]  # fmt: skip


@pytest.mark.parametrize("chunk", EXAMPLES)
def test_a_chunk_knows_the_name_of_its_kind(chunk: Chunk) -> None:
    assert CHUNKS[chunk.type] is type(chunk)


def test_every_kind_has_an_example_here() -> None:
    assert {chunk.type for chunk in EXAMPLES} == CHUNKS.keys()


def request(config: RequestConfig) -> ModelRequest:
    """Return a request for a config."""
    return ModelRequest(
        config.model, "", (), (), config.settings, config.thinking, AbortSignal(), SYSTEM_CLOCK
    )  # fmt: skip


def prepared(config: RequestConfig) -> PreparedCall:
    async def stream(request: ModelRequest) -> AsyncIterator[Chunk]:
        yield TextDelta(request.model)

    return PreparedCall(config, stream)


async def test_a_prepared_call_streams_once() -> None:
    config = RequestConfig("m", Frozen(temperature=0))
    call = prepared(config)
    assert [chunk async for chunk in call.stream(request(config))] == [TextDelta("m")]
    with pytest.raises(TurnchartError, match="streamed already; prepare another one"):
        call.stream(request(config))


@pytest.mark.parametrize(
    "other",
    [RequestConfig("n"), RequestConfig("m", Frozen(temperature=1)), RequestConfig("m", Frozen(), "high")],
)
async def test_a_prepared_call_serves_its_own_config_only(other: RequestConfig) -> None:
    call = prepared(RequestConfig("m"))
    with pytest.raises(TurnchartError, match="made for another config"):
        call.stream(request(other))
    assert [chunk async for chunk in call.stream(request(RequestConfig("m")))] == [TextDelta("m")]


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (RequestFailed(Failure("quota", status=402)), Failure("quota", status=402)),
        (TimeoutError(), Failure("timeout", message="no answer in time")),
        (TimeoutError("slow"), Failure("timeout", message="slow")),
        (ConnectionResetError("reset"), Failure("connection", message="reset")),
        (ValueError("boom"), Failure("unknown", message="ValueError: boom")),
        (ScriptError("over"), None),
        (UnknownModel("none"), None),
    ],
)
def test_what_an_exception_of_an_adapter_means(error: Exception, failure: Failure | None) -> None:
    assert failure_of(error) == failure


def test_a_config_has_no_settings_unless_it_says_so() -> None:
    assert RequestConfig("m") == ("m", Frozen(), None)


def test_a_request_cannot_be_changed() -> None:
    made: Any = request(RequestConfig("m"))
    with pytest.raises(AttributeError):
        made.system = "other"


def test_whatever_has_an_id_and_prepares_is_a_model() -> None:
    assert isinstance(ScriptedModel(), Model)
    assert not isinstance(object(), Model)
