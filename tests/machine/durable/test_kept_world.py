"""What hooks do to the world is done once: from wherever a turn is picked up, and whatever they ask again."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
import pytest
from tests.machine.test_picking_up import Kept, Plain, agent_on

from turnchart.machine import Session
from turnchart.machine.durable.kept_world import KeptWorld, digest
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.picking_up import LastingSession, pick_up
from turnchart.machine.verify import verify
from turnchart.machine.world import Finished, cut_short, errors_of

T = TypeVar("T")


class Remembers(Plain):
    """Steps whose outcomes are kept, with how long the log was then."""

    def __init__(self, entries: Callable[[], int] = int) -> None:
        super().__init__()
        self.stored: dict[str, tuple[int, Frozen]] = {}
        self._before: dict[str, Frozen] = {}
        self._entries = entries

    def after(self, other: "Remembers", cut: int) -> None:
        """Know what another process had kept when its log was cut off there."""
        self._before = {key: value for key, (at, value) in other.stored.items() if at <= cut}

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        came = await super().run(name, key, fn)
        if isinstance(came, Frozen):
            self.keep(key, came)
        return came

    def known(self, key: str) -> Frozen | None:
        return self._before.pop(key, None)

    def keep(self, key: str, value: Frozen) -> None:
        self.stored[key] = (self._entries(), value)


class Noted:
    """A world that notes what is done to it, with how long the log was then."""

    root = "/"

    def __init__(self, entries: Callable[[], int] = int) -> None:
        self.done: list[tuple[int, tuple[str, ...]]] = []
        self._entries = entries

    def _note(self, *what: str) -> int:
        self.done.append((self._entries(), what))
        return len(self.done)

    def now(self) -> float:
        return 1.0

    async def run(self, argv: Sequence[str], **more: Any) -> Finished:
        del more
        if argv[0] == "slow":
            self._note(*argv)
            late = TimeoutError("too slow") if argv[1:] else TimeoutError()
            cut_short(late, "at 3 of 9")
            raise late
        return Finished(0, str(self._note(*argv)), "")

    async def ask_model(self, model: str, prompt: str) -> str:
        return str(self._note("ask", model, prompt))

    def read(self, path: str) -> str:
        return str(self._note("read", path))

    def append(self, path: str, text: str) -> None:
        self._note("append", path, text)

    def notice(self, text: str) -> None:
        self._note("notice", text)

    def inject(self, text: str, source: str) -> None:
        self._note("inject", text, source)


POINTS = (
    "assemble", "pre_step", "request", "context", "convert", "request_error", "pre_tool", "post_tool",
    "after_step", "turn_stopping",
)  # fmt: skip

ADMITTED = ("system/message", "user/message", "request/header", "request/context")


def acting(point: str) -> Callable[..., Any]:
    async def acts(payload: Any) -> None:
        call = getattr(payload, "call_id", "")
        for _ in range(2):
            await payload.run(["do", point, call])
        await payload.ask_model("judge", f"{point} {call}")
        payload.world.append("log", f"{point} {call}\n")

    return acts


def wrapping(point: str) -> Callable[..., Any]:
    async def wraps(payload: Any, next: Callable[[Any], Awaitable[Any]]) -> Any:
        await payload.run(["wrap", point, getattr(payload, "call_id", "")])
        return await next(payload)

    return wraps


HOOKS = {point: [acting(point)] for point in POINTS} | {"tool": [wrapping("tool")]}


async def played(before: Sequence[Entry], old: Remembers | None) -> tuple[list[Entry], Remembers, Noted]:
    session = LastingSession(Kept(before))
    agent = agent_on(session, hooks=HOOKS)
    steps, world = Remembers(lambda: len(session.entries)), Noted(lambda: len(session.entries))
    agent.steps, agent.world = steps, world  # type: ignore[assignment]  # a world for tests
    if old is not None:
        steps.after(old, len(before))
    async with agent:
        if before:
            steps.missing = pick_up(agent)
            if steps.missing is None:
                agent.resume()
        else:
            agent.follow_up("go")
        with anyio.fail_after(10):
            await agent.idle()
    assert verify(session.entries).ok
    return session.entries, steps, world


async def test_it_is_done_once_wherever_the_turn_was_cut_off() -> None:
    entries, steps, world = await played((), None)
    whole = Counter(what for _, what in world.done)
    assert {what[1] for what in whole if what[0] in ("do", "wrap")} == {*POINTS, "tool"}
    start = next(entry.seq for entry in entries if entry.type == "turn/start")
    for cut in range(start + 1, len(entries)):
        if entries[cut].type in ADMITTED:
            continue  # it is written in one go with the entry before
        _, _, again = await played(entries[:cut], steps)
        done = Counter(what for at, what in world.done if at <= cut) + Counter(what for _, what in again.done)
        where = f"cut behind {entries[cut - 1].type} ({cut})"
        assert done == whole, f"{where}: twice {done - whole}, never {whole - done}"


def kept(world: Noted, before: Remembers | None = None) -> tuple[KeptWorld, Remembers]:
    steps = Remembers()
    if before is not None:
        steps.after(before, 0)
    return KeptWorld(world, steps, "1.1 assemble"), steps


async def test_what_it_came_to_is_given_again() -> None:
    world = Noted()
    first, steps = kept(world)
    came = [await first.run(["make"]), await first.run(["make"]), await first.run(["make"], stdin="x")]
    said = await first.ask_model("judge", "well?")
    first.append("log", "line")
    first.inject("look", "hook h")
    done = len(world.done)
    again, _ = kept(world, steps)
    assert [
        await again.run(["make"], stdin="x"), await again.run(["make"]), await again.run(["make"]),
    ] == [came[2], came[0], came[1]]  # fmt: skip
    assert await again.ask_model("judge", "well?") == said
    again.append("log", "line")
    again.inject("look", "hook h")
    assert len(world.done) == done, "nothing was done twice"
    await again.run(["make"])
    again.append("log", "another line")
    assert len(world.done) == done + 2


async def test_one_that_was_late_is_late_again_and_one_that_failed_is_tried_again() -> None:
    world = Noted()
    first, steps = kept(world)
    with pytest.raises(TimeoutError, match="too slow"):
        await first.run(["slow", "one"])
    with pytest.raises(IndexError):
        await first.run([])
    again, _ = kept(world, steps)
    with pytest.raises(TimeoutError, match="too slow"):
        await again.run(["slow", "one"])
    assert len(world.done) == 1
    with pytest.raises(IndexError):
        await again.run([])


async def test_one_that_was_late_says_again_what_it_had_written_and_no_more() -> None:
    first, steps = kept(Noted())
    again, _ = kept(Noted(), steps)
    for world in (first, again):
        with pytest.raises(TimeoutError) as caught:
            await world.run(["slow"])
        assert (caught.value.args, errors_of(caught.value)) == ((), "at 3 of 9")


def test_reading_the_clock_and_notices_pass_through() -> None:
    world = Noted()
    one, steps = kept(world)
    assert (one.root, one.now(), one.read("a")) == ("/", 1.0, "1")
    one.notice("hi")
    assert [what for _, what in world.done] == [("read", "a"), ("notice", "hi")]
    assert steps.stored == {}


def test_a_digest_differs_where_what_is_asked_for_does() -> None:
    asked = [
        ("run", "a", "b"),
        ("run", "ab", ""),
        ("run", "a", "b", ""),
        ("ask", "a", "b"),
        ("run", "\ud800"),
    ]
    assert len({digest(*each) for each in asked}) == len(asked)


async def test_between_turns_nothing_is_kept() -> None:
    session = Session(Kept(()))
    world = Noted(lambda: len(session.entries))
    agent = agent_on(session, hooks={"session_start": [acting("session_start")]})
    steps = Remembers()
    agent.steps, agent.world = steps, world  # type: ignore[assignment]  # a world for tests
    async with agent:
        pass
    assert len(world.done) == 4
    assert steps.stored == {}
