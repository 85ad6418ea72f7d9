"""The contract of a model: chunks, request, prepared call. Wire formats live elsewhere."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.errors import RequestFailed, TurnchartError, named_text_of, text_of
from turnchart.machine.messages import RETRIED_KINDS, Failure, FailureKind, Message

if TYPE_CHECKING:
    from turnchart.machine.abort import AbortSignal
    from turnchart.machine.clock import Clock

_log = logging.getLogger("turnchart.models")

BlockKind = Literal["text", "thinking", "tool_call"]
FinishReason = Literal["stop", "tool_calls", "max_tokens", "error", "aborted"]


class BlockStart(NamedTuple):
    """A block of content begins. ``id`` and ``name`` are those of a tool call."""

    kind: BlockKind
    block: int = 0
    id: str = ""
    name: str = ""

    @property
    def type(self) -> str:
        """The name of the kind of chunk."""
        return "block_start"


class TextDelta(NamedTuple):
    """More text of a block."""

    text: str
    block: int = 0

    @property
    def type(self) -> str:
        """The name of the kind of chunk."""
        return "text_delta"


class ThinkingDelta(NamedTuple):
    """More of a thought."""

    text: str
    block: int = 0

    @property
    def type(self) -> str:
        """The name of the kind of chunk."""
        return "thinking_delta"


class ToolCallDelta(NamedTuple):
    """More of the JSON text of a tool call's arguments."""

    text: str
    block: int = 0

    @property
    def type(self) -> str:
        """The name of the kind of chunk."""
        return "tool_call_delta"


class BlockEnd(NamedTuple):
    """A block is complete; later deltas of it are ignored. ``signature`` belongs to a thought."""

    block: int = 0
    signature: str | None = None

    @property
    def type(self) -> str:
        """The name of the kind of chunk."""
        return "block_end"


class UsageReport(NamedTuple):
    """Tokens so far: input, output, cache_read, cache_write; and ``cost``, in US dollars, where known."""

    usage: Mapping[str, float]

    @property
    def type(self) -> str:
        """The name of the kind of chunk."""
        return "usage"


class Finish(NamedTuple):
    """The answer is over; chunks after it are ignored. ``replay`` is for the same model only."""

    reason: FinishReason
    failure: Failure | None = None
    replay: Any = None

    @property
    def type(self) -> str:
        """The name of the kind of chunk."""
        return "finish"


Chunk: TypeAlias = BlockStart | TextDelta | ThinkingDelta | ToolCallDelta | BlockEnd | UsageReport | Finish
CHUNKS: Mapping[str, type] = {
    "block_start": BlockStart, "text_delta": TextDelta, "thinking_delta": ThinkingDelta,
    "tool_call_delta": ToolCallDelta, "block_end": BlockEnd, "usage": UsageReport, "finish": Finish,
}  # fmt: skip
NAMES: Mapping[type, str] = {kind: name for name, kind in CHUNKS.items()}
"""The kinds of chunks by name, and their names."""


class RequestConfig(NamedTuple):
    """What the request hooks chose: the model's id, its settings and its thinking level."""

    model: str
    settings: Frozen = Frozen()
    thinking: str | None = None


class ModelRequest(NamedTuple):
    """One request, frozen: nobody can make the model see what the log does not say.

    Attributes:
        model: The id of the model.
        system: The system prompt; empty for none.
        messages: What the model reads, oldest first. Do not mutate.
        tools: Name, description and JSON schema of each tool, in canonical order.
        settings: Sampling settings, as the config of the flow names them.
        thinking: The thinking level, or None for the provider's default.
        abort: Is set when the turn is cut off.
        clock: What to wait on.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: tuple[Frozen, ...]
    settings: Frozen
    thinking: str | None
    abort: "AbortSignal"
    clock: "Clock"
    session: str = ""
    turn: int = 0
    step: int = 0
    attempt: int = 1


@dataclass(slots=True)
class PreparedCall:
    """A one-shot handle on one model with one materialised config.

    Attributes:
        config: The config with the adapter's defaults filled in.
        open: Takes the request and returns its chunks; called once, by ``stream``.
        defaults: The names of the settings that the adapter filled in.
        context_window: In tokens; None where unknown.
        capabilities: ``system_prompt_update``, ``images``, ``thinking``, ...
        retry_kinds: The failure kinds that are worth another try.
    """

    config: RequestConfig
    open: Callable[[ModelRequest], AsyncIterator[Chunk]]
    defaults: frozenset[str] = frozenset()
    context_window: int | None = None
    capabilities: frozenset[str] = frozenset()
    retry_kinds: Sequence[FailureKind] = RETRIED_KINDS
    _used: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.config, RequestConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
            raise TypeError(f"a prepared call has a RequestConfig, not a {type(self.config).__name__}")
        model, settings, thinking = self.config
        if type(model) is not str or type(thinking) not in (str, NoneType):
            raise TypeError(f"model and thinking level are names, not {model!r:.60} and {thinking!r:.60}")
        if not isinstance(settings, Frozen):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
            self.config = RequestConfig(model, freeze(settings), thinking)
        if self.context_window is not None and type(self.context_window) is not int:
            raise TypeError(
                f"context_window is {self.context_window!r}, and must be a whole number of tokens"
            )
        for name in (*self.defaults, *self.capabilities):
            if type(name) is not str:
                raise TypeError(f"defaults and capabilities are names, not {name!r:.60}")

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Send the request and return its chunks.

        Raises:
            TurnchartError: If it was called before, or the request is not for this config.
        """
        if self._used:
            raise TurnchartError("this prepared call was streamed already; prepare another one")
        if (request.model, request.settings, request.thinking) != self.config:
            raise TurnchartError("this prepared call was made for another config; prepare another one")
        self._used = True
        return self.open(request)


@runtime_checkable
class Model(Protocol):
    """What the driver needs of a model."""

    @property
    def id(self) -> str:
        """``provider:name``."""
        ...

    async def prepare(self, config: RequestConfig, abort: "AbortSignal") -> PreparedCall:
        """Bind one call: materialise defaults, say what the route can do. Nothing is sent yet."""
        ...


Resolver: TypeAlias = "Mapping[str, Model] | Callable[[str], Model | Awaitable[Model]]"
"""Finds a model by its id."""


async def close_models(*used: object) -> None:
    """Let models, or who finds them, give back their connections: those that have an ``aclose``."""
    for each in used:
        close = getattr(each, "aclose", None)
        if close is None:
            continue
        try:
            await close()
        except Exception as error:  # noqa: BLE001  # an adapter may raise what it likes
            _log.warning("a model could not be closed: %s", named_text_of(error))


def failure_of(error: Exception) -> Failure | None:
    """Return what an adapter's exception says about the request; None for a bug that must not be hidden."""
    if isinstance(error, RequestFailed):
        return error.failure
    if isinstance(error, TurnchartError):
        return None
    if isinstance(error, TimeoutError):
        return Failure("timeout", message=text_of(error) or "no answer in time")
    if isinstance(error, ConnectionError):
        return Failure("connection", message=text_of(error))
    return Failure("unknown", message=named_text_of(error))
