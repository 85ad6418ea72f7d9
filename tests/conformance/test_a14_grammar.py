"""data-flow A14 and B4 as a grammar: whatever happens, what a user interface hears is well formed."""

from collections.abc import Callable
from random import Random

import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.hearing import Heard
from tests.machine.drive import calls, drop, scripted, slows

from turnchart.machine import Agent, Failure, Reply, TurnFailed
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import Deny, PreStep, PreTool, Reject, Request
from turnchart.machine.scripted import Scripted
from turnchart.machine.ui import (
    AgentEnd,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    UiEvent,
)

ANYWHERE = (
    "queue_update", "abort", "model_update", "thinking_level_update", "tools_update", "tool_execution_update",
)  # fmt: skip
REPLIES: list[Scripted] = [
    "text", slows(0, 1), slows(2, 0, 1), calls(("add", {"a": 1, "b": 2})), calls(("nope", {})),
    Failure("overloaded"), Failure("auth"), ConnectionError("refused"), ValueError("a bug"),
    Reply(chunks=["par", 2.0, "tial"]), Reply("late", delay=3), Reply(chunks=[]),
    Reply("half", finish="max_tokens"),
]  # fmt: skip


class Grammar:
    """Checks one event after the other, and that no bracket is left open at the end."""

    def __init__(self) -> None:
        self.run = self.turn = self.saved = False
        self.message: str | None = None
        self.calls: list[str] = []
        self.ended: list[str] = []

    def take(self, event: UiEvent) -> None:
        match event:
            case MessageStart():
                assert self.message is None
                self.message = event.message.role
            case MessageEnd():
                assert self.message == event.message.role
                self.message = None
            case ToolExecutionStart():
                assert self.turn
                self.calls.append(event.call_id)
            case ToolExecutionEnd():
                self.ended.append(event.call_id)
                assert self.calls[: len(self.ended)] == self.ended, "results come in the order of the model"
            case ToolExecutionUpdate():
                assert event.call_id in self.calls
                assert event.call_id not in self.ended
            case _:
                self._bracket(event.type)

    def _bracket(self, type: str) -> None:
        match type:
            case "agent_start":
                assert not self.run
                self.run = True
            case "turn_start":
                assert self.run
                assert not self.turn
                self.turn, self.calls, self.ended = True, [], []
            case "after_provider_response":
                assert self.turn
                assert self.message is None
            case "message_update":
                assert self.message == "assistant"
            case "turn_end":
                assert self.turn
                assert self.message is None
                assert self.calls == self.ended, "no call is left without its result"
                self.turn, self.saved = False, True
            case "save_point":
                assert self.saved
                self.saved = False
            case "agent_end":
                assert self.run
                assert not self.turn
                assert not self.saved
                self.run = False
            case "settled":
                assert not self.run
            case _:
                assert type in ANYWHERE, type

    def over(self) -> None:
        """Check that everything that began has ended."""
        assert (self.run, self.turn, self.saved, self.message) == (False, False, False, None)


def hooks(dice: Random) -> dict[str, list[Callable[..., object]]]:
    """Return hooks that now and then reject, deny or fail."""

    def gate(_: PreStep) -> Reject | None:
        return Reject("no") if dice.random() < 0.1 else None

    def refuse(_: PreTool) -> Deny | None:
        return Deny("no") if dice.random() < 0.2 else None

    def fail(_: Request) -> None:
        if dice.random() < 0.05:
            raise ValueError("boom")

    return {"pre_step": [gate], "pre_tool": [refuse], "request": [fail]}


def meddle(agent: Agent, dice: Random) -> None:
    """Do something that people do at any moment."""
    act = dice.choice(["abort", "keep", "steer", "follow_up", "inject", "next_turn", "model", "note"])
    match act:
        case "abort" | "keep":
            agent.abort("user", keep_inbox=act == "keep")
        case "model":
            agent.set_model("test")
        case "note":
            agent.append_message("noted")
        case _:
            getattr(agent, act)(act)


@pytest.mark.parametrize("seed", range(60))
async def test_b4_every_run_is_well_formed_and_the_view_is_what_the_log_says(seed: int) -> None:
    dice = Random(seed)
    replies = [dice.choice(REPLIES) for _ in range(30)]
    grammar = Grammar()
    problems: list[AssertionError] = []

    def check(event: UiEvent, _: AbortSignal) -> None:
        try:
            grammar.take(event)
        except AssertionError as error:
            problems.append(error)
        if dice.random() < 0.03:
            meddle(agent, dice)

    async def slowly(event: UiEvent, abort: AbortSignal) -> None:
        await checkpoint()
        check(event, abort)

    async with scripted(replies, hooks=hooks(dice)) as agent:
        agent.ui(slowly if seed % 2 else check)
        heard = Heard(agent)
        for text in ("x", "y", "z"):
            try:
                await agent.prompt(text)
            except TurnFailed:
                agent.abort("test")
            await agent.idle()
        assert problems == []
        grammar.over()
        kept = agent.view
        assert list(kept.messages) == list(agent.session.context())
        assert {id(each) for end in heard.of(AgentEnd) for each in end.messages} <= {
            id(entry.data["message"]) for entry in agent.session.entries if "message" in entry.data
        }
        assert not kept.is_streaming
        drop(agent)
