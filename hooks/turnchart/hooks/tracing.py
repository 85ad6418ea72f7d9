"""Tracing: what an agent does as OpenTelemetry spans, with the names that its GenAI conventions give.

    invoke_agent NAME          a turn, from its first entry to its last
      hook.POINT               one pass down a chain that has hooks, with each hook as an event
      chat MODEL               one attempt of a request, as long as its stream is read; of a summary too,
                               and of a question that a hook asks, below the span of its chain
      execute_tool NAME        one call, from its entry to its result, denied ones too
        hook.pre_tool, hook.tool, hook.post_tool
        approval               a person is asked

The span of a request, a body of a tool or a chain is current while that runs, so what they do themselves
(HTTP, another agent) hangs below it. Times are those of the agent's clock. What was said, the arguments and
the results are left out unless they are asked for. An agent that nobody traces pays nothing.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from turnchart.hooks import spans
from turnchart.machine.asking import closing
from turnchart.machine.chain import Chain
from turnchart.machine.errors import text_of
from turnchart.machine.models import Chunk, Finish, ModelRequest, UsageReport
from turnchart.machine.points import Payload, PostTool, PreTool, RunTool, ToolOutcome
from turnchart.machine.stream import Answer
from turnchart.machine.verdict import Dispatch, Verdict

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

    from turnchart.hooks.spans import Attributes
    from turnchart.machine.agent import Agent
    from turnchart.machine.asking import Purpose
    from turnchart.machine.entries import Entry
    from turnchart.machine.messages import Message
    from turnchart.machine.signals import Signal

CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable with which all GenAI instrumentations are told to record what was said."""
_NOT_SHOWN: Final = frozenset(("on_signal",))

_here: ContextVar[_Here | None] = ContextVar("turnchart_tracing", default=None)
"""What traces the tool or the chain that runs here, so that agents and questions in it are traced too."""


class _Here(NamedTuple):
    by: Tracing
    span: Span | None


def trace(
    agent: Agent, *, provider: TracerProvider | None = None, content: bool | None = None
) -> Callable[[], None]:
    """Record what an agent does as spans from now on; return a function that stops that.

    Args:
        agent: At rest. It may be open or not.
        provider: Where spans go; None: the global one.
        content: Record prompts, answers, arguments and results too; None: as the variable
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says.

    Raises:
        TurnchartError: If OpenTelemetry is not installed.
    """
    if content is None:
        content = os.environ.get(CONTENT, "").lower() in ("true", "1", "span_only", "span_and_event")
    return Tracing(agent, spans.Maker(provider, agent.clock.now), content=content).begin()


def trace_inner(agent: Agent) -> None:
    """Trace an agent that works for a tool as the agent that called the tool is traced, if it is."""
    here = _here.get()
    if here is not None:
        Tracing(agent, here.by.maker.at(agent.clock.now), content=here.by.content).begin()


