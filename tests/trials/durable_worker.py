"""A worker in a process of its own, for tests that kill it: ``python -m tests.trials.durable_worker JSON``.

It says ``ready`` on its standard output when it takes turns, and ``at POINT`` where it was told to stand.
What its tools and its model do is written to the table ``deeds`` of the same database.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, cast

import psycopg

from turnchart.machine import (
    Agent,
    Failure,
    ModelRequest,
    PreparedCall,
    RetryPolicy,
    Session,
    ToolContext,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.durable import Worker
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    RequestConfig,
    TextDelta,
    ToolCallDelta,
)
from turnchart.machine.points import Payload

DEEDS = """CREATE TABLE IF NOT EXISTS deeds
    (id bigserial, what text, session text, key text, pid integer)"""


def say(text: str) -> None:
    """Write one line with one write."""
    os.write(1, f"{text}\n".encode())


class Nobody:
    """Writes nothing down, where that would take longer than what is measured."""

    def note(self, what: str, session: str, key: str) -> None:
        """Do nothing."""

    def may_go(self) -> bool:
        """Tell whether tools that wait for a word may go on."""
        return True


class Deeds(Nobody):
    """Writes down what is done to the world."""

    def __init__(self, dsn: str) -> None:
        self._db = psycopg.connect(dsn, autocommit=True)
        self._dsn = dsn

    def note(self, what: str, session: str, key: str) -> None:
        """Write it down, also where the server has just been away."""
        row = (what, session, key, os.getpid())
        for _ in range(100):
            try:
                if self._db.closed:
                    self._db = psycopg.connect(self._dsn, autocommit=True)
                self._db.execute("INSERT INTO deeds (what, session, key, pid) VALUES (%s, %s, %s, %s)", row)
            except psycopg.OperationalError:
                self._db.close()
            else:
                return

    def may_go(self) -> bool:
        """Tell whether somebody said ``go``."""
        return self._db.execute("SELECT FROM deeds WHERE what = 'go'").rowcount > 0


class Model:
    """Answers by the last prompt: a JSON list with a step an item.

    A step is a list of tools to call, a text, or ``{"fail": step}``, which is played at the second attempt.
    """

    id = "durable"

    def __init__(self, deeds: Nobody, pause: float) -> None:
        self._deeds = deeds
        self._pause = pause

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Answer by itself."""
        del abort
        return PreparedCall(config, self.stream)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Play the step of the plan that comes next."""
        plan, done = _plan(request)
        step: Any = plan[min(done, len(plan) - 1)]
        place = f"{request.turn}.{request.step}.{request.attempt}"
        if isinstance(step, dict):
            if request.attempt == 1:
                yield Finish("error", Failure("overloaded"))
                return
            step = cast("dict[str, Any]", step)["fail"]
        called = cast("list[str]", step) if isinstance(step, list) else None
        if called is not None:
            for i, name in enumerate(called):
                id = f"c{request.turn}.{request.step}.{i}"
                for chunk in (BlockStart("tool_call", i, id, name), ToolCallDelta("{}", i), BlockEnd(i)):
                    yield chunk
        else:
            for word in cast(str, step).split():
                yield TextDelta(f"{word} ")
                await asyncio.sleep(self._pause)
        await asyncio.sleep(self._pause)
        self._deeds.note("answered", request.session, place)
        yield Finish("stop" if called is None else "tool_calls")


def _plan(request: ModelRequest) -> tuple[list[Any], int]:
    """Return the plan of the turn, and how many of its steps were answered."""
    done = 0
    for said in reversed(request.messages):
        if said.role == "assistant":
            done += 1
        elif said.role == "user" and said.text.startswith("["):
            return json.loads(said.text), done
    return ["ok"], done


def tools(deeds: Nobody, pause: float, *, waits: bool) -> list[Any]:
    """Return the tools, which write down when they begin and end; they may wait for ``go``."""

    async def act(ctx: ToolContext) -> str:
        deeds.note("began", ctx.session_id, ctx.key)
        await asyncio.sleep(pause)
        while waits and not deeds.may_go():  # noqa: ASYNC110  # it is said in the database
            await asyncio.sleep(0.02)
        deeds.note("done", ctx.session_id, ctx.key)
        return ctx.key

    async def long(ctx: ToolContext) -> str:
        deeds.note("began", ctx.session_id, ctx.key)
        await asyncio.sleep(3600)
        return "late"

    return [
        tool(act, name="look", description="Look.", replay="idempotent", execution="parallel"),
        tool(act, name="pay", description="Pay.", replay="keyed"),
        tool(act, name="shoot", description="Shoot.", replay="unsafe"),
        tool(long, name="long", description="Take long.", replay="idempotent"),
    ]


POINTS = (
    "assemble", "pre_step", "request", "stream", "request_error", "pre_tool", "tool", "post_tool",
    "after_step",
)  # fmt: skip
"""A hook point in each state of the chart, and before and behind what takes its time there."""


def hooks_of(point: str, marks: str) -> dict[str, list[Any]]:
    """Return hooks that stand still at one point, and ones that start a program which marks every point."""

    def marking(at: str) -> Any:
        async def mark(payload: Payload) -> None:
            await payload.run(["sh", "-c", 'echo "$0" >> "$1"', at, marks])

        return mark

    async def stand(payload: object) -> None:
        del payload
        say(f"at {point}")
        await asyncio.sleep(3600)

    marked = {at: [marking(at)] for at in POINTS} if marks else {}
    return marked | ({point: [*marked.get(point, ()), stand]} if point else {})


async def work(
    dsn: str, store: str, hold: str, lease: float, version: str, pause: float, count: int, marks: str,
    *, notes: bool, waits: bool, flow: str,
) -> None:  # fmt: skip
    """Work until killed."""
    deeds = Deeds(dsn) if notes else Nobody()
    known = tools(deeds, pause, waits=waits)

    def make(session: Session) -> Agent:
        return Agent(
            Model(deeds, pause), prompt="Play the plan.", tools=known, session=session,
            hooks=hooks_of(hold, marks), retry=RetryPolicy(base_delay=0.01),
        )  # fmt: skip

    async with Worker(
        store or dsn, make, flow=flow, lease=lease, version=version, poll=0.05, concurrency=count
    ):
        say("ready")
        await asyncio.sleep(3600)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    asyncio.run(work(**given))
