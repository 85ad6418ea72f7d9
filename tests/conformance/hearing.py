"""What the conformance tests of data-flow share: a user interface that writes down what it hears."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from anyio.lowlevel import checkpoint
from tests.machine.drive import scripted

from turnchart.machine import Agent, Message, ModelRequest, ScriptedModel, Session
from turnchart.machine.abort import AbortSignal
from turnchart.machine.scripted import Scripted
from turnchart.machine.ui import MessageEnd, MessageStart, MessageUpdate, UiEvent
from turnchart.machine.view import AgentState

E = TypeVar("E")

SHORT = {"message_start": "ms", "message_update": "mu", "message_end": "me"}
ASKED = ("after_provider_response", "ms assistant", "mu assistant", "me assistant")
"""What is heard of one attempt, updates taken together."""


class Heard:
    """Everything that one user interface heard, and what the agent was then.

    Attributes:
        events: In order.
        views: ``agent.view`` at each of them.
        signals: The abort signal that came with each of them.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.events: list[UiEvent] = []
        self.views: list[AgentState] = []
        self.signals: list[AbortSignal] = []
        self.stop = agent.ui(self)

    def __call__(self, event: UiEvent, abort: AbortSignal) -> None:
        self.events.append(event)
        self.views.append(self.agent.view)
        self.signals.append(abort)

    def names(self, *left_out: str) -> list[str]:
        """Return the types in order, those of messages with their roles, repeated updates once."""
        found: list[str] = []
        for event in self.events:
            name: str = event.type
            if isinstance(event, MessageStart | MessageUpdate | MessageEnd):
                name = f"{SHORT[name]} {event.message.role}"
            if name not in left_out and not (name == "mu assistant" and found[-1:] == [name]):
                found.append(name)
        return found

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one class."""
        return [event for event in self.events if isinstance(event, kind)]

    def at(self, kind: type[Any]) -> list[AgentState]:
        """Return the view at each event of one class."""
        return [view for event, view in zip(self.events, self.views, strict=True) if isinstance(event, kind)]

    def clear(self) -> None:
        """Forget what was heard."""
        self.events, self.views, self.signals = [], [], []


@asynccontextmanager
async def watched(replies: Sequence[Scripted], **settings: Any) -> AsyncGenerator[tuple[Agent, Heard]]:
    """Give a scripted agent and what is heard of it; at the end its view must be what the log says."""
    async with scripted(replies, **settings) as agent:
        heard = Heard(agent)
        yield agent, heard
        await agent.idle()
        kept = agent.view
        heard.stop()
        assert agent.view == kept, "the view kept by events is the one read from the log"


async def admitted(agent: Agent) -> None:
    """Wait until the conversation has a message of the user."""
    while not any(entry.type == "user/message" for entry in agent.session.entries):
        await checkpoint()


def requests(agent: Agent) -> list[ModelRequest]:
    """Return what the model was asked."""
    return list(cast(ScriptedModel, agent.model).requests)


def said(messages: Sequence[Message]) -> list[str]:
    """Return the text of each message."""
    return [message.text for message in messages]


def users(agent: Agent) -> list[list[str]]:
    """Return the user texts of every request."""
    return [[each.text for each in request.messages if each.role == "user"] for request in requests(agent)]


def roles(session: Session) -> list[str]:
    """Return the role of every message of the conversation."""
    return [message.role for message in session.context()]
