"""What the tests of tools, stops, hooks and bad input share: tools that write down what they do."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from tests.machine.drive import Act

from turnchart.machine import Agent, Entry, Reply, Session, Tool, ToolCall, ToolContext, tool
from turnchart.machine.entries import decode
from turnchart.machine.points import ToolOutcome
from turnchart.machine.stores import MemoryStore
from turnchart.testing import FakeClock

Seen = list[str]
"""What happened, in order: ``a+`` where the body of tool a began, ``a-`` where it ended."""


def timed(name: str, seconds: float, seen: Seen, *, outcome: object = "", **settings: Any) -> Tool:
    """Return a tool that takes so long and then gives or raises ``outcome``."""

    async def body(ctx: ToolContext) -> Any:
        seen.append(f"{name}+")
        await ctx.clock.sleep(seconds)
        seen.append(f"{name}-")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome or name

    return tool(body, name=name, description=name, **settings)


def parallels(seen: Seen, **seconds: float) -> list[Tool]:
    """Return parallel tools by name, each with the time that it takes."""
    return [timed(name, each, seen, execution="parallel") for name, each in seconds.items()]


def ran(seen: Seen) -> Seen:
    """Return what happened, bodies that began together in the order of their names: trio shuffles them."""
    found: Seen = []
    for began, group in groupby(seen, key=lambda each: each.endswith("+")):
        each = list(group)
        found += sorted(each) if began else each
    return found


def last(*, terminate: bool = True) -> Tool:
    """Return a tool whose result asks to end the turn."""

    def end_here() -> ToolOutcome:
        return ToolOutcome(terminate=terminate)

    return tool(end_here, name="last", description="End here.", inline=True)


def asks(*names: str) -> Reply:
    """Return an answer that asks for these tools, without arguments."""
    return Reply(tool_calls=[ToolCall(name, {}) for name in names])


def after(seconds: float, act: Callable[[Agent], object]) -> Act:
    """Return what does something so many seconds after the prompt."""

    async def wait(agent: Agent, clock: FakeClock) -> None:
        await clock.sleep(seconds)
        act(agent)

    return wait


def abort(agent: Agent) -> None:
    """Cut off the turn as a user does."""
    agent.abort("user")


def all_of(session: Session, type: str) -> list[Entry]:
    """Return the entries of one type."""
    return [entry for entry in session.entries if entry.type == type]


def results(session: Session) -> list[tuple[str, str]]:
    """Return outcome and text of every tool result."""
    return [(e.data["outcome"], e.data["message"].text) for e in all_of(session, "tool/result")]


def outcomes(session: Session) -> list[str]:
    """Return the outcome of every tool result."""
    return [outcome for outcome, _ in results(session)]


def code(entry: Entry) -> str:
    """Return the code that an error result carries for programs."""
    details: dict[str, str] = entry.data["message"].get("details") or {}
    return details.get("code", "")


def brackets(session: Session, *kinds: str) -> list[str]:
    """Return the order of some types of entries, with what tells them apart."""
    return [_short(entry) for entry in session.entries if entry.type in kinds]


def _short(entry: Entry) -> str:
    data = entry.data
    if entry.type == "turn/end":
        return f"turn/end {data['reason']}"
    if entry.type == "tool/call":
        return f"call {data['tool']}"
    if entry.type == "tool/result":
        return f"result {data['message'].tool}"
    if entry.type == "user/message":
        return f"user {data['message'].text}"
    return entry.type


def reasons(session: Session) -> list[str]:
    """Return why each turn ended."""
    return [entry.data["reason"] for entry in all_of(session, "turn/end")]


def ordered(seen: Sequence[str], *expected: str) -> bool:
    """Whether these happened in this order, whatever else did."""
    rest = iter(seen)
    return all(each in rest for each in expected)


class StrictStore(MemoryStore):
    """Keeps nothing, but takes only what can be written as JSON and read again as the same."""

    def append(self, entry: Entry) -> None:
        """Refuse what a file could not hold."""
        assert Entry.of(decode(entry.line())) == entry


def strict() -> Session:
    """Return a session that holds every entry against its JSON."""
    return Session(StrictStore())
