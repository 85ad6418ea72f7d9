from pathlib import Path

import pytest

from turnchart.flows.cli.commands import COMMANDS, Commands, unslashed
from turnchart.flows.cli.places import MEMORY, Shelf
from turnchart.machine.agent import Agent
from turnchart.machine.config import Compaction
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import State
from turnchart.machine.tools import tool


@tool
def nod() -> str:
    """Nod."""
    return "yes"


class Said:
    """A chat without a terminal."""

    def __init__(self, agent: Agent, shelf: Shelf = MEMORY) -> None:
        self.lines: list[str] = []
        self.commands = Commands(agent, shelf, self.lines.append)

    async def __call__(self, line: str) -> list[str]:
        self.lines.clear()
        assert await self.commands.take(line)
        return list(self.lines)


@pytest.mark.parametrize("line", ["hello", "/etc/passwd is odd", "//help", "/ help", "1/2", "/Help", ""])
async def test_what_is_no_command(line: str) -> None:
    assert not await Said(Agent(ScriptedModel([]))).commands.take(line)


def test_two_slashes_say_one() -> None:
    assert (unslashed("//help me"), unslashed("/etc"), unslashed("hi")) == ("/help me", "/etc", "hi")


async def test_help_names_every_command() -> None:
    said = await Said(Agent(ScriptedModel([])))("/help")
    assert [line.split()[0] for line in said[: len(COMMANDS)]] == [f"/{name}" for name in COMMANDS]


async def test_a_command_that_is_none() -> None:
    said = Said(Agent(ScriptedModel([])))
    assert await said("/stat") == [
        "there is no /stat; /help lists what there is, and //stat says it to the agent"
    ]


async def test_the_state() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("nod")]), "done"], id="some:model")
    async with Agent(model, tools=[nod]) as agent:
        said = Said(agent)
        assert (await said("/state"))[:4] == [
            "idle (takes wake, maintain)", "0 turns so far", "model some:model", "tools nod",
        ]  # fmt: skip
        agent.follow_up("go")
        await agent.until(State.TOOLING)
        assert (await said("/state"))[:2] == ["tooling (takes tools_done, cancel, fail)", "turn 1, step 1"]
        agent.go_on()
        await agent.idle()


async def test_what_waits_can_be_dropped_cleared_and_gone_on_with() -> None:
    async with Agent(ScriptedModel([Failure("quota"), "one", "two"])) as agent:
        said = Said(agent)
        assert await said("/queue") == ["nothing waits"]
        assert await said("/queue resume") == ["nothing waits"]
        agent.follow_up("first")
        for text in ("second", "third", "fourth"):
            agent.follow_up(text)
        await agent.idle()
        assert await said("/queue") == [
            "1  next turn: second", "2  next turn: third", "3  next turn: fourth",
            "It is parked: /queue resume goes on with it.",
        ]  # fmt: skip
        assert await said("/queue drop 2") == []
        for wrong in ("drop", "drop 0", "drop 3", "drop x", "up"):
            assert (await said(f"/queue {wrong}"))[0].startswith("/queue: say /queue")
        assert await said("/queue resume") == []
        await agent.idle()
        assert [each.text for each in agent.session.context() if each.role == "user"][-2:] == [
            "second",
            "fourth",
        ]
        agent.inject("aside")
        assert await said("/queue") == ["1  next step: aside", "It is parked: /queue resume goes on with it."]
        assert await said("/queue clear") == ["1 discarded"]


async def test_the_tree_and_a_move_in_it() -> None:
    async with Agent(ScriptedModel(["one"])) as agent:
        said = Said(agent)
        await agent.prompt("hello")
        at = next(entry.seq for entry in agent.session.entries if entry.type == "user/message")
        assert any("hello" in line for line in await said("/tree"))
        assert (await said(f"/tree {at}"))[0].endswith("now")
        assert said.commands.draft == "hello"
        assert await said("/tree 999") != []
        assert await said("/tree x") == ["/tree: x is not the number of an entry; /tree lists them"]


