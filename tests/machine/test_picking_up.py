"""A turn is picked up wherever its log may have been cut off, and goes on as if nothing had been."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import anyio
import pytest

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
from turnchart.machine.approvals import Answer, Approve, Question, Refuse
from turnchart.machine.durable.stepping import Stepping
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import UserMessage
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    RequestConfig,
    TextDelta,
    ToolCallDelta,
)
from turnchart.machine.permissions import Permissions
from turnchart.machine.picking_up import LastingSession, pick_up
from turnchart.machine.points import Context, PreStep, ToolOutcome
from turnchart.machine.stores import MemoryStore
from turnchart.machine.tooling import MAY_HAVE_RUN
from turnchart.machine.tools import Replay
from turnchart.machine.verify import verify
from turnchart.testing import FakeClock

T = TypeVar("T")


class Kept(MemoryStore):
    """A store that remembers what it was given, as one in a database does."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__("s")
        self._entries = entries

    def load(self) -> Sequence[Entry]:
        return self._entries


class Plain(Stepping):
    """Steps that nobody keeps, counted."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[tuple[str, str]] = []

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        self.ran.append((name, key))
        return await fn()

    def kept(self, call_id: str) -> ToolOutcome | None:
        del call_id
        return None

    def known(self, key: str) -> Frozen | None:
        del key
        return None

    def keep(self, key: str, value: Frozen) -> None:
        del key, value


class Talker:
    """Answers by what it is shown, so that it says the same in whichever process."""

    id = "talker"

    def __init__(self, script: Sequence[object]) -> None:
        self._script = script

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        del abort
        return PreparedCall(config, self.stream)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        turn = sum(each.role == "assistant" for each in request.messages)
        said = self._script[turn]
        if turn == 1 and request.attempt == 1:
            yield Finish("error", Failure("overloaded"))
            return
        if isinstance(said, list):
            for i, (id, name, arguments) in enumerate(cast("list[tuple[str, str, str]]", said)):
                for chunk in (BlockStart("tool_call", i, id, name), ToolCallDelta(arguments, i), BlockEnd(i)):
                    yield chunk
            yield Finish("tool_calls")
            return
        yield TextDelta(f"answer {turn}")
        yield Finish("stop")


@tool(replay="idempotent", execution="parallel")
async def look(n: int) -> str:
    """Look at something."""
    return f"saw {n}"


@tool(replay="idempotent")
async def act(n: int) -> str:
    """Do something."""
    return f"did {n}"


def calls(*which: tuple[str, str, int]) -> list[tuple[str, str, str]]:
    return [(id, name, f'{{"n":{n}}}') for id, name, n in which]


SCRIPT = [
    calls(("c1", "look", 1), ("c2", "look", 2), ("c3", "act", 3)),
    calls(("c4", "act", 4)),
    "the end",
]


def agent_on(session: Session, **more: Any) -> Agent:
    model = Talker(SCRIPT)
    return Agent(
        model, prompt="Be good.", tools=[look, act], session=session, clock=FakeClock(), seed=1,
        retry=RetryPolicy(base_delay=1), **more,
    )  # fmt: skip


def conversation(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Return who said what; times and numbers aside."""
    said: list[tuple[str, str]] = []
    for entry in entries:
        if entry.type in ("user/message", "assistant/message", "tool/result", "system/message"):
            message = entry.data["message"]
            said.append((message["role"], str([dict(part) for part in message["content"]])))
    return said


async def whole(**more: Any) -> list[Entry]:
    session = Session(Kept(()))
    async with agent_on(session, **more) as agent:
        agent.next_turn("by the way")
        turn = await agent.prompt("go")
        assert turn.ok, turn
    return session.entries


async def picked_up(entries: Sequence[Entry], **more: Any) -> tuple[list[Entry], Plain, bool]:
    session = LastingSession(Kept(entries))
    agent = agent_on(session, **more)
    steps = Plain()
    agent.steps = steps
    async with agent:
        steps.missing = pick_up(agent)
        going = steps.missing is not None or agent.resume()
        with anyio.fail_after(10):
            await agent.idle()
    return session.entries, steps, going


async def test_a_turn_goes_on_from_every_entry() -> None:
    entries = await whole()
    start = next(entry.seq for entry in entries if entry.type == "turn/start")
    end = next(entry.seq for entry in entries if entry.type == "turn/end")
    for cut in range(start + 1, end + 1):
        after, steps, going = await picked_up(entries[:cut])
        judged = verify(after)
        where = f"cut behind {entries[cut - 1].type} ({cut})"
        assert judged.ok, f"{where}: {judged.message}"
        assert going, where
        assert after[-1].type == "turn/end", where
        assert after[-1].data["reason"] == "completed", where
        assert conversation(after) == conversation(entries), where
        settled = sum(entry.type in ("assistant/message", "assistant/attempt") for entry in entries[:cut])
        asked = [key for name, key in steps.ran if name == "request"]
        assert len(asked) == 4 - settled, f"{where}: {asked}"


def shortened(payload: Context) -> Context:
    """Show the model everything but what came along by the way."""
    kept = [said for said in payload.messages if "by the way" not in str(said["content"])]
    return payload.replace(messages=kept)


def marked(payload: PreStep) -> PreStep:
    return payload.replace(messages=[*payload.messages, UserMessage(f"step {payload.step}")])


