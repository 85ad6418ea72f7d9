import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from turnchart.hooks.tracing import CONTENT, trace
from turnchart.machine.abort import AbortSignal
from turnchart.machine.agent import Agent
from turnchart.machine.approvals import Approve, Question
from turnchart.machine.config import RetryPolicy
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.models import Chunk, ModelRequest, PreparedCall, RequestConfig, TextDelta
from turnchart.machine.permissions import Permissions
from turnchart.machine.points import Deny, PreTool, RunTool, Stream
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import State
from turnchart.machine.tools import ToolFailed, tool
from turnchart.testing import FakeClock

KEY = "sk-proj-abcdefgh12345678"
HELLO = "hello, secretly"


class Spans:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def all(self) -> list[ReadableSpan]:
        """Every span that ended, by the time of its start and then of its making."""
        found = self.exporter.get_finished_spans()
        return sorted(found, key=lambda span: (span.start_time or 0, -(span.end_time or 0)))

    @property
    def names(self) -> list[str]:
        return sorted(span.name for span in self.all)

    def one(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.all if span.name == name]
        return found

    def above(self, name: str) -> str:
        """Return the name of the parent of a span; empty for none."""
        parent = self.one(name).parent
        names = {span.context.span_id: span.name for span in self.all if span.context}
        return "" if parent is None else names[parent.span_id]


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@tool(effects="read")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def asks(*calls: ToolCall, text: str = "") -> Reply:
    return Reply(text, tool_calls=calls, usage={"input": 10, "output": 5, "cache_read": 2})


ADDS = ToolCall("add", {"a": 1, "b": 2}, "call1")


async def run(model: ScriptedModel, spans: Spans, said: str = HELLO, **more: Any) -> Agent:
    agent = Agent(model, tools=[add], clock=FakeClock(), name="helper", flow="small", **more)
    trace(agent, provider=spans.provider)
    async with agent:
        await agent.prompt(said)
    return agent


async def test_a_turn_is_a_tree_of_spans(spans: Spans) -> None:
    model = ScriptedModel([asks(ADDS), Reply("3", usage={"input": 20, "output": 1})], id="openai:gpt")
    agent = await run(model, spans, settings={"temperature": 0.5, "max_tokens": 9})
    assert spans.names == ["chat gpt", "chat gpt", "execute_tool add", "invoke_agent helper"]
    assert spans.above("execute_tool add") == "invoke_agent helper"
    first = next(span for span in spans.all if span.name == "chat gpt")
    assert first.kind is SpanKind.CLIENT
    assert of(first).pop("gen_ai.response.time_to_first_chunk") >= 0
    assert {name: value for name, value in of(first).items() if not name.startswith("turnchart.")} == {
        "gen_ai.operation.name": "chat", "gen_ai.conversation.id": agent.session.id,
        "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt", "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5, "gen_ai.request.max_tokens": 9, "gen_ai.response.model": "gpt",
        "gen_ai.response.finish_reasons": ("tool_call",), "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 5, "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.response.time_to_first_chunk": of(first)["gen_ai.response.time_to_first_chunk"],
    }  # fmt: skip
    turn = of(spans.one("invoke_agent helper"))
    assert (turn["gen_ai.operation.name"], turn["gen_ai.agent.name"]) == ("invoke_agent", "helper")
    assert (turn["turnchart.reason"], turn["turnchart.steps"], turn["turnchart.flow"]) == (
        "completed", 2, "small",
    )  # fmt: skip
    assert (turn["gen_ai.usage.input_tokens"], turn["gen_ai.usage.output_tokens"]) == (32, 6)
    call = of(spans.one("execute_tool add"))
    assert (call["gen_ai.tool.name"], call["gen_ai.tool.call.id"]) == ("add", "call1")
    assert call["turnchart.outcome"] == "ok"


async def test_what_was_said_is_left_out(spans: Spans) -> None:
    model = ScriptedModel([asks(ADDS, text="I add"), Failure("quota", message="spent by Ann")])
    await run(model, spans)
    assert "hello" not in (told := everything(spans))
    assert "I add" not in told
    assert "Ann" not in told
    assert '"a"' not in told


def everything(spans: Spans) -> str:
    return "\n".join(span.to_json() for span in spans.all)


