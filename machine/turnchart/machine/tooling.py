"""The state tooling: the calls of one answer, as barriers and a rolling pool.

Ordered pre, concurrent execute, ordered post, results in model order. Whatever happens, every call that the
model asked for gets exactly one result: closing after an abort or a failure never awaits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio

from turnchart.machine.acts import NO_TASKS
from turnchart.machine.approving import ask_person
from turnchart.machine.calls import (
    Done,
    Plan,
    Ready,
    Run,
    aborted,
    denied,
    error_outcome,
    planned,
    shown_arguments,
    time_limit,
    too_late,
)
from turnchart.machine.chain import Verdict
from turnchart.machine.driver import Driver, first_error
from turnchart.machine.entries import Entry, Frozen, freeze
from turnchart.machine.errors import AppendRefused, HookFailed, SessionError
from turnchart.machine.messages import Text, ToolCall, ToolResultMessage, UserMessage
from turnchart.machine.outcomes import outcome_of
from turnchart.machine.permissions import stricter
from turnchart.machine.points import Ask, Block, Decision, Deny, PostTool, PreTool, RunTool, ToolOutcome
from turnchart.machine.pool import Pool
from turnchart.machine.states import Event
from turnchart.machine.tasks import Event as Happening
from turnchart.machine.tasks import current_task, event_for
from turnchart.machine.tools import Execution, Tool, ToolArgumentError, ToolContext, run_tool

if TYPE_CHECKING:
    from turnchart.machine.outfit import Outfit

CUT_WHILE_RUNNING = "Aborted while it ran; it may have taken effect in part."
CUT_BEFORE_START = "Aborted before it started; it had no effect."
MAY_HAVE_RUN = "it began before the program that ran it stopped, so it may have taken effect already"
CUT_BEFORE_POST = "It finished, but the turn was aborted before its result had passed the post_tool hooks."


async def tooling(driver: Driver) -> Event:
    """Run the calls of the last answer."""
    agent, now = cast("Outfit", driver), driver.turning
    batch = Batch(agent, now.calls)
    if agent.steps is not None:
        batch.go_on()
    await batch.all()
    now.results = tuple(batch.results)
    now.owed = not batch.concluded
    if now.owed:
        now.calls = ()
    elif now.reason != "max_tokens":
        now.calls, now.reason = (), "completed"
    return Event.TOOLS_DONE


def leave_none_open(driver: Driver) -> None:
    """Answer the calls that have no result yet: cut off before they could start, or something refused it.

    Raises:
        AppendRefused: If it is refused again; the step stays open, so that recovery can answer them.
        SessionReadOnly: If the store failed.
    """
    open_calls = driver.session.brackets.calls
    calls = tuple([call for call in driver.turning.calls if call.id in open_calls])
    batch = Batch(cast("Outfit", driver), calls)
    batch.know({id for id, (state, _) in open_calls.items() if state == "called"})
    refused = batch.close()
    if refused is not None:
        raise refused


class Batch:
    """The calls of one answer.

    Attributes:
        results: The results so far, in model order.
        concluded: Every result asked to end the turn.
    """

    __slots__ = (
        "_agent", "_begun", "_done", "_entries", "_plans", "_started", "_todo", "_woken", "concluded",
        "results",
    )  # fmt: skip

    def __init__(self, agent: Outfit, calls: tuple[ToolCall, ...]) -> None:
        self._agent = agent
        self._todo = deque(calls)
        self._started: deque[ToolCall] = deque()
        self._begun: set[str] = set()
        self._done: dict[str, Done] = {}
        self._entries: dict[str, Entry] = {}
        self._plans: dict[str, Plan] = {}
        self._woken: Happening | None = None
        self.results: list[ToolResultMessage] = []
        self.concluded = bool(calls)

    async def all(self) -> None:
        """Run every call. After an abort or a failure each one that has none gets a result that says so."""
        try:
            while self._todo and self._agent.turning.cause is None:
                execution = self._execution(self._todo[0])
                if execution == "parallel" and (len(self._todo) > 1 or self._agent.signals.heard):
                    await self._pool()
                else:
                    ready = await self._start(execution)
                    if ready is not None:
                        await self._lone(ready)
                    await self._commit()
        except BaseException as error:
            self.close()
            if isinstance(error, BaseExceptionGroup):
                raise first_error(cast(BaseException, error)) from None
            raise
        refused = self.close() if self._agent.turning.cause is not None else None
        if refused is not None:
            raise refused

    def _plan(self, call: ToolCall) -> Plan:
        """Find the tool of a call and read its arguments; once, unless the tool changes meanwhile."""
        tool = self._agent.tool(call["name"])
        plan = self._plans.get(call["id"])
        if plan is None or plan.tool is not tool:
            plan = self._plans[call["id"]] = planned(tool, call)
        return plan

    def _execution(self, call: ToolCall) -> Execution:
        """Classify a call. Ask once for each start: a tool's own function may answer otherwise next time."""
        tool, args, _ = self._plan(call)
        if tool is None or args is None:
            return "exclusive"
        return tool.classify(call.arguments) if callable(tool.execution) else tool.execution

    async def _pool(self) -> None:
        """Run parallel calls together; each later one is classified right before it starts."""
        agent, known = self._agent, True
        most = agent.limits.parallel_tools
        wrapped = "tool" in agent.chains
        async with anyio.create_task_group() as group:
            pool = Pool(group, agent.clock, self._pooled, self._late)
            agent.bodies = pool.workers
            while agent.turning.cause is None:
                while self._todo and len(self._started) < most and agent.turning.cause is None:
                    if not known and self._execution(self._todo[0]) == "exclusive":
                        break
                    known = False
                    ready = await self._start("parallel")
                    if ready is not None:
                        pool.start(ready, None if wrapped else time_limit(ready.tool))
                if not self._started:
                    return
                if self._started[0].id not in self._done:
                    self._woken = event_for(group)
                    await self._woken.wait()
                await self._commit()

    # -- one call ------------------------------------------------------------------------------

    async def _start(self, execution: Execution) -> Ready | None:
        """Log the call and ask whether it may run; None where it has its outcome already."""
        agent, now = self._agent, self._agent.turning
        call = self._todo.popleft()
        self._started.append(call)
        if call["id"] not in self._entries:
            self._log_call(call, execution)
        if agent.signals.waiting:
            await agent.signals.deliver()
            if now.cause is not None:
                return None
        tool, args, error = self._plan(call)
        if tool is None:
            known = ", ".join(agent.callable_tools()) or "none"
            self._refuse(call, f"There is no tool {call.name!r}. The tools are: {known}.", "UNKNOWN_TOOL")
            return None
        now.tool_calls += 1
        most = agent.limits.max_tool_calls
        if most is not None and now.tool_calls > most:
            said = f"Not run: the turn may call {most} tools, and this is call {now.tool_calls}."
            self._end(call, Done(error_outcome(said, "MAX_TOOL_CALLS"), {}, post=False))
            return None
        if args is None:
            self._refuse(call, str(error), "INVALID_ARGUMENTS")
            return None
        kept = None if agent.steps is None else agent.steps.kept(call["id"])
        if kept is not None:
            self._end(call, Done(kept, args))
            return None
        return await self._permit(call, tool, args)

    def _log_call(self, call: ToolCall, execution: Execution) -> None:
        agent, now = self._agent, self._agent.turning
        self._entries[call["id"]] = agent.log(
            "tool/call",
            Frozen(
                turn=now.number, step=now.step, call_id=call["id"], tool=call["name"],
                arguments=call["arguments"], execution=execution,
            ),
        )  # fmt: skip

    def _refuse(self, call: ToolCall, text: str, code: str) -> None:
        arguments = call.arguments if isinstance(call.arguments, Frozen) else Frozen()
        self._end(call, Done(error_outcome(text, code), arguments))

    async def _permit(self, call: ToolCall, tool: Tool, args: dict[str, Any]) -> Ready | None:
        """Ask hooks, then permissions on what the hooks made of the arguments, then a person.

        Nothing starts after an abort: a hook or person that answers all the same answers too late.
        """
        agent, now = self._agent, self._agent.turning
        decision: Decision | None = None
        if "pre_tool" in agent.chains:
            verdict = await self._hooked(call, tool, args)
            if now.cause is not None or verdict is None:
                return None
            decision, args = verdict.decision, tool.parse(cast(PreTool, verdict.payload).args)
            if isinstance(decision, Deny):
                failed = any(each.error for each in verdict.trace)
                by = f" (hook {verdict.by})" if verdict.by and not failed else ""
                self._end(call, Done(denied(f"{decision.reason}{by}"), args, post=not failed))
                return None
        else:
            agent.did("pre_tool")
        ruling = agent.permissions.judge(tool, args, agent.root)
        word = stricter(ruling.verdict, decision)
        again = word != "deny" and call["id"] in self._begun and tool.replayed == "unsafe"
        word = "ask" if again else word
        if word == "deny":
            self._end(call, Done(denied(ruling.reason), args))
            return None
        if word == "ask":
            said = decision.reason if isinstance(decision, Ask) else ruling.reason
            ready = Ready(call, tool, args)
            refused = await ask_person(agent, ready, said, MAY_HAVE_RUN if again else None)
            if now.cause is not None:
                return None
            if refused is not None:
                self._end(call, Done(denied(refused), args))
                return None
        agent.did("tool")
        if agent.signals.waiting:
            await agent.signals.deliver()
        return None if now.cause is not None else Ready(call, tool, args)

    async def _hooked(self, call: ToolCall, tool: Tool, args: dict[str, Any]) -> Verdict | None:
        """Ask the hooks whether a call may run, and with which arguments."""

        def made() -> PreTool:
            return PreTool(
                tool=tool.name, args=shown_arguments(call, args), call_id=call.id,
                subject=tool.subject_of(args), subject_name=tool.subject, **self._agent.common(),
            )  # fmt: skip

        def check(payload: PreTool) -> PreTool:
            parsed = tool.parse(payload.args)
            return replace(payload, args=freeze(payload.args), subject=tool.subject_of(parsed))

        return await self._agent.ask("pre_tool", made, check=check)

    async def _lone(self, ready: Ready) -> None:
        """Run one tool in the driver's own task."""
        agent = self._agent
        if ready.tool.is_async:
            agent.bodies = {current_task()}
        try:
            await self._body(ready, self._timed)
        finally:
            agent.bodies = NO_TASKS

    async def _pooled(self, ready: Ready) -> None:
        """Run one tool of several; the pool looks at its time."""
        if self._agent.turning.cause is None:  # else cut off between its start and its first line
            await self._body(ready, run_tool)

    def _late(self, ready: Ready) -> None:
        self._end(ready.call, Done(too_late(ready.tool), ready.args))

    async def _body(self, ready: Ready, run: Run) -> None:
        """Run one tool; nothing that it does can end the step."""
        agent, (call, tool, args) = self._agent, ready
        if agent.session.barriers:
            await agent.session.flush()
        if agent.turning.cause is not None:
            return  # cut off between its start and its first line
        ctx = self._context(call, tool) if tool.takes_ctx else None
        self._begun.add(call["id"])
        try:
            if agent.steps is not None:
                outcome = await agent.steps.run("tool", call["id"], partial(self._ran, ready, ctx, run))
            elif "tool" in agent.chains:
                outcome = await self._wrapped(ready, ctx)
            else:
                outcome = await run(tool, args, ctx)
        finally:
            if ctx is not None:
                ctx.settled = True
        self._end(call, Done(outcome, args))

    async def _ran(self, ready: Ready, ctx: ToolContext | None, run: Run) -> ToolOutcome:
        wrapped = "tool" in self._agent.chains
        return await (self._wrapped(ready, ctx) if wrapped else run(ready.tool, ready.args, ctx))

    def _context(self, call: ToolCall, tool: Tool) -> ToolContext:
        agent = self._agent
        return ToolContext(
            call.id, tool.name, abort=agent.turning.abort, report=partial(agent.progress, call),
            log=agent.session.entries, session_id=agent.session.id, root=agent.root, clock=agent.clock,
            world=agent.world,
        )  # fmt: skip

    async def _wrapped(self, ready: Ready, ctx: ToolContext | None) -> ToolOutcome:
        agent, (call, tool, args) = self._agent, ready

        async def inner(payload: RunTool) -> ToolOutcome:
            if agent.turning.cause is not None:
                return aborted(CUT_BEFORE_START)
            return await self._timed(tool, tool.parse(payload.args), ctx)

        try:
            verdict = await agent.dispatch(
                "tool",
                lambda: RunTool(tool=tool.name, args=args, call_id=call.id, **agent.common()),
                inner=inner,
            )
        except HookFailed as error:
            return error_outcome(str(error), "HOOK_FAILED")
        except ToolArgumentError as error:
            return error_outcome(str(error), "INVALID_ARGUMENTS")
        value = verdict.value if verdict is not None else None
        if not isinstance(value, ToolOutcome):
            return error_outcome("A tool hook gave no outcome.", "HOOK_FAILED")
        return outcome_of(value)  # a hook may have put anything into it

    async def _timed(self, tool: Tool, args: dict[str, Any], ctx: ToolContext | None) -> ToolOutcome:
        limit = time_limit(tool)
        if limit is None:
            return await run_tool(tool, args, ctx)
        try:
            with self._agent.clock.timeout(limit):
                return await run_tool(tool, args, ctx)
        except TimeoutError:
            return too_late(tool)

    def _end(self, call: ToolCall, done: Done) -> None:
        self._done[call["id"]] = done
        if self._woken is not None:
            self._woken.set()

    # -- results, in model order -----------------------------------------------------------------

    async def _commit(self) -> None:
        """Write the results of the calls at the head of the model's order that have ended."""
        agent = self._agent
        while self._started and self._started[0]["id"] in self._done and agent.turning.cause is None:
            call = self._started[0]
            done = self._done[call["id"]]
            outcome, context = done.outcome, ""
            if done.post and "post_tool" not in agent.chains:
                agent.did("post_tool")
            elif done.post:
                outcome, context = await self._post(call, done)
                self._done[call["id"]] = Done(outcome, done.args, post=False)
            self._result(call, outcome)
            self._started.popleft()
            if context:
                said = UserMessage(context, source=f"post_tool {call.name}")
                agent.put([said], "next-step", "tool")
            if agent.signals.waiting:
                await agent.signals.deliver()

    async def _post(self, call: ToolCall, done: Done) -> tuple[ToolOutcome, str]:
        agent, outcome = self._agent, done.outcome
        verdict = await agent.ask(
            "post_tool",
            lambda: PostTool(
                tool=call.name, args=done.args, call_id=call.id, outcome=outcome.outcome,
                content=outcome.content,
                details=outcome.details, is_error=outcome.is_error, usage=outcome.usage,
                terminate=outcome.terminate, **agent.common(),
            ),
        )  # fmt: skip
        if verdict is None:
            return outcome, ""
        if isinstance(verdict.decision, Block):
            said = verdict.decision.reason or "The result was withheld."
            return replace(outcome, content=(Text(said),), is_error=True, details=None, terminate=False), ""
        after = cast(PostTool, verdict.payload)
        changed = replace(
            outcome, content=tuple(after.content), details=after.details, is_error=after.is_error,
            usage=after.usage, terminate=after.terminate,
        )  # fmt: skip
        return changed, after.context

    def _result(self, call: ToolCall, outcome: ToolOutcome) -> None:
        agent, now = self._agent, self._agent.turning
        message = ToolResultMessage(
            call["id"], call["name"], outcome.content, is_error=outcome.is_error, time=agent.clock.now(),
            details=outcome.details, usage=outcome.usage, terminate=outcome.terminate,
            added_tools=outcome.added_tools,
        )  # fmt: skip
        agent.log(
            "tool/result",
            Frozen(turn=now.number, step=now.step, message=message, outcome=outcome.outcome),
            sources=(self._entries[call["id"]].seq,),
        )
        self.results.append(message)
        self.concluded = self.concluded and outcome.terminate
        if outcome.added_tools:
            agent.added_tools |= set(outcome.added_tools)

    def go_on(self) -> None:
        """Leave out the calls that have a result, where another process began the step."""
        open_calls, self.results = self._agent.session.brackets.calls, list(self._agent.turning.results)
        self._todo = deque(call for call in self._todo if call["id"] in open_calls)
        self.concluded = self.concluded and all(each.get("terminate") for each in self.results)
        self.know({id for id, (state, _) in open_calls.items() if state == "called"})

    def know(self, begun: set[str]) -> None:
        """Learn from the log where these calls began."""
        self._begun |= begun
        for entry in reversed(self._agent.session.entries):
            if begun <= self._entries.keys():
                return
            if entry.type == "tool/call" and entry.data["call_id"] in begun:
                self._entries.setdefault(entry.data["call_id"], entry)

    def close(self) -> AppendRefused | SessionError | None:
        """Give every call its result, without an await: what finished is kept, the rest is said to be cut.

        Returns what refused one of them: the reason for the closing, or what will refuse its row too. Those
        behind it have to wait, because results stand in the model's order.
        """
        refused: AppendRefused | SessionError | None = None
        try:
            for call in (*self._started, *self._todo):
                outcome = self._last_word(call)
                if call.id not in self._entries:
                    self._log_call(call, self._execution(call))
                self._result(call, outcome)
        except (AppendRefused, SessionError) as error:
            refused = error
        self._started.clear()
        self._todo.clear()
        return refused

    def _last_word(self, call: ToolCall) -> ToolOutcome:
        done = self._done.get(call.id)
        if call.id not in self._entries:
            return aborted(CUT_BEFORE_START)
        if done is None:
            return aborted(CUT_WHILE_RUNNING if call.id in self._begun else CUT_BEFORE_START)
        if done.post and "post_tool" in self._agent.chains:
            return aborted(CUT_BEFORE_POST)
        return done.outcome