async def test_hooks_see_the_step_that_had_not_begun_once_more() -> None:
    hooks = {"context": [shortened], "pre_step": [marked]}
    entries = await whole(hooks=hooks)
    start = next(entry.seq for entry in entries if entry.type == "turn/start")
    for cut in range(start + 1, len(entries)):
        after, _, going = await picked_up(entries[:cut], hooks=hooks)
        where = f"cut behind {entries[cut - 1].type} ({cut})"
        assert going, where
        judged = verify(after)
        assert judged.ok, f"{where}: {judged.message}"
        assert after[-1].data["reason"] == "completed", where
        answers = [each for each in conversation(after) if each[0] == "assistant"]
        assert answers == [each for each in conversation(entries) if each[0] == "assistant"], where


@pytest.mark.parametrize("replay", ["idempotent", "keyed", "unsafe"])
async def test_a_tool_that_was_running_goes_on_as_it_says(replay: Replay) -> None:
    keys: list[str] = []

    @tool(name="act", replay=replay)
    async def tries(n: int, ctx: ToolContext) -> str:
        """Do something."""
        keys.append(ctx.key)
        return f"did {n}"

    asked: list[Question] = []

    async def answers(question: Question) -> Answer:
        asked.append(question)
        return Refuse("look first")

    model = Talker([calls(("c1", "act", 1)), "end"])
    first = Session(Kept(()))
    async with Agent(model, tools=[tries], session=first) as agent:
        await agent.prompt("go")
    cut = next(entry.seq for entry in first.entries if entry.type == "tool/call") + 1
    session = LastingSession(Kept(first.entries[:cut]))
    agent = Agent(model, tools=[tries], session=session, approver=answers)
    steps = Plain()
    agent.steps = steps
    async with agent:
        steps.missing = pick_up(agent)
        await agent.idle()
    assert verify(session.entries).ok
    again = 1 if replay == "unsafe" else 2
    assert keys == [keys[0]] * again, "every try has the same key"
    assert [each.reason for each in asked] == ([MAY_HAVE_RUN] if replay == "unsafe" else [])


@pytest.mark.parametrize("begun", [False, True])
async def test_a_question_that_was_open_is_asked_again_and_written_down_once(begun: bool) -> None:
    """Whoever asked is gone, so a person is asked anew; to the log it is the same question."""
    reasons: list[str] = []
    once = tool(act.fn, name="act", replay="unsafe")

    async def answers(question: Question) -> Answer:
        reasons.append(question.reason)
        return Approve()

    model = Talker([calls(("c1", "act", 1)), "end"])
    permissions = Permissions(default="allow" if begun else "ask")
    first = Session(Kept(()))
    async with Agent(model, tools=[once], session=first, approver=answers, permissions=permissions) as agent:
        await agent.prompt("go")
    cut = next(e.seq for e in first.entries if e.type == ("tool/call" if begun else "approval/asked")) + 1
    entries = first.entries[:cut]
    for _ in range(3):
        session = LastingSession(Kept(entries))
        agent = Agent(model, tools=[once], session=session, approver=answers, permissions=permissions)
        steps = Plain()
        agent.steps = steps
        async with agent:
            steps.missing = pick_up(agent)
            await agent.idle()
        judged = verify(session.entries)
        assert judged.ok, judged.message
        assert [e.type for e in session.entries if e.type.startswith("approval/")] == [
            "approval/asked", "approval/decided",
        ]  # fmt: skip
        entries = session.entries[: next(e.seq for e in session.entries if e.type == "approval/asked") + 1]
    assert len(reasons) == 3 + (not begun)
    assert (set(reasons) == {MAY_HAVE_RUN}) is begun


async def test_a_wait_goes_on_from_when_it_began() -> None:
    entries = await whole()
    cut = next(entry.seq for entry in entries if entry.type == "llm/retry") + 1
    wait = entries[cut - 1].data["after"]
    session = LastingSession(Kept(entries[:cut]))
    clock = FakeClock(entries[cut - 1].time + wait / 2)
    agent = Agent(Talker(SCRIPT), tools=[look, act], session=session, clock=clock)
    steps = Plain()
    agent.steps = steps
    async with agent:
        steps.missing = pick_up(agent)
        await agent.idle()
    assert clock.slept == [pytest.approx(wait / 2)]


async def test_a_turn_that_was_being_cut_off_is_closed() -> None:
    session = Session(Kept(()))
    agent = Agent(Talker(["never said"]), session=session)
    agent.on(
        "agent/assistant-stream", lambda signal, _: agent.abort() if signal.data["frame"] == "chunk" else 0
    )
    async with agent:
        agent.follow_up("go")
        await agent.idle()
    assert session.entries[-1].data["reason"] == "aborted"
    for cut in (1, 2):
        after, steps, going = await picked_up(session.entries[:-cut])
        assert (going, steps.ran) == (False, [])
        assert after[-1].data["reason"] == "interrupted"
        assert verify(after).ok


async def test_a_turn_is_cut_off_while_it_is_picked_up() -> None:
    entries = await whole()
    cut = next(entry.seq for entry in entries if entry.type == "llm/retry") + 1
    session = LastingSession(Kept(entries[:cut]))
    agent = Agent(Talker(SCRIPT), tools=[look, act], session=session, clock=FakeClock(autojump=False))
    steps = Plain()
    agent.steps = steps
    async with agent:
        steps.missing = pick_up(agent)
        agent.abort("enough")
        await agent.idle()
    assert session.entries[-1].data["reason"] == "aborted"
    assert verify(session.entries).ok


def test_a_tool_says_how_it_is_replayed() -> None:
    assert tool(look.fn, effects="read").replayed == "idempotent"
    assert tool(look.fn).replayed == "unsafe"
    assert tool(look.fn, effects="read", replay="keyed").replayed == "keyed"
    with pytest.raises(TypeError, match="replay is 'maybe'; it must be idempotent, keyed or unsafe"):
        tool(look.fn, replay=cast(Any, "maybe"))
