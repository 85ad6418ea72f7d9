"""A model that plays a script: what README, tests and benchmarks run on, without a key."""

import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TypeAlias

from turnchart.machine.abort import AbortSignal
from turnchart.machine.errors import ScriptError
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    ModelRequest,
    PreparedCall,
    RequestConfig,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from turnchart.machine.records import record

KEPT_REQUESTS = 1000
"""So many of the last requests stay readable in ``ScriptedModel.requests``."""


@record
class Reply:
    """One answer of a script.

    Attributes:
        text: What the model says.
        tool_calls: What it asks for; calls without an id get a positional one.
        thinking: What it thinks first.
        chunks: What streams before all that, delays in seconds among the chunks; a string is a text delta.
        usage: Tokens: input, output, cache_read, cache_write; and ``cost`` in US dollars.
        finish: Why it ends; None: tool_calls where it asks for tools, else stop.
        delay: Seconds before the first chunk, on the clock of the agent.
        failure: How the request fails after all that, in the place of a finish.
    """

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    thinking: str = ""
    chunks: Sequence[Chunk | str | float] | None = None
    usage: Mapping[str, float] | None = None
    finish: FinishReason | None = None
    delay: float = 0
    failure: Failure | None = None

    def __post_init__(self) -> None:
        if self.finish is not None and self.failure is not None:
            raise ValueError("a Reply has finish or failure, not both: one that fails does not end otherwise")

    def stream(self) -> tuple[Chunk | float, ...]:
        """Return chunks and delays in order, the finish last."""
        parts: list[Chunk | float] = [self.delay] if self.delay else []
        if self.chunks is not None:
            parts += [TextDelta(each) if isinstance(each, str) else each for each in self.chunks]
        index = 1 + max((getattr(part, "block", 0) for part in parts), default=-1)
        if self.thinking:
            parts += [BlockStart("thinking", index), ThinkingDelta(self.thinking, index), BlockEnd(index)]
            index += 1
        if self.text:
            parts += [BlockStart("text", index), TextDelta(self.text, index), BlockEnd(index)]
            index += 1
        for at, call in enumerate(self.tool_calls, index):
            given = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            parts += [
                BlockStart("tool_call", at, call.id, call.name),
                ToolCallDelta(given, at),
                BlockEnd(at),
            ]
        if self.usage:
            parts.append(UsageReport(self.usage))
        if self.failure is not None:
            parts.append(Finish("error", self.failure))
        elif not any(isinstance(part, Finish) for part in parts):
            parts.append(Finish(self.finish or ("tool_calls" if self.tool_calls else "stop")))
        return tuple(parts)


Scripted: TypeAlias = Reply | str | Failure | Exception


class ScriptedModel:
    """Answers in order; an unexpected call raises, and so do replies that nobody asked for (``check``).

    Attributes:
        requests: The requests that it answered, oldest first (the last ``KEPT_REQUESTS``).
    """

    __slots__ = ("_default", "_replies", "_window", "capabilities", "id", "requests")

    def __init__(
        self,
        replies: Iterable[Scripted] = (),
        *,
        default: Scripted | None = None,
        id: str = "test",
        capabilities: Iterable[str] = (),
        context_window: int | None = None,
    ) -> None:
        """Make a script.

        Args:
            replies: A string is an answer, a ``Failure`` a failed request; an exception is raised.
            default: Answers for ever, once the replies are spent.
            id: The id of the model.
            capabilities: What the route can do; see ``PreparedCall``.
            context_window: In tokens.
        """
        self.id = id
        self.capabilities = frozenset(capabilities)
        self.requests: deque[ModelRequest] = deque(maxlen=KEPT_REQUESTS)
        self._window = context_window
        self._replies = deque(_parts(reply) for reply in replies)
        self._default = None if default is None else _parts(default)

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Bind one call; nothing is taken from the script yet."""
        del abort
        return PreparedCall(config, self._stream, context_window=self._window, capabilities=self.capabilities)

    async def _stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        if self._replies:
            parts = self._replies.popleft()
        elif self._default is not None:
            parts = self._default
        else:
            raise ScriptError(
                f"the script of model {self.id!r} is over after {len(self.requests)} requests,"
                " and it was asked once more; add a reply, or default="
            )
        self.requests.append(request)
        for part in parts:
            if isinstance(part, float | int):
                await request.clock.sleep(part)
            elif isinstance(part, Exception):
                raise part
            else:
                yield part

    def skip(self, count: int) -> None:
        """Leave out so many replies: another process played them."""
        for _ in range(min(count, len(self._replies))):
            self._replies.popleft()

    def drop(self) -> None:
        """Forget the replies that are left: for a run that was cut off on purpose."""
        self._replies.clear()

    def check(self) -> None:
        """Raise if the script was not played to its end.

        Raises:
            ScriptError: If replies are left over.
        """
        if self._replies:
            left = len(self._replies)
            replies, were = ("1 reply", "was") if left == 1 else (f"{left} replies", "were")
            raise ScriptError(f"{replies} of the script of model {self.id!r} {were} not asked for")


_Part: TypeAlias = Chunk | float | Exception


def _parts(reply: Scripted) -> tuple[_Part, ...]:
    match reply:
        case str():
            return Reply(reply).stream()
        case Reply():
            return reply.stream()
        case Failure():
            return (Finish("error", reply),)
        case Exception():
            return (reply,)
        case _:
            raise TypeError(
                f"a script holds strings, Reply, Failure or exceptions, not {type(reply).__name__}"
            )
