"""A flow as a tool of another one: one argument, ``prompt``; each call is a session of its own.

It has its own model, tools, hooks and permissions. What its caller denies or asks about, it denies or asks
about as well; it asks whoever the caller asks; and when the caller is cut off, so is it.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from turnchart.machine.entries import Frozen
from turnchart.machine.errors import TurnchartError
from turnchart.machine.messages import Text
from turnchart.machine.points import ToolOutcome, TurnView
from turnchart.machine.tools import Tool, ToolContext, tool

if TYPE_CHECKING:
    from turnchart.flows.check import Checked
    from turnchart.flows.load import Flow
    from turnchart.machine.agent import Agent
    from turnchart.machine.approvals import Answer, Question
    from turnchart.machine.models import Resolver
    from turnchart.machine.session import Session
    from turnchart.machine.signals import Signal


class FlowCycle(TurnchartError):
    """A flow is a tool of itself, at once or by way of others."""

    def __init__(self, chain: Sequence[Path]) -> None:
        super().__init__(" uses ".join(path.name for path in chain))


class SubAgent:
    """A flow that works as a tool.

    Attributes:
        caller: The agent that has the tool; None while nobody does.
        models: Finds models by their ids, before the built-in ones.
    """

    def __init__(self, flow: "Flow", caller: "Agent | None" = None, models: "Resolver | None" = None) -> None:
        self.flow = flow
        self.caller = caller
        self.models = models

    def tool(self, name: str) -> Tool:
        """Return it as a tool."""
        described = (
            self.flow.description or f"Give a task to the agent {self.flow.name}; it answers with the result."
        )
        return tool(self.run, name=name, description=" ".join(described.split()), timeout=None)

    async def run(self, prompt: str, ctx: ToolContext) -> ToolOutcome:
        """Do a task and return the answer.

        Args:
            prompt: The task, with all that is needed to do it: nothing else of this conversation is known.
            ctx: The call.
        """
        session = self._session(ctx)
        agent = self.flow.agent(session=session, models=self.models, clock=ctx.clock)
        agent.model = (
            None  # found by its id: calls may share it, so none can say that it was played to its end
        )
        if self.caller is not None:
            self._bind(agent, self.caller)
        tracing = sys.modules.get("turnchart.hooks.tracing")  # not there where nobody traces
        if tracing is not None:
            tracing.trace_inner(agent)
        async with agent:
            self._note(session, ctx)
            turn = await agent.prompt(prompt)
        return _outcome(turn.text, turn.reason, str(turn.error or ""), session)

    def _session(self, ctx: ToolContext) -> "Session":
        from turnchart.machine.nesting import child_session
        from turnchart.machine.session import Session

        return Session.memory() if self.caller is None else child_session(self.caller.session, ctx.call_id)

    def _bind(self, agent: "Agent", caller: "Agent") -> None:
        """Hand on what holds for the caller."""
        from turnchart.machine.nesting import ask_through, restrictions
        from turnchart.machine.permissions import merge_strictest

        async def ask(question: "Question") -> "Answer":
            reason = f"{self.flow.name}: {question.reason}" if question.reason else self.flow.name
            return await ask_through(caller, replace(question, reason=reason))

        def tell(signal: "Signal", abort: object) -> None:
            caller.notice(signal.data["text"], signal.data["source"] or self.flow.name)

        agent.permissions = merge_strictest(agent.permissions, restrictions(caller.permissions))
        agent.approver = ask
        agent.on("notice", tell)

    def _note(self, session: "Session", ctx: ToolContext) -> None:
        from turnchart.machine.nesting import link

        session.append("session_info", Frozen(self.flow.info))
        if self.caller is not None:
            link(session, self.caller.session, ctx.call_id)


def _outcome(text: str, reason: str, error: str, session: "Session") -> ToolOutcome:
    usage = TurnView(1, session.entries).usage
    details = Frozen(session=session.id, reason=reason)
    if reason in ("completed", "max_tokens"):
        return ToolOutcome((Text(text),) if text else (), details, usage=usage or None)
    said = f"[it did not finish: {reason}{f' ({error})' if error else ''}]"
    content = (Text(f"{text}\n{said}" if text else said),)
    return ToolOutcome(content, details, is_error=True, usage=usage or None)


def agent_tool(checked: "Checked") -> Tool:
    """Return a flow as a tool that nobody has yet."""
    return sub_agent(checked).tool(checked.path.name.split(".")[0])


def sub_agent(checked: "Checked", models: "Resolver | None" = None) -> SubAgent:
    """Return a flow that works as a tool; what it reaches is agreed to with the flow that has it."""
    from turnchart.flows.load import flow_of

    return SubAgent(flow_of(checked, trusted=True), models=models)