class Tracing:
    """Makes spans of one agent.

    Attributes:
        maker: Makes and ends spans.
        content: What was said is recorded.
    """

    def __init__(self, agent: Agent, maker: spans.Maker, *, content: bool) -> None:
        self.maker = maker
        self.content = content
        self._agent = agent
        self._turn: Span | None = None
        self._calls: dict[str, Span] = {}
        self._asked: dict[str, Span] = {}
        self._spent: Attributes = {}
        self._read: list[Message] = []
        self._written: list[Message] = []

    def begin(self) -> Callable[[], None]:
        """Begin, and return what ends it."""
        agent, before, aside = self._agent, self._agent.chains, self._agent.watch_aside
        points = dict.fromkeys((*before, "stream", "tool"))
        agent.chains = {
            point: before[point] if point in _NOT_SHOWN
            else _TracedChain(point, before[point].hooks if point in before else (), self)
            for point in points
        }  # fmt: skip
        agent.watch_aside = self.aside
        unhear = agent.on("session/event", self._hear)

        def stop() -> None:
            unhear()
            agent.chains, agent.watch_aside = before, aside
            self._end_turn({}, "", None)

        return stop

    # -- what the log says -----------------------------------------------------------------------

    def _hear(self, signal: Signal, _abort: object) -> None:
        entry: Entry = signal.data["entry"]
        take = _ENTRIES.get(entry.type)
        if take is not None:
            take(self, entry.data, entry.time)

    def _turn_start(self, data: Mapping[str, Any], time: float) -> None:
        agent = self._agent
        self._end_turn({}, "", time)
        self._spent, self._read, self._written = {}, [], []
        said: Attributes = {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent.name,
            "gen_ai.conversation.id": agent.session.id, "turnchart.turn": data["turn"],
            **spans.model_attributes(agent.session.view.model or agent.model_id),
        }  # fmt: skip
        if agent.flow:
            said["turnchart.flow"] = agent.flow
        self._turn = self.maker.start(f"invoke_agent {agent.name}", said, time=time)

    def _turn_end(self, data: Mapping[str, Any], time: float) -> None:
        said: Attributes = {
            "turnchart.reason": data["reason"], "turnchart.steps": data["steps"], **self._spent,
        }  # fmt: skip
        error: Mapping[str, Any] = data.get("error") or {}
        wrong = str(error.get("type") or error.get("kind") or "_OTHER") if data["reason"] == "error" else ""
        if self.content:
            said["gen_ai.input.messages"] = spans.messages_json(self._read)
            said["gen_ai.output.messages"] = spans.messages_json(self._written)
        self._end_turn(said, wrong, time, str(error.get("message", "")))

    def _end_turn(self, said: Attributes, wrong: str, time: float | None, why: str = "") -> None:
        for left in (*self._asked.values(), *self._calls.values()):
            self.maker.end(left, {}, "aborted", time=time)
        self._asked, self._calls = {}, {}
        turn, self._turn = self._turn, None
        if turn is not None:
            self.maker.end(turn, said, wrong, why if self.content else "", time=time)

    def _user(self, data: Mapping[str, Any], time: float) -> None:
        if self.content:
            self._read.append(data["message"])

    def _assistant(self, data: Mapping[str, Any], time: float) -> None:
        message = data["message"]
        for name, count in spans.usage_attributes(message.get("usage") or {}).items():
            self._spent[name] = cast("int", self._spent.get(name, 0)) + cast("int", count)
        if self.content:
            self._written.append(message)

    def _call(self, data: Mapping[str, Any], time: float) -> None:
        name, id = data["tool"], data["call_id"]
        said: Attributes = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": id,
            "gen_ai.tool.type": "function", "turnchart.step": data["step"],
        }  # fmt: skip
        if self.content:
            said["gen_ai.tool.call.arguments"] = spans.as_json(data["arguments"])
        self._calls[id] = self.maker.start(f"execute_tool {name}", said, self._turn, time=time)

    def _result(self, data: Mapping[str, Any], time: float) -> None:
        message, outcome = data["message"], data["outcome"]
        span = self._calls.pop(message["call_id"], None)
        if span is None:
            return
        said: Attributes = {"turnchart.outcome": outcome}
        if self.content:
            said["gen_ai.tool.call.result"] = spans.as_json(message["content"])
        wrong = (
            "" if outcome == "ok" else outcome if outcome != "error" else _error_type(message.get("details"))
        )
        self.maker.end(span, said, wrong, time=time)

    def _ask(self, data: Mapping[str, Any], time: float) -> None:
        id = data["call_id"]
        said: Attributes = {"gen_ai.tool.name": data["tool"], "gen_ai.tool.call.id": id}
        self._asked[id] = self.maker.start("approval", said, self._calls.get(id), time=time)

    def _answered(self, data: Mapping[str, Any], time: float) -> None:
        span = self._asked.pop(data["call_id"], None)
        if span is not None:
            self.maker.end(span, {"turnchart.outcome": data["outcome"]}, time=time)

    # -- what runs -------------------------------------------------------------------------------

    async def chain(self, point: str, payload: Payload, run: Callable[[], Any]) -> Verdict:
        """Run a chain inside a span of its own."""
        parent = self._calls.get(payload.call_id) if isinstance(payload, _WITH_CALL) else None
        said: Attributes = {"turnchart.point": point}
        if payload.step:
            said["turnchart.step"] = payload.step
        span = self.maker.start(f"hook.{point}", said, parent or self._turn)
        try:
            with self._within(span):
                verdict = cast("Verdict", await run())
        except BaseException as error:
            self.maker.end(span, {}, type(error).__name__, text_of(error) if self.content else "")
            raise
        failed = [each.id for each in verdict.trace if each.error]
        for each in verdict.trace:
            span.add_event(each.id, self._dispatch(each))
        decided = verdict.decision
        said = {} if decided is None else {"turnchart.decision": type(decided).__name__.lower()}
        self.maker.end(span, said | ({"turnchart.by": verdict.by} if verdict.by else {}))
        if failed:
            span.set_attribute("turnchart.failed", failed)
        return verdict

    def _dispatch(self, each: Dispatch) -> Attributes:
        said: Attributes = {"turnchart.seconds": each.seconds}
        given = {"where": each.where, "decision": each.decision, "changed": list(each.changed)}
        if self.content:
            given |= {"reason": each.reason, "error": each.error}
        elif each.error:
            given["error"] = each.error.partition(":")[0]
        return said | {f"turnchart.{name}": value for name, value in given.items() if value}

    async def tool(self, payload: RunTool, run: Callable[[], Any]) -> ToolOutcome:
        """Run the body of a tool with the span of its call as the current one."""
        with self._within(self._calls.get(payload.call_id)):
            return cast("ToolOutcome", await run())

    @contextmanager
    def _within(self, span: Span | None) -> Generator[None]:
        """Make a span the current one, and the one that requests in the block hang below."""
        before = _here.set(_Here(self, span))
        try:
            with self.maker.current(span):
                yield
        finally:
            _here.reset(before)

    async def aside(
        self, request: ModelRequest, chunks: AsyncIterator[Chunk], purpose: Purpose
    ) -> AsyncIterator[Chunk]:
        """Read the stream of a request beside the conversation inside a span of its own."""
        here = _here.get()
        above = here.span if here is not None and here.by is self else None
        said: Attributes = {"gen_ai.conversation.id": self._agent.session.id, "turnchart.purpose": purpose}
        async with closing(self.stream(request, chunks, above, said)) as seen:
            async for chunk in seen:
                yield chunk

    async def stream(
        self,
        request: ModelRequest,
        chunks: AsyncIterator[Chunk],
        above: Span | None = None,
        besides: Attributes | None = None,
    ) -> AsyncIterator[Chunk]:
        """Read a stream inside a span of its own.

        Args:
            request: What was asked.
            chunks: The answer.
            above: The span that it hangs below; None: the turn.
            besides: What else the span says.
        """
        maker, came = self.maker, Answer()
        began, first = maker.now(), 0.0
        said = self._request(request) | (besides or {})
        span = maker.start(f"chat {spans.model_name(request.model)}", said, above or self._turn, client=True)
        wrong = "aborted"  # unless it comes to its end
        try:
            while True:
                with maker.current(span):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    wrong = ""
                    break
                first = first or maker.now()
                if self.content or isinstance(chunk, UsageReport | Finish):
                    came.add(chunk, maker.now())
                if isinstance(chunk, Finish):
                    wrong = ""
                yield chunk
        except Exception as error:
            wrong = type(error).__name__
            raise
        finally:
            said = self._answer(request, came)
            if first:
                said["gen_ai.response.time_to_first_chunk"] = first - began
            failure = came.failure
            why = failure.message if failure and self.content else ""
            maker.end(span, said, failure.kind if failure else wrong, why)

    def _request(self, request: ModelRequest) -> Attributes:
        said: Attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.conversation.id": request.session,
            "gen_ai.request.stream": True,
            "turnchart.step": request.step, "turnchart.attempt": request.attempt,
            **spans.model_attributes(request.model), **spans.settings_attributes(request.settings),
        }  # fmt: skip
        if request.thinking:
            said["turnchart.thinking"] = request.thinking
        if self.content:
            said["gen_ai.input.messages"] = spans.messages_json(request.messages)
            said["gen_ai.system_instructions"] = spans.instructions_json(request.system)
        return said

    def _answer(self, request: ModelRequest, came: Answer) -> Attributes:
        finish = came.finish
        said = spans.usage_attributes(came.usage or {})
        said["gen_ai.response.model"] = spans.model_name(request.model)
        if finish is not None:
            said["gen_ai.response.finish_reasons"] = [spans.FINISH.get(finish.reason, finish.reason)]
        if self.content:
            answer = came.message(request.model, self.maker.now(), "c", interrupted=finish is None)
            said["gen_ai.output.messages"] = spans.messages_json([answer])
        return said


