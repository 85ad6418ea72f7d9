"""Asking a model of a loopback server once, without an agent."""

from collections.abc import Sequence
from typing import Any

from tests.machine.providers.loopback import Loopback
from tests.machine.providers.wire_formats import FORMATS

from turnchart.machine import UserMessage
from turnchart.machine.abort import AbortSignal
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.messages import Message
from turnchart.machine.models import ModelRequest, RequestConfig
from turnchart.machine.providers import ProviderModel
from turnchart.machine.stream import Answer

KEY = "key-of-the-tests-0123456789"


def model_of(format: str, server: Loopback, **given: Any) -> ProviderModel:
    """Return a model that speaks this format to the server."""
    id, path, _ = FORMATS[format]
    reached: dict[str, Any] = {"base_url": server.url + path, "api_key": KEY}
    return ProviderModel(id, **{**reached, **given})


async def ask(
    model: ProviderModel,
    messages: Sequence[Message] = (UserMessage("hi"),),
    *,
    settings: dict[str, Any] | None = None,
    thinking: str | None = None,
    tools: Sequence[Frozen] = (),
) -> Answer:
    """Return what the model streams; its connections are closed."""
    config = RequestConfig(model.id, freeze(settings or {}), thinking)
    call = await model.prepare(config, AbortSignal())
    request = ModelRequest(
        model.id, "Be brief.", messages, tuple(tools), config.settings, thinking, AbortSignal(), SYSTEM_CLOCK
    )
    answer = Answer()
    async for chunk in call.stream(request):
        assert answer.finish is None, "finish is the last chunk"
        answer.add(chunk, 1.0)
    await model.aclose()
    return answer