async def test_what_was_said_is_recorded_on_request_without_keys(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT, "true")
    model = ScriptedModel([asks(ADDS, text="I add"), Reply("3", thinking="hm")])
    await run(model, spans, f"{HELLO} {KEY}", prompt="Be brief.")
    turn, chats = of(spans.one("invoke_agent helper")), [s for s in spans.all if s.name.startswith("chat")]
    assert json.loads(turn["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": f"{HELLO} [redacted openai_key]"}]}
    ]
    assert json.loads(of(chats[0])["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "I add"},
                {"type": "tool_call", "id": "call1", "name": "add", "arguments": {"a": 1, "b": 2}},
            ],
            "finish_reason": "tool_call",
        }
    ]
    assert json.loads(of(chats[1])["gen_ai.input.messages"])[-1] == {
        "role": "tool",
        "parts": [
            {"type": "tool_call_response", "id": "call1", "response": [{"type": "text", "content": "3"}]}
        ],
    }
    assert json.loads(of(chats[0])["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "Be brief."}
    ]
    assert json.loads(of(chats[1])["gen_ai.output.messages"])[0]["parts"][0]["type"] == "reasoning"
    call = of(spans.one("execute_tool add"))
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"a": 1, "b": 2}
    assert json.loads(call["gen_ai.tool.call.result"]) == [{"type": "text", "text": "3"}]
    assert KEY not in everything(spans)


async def test_a_chain_is_a_span_with_its_hooks_as_events(spans: Spans) -> None:
    def no(payload: PreTool) -> Deny:
        return Deny("not that")

    def watch(payload: PreTool) -> None:
        return None

    await run(ScriptedModel([asks(ADDS), "well"]), spans, hooks={"pre_tool": [watch, no]})
    hook = spans.one("hook.pre_tool")
    assert spans.above("hook.pre_tool") == "execute_tool add"
    assert [event.name for event in hook.events] == ["watch", "no"]
    assert of(hook) == {
        "turnchart.point": "pre_tool", "turnchart.step": 1, "turnchart.decision": "deny",
        "turnchart.by": "no",
    }  # fmt: skip
    call = spans.one("execute_tool add")
    assert (of(call)["error.type"], call.status.status_code) == ("denied", StatusCode.ERROR)


async def test_a_hook_that_fails_ends_its_span(spans: Spans) -> None:
    def breaks(payload: object) -> None:
        raise ValueError(f"no {KEY}")

    await run(ScriptedModel([]), spans, hooks={"request": [breaks]})
    hook, turn = spans.one("hook.request"), spans.one("invoke_agent helper")
    assert (of(hook)["error.type"], of(turn)["error.type"]) == ("HookFailed", "HookFailed")
    assert KEY not in everything(spans)


async def test_hooks_around_a_request_and_a_body(spans: Spans) -> None:
    async def around_stream(payload: Stream, next: Any) -> Any:
        return await next(payload)

    async def around_tool(payload: RunTool, next: Any) -> Any:
        return await next(payload)

    hooks = {"stream": [around_stream], "tool": [around_tool]}
    await run(ScriptedModel([asks(ADDS), "3"]), spans, hooks=hooks)
    assert spans.names.count("chat test") == 2
    assert spans.names.count("hook.stream") == 2
    assert spans.above("hook.tool") == "execute_tool add"


async def test_each_attempt_is_a_span(spans: Spans) -> None:
    model = ScriptedModel([Failure("overloaded", message="busy"), "fine"])
    agent = Agent(model, clock=FakeClock(), name="helper")
    trace(agent, provider=spans.provider, content=True)
    async with agent:
        await agent.prompt("go")
    chats = [span for span in spans.all if span.name.startswith("chat")]
    assert [of(chat).get("error.type") for chat in chats] == ["overloaded", None]
    assert chats[0].status.description == "busy"


async def test_an_approval_is_a_span_below_its_call(spans: Spans) -> None:
    async def yes(question: Question, /) -> Approve:
        return Approve()

    await run(ScriptedModel([asks(ADDS), "3"]), spans, approver=yes, permissions=Permissions(default="ask"))
    assert spans.above("approval") == "execute_tool add"
    assert of(spans.one("approval"))["turnchart.outcome"] == "approved"


async def test_what_a_tool_does_hangs_below_its_call(spans: Spans) -> None:
    tracer = spans.provider.get_tracer("mine")

    @tool
    async def fetch() -> str:
        """Fetch."""
        with tracer.start_as_current_span("GET"):
            return "page"

    @tool
    async def fails() -> str:
        """Fail."""
        raise ToolFailed("gone", "NotFound")

    model = ScriptedModel([Reply(tool_calls=[ToolCall("fetch"), ToolCall("fails")]), "done"])
    agent = Agent(model, tools=[fetch, fails], clock=FakeClock(), name="helper")
    trace(agent, provider=spans.provider)
    async with agent:
        with tracer.start_as_current_span("request"):
            await agent.prompt("go")
        assert api.get_current_span() is api.INVALID_SPAN
    assert spans.above("GET") == "execute_tool fetch"
    assert spans.above("invoke_agent helper") == "request"
    assert of(spans.one("execute_tool fails"))["error.type"] == "NotFound"


