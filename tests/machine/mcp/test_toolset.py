from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer
from tests.machine.drive import calls, texts
from tests.machine.mcp.memory import Memory, offering, program, use

from turnchart.machine import (
    Agent,
    McpError,
    McpServer,
    Permissions,
    Reply,
    ScriptedModel,
    Session,
    Tool,
    Turn,
    tool,
)
from turnchart.machine.providers.wire_names import WireNames
from turnchart.machine.scripted import Scripted
from turnchart.machine.ui import ToolsUpdate, UiEvent
from turnchart.testing import FakeClock, record


async def talk(replies: Sequence[Scripted], *servers: McpServer, **settings: Any) -> tuple[Agent, Turn]:
    """Prompt an agent with servers once."""
    model = ScriptedModel(replies)
    async with Agent(model, mcp=servers or (program(),), clock=FakeClock(), **settings) as agent:
        recording = record(agent)
        turn = await agent.prompt("x")
        recording.check()
    return agent, turn


def results(agent: Agent) -> list[tuple[str, str, str]]:
    """Return tool, outcome and text of every result."""
    return [
        (entry.data["message"].tool, entry.data["outcome"], entry.data["message"].text)
        for entry in agent.session.entries
        if entry.type == "tool/result"
    ]


def offered(agent: Agent) -> list[list[str]]:
    """Return the tools of which the model was told, each time that these changed."""
    return [
        [spec["name"] for spec in entry.data["tools"]]
        for entry in agent.session.entries
        if entry.type == "request/header"
    ]


async def test_the_model_calls_tools_of_a_server(memory: Memory) -> None:
    agent, turn = await talk([
        calls(("off.add", {"a": 2, "b": 3})), calls(("off.issue.get by-id", {"number": "7"})),
        calls(("off.add", {"a": "x"})), "done",
    ])  # fmt: skip
    assert turn.reason == "completed"
    assert results(agent)[:2] == [("off.add", "ok", "5"), ("off.issue.get by-id", "ok", "issue 7")]
    name, outcome, text = results(agent)[2]
    assert (name, outcome) == ("off.add", "error")
    assert "- `a`: 'x' is not of type 'integer'" in text
    assert memory.started == ["serve"]
    [specs] = offered(agent)
    assert specs == sorted(specs)
    assert "off.issue.get by-id" in specs


async def test_names_on_the_wire_lead_back_to_the_tools(memory: Memory) -> None:
    agent, _ = await talk(["done"])
    names = WireNames(agent.known_tools)
    wire = [names.wire(name) for name in agent.known_tools]
    assert wire[0] == "off__add"
    assert wire[-1] == "off__issue__get_by-id"
    assert [names.own(each) for each in wire] == list(agent.known_tools)


async def test_only_some_of_its_tools_under_another_name(memory: Memory) -> None:
    servers = (program("a", only=["add", "i*"]), program("b", only=["add"], execution="parallel"))
    agent, _ = await talk([calls(("a.wait", {})), "done"], *servers)
    assert list(agent.known_tools) == ["a.add", "a.issue.get by-id", "b.add"]
    assert [agent.known_tools[name].execution for name in ("a.add", "b.add")] == ["exclusive", "parallel"]
    assert memory.started == ["serve"], "one connection for both"
    assert results(agent)[0][2].startswith("There is no tool 'a.wait'.")


async def test_servers_that_are_reached_in_other_ways_have_connections_of_their_own(memory: Memory) -> None:
    await talk(["done"], program("a"), McpServer.stdio("b", ["other"]), program("c", timeout=5))
    assert sorted(memory.started) == ["other", "serve", "serve"]


async def test_a_tool_of_the_agent_takes_the_place_of_one_with_its_name(memory: Memory) -> None:
    own = tool(lambda: "mine", name="off.add", description="")
    agent, _ = await talk([calls(("off.add", {})), "done"], tools=[own])
    assert results(agent) == [("off.add", "ok", "mine")]


async def test_permissions_name_tools_of_servers(memory: Memory) -> None:
    rules = Permissions(deny=["off.issue.get by-id"], allow=["off.a*"])
    agent, _ = await talk(
        [calls(("off.add", {"a": 1}), ("off.issue.get by-id", {"number": "1"}), ("off.slowly", {})), "done"],
        permissions=rules,
    )  # fmt: skip
    assert [outcome for _, outcome, _ in results(agent)] == ["ok", "denied", "denied"]


async def test_a_server_that_dies_costs_one_call(memory: Memory) -> None:
    agent, turn = await talk([calls(("off.die", {})), calls(("off.add", {"a": 1})), "done"])
    assert turn.reason == "completed"
    assert [outcome for _, outcome, _ in results(agent)] == ["error", "ok"]


async def test_a_call_takes_no_longer_than_its_limit(memory: Memory) -> None:
    clock = FakeClock()
    model = ScriptedModel([calls(("off.wait", {})), calls(("off.add", {"a": 1})), "done"])
    async with (
        Agent(model, mcp=[program(timeout=60)], clock=clock) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(agent.prompt, "x")
        await anyio.wait_all_tasks_blocked()
        await clock.advance(60)
    assert results(agent) == [
        ("off.wait", "error", "off.wait took longer than 60 seconds and was stopped."),
        ("off.add", "ok", "2"),
    ]


async def test_an_abort_cuts_a_call_off(memory: Memory) -> None:
    async with Agent(ScriptedModel([calls(("off.wait", {})), "done"]), mcp=[program()]) as agent:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.prompt, "x")
            await anyio.wait_all_tasks_blocked()
            agent.abort("user")
        assert results(agent)[0][:2] == ("off.wait", "aborted")
        assert (await agent.prompt("y")).reason == "completed"


