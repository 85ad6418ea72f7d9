from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows import load_flow
from turnchart.machine import Agent, Event, Facts, Failure, Reply, ScriptedModel, State, Table, ToolCall
from turnchart.testing import AgentFrom, CommandStub, FakeClock, ToolStub
from turnchart.testing.fixtures import ScriptedFactory

FLOW = """\
version: 1
model: openai:gpt-5
tools: [shell]
permissions: {allow: ['shell(ls *)']}
hooks:
  turn_stopping:
    - {run: [./check.sh], id: check}
"""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """Write a flow."""
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW, "utf-8")
    (tmp_path / "check.sh").write_text("", "utf-8")
    (tmp_path / "check.sh").chmod(0o755)
    return path


def test_the_lifecycle_is_the_table(lifecycle: Table) -> None:
    assert lifecycle.transition(State.REQUESTING, Event.RESPOND, Facts()).target is State.STOPPING


async def test_a_scripted_model_waits_on_the_fake_clock(
    scripted: ScriptedFactory, fake_clock: FakeClock
) -> None:
    model = scripted(Failure("rate_limit", retry_after=50), "Done.", id="mine")
    async with Agent(model, clock=fake_clock) as agent:
        turn = await agent.prompt("x")
    assert (turn.text, fake_clock.slept, model.id) == ("Done.", [50], "mine")


def ls(command: str = "ls") -> Reply:
    return Reply(tool_calls=[ToolCall("shell", {"command": command})])


async def test_the_agent_of_a_flow_is_played(
    agent_from: AgentFrom, flow: Path, fake_clock: FakeClock
) -> None:
    agent = agent_from(flow, [ls(), "Done."], tools={"shell": "listed"}, commands={"check.sh": 0})
    assert agent.clock is fake_clock
    assert agent.root != flow.parent
    async with agent:
        turn = await agent.prompt("x")
    assert (turn.text, turn.steps) == ("Done.", 2)
    assert [m.text for m in agent.session.context() if m.role == "tool_result"] == ["listed"]


@pytest.mark.parametrize(
    ("given", "result", "is_error"),
    [
        ("a", "a", False),
        (3, "3", False),
        (ValueError("no"), "no", True),
        (ToolStub(returns=[1]), "[1]", False),
    ],
)
async def test_tools_return_or_fail(
    given: Any, result: str, is_error: bool, agent_from: AgentFrom, flow: Path
) -> None:
    agent = agent_from(flow, [ls(), "Done."], tools={"shell": given}, commands={"check.sh": 0})
    async with agent:
        await agent.prompt("x")
    [message] = [m for m in agent.session.context() if m.role == "tool_result"]
    assert (message.text, message["is_error"]) == (result, is_error)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (0, "completed"),
        (1, "error"),
        ((1, "x"), "error"),
        ("not JSON", "error"),
        ((0, "{}"), "completed"),
        (CommandStub(output="{}"), "completed"),
    ],
)
async def test_programs_end_as_they_are_told(
    given: Any, reason: str, agent_from: AgentFrom, flow: Path
) -> None:
    async with agent_from(flow, {"openai:gpt-5": ["Done."]}, commands={"check.sh": given}) as agent:
        assert (await agent.prompt("x")).reason == reason


async def test_a_list_is_one_stub_a_call(agent_from: AgentFrom, flow: Path) -> None:
    agent = agent_from(
        flow,
        [ls(), ls(), "Done.", "Still done."],
        tools={"shell": [ToolStub(returns="a"), ToolStub(returns="b")]},
        commands={"check.sh": ['{"decision": "continue", "reason": "more"}', 0]},
    )
    async with agent:
        turn = await agent.prompt("x")
    assert [m.text for m in agent.session.context() if m.role == "tool_result"] == ["a", "b"]
    assert turn.text == "Still done."


async def test_a_question_is_answered_and_files_are_there(agent_from: AgentFrom, flow: Path) -> None:
    agent = agent_from(
        load_flow(flow, trust=True), ScriptedModel([ls("make"), "Done."]), tools={"shell": "made"},
        commands={"check.sh": 0}, files={"src/a.py": "x = 1"}, approve=["shell(make *)"],
    )  # fmt: skip
    assert (agent.root / "src" / "a.py").read_text("utf-8") == "x = 1"
    async with agent:
        await agent.prompt("x")
    assert [m.text for m in agent.session.context() if m.role == "tool_result"] == ["made"]


async def test_a_shipped_flow_is_found_by_its_name(agent_from: AgentFrom) -> None:
    agent = agent_from("demo", ["Hello."])
    async with agent:
        assert (await agent.prompt("x")).text == "Hello."


def test_a_tool_that_the_flow_does_not_have_is_refused(agent_from: AgentFrom, flow: Path) -> None:
    with pytest.raises(ValueError, match="the flow has no tool 'shel'; its tools are: shell"):
        agent_from(flow, tools={"shel": "x"})


async def test_what_has_no_stub_is_known_at_the_end(
    tmp_path: Path, flow: Path, fake_clock: FakeClock
) -> None:
    made = AgentFrom(flow.parent, tmp_path / "agents", fake_clock)
    async with made(flow, [ls(), "Done."]) as agent:
        await agent.prompt("x")
    assert [text.partition(" has no stub")[0] for text in made.missing()] == [
        "the tool 'shell'", f"the program '{flow.parent}/check.sh'",
    ]  # fmt: skip


def test_a_test_that_asks_for_what_has_no_stub_fails(inner: Callable[..., Any]) -> None:
    ran = inner(
        flow__yaml="version: 1\nmodel: openai:gpt-5\n",
        test_it__py="""
            import anyio

            def test_it(agent_from):
                async def talk():
                    async with agent_from("flow.yaml") as agent:
                        await agent.prompt("x")

                anyio.run(talk)
        """,
    )
    assert ran.outcomes == {"test_it.py::test_it": "error"}
    assert "the model 'openai:gpt-5' has no script; write model:" in ran.texts
