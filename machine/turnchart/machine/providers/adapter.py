"""One model of a provider, as the driver takes it, over ``pydantic_ai.direct``.

The client does not retry: the driver does, and logs it. A request that fails ends in a ``Finish`` with the
kind of its failure. Whoever stops reading closes the connection.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from turnchart.machine.abort import AbortSignal
from turnchart.machine.errors import UnknownModel
from turnchart.machine.json_parameters import plain_json
from turnchart.machine.messages import Failure
from turnchart.machine.models import Chunk, Finish, ModelRequest, PreparedCall, RequestConfig
from turnchart.machine.providers.routes import (
    OPENED,
    Connection,
    NoClient,
    NoKey,
    Route,
    connected,
    require,
    window_of,
)

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from turnchart.machine.providers.series import Series

T = TypeVar("T")
CLOSING: Final = 5.0
"""Seconds that closing a connection may take."""
MOST_SERIES: Final = 4
"""So many series of requests are kept: of an agent, of those that it hands work to, and of its hooks."""
IDLE: Final = 300.0
"""Seconds without a byte after which a stream counts as dead."""


class _Shared:
    """The models of one event loop: agents share their connections, and connect one at a time."""

    __slots__ = ("lock", "models")

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.models: dict[tuple[str, Route], Connection] = {}


_SHARED: RunVar[_Shared] = RunVar("turnchart.machine.providers")


class ProviderModel:
    """A model by its id: ``openai:gpt-5.2``, ``anthropic:claude-sonnet-5``, ``google:…``, ``ollama:…``.

    Agents that use the same model of the same route share connections, which close with the last of them.

    Attributes:
        id: ``provider:name``.
        route: Where it is reached, and with which key.
        idle_timeout: Seconds without a byte after which a stream has timed out.
    """

    __slots__ = ("_held", "_problem", "_series", "_window", "id", "idle_timeout", "route")

    def __init__(
        self,
        id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        idle_timeout: float = IDLE,
    ) -> None:
        """Name a model; nothing is reached, and no key is read, before it is used.

        Args:
            id: ``provider:name``.
            base_url: Instead of the provider's own address. With ``openai:`` the server is spoken to as most
                are that are not OpenAI's: chat completions.
            api_key: None reads it from the environment.
            api_key_env: The variable that holds the key; None: the usual one of the provider.
            idle_timeout: Seconds without a byte after which a stream has timed out.

        Raises:
            UnknownModel: If the extra ``providers`` is not installed, or has no such provider.
        """
        require(id)
        self.id = id
        self.route = Route(base_url, api_key, api_key_env)
        self.idle_timeout = idle_timeout
        self._held: Connection | None = None
        self._problem: Failure | None = None
        self._window: int | None = None
        """Of a model that lacks its key."""
        self._series: list[Series] = []

    def __repr__(self) -> str:
        return f"ProviderModel({self.id!r})"

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Bind one call; what can be known without asking is found here, and nothing is sent."""
        del abort
        held = await self._connection()
        if held is None:
            return PreparedCall(config, self._unreachable, context_window=self._window)
        model = held.model
        capabilities = {"images", "thinking"} if model.profile.get("supports_thinking") else {"images"}
        return PreparedCall(
            config, self._stream, context_window=model.context_window, capabilities=frozenset(capabilities)
        )

    async def aclose(self) -> None:
        """Give the connections back; those of running streams are closed with them. It can be used again."""
        held, self._held = self._held, None
        self._series = []
        if held is not None:
            await held.__aexit__(None, None, None)

    async def _connection(self) -> Connection | None:
        """Return the connection on this event loop; None where there can be none, for the known reason."""
        try:
            shared = _SHARED.get()
        except LookupError:
            shared = _Shared()
            _SHARED.set(shared)
        known = shared.models.get((self.id, self.route))
        if known is None or not known.usable:
            async with shared.lock:
                known = shared.models.get((self.id, self.route))
                if known is None or not known.usable:
                    known = await self._connected()
                if known is None:
                    return None
                shared.models[self.id, self.route] = known
        if self._held is not known:
            self._held = known
            await known.__aenter__()
        return known

    async def _connected(self) -> Connection | None:
        try:
            return await run_sync(connected, self.id, self.route)  # it imports much
        except NoKey as error:
            self._problem = Failure("auth", message=str(error))
            self._window = await run_sync(window_of, self.id)
        except UnknownModel as error:
            self._problem = Failure("no_model", message=str(error))
        except NoClient as error:
            self._problem = Failure("invalid_request", message=str(error))
        return None

    async def _unreachable(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        del request
        yield Finish("error", self._problem or Failure("unknown"))

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """Yield the chunks of one answer; closing it closes the connection."""
        from pydantic_ai.direct import model_request_stream

        from turnchart.machine.providers.answers import Reading, finish_of, usage_report
        from turnchart.machine.providers.failures import failure_of
        from turnchart.machine.providers.native_tools import lacking
        from turnchart.machine.providers.segments import Segments

        held, opened, left = self._held, False, False
        assert held is not None, "a call is streamed by the model that prepared it"
        model = held.model
        series = self._series_of(request, model)
        names, params = series.names, series.parameters(request.system)
        missing = lacking(model, self.id, params.native_tools) if params.native_tools else None
        if missing is not None:
            yield Finish("error", missing)
            return
        try:
            told = series.told(request.messages)
            asked = self._settings(request, held)
            reading, said = Reading(names), Segments()
            while said.goes_on:
                opening = model_request_stream(
                    model, said.after(told), model_settings=asked, model_request_parameters=params
                )
                async with _closed_in_any_case(held), _closed_in_any_case(opening) as stream:
                    opened = True
                    try:
                        async for event in said.events(stream):
                            for chunk in reading.chunks(event):
                                yield chunk
                        response = said.take(stream.get())
                        if said.goes_on:
                            continue
                        for chunk in reading.rest(response):
                            yield chunk
                        used = usage_report(response)
                        if used is not None:
                            yield used
                        yield finish_of(stream, response, names)
                    except GeneratorExit:
                        left = True
                        raise
        except Exception as error:
            if left:  # nobody hears what closing came to
                return
            failure = failure_of(error, opened=opened, secrets=self._secrets())
            if failure is None:
                raise
            yield Finish("error", failure)

    def _secrets(self) -> tuple[str, ...]:
        provider = self.id.partition(":")[0]
        return self.route.secrets(provider)

    def _settings(self, request: ModelRequest, held: Connection) -> "ModelSettings":
        """Return what is asked of the provider; what a flow says as ``extra`` goes over as it is."""
        given: dict[str, Any] = {"timeout": held.timeout(self.idle_timeout)}
        given |= plain_json({name: value for name, value in request.settings.items() if name != "extra"})
        if request.thinking is not None:
            given["thinking"] = request.thinking if request.thinking != "off" else False
        extra: Any = request.settings.get("extra")
        given |= plain_json(extra) if isinstance(extra, Mapping) else {}
        given.pop("max_retries", None)
        if not held.split:
            given["max_retries"] = 0
        if held.chat:  # what servers say more than once is a total, and not every server may be asked for it
            given["openai_continuous_usage_stats"] = True
            given["extra_body"] = {
                "stream_options": {"include_usage": True},
                **(given.get("extra_body") or {}),
            }
        return given  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # open, as ``extra`` is

    def _series_of(self, request: ModelRequest, model: "Model") -> "Series":
        """Return the requests that this one goes on with, or begins."""
        found = next((each for each in self._series if each.has(request, model.system)), None)
        if found is None:
            from turnchart.machine.providers.series import Series

            found = Series(request.tools, request.model, model.system)
        others = [each for each in self._series if each is not found]
        self._series = [*others[1 - MOST_SERIES :], found]
        return found


@asynccontextmanager
async def _closed_in_any_case(manager: "AbstractAsyncContextManager[T]") -> AsyncGenerator[T]:
    """Enter and leave; a cancellation does not keep it from leaving."""
    responses: list[Any] = []
    before = OPENED.set(responses)
    try:
        value = await manager.__aenter__()
    finally:
        OPENED.reset(before)
    try:
        yield value
    finally:
        with anyio.move_on_after(CLOSING, shield=True):
            await manager.__aexit__(None, None, None)
            for response in responses:
                await response.aclose()
