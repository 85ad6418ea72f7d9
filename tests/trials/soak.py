"""Many agents in one process, for a long time: ``python -m tests.trials.soak LOOP SEED SECONDS AGENTS``.

They live in eras. In each, so many agents begin together, and each does some random things: it is prompted,
steered, aborted and cancelled, while its models, tools and hooks fail now and then. When all have come to
rest and left, their logs are judged, and the process should be what it was before. A line of JSON an era says
what was done, and what the process holds. Whatever is wrong ends it with that error.
"""

import gc
import json
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from turnchart.hooks import Deny, PreTool
from turnchart.machine import (
    Agent,
    AgentBusy,
    Failure,
    Limits,
    ModelRequest,
    PreparedCall,
    Queues,
    RetryPolicy,
    Session,
    ToolContext,
    TurnFailed,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.errors import RequestFailed
from turnchart.machine.inbox import Item
from turnchart.machine.messages import FAILURE_KINDS
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    RequestConfig,
    TextDelta,
    ToolCallDelta,
)
from turnchart.machine.verify import verify

ACTIONS = 8
"""So many things each agent is asked for."""
MOMENT = 0.002
"""Seconds that a pause takes at most."""
PATIENCE = 120
"""Seconds in which an era must be over."""
LEAST = 6
"""So many eras there are at least, so that three thirds of them can be compared."""
KINDS = ("memory", "jsonl", "sqlite")
RETRY = RetryPolicy(max_attempts=3, base_delay=MOMENT)


# -- what fails now and then -------------------------------------------------------------------


@tool(execution="parallel")
async def work(n: int, ctx: ToolContext) -> str:
    """Take n moments, and say so."""
    ctx.progress(f"{n} to go")
    await anyio.sleep(n * MOMENT)
    return f"{n} moments"


@tool
async def alone(n: int) -> str:
    """Fail if n is 0; let nobody else work meanwhile."""
    if not n:
        raise ValueError("there is nothing to do")
    return "done"


@tool(execution="parallel")
def blocking(n: int) -> str:
    """Block a thread."""
    time.sleep(n * MOMENT / 4)
    return "done"


TOOLS = (work, alone, blocking)


class Model:
    """Says something, asks for tools, or fails in one of the ways in which models fail."""

    id = "soak"

    def __init__(self, random: Random) -> None:
        self._random = random
        self._calls = 0

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Answer by itself, or fail before anything is sent."""
        del abort
        if self._random.random() < 0.02:
            raise RuntimeError("the model is not there")
        return PreparedCall(config, self.stream)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer something else every time."""
        del request
        random = self._random
        for _ in range(random.randrange(4)):
            yield TextDelta("some words ")
            if random.random() < 0.3:
                await anyio.sleep(random.uniform(0, MOMENT))
        luck = random.random()
        if luck < 0.1:
            raise RequestFailed(Failure(random.choice(FAILURE_KINDS)))
        if luck < 0.12:
            raise RuntimeError("the connection broke")
        if luck < 0.14:
            return  # a stream that ends without saying so
        calls = random.choice((0, 0, 0, 1, 3, 6))
        for i in range(calls):
            for chunk in self._call(i):
                yield chunk
        yield Finish("tool_calls" if calls else random.choice(("stop", "stop", "max_tokens")))

    def _call(self, index: int) -> tuple[Chunk, ...]:
        self._calls += 1
        random = self._random
        name = random.choice((*(each.name for each in TOOLS), "unknown"))
        arguments = random.choice((f'{{"n":{random.randrange(4)}}}', '{"n":"many"}', '{"n":'))
        start = BlockStart("tool_call", index, f"c{self._calls}", name)
        return start, ToolCallDelta(arguments, index), BlockEnd(index)


def hooks_of(random: Random) -> dict[str, list[Callable[..., Any]]]:
    """Return hooks of an agent that deny, or fail."""

    def deny(call: PreTool) -> Deny | None:
        del call
        return Deny("not now") if random.random() < 0.1 else None

    def fail(payload: object) -> None:
        del payload
        if random.random() < 0.05:
            raise ValueError("the hook is broken")

    return {"pre_tool": [deny], "post_tool": [fail], "after_step": [fail], "context": [fail]}


# -- the life of an agent ----------------------------------------------------------------------


