"""An answer that pauses amid the tools of its provider goes on, and is one answer."""

from typing import Any

import pytest
from tests.machine.providers.asking import model_of
from tests.machine.providers.loopback import CUT, Loopback, Wire
from tests.machine.providers.native_frames import RESULT, anthropic_searched
from tests.machine.providers.wire_formats import wires

from turnchart.machine import Agent, Reply, RetryPolicy, Session, ToolCall, tool
from turnchart.machine.providers.segments import MOST
from turnchart.machine.toolbox import provider_tool

# The clients of providers leave finished generators to the collector, which trio complains of.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")]
PAUSED = anthropic_searched("pause_turn")


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def talk(*answers: Wire, prompts: int = 1) -> tuple[Session, list[Any]]:
    """Return the log of a turn, or of more, and the bodies of the requests."""
    with Loopback(*answers, forever=len(answers) == 1) as server:
        model = model_of("anthropic", server)
        async with Agent(
            model, tools=[add, provider_tool("web_search")], retry=RetryPolicy(max_attempts=1)
        ) as agent:
            for _ in range(prompts):
                await agent.prompt("And?")
    return agent.session, [heard.body for heard in server.heard]


async def test_what_paused_goes_on_in_one_message() -> None:
    rest = Reply("It rains.", usage={"input": 7, "output": 2})
    session, (first, second, third) = await talk(
        PAUSED, *wires("anthropic", [rest, Reply("Yes.")]), prompts=2
    )
    searched = [
        {"type": "text", "text": "I look. "},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "weather"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [RESULT]},
    ]
    assert second["messages"] == [*first["messages"], {"role": "assistant", "content": searched}]
    whole = [*searched, {"type": "text", "text": "It rains."}]
    assert third["messages"][1] == {"role": "assistant", "content": whole}
    answer = session.context()[1]
    assert (answer.text, answer["stop_reason"]) == ("I look. It rains.", "stop")
    assert {name: answer["usage"][name] for name in ("input", "output")} == {"input": 12, "output": 11}
    assert [entry.type for entry in session.entries].count("assistant/message") == 2


async def test_a_call_behind_a_pause_is_numbered_on_and_run() -> None:
    asked = Reply("I add. ", tool_calls=[ToolCall("add", {"a": 1, "b": 2}, "c1")])
    session, bodies = await talk(PAUSED, *wires("anthropic", [asked, Reply("3.")]))
    answer = session.context()[1]
    assert [block["type"] for block in answer.content] == ["text", "text", "tool_call"]
    assert answer.text == "I look. I add. "
    assert session.context()[2].text == "3"
    assert len(bodies) == 3


async def test_what_breaks_off_behind_a_pause_is_no_answer() -> None:
    session, _ = await talk(PAUSED, Wire([*PAUSED.body[:3], CUT]))
    [failed] = [entry.data for entry in session.entries if entry.type == "assistant/attempt"]
    assert failed["failure"]["kind"] == "incomplete_stream"


async def test_it_does_not_go_on_for_ever() -> None:
    session, bodies = await talk(PAUSED)
    [failed] = [entry.data for entry in session.entries if entry.type == "assistant/attempt"]
    assert failed["failure"]["message"] == "the provider ended the answer: pause_turn"
    assert len(bodies) == MOST
