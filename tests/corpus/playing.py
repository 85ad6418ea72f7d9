"""Playing a file of this folder: it is loaded in a copy that is a project of its own, and talked to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnchart.flows import load_flow
from turnchart.machine import Agent, Model, Reply, ScriptedModel, Session, ToolCall
from turnchart.machine.approvals import Answer, Approve, Question, Refuse
from turnchart.machine.models import ModelRequest
from turnchart.machine.scripted import Scripted
from turnchart.testing import FakeClock

ENV = {"LLM_BASE_URL": "https://models.example.org"}


@dataclass
class Played:
    """What came of it.

    Attributes:
        agent: The agent, closed.
        texts: What the turns ended with.
        asked: What a person was asked.
        model: What the agent asked.
        notices: What the user was shown.
    """

    agent: Agent
    texts: list[str]
    asked: list[Question]
    model: ScriptedModel
    notices: list[str]

    @property
    def entries(self) -> Sequence[Any]:
        return self.agent.session.entries

    def results(self) -> list[tuple[str, str, str]]:
        """Return tool, outcome and text of every result."""
        found = [entry.data for entry in self.entries if entry.type == "tool/result"]
        return [(each["message"]["tool"], each["outcome"], each["message"].text) for each in found]

    def outcomes(self) -> list[str]:
        return [outcome for _, outcome, _ in self.results()]

    def decisions(self) -> list[tuple[str, str]]:
        """Return the hooks that decided, and what."""
        found = [entry.data for entry in self.entries if entry.type == "hook/result"]
        return [(each["id"], each["decision"]) for each in found if each.get("decision")]

    def requests(self) -> list[ModelRequest]:
        return list(self.model.requests)


def shell(*commands: str) -> Reply:
    """Return an answer that asks for these commands."""
    return Reply(tool_calls=[ToolCall("shell", {"command": command}) for command in commands])


def call(tool: str, **args: Any) -> Reply:
    """Return an answer that calls a tool."""
    return Reply(tool_calls=[ToolCall(tool, args)])


async def play(
    name: str,
    *replies: Scripted,
    prompts: Sequence[str] = ("Go.",),
    approve: bool = True,
    models: Mapping[str, Model] | None = None,
    plugins: Sequence[str] = (),
    session: Session | None = None,
) -> Played:
    """Load a flow of the current folder, let a model play a script, and return what came of it.

    Args:
        name: The file.
        replies: What the model answers; after the last it says "Done."
        prompts: A turn each.
        approve: What a person says who is asked.
        models: Other models, by their ids.
        plugins: Modules to import.
        session: The log; None: one in memory.
    """
    asked: list[Question] = []

    async def approver(question: Question) -> Answer:
        asked.append(question)
        return Approve() if approve else Refuse("no")

    flow = load_flow(name, plugins, ENV, trust=True)
    model = ScriptedModel(replies, id=flow.model or "test", default=Reply("Done."))
    notices: list[str] = []
    agent = flow.agent(
        model=model, models=models, approver=approver, clock=FakeClock(autojump=False), seed=1,
        session=session or Session.memory(),
    )  # fmt: skip
    agent.on("notice", lambda signal, _: notices.append(signal.data["text"]))
    async with agent:
        texts = [(await agent.prompt(prompt)).text for prompt in prompts]
    return Played(agent, texts, asked, model, notices)


def tree(folder: Path) -> dict[str, str]:
    """Return the files below a folder with their texts."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text("utf-8", errors="replace") for path in found}
