"""What the conformance tests of the lifecycle share: who hears what, and agents that are held somewhere."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from tests.machine.drive import types
from tests.machine.histories import put

from turnchart.machine import Agent, Entry, Reply, ScriptedModel, Session, Signal, State, Turn
from turnchart.machine.abort import AbortSignal
from turnchart.machine.models import PreparedCall, RequestConfig
from turnchart.machine.scripted import Scripted

INBOX = "agent/inbox/spliced"

Send = Callable[[Agent, str], Any]
SENDS: dict[str, Send] = {
    "follow_up": lambda agent, text: agent.follow_up(text),
    "steer": lambda agent, text: agent.steer(text),
    "inject": lambda agent, text: agent.inject(text),
    "next_turn": lambda agent, text: agent.next_turn(text),
}
LATE = Reply("late", delay=5)
"""An answer after five seconds."""
WAKES: dict[str, Send] = {
    "follow_up": lambda agent, text: agent.follow_up(text),
    "steer": lambda agent, text: agent.steer(text),
}
each_wake = pytest.mark.parametrize("send", WAKES.values(), ids=WAKES.keys())


def hear(agent: Agent, *kinds: str) -> list[str]:
    """Return what listeners hear from now on, in short: all of it, or these kinds only."""
    heard: list[str] = []

    def listen(signal: Signal, _: AbortSignal) -> None:
        if not kinds or signal.kind in kinds:
            heard.append(short(signal))

    agent.on("*", listen)
    return heard


def short(signal: Signal) -> str:
    """Return a signal in a word or two: ``status running``, ``claimed x``, ``entry turn/start``."""
    data = signal.data
    match signal.kind:
        case "session/event":
            return f"entry {data['entry'].type}"
        case "agent/status":
            return f"status {data['status']}"
        case "agent/assistant-stream":
            return f"stream {data['frame']}"
        case kind if kind.startswith("agent/inbox/"):
            return f"{kind.removeprefix('agent/inbox/')} {data['message'].text}"
        case kind:
            return kind


def on_entry(session: Session, type: str, act: Callable[[Entry], object]) -> Callable[[], None]:
    """Act on every entry of a type, as a watcher: inside the append."""
    return session.watch(lambda entry: act(entry) if entry.type == type else None)


def when(agent: Agent, wanted: str, act: Callable[[], object], *, times: int = 1) -> None:
    """Act on a signal, as a plain listener, the first so many times that it is heard in short."""
    left = [times]

    def listen(signal: Signal, _: AbortSignal) -> None:
        if left[0] and short(signal) == wanted:
            left[0] -= 1
            act()

    agent.on("*", listen)


def refuse(session: Session, *kinds: str) -> Callable[[], None]:
    """Let a validator refuse these types of entries; return a function that stops that."""
    return session.validate(lambda entry: "vetoed" if entry.type in kinds else None)


def parked(*items: tuple[str, Any]) -> Session:
    """Return a session in which these wait: texts, with the call that put them there."""
    session = Session.memory()
    for text, origin in items:
        put(session, text, origin)
    return session


def ends(session: Session) -> list[str]:
    """Return the reasons of all turns that ended."""
    return [entry.data["reason"] for entry in session.entries if entry.type == "turn/end"]


def turns(session: Session) -> list[list[str]]:
    """Return the texts of the user messages, turn by turn."""
    found: list[list[str]] = []
    for entry in session.entries:
        if entry.type == "turn/start":
            found.append([])
        elif entry.type == "user/message":
            found[-1].append(entry.data["message"].text)
    return found


def waiting(agent: Agent) -> tuple[list[str], list[str], list[str]]:
    """Return the texts of what waits: for the next step, for the next turn, as riders."""
    lists = [[said.text for item in items for said in item.messages] for items in agent.queued]
    return lists[0], lists[1], lists[2]


def splices(session: Session) -> list[dict[str, Any]]:
    """Return the data of every splice, with texts in the place of what was inserted."""
    found: list[dict[str, Any]] = []
    for entry in session.entries:
        if entry.type == INBOX:
            data: dict[str, Any] = dict(entry.data)
            if "inserted" in data:
                data["inserted"] = [said.text for item in data["inserted"] for said in item.messages]
            found.append(data)
    return found


def count(session: Session, *kinds: str) -> tuple[int, ...]:
    """Return how many entries of each type there are."""
    have = types(session)
    return tuple(have.count(kind) for kind in kinds)


class Calling(ScriptedModel):
    """A scripted model whose adapter calls back while it prepares a request."""

    __slots__ = ("_act",)

    def __init__(self, replies: Iterable[Scripted], act: Callable[[], object]) -> None:
        super().__init__(replies)
        self._act = act

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Call back, then prepare."""
        self._act()
        return await super().prepare(config, abort)


async def at(agent: Agent, state: State) -> None:
    """Prompt an agent and hold it where this state begins."""
    agent.follow_up("x")
    await agent.until(state)


async def cut(agent: Agent, state: State = State.REQUESTING, **how: Any) -> tuple[str, ...]:
    """Prompt an agent, abort it where this state has begun to work, and return what was discarded."""
    await at(agent, state)
    agent.go_on()
    for _ in range(10):
        await checkpoint()
    return tuple(said.text for item in agent.abort(**how) for said in item.messages)


def requests(agent: Agent) -> int:
    """Return how often the model was asked."""
    assert isinstance(agent.model, ScriptedModel)
    return len(agent.model.requests)


def last(agent: Agent) -> Turn:
    """Return the last turn of an agent that had one."""
    assert agent.last_turn is not None
    return agent.last_turn