async def test_a_fork_goes_on_in_a_copy(tmp_path: Path) -> None:
    shelf = Shelf("folder", tmp_path)
    session = shelf.open("first", "chat")
    async with Agent(ScriptedModel(["one"]), session=session, name="chat") as agent:
        said = Said(agent, shelf)
        await agent.prompt("hello")
        await said("/fork")
        forked = said.commands.next
    assert forked is not None
    assert forked.id in shelf.ids()
    assert len(shelf.ids()) == 2
    async with Agent(ScriptedModel(["two"]), session=forked) as agent:
        await agent.prompt("and on")
        assert [each.text for each in agent.session.context()] == ["hello", "one", "and on", "two"]


async def test_a_single_file_cannot_hold_a_fork(tmp_path: Path) -> None:
    shelf = Shelf("file", tmp_path / "a.jsonl")
    async with Agent(ScriptedModel(["one"]), session=shelf.open(None, "chat")) as agent:
        await agent.prompt("hello")
        said = Said(agent, shelf)
        assert "choose another file" in (await said("/fork"))[0]
        assert said.commands.next is None


async def test_what_has_to_wait_for_the_end_of_the_turn() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("nod")]), "done"])
    async with Agent(model, tools=[nod]) as agent:
        said = Said(agent)
        agent.follow_up("go")
        await agent.until(State.TOOLING)
        for command in ("/fork", "/compact", "/tree 0"):
            assert "has to wait until the turn is over" in (await said(command))[0]
        agent.go_on()
        await agent.idle()


async def test_a_conversation_is_made_shorter() -> None:
    model = ScriptedModel([Reply("word " * 500), "two", "three", "four", "short"])
    async with Agent(model, compaction=Compaction(keep_last=1)) as agent:
        said = Said(agent)
        assert (await said("/compact"))[0].startswith("/compact: ")
        for text in "abcd":
            await agent.prompt(text)
        assert "became" in (await said("/compact the names"))[0]


async def test_another_model_is_asked() -> None:
    other = ScriptedModel(["from the other"], id="other")
    async with Agent(ScriptedModel([], id="one"), models={"other": other}) as agent:
        said = Said(agent)
        assert await said("/model") == ["one; /model ID asks another one"]
        assert (await said("/model nobody"))[0].startswith("/model: no model 'nobody'")
        assert await said("/model other") == ["from the next step on: other"]
        assert (await agent.prompt("hi")).text == "from the other"


@pytest.mark.usefixtures("renderer")
async def test_the_session_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with Agent(ScriptedModel(["one"])) as agent:
        said = Said(agent)
        await agent.prompt("hello")
        assert await said("/diagram walk.mmd") == ["drawn in walk.mmd"]
        drawn = (tmp_path / "walk.mmd").read_text("utf-8")
        assert "\nsequenceDiagram\n" in drawn
        assert await said("/diagram walk.dot") == ["drawn in walk.dot"]
        assert (await said("/diagram"))[0].endswith(".html")
        assert "must end with one of: .html, .md" in (await said("/diagram walk.pdf"))[0]
        assert await said("/diagram no/such/walk.mmd") == ["drawn in no/such/walk.mmd"]
        assert (tmp_path / "no/such/walk.mmd").is_file()
        (tmp_path / "folder.md").mkdir()
        assert await said("/diagram folder.md") == ["/diagram: folder.md: Is a directory"]
        assert await said("/diagram walk.mmd/x.md") == ["/diagram: walk.mmd: File exists"]


async def test_a_prompt_for_later_and_the_end() -> None:
    async with Agent(ScriptedModel(["one"])) as agent:
        said = Said(agent)
        await said("/follow-up hello")
        assert (await said("/follow-up"))[0].startswith("/follow-up: ")
        await agent.idle()
        assert [each.text for each in agent.session.context()] == ["hello", "one"]
        await said("/quit")
        assert said.commands.leaving
