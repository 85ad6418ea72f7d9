"""Many agents stream from one server at the same time: none is lost, and none gets what another was told."""

import os
import tracemalloc

import anyio
import pytest
from tests.machine.providers.asking import model_of
from tests.machine.providers.loopback import Loopback, Wire
from tests.machine.providers.wire_formats import chat

from turnchart.machine import Agent, Reply

pytestmark = [
    pytest.mark.slow,
    # The clients of providers leave finished generators to the collector, which trio complains of.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

AGENTS = 200 if os.environ.get("TURNCHART_TRIALS") == "full" else 20
TURNS = 2
KIB_EACH = 150
"""An agent that streams, with its end of its connection, in KiB; it takes less than half of it."""


async def test_many_agents_stream_at_once_and_none_is_lost() -> None:
    pieces = [f"piece {i} " for i in range(20)]
    with Loopback(Wire(chat(Reply(chunks=pieces))), forever=True) as server:
        done: list[str] = []

        async def talk() -> None:
            async with Agent(model_of("chat", server)) as agent:
                for _ in range(TURNS):
                    done.append((await agent.prompt("go")).check().text)

        async with Agent(model_of("chat", server)) as first:
            await first.prompt("load what is loaded once")
            tracemalloc.start()
            try:
                async with anyio.create_task_group() as tasks:
                    for _ in range(AGENTS):
                        tasks.start_soon(talk)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert done == ["".join(pieces)] * (AGENTS * TURNS)
    assert len(server.heard) == AGENTS * TURNS + 1
    each = peak / 1024 / AGENTS
    print(f"{AGENTS} agents streamed at once, {each:.0f} KiB each")
    assert each < KIB_EACH
