"""Why turns ended, told from logs that agents wrote."""

from typing import Any

import pytest

from turnchart.flows.cli.sessions_why import why
from turnchart.hooks import Deny, Reject, Stop
from turnchart.machine.agent import Agent
from turnchart.machine.approvals import Approve, Refuse
from turnchart.machine.config import Limits, RetryPolicy
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.permissions import Permissions
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import State
from turnchart.machine.tools import tool


@tool
def nod() -> str:
    """Nod."""
    return "yes"


CALLS = Reply("see", tool_calls=[ToolCall("nod")])


async def told(*said: Any, **settings: Any) -> list[str]:
    async with Agent(ScriptedModel(said, default=CALLS), tools=[nod], **settings) as agent:
        await agent.prompt("first")
        return list(why(agent.session.entries))


def fails(_payload: object) -> None:
    raise ValueError("oh no")


def stops(_payload: object) -> Stop:
    return Stop("enough")


def rejects(_payload: object) -> Reject:
    return Reject("not now")


def denies(_payload: object) -> Deny:
    return Deny("no")


ENDS: list[tuple[list[Any], dict[str, Any], str]] = [
    (["done"], {}, "completed after 1 step: the model asked for no tool, and nothing waited for the turn"),
    ([Reply("do", finish="max_tokens")], {}, "max_tokens after 1 step: the model's answer was cut"),
    (
        [],
        {"limits": Limits(max_steps=2)},
        "max_steps after 2 steps: the limit `limits.max_steps` was reached",
    ),
    (
        [],
        {"hooks": {"after_step": [stops]}},
        "stopped after 1 step: hook after_step stops",
    ),
    (
        [],
        {"hooks": {"pre_step": [rejects]}},
        "blocked after 0 steps: hook pre_step rejects",
    ),
    ([Failure("auth", message="no key")], {}, "error after 1 step: auth: no key"),
]


@pytest.mark.parametrize(("said", "settings", "expected"), ENDS)
async def test_what_ended_a_turn(said: list[Any], settings: dict[str, Any], expected: str) -> None:
    first, *_ = await told(*said, **settings)
    assert first.startswith(f"turn 1 ended as {expected}")


async def test_a_turn_that_was_cut_off() -> None:
    async with Agent(ScriptedModel([], default="slow")) as agent:
        agent.follow_up("go")
        agent.abort("changed my mind")
        await agent.idle()
        assert list(why(agent.session.entries)) == [
            "turn 1 ended as aborted after 0 steps: it was cut off: changed my mind"
        ]


async def test_who_decided_on_the_way() -> None:
    failure = Failure("rate_limit", message="slow down")
    hooks = {"context": [fails], "pre_tool": [denies]}
    _, *lines = await told(failure, CALLS, "done", retry=RetryPolicy(base_delay=0), hooks=hooks)
    seqs, said = zip(*(line.split(None, 1) for line in lines), strict=True)
    assert [int(seq) for seq in seqs] == sorted(int(seq) for seq in seqs)
    context = "hook context fails"
    starts = [
        context, "request failed: rate_limit: slow down", "retry rate_limit: again in 0 s",
        context, "hook pre_tool denies", "nod did not run (denied): Denied: no", context,
    ]  # fmt: skip
    assert [line[: len(start)] for line, start in zip(said, starts, strict=True)] == starts
    assert "failed: ValueError: oh no" in said[0]
    assert "deny: no" in said[4]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Approve(), ["approved"]), (Refuse("too late"), ["refused: too late", "nod did not run (denied)"])],
)
async def test_what_a_person_decided(answer: object, expected: list[str]) -> None:
    async def person(_question: object) -> object:
        return answer

    _, *lines = await told(CALLS, "done", permissions=Permissions(ask=("nod",)), approver=person)
    said = [line.split(None, 1)[1] for line in lines]
    assert said[0] == f"nod was asked for: {expected[0]}"
    assert [line[: len(start)] for line, start in zip(said[1:], expected[1:], strict=True)] == expected[1:]


async def test_a_call_that_was_cut_off_may_have_run() -> None:
    async with Agent(ScriptedModel([], default=CALLS), tools=[nod]) as agent:
        agent.follow_up("go")
        await agent.until(State.TOOLING)
        agent.abort("changed my mind")
        agent.go_on()
        await agent.idle()
        _, *lines = why(agent.session.entries)
    assert [line.split(None, 1)[1] for line in lines] == [
        "nod was cut off (aborted): Aborted before it started; it had no effect."
    ]


def test_a_turn_that_has_not_ended() -> None:
    opened = [Entry(0, None, "turn/start", 0.0, Frozen(turn=1))]
    assert list(why(opened)) == ["turn 1 has not ended: it is running, or its program was killed"]
    closed = Entry(1, 0, "turn/end", 0.0, Frozen(turn=1, reason="interrupted", steps=0))
    assert list(why([*opened, closed])) == [
        "turn 1 ended as interrupted after 0 steps: its program stopped inside it, and the next one closed it"
    ]
    assert list(why([])) == []