async def test_other_tools_count_from_the_next_step(memory: Memory) -> None:
    notices: list[str] = []
    updates: list[ToolsUpdate] = []
    model = ScriptedModel([
        calls(("off.grow", {}), ("off.grown", {"number": "1"}), ("off.fail", {})),
        calls(("off.grown", {"number": "2"}), ("off.fail", {})), "done",
    ])  # fmt: skip
    async with Agent(model, mcp=[program()]) as agent:
        agent.on("notice", lambda signal, _: notices.append(signal.data["text"]))
        agent.ui(lambda event, _: updates.append(event) if isinstance(event, ToolsUpdate) else None)
        await agent.prompt("x")
        assert [each.name for each in agent.view.tools] == list(agent.known_tools)
    outcomes = [(name, outcome) for name, outcome, _ in results(agent)]
    assert outcomes == [
        ("off.grow", "ok"), ("off.grown", "error"), ("off.fail", "error"),
        ("off.grown", "ok"), ("off.fail", "error"),
    ]  # fmt: skip
    assert "There is no tool 'off.grown'" in results(agent)[1][2]
    assert "There is no tool 'off.fail'" in results(agent)[4][2]
    assert notices == ["the tools of MCP servers have changed; new: off.grown; gone: off.fail"]
    first, second = offered(agent)
    assert set(second) - set(first) == {"off.grown"}
    assert set(first) - set(second) == {"off.fail"}
    [update] = updates
    assert (sorted(update.previous_tools), sorted(update.tools)) == (first, second)


async def test_tools_that_the_model_may_not_call_are_no_update(memory: Memory) -> None:
    heard: list[UiEvent] = []
    model = ScriptedModel([calls(("off.grow", {})), calls(("off.add", {"a": 1})), "done"])
    async with Agent(model, mcp=[program()]) as agent:
        agent.set_active_tools(["off.grow", "off.add"])
        agent.ui(lambda event, _: heard.append(event))
        await agent.prompt("x")
    assert "tools_update" not in [event.type for event in heard]


async def test_a_listener_from_before_hears_of_the_tools_that_opening_brings(memory: Memory) -> None:
    heard: list[UiEvent] = []
    agent = Agent(ScriptedModel([]), tools=[tool(lambda: "", name="own", description="")],
                  mcp=[program(only=["add"])])  # fmt: skip
    agent.ui(lambda event, _: heard.append(event))
    async with agent:
        assert heard == [ToolsUpdate(("own", "off.add"), ("own",))]


async def test_a_server_that_cannot_be_started_keeps_the_agent_from_opening(memory: Memory) -> None:
    memory.refuse = OSError("no such program")
    session = Session.memory()
    with pytest.raises(McpError, match="cannot be started: no such program"):
        async with Agent(ScriptedModel(["unused"]), mcp=[program()], session=session):
            raise AssertionError("it is not open")
    memory.refuse = None
    async with Agent(ScriptedModel(["done"]), mcp=[program()], session=session) as agent:
        assert (await agent.prompt("x")).text == "done"


async def test_an_agent_that_is_opened_again_connects_again(memory: Memory) -> None:
    names: list[list[str]] = []
    agent = Agent(ScriptedModel(default=Reply("ok")), mcp=[program()])
    for _ in range(2):
        async with agent:
            assert (await agent.prompt("x")).text == "ok"
            names.append(list(agent.known_tools))
    assert len(memory.started) == 2
    assert names[0] == names[1]


async def test_tools_that_nobody_could_call_are_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(memory: Memory) -> MCPServer:
        server = offering(memory)
        for name in ("a\nb", "x" * 300):
            server.add_tool(lambda: "", name=name)
        broken = server._tool_manager.get_tool("fail")  # pyright: ignore[reportPrivateUsage]  # no server would do that by itself
        assert broken is not None
        broken.parameters = {"type": "object", "properties": {"a": {"type": "many"}}}
        return server

    use(monkeypatch, make)
    agent = Agent(ScriptedModel(["done"]), mcp=[program(only=["a*", "x*", "fail", "none_*"])])
    notices: list[str] = []
    agent.on("notice", lambda signal, _: notices.append(signal.data["text"]))
    async with agent:
        await agent.prompt("x")
        assert list(agent.known_tools) == ["off.add"]
    assert [text.split(":")[0] for text in notices] == [
        "MCP server off has no tool 'none_*'; its tools",
        *["MCP server off"] * 3,
    ]
    assert "tool `off.fail`: no valid JSON Schema" in "\n".join(notices)


async def test_a_tool_may_be_wrapped(memory: Memory) -> None:
    seen: list[str] = []

    def wrap(given: Tool) -> Tool:
        seen.append(given.name)
        return given

    agent = Agent(ScriptedModel(["done"]), mcp=[program(only=["add"])])
    assert agent.mcp is not None
    agent.mcp.wrap = wrap
    async with agent:
        await agent.prompt("x")
    assert seen == ["off.add"]
    assert texts(agent.session, "assistant/message") == ["done"]


async def test_opening_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(MCPServer):
        async def list_tools(self) -> Any:
            await anyio.sleep_forever()

    use(monkeypatch, lambda _: Silent("silent"))
    session, opened = Session.memory(), False
    async with anyio.create_task_group() as group:

        async def open_it() -> None:
            nonlocal opened
            async with Agent(ScriptedModel(["unused"]), mcp=[program()], session=session):
                opened = True

        group.start_soon(open_it)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert not opened
    async with Agent(ScriptedModel(["done"]), session=session) as agent:
        assert (await agent.prompt("x")).text == "done"