class _TracedChain(Chain):
    """A chain that runs as ever, and is seen."""

    __slots__ = ("_by",)

    def __init__(self, point: str, hooks: Any, by: Tracing) -> None:
        super().__init__(point, hooks)
        self._by = by

    async def run(self, payload: Any, *, inner: Any = None, **more: Any) -> Any:
        """Run the chain in its span, and its body in the one of the request or the call."""
        seen = inner
        if inner is not None and self.point == "stream":
            seen = self._stream(inner)
        elif inner is not None and self.point == "tool":
            seen = self._tool(inner)
        whole = super().run
        if not self.hooks:
            return await whole(payload, inner=seen, **more)
        return await self._by.chain(self.point, payload, lambda: whole(payload, inner=seen, **more))

    def _stream(self, inner: Callable[[Any], AsyncIterator[Chunk]]) -> Callable[[Any], AsyncIterator[Chunk]]:
        return lambda payload: self._by.stream(payload.request, inner(payload))

    def _tool(self, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda payload: self._by.tool(payload, lambda: inner(payload))


def _error_type(details: Any) -> str:
    """Return the kind of failure that a tool gave, if it gave one."""
    given: Mapping[str, Any] = cast("Mapping[str, Any]", details) if isinstance(details, Mapping) else {}
    return str(given.get("name") or given.get("code") or "error")


_WITH_CALL: Final = (PreTool, RunTool, PostTool)
# pyright: reportPrivateUsage=false
# The table names methods of the class above it.
_ENTRIES: Final[Mapping[str, Callable[[Tracing, Mapping[str, Any], float], None]]] = {
    "turn/start": Tracing._turn_start,
    "turn/end": Tracing._turn_end,
    "user/message": Tracing._user,
    "assistant/message": Tracing._assistant,
    "tool/call": Tracing._call,
    "tool/result": Tracing._result,
    "approval/asked": Tracing._ask,
    "approval/decided": Tracing._answered,
}
