"""Requests beside the conversation: a summary is asked for, or a hook asks a model a question."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from turnchart.machine.models import Chunk, Finish, ModelRequest, PreparedCall, failure_of
from turnchart.machine.stream import Answer

if TYPE_CHECKING:
    from turnchart.machine.outfit import Outfit

Purpose = Literal["summary", "question"]
"""What such a request is for."""


async def answered(agent: Outfit, prepared: PreparedCall, request: ModelRequest, purpose: Purpose) -> Answer:
    """Read one answer to its end; its stream is closed at once where this is cut off.

    Whoever traces the agent sees the request. Nothing of it is logged here, and no hook runs.

    Returns:
        The answer; one that failed says so, whatever the model raised about it.
    """
    answer, now, watch = Answer(), agent.clock.now, agent.watch_aside
    try:
        chunks = prepared.stream(request)
        seen = chunks if watch is None else watch(request, chunks, purpose)
        async with closing(chunks), closing(seen) as read:
            async for chunk in read:
                answer.add(chunk, now())
                if answer.finish is not None:
                    break
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        answer.add(Finish("error", failure), now())
    return answer


@asynccontextmanager
async def closing(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[AsyncIterator[Chunk]]:
    """Close a stream at once when it is no longer read; one that is no generator needs no closing."""
    try:
        yield chunks
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
