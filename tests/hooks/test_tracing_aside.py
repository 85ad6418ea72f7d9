"""Requests beside the conversation are traced too: summaries, and questions that hooks ask."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any

import anyio
import pytest
from tests.hooks.test_tracing import ADDS, HELLO, Spans, add, asks, everything, of

from turnchart.hooks.builtin.model_judge import model_judge
from turnchart.hooks.tracing import trace
from turnchart.machine.abort import AbortSignal
from turnchart.machine.agent import Agent
from turnchart.machine.config import RetryPolicy
from turnchart.machine.errors import CompactionFailed
from turnchart.machine.messages import Failure
from turnchart.machine.models import Chunk, Finish, ModelRequest, PreparedCall, RequestConfig, TextDelta
from turnchart.machine.points import PreTool
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.testing import FakeClock

SUMMARY = Reply("short", usage={"input": 30, "output": 2})
LONG = "word " * 400


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


def asides(spans: Spans) -> list[dict[str, Any]]:
    return [of(span) for span in spans.all if "turnchart.purpose" in of(span)]


async def test_a_summary_that_somebody_asks_for_is_a_chat(spans: Spans) -> None:
    model = ScriptedModel(["a" * 500, "b", SUMMARY], id="openai:gpt")
    agent = Agent(model, clock=FakeClock(), name="helper")
    trace(agent, provider=spans.provider)
    tracer = spans.provider.get_tracer("mine")
    async with agent:
        await agent.prompt(HELLO)
        await agent.prompt("and?")
        with tracer.start_as_current_span("tidy up"):
            await agent.compact()
    [summary] = asides(spans)
    assert summary == summary | {
        "turnchart.purpose": "summary", "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt",
        "gen_ai.conversation.id": agent.session.id, "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 2, "gen_ai.response.finish_reasons": ("stop",),
    }  # fmt: skip
    above = {span.context.span_id: span.name for span in spans.all if span.context}
    [span] = [span for span in spans.all if of(span) == summary]
    assert span.parent is not None
    assert above[span.parent.span_id] == "tidy up"
    assert "hello" not in everything(spans)


async def test_a_summary_within_a_turn_hangs_below_the_turn(spans: Spans) -> None:
    model = ScriptedModel([LONG, LONG, Failure("overloaded"), SUMMARY, "c"], context_window=1000)
    agent = Agent(model, clock=FakeClock(), name="helper")
    trace(agent, provider=spans.provider, content=True)
    async with agent:
        for said in ("one", "two", "three"):
            await agent.prompt(said)
    turns = {
        span.context.span_id: of(span)["turnchart.turn"]
        for span in spans.all
        if span.name == "invoke_agent helper" and span.context
    }
    tried = [span for span in spans.all if of(span).get("turnchart.purpose") == "summary"]
    assert [of(span).get("error.type") for span in tried] == ["overloaded", None]
    assert [turns[span.parent.span_id] for span in tried if span.parent] == [3, 3]
    assert "Summarise" in str(of(tried[1])["gen_ai.input.messages"])
    assert "short" in str(of(tried[1])["gen_ai.output.messages"])


async def test_a_question_of_a_hook_hangs_below_its_chain(spans: Spans) -> None:
    async def judged(payload: PreTool) -> Any:
        return await model_judge(payload, model="judge", prompt="Nothing that adds.")

    judge = ScriptedModel(["deny: it adds"], id="judge")
    agent = Agent(
        ScriptedModel([asks(ADDS), "well"]), tools=[add], hooks={"pre_tool": [judged]},
        models={"judge": judge}, clock=FakeClock(), name="helper",
    )  # fmt: skip
    trace(agent, provider=spans.provider)
    async with agent:
        await agent.prompt("go")
    assert spans.above("chat judge") == "hook.pre_tool"
    assert spans.above("hook.pre_tool") == "execute_tool add"
    assert of(spans.one("chat judge"))["turnchart.purpose"] == "question"


async def test_the_summary_of_a_branch_is_a_chat(spans: Spans) -> None:
    agent = Agent(ScriptedModel(["a", "b", SUMMARY]), clock=FakeClock(), name="helper")
    stop = trace(agent, provider=spans.provider)
    async with agent:
        await agent.prompt("x")
        at = len(agent.session.entries) - 1
        await agent.prompt("y")
        await agent.navigate(at, summarize=True)
        [summary] = asides(spans)
        assert (summary["turnchart.purpose"], summary["gen_ai.usage.output_tokens"]) == ("summary", 2)
        stop()
        assert agent.watch_aside is None


class Stuck:
    """A model whose second answer begins and does not end."""

    id = "stuck"

    def __init__(self) -> None:
        self.asked = 0
        self.closed = False

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        return PreparedCall(config, self.answer)

    async def answer(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        self.asked += 1
        if self.asked < 3:
            yield TextDelta(LONG)
            yield Finish("stop")
            return
        try:
            yield TextDelta("Half")
            await anyio.sleep_forever()
        finally:
            self.closed = True


async def test_a_summary_that_is_cut_off_is_closed_at_once(spans: Spans) -> None:
    model = Stuck()
    agent = Agent(model, name="helper", retry=RetryPolicy(max_attempts=1))
    trace(agent, provider=spans.provider)
    async with agent:
        await agent.prompt("x")
        await agent.prompt("y")
        async with anyio.create_task_group() as group:

            async def compact() -> None:
                with pytest.raises(CompactionFailed, match="cut off"):
                    await agent.compact()

            group.start_soon(compact)
            await anyio.wait_all_tasks_blocked()
            agent.abort("user")
    assert model.closed
    [summary] = asides(spans)
    assert summary["error.type"] == "aborted"