async def test_an_agent_that_is_a_tool_is_traced_with_its_caller(
    spans: Spans, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnchart.flows import load_flow

    (tmp_path / "inner.yaml").write_text("version: 1\nmodel: test\nname: inner\n", "utf-8")
    (tmp_path / "outer.yaml").write_text(
        "version: 1\nname: outer\nmodel: script:s.yaml\n"
        "tools: [{use: agent, as: inner, with: {file: inner.yaml}}]\n"
        "permissions: {default: allow}\n",
        "utf-8",
    )
    (tmp_path / "s.yaml").write_text("[{call: inner, args: {prompt: go}}, done]\n", "utf-8")
    agent = load_flow(tmp_path / "outer.yaml").agent()
    trace(agent, provider=spans.provider)
    async with agent:
        assert (await agent.prompt("go")).text == "done"
    assert spans.above("invoke_agent inner") == "execute_tool inner"
    assert spans.above("chat test") == "invoke_agent inner"


async def test_a_turn_that_is_cut_off_leaves_no_span_open(spans: Spans) -> None:
    @tool
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return ""

    model = ScriptedModel([Reply(tool_calls=[ToolCall("wait")])])
    agent = Agent(model, tools=[wait], name="helper")
    trace(agent, provider=spans.provider)
    async with agent:
        agent.follow_up("go")
        await agent.until(State.TOOLING)
        agent.go_on()
        await anyio.wait_all_tasks_blocked()
        agent.abort("user")
        await agent.idle()
    assert spans.names == ["chat test", "execute_tool wait", "invoke_agent helper"]
    assert of(spans.one("execute_tool wait"))["error.type"] == "aborted"
    assert of(spans.one("invoke_agent helper"))["turnchart.reason"] == "aborted"


async def test_tracing_changes_no_log_and_can_be_stopped(spans: Spans) -> None:
    def script() -> ScriptedModel:
        return ScriptedModel([asks(ADDS, ADDS), Failure("overloaded"), "3"])

    logs: list[Any] = []
    for traced in (False, True):
        agent = Agent(script(), tools=[add], clock=FakeClock(), seed=1)
        stop = trace(agent, provider=spans.provider) if traced else lambda: None
        async with agent:
            await agent.prompt("go")
            logs.append([(e.type, e.data) for e in agent.session.entries])
            stop()
            ended = len(spans.all)
            agent.model = ScriptedModel(default="ok")
            await agent.prompt("again")
            assert len(spans.all) == ended
    assert logs[0] == logs[1]


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnchart.machine.errors import TurnchartError

    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(TurnchartError, match=r"pip install 'turnchart\[otel\]'"):
        trace(Agent(ScriptedModel([])))


async def test_a_connection_that_breaks(spans: Spans) -> None:
    await run(ScriptedModel([ConnectionError("reset by Ann")]), spans, retry=RetryPolicy(max_attempts=1))
    chat, turn = spans.one("chat test"), spans.one("invoke_agent helper")
    assert of(chat)["error.type"] == of(turn)["error.type"] == "connection"
    assert "Ann" not in everything(spans)


class Stuck:
    """A model that begins to answer and never ends."""

    id = "some:stuck"

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        return PreparedCall(config, self.answer)

    async def answer(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        yield TextDelta("Half")
        await anyio.sleep_forever()


async def test_a_stream_that_is_cut_off(spans: Spans) -> None:
    agent = Agent(Stuck(), name="helper")
    trace(agent, provider=spans.provider, content=True)
    async with agent:
        agent.follow_up("go")
        await anyio.wait_all_tasks_blocked()
        agent.abort("user")
        await agent.idle()
    chat = of(spans.one("chat stuck"))
    assert (chat["error.type"], "gen_ai.response.finish_reasons" in chat) == ("aborted", False)
    assert json.loads(chat["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "Half"}]
    assert of(spans.one("invoke_agent helper"))["turnchart.reason"] == "aborted"


async def test_tracing_that_stops_in_a_turn_ends_its_spans(spans: Spans) -> None:
    agent = Agent(ScriptedModel([asks(ADDS), "3"]), tools=[add], name="helper", clock=FakeClock())
    stop = trace(agent, provider=spans.provider)
    async with agent:
        agent.follow_up("go")
        await agent.until(State.TOOLING)
        stop()
        assert spans.names == ["chat test", "invoke_agent helper"]
        agent.go_on()
        await agent.idle()
    assert spans.names == ["chat test", "invoke_agent helper"]
