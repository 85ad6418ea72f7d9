"""An answer in segments: a provider may pause amid its own tools, and wants to be asked to go on."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import replace
from typing import Final, Self

from pydantic_ai import messages as theirs

MOST: Final = 20
"""So many segments may one answer have."""
PAUSED: Final = "pause_turn"
"""How a segment ends behind which the answer goes on."""
Event = theirs.ModelResponseStreamEvent


class Segments:
    """The segments of one answer, joined. Nearly every answer has one.

    Attributes:
        goes_on: Another segment is to be asked for.
    """

    __slots__ = ("_count", "_whole", "goes_on")

    def __init__(self) -> None:
        self.goes_on = True
        self._count = 0
        self._whole: theirs.ModelResponse | None = None

    def after(self, told: Sequence[theirs.ModelMessage]) -> Sequence[theirs.ModelMessage]:
        """Return what the next segment is asked for with: the conversation, and the answer so far."""
        return told if self._whole is None else [*told, self._whole]

    def events(self, stream: AsyncIterable[Event]) -> AsyncIterable[Event]:
        """Return the events of a segment, numbered on from those before it."""
        return stream if self._whole is None else _Numbered(stream, len(self._whole.parts))

    def take(self, segment: theirs.ModelResponse) -> theirs.ModelResponse:
        """Return the answer up to the end of a segment."""
        self._count += 1
        details = segment.provider_details or {}
        self.goes_on = details.get("finish_reason") == PAUSED and self._count < MOST
        if self._whole is not None:
            parts, used = [*self._whole.parts, *segment.parts], self._whole.usage + segment.usage
            segment = replace(segment, parts=parts, usage=used)
        self._whole = segment
        return segment


class _Numbered:
    """The events of a stream, whose parts are counted from a later number."""

    __slots__ = ("_events", "_first")

    def __init__(self, stream: AsyncIterable[Event], first: int) -> None:
        self._events: AsyncIterator[Event] = aiter(stream)
        self._first = first

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        if isinstance(event, theirs.PartStartEvent | theirs.PartDeltaEvent | theirs.PartEndEvent):
            return replace(event, index=event.index + self._first)
        return event