class Life:
    """What one agent was asked for.

    Attributes:
        sent: The messages that it took.
        gone: Those of them that it gave back as discarded.
    """

    def __init__(self, agent: Agent, random: Random) -> None:
        self.agent = agent
        self.random = random
        self.sent: set[str] = set()
        self.gone: set[str] = set()

    async def live(self) -> None:
        """Do random things, and come to rest."""
        ways: tuple[Callable[[], Awaitable[None]], ...] = (
            self.prompt, self.prompt, self.prompt_and_leave, self.send, self.send, self.send, self.abort,
            self.change, self.listen,
        )  # fmt: skip
        for _ in range(ACTIONS):
            await self.random.choice(ways)()
            if self.random.random() < 0.5:
                await anyio.sleep(self.random.uniform(0, 4 * MOMENT))
        await self.agent.idle()

    async def prompt(self) -> None:
        """Prompt it, and wait for its answer."""
        try:
            await self.agent.prompt("do something")
        except AgentBusy:
            await self.agent.idle()
        except TurnFailed:
            self.agent.resume()

    async def prompt_and_leave(self) -> None:
        """Prompt it, and lose patience."""
        with anyio.move_on_after(self.random.uniform(0, 2 * MOMENT)):
            await self.prompt()

    async def send(self) -> None:
        """Tell it something in one of the ways that do not wait."""
        agent = self.agent
        how = self.random.choice((agent.follow_up, agent.steer, agent.inject, agent.next_turn))
        self.sent |= ids(how("do something"))

    async def abort(self) -> None:
        """Abort what it does."""
        for item in self.agent.abort(keep_inbox=self.random.random() < 0.3):
            self.gone |= ids(item)

    async def change(self) -> None:
        """Change a setting while it runs."""
        self.agent.queues = Queues(
            self.random.choice(("all", "one-at-a-time")), self.random.choice(("all", "one-at-a-time"))
        )
        names = [each.name for each in TOOLS]
        self.agent.set_active_tools(self.random.sample(names, self.random.randint(1, len(names))))

    async def listen(self) -> None:
        """Hear of everything for a while."""
        heard: list[object] = []
        stop = self.agent.on("*", lambda signal, _abort: heard.append(signal))
        await anyio.sleep(self.random.uniform(0, MOMENT))
        stop()


def ids(item: Item) -> set[str]:
    """Return the ids of the messages of an item."""
    return {said["id"] for said in item.messages}


def opened(kind: str, path: Path) -> Session:
    """Return a session of this kind: a new one, or what the file holds."""
    if kind == "memory":
        return Session.memory()
    return Session.jsonl(path) if kind == "jsonl" else Session.sqlite(path)


async def one_life(random: Random, folder: Path, name: str) -> int:
    """Let an agent live, judge its log, and return how many turns it took."""
    kind, path = random.choices(KINDS, (90, 5, 5))[0], folder / name
    session = opened(kind, path)
    model, limits = Model(random), Limits(max_steps=5, max_tool_calls=12)
    async with Agent(
        model, tools=TOOLS, session=session, retry=RETRY, limits=limits, hooks=hooks_of(random), seed=1
    ) as agent:
        life = Life(agent, random)
        await life.live()
    if kind != "memory":
        session = opened(kind, path)  # what the file holds
    judge(session, life, f"{name} ({kind})")
    session.close()
    return session.brackets.turn


def judge(session: Session, life: Life, name: str) -> None:
    """Hold a log against the declarations, and against what its agent was asked for."""
    verdict = verify(session.entries)
    assert verdict.ok, f"{name}: {verdict.message}"
    assert not verdict.open, f"{name}: the log ends inside a turn"
    said = [entry.data["message"]["id"] for entry in session.entries if entry.type == "user/message"]
    assert len(said) == len(set(said)), f"{name}: a message was told twice"
    assert not life.gone & set(said), f"{name}: a message was given back, and told"
    inserted = {
        message["id"]
        for entry in session.entries
        if entry.type == "agent/inbox/spliced"
        for item in entry.data.get("inserted", ())
        for message in item["messages"]
    }
    assert life.sent <= inserted, f"{name}: a message was lost"


# -- eras --------------------------------------------------------------------------------------


class Complaints(logging.Handler):
    """Keeps what loops and interpreter complain of: tasks that were lost, exceptions that nobody saw."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []
        logging.getLogger("asyncio").addHandler(self)
        sys.unraisablehook = self.unraisable

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record of a loop."""
        self.heard.append(record.getMessage())

    def unraisable(self, what: Any) -> None:
        """Keep an exception that could not be raised."""
        self.heard.append(f"{what.exc_value!r} in {what.object!r}")


async def era(number: int, seed: str, agents: int) -> int:
    """Let all agents of an era live, and return how many turns they took."""
    turns: list[int] = []

    async def live(which: int) -> None:
        name = f"{seed} {number} {which}"
        turns.append(await one_life(Random(name), Path(folder), name))

    with TemporaryDirectory() as folder, anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for which in range(agents):
                tasks.start_soon(live, which)
    return sum(turns)


def held() -> dict[str, int]:
    """Return what the process holds: blocks of Python's allocator, and bytes of memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return {"blocks": sys.getallocatedblocks(), "bytes": pages * 4096}


async def soak(seed: str, seconds: float, agents: int) -> None:
    """Let era follow era until the time is over, and there are enough to be compared."""
    complaints = Complaints()
    end, number = time.monotonic() + seconds, 0
    before = len(anyio.get_running_tasks())
    while time.monotonic() < end or number < LEAST:
        turns = await era(number, seed, agents)
        left = len(anyio.get_running_tasks()) - before
        assert not left, f"{left} tasks are left: {anyio.get_running_tasks()[:5]}"
        said = {"era": number, "turns": turns, **held()}
        assert not complaints.heard, complaints.heard[:5]
        print(json.dumps(said), flush=True)
        number += 1


def main() -> None:
    """Run as the command line says."""
    loop, seed, seconds, agents = sys.argv[1:]
    logging.getLogger("turnchart").setLevel(logging.CRITICAL)  # hooks fail here on purpose
    anyio.run(soak, seed, float(seconds), int(agents), backend=loop)


if __name__ == "__main__":
    main()
