"""What the tests of requests, streams and retries share: models that do as told, and what became of it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.machine.histories import Kept

from turnchart.machine import Agent, Entry, Message, Session, Signal, UserMessage
from turnchart.machine.abort import AbortSignal
from turnchart.machine.entries import Frozen, decode
from turnchart.machine.messages import RETRIED_KINDS, FailureKind
from turnchart.machine.models import Chunk, Finish, Model, ModelRequest, PreparedCall, RequestConfig
from turnchart.machine.points import Assemble
from turnchart.machine.rebuild import rebuild
from turnchart.machine.stream import expand
from turnchart.testing import FakeClock, record

Part = Chunk | float | Exception
"""A chunk, seconds to wait, or what the stream raises."""
DONE = (Finish("stop"),)
IN_HISTORY = ("system_prompt_update",)


class Route:
    """A model that says what it is told to: nothing is added to its streams.

    Attributes:
        requests: The requests that were streamed, oldest first.
        prepared: How often a call was prepared.
    """

    def __init__(
        self,
        *streams: Sequence[Part] | Exception,
        id: str = "test",
        defaults: Mapping[str, Any] | None = None,
        window: int | None = None,
        capabilities: Iterable[str] = (),
        retry_kinds: Sequence[FailureKind] = RETRIED_KINDS,
        preparing: Callable[[RequestConfig], Any] | None = None,
    ) -> None:
        self.id = id
        self.streams = list(streams)
        self.defaults = dict(defaults or {})
        self.window = window
        self.capabilities = frozenset(capabilities)
        self.retry_kinds = retry_kinds
        self.preparing = preparing
        self.requests: list[ModelRequest] = []
        self.prepared = 0

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Fill in what the config leaves open, and mark it."""
        del abort
        self.prepared += 1
        answer = self.preparing(config) if self.preparing is not None else None
        if answer is not None:
            await answer
        filled = {name: value for name, value in self.defaults.items() if name not in config.settings}
        return PreparedCall(
            config._replace(settings=Frozen(config.settings | filled)), self.open,
            defaults=frozenset(filled), context_window=self.window, capabilities=self.capabilities,
            retry_kinds=self.retry_kinds,
        )  # fmt: skip

    def open(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Return the next stream."""
        parts = self.streams.pop(0) if self.streams else DONE
        if isinstance(parts, Exception):
            raise parts
        return self.play(request, parts)

    async def play(self, request: ModelRequest, parts: Sequence[Part]) -> AsyncIterator[Chunk]:
        """Stream these parts."""
        self.requests.append(request)
        for part in parts:
            if isinstance(part, float | int):
                await request.clock.sleep(part)
            elif isinstance(part, Exception):
                raise part
            else:
                yield part


@asynccontextmanager
async def asked(
    model: Model | str, *, clock: FakeClock | None = None, checked: bool = True, **settings: Any
) -> AsyncGenerator[Agent]:
    """Give an agent on this model; unless it is not ``checked``, trace and log must be legal walks."""
    settings.setdefault("prompt", "Be brief.")
    async with Agent(model, clock=clock or FakeClock(), seed=1, **settings) as agent:
        recording = record(agent)
        yield agent
        await agent.idle()
        if checked:
            recording.check()


class Board:
    """An assemble hook that says what is written on it.

    Attributes:
        text: The system prompt; None keeps that of the agent.
        facts: What the model is told besides.
        tools: The names of the tools; None keeps those of the agent.
        asked: How often it was asked.
    """

    def __init__(self, text: str | None = None, tools: tuple[str, ...] | None = None, **facts: str) -> None:
        self.text = text
        self.tools = tools
        self.facts = facts
        self.asked = 0

    def __call__(self, payload: Assemble) -> Assemble:
        """Put the prompt together."""
        self.asked += 1
        changes: dict[str, Any] = {"contexts": dict(self.facts)}
        if self.text is not None:
            changes["sections"] = (self.text,)
        if self.tools is not None:
            changes["tools"] = self.tools
        return payload.replace(**changes)


def reloaded(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries as they come back from a file."""
    return [Entry.of(decode(entry.line())) for entry in entries]


def resumed(session: Session) -> Session:
    """Return what another program finds of a session."""
    return Session(Kept(reloaded(session.entries)))


def replace(session: Session, first: int, last: int, text: str) -> None:
    """Put one message in the place of a range of the conversation, as a compaction does."""
    shadowed = tuple(node.seq for node in session.view.nodes if first <= node.seq <= last)
    session.append(
        "user/message", Frozen(message=UserMessage(text)), replaces=(first, last), sources=shadowed
    )


def all_of(session: Session, *types: str) -> list[Entry]:
    """Return the entries of some types, in order."""
    return [entry for entry in session.entries if entry.type in types]


def systems(session: Session) -> list[tuple[str, bool]]:
    """Return what every system message says, and whether it replaces one."""
    return [(_system(entry), entry.replaces is not None) for entry in all_of(session, "system/message")]


def nodes(session: Session) -> list[str]:
    """Return the surviving system nodes of the view, the head first."""
    return [text for _, text in session.view.system]


def _system(entry: Entry) -> str:
    content = entry.data["message"]["content"]
    return str(content[0]["text"]) if content else ""


def headers(session: Session) -> list[str]:
    """Return why each header was written, with a + where it starts a series."""
    return [
        entry.data["reason"] + ("+" if entry.data.get("starts_series") else "")
        for entry in all_of(session, "request/header")
    ]


def reasons(session: Session) -> list[str]:
    """Return why each turn ended."""
    return [entry.data["reason"] for entry in all_of(session, "turn/end")]


def said(messages: Iterable[Message]) -> list[str]:
    """Return the text of messages."""
    return [message.text for message in messages]


def since(session: Session, seq: int) -> list[str]:
    """Return the types of the entries from one on."""
    return [entry.type for entry in session.entries[seq:]]


def in_step(session: Session, turn: int = 1, step: int = 1) -> list[str]:
    """Return the types of the entries of one step, without its brackets and the inbox."""
    found: list[str] = []
    inside = False
    for entry in session.entries:
        if entry.type in ("step/start", "step/end"):
            inside = entry.type == "step/start" and (entry.data["turn"], entry.data["step"]) == (turn, step)
        elif inside and entry.type != "agent/inbox/spliced":
            found.append(entry.type)
    return found


Seen = tuple[int, int, int, str, str, tuple[Message, ...], tuple[Frozen, ...], Frozen, str | None]


def seen(request: ModelRequest) -> Seen:
    """Return everything that a request says."""
    return (
        request.turn, request.step, request.attempt, request.model, request.system, tuple(request.messages),
        request.tools, request.settings, request.thinking,
    )  # fmt: skip


def rebuilt(entries: Iterable[Entry]) -> list[Seen]:
    """Return what a log says of every request."""
    return [each._replace(messages=tuple(each.messages)) for each in rebuild(entries)]  # type: ignore[misc]  # the same fields, all of them


class Frames:
    """Hears the frames of every attempt."""

    def __init__(self, agent: Agent) -> None:
        self.all: list[Mapping[str, Any]] = []
        agent.on("agent/assistant-stream", self._hear)

    def _hear(self, signal: Signal, _: AbortSignal) -> None:
        self.all.append(signal.data)

    def kinds(self) -> list[str]:
        """Return the kinds of the frames, in order."""
        return [each["frame"] for each in self.all]

    def chunks(self, attempt_id: str) -> list[tuple[Chunk, float]]:
        """Return the chunks of one attempt, with their times."""
        return [
            (each["chunk"], each["time"])
            for each in self.all
            if each["attempt_id"] == attempt_id and each["frame"] == "chunk"
        ]

    def check(self, session: Session) -> None:
        """Hold every settled attempt against its frames: ids, order, chunks, times, outcome."""
        starts = [each for each in self.all if each["frame"] == "start"]
        ends = [each for each in self.all if each["frame"] == "end"]
        ids = [each["attempt_id"] for each in starts]
        revisions = [each["revision"] for each in starts]
        assert len(set(ids)) == len(ids)
        assert revisions == sorted(set(revisions))
        assert [each["attempt_id"] for each in ends] == ids
        assert [each["revision"] for each in ends] == revisions
        every = all_of(session, "assistant/message", "assistant/attempt")
        settled = every[len(every) - len(starts) :]
        for entry, end in zip(settled, ends, strict=True):
            chunks = self.chunks(end["attempt_id"])
            assert list(expand(entry.data["stream"])) == chunks
            assert (end["outcome"], end["seq"], end["index"]) == (entry.type, entry.seq, len(chunks))
        self._ordered(ids)

    def _ordered(self, ids: Sequence[str]) -> None:
        """Each attempt is one run of frames: start, its chunks counted from 0, end."""
        at = 0
        for id in ids:
            own = [each for each in self.all if each["attempt_id"] == id]
            assert self.all[at : at + len(own)] == own
            assert [each["frame"] for each in own] == ["start", *["chunk"] * (len(own) - 2), "end"]
            assert [each["index"] for each in own[1:-1]] == list(range(len(own) - 2))
            assert len({each["revision"] for each in own}) == 1
            at += len(own)
        assert at == len(self.all)
